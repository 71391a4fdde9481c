// SPDX-License-Identifier: Apache-2.0
// Streams: a worker thread and an in-order queue each. Time is virtual where a task has a duration: the task starts
// when its stream, its submission and its engine allow, and the worker sleeps until it ends.
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "internal.h"

namespace acl_cpu {
namespace {

constexpr uint64_t kMaxQueued = 4096;  // a full queue makes the caller wait, as on a device
constexpr int kMaxStreams = 1984;

Handles<Stream>& handles() {
  static auto* all = new Handles<Stream>;
  return *all;
}
std::atomic<int> streams_of[kMaxDevices];
std::atomic<int> next_stream_id{0};
thread_local Stream* running_stream = nullptr;

// Signals sent to the process are for the program's threads. Those that a thread causes itself stay as they are.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&blocked, own);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

timespec to_timespec(int64_t ns) { return {time_t(ns / 1000000000), long(ns % 1000000000)}; }

}  // namespace

void Gate::wait(uint32_t key, int64_t deadline_ns) {
  timespec deadline = to_timespec(deadline_ns);
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  syscall(SYS_futex, &word_, FUTEX_WAIT_BITSET_PRIVATE, key, deadline_ns == kForever ? nullptr : &deadline, nullptr,
          FUTEX_BITSET_MATCH_ANY);
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

void Gate::open() {
  word_.fetch_add(1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) {
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
}

// ---- Stream ------------------------------------------------------------------------------------------------------
Stream::~Stream() = default;
Stream* Stream::running() { return running_stream; }
void Stream::poke() { bell_.open(); }

void Stream::grow() {
  uint64_t capacity = std::max<uint64_t>(16, capacity_ * 2);
  auto ring = std::make_unique<Item[]>(capacity);
  for (uint64_t at = head_; at != tail_; ++at) ring[at % capacity] = std::move(ring_[at % capacity_]);
  ring_ = std::move(ring);
  capacity_ = capacity;
}

aclError Stream::push(Item&& item) {
  std::unique_lock lock(mutex_);
  while (tail_ - head_ >= kMaxQueued && !stopping_) {
    uint64_t target = head_ + 1;
    lock.unlock();
    wait_done(target, kForever);
    lock.lock();
  }
  if (stopping_) return fail(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is being destroyed");
  if (tail_ - head_ == capacity_) grow();
  if (!worker_.joinable()) {
    try {
      SignalsBlocked inherited;
      worker_ = std::thread(&Stream::work, this);
    } catch (const std::system_error& error) {
      return fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "no thread for stream %d: %s", id, error.what());
    }
  }
  ring_[tail_++ % capacity_] = std::move(item);
  submitted_.store(tail_, std::memory_order_release);
  bool wake = std::exchange(idle_, false);
  lock.unlock();
  if (wake) bell_.open();
  return ACL_SUCCESS;
}

void Stream::work() {
  running_stream = this;
  prctl(PR_SET_TIMERSLACK, 1UL);
  prctl(PR_SET_NAME, "acl_cpu_stream");
  Item item;
  std::unique_lock lock(mutex_);
  for (;;) {
    running_ = false;
    interrupted_.store(false, std::memory_order_release);
    completed_.store(head_, std::memory_order_seq_cst);
    bool stop = stopping_, work = head_ != tail_;
    if (work) {
      item = std::move(ring_[head_++ % capacity_]);
      running_ = true;
    }
    idle_ = !work;
    uint32_t key = bell_.key();
    uint64_t done = work ? head_ - 1 : head_;
    lock.unlock();
    if (wake_at_.load(std::memory_order_seq_cst) <= done) {
      wake_at_.store(UINT64_MAX, std::memory_order_seq_cst);
      done_.open();
    }
    if (work) {
      run(item);
      item = Item();
    } else if (stop) {
      return;
    } else {
      bell_.wait(key);
    }
    lock.lock();
  }
}

void Stream::run(Item& item) {
  if (context->sticky.load(std::memory_order_acquire) != ACL_SUCCESS) return;
  item_submitted_ = item.submitted_ns;
  if (item.fault.effect == TaskFault::kHang) {
    uint64_t timeout_us = op_timeout_us;
    wait([] { return false; }, timeout_us == 0 ? kForever : now_ns() + int64_t(timeout_us) * 1000);
    if (interrupted()) return;
    return task_failed(fail(ACL_ERROR_RT_AICORE_TIMEOUT, "the task ran past the op timeout of %llu us",
                            static_cast<unsigned long long>(timeout_us)));
  }
  if (interrupted()) return;
  Task& task = item.task;
  int64_t duration = int64_t(task.duration_us * 1e3);
  bool engine = task.engine != Engine::kNone;
  int64_t ready = std::max(virtual_end_, item.submitted_ns), began = 0, end = 0;
  if (duration == 0) {
    began = now_ns();
  } else {
    end = engine ? shared::reserve_engine(physical_device(device), task.engine, ready, duration) : ready + duration;
  }
  aclError code = item.fault.effect == TaskFault::kFail ? item.fault.code : task.run();
  if (item.fault.effect == TaskFault::kFail) fail(code, "injected fault");
  if (duration > 0) {
    virtual_end_ = end;
    wait([] { return false; }, end);
  } else if (engine || task.takes_real_time) {
    int64_t took = now_ns() - began;
    if (engine) shared::add_busy(physical_device(device), task.engine, took);
    if (task.takes_real_time) virtual_end_ = ready + took;
  }
  if (item.fault.effect == TaskFault::kDelay) {
    virtual_end_ = std::max(virtual_end_, now_ns()) + int64_t(item.fault.delay_us * 1e3);
    wait([] { return false; }, virtual_end_);
  }
  if (code != ACL_SUCCESS) task_failed(code);
}

void Stream::task_failed(aclError code) {
  uint64_t task;
  {
    std::lock_guard lock(mutex_);
    task = head_ - 1;
    std::string text = take_messages();
    if (error_.load(std::memory_order_relaxed) == ACL_SUCCESS) error_text_ = text;
    aclError none = ACL_SUCCESS;
    error_.compare_exchange_strong(none, code, std::memory_order_acq_rel);
  }
  if (stop_on_failure) {
    aclError none = ACL_SUCCESS;
    context->sticky.compare_exchange_strong(none, code, std::memory_order_acq_rel);
  }
  report_exception(device, id, task, code);
}

int64_t Stream::mark_time(int64_t at_least) {
  if (virtual_end_ < item_submitted_) virtual_end_ = now_ns();
  virtual_end_ = std::max(virtual_end_, at_least);
  return virtual_end_;
}

bool Stream::wait_done(uint64_t target, int64_t deadline_ns) {
  uint64_t aborts_before = aborts();
  for (;;) {
    uint32_t key = done_.key();
    uint64_t wake_at = wake_at_.load(std::memory_order_seq_cst);
    while (wake_at > target && !wake_at_.compare_exchange_weak(wake_at, target, std::memory_order_seq_cst)) {
    }
    if (completed() >= target) return aborts() == aborts_before;
    if (aborts() != aborts_before) return false;
    if (deadline_ns != kForever && now_ns() >= deadline_ns) return false;
    done_.wait(key, deadline_ns);
  }
}

void Stream::abort(aclError code) {
  std::vector<Item> dropped;
  uint64_t target;
  {
    std::lock_guard lock(mutex_);
    for (; head_ != tail_; ++head_) dropped.push_back(std::move(ring_[head_ % capacity_]));
    abort_code_ = code;
    aborts_.fetch_add(1, std::memory_order_acq_rel);
    if (running_) {
      interrupted_.store(true, std::memory_order_release);
    } else {
      completed_.store(head_, std::memory_order_seq_cst);
    }
    error_ = ACL_SUCCESS;
    target = head_;
  }
  bell_.open();
  done_.open();
  dropped.clear();
  if (running() != this) {
    while (completed() < target) wait_done(target, kForever);
  }
}

void Stream::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    idle_ = false;
  }
  bell_.open();
  done_.open();
  if (worker_.joinable()) worker_.join();
  std::lock_guard lock(mutex_);
  ring_.reset();
  capacity_ = 0;
}

aclError Stream::take_error() {
  aclError code = error_.exchange(ACL_SUCCESS, std::memory_order_acq_rel);
  if (code == ACL_SUCCESS) return code;
  std::lock_guard lock(mutex_);
  return fail(code, "a task of stream %d failed: %s", id, error_text_.c_str());
}

// ---- life --------------------------------------------------------------------------------------------------------
Stream* new_stream(Context* context, uint32_t priority, uint32_t flags, bool internal) {
  if (!internal && streams_of[context->device].fetch_add(1) >= kMaxStreams) {
    streams_of[context->device].fetch_sub(1);
    fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, "EE1023: device %d has all its %d streams in use; destroy some",
         context->device, kMaxStreams);
    return nullptr;
  }
  auto* stream = new Stream;
  stream->context = context;
  stream->device = context->device;
  stream->id = next_stream_id.fetch_add(1);
  stream->priority = priority;
  stream->flags = flags;
  stream->internal = internal;
  stream->handle = handles().add(stream);
  if (!internal) live_add(Kind::kStream, 1);
  std::lock_guard lock(context->mutex);
  context->streams.push_back(stream);
  return stream;
}

void end_stream(Stream* stream, bool force) {
  if (force) {
    stream->abort(ACL_ERROR_RT_STREAM_ABORT);
  } else {
    while (stream->completed() < stream->submitted()) stream->wait_done(stream->submitted(), kForever);
  }
  {
    std::lock_guard lock(stream->context->mutex);
    auto& streams = stream->context->streams;
    streams.erase(std::remove(streams.begin(), streams.end(), stream), streams.end());
  }
  stream->stop();
  unsubscribe_all(stream);
  if (!stream->internal) {
    streams_of[stream->device].fetch_sub(1);
    live_add(Kind::kStream, -1);
  }
  free_later(stream, [](Stream* oldest) { oldest->release(); });
}

// Removes the handle; false when another thread was faster.
static bool forget(Stream* stream) { return handles().remove(stream->handle) != nullptr; }

void end_context_streams(Context* context, bool force) {
  for (;;) {
    Stream* stream = nullptr;
    {
      std::lock_guard lock(context->mutex);
      for (auto* candidate : context->streams) {
        if (forget(candidate)) {
          stream = candidate;
          break;
        }
      }
    }
    if (stream == nullptr) return;
    end_stream(stream, force);
  }
}

aclError create_internal_stream(Stream** out) {
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *out = new_stream(context, 0, 0, true);
  return ACL_SUCCESS;
}

void destroy_internal_stream(Stream* stream) {
  if (forget(stream)) end_stream(stream, false);
}

// ---- use ---------------------------------------------------------------------------------------------------------
Context* stream_context(Stream* stream) { return stream->context; }
int stream_device(const Stream* stream) { return stream->device; }

static aclError find_stream(aclrtStream handle, Stream** out) {
  if (handle == nullptr) {
    Context* context;
    if (aclError code = current_context(&context)) return code;
    *out = context->default_stream;
    return ACL_SUCCESS;
  }
  *out = handles().get(handle);
  if (*out == nullptr) return fail(ACL_ERROR_RT_STREAM_CONTEXT, "%p is not a stream of this process", handle);
  return ACL_SUCCESS;
}

aclError resolve_stream(aclrtStream handle, Stream** out) {
  Context* context;
  if (aclError code = current_context(&context)) return code;
  if (aclError code = find_stream(handle, out)) return code;
  if ((*out)->device != context->device) {
    return fail(ACL_ERROR_RT_STREAM_CONTEXT, "the stream belongs to device %d, this thread's context to device %d",
                (*out)->device, context->device);
  }
  return ACL_SUCCESS;
}

aclError current_stream_error(Stream* stream) {
  if (aclError code = stream->context->sticky.load(std::memory_order_acquire)) {
    return fail(code,
                "the context stopped at an earlier failure (ACL_STOP_ON_FAILURE); destroy it or reset the device");
  }
  if (device_lost(stream->device)) {
    return fail(ACL_ERROR_RT_SOCKET_CLOSE, "device %d is lost; aclrtResetDeviceForce brings it back", stream->device);
  }
  return ACL_SUCCESS;
}

aclError enqueue(Stream* stream, Task&& task) {
  if (aclError code = current_stream_error(stream)) return code;
  Stream::Item item;
  item.task = std::move(task);
  item.submitted_ns = now_ns();
  item.fault = take_task_fault();
  return stream->push(std::move(item));
}

aclError synchronize(Stream* stream, int timeout_ms) {
  if (stream == Stream::running()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "a callback must not synchronise the stream that it runs on");
  }
  Ref<Stream> hold(stream);
  uint64_t aborts = stream->aborts(), target = stream->submitted();
  if (stream->completed() < target) {
    bool done = stream->wait_done(target, deadline_of(timeout_ms));
    if (stream->aborts() != aborts) return fail(stream->abort_code(), "the stream's tasks were aborted");
    if (!done) {
      return fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "stream %d was not done after %d ms; its tasks go on", stream->id,
                  timeout_ms);
    }
  }
  if (aclError code = stream->take_error()) return code;
  return current_stream_error(stream);
}

void sleep_until(int64_t until_ns) {
  int slack = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, 1UL);
  timespec until = to_timespec(until_ns);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
  prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
}

void occupy(int device, Engine engine, double duration_us) {
  sleep_until(shared::reserve_engine(physical_device(device), engine, now_ns(), int64_t(duration_us * 1e3)));
}

}  // namespace acl_cpu

using namespace acl_cpu;

// ---- entry points ------------------------------------------------------------------------------------------------
static aclError create_stream(aclrtStream* out, uint32_t priority, uint32_t flags) {
  if (out == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "stream must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  Stream* stream = new_stream(context, priority, flags, false);
  if (stream == nullptr) return ACL_ERROR_RT_NO_STREAM_RESOURCE;
  *out = stream->handle;
  return ACL_SUCCESS;
}

static aclError destroy_stream(aclrtStream handle, bool force) {
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the default stream (NULL) cannot be destroyed");
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  if (stream == stream->context->default_stream) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the default stream cannot be destroyed");
  }
  if (stream == Stream::running()) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "a callback must not destroy the stream that it runs on");
  }
  if (!forget(stream)) return fail(ACL_ERROR_RT_STREAM_CONTEXT, "the stream is being destroyed");
  end_stream(stream, force);
  return ACL_SUCCESS;
}

static aclError abort_stream(aclrtStream handle) {
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  stream->abort(ACL_ERROR_RT_STREAM_ABORT);
  return ACL_SUCCESS;
}

template <typename T, typename Source>
static aclError tell(aclrtStream handle, const Source Stream::* source, T* out, const char* name) {
  if (out == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s must not be NULL", name);
  Stream* stream;
  if (aclError code = find_stream(handle, &stream)) return code;
  *out = stream->*source;
  return ACL_SUCCESS;
}

static aclError check_timeout(int32_t timeout) {
  if (timeout >= -1) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout must be -1 (for ever) or milliseconds, got %d", timeout);
}

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtCreateStream(aclrtStream* stream) {
  ACL_CPU_ENTRY(aclrtCreateStream);
  return create_stream(stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtCreateStreamWithConfig);  // approximate: priority and flags are kept, not honoured
  if (priority > 7) return fail(ACL_ERROR_RT_PARAM_INVALID, "priority must be 0 (highest) to 7, got %u", priority);
  if ((flag & ~0x3Fu) != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "unknown stream flags 0x%x", flag);
  return create_stream(stream, priority, flag);
}

aclError aclrtDestroyStream(aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtDestroyStream);
  return destroy_stream(stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtDestroyStreamForce);
  return destroy_stream(stream, true);
}

aclError aclrtSynchronizeStream(aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtSynchronizeStream);
  Stream* stream;
  if (aclError code = find_stream(handle, &stream)) return code;
  return synchronize(stream, -1);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream handle, int32_t timeout) {
  ACL_CPU_ENTRY(aclrtSynchronizeStreamWithTimeout);
  if (aclError code = check_timeout(timeout)) return code;
  Stream* stream;
  if (aclError code = find_stream(handle, &stream)) return code;
  return synchronize(stream, timeout);
}

aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus* status) {
  ACL_CPU_ENTRY(aclrtStreamQuery);
  if (status == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "status must not be NULL");
  Stream* stream;
  if (aclError code = find_stream(handle, &stream)) return code;
  bool done = stream->completed() >= stream->submitted();
  *status = done ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  if (aclError code = stream->take_error()) return code;
  return current_stream_error(stream);
}

aclError aclrtStreamAbort(aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtStreamAbort);
  return abort_stream(handle);
}

aclError aclrtStreamStop(aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtStreamStop);  // approximate: the same as aclrtStreamAbort
  return abort_stream(handle);
}

aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
  ACL_CPU_ENTRY(aclrtSetStreamFailureMode);
  if (mode > ACL_STOP_ON_FAILURE) return fail(ACL_ERROR_RT_PARAM_INVALID, "mode must be 0 or 1");
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  if (mode == ACL_CONTINUE_ON_FAILURE && stream->stop_on_failure) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "ACL_STOP_ON_FAILURE cannot be taken back");
  }
  if (mode == ACL_STOP_ON_FAILURE) stream->stop_on_failure = true;
  return ACL_SUCCESS;
}

aclError aclrtStreamGetId(aclrtStream handle, int32_t* streamId) {
  ACL_CPU_ENTRY(aclrtStreamGetId);
  return tell(handle, &Stream::id, streamId, "streamId");
}

aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t* priority) {
  ACL_CPU_ENTRY(aclrtStreamGetPriority);
  return tell(handle, &Stream::priority, priority, "priority");
}

aclError aclrtStreamGetFlags(aclrtStream handle, uint32_t* flags) {
  ACL_CPU_ENTRY(aclrtStreamGetFlags);
  return tell(handle, &Stream::flags, flags, "flags");
}

aclError aclrtGetStreamAvailableNum(uint32_t* streamCount) {
  ACL_CPU_ENTRY(aclrtGetStreamAvailableNum);
  if (streamCount == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "streamCount must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *streamCount = uint32_t(std::max(0, kMaxStreams - streams_of[context->device].load()));
  return ACL_SUCCESS;
}

aclError aclrtSetStreamOverflowSwitch(aclrtStream handle, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtSetStreamOverflowSwitch);  // approximate: kept; nothing overflows
  if (flag > 1) return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must be 0 or 1, got %u", flag);
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  stream->overflow = flag;
  return ACL_SUCCESS;
}

aclError aclrtGetStreamOverflowSwitch(aclrtStream handle, uint32_t* flag) {
  ACL_CPU_ENTRY(aclrtGetStreamOverflowSwitch);  // approximate: as set
  if (flag == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "flag must not be NULL");
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  *flag = stream->overflow;
  return ACL_SUCCESS;
}

aclError aclrtSetStreamAttribute(aclrtStream handle, aclrtStreamAttr attr, aclrtStreamAttrValue* value) {
  ACL_CPU_ENTRY(aclrtSetStreamAttribute);  // approximate: failure mode is honoured; overflow, tag and priority are kept
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value must not be NULL");
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  switch (attr) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      if (value->failureMode > 1) return fail(ACL_ERROR_RT_PARAM_INVALID, "failureMode must be 0 or 1");
      if (value->failureMode == 1) stream->stop_on_failure = true;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      stream->overflow = value->overflowSwitch;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      stream->tag = value->userCustomTag;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      if (value->streamPriority > 7) return fail(ACL_ERROR_RT_PARAM_INVALID, "streamPriority must be 0 to 7");
      stream->priority = value->streamPriority;
      return ACL_SUCCESS;
    default:
      return unsupported(k_aclrtSetStreamAttribute, "this attribute of aclrtSetStreamAttribute");
  }
}

aclError aclrtGetStreamAttribute(aclrtStream handle, aclrtStreamAttr attr, aclrtStreamAttrValue* value) {
  ACL_CPU_ENTRY(aclrtGetStreamAttribute);  // approximate: as set
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value must not be NULL");
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  *value = {};
  switch (attr) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
      value->failureMode = stream->stop_on_failure;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
      value->overflowSwitch = stream->overflow;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
      value->userCustomTag = stream->tag;
      return ACL_SUCCESS;
    case ACL_STREAM_ATTR_PRIORITY:
      value->streamPriority = stream->priority;
      return ACL_SUCCESS;
    default:
      return unsupported(k_aclrtGetStreamAttribute, "this attribute of aclrtGetStreamAttribute");
  }
}

}  // extern "C"
#pragma GCC visibility pop
