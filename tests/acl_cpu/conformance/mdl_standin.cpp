// SPDX-License-Identifier: Apache-2.0
// What only the CPU implementation has: counters, faults, configuration (all cpu-only).
#include <dlfcn.h>

#include "mdl_harness.h"

static int64_t counter(const std::string& name) {
  static auto read = reinterpret_cast<int64_t (*)(const char*)>(dlsym(RTLD_DEFAULT, "acl_cpu_counter"));
  TRUE(read);
  return read(name.c_str());
}

static void fail_call(const char* entry, int64_t kth, int code) {
  static auto arm = reinterpret_cast<int (*)(const char*, int64_t, int)>(dlsym(RTLD_DEFAULT, "acl_cpu_fail"));
  TRUE(arm);
  OK(arm(entry, kth, code));
}

static void expect_nothing_left() {
  for (const char* kind : {"model", "dataset", "data_buffer", "tensor_desc", "desc", "device_memory", "stream"})
    EQ(counter(std::string("live.") + kind), 0);
  EQ(counter("bytes.device"), 0);
}

CPU_CASE(counters_return_to_zero, "16 every object that was made is counted until it is gone") {
  Device device;
  {
    Loaded model("static"), range("range", false);
    Stream stream;
    EQ(counter("live.model"), 2);
    EQ(counter("live.desc"), 2);
    EQ(counter("live.dataset"), 4);
    EQ(counter("live.data_buffer"), 4);
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    stream.wait();
    OK(aclmdlExecute(range.id, range.in.it, range.out.it) == ACL_ERROR_INVALID_PARAM ? ACL_SUCCESS : ACL_ERROR_FAILURE);
  }
  expect_nothing_left();
}

CPU_CASE(executing_allocates_nothing, "3.9 execution takes no device memory and makes no objects") {
  Device device;
  Loaded model("batch");
  Stream stream;
  auto execute = [&](uint64_t batch) {
    OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, batch));
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    stream.wait();
  };
  execute(8);
  int64_t bytes = counter("bytes.device"), mallocs = counter("calls.aclrtMalloc"),
          objects = counter("live.data_buffer");
  for (uint64_t i = 0; i < 400; ++i) execute(uint64_t(1) << i % 4);
  EQ(counter("bytes.device"), bytes);
  EQ(counter("calls.aclrtMalloc"), mallocs);
  EQ(counter("live.data_buffer"), objects);
  EQ(counter("calls.aclmdlExecuteAsync"), 401);
}

CPU_CASE(injected_faults, "the k-th call of an entry point fails with a code, and leaves nothing behind") {
  Device device;
  {
    uint32_t id;
    fail_call("aclmdlLoadFromFile", 2, ACL_ERROR_RT_MEMORY_ALLOCATION);
    Loaded model("static");
    CODE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclmdlLoadFromFile(path("static").c_str(), &id));
    EQ(counter("live.model"), 1);
    fail_call("aclmdlExecuteAsync", 1, ACL_ERROR_GE_FAILURE);
    Stream stream;
    aclError first = aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it);
    aclError second = aclrtSynchronizeStream(stream.it);
    TRUE(first == ACL_ERROR_GE_FAILURE || second == ACL_ERROR_GE_FAILURE);
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    stream.wait();
    fail_call("aclmdlCreateDataset", 1, ACL_ERROR_BAD_ALLOC);
    TRUE(!aclmdlCreateDataset());
    fail_call("aclmdlUnload", 1, ACL_ERROR_GE_UNLOAD_MODEL);
    CODE(ACL_ERROR_GE_UNLOAD_MODEL, aclmdlUnload(model.id));
  }
  expect_nothing_left();
}

CPU_CASE(load_out_of_memory, "3.4 no room for weights → 207001, nothing stays allocated") {
  configure("{\"hbm_bytes\": 1048576}");
  Device device;
  uint32_t id;
  CODE(ACL_ERROR_RT_MEMORY_ALLOCATION, aclmdlLoadFromFile(path("heavy").c_str(), &id));
  expect_nothing_left();
}

CPU_CASE(configured_time, "5 exec_us of the configuration is a lower bound on top of the model's own") {
  configure("{\"exec_us\": [30000]}");
  Device device;
  Loaded fast("static"), slow("slow");
  double start = now_ms();
  OK(aclmdlExecute(fast.id, fast.in.it, fast.out.it));
  TRUE(now_ms() - start >= 30);
  start = now_ms();
  OK(aclmdlExecute(slow.id, slow.in.it, slow.out.it));
  TRUE(now_ms() - start >= 50);
}

CPU_CASE(configured_soc, "1.6 the device's name decides which oms load") {
  configure("{\"soc_name\": \"Ascend310P3\"}");
  Device device;
  uint32_t id;
  OK(aclmdlLoadFromFile(path("soc310").c_str(), &id));
  OK(aclmdlUnload(id));
  CODE(ACL_ERROR_RT_SOC_VERSION, aclmdlLoadFromFile(path("static").c_str(), &id));
}

CPU_CASE(context_drops_models, "3.2 a destroyed context takes its models with it") {
  Device device;
  aclrtContext first, other;
  OK(aclrtGetCurrentContext(&first));
  OK(aclrtCreateContext(&other, 0));
  uint32_t id;
  {
    Loaded model("static");
    id = model.id;
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    model.loaded = false;
    OK(aclrtDestroyContext(other));
    OK(aclrtSetCurrentContext(first));
  }
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlUnload(id));
  expect_nothing_left();
}

CPU_CASE(reset_while_busy, "3.2 a reset with work queued ends it") {
  Device device;
  uint32_t id;
  {
    Loaded model("slow");
    id = model.id;
    model.loaded = false;
    aclrtStream stream;
    OK(aclrtCreateStream(&stream));
    for (int i = 0; i < 3; ++i) OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream));
    OK(aclrtResetDeviceForce(0));
    OK(aclrtSetDevice(0));
    for (Dataset* dataset : {&model.in, &model.out})
      for (Buffer* buffer : dataset->buffers) buffer->data = nullptr;  // gone with the device
  }
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlUnload(id));
  expect_nothing_left();
}
