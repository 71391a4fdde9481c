// SPDX-License-Identifier: Apache-2.0
// Cases against the AscendCL C ABI, each in a process of its own: `prog --list`, `prog CASE`. The text of a case names
// the section of the AscendCL facts that it holds. CASE runs on any AscendCL; CPU_CASE needs the CPU implementation
// (its hooks, its configuration, or strictness that no device promises); …_9 needs the entry points of release 9.
#ifndef GE_CORE_TESTS_CONFORMANCE_RT_HARNESS_H
#define GE_CORE_TESTS_CONFORMANCE_RT_HARNESS_H

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "acl_abi.h"

struct Case {
  const char *name, *section;
  void (*body)();
  Case* next;
  static Case*& first() {
    static Case* head = nullptr;
    return head;
  }
  Case(const char* name, const char* section, void (*body)())
      : name(name), section(section), body(body), next(first()) {
    first() = this;
  }
};

#define CASE(name, section)                      \
  static void name();                            \
  static Case case_##name(#name, section, name); \
  static void name()
#define CPU_CASE(name, section) CASE(name, section)
#if CONFORMANCE_API >= 9
#define CASE_9(name, section) CASE(name, section)
#else
// Never instantiated, so an older library need not have what it calls.
#define CASE_9(name, section) \
  template <int>              \
  void name()
#endif
#define CPU_CASE_9(name, section) CASE_9(name, section)

[[noreturn]] inline void broken(const char* file, int line, const std::string& what) {
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s:%d: %s\n%s\n", file, line, what.c_str(), message == nullptr ? "(no message)" : message);
  std::fflush(stderr);
  _exit(1);
}

inline std::string listed(std::initializer_list<long long> values) {
  std::string text;
  for (long long value : values) text += (text.empty() ? "" : " or ") + std::to_string(value);
  return text;
}

inline void expect(const char* file, int line, const char* what, long long value,
                   std::initializer_list<long long> wanted) {
  if (std::find(wanted.begin(), wanted.end(), value) == wanted.end()) {
    broken(file, line, std::string(what) + " is " + std::to_string(value) + ", expected " + listed(wanted));
  }
}

#define EXPECT(expression, ...) \
  expect(__FILE__, __LINE__, #expression, static_cast<long long>(expression), {__VA_ARGS__})
#define OK(call) EXPECT(call, ACL_SUCCESS)
#define TRUE(condition) EXPECT(static_cast<bool>(condition), 1)
// Fails with a documented code, and says why.
#define FAILS(call, ...)                                                                                    \
  do {                                                                                                      \
    EXPECT(call, __VA_ARGS__);                                                                              \
    const char* why = aclGetRecentErrMsg();                                                                 \
    if (why == nullptr || *why != 'E') broken(__FILE__, __LINE__, #call " left no message with an E-code"); \
  } while (0)

// The first device, bound to this thread; a stream where a case wants one.
struct Session {
  Session() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
  }
  ~Session() {
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
  }
};
struct WithStream : Session {
  aclrtStream stream = nullptr;
  WithStream() { OK(aclrtCreateStream(&stream)); }
  ~WithStream() { OK(aclrtDestroyStream(stream)); }
};

struct Device {
  void* at = nullptr;
  size_t size;
  explicit Device(size_t size) : size(size) { OK(aclrtMalloc(&at, size, ACL_MEM_MALLOC_HUGE_FIRST)); }
  ~Device() { OK(aclrtFree(at)); }
};
struct Pinned {
  unsigned char* at = nullptr;
  size_t size;
  explicit Pinned(size_t size, int fill = 0) : size(size) {
    OK(aclrtMallocHost(reinterpret_cast<void**>(&at), size));
    std::memset(at, fill, size);
  }
  ~Pinned() { OK(aclrtFreeHost(at)); }
};

#include "common.h"

// A stream whose work is held back until release().
struct Held : WithStream {
  Latch latch;
  CallbackThread callbacks;
  Held() {
    OK(aclrtSubscribeReport(callbacks.id, stream));
    OK(aclrtLaunchCallback(Latch::wait, &latch, ACL_CALLBACK_BLOCK, stream));
    while (!latch.entered) usleep(100);
  }
  void release() { latch.open = true; }
  ~Held() {
    release();
    aclrtSynchronizeStream(stream);
    OK(aclrtUnSubscribeReport(callbacks.id, stream));
  }
};

template <typename Function>
Function hook(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) broken(__FILE__, __LINE__, std::string("no hook ") + name);
  return reinterpret_cast<Function>(found);
}
inline int64_t counter(const char* name) { return hook<int64_t (*)(const char*)>("acl_cpu_counter")(name); }
inline void fail_call(const char* entry, int64_t kth, int code) {
  EXPECT(hook<int (*)(const char*, int64_t, int)>("acl_cpu_fail")(entry, kth, code), 0);
}
inline void inject(const char* json) { EXPECT(hook<int (*)(const char*)>("acl_cpu_inject")(json), 0); }

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

#endif
