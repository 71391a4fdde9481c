// SPDX-License-Identifier: Apache-2.0
// How the model half reports mistakes inside itself: thrown, and turned into code and text at the entry point.
#ifndef ACL_CPU_MDL_FAILURE_H
#define ACL_CPU_MDL_FAILURE_H

#include <string>

#include "acl_abi.h"

namespace acl_cpu::mdl {

struct Failure {
  aclError code;
  std::string text;
};

[[noreturn]] __attribute__((format(printf, 2, 3))) void refuse(aclError code, const char* format, ...);

}  // namespace acl_cpu::mdl

#endif
