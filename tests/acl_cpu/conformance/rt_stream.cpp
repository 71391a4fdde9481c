// SPDX-License-Identifier: Apache-2.0
// Streams, events, callbacks (facts 2.5, 2.6, 2.8, 3.2, 3.6, 3.7, 3.11).
#include <sys/syscall.h>

#include <fstream>

#include "rt_harness.h"

CASE(streams_are_made_and_destroyed, "2.5") {
  Session session;
  aclrtStream stream = nullptr;
  OK(aclrtCreateStream(&stream));
  TRUE(stream != nullptr);
  OK(aclrtSynchronizeStream(stream));
  OK(aclrtDestroyStream(stream));
  FAILS(aclrtCreateStream(nullptr), 100000);
  FAILS(aclrtDestroyStream(nullptr), 100000);
}

CASE(streams_take_priorities_and_flags, "2.5") {
  Session session;
  for (uint32_t flags : {0u, 1u, 2u, 3u}) {
    aclrtStream stream = nullptr;
    OK(aclrtCreateStreamWithConfig(&stream, 7, flags));
    OK(aclrtDestroyStream(stream));
  }
}

CPU_CASE(stream_priorities_end_at_7, "2.5") {
  Session session;
  aclrtStream stream = nullptr;
  FAILS(aclrtCreateStreamWithConfig(&stream, 8, 0), 107000);
}

CPU_CASE(what_is_not_a_stream_is_refused, "design 5") {
  Session session;
  int local = 0;
  aclrtStreamStatus status;
  FAILS(aclrtSynchronizeStream(&local), 107003);
  FAILS(aclrtStreamQuery(&local, &status), 107003);
  FAILS(aclrtDestroyStream(&local), 107003);
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  OK(aclrtDestroyStream(stream));
  FAILS(aclrtSynchronizeStream(stream), 107003);
  FAILS(aclrtDestroyStream(stream), 107003);
  aclrtEvent event;
  OK(aclrtCreateEvent(&event));
  FAILS(aclrtSynchronizeStream(event), 107003);
  OK(aclrtDestroyEvent(event));
}

CASE(stream_ids_differ, "2.5") {
  Session session;
  aclrtStream first, second;
  int32_t first_id = -1, second_id = -1;
  OK(aclrtCreateStream(&first));
  OK(aclrtCreateStream(&second));
  OK(aclrtStreamGetId(first, &first_id));
  OK(aclrtStreamGetId(second, &second_id));
  TRUE(first_id != second_id);
  OK(aclrtDestroyStream(first));
  OK(aclrtDestroyStream(second));
}

CASE(an_idle_stream_is_complete, "2.5") {
  WithStream session;
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  OK(aclrtStreamQuery(session.stream, &status));
  EXPECT(status, ACL_STREAM_STATUS_COMPLETE);
  FAILS(aclrtStreamQuery(session.stream, nullptr), 100000);
}

CASE(a_busy_stream_is_not_ready, "2.5") {
  Held held;
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  OK(aclrtStreamQuery(held.stream, &status));
  EXPECT(status, ACL_STREAM_STATUS_NOT_READY);
  held.release();
  OK(aclrtSynchronizeStream(held.stream));
  OK(aclrtStreamQuery(held.stream, &status));
  EXPECT(status, ACL_STREAM_STATUS_COMPLETE);
}

CASE(synchronise_with_timeout_expires_with_507046, "2.5") {
  Held held;
  FAILS(aclrtSynchronizeStreamWithTimeout(held.stream, 20), 507046);
  FAILS(aclrtSynchronizeStreamWithTimeout(held.stream, 0), 507046);
  held.release();
  OK(aclrtSynchronizeStreamWithTimeout(held.stream, 5000));
  OK(aclrtSynchronizeStreamWithTimeout(held.stream, 0));
  OK(aclrtSynchronizeStreamWithTimeout(held.stream, -1));
}

CASE(timeouts_below_minus_one_say_107000, "2.5") {
  WithStream session;
  FAILS(aclrtSynchronizeStreamWithTimeout(session.stream, -2), 107000);
}

CASE(an_expired_timeout_cancels_nothing, "2.5") {
  Held held;
  Device memory(64);
  Pinned host(64, 4), back(64, 0);
  OK(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, held.stream));
  FAILS(aclrtSynchronizeStreamWithTimeout(held.stream, 10), 507046);
  held.release();
  OK(aclrtSynchronizeStream(held.stream));
  OK(aclrtMemcpy(back.at, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back.at[0], 4);
}

CASE(tasks_of_a_stream_run_in_order, "7") {
  WithStream session;
  Device memory(64);
  Pinned host(64 * 200), back(64);
  for (int i = 0; i < 200; ++i) {
    std::memset(host.at + 64 * i, i, 64);
    OK(aclrtMemcpyAsync(memory.at, 64, host.at + 64 * i, 64, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  }
  OK(aclrtMemcpyAsync(back.at, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  EXPECT(back.at[0], 199);
}

CPU_CASE(a_full_queue_makes_the_caller_wait, "design 5") {
  Held held;
  Device memory(64);
  std::thread opener([&] {
    usleep(50000);
    held.release();
  });
  for (int i = 0; i < 6000; ++i) OK(aclrtMemsetAsync(memory.at, 64, i, 64, held.stream));
  opener.join();
  OK(aclrtSynchronizeStream(held.stream));
}

CASE(streams_do_not_wait_for_each_other, "7") {
  Held held;
  aclrtStream other;
  OK(aclrtCreateStream(&other));
  Device memory(64);
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, other));
  OK(aclrtSynchronizeStreamWithTimeout(other, 5000));
  OK(aclrtDestroyStream(other));
}

CASE(destroy_waits_for_the_tasks, "2.5") {
  Session session;
  Device memory(64);
  Pinned host(64, 3);
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  for (int i = 0; i < 100; ++i) {
    OK(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
  }
  OK(aclrtDestroyStream(stream));
  unsigned char back[64];
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 3);
}

CASE(forced_destroy_drops_the_tasks, "2.5") {
  Session session;
  Device memory(64);
  OK(aclrtMemset(memory.at, 64, 0, 64));
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  Latch latch;
  CallbackThread callbacks;
  OK(aclrtSubscribeReport(callbacks.id, stream));
  OK(aclrtLaunchCallback(Latch::wait, &latch, ACL_CALLBACK_BLOCK, stream));
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, stream));
  while (!latch.entered) usleep(100);
  OK(aclrtDestroyStreamForce(stream));
  latch.open = true;
  unsigned char back[64];
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 0);
}

// Whether a thread of this process waits for something.
static bool sleeps(long thread) {
  std::string line;
  std::getline(std::ifstream("/proc/self/task/" + std::to_string(thread) + "/stat"), line);
  return line.find(") S") != std::string::npos;
}

CASE(abort_drops_tasks_and_wakes_who_waits_with_107023, "2.5") {
  Held held;
  Device memory(64);
  OK(aclrtMemset(memory.at, 64, 0, 64));
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, held.stream));
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  std::atomic<long> waiting{0};
  std::thread waiter([&] {
    OK(aclrtSetCurrentContext(context));
    waiting = syscall(SYS_gettid);
    FAILS(aclrtSynchronizeStream(held.stream), 107023);
  });
  while (!waiting) usleep(100);
  for (int i = 0; i < 2000 && !sleeps(waiting); ++i) usleep(1000);  // a device's library may also spin
  OK(aclrtStreamAbort(held.stream));
  waiter.join();
  OK(aclrtSynchronizeStream(held.stream));
  unsigned char back[64];
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 0);
  OK(aclrtMemsetAsync(memory.at, 64, 2, 64, held.stream));
  OK(aclrtSynchronizeStream(held.stream));
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 2);
}

CASE(device_task_abort_makes_streams_usable_again, "3.11") {
  Held held;
  OK(aclrtDeviceTaskAbort(0, 1000));
  Device memory(64);
  OK(aclrtMemsetAsync(memory.at, 64, 2, 64, held.stream));
  OK(aclrtSynchronizeStream(held.stream));
}

CASE(failure_modes_are_set_once, "3.11") {
  WithStream session;
  OK(aclrtSetStreamFailureMode(session.stream, ACL_STOP_ON_FAILURE));
  TRUE(aclrtSetStreamFailureMode(session.stream, 7) != ACL_SUCCESS);
}

CPU_CASE(by_default_later_tasks_run_after_a_failure, "3.11") {
  WithStream session;
  Device memory(64);
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"task\", \"code\": 507015}");
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  OK(aclrtMemsetAsync(memory.at, 64, 2, 64, session.stream));
  FAILS(aclrtSynchronizeStream(session.stream), 507015);
  OK(aclrtSynchronizeStream(session.stream));
  unsigned char back[64];
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 2);
}

CPU_CASE(stop_on_failure_stops_the_context, "3.11") {
  OK(aclrtSetDevice(0));
  aclrtContext context;
  OK(aclrtCreateContext(&context, 0));
  aclrtStream stream, other;
  OK(aclrtCreateStream(&stream));
  OK(aclrtCreateStream(&other));
  OK(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE));
  void* memory;
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"task\", \"code\": 507015}");
  OK(aclrtMemsetAsync(memory, 64, 1, 64, stream));
  FAILS(aclrtSynchronizeStream(stream), 507015);
  FAILS(aclrtMemsetAsync(memory, 64, 1, 64, stream), 507015);
  FAILS(aclrtMemsetAsync(memory, 64, 1, 64, other), 507015);
  OK(aclrtDestroyContext(context));
  OK(aclrtSetDevice(0));
  OK(aclrtCreateStream(&stream));
  OK(aclrtMemsetAsync(memory, 64, 1, 64, stream));
  OK(aclrtSynchronizeStream(stream));
}

CPU_CASE(query_reports_a_failed_task, "3.6") {
  WithStream session;
  Device memory(64);
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"task\", \"code\": 507035}");
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  aclrtStreamStatus status;
  aclError code = ACL_SUCCESS;
  for (int i = 0; i < 5000 && code == ACL_SUCCESS; ++i) {
    code = aclrtStreamQuery(session.stream, &status);
    usleep(200);
  }
  EXPECT(code, 507035);
}

static std::atomic<int> exception_code{0};
CPU_CASE(exception_callbacks_see_the_code, "3.11") {
  WithStream session;
  Device memory(64);
  OK(aclrtSetExceptionInfoCallback([](aclrtExceptionInfo* info) {
    EXPECT(aclrtGetDeviceIdFromExceptionInfo(info), 0);
    exception_code = int(aclrtGetErrorCodeFromExceptionInfo(info));
  }));
  inject("{\"entry\": \"aclrtMemsetAsync\", \"effect\": \"task\", \"code\": 507015}");
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  FAILS(aclrtSynchronizeStream(session.stream), 507015);
  EXPECT(exception_code, 507015);
  EXPECT(aclrtGetErrorCodeFromExceptionInfo(nullptr), 0xFFFFFFFFLL);
}

CASE(overflow_switch, "2.5") {
  WithStream session;
  uint32_t on = 7;
  OK(aclrtGetStreamOverflowSwitch(session.stream, &on));
  EXPECT(on, 0);
  OK(aclrtSetStreamOverflowSwitch(session.stream, 1));
  OK(aclrtGetStreamOverflowSwitch(session.stream, &on));
  EXPECT(on, 1);
}

CASE_9(stream_attributes, "2.5") {
  Session session;
  aclrtStream stream;
  OK(aclrtCreateStreamWithConfig(&stream, 3, ACL_STREAM_FAST_SYNC));
  uint32_t value = 9;
  OK(aclrtStreamGetPriority(stream, &value));
  EXPECT(value, 3);
  OK(aclrtStreamGetFlags(stream, &value));
  EXPECT(value, ACL_STREAM_FAST_SYNC);
  aclrtStreamAttrValue attribute = {};
  attribute.userCustomTag = 77;
  OK(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &attribute));
  attribute = {};
  OK(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &attribute));
  EXPECT(attribute.userCustomTag, 77);
  OK(aclrtDestroyStream(stream));
}

CASE_9(stream_count_goes_down, "2.5") {
  Session session;
  uint32_t before = 0, during = 0;
  OK(aclrtGetStreamAvailableNum(&before));
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  OK(aclrtGetStreamAvailableNum(&during));
  EXPECT(during, before - 1LL);
  OK(aclrtDestroyStream(stream));
}

CPU_CASE(streams_run_out_with_207008, "2.5") {
  Session session;
  std::vector<aclrtStream> all;
  aclrtStream stream = nullptr;
  aclError code;
  while ((code = aclrtCreateStream(&stream)) == ACL_SUCCESS) all.push_back(stream);
  EXPECT(code, 207008);
  EXPECT(all.size(), 1984);
  for (auto* made : all) OK(aclrtDestroyStream(made));
}

// ---- events ----
CASE(all_three_creators_work, "2.6") {
  Session session;
  aclrtEvent event = nullptr;
  OK(aclrtCreateEvent(&event));
  OK(aclrtDestroyEvent(event));
  OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE));
  OK(aclrtDestroyEvent(event));
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  OK(aclrtDestroyEvent(event));
  FAILS(aclrtCreateEvent(nullptr), 100000);
  FAILS(aclrtDestroyEvent(nullptr), 100000);
}

CASE(event_status_enums_run_opposite_ways, "2.6") {
  Held held;
  aclrtEvent event;
  OK(aclrtCreateEvent(&event));
  OK(aclrtRecordEvent(event, held.stream));
  aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
  aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  OK(aclrtQueryEvent(event, &status));
  OK(aclrtQueryEventStatus(event, &recorded));
  EXPECT(status, 1);
  EXPECT(recorded, 0);
  held.release();
  OK(aclrtSynchronizeEvent(event));
  OK(aclrtQueryEvent(event, &status));
  OK(aclrtQueryEventStatus(event, &recorded));
  EXPECT(status, 0);
  EXPECT(recorded, 1);
  OK(aclrtDestroyEvent(event));
}

CASE(an_ex_event_is_complete_before_its_first_record, "2.6") {
  Session session;
  aclrtEvent event;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  OK(aclrtQueryEventStatus(event, &recorded));
  EXPECT(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  OK(aclrtDestroyEvent(event));
}

CASE(an_ex_event_refuses_reset_and_the_old_queries, "2.6") {
  WithStream session;
  aclrtEvent event;
  aclrtEventStatus status;
  aclrtEventWaitStatus waited;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  TRUE(aclrtResetEvent(event, session.stream) != ACL_SUCCESS);
  TRUE(aclrtQueryEvent(event, &status) != ACL_SUCCESS);
  TRUE(aclrtQueryEventWaitStatus(event, &waited) != ACL_SUCCESS);
  OK(aclrtDestroyEvent(event));
}

CASE(an_ex_event_is_recorded_again_without_reset, "2.6") {
  WithStream session;
  aclrtEvent event;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  for (int i = 0; i < 20; ++i) {
    OK(aclrtRecordEvent(event, session.stream));
    OK(aclrtSynchronizeEvent(event));
  }
  OK(aclrtDestroyEvent(event));
}

CASE(reset_needs_create_event_with_flag_and_sync, "2.6") {
  WithStream session;
  aclrtEvent plain, flagged;
  OK(aclrtCreateEvent(&plain));
  OK(aclrtCreateEventWithFlag(&flagged, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS));
  TRUE(aclrtResetEvent(plain, session.stream) != ACL_SUCCESS);
  OK(aclrtRecordEvent(flagged, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  OK(aclrtResetEvent(flagged, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  aclrtEventRecordedStatus recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
  OK(aclrtQueryEventStatus(flagged, &recorded));
  EXPECT(recorded, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  OK(aclrtDestroyEvent(plain));
  OK(aclrtDestroyEvent(flagged));
}

CPU_CASE(waiting_needs_the_sync_flag, "2.6") {
  WithStream session;
  aclrtEvent event;
  OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE));
  FAILS(aclrtStreamWaitEvent(session.stream, event), 107000);
  aclrtEventRecordedStatus recorded;
  FAILS(aclrtQueryEventStatus(event, &recorded), 107000);
  OK(aclrtDestroyEvent(event));
}

CPU_CASE(unknown_event_flags_are_refused, "2.6") {
  Session session;
  aclrtEvent event;
  FAILS(aclrtCreateEventWithFlag(&event, 0), 107000);
  FAILS(aclrtCreateEventWithFlag(&event, 0x1000), 107000);
  FAILS(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC), 207000);
}

CASE(a_stream_waits_for_an_event_of_another, "3.6") {
  Held held;
  aclrtStream other;
  aclrtEvent event;
  Device memory(64);
  Pinned back(64, 0);
  OK(aclrtMemset(memory.at, 64, 0, 64));
  OK(aclrtCreateStream(&other));
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  OK(aclrtMemsetAsync(memory.at, 64, 5, 64, held.stream));
  OK(aclrtRecordEvent(event, held.stream));
  OK(aclrtStreamWaitEvent(other, event));
  OK(aclrtMemcpyAsync(back.at, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST, other));
  FAILS(aclrtSynchronizeStreamWithTimeout(other, 20), 507046);
  held.release();
  OK(aclrtSynchronizeStream(other));
  EXPECT(back.at[0], 5);
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(other));
}

CASE(wait_status_follows_the_wait, "2.6") {
  Held held;
  aclrtStream other;
  aclrtEvent event;
  OK(aclrtCreateStream(&other));
  OK(aclrtCreateEvent(&event));
  OK(aclrtRecordEvent(event, held.stream));
  OK(aclrtStreamWaitEvent(other, event));
  aclrtEventWaitStatus waited = ACL_EVENT_WAIT_STATUS_RESERVED;
  OK(aclrtQueryEventWaitStatus(event, &waited));
  EXPECT(waited, ACL_EVENT_WAIT_STATUS_NOT_READY);
  held.release();
  OK(aclrtSynchronizeStream(other));
  OK(aclrtQueryEventWaitStatus(event, &waited));
  EXPECT(waited, ACL_EVENT_WAIT_STATUS_COMPLETE);
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(other));
}

CASE(event_synchronise_expires_with_507047, "2.6") {
  Held held;
  aclrtEvent event;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  OK(aclrtRecordEvent(event, held.stream));
  FAILS(aclrtSynchronizeEventWithTimeout(event, 20), 507047);
  held.release();
  OK(aclrtSynchronizeEventWithTimeout(event, 5000));
  FAILS(aclrtSynchronizeEventWithTimeout(event, -2), 107000);
  OK(aclrtDestroyEvent(event));
}

CASE(an_event_may_be_destroyed_while_queued, "2.6") {
  Held held;
  aclrtEvent event;
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  OK(aclrtRecordEvent(event, held.stream));
  OK(aclrtStreamWaitEvent(held.stream, event));
  OK(aclrtDestroyEvent(event));
  held.release();
  OK(aclrtSynchronizeStream(held.stream));
}

CASE(a_wait_comes_after_its_record, "2.6 whatever the threads that queue them") {
  WithStream session;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  aclrtEvent event;
  OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  auto repeat = [&](auto call) {
    return std::thread([&, call] {
      OK(aclrtSetCurrentContext(context));
      for (int i = 0; i < 20000; ++i) OK(call());
    });
  };
  std::thread records[] = {repeat([&] { return aclrtRecordEvent(event, session.stream); }),
                           repeat([&] { return aclrtRecordEvent(event, session.stream); })};
  std::thread waits = repeat([&] { return aclrtStreamWaitEvent(session.stream, event); });
  for (std::thread& thread : records) thread.join();
  waits.join();
  OK(aclrtSynchronizeStreamWithTimeout(session.stream, 60000));
  OK(aclrtDestroyEvent(event));
}

CASE(elapsed_time_in_milliseconds, "2.6") {
  WithStream session;
  aclrtEvent start, end;
  OK(aclrtCreateEventWithFlag(&start, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
  OK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
  float ms = -1;
  TRUE(aclrtEventElapsedTime(&ms, start, end) != ACL_SUCCESS);
  {
    CallbackThread callbacks;
    OK(aclrtSubscribeReport(callbacks.id, session.stream));
    OK(aclrtRecordEvent(start, session.stream));
    OK(aclrtLaunchCallback([](void*) { usleep(10000); }, nullptr, ACL_CALLBACK_BLOCK, session.stream));
    OK(aclrtRecordEvent(end, session.stream));
    OK(aclrtSynchronizeStream(session.stream));
    OK(aclrtUnSubscribeReport(callbacks.id, session.stream));
  }
  OK(aclrtEventElapsedTime(&ms, start, end));
  TRUE(ms >= 9.9f);
  uint64_t first = 0, second = 0;
  OK(aclrtEventGetTimestamp(start, &first));
  OK(aclrtEventGetTimestamp(end, &second));
  TRUE(second >= first + 9900);
  OK(aclrtDestroyEvent(start));
  OK(aclrtDestroyEvent(end));
}

CASE(elapsed_time_needs_the_time_line_flag, "2.6") {
  WithStream session;
  aclrtEvent event;
  OK(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
  OK(aclrtRecordEvent(event, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  float ms;
  TRUE(aclrtEventElapsedTime(&ms, event, event) != ACL_SUCCESS);
  OK(aclrtDestroyEvent(event));
}

CPU_CASE(reversed_events_say_107007, "2.15") {
  WithStream session;
  aclrtEvent start, end;
  OK(aclrtCreateEvent(&start));
  OK(aclrtCreateEvent(&end));
  OK(aclrtRecordEvent(start, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  usleep(1000);
  OK(aclrtRecordEvent(end, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  float ms;
  FAILS(aclrtEventElapsedTime(&ms, end, start), 107007);
  OK(aclrtDestroyEvent(start));
  OK(aclrtDestroyEvent(end));
}

CPU_CASE(aborting_a_stream_releases_waiters_of_its_events, "design 5") {
  Held held;
  aclrtStream other;
  aclrtEvent event;
  OK(aclrtCreateStream(&other));
  OK(aclrtCreateEvent(&event));
  OK(aclrtRecordEvent(event, held.stream));
  OK(aclrtStreamWaitEvent(other, event));
  OK(aclrtStreamAbort(held.stream));
  OK(aclrtSynchronizeStreamWithTimeout(other, 5000));
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(other));
}

CASE_9(wait_with_timeout_fails_the_stream, "2.5") {
  Held held;
  aclrtStream other;
  aclrtEvent event;
  OK(aclrtCreateStream(&other));
  OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
  OK(aclrtRecordEvent(event, held.stream));
  OK(aclrtStreamWaitEventWithTimeout(other, event, 20));
  TRUE(aclrtSynchronizeStreamWithTimeout(other, 5000) != ACL_SUCCESS);
  held.release();
  OK(aclrtDestroyEvent(event));
  OK(aclrtDestroyStream(other));
}

CASE_9(event_ids, "2.6") {
  Session session;
  aclrtEvent first, second;
  uint32_t a = 0, b = 0, available = 0;
  OK(aclrtCreateEvent(&first));
  OK(aclrtCreateEvent(&second));
  OK(aclrtGetEventId(first, &a));
  OK(aclrtGetEventId(second, &b));
  TRUE(a != b);
  OK(aclrtGetEventAvailNum(&available));
  TRUE(available > 0 && available <= 65534);
  OK(aclrtDestroyEvent(first));
  OK(aclrtDestroyEvent(second));
}

// ---- callbacks ----
static std::atomic<uint64_t> ran_on{0};

CASE(callbacks_run_in_the_subscribed_thread, "3.7") {
  WithStream session;
  CallbackThread callbacks;
  OK(aclrtSubscribeReport(callbacks.id, session.stream));
  OK(aclrtLaunchCallback([](void*) { ran_on = pthread_self(); }, nullptr, ACL_CALLBACK_BLOCK, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  TRUE(ran_on == callbacks.id);
  OK(aclrtUnSubscribeReport(callbacks.id, session.stream));
}

CASE(callbacks_run_only_inside_process_report, "3.7") {
  WithStream session;
  static std::atomic<int> runs{0};
  OK(aclrtSubscribeReport(pthread_self(), session.stream));
  OK(aclrtLaunchCallback([](void*) { ++runs; }, nullptr, ACL_CALLBACK_NO_BLOCK, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  EXPECT(runs, 0);
  OK(aclrtProcessReport(1000));
  EXPECT(runs, 1);
  OK(aclrtUnSubscribeReport(pthread_self(), session.stream));
}

CASE(process_report_codes, "3.7") {
  WithStream session;
  FAILS(aclrtProcessReport(0), 100000);
  FAILS(aclrtProcessReport(-2), 100000);
  FAILS(aclrtProcessReport(10), 107012);
  OK(aclrtSubscribeReport(pthread_self(), session.stream));
  FAILS(aclrtProcessReport(10), 507012);
  OK(aclrtUnSubscribeReport(pthread_self(), session.stream));
}

CASE(launching_without_subscription_says_107015, "3.7") {
  WithStream session;
  FAILS(aclrtLaunchCallback([](void*) {}, nullptr, ACL_CALLBACK_BLOCK, session.stream), 107015);
}

CASE(launching_nothing_says_100000, "3.7") {
  WithStream session;
  FAILS(aclrtLaunchCallback(nullptr, nullptr, ACL_CALLBACK_BLOCK, session.stream), 100000);
}

CASE(a_stream_has_one_subscribed_thread, "3.7") {
  WithStream session;
  OK(aclrtSubscribeReport(pthread_self(), session.stream));
  TRUE(aclrtSubscribeReport(pthread_self(), session.stream) != ACL_SUCCESS);
  OK(aclrtUnSubscribeReport(pthread_self(), session.stream));
}

CASE(a_thread_serves_several_streams, "3.7") {
  WithStream session;
  aclrtStream other;
  static std::atomic<int> runs{0};
  OK(aclrtCreateStream(&other));
  CallbackThread callbacks;
  for (auto* stream : {session.stream, other}) {
    OK(aclrtSubscribeReport(callbacks.id, stream));
    OK(aclrtLaunchCallback([](void*) { ++runs; }, nullptr, ACL_CALLBACK_BLOCK, stream));
  }
  OK(aclrtSynchronizeDevice());
  EXPECT(runs, 2);
  for (auto* stream : {session.stream, other}) OK(aclrtUnSubscribeReport(callbacks.id, stream));
  OK(aclrtDestroyStream(other));
}

CASE(no_block_lets_the_stream_go_on, "3.7") {
  WithStream session;
  Device memory(64);
  Latch latch;
  CallbackThread callbacks;
  OK(aclrtSubscribeReport(callbacks.id, session.stream));
  OK(aclrtLaunchCallback(Latch::wait, &latch, ACL_CALLBACK_NO_BLOCK, session.stream));
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  OK(aclrtSynchronizeStreamWithTimeout(session.stream, 5000));
  latch.open = true;
  OK(aclrtUnSubscribeReport(callbacks.id, session.stream));
}

CASE(block_holds_the_stream, "3.7") {
  Held held;
  Device memory(64);
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, held.stream));
  FAILS(aclrtSynchronizeStreamWithTimeout(held.stream, 20), 507046);
  held.release();
  OK(aclrtSynchronizeStream(held.stream));
}

CASE_9(host_functions_run_in_order, "3.7") {
  WithStream session;
  static std::vector<int> order;
  static int numbers[] = {0, 1, 2};
  for (int& number : numbers) {
    OK(aclrtLaunchHostFunc(session.stream, [](void* at) { order.push_back(*static_cast<int*>(at)); }, &number));
  }
  OK(aclrtSynchronizeStream(session.stream));
  TRUE((order == std::vector<int>{0, 1, 2}));
  FAILS(aclrtLaunchHostFunc(session.stream, nullptr, nullptr), 100000);
}

CPU_CASE_9(a_host_function_cannot_synchronise_its_stream, "3.7") {
  WithStream session;
  static std::atomic<int> code{0};
  OK(aclrtLaunchHostFunc(session.stream, [](void* stream) { code = aclrtSynchronizeStream(stream); }, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  EXPECT(code, 107000);
}

CASE(threads_use_their_own_streams, "3.2") {
  Session session;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([context, id] {
      OK(aclrtSetCurrentContext(context));
      aclrtStream stream;
      aclrtEvent event;
      OK(aclrtCreateStream(&stream));
      OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
      {
        Device memory(256);
        Pinned host(256, id + 1), back(256, 0);
        for (int round = 0; round < 100; ++round) {
          OK(aclrtMemcpyAsync(memory.at, 256, host.at, 256, ACL_MEMCPY_HOST_TO_DEVICE, stream));
          OK(aclrtRecordEvent(event, stream));
          OK(aclrtStreamWaitEvent(stream, event));
          OK(aclrtMemcpyAsync(back.at, 256, memory.at, 256, ACL_MEMCPY_DEVICE_TO_HOST, stream));
          OK(aclrtSynchronizeStream(stream));
          EXPECT(back.at[255], id + 1);
        }
      }
      OK(aclrtDestroyEvent(event));
      OK(aclrtDestroyStream(stream));
    });
  }
  for (auto& thread : threads) thread.join();
}

CASE(threads_share_one_stream, "3.2") {
  WithStream session;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  Device memory(4 * 64);
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&, id] {
      OK(aclrtSetCurrentContext(context));
      for (int round = 0; round < 200; ++round) {
        OK(aclrtMemsetAsync(static_cast<char*>(memory.at) + 64 * id, 64, round, 64, session.stream));
        if (round % 20 == 0) OK(aclrtSynchronizeStream(session.stream));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  OK(aclrtSynchronizeStream(session.stream));
  unsigned char back[256];
  OK(aclrtMemcpy(back, 256, memory.at, 256, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int id = 0; id < 4; ++id) EXPECT(back[64 * id], 199);
}
