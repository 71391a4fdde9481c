// SPDX-License-Identifier: Apache-2.0
// Many threads, mixed calls of both halves, random faults: every call succeeds or returns a documented code, nothing
// crashes, nothing leaks.
#include <dlfcn.h>

#include <random>
#include <thread>
#include <tuple>

#include "mdl_harness.h"

static bool documented(aclError code) {
  switch (code) {
    case ACL_SUCCESS:
#define CODE_CASE(name, value) case value:
      ACL_ERRORS(CODE_CASE)
#undef CODE_CASE
      return true;
    default:
      return false;
  }
}

namespace {

constexpr const char* kOms[] = {"static", "batch", "range"};
constexpr const char* kFaulty[] = {"aclmdlLoadFromFile", "aclmdlExecute",      "aclmdlExecuteAsync",
                                   "aclmdlUnload",       "aclmdlGetDesc",      "aclmdlCreateDataset",
                                   "aclrtMalloc",        "aclrtFree",          "aclrtMemcpyAsync",
                                   "aclrtCreateStream",  "aclrtMallocHost",    "aclmdlSetDynamicBatchSize",
                                   "aclrtRecordEvent",   "aclCreateDataBuffer"};
constexpr const char* kEffects[] = {"task", "delay"};

template <class Function>
Function hook(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  TRUE(found);
  return reinterpret_cast<Function>(found);
}
int64_t counter(const std::string& name) { return hook<int64_t (*)(const char*)>("acl_cpu_counter")(name.c_str()); }

// One thread's own objects. Whatever a fault keeps from being made is nullptr and not used.
struct Worker {
  explicit Worker(unsigned seed) : random(seed), kind(seed % 3) {}

  aclError call(aclError code) {
    ++calls;
    if (!documented(code)) failed(__FILE__, __LINE__, "undocumented code " + std::to_string(code));
    return code;
  }
  size_t pick(size_t count) { return random() % count; }

  void load() {
    if (loaded || call(aclmdlLoadFromFile(path(kOms[kind]).c_str(), &id))) return;
    loaded = true;
    desc = aclmdlCreateDesc();
    if (!desc || call(aclmdlGetDesc(desc, id))) return;
    for (auto [dataset, count, size] : {std::tuple(&in, aclmdlGetNumInputs(desc), &aclmdlGetInputSizeByIndex),
                                        std::tuple(&out, aclmdlGetNumOutputs(desc), &aclmdlGetOutputSizeByIndex)}) {
      *dataset = aclmdlCreateDataset();
      for (size_t i = 0; *dataset && i < count; ++i) {
        void* memory = nullptr;
        size_t nbytes = std::max<size_t>(size(desc, i), 3200);
        if (call(aclrtMalloc(&memory, nbytes, ACL_MEM_MALLOC_HUGE_FIRST))) return;
        device.push_back(memory);
        aclDataBuffer* buffer = aclCreateDataBuffer(memory, nbytes);
        if (!buffer) return;
        buffers.push_back(buffer);
        if (call(aclmdlAddDatasetBuffer(*dataset, buffer))) return;
      }
    }
    if (kind == 2 && in) {
      int64_t dims[] = {2, 3, 5};
      aclTensorDesc* shape = aclCreateTensorDesc(ACL_FLOAT, 3, dims, ACL_FORMAT_ND);
      if (shape) call(aclmdlSetDatasetTensorDesc(in, shape, 0));
      aclDestroyTensorDesc(shape);
    }
  }

  // Ends everything; a release that was made to fail is done again.
  void end() {
    if (stream) call(aclrtSynchronizeStream(stream));
    auto again = [&](auto release) {
      for (int attempt = 0; call(release()) != ACL_SUCCESS; ++attempt) TRUE(attempt < 50);
    };
    if (loaded) again([&] { return aclmdlUnload(id); });
    for (aclmdlDataset* dataset : {in, out})
      if (dataset) again([&] { return aclmdlDestroyDataset(dataset); });
    for (aclDataBuffer* buffer : buffers) again([&] { return aclDestroyDataBuffer(buffer); });
    if (desc) again([&] { return aclmdlDestroyDesc(desc); });
    for (void* memory : device) again([&] { return aclrtFree(memory); });
    if (pinned) again([&] { return aclrtFreeHost(pinned); });
    if (event) again([&] { return aclrtDestroyEvent(event); });
    if (stream) again([&] { return aclrtDestroyStream(stream); });
    buffers.clear();
    device.clear();
    in = out = nullptr;
    desc = nullptr;
    pinned = nullptr;
    event = nullptr;
    stream = nullptr;
    loaded = false;
  }

  void step() {
    switch (pick(12)) {
      case 0:
        return load();
      case 1:
        if (pick(8) == 0) end();
        return;
      case 2:
        if (!stream) call(aclrtCreateStream(&stream));
        return;
      case 3:
        if (!pinned) call(aclrtMallocHost(&pinned, 3200));
        return;
      case 4:
        if (!event) call(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
        return;
      case 5:
        if (stream && event) call(aclrtRecordEvent(event, stream));
        return;
      case 6:
        if (stream && pinned && !device.empty())
          call(aclrtMemcpyAsync(device[0], 24, pinned, 24, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        return;
      case 7:
        if (loaded && kind == 1 && in)
          call(aclmdlSetDynamicBatchSize(id, in, aclmdlGetDatasetNumBuffers(in) - 1, uint64_t(1) << pick(5)));
        return;
      case 8:
        if (stream) call(aclrtSynchronizeStreamWithTimeout(stream, int32_t(pick(3)) - 1));
        return;
      case 9:
        if (!loaded || !in || !out || pick(4) != 0) return;
        if (stream) call(aclrtSynchronizeStream(stream));  // it writes what the blocking call reads
        call(aclmdlExecute(id, in, out));
        return;
      case 10:
        if (stream && pick(20) == 0) call(aclrtStreamAbort(stream));
        return;
      default:
        if (stream && loaded && in && out) call(aclmdlExecuteAsync(id, in, out, stream));
    }
  }

  std::mt19937 random;
  size_t kind, calls = 0;
  uint32_t id = 0;
  bool loaded = false;
  aclmdlDesc* desc = nullptr;
  aclmdlDataset *in = nullptr, *out = nullptr;
  std::vector<aclDataBuffer*> buffers;
  std::vector<void*> device;
  void* pinned = nullptr;
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
};

}  // namespace

CPU_CASE(mixed_calls_of_64_threads_with_random_faults, "16 no crash, documented codes, counters back to zero") {
  auto fail_call = hook<int (*)(const char*, int64_t, int)>("acl_cpu_fail");
  auto inject = hook<int (*)(const char*)>("acl_cpu_inject");
  {
    Device session;
    aclrtContext context;
    OK(aclrtGetCurrentContext(&context));
    std::vector<Worker> workers;
    for (unsigned seed = 0; seed < 64; ++seed) workers.emplace_back(seed);
    std::vector<std::thread> threads;
    for (Worker& worker : workers) {
      threads.emplace_back([&, context] {
        OK(aclrtSetCurrentContext(context));
        while (worker.calls < 1000) {
          if (worker.pick(60) == 0) {
            aclError codes[] = {ACL_ERROR_RT_DRV_INTERNAL_ERROR, ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_GE_FAILURE};
            fail_call(kFaulty[worker.pick(std::size(kFaulty))], int64_t(1 + worker.pick(20)), codes[worker.pick(3)]);
          }
          if (worker.pick(200) == 0) {
            char fault[160];
            snprintf(fault, sizeof fault,
                     "{\"entry\": \"%s\", \"effect\": \"%s\", \"code\": 507015, \"delay_us\": 500}",
                     worker.pick(2) ? "aclmdlExecuteAsync" : "aclrtMemcpyAsync", kEffects[worker.pick(2)]);
            inject(fault);
          }
          worker.step();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    TRUE(counter("calls.aclmdlExecuteAsync") > 1000);
    for (const char* entry : kFaulty) fail_call(entry, 0, 0);
    for (Worker& worker : workers) worker.end();
    for (const char* kind :
         {"model", "dataset", "data_buffer", "tensor_desc", "desc", "device_memory", "host_memory", "stream", "event"})
      EQ(counter(std::string("live.") + kind), 0);
    EQ(counter("bytes.device"), 0);
    EQ(counter("bytes.pinned"), 0);
  }
  EQ(counter("live.context"), 0);
}
