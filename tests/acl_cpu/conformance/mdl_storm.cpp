// SPDX-License-Identifier: Apache-2.0
// Threads that use handles which other threads destroy, and handles of what is long gone.
#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "mdl_harness.h"

namespace {

constexpr size_t kThreads = 16, kRounds = 400, kSlots = 4, kShare = 64;
constexpr size_t kMemory = kThreads * kRounds * 2 * kShare;  // every round has bytes of its own: contents do not race

bool documented(aclError code) {
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
void checked(aclError code) {
  if (!documented(code)) failed(__FILE__, __LINE__, "undocumented code " + std::to_string(code));
}

// What all threads use and end at any time. Slots keep stale handles: that is the point.
struct Shared {
  std::array<std::atomic<void*>, kSlots> streams{}, events{}, contexts{}, device{}, pinned{};
  std::array<std::atomic<uint32_t>, kSlots> models{};
};

void storm(Shared& shared, aclrtContext home, size_t thread) {
  std::mt19937 random{uint32_t(thread)};
  auto pick = [&](size_t count) { return random() % count; };
  auto any = [&](auto& slots) { return slots[pick(kSlots)].load(); };
  auto put = [&](auto& slots, auto made, aclError code) {
    checked(code);
    if (code == ACL_SUCCESS) slots[pick(kSlots)] = made;  // what was there is lost, unless another slot has it
  };
  size_t mine = 0;
  auto part = [&](void* base) { return base == nullptr ? nullptr : static_cast<char*>(base) + mine; };
  Dataset in, out;
  aclDataBuffer* buffers[3];
  for (size_t i = 0; i < 3; ++i) {
    buffers[i] = aclCreateDataBuffer(nullptr, kShare);
    OK(aclmdlAddDatasetBuffer(i < 2 ? in.it : out.it, buffers[i]));
  }
  OK(aclrtSetCurrentContext(home));
  for (size_t round = 0; round < kRounds; ++round) {
    mine = (thread * kRounds + round) * 2 * kShare;
    void *made = nullptr, *stream = any(shared.streams), *event = any(shared.events);
    aclError code;
    uint32_t id = 0;
    int32_t number;
    aclrtStreamStatus status;
    aclrtEventRecordedStatus recorded;
    switch (pick(20)) {
      case 0:
        code = aclrtCreateStream(&made);
        put(shared.streams, made, code);
        break;
      case 1:
        code = aclrtCreateEventExWithFlag(&made, ACL_EVENT_SYNC);
        put(shared.events, made, code);
        break;
      case 2:
        if (pick(4)) break;
        code = aclrtCreateContext(&made, 0);
        put(shared.contexts, made, code);
        break;
      case 3:
        checked(aclrtMalloc(&made, kMemory, ACL_MEM_MALLOC_HUGE_FIRST));
        checked(aclrtFree(shared.device[pick(kSlots)].exchange(made)));
        break;
      case 4:
        checked(aclrtMallocHost(&made, kMemory));
        checked(aclrtFreeHost(shared.pinned[pick(kSlots)].exchange(made)));
        break;
      case 5:
        code = aclmdlLoadFromFile(path("small").c_str(), &id);
        put(shared.models, id, code);
        break;
      case 6:
        checked(pick(2) ? aclrtDestroyStream(stream) : aclrtDestroyStreamForce(stream));
        break;
      case 7:
        checked(aclrtDestroyEvent(event));
        break;
      case 8:
        if (pick(4) == 0) checked(aclrtDestroyContext(any(shared.contexts)));
        break;
      case 9:
        checked(aclrtFree(any(shared.device)));
        break;
      case 10:
        checked(aclrtFreeHost(any(shared.pinned)));
        break;
      case 11:
        checked(aclmdlUnload(any(shared.models)));
        break;
      case 12:
        checked(aclrtSetCurrentContext(pick(4) ? home : any(shared.contexts)));
        break;
      case 13:
        checked(aclrtRecordEvent(event, stream));
        break;
      case 14:
        checked(aclrtSynchronizeStreamWithTimeout(stream, 20));
        checked(aclrtStreamQuery(stream, &status));
        break;
      case 15:
        checked(aclrtQueryEventStatus(event, &recorded));
        checked(aclrtSynchronizeEventWithTimeout(event, 5));
        break;
      case 16:
        checked(aclrtStreamGetId(stream, &number));
        checked(aclrtStreamWaitEvent(stream, event));
        break;
      case 17:
        checked(aclrtMemcpyAsync(part(any(shared.device)), kShare, part(any(shared.pinned)), kShare,
                                 ACL_MEMCPY_HOST_TO_DEVICE, pick(8) ? stream : nullptr));
        break;
      case 18:
        if (pick(10) == 0) checked(aclrtStreamAbort(stream));
        if (pick(10) == 0) checked(aclrtSynchronizeDeviceWithTimeout(20));
        break;
      default:
        for (size_t i = 0; i < 3; ++i) {
          char* at = part(any(shared.device));
          OK(aclUpdateDataBuffer(buffers[i], at == nullptr ? nullptr : at + (i < 2 ? 0 : kShare), kShare));
        }
        checked(aclmdlExecuteAsync(any(shared.models), in.it, out.it, stream));
    }
  }
  for (aclDataBuffer* buffer : buffers) OK(aclDestroyDataBuffer(buffer));
}

}  // namespace

CPU_CASE(threads_use_what_others_destroy, "16 handles that end while they are used give a documented code") {
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  aclrtContext home;
  OK(aclrtGetCurrentContext(&home));
  Shared shared;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) threads.emplace_back(storm, std::ref(shared), home, thread);
  for (std::thread& thread : threads) thread.join();
  OK(aclrtResetDeviceForce(0));
  OK(aclFinalize());
}

CPU_CASE(dead_handles, "16 objects that were destroyed are known as such") {
  Device device;
  aclDataBuffer* buffer = aclCreateDataBuffer(nullptr, 8);
  OK(aclDestroyDataBuffer(buffer));
  CODE(ACL_ERROR_INVALID_PARAM, aclDestroyDataBuffer(buffer));
  CODE(ACL_ERROR_INVALID_PARAM, aclUpdateDataBuffer(buffer, &device, 4));
  EQ(aclGetDataBufferSizeV2(buffer), 0u);
  aclmdlDataset* dataset = aclmdlCreateDataset();
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlAddDatasetBuffer(dataset, buffer));
  OK(aclmdlDestroyDataset(dataset));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyDataset(dataset));
  EQ(aclmdlGetDatasetNumBuffers(dataset), 0u);
  aclmdlDesc* desc = aclmdlCreateDesc();
  OK(aclmdlGetDescFromFile(desc, path("static").c_str()));
  OK(aclmdlDestroyDesc(desc));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyDesc(desc));
  EQ(aclmdlGetNumInputs(desc), 0u);
  aclTensorDesc* tensor = aclCreateTensorDesc(ACL_FLOAT, 0, nullptr, ACL_FORMAT_ND);
  aclDestroyTensorDesc(tensor);
  aclDestroyTensorDesc(tensor);
  EQ(aclGetTensorDescType(tensor), ACL_DT_UNDEFINED);
  aclmdlConfigHandle* config = aclmdlCreateConfigHandle();
  OK(aclmdlDestroyConfigHandle(config));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyConfigHandle(config));
  aclmdlExecConfigHandle* exec = aclmdlCreateExecConfigHandle();
  OK(aclmdlDestroyExecConfigHandle(exec));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyExecConfigHandle(exec));
}

CPU_CASE(execute_with_a_dead_buffer, "3.9 a data buffer that was destroyed before the call is noticed") {
  Device device;
  Loaded model("static");
  aclDataBuffer* gone = aclCreateDataBuffer(nullptr, 8);
  Dataset in;
  in.add(24);
  OK(aclmdlAddDatasetBuffer(in.it, gone));
  OK(aclDestroyDataBuffer(gone));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecute(model.id, in.it, model.out.it));
}

CPU_CASE(descs_of_a_dataset_are_its_own,
         "3.9 output descs belong to the dataset and are not destroyed by the program") {
  Device device;
  Loaded model("range", false);
  model.in.add(8 * 3 * 5 * 4);
  model.in.shape(0, ACL_FLOAT, {2, 3, 5});
  model.out.add(1000);
  model.out.add(1000);
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  aclTensorDesc* desc = aclmdlGetDatasetTensorDesc(model.out.it, 0);
  TRUE(desc);
  aclDestroyTensorDesc(desc);
  EQ(aclGetTensorDescNumDims(desc), 2u);
}
