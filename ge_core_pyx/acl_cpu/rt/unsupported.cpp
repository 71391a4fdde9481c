// SPDX-License-Identifier: Apache-2.0
// Every entry point of the runtime library exists. What no other source file defines is defined here, weakly, and
// answers "not supported" with a text that names it.
#include "internal.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC visibility push(default)
#define PICK_RT(ret, name, args) ACL_CPU_WEAK_UNSUPPORTED(ret, name, args)
#define PICK_MDL(ret, name, args)
#define DEFINE(release, library, ret, name, args) PICK_##library(ret, name, args)
ACL_FUNCTIONS(DEFINE)
#pragma GCC visibility pop
