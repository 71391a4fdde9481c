// SPDX-License-Identifier: Apache-2.0
// Copies and fills. The direction is checked against what the addresses are. Asynchronous ones look at their addresses
// again, and read their source, when the stream reaches them: memory freed or reused too early shows.
#include <algorithm>
#include <cstring>

#include "internal.h"

namespace acl_cpu {
namespace {

enum class Direction : int8_t { kHostToHost, kHostToDevice, kDeviceToHost, kDeviceToDevice };

struct Span {  // rows of `width` bytes, `pitch` apart; one row for a plain copy
  void* dst;
  const void* src;
  size_t dst_pitch, src_pitch, width, height;
  size_t dst_bytes() const { return (height - 1) * dst_pitch + width; }
  size_t src_bytes() const { return (height - 1) * src_pitch + width; }
};

struct Direct {  // which ends of a direction are device memory
  bool to_device, from_device;
  explicit Direct(Direction direction)
      : to_device(direction == Direction::kHostToDevice || direction == Direction::kDeviceToDevice),
        from_device(direction == Direction::kDeviceToHost || direction == Direction::kDeviceToDevice) {}
};

// The bytes behind [pointer, pointer + nbytes), for the end that the direction says is device memory or is not.
aclError locate(const Region* region, const void* pointer, size_t nbytes, bool on_device, char** bytes) {
  if ((region != nullptr && region->type == Region::kDevice) != on_device) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "the direction says that %p is %s memory, which it is not", pointer,
                on_device ? "device" : "host");
  }
  if (region == nullptr || region->type == Region::kMapped) {
    *bytes = static_cast<char*>(const_cast<void*>(pointer));
    return ACL_SUCCESS;
  }
  if (!region->holds(pointer, nbytes)) {
    return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%zu bytes at %p reach past the end of their allocation of %zu bytes",
                nbytes, pointer, region->size);
  }
  *bytes = MemoryView::bytes(*region, pointer);
  return ACL_SUCCESS;
}

aclError copy_now(const Span& span, Direction direction, bool from_queue = false) {
  Direct ends(direction);
  char *dst, *src;
  MemoryView view;
  const Region *dst_region = view.find(span.dst), *src_region = view.find(span.src);
  if (from_queue) {
    const Region* host_region = ends.to_device ? src_region : dst_region;
    if (host_region == nullptr || host_region->type != Region::kPinned) {
      return fail(ACL_ERROR_RT_SYS_DMA, "host memory %p was freed before its copy ran",
                  ends.to_device ? span.src : span.dst);
    }
  }
  if (aclError code = locate(dst_region, span.dst, span.dst_bytes(), ends.to_device, &dst)) return code;
  if (aclError code = locate(src_region, span.src, span.src_bytes(), ends.from_device, &src)) return code;
  if (direction == Direction::kDeviceToDevice && dst_region->device != src_region->device &&
      !peer_enabled(dst_region->device, src_region->device) && !peer_enabled(src_region->device, dst_region->device)) {
    return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR,
                "a copy from device %d to device %d needs aclrtDeviceEnablePeerAccess first", src_region->device,
                dst_region->device);
  }
  for (size_t row = 0; row < span.height; ++row) {
    std::memmove(dst + row * span.dst_pitch, src + row * span.src_pitch, span.width);
  }
  return ACL_SUCCESS;
}

aclError find_direction(int kind, const void* dst, const void* src, Direction* direction) {
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_DEVICE_TO_HOST:
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
      *direction = Direction(kind);
      return ACL_SUCCESS;
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      *direction = Direction::kHostToDevice;
      return ACL_SUCCESS;
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      *direction = Direction::kDeviceToDevice;
      return ACL_SUCCESS;
    case ACL_MEMCPY_DEFAULT: {
      bool to_device = find_region(dst).type == Region::kDevice, from_device = find_region(src).type == Region::kDevice;
      *direction = to_device ? (from_device ? Direction::kDeviceToDevice : Direction::kHostToDevice)
                             : (from_device ? Direction::kDeviceToHost : Direction::kHostToHost);
      return ACL_SUCCESS;
    }
    default:
      return fail(ACL_ERROR_RT_PARAM_INVALID, "kind must be 0 to 7, got %d", kind);
  }
}

Engine engine_of(Direction direction) {
  return direction == Direction::kHostToDevice   ? Engine::kH2D
         : direction == Direction::kDeviceToHost ? Engine::kD2H
                                                 : Engine::kNone;
}

double duration_of(Direction direction, size_t nbytes) {
  return direction == Direction::kHostToDevice   ? config().h2d.duration_us(nbytes)
         : direction == Direction::kDeviceToHost ? config().d2h.duration_us(nbytes)
                                                 : 0;
}

aclError copy_sync(const Span& span, Direction direction) {
  Context* context;
  if (aclError code = current_context(&context)) return code;
  int device = context->device;
  if (device_lost(device)) return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "device %d is lost", device);
  double duration_us = duration_of(direction, span.width * span.height);
  if (duration_us <= 0) return copy_now(span, direction);
  int64_t end =
      shared::reserve_engine(physical_device(device), engine_of(direction), now_ns(), int64_t(duration_us * 1e3));
  aclError code = copy_now(span, direction);
  sleep_until(end);
  return code;
}

aclError check_copy(const void* dst, size_t dest_max, const void* src, size_t count) {
  if (dst == nullptr || src == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "dst and src must not be NULL");
  if (count > dest_max) {
    return fail(ACL_ERROR_RT_PARAM_INVALID, "count %zu is larger than destMax %zu", count, dest_max);
  }
  return ACL_SUCCESS;
}

aclError copy_async(const Span& span, int kind, aclrtStream handle, bool degrade_to_sync) {
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  Direction direction = Direction::kHostToHost;
  if (aclError code = find_direction(kind, span.dst, span.src, &direction)) return code;
  Task task;
  task.engine = engine_of(direction);
  task.duration_us = duration_of(direction, span.width * span.height);

  if (direction == Direction::kHostToHost) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "an asynchronous copy from host to host is not supported");
  }
  if (direction == Direction::kDeviceToDevice) {
    if ((reinterpret_cast<uintptr_t>(span.dst) | reinterpret_cast<uintptr_t>(span.src)) % 64 != 0) {
      return fail(ACL_ERROR_RT_ADDR_UNALIGNED, "an asynchronous device copy needs addresses aligned to 64 bytes");
    }
    task.run = [span] { return copy_now(span, Direction::kDeviceToDevice); };
    return enqueue(stream, std::move(task));
  }
  bool to_device = direction == Direction::kHostToDevice, pinned;
  const void *device_end = to_device ? span.dst : span.src, *host_end = to_device ? span.src : span.dst;
  {
    MemoryView view;
    const Region *on_device = view.find(device_end), *on_host = view.find(host_end);
    if (on_device == nullptr || on_device->type != Region::kDevice ||
        (on_host != nullptr && on_host->type == Region::kDevice)) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "kind %d does not fit dst %p and src %p", kind, span.dst, span.src);
    }
    pinned = on_host != nullptr && on_host->type == Region::kPinned &&
             on_host->holds(host_end, to_device ? span.src_bytes() : span.dst_bytes());
  }
  if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
    const char* begin = static_cast<const char*>(span.src);
    auto copy = std::make_shared<std::string>(begin, begin + span.src_bytes());
    Span from_copy = span;
    from_copy.src = copy->data();
    task.run = [copy, from_copy] { return copy_now(from_copy, Direction::kHostToDevice); };
  } else if (pinned) {
    task.run = [span, direction] { return copy_now(span, direction, true); };
  } else if (degrade_to_sync || config().pageable_sync) {
    if (aclError code = synchronize(stream, -1)) return code;
    return copy_sync(span, direction);
  } else {
    task.run = [host_end] {
      return fail(
          ACL_ERROR_RT_SYS_DMA,
          "asynchronous copy of pageable memory %p; use aclrtMallocHost memory (or \"pageable_async\": \"sync\" "
          "for what newer CANN does)",
          host_end);
    };
  }
  return enqueue(stream, std::move(task));
}

Span plain(void* dst, const void* src, size_t count) { return {dst, src, count, count, count, 1}; }

aclError check_2d(const Span& span) {
  if (span.dst == nullptr || span.src == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "dst and src must not be NULL");
  if (span.width > span.dst_pitch || span.width > span.src_pitch) {
    return fail(ACL_ERROR_INVALID_PARAM, "width %zu must not exceed dpitch %zu and spitch %zu", span.width,
                span.dst_pitch, span.src_pitch);
  }
  if (span.width > 5000000 || span.height > 5 * 1024 * 1024) {
    return fail(ACL_ERROR_INVALID_PARAM, "width must be at most 5000000 and height 5242880, got %zu and %zu",
                span.width, span.height);
  }
  return ACL_SUCCESS;
}

aclError check_2d_kind(int kind) {
  if (kind >= ACL_MEMCPY_HOST_TO_DEVICE && kind <= ACL_MEMCPY_DEFAULT) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_PARAM, "a two-dimensional copy cannot have kind %d", kind);
}

// ---- fills ----
aclError fill_now(void* pointer, size_t nbytes, uint32_t value, size_t unit) {
  MemoryView view;
  const Region* region = view.find(pointer);
  if (region == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not memory of AscendCL", pointer);
  if (!region->holds(pointer, nbytes)) {
    return fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "%zu bytes at %p reach past the end of their allocation", nbytes,
                pointer);
  }
  char* bytes = MemoryView::bytes(*region, pointer);
  if (unit == 1) {
    std::memset(bytes, int(value), nbytes);
  } else {
    for (size_t at = 0; at < nbytes; at += unit) std::memcpy(bytes + at, &value, unit);
  }
  return ACL_SUCCESS;
}

aclError check_fill(void* pointer, size_t max, size_t nbytes) {
  if (pointer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "the address must not be NULL");
  if (nbytes > max) return fail(ACL_ERROR_RT_PARAM_INVALID, "%zu bytes are more than the maximum of %zu", nbytes, max);
  return ACL_SUCCESS;
}

aclError fill(void* pointer, size_t max, size_t nbytes, uint32_t value, size_t unit) {
  if (aclError code = check_fill(pointer, max, nbytes)) return code;
  Context* context;
  if (aclError code = current_context(&context)) return code;
  return nbytes == 0 ? ACL_SUCCESS : fill_now(pointer, nbytes, value, unit);
}

aclError fill_async(void* pointer, size_t max, size_t nbytes, uint32_t value, size_t unit, aclrtStream handle) {
  if (aclError code = check_fill(pointer, max, nbytes)) return code;
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  if (nbytes == 0) return ACL_SUCCESS;
  return enqueue(stream, Task{[=] { return fill_now(pointer, nbytes, value, unit); }});
}

// ---- batches ----
struct Batch {
  void** dsts;
  size_t* dest_maxs;
  void** srcs;
  size_t* sizes;
  size_t count;
  aclrtMemcpyBatchAttr* attrs;
  size_t* attrs_indexes;
  size_t num_attrs;
};

// Checks everything, then hands each entry to `copy`. `*fail_index` is the entry at fault or SIZE_MAX.
template <typename Copy>
aclError copy_batch(const Batch& batch, size_t* fail_index, Copy copy) {
  *fail_index = SIZE_MAX;
  Context* context;
  if (aclError code = current_context(&context)) return code;
  if (batch.dsts == nullptr || batch.dest_maxs == nullptr || batch.srcs == nullptr || batch.sizes == nullptr ||
      batch.attrs == nullptr || batch.attrs_indexes == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, "no array may be NULL");
  }
  if (batch.count == 0 || batch.num_attrs == 0 || batch.num_attrs > batch.count || batch.attrs_indexes[0] != 0) {
    return fail(ACL_ERROR_INVALID_PARAM,
                "numBatches must be at least numAttrs, which must be at least 1, and the first "
                "entry of attrsIndexes must be 0");
  }
  std::vector<Direction> directions(batch.count);
  for (size_t entry = 0, attr = 0; entry < batch.count; ++entry) {
    *fail_index = entry;
    while (attr + 1 < batch.num_attrs && entry >= batch.attrs_indexes[attr + 1]) ++attr;
    const aclrtMemcpyBatchAttr& about = batch.attrs[attr];
    bool to_device = about.dstLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    bool from_device = about.srcLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
    directions[entry] = to_device ? Direction::kHostToDevice : Direction::kDeviceToHost;
    if (to_device == from_device || directions[entry] != directions[0]) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "all entries must go from host to device, or all from device to host");
    }
    if (std::any_of(about.rsv, about.rsv + sizeof about.rsv, [](uint8_t byte) { return byte != 0; })) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "rsv of attribute %zu must be zero", attr);
    }
    if (aclError code = check_copy(batch.dsts[entry], batch.dest_maxs[entry], batch.srcs[entry], batch.sizes[entry])) {
      return code;
    }
  }
  for (size_t entry = 0; entry < batch.count; ++entry) {
    *fail_index = entry;
    if (batch.sizes[entry] == 0) continue;
    Span span = plain(batch.dsts[entry], batch.srcs[entry], batch.sizes[entry]);
    if (aclError code = copy(span, directions[entry])) return code;
  }
  *fail_index = SIZE_MAX;
  return ACL_SUCCESS;
}

aclError copy_batch_async(const Batch& batch, size_t* fail_index, aclrtStream handle) {
  return copy_batch(batch, fail_index, [&](const Span& span, Direction direction) -> aclError {
    const void* host_end = direction == Direction::kHostToDevice ? span.src : span.dst;
    if (!is_pinned(host_end, span.width)) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, "host memory %p of an asynchronous batch must be pinned", host_end);
    }
    return copy_async(span, int(direction), handle, false);
  });
}

}  // namespace
}  // namespace acl_cpu

using namespace acl_cpu;

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  ACL_CPU_ENTRY(aclrtMemcpy);
  if (aclError code = check_copy(dst, destMax, src, count)) return code;
  Context* context;
  if (aclError code = current_context(&context)) return code;
  Direction direction = Direction::kHostToHost;
  if (aclError code = find_direction(kind, dst, src, &direction)) return code;
  return count == 0 ? ACL_SUCCESS : copy_sync(plain(dst, src, count), direction);
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemcpyAsync);
  if (aclError code = check_copy(dst, destMax, src, count)) return code;
  if (count == 0) {
    Stream* found;
    return resolve_stream(stream, &found);
  }
  return copy_async(plain(dst, src, count), kind, stream, false);
}

aclError aclrtMemcpyAsyncWithCondition(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                                       aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemcpyAsyncWithCondition);
  if (aclError code = check_copy(dst, destMax, src, count)) return code;
  if (count == 0) {
    Stream* found;
    return resolve_stream(stream, &found);
  }
  return copy_async(plain(dst, src, count), kind, stream, true);
}

aclError aclrtMemcpy2d(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                       aclrtMemcpyKind kind) {
  ACL_CPU_ENTRY(aclrtMemcpy2d);
  Span span{dst, src, dpitch, spitch, width, height};
  if (aclError code = check_2d(span)) return code;
  if (aclError code = check_2d_kind(kind)) return code;
  Context* context;
  if (aclError code = current_context(&context)) return code;
  Direction direction = Direction::kHostToHost;
  if (aclError code = find_direction(kind, dst, src, &direction)) return code;
  return width == 0 || height == 0 ? ACL_SUCCESS : copy_sync(span, direction);
}

aclError aclrtMemcpy2dAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
                            aclrtMemcpyKind kind, aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemcpy2dAsync);
  Span span{dst, src, dpitch, spitch, width, height};
  if (aclError code = check_2d(span)) return code;
  if (aclError code = check_2d_kind(kind)) return code;
  if (width == 0 || height == 0) return ACL_SUCCESS;
  return copy_async(span, kind, stream, false);
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  ACL_CPU_ENTRY(aclrtMemset);
  return fill(devPtr, maxCount, count, uint32_t(value), 1);
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemsetAsync);
  return fill_async(devPtr, maxCount, count, uint32_t(value), 1, stream);
}

aclError aclrtMemsetD32(void* ptr, size_t memSize, uint32_t value, size_t N) {
  ACL_CPU_ENTRY(aclrtMemsetD32);
  if (N > SIZE_MAX / 4) return fail(ACL_ERROR_INVALID_PARAM, "N %zu is too large", N);
  return fill(ptr, memSize, N * 4, value, 4);
}

aclError aclrtMemsetD32Async(void* ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemsetD32Async);
  if (N > SIZE_MAX / 4) return fail(ACL_ERROR_INVALID_PARAM, "N %zu is too large", N);
  return fill_async(ptr, memSize, N * 4, value, 4, stream);
}

aclError aclrtMemcpyBatch(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                          aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex) {
  ACL_CPU_ENTRY(aclrtMemcpyBatch);
  if (failIndex == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "failIndex must not be NULL");
  return copy_batch({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, failIndex, copy_sync);
}

aclError aclrtMemcpyBatchV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                            aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs) {
  ACL_CPU_ENTRY(aclrtMemcpyBatchV2);
  size_t fail_index;
  return copy_batch({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, &fail_index, copy_sync);
}

aclError aclrtMemcpyBatchAsync(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                               aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
                               aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemcpyBatchAsync);
  if (failIndex == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "failIndex must not be NULL");
  return copy_batch_async({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, failIndex, stream);
}

aclError aclrtMemcpyBatchAsyncV2(void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
                                 aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs,
                                 aclrtStream stream) {
  ACL_CPU_ENTRY(aclrtMemcpyBatchAsyncV2);
  size_t fail_index;
  return copy_batch_async({dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs}, &fail_index,
                          stream);
}

aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream handle) {
  ACL_CPU_ENTRY(aclrtCmoAsync);  // approximate: prefetch only, checked, no effect
  if (src == nullptr || size == 0) return fail(ACL_ERROR_INVALID_PARAM, "src must not be NULL and size not 0");
  if (cmoType != ACL_RT_CMO_TYPE_PREFETCH) {
    return unsupported(k_aclrtCmoAsync, "aclrtCmoAsync with a type other than PREFETCH");
  }
  Stream* stream;
  if (aclError code = resolve_stream(handle, &stream)) return code;
  if (host_alias(src, size) == nullptr) return fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not device memory", src);
  return ACL_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
