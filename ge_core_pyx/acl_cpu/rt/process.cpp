// SPDX-License-Identifier: Apache-2.0
// aclInit and aclFinalize, versions: what is asked of the process, not of a device.
#include <dlfcn.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "internal.h"
#include "json.h"

namespace acl_cpu {

bool api_is_9() {
  static const bool is_9 = [] {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&api_is_9), &info) == 0 || info.dli_fname == nullptr) return false;
    const char* name = std::strrchr(info.dli_fname, '/');
    return std::strcmp(name == nullptr ? info.dli_fname : name + 1, "libacl_rt.so") == 0;
  }();
  return is_9;
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

const char* version_text() { return api_is_9() ? "9.1.0" : "8.1.RC1"; }

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

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

}  // extern "C"
#pragma GCC visibility pop
