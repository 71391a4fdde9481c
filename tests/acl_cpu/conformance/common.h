// SPDX-License-Identifier: Apache-2.0
// What both programs of cases need. Included after the macro OK of each.
#ifndef GE_CORE_TESTS_CONFORMANCE_COMMON_H
#define GE_CORE_TESTS_CONFORMANCE_COMMON_H

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>

#include "acl_abi.h"

inline void configure(const char* json) { setenv("GE_CORE_CPU_CONFIG", json, 1); }

// A device of this size, up to 2 MiB more, that no other process is likely to share. `more` begins with a comma.
inline void configure_own(int64_t nbytes, const char* more = "") {
  std::string size = std::to_string(nbytes + getpid() % 512 * int64_t(4096));
  configure(("{\"hbm_bytes\": " + size + more + "}").c_str());
}

// A callback that holds its stream until opened.
struct Latch {
  std::atomic<bool> open{false}, entered{false};
  static void wait(void* self) {
    auto* latch = static_cast<Latch*>(self);
    latch->entered = true;
    while (!latch->open) usleep(200);
  }
};

// A thread that serves callbacks of streams until it is told to stop.
struct CallbackThread {
  aclrtContext context = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> id{0};
  std::thread thread;
  CallbackThread() {
    OK(aclrtGetCurrentContext(&context));
    thread = std::thread([this] {
      OK(aclrtSetCurrentContext(context));
      id = pthread_self();
      while (!stop) aclrtProcessReport(20);
    });
    while (id == 0) usleep(100);
  }
  ~CallbackThread() {
    stop = true;
    thread.join();
  }
};

#endif
