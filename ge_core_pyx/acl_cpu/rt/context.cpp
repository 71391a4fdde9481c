// SPDX-License-Identifier: Apache-2.0
// Contexts: their life, and which one a thread has.
#include <algorithm>

#include "device.h"

namespace acl_cpu {
namespace {

Handles<Context>& handles() {
  static auto* all = new Handles<Context>;
  return *all;
}

struct Current {
  void* handle = nullptr;
  Context* context = nullptr;
};
thread_local Current current;

// Functions, because the model half registers while libraries are still being initialised.
std::vector<void (*)(int)>& reset_callbacks() {
  static auto* all = new std::vector<void (*)(int)>;
  return *all;
}
std::vector<void (*)(Context*)>& context_callbacks() {
  static auto* all = new std::vector<void (*)(Context*)>;
  return *all;
}

// Contexts that ended are reused late instead of deleted: a thread that was inside a call may still look at one.
std::deque<Context*>& retired_contexts() {
  static auto* all = new std::deque<Context*>;
  return *all;
}

}  // namespace

Context* new_context(int id, bool primary) {
  Context* context;
  if (retired_contexts().size() > 256) {
    context = retired_contexts().front();
    retired_contexts().pop_front();
    context->sticky = ACL_SUCCESS;
  } else {
    context = new Context;
  }
  context->device = id;
  context->primary = primary;
  context->default_stream = new_stream(context, 0, 0, true);
  context->handle = handles().add(context);
  device_of(id).contexts.push_back(context);
  live_add(Kind::kContext, 1);
  return context;
}

void end_contexts(int id, const std::vector<Context*>& contexts, bool force) {
  for (auto* context : contexts) {
    for (auto* callback : context_callbacks()) callback(context);
    end_context_streams(context, force);
    live_add(Kind::kContext, -1);
  }
  bool last;
  {
    std::lock_guard lock(device_mutex);
    retired_contexts().insert(retired_contexts().end(), contexts.begin(), contexts.end());
    last = device_of(id).contexts.empty();
    if (last) device_of(id).peers.clear();
  }
  if (!last) return;
  for (auto* callback : reset_callbacks()) callback(id);
  free_device_memory(id);
}

std::vector<Context*> take_contexts(int id, bool all) {
  std::vector<Context*> taken;
  auto& contexts = device_of(id).contexts;
  for (auto context = contexts.begin(); context != contexts.end();) {
    if ((all || (*context)->primary) && handles().remove((*context)->handle) != nullptr) {
      taken.push_back(*context);
      context = contexts.erase(context);
    } else {
      ++context;
    }
  }
  device_of(id).primary = nullptr;
  return taken;
}

void bind_context(Context* context) { current = context == nullptr ? Current() : Current{context->handle, context}; }

aclError current_context(Context** out) {
  if (current.context != nullptr && handles().get(current.handle) == current.context) {
    *out = current.context;
    return ACL_SUCCESS;
  }
  current = Current();
  return fail(ACL_ERROR_RT_CONTEXT_NULL,
              "this thread has no context; call aclrtSetDevice or aclrtSetCurrentContext on it first");
}

int context_device(const Context* context) { return context->device; }
void at_device_reset(void (*callback)(int)) { reset_callbacks().push_back(callback); }
void at_context_destroy(void (*callback)(Context*)) { context_callbacks().push_back(callback); }

}  // namespace acl_cpu

using namespace acl_cpu;

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  ACL_CPU_ENTRY(aclrtCreateContext);
  if (context == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "context must not be NULL");
  if (aclError code = open_device(deviceId)) return code;
  std::lock_guard lock(device_mutex);
  if (device_of(deviceId).lost) return fail(ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d is lost", deviceId);
  Context* made = new_context(deviceId, false);
  bind_context(made);
  *context = made->handle;
  return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext handle) {
  ACL_CPU_ENTRY(aclrtDestroyContext);
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "context must not be NULL");
  Context* context;
  {
    std::lock_guard lock(device_mutex);
    context = handles().get(handle);
    if (context == nullptr) return fail(ACL_ERROR_RT_CONTEXT_NULL, "%p is not a context of this process", handle);
    if (context->primary) {
      return fail(ACL_ERROR_RT_PARAM_INVALID,
                  "the default context goes with aclrtResetDevice, not with DestroyContext");
    }
    handles().remove(handle);
    auto& contexts = device_of(context->device).contexts;
    contexts.erase(std::remove(contexts.begin(), contexts.end(), context), contexts.end());
  }
  end_contexts(context->device, {context}, context->sticky != ACL_SUCCESS);
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext handle) {
  ACL_CPU_ENTRY(aclrtSetCurrentContext);
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "context must not be NULL");
  Context* context = handles().get(handle);
  if (context == nullptr) return fail(ACL_ERROR_RT_CONTEXT_NULL, "%p is not a context of this process", handle);
  bind_context(context);
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* handle) {
  ACL_CPU_ENTRY(aclrtGetCurrentContext);
  if (handle == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "context must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *handle = context->handle;
  return ACL_SUCCESS;
}

aclError aclrtCtxGetCurrentDefaultStream(aclrtStream* stream) {
  ACL_CPU_ENTRY(aclrtCtxGetCurrentDefaultStream);
  if (stream == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "stream must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *stream = context->default_stream->handle;
  return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  ACL_CPU_ENTRY(aclrtGetPrimaryCtxState);
  if (active == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "active must not be NULL");
  if (aclError code = check_device(deviceId)) return code;
  std::lock_guard lock(device_mutex);
  *active = device_of(deviceId).primary != nullptr;
  if (flags != nullptr) *flags = 0;
  return ACL_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
