// SPDX-License-Identifier: Apache-2.0
// What the CPU implementation adds: faults on request, counters, timing (design 5).
#include "rt_harness.h"

using Clock = std::chrono::steady_clock;

CPU_CASE(the_kth_call_fails, "7") {
  Session session;
  void* memory = nullptr;
  fail_call("aclrtMalloc", 2, 207001);
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(memory));
  FAILS(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(memory));
}

CPU_CASE(zero_clears_a_fault, "7") {
  Session session;
  fail_call("aclrtSynchronizeDevice", 1, 507901);
  fail_call("aclrtSynchronizeDevice", 0, 0);
  OK(aclrtSynchronizeDevice());
}

CPU_CASE(faults_of_unknown_entries_are_refused, "7") {
  EXPECT(hook<int (*)(const char*, int64_t, int)>("acl_cpu_fail")("aclrtNothing", 1, 5), -1);
  EXPECT(hook<int (*)(const char*)>("acl_cpu_inject")("{\"entry\": \"aclrtMalloc\", \"often\": 1}"), -1);
  TRUE(std::strstr(aclGetRecentErrMsg(), "often") != nullptr);
}

CPU_CASE(faults_come_from_the_configuration, "7") {
  configure("{\"faults\": [{\"entry\": \"aclrtMalloc\", \"kth\": 1, \"code\": 507899}]}");
  OK(aclrtSetDevice(0));
  void* memory;
  FAILS(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), 507899);
}

CPU_CASE(a_hanging_task_is_ended_by_abort, "7") {
  WithStream session;
  Device memory(64);
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"hang\"}");
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  FAILS(aclrtSynchronizeStreamWithTimeout(session.stream, 30), 507046);
  OK(aclrtStreamAbort(session.stream));
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  OK(aclrtSynchronizeStreamWithTimeout(session.stream, 5000));
}

CPU_CASE(a_hanging_task_ends_at_the_op_timeout_with_507014, "3.11") {
  WithStream session;
  Device memory(64);
  OK(aclrtSetOpExecuteTimeOutWithMs(30));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"hang\"}");
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  FAILS(aclrtSynchronizeStreamWithTimeout(session.stream, 5000), 507014);
}

CPU_CASE(a_process_may_exit_with_work_in_flight, "3.1") {
  OK(aclrtSetDevice(0));
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  void* memory;
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < 1000; ++i) OK(aclrtMemsetAsync(memory, 64, 1, 64, stream));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"hang\"}");
  OK(aclrtMemsetAsync(memory, 64, 1, 64, stream));
}

CPU_CASE(a_hanging_task_is_ended_by_a_forced_reset, "7") {
  OK(aclrtSetDevice(0));
  aclrtStream stream;
  void* memory;
  OK(aclrtCreateStream(&stream));
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"hang\"}");
  OK(aclrtMemsetAsync(memory, 64, 1, 64, stream));
  OK(aclrtResetDeviceForce(0));
  EXPECT(counter("live.stream"), 0);
}

CPU_CASE(a_delayed_task_completes_late, "7") {
  Held session;
  Device memory(64);
  aclrtEvent start, end;
  OK(aclrtCreateEvent(&start));
  OK(aclrtCreateEvent(&end));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"delay\", \"delay_us\": 60000}");
  OK(aclrtRecordEvent(start, session.stream));
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  OK(aclrtRecordEvent(end, session.stream));
  session.release();
  OK(aclrtSynchronizeStream(session.stream));
  float ms = 0;
  OK(aclrtEventElapsedTime(&ms, start, end));
  TRUE(ms >= 60);
  OK(aclrtDestroyEvent(start));
  OK(aclrtDestroyEvent(end));
}

CPU_CASE(a_lost_device_comes_back_by_forced_reset, "7") {
  OK(aclrtSetDevice(0));
  aclrtStream stream;
  void *memory = nullptr, *more = nullptr;
  OK(aclrtCreateStream(&stream));
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"device_lost\"}");
  FAILS(aclrtMemsetAsync(memory, 64, 1, 64, stream), 507901);
  FAILS(aclrtMalloc(&more, 64, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
  char byte = 0;
  FAILS(aclrtMemcpy(memory, 1, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE), 507899);
  FAILS(aclrtSynchronizeStream(stream), 507901);
  aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_NORMAL;
  OK(aclrtQueryDeviceStatus(0, &status));
  EXPECT(status, ACL_RT_DEVICE_STATUS_ABNORMAL);
  FAILS(aclrtSetDevice(0), 507033);
  OK(aclrtResetDeviceForce(0));
  OK(aclrtSetDevice(0));
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
}

CPU_CASE(counters_count_calls_and_objects, "design 5") {
  Session session;
  hook<void (*)()>("acl_cpu_reset_counters")();
  aclrtStream stream;
  aclrtEvent event;
  OK(aclrtCreateStream(&stream));
  OK(aclrtCreateEvent(&event));
  {
    Device memory(10000);
    Pinned host(5000);
    EXPECT(counter("live.stream"), 1);
    EXPECT(counter("live.event"), 1);
    EXPECT(counter("live.device_memory"), 1);
    EXPECT(counter("live.host_memory"), 1);
    EXPECT(counter("bytes.pinned"), 5000);
    EXPECT(counter("bytes.device"), 12288);
  }
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(stream));
  for (auto* name :
       {"live.stream", "live.event", "live.device_memory", "live.host_memory", "bytes.device", "bytes.pinned"}) {
    EXPECT(counter(name), 0);
  }
  EXPECT(counter("peak.device"), 12288);
  EXPECT(counter("calls.aclrtMalloc"), 1);
  EXPECT(counter("calls.aclrtFreeHost"), 1);
  EXPECT(counter("calls.aclrtNothing"), -1);
  std::string json = hook<const char* (*)()>("acl_cpu_counters_json")();
  TRUE(json.find("\"aclrtMalloc\": 1") != std::string::npos);
}

CPU_CASE(copies_last_as_long_as_configured, "design 5") {
  configure("{\"h2d\": {\"latency_us\": 20000}, \"d2h\": {\"gbps\": 0.001}}");
  WithStream session;
  Device memory(20000);
  Pinned host(20000);
  auto start = Clock::now();
  OK(aclrtMemcpyAsync(memory.at, 20000, host.at, 20000, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  OK(aclrtMemcpyAsync(host.at, 20000, memory.at, 20000, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  TRUE(seconds_since(start) >= 0.0399);
}

CPU_CASE(a_synchronous_copy_lasts_as_long_as_configured, "design 5") {
  configure("{\"h2d\": {\"latency_us\": 20000}}");
  OK(aclrtSetDevice(0));
  Device memory(64);
  char data[64] = {};
  auto start = Clock::now();
  OK(aclrtMemcpy(memory.at, 64, data, 64, ACL_MEMCPY_HOST_TO_DEVICE));
  TRUE(seconds_since(start) >= 0.0199);
}

CPU_CASE(streams_share_the_copy_engine, "design 5") {
  configure("{\"h2d\": {\"latency_us\": 20000}}");
  Session session;
  Device memory(256);
  Pinned host(256);
  aclrtStream streams[4];
  auto start = Clock::now();
  for (int i = 0; i < 4; ++i) {
    OK(aclrtCreateStream(&streams[i]));
    void* at = static_cast<char*>(memory.at) + 64 * i;
    OK(aclrtMemcpyAsync(at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, streams[i]));
  }
  OK(aclrtSynchronizeDevice());
  TRUE(seconds_since(start) >= 0.0799);
  for (auto* stream : streams) OK(aclrtDestroyStream(stream));
}

CPU_CASE(virtual_time_of_events_is_exact, "design 5") {
  configure_own(64 << 20, ", \"h2d\": {\"latency_us\": 5000}");
  Held session;  // everything is queued before it runs: what the host needs to queue it is not measured
  Device memory(64);
  Pinned host(64);
  aclrtEvent start, end;
  OK(aclrtCreateEvent(&start));
  OK(aclrtCreateEvent(&end));
  OK(aclrtRecordEvent(start, session.stream));
  for (int i = 0; i < 4; ++i) {
    OK(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  }
  OK(aclrtRecordEvent(end, session.stream));
  session.release();
  OK(aclrtSynchronizeStream(session.stream));
  float ms = 0;
  OK(aclrtEventElapsedTime(&ms, start, end));
  TRUE(ms > 19.999f && ms < 20.001f);
  OK(aclrtDestroyEvent(start));
  OK(aclrtDestroyEvent(end));
}
