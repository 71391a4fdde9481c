// aclInit and aclFinalize, devices, contexts and what is asked about them.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "internal.h"
#include "json.h"

namespace acl_cpu {
namespace {

struct Device {
  int sets = 0;
  Context* primary = nullptr;
  std::vector<Context*> contexts;
  std::vector<int> peers;
  std::atomic<bool> lost{false};
};

// Guards the devices and the life of contexts; never held while a stream is waited for.
std::mutex device_mutex;
Device& device_of(int id) {
  static auto* all = new Device[kMaxDevices];
  return all[id];
}

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

// Contexts that ended are reused late instead of deleted: a thread that was inside a call may still look at one.
std::deque<Context*>& retired_contexts() {
  static auto* all = new std::deque<Context*>;
  return *all;
}

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

// Ends contexts whose handles this thread has removed; then, if the device has none left, its memory.
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

// Takes contexts out of the device under device_mutex: nobody finds them any more.
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

aclError open_device(int id) {
  if (aclError code = check_device(id)) return code;
  shared::attach();
  static std::once_flag once;
  std::call_once(once, [] { pthread_atfork(nullptr, nullptr, mark_forked); });
  return ACL_SUCCESS;
}

}  // namespace

bool api_is_9() {
  static const bool is_9 = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&api_is_9), &info) == 0 || info.dli_fname == nullptr) return false;
    const char* name = std::strrchr(info.dli_fname, '/');
    return std::strcmp(name == nullptr ? info.dli_fname : name + 1, "libacl_rt.so") == 0;
  }();
  return is_9;
}

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

}  // namespace acl_cpu

using namespace acl_cpu;

namespace {

std::recursive_mutex init_mutex;
uint64_t init_count = 0;
auto& init_config = *new std::string;  // nothing here is destroyed at exit: programs may still call
bool ever_initialised = false;

struct PhaseCallback {
  int type;
  void* function;
  void* data;
};
auto& init_callbacks = *new std::vector<PhaseCallback>;
auto& finalize_callbacks = *new std::vector<PhaseCallback>;

aclError read_init_config(const char* path, std::string* text) {
  text->clear();
  if (path == nullptr || *path == '\0') return ACL_SUCCESS;
  std::ifstream file(path);
  std::stringstream content;
  if (!file || !(content << file.rdbuf())) {
    return fail(ACL_ERROR_INVALID_FILE, "aclInit: cannot read the configuration file %s", path);
  }
  *text = content.str();
  try {
    if (Json::parse(*text, 10).type != Json::kObject) throw JsonError("expected a JSON object");
  } catch (const JsonError& error) {
    return fail(ACL_ERROR_PARSE_FILE, "aclInit: %s: %s", path, error.what());
  }
  return ACL_SUCCESS;
}

aclError finalize() {
  auto callbacks = finalize_callbacks;
  for (auto& callback : callbacks) reinterpret_cast<aclFinalizeCallbackFunc>(callback.function)(callback.data);
  close_all_devices();
  init_count = 0;
  return ACL_SUCCESS;
}

aclError register_phase(std::vector<PhaseCallback>* all, int type, void* function, void* data) {
  if (function == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the callback must not be NULL");
  std::lock_guard lock(init_mutex);
  all->push_back({type, function, data});
  return ACL_SUCCESS;
}

aclError unregister_phase(std::vector<PhaseCallback>* all, int type, void* function) {
  if (function == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the callback must not be NULL");
  std::lock_guard lock(init_mutex);
  for (auto callback = all->begin(); callback != all->end(); ++callback) {
    if (callback->type == type && callback->function == function) {
      all->erase(callback);
      return ACL_SUCCESS;
    }
  }
  return fail(ACL_ERROR_INVALID_PARAM, "this callback is not registered");
}

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

std::atomic<int64_t> system_options[4];
std::atomic<bool> system_option_set[4];

aclError get_option(int option, int64_t* value) {
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value must not be NULL");
  if (option < 0 || option > 3) return fail(ACL_ERROR_RT_PARAM_INVALID, "unknown option %d", option);
  if (!system_option_set[option]) return fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "option %d was never set", option);
  *value = system_options[option];
  return ACL_SUCCESS;
}

aclError set_option(int option, int64_t value) {
  if (option < 0 || option > 3) return fail(ACL_ERROR_RT_PARAM_INVALID, "unknown option %d", option);
  if (value != 0 && value != 1) return fail(ACL_ERROR_RT_PARAM_INVALID, "value must be 0 or 1");
  system_options[option] = value;
  system_option_set[option] = true;
  return ACL_SUCCESS;
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

const char* version_text() { return api_is_9() ? "9.1.0" : "8.1.RC1"; }

}  // namespace

namespace acl_cpu {
std::atomic<uint32_t> op_wait_timeout_s{0};
std::atomic<uint64_t> op_timeout_us{1091000000};
bool peer_enabled(int from, int to) {
  std::lock_guard lock(device_mutex);
  auto& peers = device_of(from).peers;
  return std::find(peers.begin(), peers.end(), to) != peers.end();
}
}  // namespace acl_cpu

#pragma GCC visibility push(default)
extern "C" {

// ---- the process ----
aclError aclInit(const char* configPath) {
  ACL_CPU_ENTRY(aclInit);  // approximate: dump, profiler and the other keys of the file are ignored
  std::lock_guard lock(init_mutex);
  std::string text;
  if (aclError code = read_init_config(configPath, &text)) return code;
  if (ever_initialised && text != init_config) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclInit: the configuration differs from the one of the first aclInit");
  }
  ever_initialised = true;
  init_config = text;
  if (++init_count > 1) return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit was called before; this can be ignored");
  auto callbacks = init_callbacks;
  for (auto& callback : callbacks) {
    reinterpret_cast<aclInitCallbackFunc>(callback.function)(text.c_str(), text.size(), callback.data);
  }
  return ACL_SUCCESS;
}

aclError aclFinalize(void) {
  ACL_CPU_ENTRY(aclFinalize);
  std::lock_guard lock(init_mutex);
  if (init_count == 0) return fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize without an aclInit before it");
  return finalize();
}

aclError aclFinalizeReference(uint64_t* refCount) {
  ACL_CPU_ENTRY(aclFinalizeReference);
  std::lock_guard lock(init_mutex);
  if (init_count == 0) return fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalizeReference without an aclInit before it");
  aclError code = --init_count == 0 ? finalize() : ACL_SUCCESS;
  if (refCount != nullptr) *refCount = init_count;
  return code;
}

aclError aclInitCallbackRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void* userData) {
  ACL_CPU_ENTRY(aclInitCallbackRegister);
  return register_phase(&init_callbacks, type, reinterpret_cast<void*>(cbFunc), userData);
}
aclError aclInitCallbackUnRegister(aclRegisterCallbackType type, aclInitCallbackFunc cbFunc) {
  ACL_CPU_ENTRY(aclInitCallbackUnRegister);
  return unregister_phase(&init_callbacks, type, reinterpret_cast<void*>(cbFunc));
}
aclError aclFinalizeCallbackRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void* userData) {
  ACL_CPU_ENTRY(aclFinalizeCallbackRegister);
  return register_phase(&finalize_callbacks, type, reinterpret_cast<void*>(cbFunc), userData);
}
aclError aclFinalizeCallbackUnRegister(aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc) {
  ACL_CPU_ENTRY(aclFinalizeCallbackUnRegister);
  return unregister_phase(&finalize_callbacks, type, reinterpret_cast<void*>(cbFunc));
}

const char* aclrtGetSocName(void) {
  ACL_CPU_ENTRY_OR(aclrtGetSocName, nullptr);
  return config().soc_name.c_str();
}

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion) {
  ACL_CPU_ENTRY(aclrtGetVersion);
  if (majorVersion == nullptr || minorVersion == nullptr || patchVersion == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "majorVersion, minorVersion and patchVersion must not be NULL");
  }
  *majorVersion = 1;
  *minorVersion = api_is_9() ? 17 : 13;
  *patchVersion = 0;
  return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion* version) {
  ACL_CPU_ENTRY(aclsysGetCANNVersion);  // approximate: 8.1.RC1 or 9.1.0 for every package
  if (version == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "version must not be NULL");
  if (name < ACL_PKG_NAME_CANN || name > ACL_PKG_NAME_DRIVER) {
    return fail(ACL_ERROR_INVALID_PARAM, "unknown package %d", int(name));
  }
  *version = {};
  std::strcpy(version->version, version_text());
  std::strcpy(version->majorVersion, api_is_9() ? "9" : "8");
  std::strcpy(version->minorVersion, "1");
  std::strcpy(version->releaseVersion, api_is_9() ? "0" : "RC1");
  return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  ACL_CPU_ENTRY(aclsysGetVersionStr);  // approximate: 9.1.0 for every package
  if (pkgName == nullptr || versionStr == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "no argument may be NULL");
  std::strcpy(versionStr, version_text());
  return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char* pkgName, int32_t* versionNum) {
  ACL_CPU_ENTRY(aclsysGetVersionNum);  // approximate: 9.1.0 for every package
  if (pkgName == nullptr || versionNum == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "no argument may be NULL");
  *versionNum = api_is_9() ? 90100000 : 80100000 - 100;
  return ACL_SUCCESS;
}

aclError aclGetCannAttributeList(const aclCannAttr** cannAttrList, size_t* num) {
  ACL_CPU_ENTRY(aclGetCannAttributeList);
  if (cannAttrList == nullptr || num == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "no argument may be NULL");
  static const aclCannAttr kAttributes[] = {ACL_CANN_ATTR_INF_NAN, ACL_CANN_ATTR_BF16, ACL_CANN_ATTR_JIT_COMPILE};
  *cannAttrList = kAttributes;
  *num = std::size(kAttributes);
  return ACL_SUCCESS;
}

aclError aclGetCannAttribute(aclCannAttr cannAttr, int32_t* value) {
  ACL_CPU_ENTRY(aclGetCannAttribute);  // approximate: 1 for each
  if (value == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "value must not be NULL");
  if (cannAttr < ACL_CANN_ATTR_INF_NAN || cannAttr > ACL_CANN_ATTR_JIT_COMPILE) {
    return fail(ACL_ERROR_INVALID_PARAM, "unknown attribute %d", int(cannAttr));
  }
  *value = 1;
  return ACL_SUCCESS;
}

// ---- devices ----
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

// ---- options ----
aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  ACL_CPU_ENTRY(aclrtSetOpWaitTimeout);
  op_wait_timeout_s = timeout;
  return ACL_SUCCESS;
}
aclError aclrtSetOpExecuteTimeOut(uint32_t timeout) {
  ACL_CPU_ENTRY(aclrtSetOpExecuteTimeOut);  // approximate: ends tasks that hang by a fault, no others
  op_timeout_us = uint64_t(timeout) * 1000000;
  return ACL_SUCCESS;
}
aclError aclrtSetOpExecuteTimeOutWithMs(uint32_t timeout) {
  ACL_CPU_ENTRY(aclrtSetOpExecuteTimeOutWithMs);  // approximate: as aclrtSetOpExecuteTimeOut
  op_timeout_us = uint64_t(timeout) * 1000;
  return ACL_SUCCESS;
}
aclError aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t* actualTimeout) {
  ACL_CPU_ENTRY(aclrtSetOpExecuteTimeOutV2);  // approximate: as aclrtSetOpExecuteTimeOut
  if (actualTimeout == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "actualTimeout must not be NULL");
  op_timeout_us = std::min<uint64_t>(timeout, uint64_t(INT64_MAX) / 4000);
  *actualTimeout = op_timeout_us;
  return ACL_SUCCESS;
}
aclError aclrtGetOpTimeOutInterval(uint64_t* interval) {
  ACL_CPU_ENTRY(aclrtGetOpTimeOutInterval);  // approximate: 1 us
  if (interval == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "interval must not be NULL");
  *interval = 1;
  return ACL_SUCCESS;
}
aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  ACL_CPU_ENTRY(aclrtGetSysParamOpt);  // approximate: as set
  return get_option(opt, value);
}
aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  ACL_CPU_ENTRY(aclrtSetSysParamOpt);  // approximate: kept, no effect
  return set_option(opt, value);
}
aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  ACL_CPU_ENTRY(aclrtCtxGetSysParamOpt);  // approximate: the process's, not the context's
  Context* context;
  if (aclError code = current_context(&context)) return code;
  return get_option(opt, value);
}
aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  ACL_CPU_ENTRY(aclrtCtxSetSysParamOpt);  // approximate: kept for the process, no effect
  Context* context;
  if (aclError code = current_context(&context)) return code;
  return set_option(opt, value);
}

// ---- contexts ----
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
