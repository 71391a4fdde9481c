// SPDX-License-Identifier: Apache-2.0
// Devices: which are visible, set and reset, and what is asked about them.
#include "device.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace acl_cpu {

std::mutex device_mutex;

Device& device_of(int id) {
  static auto* all = new Device[kMaxDevices];
  return all[id];
}

namespace {

// ASCEND_RT_VISIBLE_DEVICES, read once: ascending logical ids; parsing stops at the first entry that does not fit.
const std::vector<int>& visible_devices() {
  static const auto* visible = [] {
    auto* ids = new std::vector<int>;
    const char* given = std::getenv("ASCEND_RT_VISIBLE_DEVICES");
    if (given == nullptr || *given == '\0') {
      for (int id = 0; id < config().devices; ++id) ids->push_back(id);
      return ids;
    }
    for (const char* at = given;;) {
      char* end;
      long id = std::strtol(at, &end, 10);
      bool fits = end != at && id >= 0 && id < config().devices && (*end == ',' || *end == '\0');
      if (!fits || (!ids->empty() && id <= ids->back())) return ids;
      ids->push_back(int(id));
      if (*end == '\0') return ids;
      at = end + 1;
    }
  }();
  return *visible;
}

}  // namespace

int device_count() { return int(visible_devices().size()); }
int physical_device(int device) { return visible_devices()[size_t(device)]; }
bool device_lost(int device) { return device_of(device).lost.load(std::memory_order_relaxed); }
void lose_device(int device) {
  device_of(device).lost = true;
  for (auto& stream : device_streams(device)) stream->abort(ACL_ERROR_RT_SOCKET_CLOSE);
}

aclError check_device(int device) {
  if (device >= 0 && device < device_count()) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device id must be 0 to %d, got %d", device_count() - 1, device);
}

aclError open_device(int id) {
  if (aclError code = check_device(id)) return code;
  shared::attach();
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, mark_forked); });
  return ACL_SUCCESS;
}

std::vector<Ref<Stream>> device_streams(int device) {
  std::vector<Ref<Stream>> streams;
  std::lock_guard lock(device_mutex);
  for (auto* context : device_of(device).contexts) {
    std::lock_guard context_lock(context->mutex);
    for (auto* stream : context->streams) streams.emplace_back(stream);
  }
  return streams;
}

static void close_device(int id, bool all, bool force) {
  std::vector<Context*> contexts;
  {
    std::lock_guard lock(device_mutex);
    contexts = take_contexts(id, all);
    device_of(id).sets = 0;
  }
  end_contexts(id, contexts, force);
  if (force) device_of(id).lost = false;
}

void close_all_devices() {
  for (int id = 0; id < device_count(); ++id) {
    bool open;
    {
      std::lock_guard lock(device_mutex);
      open = !device_of(id).contexts.empty();
    }
    if (open) close_device(id, true, true);
  }
}

bool peer_enabled(int from, int to) {
  std::lock_guard lock(device_mutex);
  auto& peers = device_of(from).peers;
  return std::find(peers.begin(), peers.end(), to) != peers.end();
}

}  // namespace acl_cpu

using namespace acl_cpu;

namespace {

aclError identity(int32_t from, int32_t* to) {
  if (to == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the result must not be NULL");
  if (aclError code = check_device(from)) return code;
  *to = from;
  return ACL_SUCCESS;
}

aclError to_physical(int32_t from, int32_t* to) {
  if (aclError code = identity(from, to)) return code;
  *to = physical_device(from);
  return ACL_SUCCESS;
}

aclError from_physical(int32_t from, int32_t* to) {
  if (to == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the result must not be NULL");
  for (int id = 0; id < device_count(); ++id) {
    if (physical_device(id) == from) {
      *to = id;
      return ACL_SUCCESS;
    }
  }
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, "no visible device has the physical id %d", from);
}

// Answers of the SoC that is imitated.
aclError device_attribute(int64_t attribute, int64_t* value) {
  switch (attribute) {
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
      *value = 6;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
      *value = 20;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
      *value = 40;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
      *value = int64_t(config().hbm_bytes);
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
      *value = int64_t(192) << 20;
      return ACL_SUCCESS;
    case ACL_DEV_ATTR_IS_VIRTUAL:
      *value = 0;
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "device attribute %lld is not known to the CPU implementation",
                  static_cast<long long>(attribute));
  }
}

aclError synchronize_device(int timeout_ms) {
  Context* context;
  if (aclError code = current_context(&context)) return code;
  int64_t deadline = deadline_of(timeout_ms);
  aclError first = ACL_SUCCESS;
  for (auto& stream : device_streams(context->device)) {
    int left = timeout_ms < 0 ? -1 : int(std::max<int64_t>(0, (deadline - now_ns()) / 1000000));
    if (stream.get() == Stream::running()) continue;
    aclError code = synchronize(stream.get(), left);
    if (code == ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) return code;
    if (first == ACL_SUCCESS) first = code;
  }
  return first;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtSetDevice(int32_t deviceId) {
  ACL_CPU_ENTRY(aclrtSetDevice);
  if (aclError code = open_device(deviceId)) return code;
  std::lock_guard lock(device_mutex);
  Device& device = device_of(deviceId);
  if (device.lost) return fail(ACL_ERROR_RT_DEV_SETUP_ERROR, "device %d is lost; reset it by force", deviceId);
  if (device.primary == nullptr) device.primary = new_context(deviceId, true);
  ++device.sets;
  bind_context(device.primary);
  return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId) {
  ACL_CPU_ENTRY(aclrtResetDevice);
  if (aclError code = check_device(deviceId)) return code;
  {
    std::lock_guard lock(device_mutex);
    Device& device = device_of(deviceId);
    if (device.sets == 0) {
      return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d is reset once more than it was set", deviceId);
    }
    if (--device.sets > 0) return ACL_SUCCESS;
  }
  close_device(deviceId, false, false);
  return ACL_SUCCESS;
}

aclError aclrtResetDeviceForce(int32_t deviceId) {
  ACL_CPU_ENTRY(aclrtResetDeviceForce);
  if (aclError code = check_device(deviceId)) return code;
  {
    std::lock_guard lock(device_mutex);
    if (device_of(deviceId).contexts.empty()) {
      return fail(ACL_ERROR_RT_INVALID_DEVICEID, "device %d is not in use by this process", deviceId);
    }
  }
  close_device(deviceId, true, true);
  return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* deviceId) {
  ACL_CPU_ENTRY(aclrtGetDevice);
  if (deviceId == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "deviceId must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *deviceId = context->device;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  ACL_CPU_ENTRY(aclrtGetDeviceCount);
  if (count == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "count must not be NULL");
  if (device_count() == 0) return fail(ACL_ERROR_RT_NO_DEVICE, "no device is visible");
  *count = uint32_t(device_count());
  return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  ACL_CPU_ENTRY(aclrtGetRunMode);
  if (runMode == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "runMode must not be NULL");
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(void) {
  ACL_CPU_ENTRY(aclrtSynchronizeDevice);
  return synchronize_device(-1);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
  ACL_CPU_ENTRY(aclrtSynchronizeDeviceWithTimeout);
  if (timeout < -1) return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout must be -1 or milliseconds, got %d", timeout);
  return synchronize_device(timeout);
}

aclError aclrtSetTsDevice(aclrtTsId tsId) {
  ACL_CPU_ENTRY(aclrtSetTsDevice);  // approximate: checked, no effect
  if (tsId < ACL_TS_ID_AICORE || tsId >= ACL_TS_ID_RESERVED) {
    return fail(ACL_ERROR_INVALID_PARAM, "tsId must be 0 or 1, got %d", int(tsId));
  }
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceUtilizationRate(int32_t deviceId, aclrtUtilizationInfo* info) {
  ACL_CPU_ENTRY(aclrtGetDeviceUtilizationRate);  // approximate: the compute engine's busy share since the last question
  if (info == nullptr || info->utilizationExtend != nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "utilizationInfo must not be NULL and its utilizationExtend must be NULL");
  }
  if (aclError code = open_device(deviceId)) return code;
  info->cubeUtilization = shared::utilization(physical_device(deviceId), Engine::kCompute);
  info->vectorUtilization = info->cubeUtilization;
  info->aicpuUtilization = 0;
  info->memoryUtilization = -1;
  return ACL_SUCCESS;
}

aclError aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus* deviceStatus) {
  ACL_CPU_ENTRY(aclrtQueryDeviceStatus);
  if (deviceStatus == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "deviceStatus must not be NULL");
  if (aclError code = check_device(deviceId)) return code;
  *deviceStatus = device_lost(deviceId) ? ACL_RT_DEVICE_STATUS_ABNORMAL : ACL_RT_DEVICE_STATUS_NORMAL;
  return ACL_SUCCESS;
}

aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
  ACL_CPU_ENTRY(aclrtDeviceTaskAbort);
  if (timeout > 36u * 60 * 1000)
    return fail(ACL_ERROR_RT_PARAM_INVALID, "timeout is %u ms, at most 36 minutes", timeout);
  if (aclError code = check_device(deviceId)) return code;
  for (auto& stream : device_streams(deviceId)) stream->abort(ACL_ERROR_RT_DEVICE_TASK_ABORT);
  std::lock_guard lock(device_mutex);
  for (auto* context : device_of(deviceId).contexts) context->sticky = ACL_SUCCESS;
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t* value) {
  ACL_CPU_ENTRY(aclGetDeviceCapability);  // approximate: core counts of one Ascend910B, whatever the soc_name
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value must not be NULL");
  if (aclError code = check_device(int(deviceId))) return code;
  static const int kAttributes[] = {ACL_DEV_ATTR_AICORE_CORE_NUM, ACL_DEV_ATTR_VECTOR_CORE_NUM,
                                    ACL_DEV_ATTR_L2_CACHE_SIZE};
  if (deviceInfo < ACL_DEVICE_INFO_AI_CORE_NUM || deviceInfo > ACL_DEVICE_INFO_L2_SIZE) {
    return fail(ACL_ERROR_INVALID_PARAM, "unknown device information %d", int(deviceInfo));
  }
  return device_attribute(kAttributes[deviceInfo], value);
}

aclError aclrtGetDeviceInfo(uint32_t deviceId, aclrtDevAttr attr, int64_t* value) {
  ACL_CPU_ENTRY(aclrtGetDeviceInfo);  // approximate: core counts of one Ascend910B, whatever the soc_name
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value must not be NULL");
  if (aclError code = check_device(int(deviceId))) return code;
  if (attr == ACL_DEV_ATTR_PHY_CHIP_ID) {
    *value = physical_device(int(deviceId));
    return ACL_SUCCESS;
  }
  return device_attribute(attr, value);
}

aclError aclrtDeviceGetStreamPriorityRange(int32_t* leastPriority, int32_t* greatestPriority) {
  ACL_CPU_ENTRY(aclrtDeviceGetStreamPriorityRange);
  if (leastPriority == nullptr || greatestPriority == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "no argument may be NULL");
  }
  *leastPriority = 7;
  *greatestPriority = 0;
  return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  ACL_CPU_ENTRY(aclrtDeviceCanAccessPeer);  // approximate: yes for every pair
  if (canAccessPeer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "canAccessPeer must not be NULL");
  if (aclError code = check_device(deviceId)) return code;
  if (aclError code = check_device(peerDeviceId)) return code;
  if (deviceId == peerDeviceId) return fail(ACL_ERROR_INVALID_PARAM, "a device is not its own peer");
  *canAccessPeer = 1;
  return ACL_SUCCESS;
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  ACL_CPU_ENTRY(aclrtDeviceEnablePeerAccess);
  if (flags != 0) return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "flags must be 0, got %u", flags);
  Context* context;
  if (aclError code = current_context(&context)) return code;
  if (aclError code = check_device(peerDeviceId)) return code;
  if (context->device == peerDeviceId) return fail(ACL_ERROR_INVALID_PARAM, "a device is not its own peer");
  if (!peer_enabled(context->device, peerDeviceId)) {
    std::lock_guard lock(device_mutex);
    device_of(context->device).peers.push_back(peerDeviceId);
  }
  return ACL_SUCCESS;
}

aclError aclrtDeviceDisablePeerAccess(int32_t peerDeviceId) {
  ACL_CPU_ENTRY(aclrtDeviceDisablePeerAccess);
  Context* context;
  if (aclError code = current_context(&context)) return code;
  if (aclError code = check_device(peerDeviceId)) return code;
  std::lock_guard lock(device_mutex);
  auto& peers = device_of(context->device).peers;
  peers.erase(std::remove(peers.begin(), peers.end(), peerDeviceId), peers.end());
  return ACL_SUCCESS;
}

aclError aclrtDeviceGetBareTgid(int32_t* pid) {
  ACL_CPU_ENTRY(aclrtDeviceGetBareTgid);  // approximate: this process's own id
  if (pid == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "pid must not be NULL");
  *pid = getpid();
  return ACL_SUCCESS;
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
  ACL_CPU_ENTRY(aclrtGetLogicDevIdByUserDevId);  // approximate: logical and physical ids are the same
  return to_physical(userDevid, logicDevId);
}
aclError aclrtGetUserDevIdByLogicDevId(const int32_t logicDevId, int32_t* const userDevid) {
  ACL_CPU_ENTRY(aclrtGetUserDevIdByLogicDevId);  // approximate: logical and physical ids are the same
  return from_physical(logicDevId, userDevid);
}
aclError aclrtGetLogicDevIdByPhyDevId(const int32_t phyDevId, int32_t* const logicDevId) {
  ACL_CPU_ENTRY(aclrtGetLogicDevIdByPhyDevId);  // approximate: logical and physical ids are the same
  int32_t user;
  if (aclError code = from_physical(phyDevId, logicDevId == nullptr ? nullptr : &user)) return code;
  *logicDevId = phyDevId;
  return ACL_SUCCESS;
}
aclError aclrtGetPhyDevIdByLogicDevId(const int32_t logicDevId, int32_t* const phyDevId) {
  ACL_CPU_ENTRY(aclrtGetPhyDevIdByLogicDevId);  // approximate: logical and physical ids are the same
  int32_t user;
  if (aclError code = from_physical(logicDevId, phyDevId == nullptr ? nullptr : &user)) return code;
  *phyDevId = logicDevId;
  return ACL_SUCCESS;
}
aclError aclrtGetUserDevIdByPhyDevId(const int32_t phyDevId, int32_t* const userDevId) {
  ACL_CPU_ENTRY(aclrtGetUserDevIdByPhyDevId);
  return from_physical(phyDevId, userDevId);
}
aclError aclrtGetPhyDevIdByUserDevId(const int32_t userDevId, int32_t* const phyDevId) {
  ACL_CPU_ENTRY(aclrtGetPhyDevIdByUserDevId);
  return to_physical(userDevId, phyDevId);
}

}  // extern "C"
#pragma GCC visibility pop
