// SPDX-License-Identifier: Apache-2.0
// Events: markers in streams. Each record and each reset has a number; the event is complete when the newest one that
// was queued is a record that has run.
#include <algorithm>

#include "internal.h"

namespace acl_cpu {

namespace {

enum class Maker : int8_t { kPlain, kWithFlag, kEx };
constexpr int kMaxEvents = 65536;

struct Event : Counted {
  Maker maker;
  uint32_t flags;
  int device;
  uint32_t id;
  void* handle = nullptr;

  // Held until a record or a reset has its number and its place in a stream: a wait for it that came into that stream
  // first would wait for ever.
  std::mutex queueing;
  std::mutex mutex;
  Gate changed;
  uint64_t queued = 0;    // number of the newest record or reset
  uint64_t reached = 0;   // number of the newest one that has run
  bool is_reset = false;  // that one was a reset
  int64_t time_ns = 0;    // 0: never recorded
  uint64_t waits_queued = 0, waits_done = 0;
  std::vector<Stream*> blocked;  // streams whose workers wait here

  bool complete_locked() const { return queued == 0 ? maker == Maker::kEx : reached == queued && !is_reset; }
  bool has_reached(uint64_t number) {
    std::lock_guard lock(mutex);
    return reached >= number;
  }
  void reach(uint64_t number, bool reset, int64_t time) {
    std::lock_guard lock(mutex);
    if (number < reached) return;
    reached = number;
    is_reset = reset;
    if (!reset) time_ns = time;
    for (auto* stream : blocked) stream->poke();
    changed.open();
  }
};

// A queued record or reset: if the task is dropped instead of run, those who wait must not wait for ever.
class Mark {
 public:
  Mark(Event* event, uint64_t number, bool reset) : event_(event), number_(number), reset_(reset) {}
  Mark(Mark&& other) noexcept = default;
  ~Mark() {
    if (event_) event_->reach(number_, reset_, now_ns());
  }
  aclError operator()() {
    event_->reach(number_, reset_, Stream::running()->mark_time());
    event_ = Ref<Event>();
    return ACL_SUCCESS;
  }

 private:
  Ref<Event> event_;
  uint64_t number_;
  bool reset_;
};

class Wait {
 public:
  Wait(Event* event, uint64_t number, int timeout_ms) : event_(event), number_(number), timeout_ms_(timeout_ms) {}
  Wait(Wait&& other) noexcept = default;
  ~Wait() {
    if (!event_) return;
    std::lock_guard lock(event_->mutex);
    ++event_->waits_done;
  }
  aclError operator()() {
    Stream* stream = Stream::running();
    {
      std::lock_guard lock(event_->mutex);
      event_->blocked.push_back(stream);
    }
    bool reached = stream->wait([&] { return event_->has_reached(number_); }, deadline_of(timeout_ms_));
    std::lock_guard lock(event_->mutex);
    auto& blocked = event_->blocked;
    blocked.erase(std::find(blocked.begin(), blocked.end(), stream));
    if (reached || stream->interrupted()) {
      stream->mark_time(event_->time_ns);
      return ACL_SUCCESS;
    }
    return fail(ACL_ERROR_RT_WAIT_TIMEOUT, "the event waited for was not recorded in %d ms", timeout_ms_);
  }

 private:
  Ref<Event> event_;
  uint64_t number_;
  int timeout_ms_;
};

Handles<Event>& handles() {
  static auto* all = new Handles<Event>;
  return *all;
}
std::atomic<uint32_t> next_event_id{0};

aclError find_event(aclrtEvent handle, Event** out) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "event must not be NULL");
  *out = handles().get(handle);
  if (*out == nullptr) return fail(ACL_ERROR_RT_INVALID_HANDLE, "%p is not an event of this process", handle);
  return ACL_SUCCESS;
}

aclError create_event(aclrtEvent* out, Maker maker, uint32_t flags) {
  if (out == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "event must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  auto* event = new Event;
  event->maker = maker;
  event->flags = flags;
  event->device = context->device;
  event->id = next_event_id.fetch_add(1) % kMaxEvents;
  event->handle = handles().add(event);
  if (event->handle == nullptr) {
    event->release();
    return fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, "all %d events are in use; destroy some", kMaxEvents);
  }
  live_add(Kind::kEvent, 1);
  *out = event->handle;
  return ACL_SUCCESS;
}

aclError create_event_with_flag(aclrtEvent* out, Maker maker, uint32_t flag) {
  constexpr uint32_t kKnown = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
  if (flag == 0 || (flag & ~kKnown) != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must combine SYNC, CAPTURE_STREAM_PROGRESS and TIME_LINE, got 0x%x",
                flag);
  }
  return create_event(out, maker, flag);
}

aclError event_and_stream(aclrtEvent event_handle, aclrtStream stream_handle, Event** event, Stream** stream) {
  if (aclError code = find_event(event_handle, event)) return code;
  if (aclError code = resolve_stream(stream_handle, stream)) return code;
  if ((*event)->device == (*stream)->device) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_STREAM_CONTEXT, "the event belongs to device %d, the stream to device %d", (*event)->device,
              (*stream)->device);
}

aclError queue_mark(aclrtEvent event_handle, aclrtStream stream_handle, bool reset) {
  Event* event;
  Stream* stream;
  if (aclError code = event_and_stream(event_handle, stream_handle, &event, &stream)) return code;
  if (reset && (event->maker != Maker::kWithFlag || (event->flags & ACL_EVENT_SYNC) == 0)) {
    return fail(ACL_ERROR_RT_PARAM_INVALID,
                "aclrtResetEvent needs an event of aclrtCreateEventWithFlag with ACL_EVENT_SYNC");
  }
  if (aclError code = current_stream_error(stream)) return code;
  Ref<Event> hold(event);
  std::lock_guard in_order(event->queueing);
  uint64_t number;
  {
    std::lock_guard lock(event->mutex);
    number = ++event->queued;
  }
  return enqueue(stream, Task{Mark(event, number, reset)});
}

aclError queue_wait(aclrtStream stream_handle, aclrtEvent event_handle, int timeout_ms) {
  Event* event;
  Stream* stream;
  if (aclError code = event_and_stream(event_handle, stream_handle, &event, &stream)) return code;
  if (event->maker == Maker::kWithFlag && (event->flags & ACL_EVENT_SYNC) == 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtStreamWaitEvent needs an event with ACL_EVENT_SYNC");
  }
  if (aclError code = current_stream_error(stream)) return code;
  uint64_t number;
  {
    std::scoped_lock lock(event->queueing, event->mutex);
    number = event->queued;
    ++event->waits_queued;
  }
  return enqueue(stream, Task{Wait(event, number, timeout_ms)});
}

int default_wait_ms() {
  uint32_t seconds = op_wait_timeout_s;
  return seconds == 0 ? -1 : int(std::min<uint64_t>(uint64_t(seconds) * 1000, INT_MAX));
}

// What every query does first: room for the answer, and the event.
aclError find_for(const void* out, const char* name, aclrtEvent handle, Event** event) {
  if (out == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s must not be NULL", name);
  return find_event(handle, event);
}

aclError synchronize_event(aclrtEvent handle, int timeout_ms) {
  if (timeout_ms < -1)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout must be -1 or milliseconds, got %d", timeout_ms);
  Event* found;
  if (aclError code = find_event(handle, &found)) return code;
  Ref<Event> event(found);
  uint64_t number;
  {
    std::lock_guard lock(event->mutex);
    number = event->queued;
  }
  int64_t deadline = deadline_of(timeout_ms);
  for (;;) {
    uint32_t key = event->changed.key();
    if (event->has_reached(number)) return ACL_SUCCESS;
    if (deadline != kForever && now_ns() >= deadline) {
      return fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event was not reached in %d ms", timeout_ms);
    }
    event->changed.wait(key, deadline);
  }
}

aclError time_of(aclrtEvent handle, int64_t* time_ns) {
  Event* event;
  if (aclError code = find_event(handle, &event)) return code;
  if (event->maker != Maker::kPlain && (event->flags & ACL_EVENT_TIME_LINE) == 0) {
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event was made without ACL_EVENT_TIME_LINE");
  }
  std::lock_guard lock(event->mutex);
  if (event->time_ns == 0 || event->reached != event->queued) {
    return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "the event is not recorded yet; synchronise first");
  }
  *time_ns = event->time_ns;
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace acl_cpu

using namespace acl_cpu;

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtCreateEvent(aclrtEvent* event) {
  ACL_CPU_ENTRY(aclrtCreateEvent);
  return create_event(event, Maker::kPlain, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE);
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtCreateEventWithFlag);
  return create_event_with_flag(event, Maker::kWithFlag, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtCreateEventExWithFlag);
  if ((flag & (ACL_EVENT_EXTERNAL | ACL_EVENT_IPC | ACL_EVENT_DEVICE_USE_ONLY)) != 0) {
    return unsupported(k_aclrtCreateEventExWithFlag, "an external, IPC or device-only event");
  }
  return create_event_with_flag(event, Maker::kEx, flag);
}

aclError aclrtDestroyEvent(aclrtEvent handle) {
  ACL_CPU_ENTRY(aclrtDestroyEvent);
  Event* event;
  if (aclError code = find_event(handle, &event)) return code;
  if (handles().remove(handle) == nullptr) return fail(ACL_ERROR_RT_INVALID_HANDLE, "the event is being destroyed");
  live_add(Kind::kEvent, -1);
  free_later(event, [](Event* oldest) { oldest->release(); });
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtRecordEvent);
  return queue_mark(event, stream, false);
}

aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtRecordEventWithFlag);
  if (flag != 0) return unsupported(k_aclrtRecordEventWithFlag, "aclrtRecordEventWithFlag with a flag");
  return queue_mark(event, stream, false);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtResetEvent);
  return queue_mark(event, stream, true);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  ACL_CPU_ENTRY(aclrtStreamWaitEvent);
  return queue_wait(stream, event, default_wait_ms());
}

aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
  ACL_CPU_ENTRY(aclrtStreamWaitEventWithTimeout);
  if (timeout < -1) return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout must be -1 or milliseconds, got %d", timeout);
  return queue_wait(stream, event, timeout);
}

aclError aclrtStreamWaitEventWithFlag(aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtStreamWaitEventWithFlag);
  if (flag != 0) return unsupported(k_aclrtStreamWaitEventWithFlag, "aclrtStreamWaitEventWithFlag with a flag");
  return queue_wait(stream, event, timeout == 0 ? -1 : int(std::min<uint32_t>(timeout, INT_MAX)));
}

aclError aclrtQueryEvent(aclrtEvent handle, aclrtEventStatus* status) {
  ACL_CPU_ENTRY(aclrtQueryEvent);
  Event* event;
  if (aclError code = find_for(status, "status", handle, &event)) return code;
  if (event->maker == Maker::kEx) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "aclrtQueryEvent does not take events of aclrtCreateEventExWithFlag");
  }
  std::lock_guard lock(event->mutex);
  *status = event->complete_locked() ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent handle, aclrtEventRecordedStatus* status) {
  ACL_CPU_ENTRY(aclrtQueryEventStatus);
  Event* event;
  if (aclError code = find_for(status, "status", handle, &event)) return code;
  if (event->maker == Maker::kWithFlag && (event->flags & ACL_EVENT_CAPTURE_STREAM_PROGRESS) == 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the status needs an event with ACL_EVENT_CAPTURE_STREAM_PROGRESS");
  }
  std::lock_guard lock(event->mutex);
  *status = event->complete_locked() ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent handle, aclrtEventWaitStatus* status) {
  ACL_CPU_ENTRY(aclrtQueryEventWaitStatus);
  Event* event;
  if (aclError code = find_for(status, "status", handle, &event)) return code;
  if (event->maker == Maker::kEx) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the wait status is not kept for events of aclrtCreateEventExWithFlag");
  }
  std::lock_guard lock(event->mutex);
  bool done = event->waits_done == event->waits_queued;
  *status = done ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  ACL_CPU_ENTRY(aclrtSynchronizeEvent);
  return synchronize_event(event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
  ACL_CPU_ENTRY(aclrtSynchronizeEventWithTimeout);
  return synchronize_event(event, timeout);
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  ACL_CPU_ENTRY(aclrtEventElapsedTime);
  if (ms == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "ms must not be NULL");
  int64_t start, end;
  if (aclError code = time_of(startEvent, &start)) return code;
  if (aclError code = time_of(endEvent, &end)) return code;
  if (end < start) return fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "the end event was recorded before the start");
  *ms = float(double(end - start) * 1e-6);
  return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  ACL_CPU_ENTRY(aclrtEventGetTimestamp);
  if (timestamp == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "timestamp must not be NULL");
  int64_t time_ns;
  if (aclError code = time_of(event, &time_ns)) return code;
  *timestamp = uint64_t(time_ns / 1000);
  return ACL_SUCCESS;
}

aclError aclrtGetEventId(aclrtEvent handle, uint32_t* eventId) {
  ACL_CPU_ENTRY(aclrtGetEventId);
  Event* event;
  if (aclError code = find_for(eventId, "eventId", handle, &event)) return code;
  *eventId = event->id;
  return ACL_SUCCESS;
}

aclError aclrtGetEventAvailNum(uint32_t* eventCount) {
  ACL_CPU_ENTRY(aclrtGetEventAvailNum);
  if (eventCount == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "eventCount must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *eventCount = uint32_t(handles().available());
  return ACL_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
