// SPDX-License-Identifier: Apache-2.0
// Callbacks on streams (the subscribed thread's, and aclrtLaunchHostFunc's on the stream's own thread) and of the
// process (task exceptions, device and stream state).
#include <pthread.h>

#include <algorithm>
#include <map>

#include "internal.h"

struct aclrtExceptionInfo {
  uint32_t task, stream, thread, device, code;
};

namespace acl_cpu {

struct Call {
  aclrtCallback function;
  void* data;
  std::shared_ptr<std::atomic<bool>> done;  // set only where the stream waits
  Ref<Stream> stream;

  void finish() {
    if (done == nullptr) return;
    done->store(true, std::memory_order_release);
    stream->poke();
  }
};

struct Reporter {
  uint64_t thread;
  int streams = 0;  // guarded by reporters_mutex
  std::mutex mutex;
  std::deque<Call> calls;
  Gate changed;
};

namespace {

std::mutex reporters_mutex;
std::map<uint64_t, std::shared_ptr<Reporter>>& reporters() {
  static auto* all = new std::map<uint64_t, std::shared_ptr<Reporter>>;
  return *all;
}

std::mutex exception_mutex;
// Leaked on purpose, like every object that a stream's thread may still touch while the process exits.
std::vector<aclrtExceptionInfoCallback>& exception_callbacks() {
  static auto* all = new std::vector<aclrtExceptionInfoCallback>;
  return *all;
}
aclrtExceptionInfoCallback exception_callback = nullptr;

void leave(const std::shared_ptr<Reporter>& reporter, Stream* stream) {
  std::deque<Call> dropped;
  {
    std::lock_guard lock(reporter->mutex);
    auto& calls = reporter->calls;
    for (auto call = calls.begin(); call != calls.end();) {
      if (call->stream.get() == stream) {
        dropped.push_back(std::move(*call));
        call = calls.erase(call);
      } else {
        ++call;
      }
    }
  }
  for (auto& call : dropped) call.finish();
  std::lock_guard lock(reporters_mutex);
  if (--reporter->streams == 0) reporters().erase(reporter->thread);
}

}  // namespace

void unsubscribe_all(Stream* stream) {
  std::shared_ptr<Reporter> reporter;
  {
    std::lock_guard lock(reporters_mutex);
    reporter = std::move(stream->reporter);
    stream->reporter = nullptr;
  }
  if (reporter != nullptr) leave(reporter, stream);
}

void report_exception(int device, int stream, uint64_t task, aclError code) {
  std::vector<aclrtExceptionInfoCallback> callbacks;
  {
    std::lock_guard lock(exception_mutex);
    callbacks = exception_callbacks();
    if (exception_callback != nullptr) callbacks.push_back(exception_callback);
  }
  aclrtExceptionInfo info{uint32_t(task), uint32_t(stream), uint32_t(pthread_self()), uint32_t(device), uint32_t(code)};
  for (auto* callback : callbacks) callback(&info);
}

}  // namespace acl_cpu

using namespace acl_cpu;

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtSubscribeReport);
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  std::lock_guard lock(reporters_mutex);
  if (stream->reporter != nullptr) {
    return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is subscribed already, and a stream has one thread",
                stream->id);
  }
  auto& reporter = reporters()[threadId];
  if (reporter == nullptr) {
    reporter = std::make_shared<Reporter>();
    reporter->thread = threadId;
  }
  ++reporter->streams;
  stream->reporter = reporter;
  return ACL_SUCCESS;
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtUnSubscribeReport);
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  std::shared_ptr<Reporter> reporter;
  {
    std::lock_guard lock(reporters_mutex);
    if (reporters().count(threadId) == 0) {
      return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "thread %llu is not subscribed",
                  static_cast<unsigned long long>(threadId));
    }
    if (stream->reporter == nullptr || stream->reporter->thread != threadId) {
      return fail(ACL_ERROR_RT_STREAM_SUBSCRIBE, "stream %d is not subscribed to this thread", stream->id);
    }
    reporter = std::move(stream->reporter);
    stream->reporter = nullptr;
  }
  leave(reporter, stream);
  return ACL_SUCCESS;
}

aclError aclrtLaunchCallback(aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtLaunchCallback);
  if (fn == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "fn must not be NULL");
  if (blockType != ACL_CALLBACK_NO_BLOCK && blockType != ACL_CALLBACK_BLOCK) {
    return fail(ACL_ERROR_INVALID_PARAM, "blockType must be 0 or 1, got %d", int(blockType));
  }
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  std::shared_ptr<Reporter> reporter;
  {
    std::lock_guard lock(reporters_mutex);
    reporter = stream->reporter;
  }
  if (reporter == nullptr) {
    return fail(ACL_ERROR_RT_STREAM_NO_CB_REG, "stream %d has no thread; call aclrtSubscribeReport first", stream->id);
  }
  Task task;
  task.takes_real_time = blockType == ACL_CALLBACK_BLOCK;
  task.run = [reporter, fn, userData, block = blockType == ACL_CALLBACK_BLOCK]() -> aclError {
    Stream* running = Stream::running();
    auto done = block ? std::make_shared<std::atomic<bool>>(false) : nullptr;
    {
      std::lock_guard lock(reporter->mutex);
      reporter->calls.push_back({fn, userData, done, Ref<Stream>(running)});
    }
    reporter->changed.open();
    if (block) running->wait([&] { return done->load(std::memory_order_acquire); });
    return ACL_SUCCESS;
  };
  return enqueue(stream, std::move(task));
}

aclError aclrtProcessReport(int32_t timeout) {
  ACL_CPU_ENTRY(aclrtProcessReport);
  if (timeout == 0 || timeout < -1) {
    return fail(ACL_ERROR_INVALID_PARAM, "timeout must be -1 or at least 1 ms, got %d", timeout);
  }
  std::shared_ptr<Reporter> reporter;
  {
    std::lock_guard lock(reporters_mutex);
    auto found = reporters().find(uint64_t(pthread_self()));
    if (found == reporters().end()) {
      return fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, "this thread is not subscribed to any stream");
    }
    reporter = found->second;
  }
  int64_t deadline = deadline_of(timeout);
  for (;;) {
    uint32_t key = reporter->changed.key();
    {
      std::unique_lock lock(reporter->mutex);
      if (!reporter->calls.empty()) {
        Call call = std::move(reporter->calls.front());
        reporter->calls.pop_front();
        lock.unlock();
        call.function(call.data);
        call.finish();
        return ACL_SUCCESS;
      }
    }
    if (deadline != kForever && now_ns() >= deadline) {
      return fail(ACL_ERROR_RT_REPORT_TIMEOUT, "no callback came in %d ms", timeout);
    }
    reporter->changed.wait(key, deadline);
  }
}

aclError aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc fn, void* args) {
  ACL_CPU_ENTRY(aclrtLaunchHostFunc);
  if (fn == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "fn must not be NULL");
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  Task task;
  task.takes_real_time = true;
  task.run = [fn, args]() -> aclError {
    fn(args);
    return ACL_SUCCESS;
  };
  return enqueue(stream, std::move(task));
}

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  ACL_CPU_ENTRY(aclrtSetExceptionInfoCallback);
  std::lock_guard lock(exception_mutex);
  exception_callback = callback;
  return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackRegister(aclrtExceptionInfoCallback callback) {
  ACL_CPU_ENTRY(aclrtExceptionInfoCallbackRegister);
  if (callback == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "callback must not be NULL");
  std::lock_guard lock(exception_mutex);
  exception_callbacks().push_back(callback);
  return ACL_SUCCESS;
}

aclError aclrtExceptionInfoCallbackUnregister(aclrtExceptionInfoCallback callback) {
  ACL_CPU_ENTRY(aclrtExceptionInfoCallbackUnregister);
  std::lock_guard lock(exception_mutex);
  auto& all = exception_callbacks();
  auto found = std::find(all.begin(), all.end(), callback);
  if (found == all.end()) return fail(ACL_ERROR_INVALID_PARAM, "this callback is not registered");
  all.erase(found);
  return ACL_SUCCESS;
}

#define EXCEPTION_GETTER(name, field)                  \
  uint32_t name(const aclrtExceptionInfo* info) {      \
    ACL_CPU_ENTRY_OR(name, UINT32_MAX);                \
    return info == nullptr ? UINT32_MAX : info->field; \
  }
EXCEPTION_GETTER(aclrtGetTaskIdFromExceptionInfo, task)
EXCEPTION_GETTER(aclrtGetStreamIdFromExceptionInfo, stream)
EXCEPTION_GETTER(aclrtGetThreadIdFromExceptionInfo, thread)
EXCEPTION_GETTER(aclrtGetDeviceIdFromExceptionInfo, device)
EXCEPTION_GETTER(aclrtGetErrorCodeFromExceptionInfo, code)
#undef EXCEPTION_GETTER

}  // extern "C"
#pragma GCC visibility pop
