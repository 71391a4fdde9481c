// SPDX-License-Identifier: Apache-2.0
// Every entry point of the model library that no other file here defines: it says so and returns "not supported".
#include "rt/runtime.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define PICK_RT(...)
#define PICK_MDL(ret, name, args) ACL_CPU_WEAK_UNSUPPORTED(ret, name, args)
#define PICK(release, library, ret, name, args) PICK_##library(ret, name, args)
ACL_FUNCTIONS(PICK)
