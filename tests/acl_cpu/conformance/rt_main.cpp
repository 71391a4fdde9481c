// SPDX-License-Identifier: Apache-2.0
#include "rt_harness.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s --list | CASE\n", argv[0]);
    return 2;
  }
  bool list = std::strcmp(argv[1], "--list") == 0;
  for (Case* test = Case::first(); test != nullptr; test = test->next) {
    if (list) std::printf("%s %s\n", test->name, test->section);
    if (std::strcmp(argv[1], test->name) == 0) {
      if (getenv("GE_CORE_CPU_CONFIG") == nullptr) configure_own(int64_t(1) << 36);
      test->body();
      return 0;
    }
  }
  if (list) return 0;
  std::fprintf(stderr, "no case is called %s\n", argv[1]);
  return 2;
}
