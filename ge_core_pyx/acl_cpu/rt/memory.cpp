// SPDX-License-Identifier: Apache-2.0
// Memory. A device's memory is one reserved address range without access, whose addresses the program gets, and a
// second mapping of the same size at a constant distance, where the bytes are. Every live allocation and registration
// is in one ordered registry, so a pointer is classified and translated by one look-up.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <shared_mutex>

#include "internal.h"

namespace acl_cpu {

extern std::atomic<int64_t> device_bytes, pinned_bytes, device_peak, pinned_peak;

namespace {

constexpr size_t kPage = 4096, kHugePage = size_t(2) << 20, kGiant = size_t(1) << 30;
constexpr size_t kPoisonLimit = size_t(4) << 20;
constexpr int kPoison = 0xA5;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

// Address space of one device: the next fit after the last allocation, so that freed addresses are reused late.
struct Arena {
  std::mutex mutex;
  std::atomic<char*> base{nullptr};
  char* alias = nullptr;
  size_t capacity = 0, cursor = 0;
  std::map<size_t, size_t> free;  // offset → length
};
Arena& arena_of(int device) {
  static auto* all = new Arena[kMaxDevices];
  return all[device];
}

std::shared_mutex registry_mutex;
std::map<uintptr_t, Region>& registry() {
  static auto* all = new std::map<uintptr_t, Region>;
  return *all;
}

void count(std::atomic<int64_t>& bytes, std::atomic<int64_t>& peak, int64_t delta) {
  int64_t now = bytes.fetch_add(delta) + delta, highest = peak.load();
  while (now > highest && !peak.compare_exchange_weak(highest, now)) {
  }
}

bool open_arena(Arena& arena) {
  if (arena.base.load() != nullptr) return true;
  size_t capacity = round_up(size_t(config().hbm_bytes) * 2, kGiant);
  auto reserve = [&](int protection) {
    void* map = mmap(nullptr, capacity + kGiant, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? nullptr : reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(map), kHugePage));
  };
  char *base = reserve(PROT_NONE), *alias = reserve(PROT_READ | PROT_WRITE);
  if (base == nullptr || alias == nullptr) return false;
  madvise(alias, capacity, MADV_DONTDUMP);
  arena.alias = alias;
  arena.capacity = capacity;
  arena.free[0] = capacity;
  arena.base = base;
  return true;
}

// Offset of `length` bytes aligned to `alignment`, or SIZE_MAX.
size_t take(Arena& arena, size_t length, size_t alignment) {
  auto fit = [&](auto hole, size_t from) {
    for (; hole != arena.free.end(); ++hole) {
      size_t offset = round_up(std::max(hole->first, from), alignment), hole_end = hole->first + hole->second;
      if (offset + length > hole_end) continue;
      if (offset > hole->first) {
        hole->second = offset - hole->first;
      } else {
        arena.free.erase(hole);
      }
      if (offset + length < hole_end) arena.free[offset + length] = hole_end - offset - length;
      arena.cursor = offset + length;
      return offset;
    }
    return SIZE_MAX;
  };
  auto middle = arena.free.upper_bound(arena.cursor);
  if (middle != arena.free.begin()) --middle;  // the cursor may lie in a hole: what was taken last may be free again
  size_t offset = fit(middle, arena.cursor);
  return offset != SIZE_MAX ? offset : fit(arena.free.begin(), 0);
}

void give_back(Arena& arena, size_t offset, size_t length) {
  madvise(arena.alias + offset, length, MADV_DONTNEED);
  auto next = arena.free.lower_bound(offset);
  if (next != arena.free.end() && offset + length == next->first) {
    length += next->second;
    next = arena.free.erase(next);
  }
  if (next != arena.free.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += length;
      return;
    }
  }
  arena.free[offset] = length;
}

aclError allocate(int device, size_t size, size_t padded, int policy, void** out) {
  if (device_lost(device)) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "device %d is lost", device);
  bool fallback = false;
  size_t unit;
  switch (policy) {
    case ACL_MEM_MALLOC_HUGE_ONLY:
    case ACL_MEM_MALLOC_HUGE_ONLY_P2P:
      unit = kHugePage;
      break;
    case ACL_MEM_MALLOC_NORMAL_ONLY:
    case ACL_MEM_MALLOC_NORMAL_ONLY_P2P:
      unit = kPage;
      break;
    case ACL_MEM_MALLOC_HUGE1G_ONLY:
    case ACL_MEM_MALLOC_HUGE1G_ONLY_P2P:
      unit = kGiant;
      break;
    default: {
      bool first = policy == ACL_MEM_MALLOC_HUGE_FIRST || policy == ACL_MEM_MALLOC_HUGE_FIRST_P2P;
      fallback = first ? padded > kHugePage / 2 : padded >= kHugePage;
      unit = fallback ? kHugePage : kPage;
    }
  }
  size_t charged = padded > SIZE_MAX / 2 ? padded : round_up(padded, unit);
  int physical = physical_device(device);
  bool granted = charged <= config().hbm_bytes && shared::reserve_memory(physical, charged);
  if (!granted && fallback) {
    charged = round_up(padded, unit = kPage);
    granted = charged <= config().hbm_bytes && shared::reserve_memory(physical, charged);
  }
  if (!granted) {
    uint64_t used = shared::used_memory(physical);
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                "Failed to allocate %zu bytes on device %d: %llu of %llu bytes are in use (all processes of this user)",
                size, device, static_cast<unsigned long long>(used),
                static_cast<unsigned long long>(config().hbm_bytes));
  }
  Arena& arena = arena_of(device);
  Region region;
  {
    std::lock_guard lock(arena.mutex);
    size_t offset = open_arena(arena) ? take(arena, charged, std::min(unit, kHugePage)) : SIZE_MAX;
    if (offset == SIZE_MAX) {
      shared::release_memory(physical, charged);
      return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no address range of %zu bytes is left on device %d", charged,
                  device);
    }
    if (unit != kPage) madvise(arena.alias + offset, charged, MADV_HUGEPAGE);
    if (padded <= kPoisonLimit) std::memset(arena.alias + offset, kPoison, padded);
    region.type = Region::kDevice;
    region.device = device;
    region.base = reinterpret_cast<uintptr_t>(arena.base.load() + offset);
    region.size = size;
    region.padded = padded;
    region.charged = charged;
  }
  {
    std::unique_lock lock(registry_mutex);
    registry()[region.base] = region;
  }
  count(device_bytes, device_peak, int64_t(charged));
  live_add(Kind::kDeviceMemory, 1);
  *out = reinterpret_cast<void*>(region.base);
  return ACL_SUCCESS;
}

void release(const Region& region) {
  Arena& arena = arena_of(region.device);
  {
    std::lock_guard lock(arena.mutex);
    give_back(arena, size_t(region.base - reinterpret_cast<uintptr_t>(arena.base.load())), region.charged);
  }
  shared::release_memory(physical_device(region.device), region.charged);
  count(device_bytes, device_peak, -int64_t(region.charged));
  live_add(Kind::kDeviceMemory, -1);
}

// Removes and returns the region that begins at `pointer`, if it is of one of the types.
Region remove_region(const void* pointer, std::initializer_list<Region::Type> types) {
  std::unique_lock lock(registry_mutex);
  auto found = registry().find(reinterpret_cast<uintptr_t>(pointer));
  if (found == registry().end()) return {};
  if (std::find(types.begin(), types.end(), found->second.type) == types.end()) return {};
  Region region = found->second;
  registry().erase(found);
  return region;
}

constexpr size_t with_spare(size_t size) { return (size + 63) / 32 * 32; }  // 32 spare bytes for prefetching kernels

aclError device_alloc(void** out, size_t size, size_t padded, int policy) {
  if (out == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "devPtr must not be NULL");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "size must not be 0");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  if (padded < size) return fail(ACL_ERROR_INVALID_PARAM, "size %zu is too large", size);
  return allocate(context->device, size, padded, policy, out);
}

aclError check_config(const aclrtMallocConfig* cfg) {
  if (cfg != nullptr && cfg->numAttrs > 0 && cfg->attrs == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "cfg->attrs must not be NULL when numAttrs is %zu", cfg->numAttrs);
  }
  return ACL_SUCCESS;
}

aclError host_alloc(void** out, size_t size) {
  if (out == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "hostPtr must not be NULL");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "size must not be 0");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  void* memory = nullptr;
  if (size >= kHugePage) {
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
  } else if (posix_memalign(&memory, 64, size) != 0) {
    memory = nullptr;
  }
  if (memory == nullptr)
    return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no %zu bytes of host memory: %s", size, strerror(ENOMEM));
  if (size <= kPoisonLimit) std::memset(memory, kPoison, size);
  Region region;
  region.type = Region::kPinned;
  region.base = reinterpret_cast<uintptr_t>(memory);
  region.size = region.padded = region.charged = size;
  {
    std::unique_lock lock(registry_mutex);
    registry()[region.base] = region;
  }
  count(pinned_bytes, pinned_peak, int64_t(size));
  live_add(Kind::kHostMemory, 1);
  *out = memory;
  return ACL_SUCCESS;
}

aclError host_free(void* pointer) {
  if (pointer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "hostPtr must not be NULL");
  Region region = find_region(pointer);  // memory of aclrtHostRegisterV2 costs nothing and is not ours to free
  if (region.charged != 0) region = remove_region(pointer, {Region::kPinned});
  if (region.type != Region::kPinned || region.charged == 0) {
    return fail(ACL_ERROR_RT_MEMORY_FREE, "%p was not returned by aclrtMallocHost, or is free already", pointer);
  }
  if (region.size >= kHugePage) {
    munmap(pointer, region.size);
  } else {
    std::free(pointer);
  }
  count(pinned_bytes, pinned_peak, -int64_t(region.size));
  live_add(Kind::kHostMemory, -1);
  return ACL_SUCCESS;
}

aclError device_release(void* pointer) {
  if (pointer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "devPtr must not be NULL");
  Region region = remove_region(pointer, {Region::kDevice});
  if (region.type == Region::kUnknown) {
    return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%p was not returned by aclrtMalloc, or is free already", pointer);
  }
  release(region);
  return ACL_SUCCESS;
}

aclError register_host(void* pointer, size_t size, Region::Type type) {
  Region region;
  region.type = type;
  region.base = reinterpret_cast<uintptr_t>(pointer);
  region.size = region.padded = size;
  if (type == Region::kMapped) {
    region.mapped = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region.mapped == MAP_FAILED) return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no address range of %zu bytes", size);
  }
  std::unique_lock lock(registry_mutex);
  auto next = registry().lower_bound(region.base);
  bool overlaps = next != registry().end() && next->first < region.base + size;
  if (next != registry().begin()) {
    auto& before = std::prev(next)->second;
    overlaps = overlaps || before.base + before.padded > region.base;
  }
  if (overlaps) {
    lock.unlock();
    if (region.mapped != nullptr) munmap(region.mapped, size);
    return fail(api_is_9() ? ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED : ACL_ERROR_RT_PARAM_INVALID,
                "%p is pinned, registered or device memory already", pointer);
  }
  registry()[region.base] = region;
  return ACL_SUCCESS;
}

aclError check_registration(void* pointer, uint64_t size, bool aligned) {
  if (pointer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "ptr must not be NULL");
  if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, "size must not be 0");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  if (aligned && reinterpret_cast<uintptr_t>(pointer) % size_t(sysconf(_SC_PAGESIZE)) != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not aligned to a page of %ld bytes", pointer, sysconf(_SC_PAGESIZE));
  }
  return ACL_SUCCESS;
}

aclError synchronize_then(aclError (*free_it)(void*), void* pointer) {
  Context* context;
  if (aclError code = current_context(&context)) return code;
  for (auto& stream : device_streams(context->device)) {
    while (stream->completed() < stream->submitted()) stream->wait_done(stream->submitted(), kForever);
  }
  return free_it(pointer);
}

}  // namespace

MemoryView::MemoryView() { registry_mutex.lock_shared(); }
MemoryView::~MemoryView() { registry_mutex.unlock_shared(); }

const Region* MemoryView::find(const void* pointer) const {
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  auto next = registry().upper_bound(address);
  if (next == registry().begin()) return nullptr;
  const Region& region = std::prev(next)->second;
  return address < region.base + region.padded ? &region : nullptr;
}

char* MemoryView::bytes(const Region& region, const void* pointer) {
  if (region.type != Region::kDevice) return static_cast<char*>(const_cast<void*>(pointer));
  Arena& arena = arena_of(region.device);
  return arena.alias + (static_cast<const char*>(pointer) - arena.base.load(std::memory_order_relaxed));
}

Region find_region(const void* pointer) {
  MemoryView view;
  const Region* region = view.find(pointer);
  return region == nullptr ? Region() : *region;
}

char* host_alias(const void* device_ptr, size_t nbytes, int* device) {
  MemoryView view;
  const Region* region = view.find(device_ptr);
  if (region == nullptr || region->type != Region::kDevice) return nullptr;
  if (nbytes > region->padded - (reinterpret_cast<uintptr_t>(device_ptr) - region->base)) return nullptr;
  if (device != nullptr) *device = region->device;
  return MemoryView::bytes(*region, device_ptr);
}

bool is_pinned(const void* host_ptr, size_t nbytes) {
  MemoryView view;
  const Region* region = view.find(host_ptr);
  return region != nullptr && region->type == Region::kPinned && region->holds(host_ptr, nbytes);
}

aclError device_malloc(int device, size_t nbytes, void** out) {
  size_t size = std::max<size_t>(nbytes, 1);
  return allocate(device, size, with_spare(size), ACL_MEM_MALLOC_HUGE_FIRST, out);
}
aclError device_free(void* device_ptr) { return device_release(device_ptr); }

void free_device_memory(int device) {
  std::vector<Region> regions;
  {
    std::unique_lock lock(registry_mutex);
    for (auto entry = registry().begin(); entry != registry().end();) {
      if (entry->second.type == Region::kDevice && entry->second.device == device) {
        regions.push_back(entry->second);
        entry = registry().erase(entry);
      } else {
        ++entry;
      }
    }
  }
  for (auto& region : regions) release(region);
}

}  // namespace acl_cpu

using namespace acl_cpu;

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  ACL_CPU_ENTRY(aclrtMalloc);
  return device_alloc(devPtr, size, with_spare(size), policy);
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  ACL_CPU_ENTRY(aclrtMallocAlign32);
  return device_alloc(devPtr, size, (size + 31) / 32 * 32, policy);
}

aclError aclrtMallocCached(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  ACL_CPU_ENTRY(aclrtMallocCached);  // approximate: the same as aclrtMalloc
  return device_alloc(devPtr, size, with_spare(size), policy);
}

aclError aclrtMallocWithCfg(void** devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* cfg) {
  ACL_CPU_ENTRY(aclrtMallocWithCfg);  // approximate: attributes are checked and ignored
  if (aclError code = check_config(cfg)) return code;
  return device_alloc(devPtr, size, size, policy);
}

aclError aclrtMallocForTaskScheduler(void** devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig* cfg) {
  ACL_CPU_ENTRY(aclrtMallocForTaskScheduler);  // approximate: attributes are checked and ignored
  if (aclError code = check_config(cfg)) return code;
  return device_alloc(devPtr, size, size, policy);
}

aclError aclrtFree(void* devPtr) {
  ACL_CPU_ENTRY(aclrtFree);
  return device_release(devPtr);
}

aclError aclrtFreeWithDevSync(void* devPtr) {
  ACL_CPU_ENTRY(aclrtFreeWithDevSync);
  return synchronize_then(device_release, devPtr);
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  ACL_CPU_ENTRY(aclrtMallocHost);
  return host_alloc(hostPtr, size);
}

aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  ACL_CPU_ENTRY(aclrtMallocHostWithCfg);  // approximate: attributes are checked and ignored
  if (aclError code = check_config(cfg)) return code;
  return host_alloc(ptr, size);
}

aclError aclrtFreeHost(void* hostPtr) {
  ACL_CPU_ENTRY(aclrtFreeHost);
  return host_free(hostPtr);
}

aclError aclrtFreeHostWithDevSync(void* hostPtr) {
  ACL_CPU_ENTRY(aclrtFreeHostWithDevSync);
  return synchronize_then(host_free, hostPtr);
}

aclError aclrtHostRegister(void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  ACL_CPU_ENTRY(aclrtHostRegister);  // approximate: devPtr is an address that nothing here reads
  if (devPtr == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "devPtr must not be NULL");
  if (type != ACL_HOST_REGISTER_MAPPED) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "type must be ACL_HOST_REGISTER_MAPPED (0), got %d", int(type));
  }
  if (aclError code = check_registration(ptr, size, true)) return code;
  if (aclError code = register_host(ptr, size, Region::kMapped)) return code;
  *devPtr = find_region(ptr).mapped;
  return ACL_SUCCESS;
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtHostRegisterV2);
  constexpr uint32_t kKnown = ACL_HOST_REG_MAPPED | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
  if (flag == 0 || (flag & ~kKnown) != 0) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must combine MAPPED, READONLY and PINNED, got 0x%x", flag);
  }
  bool pinned = (flag & ACL_HOST_REG_PINNED) != 0;
  if (aclError code = check_registration(ptr, size, !pinned)) return code;
  return register_host(ptr, size, pinned ? Region::kPinned : Region::kMapped);
}

aclError aclrtHostUnregister(void* ptr) {
  ACL_CPU_ENTRY(aclrtHostUnregister);
  if (ptr == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "ptr must not be NULL");
  Region region = find_region(ptr);
  bool registered =
      region.type != Region::kUnknown && region.charged == 0 && region.base == reinterpret_cast<uintptr_t>(ptr);
  if (registered) region = remove_region(ptr, {Region::kPinned, Region::kMapped});
  if (!registered || region.type == Region::kUnknown) {
    return fail(api_is_9() ? ACL_ERROR_HOST_MEMORY_NOT_REGISTERED : ACL_ERROR_RT_PARAM_INVALID, "%p was not registered",
                ptr);
  }
  if (region.mapped != nullptr) munmap(region.mapped, region.size);
  return ACL_SUCCESS;
}

aclError aclrtHostGetDevicePointer(void* pHost, void** pDevice, uint32_t flag) {
  ACL_CPU_ENTRY(aclrtHostGetDevicePointer);  // approximate: an address that nothing here reads
  if (pHost == nullptr || pDevice == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "no argument may be NULL");
  if (flag != 0) return fail(ACL_ERROR_RT_PARAM_INVALID, "flag must be 0, got %u", flag);
  Region region = find_region(pHost);
  if (region.type != Region::kMapped) {
    return fail(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered with ACL_HOST_REG_MAPPED", pHost);
  }
  *pDevice = static_cast<char*>(region.mapped) + (reinterpret_cast<uintptr_t>(pHost) - region.base);
  return ACL_SUCCESS;
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  ACL_CPU_ENTRY(aclrtPointerGetAttributes);
  if (ptr == nullptr || attributes == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "no argument may be NULL");
  Region region = find_region(ptr);
  *attributes = {};
  switch (region.type) {
    case Region::kDevice:
      attributes->location = {uint32_t(region.device), ACL_MEM_LOCATION_TYPE_DEVICE};
      attributes->pageSize = uint32_t(region.charged % kHugePage == 0 ? kHugePage : kPage);
      break;
    case Region::kUnknown:
      attributes->location.type = api_is_9() ? ACL_MEM_LOCATION_TYPE_UNREGISTERED : ACL_MEM_LOCATION_TYPE_HOST;
      break;
    default:
      attributes->location.type = ACL_MEM_LOCATION_TYPE_HOST;
      attributes->pageSize = uint32_t(kPage);
  }
  return ACL_SUCCESS;
}

aclError aclrtMemGetAddressRange(void* ptr, void** pbase, size_t* psize) {
  ACL_CPU_ENTRY(aclrtMemGetAddressRange);
  if (ptr == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "ptr must not be NULL");
  Region region = find_region(ptr);
  if (region.type != Region::kDevice) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not device memory", ptr);
  if (pbase != nullptr) *pbase = reinterpret_cast<void*>(region.base);
  if (psize != nullptr) *psize = region.size;
  return ACL_SUCCESS;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  ACL_CPU_ENTRY(aclrtGetMemInfo);  // approximate: HBM; other memory is 0 of 0
  if (free == nullptr || total == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "free and total must not be NULL");
  Context* context;
  if (aclError code = current_context(&context)) return code;
  *free = *total = 0;
  switch (attr) {
    case ACL_HBM_MEM:
    case ACL_HBM_MEM_HUGE:
    case ACL_HBM_MEM_NORMAL:
    case ACL_HBM_MEM_P2P_HUGE:
    case ACL_HBM_MEM_P2P_NORMAL:
    case ACL_HBM_MEM_HUGE1G:
    case ACL_HBM_MEM_P2P_HUGE1G:
    case ACL_MEM_NORMAL:
    case ACL_MEM_HUGE:
    case ACL_MEM_HUGE1G:
    case ACL_MEM_P2P_NORMAL:
    case ACL_MEM_P2P_HUGE:
    case ACL_MEM_P2P_HUGE1G: {
      uint64_t used = shared::used_memory(physical_device(context->device));
      *total = config().hbm_bytes;
      *free = *total - std::min<uint64_t>(used, *total);
      return ACL_SUCCESS;
    }
    default:
      return ACL_SUCCESS;
  }
}

aclError aclrtGetMemUsageInfo(int32_t deviceId, aclrtMemUsageInfo* info, size_t inputNum, size_t* outputNum) {
  ACL_CPU_ENTRY(aclrtGetMemUsageInfo);  // approximate: one entry, this process's
  if (info == nullptr || outputNum == nullptr || inputNum == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "memUsageInfo and outputNum must not be NULL, inputNum not 0");
  }
  if (aclError code = check_device(deviceId)) return code;
  uint64_t used = 0;
  {
    std::shared_lock lock(registry_mutex);
    for (auto& [base, region] : registry()) {
      if (region.type == Region::kDevice && region.device == deviceId) used += region.charged;
    }
  }
  *info = {};
  std::strcpy(info->name, "APP");
  info->curMemSize = used;
  info->memPeakSize = std::max<uint64_t>(used, uint64_t(device_peak.load()));
  *outputNum = 1;
  return ACL_SUCCESS;
}

aclError aclrtMemFlush(void* devPtr, size_t size) {
  ACL_CPU_ENTRY(aclrtMemFlush);  // approximate: checked, no effect
  if (devPtr == nullptr || size == 0) return fail(ACL_ERROR_INVALID_PARAM, "devPtr must not be NULL and size not 0");
  if (host_alias(devPtr, size) == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not device memory", devPtr);
  return ACL_SUCCESS;
}

aclError aclrtMemInvalidate(void* devPtr, size_t size) {
  ACL_CPU_ENTRY(aclrtMemInvalidate);  // approximate: checked, no effect
  if (devPtr == nullptr || size == 0) return fail(ACL_ERROR_INVALID_PARAM, "devPtr must not be NULL and size not 0");
  if (host_alias(devPtr, size) == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not device memory", devPtr);
  return ACL_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
