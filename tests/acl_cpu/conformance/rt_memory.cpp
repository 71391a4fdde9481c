// SPDX-License-Identifier: Apache-2.0
// Memory and copies (facts 2.7, 3.4, 3.5, 7).
#include <sys/mman.h>
#include <sys/wait.h>

#include <set>

#include "rt_harness.h"

CASE(malloc_refuses_null_and_zero, "3.4") {
  Session session;
  void* memory = nullptr;
  FAILS(aclrtMalloc(nullptr, 64, ACL_MEM_MALLOC_HUGE_FIRST), 100000);
  FAILS(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), 100000);
}

CASE(free_of_null_says_100000, "3.4") {
  Session session;
  FAILS(aclrtFree(nullptr), 100000);
  FAILS(aclrtFreeHost(nullptr), 100000);
}

CASE(device_pointers_are_64_byte_aligned, "3.4") {
  Session session;
  std::vector<void*> all;
  for (size_t size : {1, 31, 64, 100, 5000, 1 << 20, 3 << 20}) {
    all.push_back(nullptr);
    OK(aclrtMalloc(&all.back(), size, ACL_MEM_MALLOC_HUGE_FIRST));
    EXPECT(reinterpret_cast<uintptr_t>(all.back()) % 64, 0);
  }
  for (void* memory : all) OK(aclrtFree(memory));
}

CASE(every_policy_allocates, "3.4") {
  Session session;
  for (int policy : {0, 1, 2, 3, 4, 5, 0x100, 0x1000}) {
    void* memory = nullptr;
    OK(aclrtMalloc(&memory, 1000, aclrtMemMallocPolicy(policy)));
    OK(aclrtFree(memory));
  }
}

CASE(other_allocators_work, "2.7") {
  Session session;
  void* memory = nullptr;
  OK(aclrtMallocAlign32(&memory, 100, ACL_MEM_MALLOC_NORMAL_ONLY));
  OK(aclrtFree(memory));
  OK(aclrtMallocCached(&memory, 100, ACL_MEM_MALLOC_NORMAL_ONLY));
  OK(aclrtFree(memory));
  OK(aclrtMallocWithCfg(&memory, 100, ACL_MEM_MALLOC_NORMAL_ONLY, nullptr));
  OK(aclrtFree(memory));
}

CPU_CASE(freeing_twice_is_an_error, "design 5") {
  Session session;
  void* memory = nullptr;
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(memory));
  FAILS(aclrtFree(memory), 507899);
  OK(aclrtMallocHost(&memory, 64));
  OK(aclrtFreeHost(memory));
  FAILS(aclrtFreeHost(memory), 207002);
}

CPU_CASE(the_host_cannot_read_device_memory, "design 5") {
  OK(aclrtSetDevice(0));
  Device memory(64);
  pid_t child = fork();
  if (child == 0) {
    volatile char byte = *static_cast<volatile char*>(memory.at);
    _exit(byte == 0);
  }
  int status = 0;
  TRUE(waitpid(child, &status, 0) == child);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#else
  TRUE(status != 0);
#endif
}

CPU_CASE(new_memory_is_poisoned, "7") {
  Session session;
  Device memory(4096);
  std::vector<unsigned char> back(4096, 0);
  OK(aclrtMemcpy(back.data(), 4096, memory.at, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(std::count(back.begin(), back.end(), 0xA5), 4096);
}

CASE(mem_info_needs_a_device_and_adds_up, "3.4") {
  size_t before = 0, during = 0, after = 0, total = 0;
  FAILS(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total), 107002);
  Session session;
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &before, &total));
  TRUE(before <= total && total > 0);
  {
    Device memory(64 << 20);
    OK(aclrtGetMemInfo(ACL_HBM_MEM, &during, &total));
    TRUE(during + (64 << 20) <= before);
  }
  OK(aclrtGetMemInfo(ACL_HBM_MEM, &after, &total));
  TRUE(after > during);
  FAILS(aclrtGetMemInfo(ACL_HBM_MEM, nullptr, &total), 100000);
}

CPU_CASE(huge_only_costs_two_mebibytes, "3.4") {
  configure("{\"hbm_bytes\": 67108864}");
  OK(aclrtSetDevice(0));
  void* memory = nullptr;
  OK(aclrtMalloc(&memory, 1024, ACL_MEM_MALLOC_HUGE_ONLY));
  EXPECT(counter("bytes.device"), 2 << 20);
  OK(aclrtFree(memory));
  OK(aclrtMalloc(&memory, 1024, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT(counter("bytes.device"), 4096);
  OK(aclrtFree(memory));
}

CPU_CASE(out_of_memory_says_207001, "3.4") {
  configure_own(16 << 20);
  OK(aclrtSetDevice(0));
  void *memory = nullptr, *rest = nullptr;
  OK(aclrtMalloc(&memory, 12 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  FAILS(aclrtMalloc(&rest, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
  OK(aclrtFree(memory));
  OK(aclrtMalloc(&rest, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(rest));
}

CPU_CASE(freed_addresses_are_reused_late, "design 5: a stale pointer must not meet somebody else's memory") {
  Session session;
  std::set<void*> seen;
  for (int i = 0; i < 1000; ++i) {
    void* memory = nullptr;
    OK(aclrtMalloc(&memory, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    TRUE(seen.insert(memory).second);
    OK(aclrtFree(memory));
  }
}

CPU_CASE(absurd_sizes_say_207001, "3.4") {
  Session session;
  void* memory = nullptr;
  FAILS(aclrtMalloc(&memory, size_t(1) << 60, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
  FAILS(aclrtMalloc(&memory, SIZE_MAX, ACL_MEM_MALLOC_HUGE_FIRST), 100000, 207001);
  FAILS(aclrtMalloc(&memory, SIZE_MAX - 100, ACL_MEM_MALLOC_HUGE1G_ONLY), 100000, 207001);
}

CPU_CASE(another_process_sees_the_memory, "design 5") {
  configure_own(16 << 20);
  int to_child[2], to_parent[2];
  TRUE(pipe(to_child) == 0 && pipe(to_parent) == 0);
  pid_t child = fork();
  char byte = 0;
  if (child == 0) {
    if (read(to_child[0], &byte, 1) != 1) _exit(1);
    aclrtSetDevice(0);
    void* memory = nullptr;
    byte = aclrtMalloc(&memory, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST) == 207001 ? 'n' : 'y';
    if (write(to_parent[1], &byte, 1) != 1 || read(to_child[0], &byte, 1) != 1) _exit(1);
    if (aclrtMalloc(&memory, 12 << 20, ACL_MEM_MALLOC_HUGE_FIRST) != 0) _exit(1);
    byte = 'h';
    if (write(to_parent[1], &byte, 1) != 1) _exit(1);
    pause();
  }
  OK(aclrtSetDevice(0));
  void* memory = nullptr;
  {
    Device held(12 << 20);
    TRUE(write(to_child[1], "x", 1) == 1 && read(to_parent[0], &byte, 1) == 1);
    EXPECT(byte, 'n');
  }
  TRUE(write(to_child[1], "x", 1) == 1 && read(to_parent[0], &byte, 1) == 1);
  EXPECT(byte, 'h');
  FAILS(aclrtMalloc(&memory, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST), 207001);
  kill(child, SIGKILL);
  TRUE(waitpid(child, nullptr, 0) == child);
  OK(aclrtMalloc(&memory, 8 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtFree(memory));
}

CASE(host_memory_is_64_byte_aligned_and_usable, "3.4") {
  Session session;
  for (size_t size : {1, 100, 4096, 3 << 20}) {
    Pinned host(size, 3);
    EXPECT(reinterpret_cast<uintptr_t>(host.at) % 64, 0);
    EXPECT(host.at[size - 1], 3);
  }
  void* memory = nullptr;
  FAILS(aclrtMallocHost(&memory, 0), 100000);
  FAILS(aclrtMallocHost(nullptr, 10), 100000);
}

CASE(pointer_attributes_tell_device_and_host, "3.4") {
  Session session;
  Device memory(256);
  Pinned host(256);
  aclrtPtrAttributes attributes;
  OK(aclrtPointerGetAttributes(memory.at, &attributes));
  EXPECT(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  EXPECT(attributes.location.id, 0);
  OK(aclrtPointerGetAttributes(static_cast<char*>(memory.at) + 100, &attributes));
  EXPECT(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
  OK(aclrtPointerGetAttributes(host.at, &attributes));
  EXPECT(attributes.location.type, ACL_MEM_LOCATION_TYPE_HOST);
  FAILS(aclrtPointerGetAttributes(nullptr, &attributes), 100000);
  FAILS(aclrtPointerGetAttributes(host.at, nullptr), 100000);
}

CASE_9(foreign_memory_is_unregistered, "3.4") {
  Session session;
  int local = 0;
  aclrtPtrAttributes attributes;
  OK(aclrtPointerGetAttributes(&local, &attributes));
  EXPECT(attributes.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
}

CASE(memcpy_there_and_back, "3.5") {
  Session session;
  Device memory(1000);
  std::vector<unsigned char> data(1000), back(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7);
  OK(aclrtMemcpy(memory.at, 1000, data.data(), 1000, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(aclrtMemcpy(back.data(), 1000, memory.at, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
  TRUE(data == back);
}

CASE(memcpy_between_device_buffers_and_hosts, "3.5") {
  Session session;
  Device first(512), second(512);
  std::vector<char> data(512, 9), back(512), copy(512);
  OK(aclrtMemcpy(first.at, 512, data.data(), 512, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(aclrtMemcpy(second.at, 512, first.at, 512, ACL_MEMCPY_DEVICE_TO_DEVICE));
  OK(aclrtMemcpy(back.data(), 512, second.at, 512, ACL_MEMCPY_DEVICE_TO_HOST));
  TRUE(back == data);
  OK(aclrtMemcpy(copy.data(), 512, data.data(), 512, ACL_MEMCPY_HOST_TO_HOST));
  TRUE(copy == data);
}

CASE(memcpy_into_the_middle, "3.5") {
  Session session;
  Device memory(256);
  OK(aclrtMemset(memory.at, 256, 0, 256));
  char mark[4] = {1, 2, 3, 4}, back[256];
  OK(aclrtMemcpy(static_cast<char*>(memory.at) + 100, 156, mark, 4, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(aclrtMemcpy(back, 256, memory.at, 256, ACL_MEMCPY_DEVICE_TO_HOST));
  TRUE(std::memcmp(back + 100, mark, 4) == 0 && back[99] == 0 && back[104] == 0);
}

CASE(memcpy_enforces_dest_max, "3.5") {
  Session session;
  Device memory(256);
  char data[256] = {};
  FAILS(aclrtMemcpy(memory.at, 100, data, 101, ACL_MEMCPY_HOST_TO_DEVICE), 100000, 107000);
  Pinned host(256);
  FAILS(aclrtMemcpyAsync(memory.at, 100, host.at, 101, ACL_MEMCPY_HOST_TO_DEVICE, nullptr), 100000, 107000);
}

CASE(memcpy_refuses_null, "3.5") {
  Session session;
  Device memory(64);
  char data[64] = {};
  FAILS(aclrtMemcpy(nullptr, 64, data, 64, ACL_MEMCPY_HOST_TO_DEVICE), 100000, 107000);
  FAILS(aclrtMemcpy(memory.at, 64, nullptr, 64, ACL_MEMCPY_HOST_TO_DEVICE), 100000, 107000);
}

CPU_CASE(memcpy_of_nothing_succeeds, "3.5") {
  Session session;
  Device memory(64);
  char data[1] = {};
  OK(aclrtMemcpy(memory.at, 64, data, 0, ACL_MEMCPY_HOST_TO_DEVICE));
}

CPU_CASE(memcpy_checks_the_direction, "7") {
  Session session;
  Device memory(64);
  char data[64] = {};
  FAILS(aclrtMemcpy(memory.at, 64, data, 64, ACL_MEMCPY_DEVICE_TO_HOST), 107000);
  FAILS(aclrtMemcpy(data, 64, memory.at, 64, ACL_MEMCPY_HOST_TO_DEVICE), 107000);
  FAILS(aclrtMemcpy(data, 64, memory.at, 64, ACL_MEMCPY_HOST_TO_HOST), 107000);
  FAILS(aclrtMemcpy(memory.at, 64, data, 64, ACL_MEMCPY_DEVICE_TO_DEVICE), 107000);
  FAILS(aclrtMemcpy(memory.at, 64, data, 64, aclrtMemcpyKind(99)), 107000);
}

CPU_CASE(default_kind_finds_the_direction, "3.5") {
  Session session;
  Device memory(64);
  char data[64], back[64] = {};
  std::memset(data, 4, 64);
  OK(aclrtMemcpy(memory.at, 64, data, 64, ACL_MEMCPY_DEFAULT));
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEFAULT));
  EXPECT(back[63], 4);
}

CPU_CASE(a_copy_past_an_allocation_is_an_error, "design 5") {
  Session session;
  Device memory(64);
  std::vector<char> data(10000);
  FAILS(aclrtMemcpy(memory.at, 10000, data.data(), 10000, ACL_MEMCPY_HOST_TO_DEVICE), 507899);
  FAILS(aclrtMemcpy(memory.at, 10000, data.data(), 65, ACL_MEMCPY_HOST_TO_DEVICE), 507899);
}

CASE(memset_fills, "2.7") {
  Session session;
  Device memory(300);
  unsigned char back[300];
  OK(aclrtMemset(memory.at, 300, 0x1AB, 300));
  OK(aclrtMemcpy(back, 300, memory.at, 300, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 0xAB);
  EXPECT(back[299], 0xAB);
  FAILS(aclrtMemset(nullptr, 10, 0, 10), 100000, 107000);
  FAILS(aclrtMemset(memory.at, 10, 0, 11), 100000, 107000);
}

CASE(async_copy_on_a_stream, "3.6") {
  WithStream session;
  Device memory(4096);
  Pinned host(4096, 6), back(4096, 0);
  OK(aclrtMemcpyAsync(memory.at, 4096, host.at, 4096, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  OK(aclrtMemcpyAsync(back.at, 4096, memory.at, 4096, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  EXPECT(back.at[4095], 6);
}

CASE(async_copy_on_the_default_stream, "3.2") {
  Session session;
  Device memory(64);
  Pinned host(64, 8), back(64, 0);
  OK(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, nullptr));
  OK(aclrtMemcpyAsync(back.at, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST, nullptr));
  OK(aclrtSynchronizeStream(nullptr));
  EXPECT(back.at[0], 8);
}

CASE(async_memset, "3.6") {
  WithStream session;
  Device memory(128);
  Pinned back(128, 0);
  OK(aclrtMemsetAsync(memory.at, 128, 3, 128, session.stream));
  OK(aclrtMemcpyAsync(back.at, 128, memory.at, 128, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  EXPECT(back.at[127], 3);
}

CASE(async_copy_reads_its_source_when_it_runs, "7") {
  Held held;
  Device memory(64);
  Pinned host(64, 1), back(64, 0);
  OK(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, held.stream));
  std::memset(host.at, 2, 64);
  held.release();
  OK(aclrtSynchronizeStream(held.stream));
  OK(aclrtMemcpy(back.at, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back.at[0], 2);
}

CASE(buffered_copy_reads_its_source_at_once, "3.5") {
  Held held;
  Device memory(64);
  Pinned host(64, 1), back(64, 0);
  OK(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, held.stream));
  std::memset(host.at, 2, 64);
  held.release();
  OK(aclrtSynchronizeStream(held.stream));
  OK(aclrtMemcpy(back.at, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back.at[0], 1);
}

CASE(async_host_to_host_is_refused, "3.5") {
  WithStream session;
  Pinned from(64), to(64);
  FAILS(aclrtMemcpyAsync(to.at, 64, from.at, 64, ACL_MEMCPY_HOST_TO_HOST, session.stream), 207000);
}

CPU_CASE(async_pageable_copy_fails_when_it_runs, "3.5") {
  WithStream session;
  Device memory(64);
  std::vector<char> data(64);
  OK(aclrtMemcpyAsync(memory.at, 64, data.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  FAILS(aclrtSynchronizeStream(session.stream), 507013);
  OK(aclrtSynchronizeStream(session.stream));
}

CPU_CASE(async_pageable_copy_synchronises_if_configured, "3.5") {
  configure("{\"pageable_async\": \"sync\"}");
  WithStream session;
  Device memory(64);
  std::vector<char> data(64, 5);
  OK(aclrtMemcpyAsync(memory.at, 64, data.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  data.assign(64, 6);
  char back[64];
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 5);
}

CASE(copy_with_condition_takes_pageable_memory, "3.5") {
  WithStream session;
  Device memory(64);
  std::vector<char> data(64, 5);
  OK(aclrtMemcpyAsyncWithCondition(memory.at, 64, data.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  char back[64];
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[0], 5);
}

CPU_CASE(pinned_memory_freed_before_the_copy_is_reported, "7") {
  Held held;
  Device memory(64);
  void* host;
  OK(aclrtMallocHost(&host, 64));
  OK(aclrtMemcpyAsync(memory.at, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, held.stream));
  OK(aclrtFreeHost(host));
  held.release();
  FAILS(aclrtSynchronizeStream(held.stream), 507013);
}

CPU_CASE(device_memory_freed_before_the_copy_is_reported, "7") {
  Held held;
  Pinned host(64);
  void* memory;
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemcpyAsync(memory, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, held.stream));
  OK(aclrtFree(memory));
  held.release();
  TRUE(aclrtSynchronizeStream(held.stream) != ACL_SUCCESS);
}

CPU_CASE(unaligned_async_device_copy_says_107008, "3.5") {
  WithStream session;
  Device first(256), second(256);
  FAILS(aclrtMemcpyAsync(static_cast<char*>(second.at) + 4, 100, first.at, 100, ACL_MEMCPY_DEVICE_TO_DEVICE,
                         session.stream),
        107008);
  OK(aclrtMemcpyAsync(second.at, 256, first.at, 256, ACL_MEMCPY_DEVICE_TO_DEVICE, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
}

CASE(two_dimensional_copy, "3.5") {
  Session session;
  Device memory(10 * 64);
  OK(aclrtMemset(memory.at, 640, 0, 640));
  unsigned char data[40], back[640];
  std::memset(data, 7, 40);
  OK(aclrtMemcpy2d(memory.at, 64, data, 4, 4, 10, ACL_MEMCPY_HOST_TO_DEVICE));
  OK(aclrtMemcpy(back, 640, memory.at, 640, ACL_MEMCPY_DEVICE_TO_HOST));
  for (int row = 0; row < 10; ++row) {
    EXPECT(back[row * 64 + 3], 7);
    EXPECT(back[row * 64 + 4], 0);
  }
  FAILS(aclrtMemcpy2d(memory.at, 4, data, 4, 5, 8, ACL_MEMCPY_HOST_TO_DEVICE), 100000);
}

CASE(two_dimensional_async_copy, "3.5") {
  WithStream session;
  Device memory(640);
  Pinned host(40, 9), back(40, 0);
  OK(aclrtMemcpy2dAsync(memory.at, 64, host.at, 4, 4, 10, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  OK(aclrtMemcpy2dAsync(back.at, 4, memory.at, 64, 4, 10, ACL_MEMCPY_DEVICE_TO_HOST, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  EXPECT(back.at[39], 9);
}

CASE(host_register_wants_page_alignment, "3.4") {
  Session session;
  void* page = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* device = nullptr;
  TRUE(aclrtHostRegister(static_cast<char*>(page) + 64, 1000, ACL_HOST_REGISTER_MAPPED, &device) != ACL_SUCCESS);
  FAILS(aclrtHostRegister(nullptr, 1000, ACL_HOST_REGISTER_MAPPED, &device), 100000);
  FAILS(aclrtHostRegister(page, 0, ACL_HOST_REGISTER_MAPPED, &device), 100000);
}

CPU_CASE(host_register_maps_once, "3.4") {
  Session session;
  void* page = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* device = nullptr;
  OK(aclrtHostRegister(page, 8192, ACL_HOST_REGISTER_MAPPED, &device));
  TRUE(device != nullptr);
  FAILS(aclrtHostRegister(page, 8192, ACL_HOST_REGISTER_MAPPED, &device), 507910, 107000);
  OK(aclrtHostUnregister(page));
  FAILS(aclrtHostUnregister(page), 507911, 107000);
}

CPU_CASE_9(host_register_v2_pins, "3.4") {
  WithStream session;
  Device memory(4096);
  std::vector<unsigned char> data(4096, 5);
  OK(aclrtHostRegisterV2(data.data(), 4096, ACL_HOST_REG_PINNED));
  FAILS(aclrtHostRegisterV2(data.data(), 4096, ACL_HOST_REG_PINNED), 507910);
  OK(aclrtMemcpyAsync(memory.at, 4096, data.data(), 4096, ACL_MEMCPY_HOST_TO_DEVICE, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  OK(aclrtHostUnregister(data.data()));
}

static aclrtMemcpyBatchAttr to_device() {
  aclrtMemcpyBatchAttr attribute = {};
  attribute.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
  attribute.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
  return attribute;
}

CASE_9(batch_copy, "3.5") {
  WithStream session;
  Device first(64), second(128);
  Pinned from_first(64, 1), from_second(128, 2), back(128, 0);
  void *dsts[] = {first.at, second.at}, *srcs[] = {from_first.at, from_second.at};
  size_t sizes[] = {64, 128}, maxs[] = {64, 128}, index = 0, failed = 0;
  aclrtMemcpyBatchAttr attribute = to_device();
  OK(aclrtMemcpyBatchAsync(dsts, maxs, srcs, sizes, 2, &attribute, &index, 1, &failed, session.stream));
  EXPECT(failed, static_cast<long long>(SIZE_MAX));
  OK(aclrtSynchronizeStream(session.stream));
  OK(aclrtMemcpy(back.at, 128, second.at, 128, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back.at[127], 2);
}

CASE_9(batch_copy_names_the_entry_at_fault, "3.5") {
  Session session;
  Device memory(64);
  Pinned host(64);
  void *dsts[] = {memory.at, memory.at}, *srcs[] = {host.at, host.at};
  size_t sizes[] = {64, 65}, maxs[] = {64, 64}, index = 0, failed = 0;
  aclrtMemcpyBatchAttr attribute = to_device();
  FAILS(aclrtMemcpyBatch(dsts, maxs, srcs, sizes, 2, &attribute, &index, 1, &failed), 107000, 100000);
  EXPECT(failed, 1);
}

CASE_9(memset_of_words, "2.7") {
  Session session;
  Device memory(64);
  uint32_t back[16];
  OK(aclrtMemsetD32(memory.at, 64, 0x01020304, 16));
  OK(aclrtMemcpy(back, 64, memory.at, 64, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT(back[15], 0x01020304);
}

CASE_9(address_range_of_an_inner_pointer, "2.7") {
  Session session;
  Device memory(1000);
  void* base = nullptr;
  size_t size = 0;
  OK(aclrtMemGetAddressRange(static_cast<char*>(memory.at) + 500, &base, &size));
  TRUE(base == memory.at && size >= 1000);
}

CASE(threads_allocate_and_copy_at_once, "3.2") {
  Session session;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([context, id] {
      OK(aclrtSetCurrentContext(context));
      for (int round = 0; round < 50; ++round) {
        Device memory(size_t(1000 + 100 * round));
        std::vector<char> data(1000, char(id)), back(1000);
        OK(aclrtMemcpy(memory.at, 1000, data.data(), 1000, ACL_MEMCPY_HOST_TO_DEVICE));
        OK(aclrtMemcpy(back.data(), 1000, memory.at, 1000, ACL_MEMCPY_DEVICE_TO_HOST));
        TRUE(back == data);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}
