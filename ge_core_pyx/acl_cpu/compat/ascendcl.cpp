// SPDX-License-Identifier: Apache-2.0
// The names of 9.x's libascendcl.so, so that programs can be linked with -lascendcl alone. At load time the dynamic
// linker puts libacl_rt.so and libacl_mdl.so in front of this library (DT_AUXILIARY), so none of this ever runs;
// without them a call fails as it does in CANN's link-time stub.
#include <type_traits>

#include "acl_abi.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

template <typename Result>
static Result stub() {
  if constexpr (std::is_same_v<Result, aclError>) {
    return ACL_ERROR_COMPILING_STUB_MODE;
  } else if constexpr (!std::is_void_v<Result>) {
    return Result();
  }
}

#define DEFINE(release, library, ret, name, args) \
  extern "C" ret name args { return stub<ret>(); }
ACL_FUNCTIONS(DEFINE)
