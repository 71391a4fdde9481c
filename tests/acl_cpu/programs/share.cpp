// SPDX-License-Identifier: Apache-2.0
// One process of several on a device. It says what it is told to do on stdin, one line each, and answers on stdout:
// "hold BYTES" allocates, "release" frees all, "used" tells total - free, "copy NBYTES COUNT" copies to the device
// COUNT times on a stream and answers with the device's time before the first and after the last, in us, "quit" ends.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "acl_abi.h"

int main() {
  if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) return 1;
  aclrtStream stream;
  if (aclrtCreateStream(&stream) != ACL_SUCCESS) return 1;
  std::vector<void*> held;
  for (std::string word; std::cin >> word && word != "quit";) {
    if (word == "hold") {
      size_t nbytes;
      std::cin >> nbytes;
      void* memory = nullptr;
      aclError code = aclrtMalloc(&memory, nbytes, ACL_MEM_MALLOC_NORMAL_ONLY);
      if (code == ACL_SUCCESS) held.push_back(memory);
      std::cout << code << std::endl;
    } else if (word == "release") {
      for (void* memory : held) aclrtFree(memory);
      held.clear();
      std::cout << 0 << std::endl;
    } else if (word == "used") {
      size_t free = 0, total = 0;
      aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
      std::cout << total - free << std::endl;
    } else if (word == "copy") {
      size_t nbytes, count;
      std::cin >> nbytes >> count;
      void *host = nullptr, *device = nullptr;
      if (aclrtMallocHost(&host, nbytes) != ACL_SUCCESS) return 1;
      if (aclrtMalloc(&device, nbytes, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS) return 1;
      std::memset(host, 1, nbytes);
      aclrtEvent marks[2];
      for (aclrtEvent& mark : marks) {
        if (aclrtCreateEvent(&mark) != ACL_SUCCESS) return 1;
      }
      if (aclrtRecordEvent(marks[0], stream) != ACL_SUCCESS) return 1;
      for (size_t i = 0; i < count; ++i) {
        if (aclrtMemcpyAsync(device, nbytes, host, nbytes, ACL_MEMCPY_HOST_TO_DEVICE, stream) != ACL_SUCCESS) return 1;
      }
      if (aclrtRecordEvent(marks[1], stream) != ACL_SUCCESS) return 1;
      if (aclrtSynchronizeStream(stream) != ACL_SUCCESS) return 1;
      uint64_t times[2];
      for (int i = 0; i < 2; ++i) {
        if (aclrtEventGetTimestamp(marks[i], &times[i]) != ACL_SUCCESS) return 1;
        aclrtDestroyEvent(marks[i]);
      }
      aclrtFree(device);
      aclrtFreeHost(host);
      std::cout << times[0] << ' ' << times[1] << std::endl;
    }
  }
  return 0;
}
