// Every entry point of the model library that no other file here defines: it says so and returns "not supported".
#include <type_traits>

#include "rt/runtime.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace {

template <class Result>
Result absent(acl_cpu::Entry entry, const char* name) {
  aclError code = acl_cpu::unsupported(entry, name);
  if constexpr (std::is_same_v<Result, aclError>) {
    return code;
  } else {
    return Result();
  }
}

}  // namespace

#define PICK_RT(...)
#define PICK_MDL(ret, name, args) \
  extern "C" __attribute__((weak)) ret name args { return absent<ret>(acl_cpu::k_##name, #name); }
#define PICK(release, library, ret, name, args) PICK_##library(ret, name, args)
ACL_FUNCTIONS(PICK)
