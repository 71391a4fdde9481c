// SPDX-License-Identifier: Apache-2.0
// Time limits of tasks, and the system options, which are kept and have no effect.
#include <algorithm>

#include "internal.h"

namespace acl_cpu {

std::atomic<uint32_t> op_wait_timeout_s{0};
std::atomic<uint64_t> op_timeout_us{1091000000};

}  // namespace acl_cpu

using namespace acl_cpu;

namespace {

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

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

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

}  // extern "C"
#pragma GCC visibility pop
