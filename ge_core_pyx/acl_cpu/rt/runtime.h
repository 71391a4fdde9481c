// SPDX-License-Identifier: Apache-2.0
// What the runtime half of the CPU implementation of AscendCL offers to the model half (acl_cpu/mdl).
//
// Everything here may be called from any thread. Functions that return aclError have already described a failure
// with fail(), so a caller passes the code on. Nothing here is part of AscendCL: the C entry points never call one
// another, they call this.
#ifndef GE_CORE_ACL_CPU_RT_RUNTIME_H
#define GE_CORE_ACL_CPU_RT_RUNTIME_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
#include "../../abi/acl_abi.h"

namespace acl_cpu {

// An object whose handle is its own address. Ended ones are marked and stay for a while, so that a program that uses a
// handle too long is told so.
struct Handled {
  static constexpr uint32_t kAlive = 0x41434C30, kEnded = 0x454E4445;
  uint32_t mark = kAlive;
};
inline bool alive(const Handled* object) {
  return object != nullptr && __atomic_load_n(&object->mark, __ATOMIC_ACQUIRE) == Handled::kAlive;
}

// What ended is freed later: another thread may still be inside a call with it.
template <typename T, typename Free>
void free_later(T* object, Free free) {
  constexpr size_t kKept = 256;
  static auto* mutex = new std::mutex;
  static auto* kept = new std::deque<T*>;
  T* oldest = nullptr;
  {
    std::lock_guard lock(*mutex);
    kept->push_back(object);
    if (kept->size() > kKept) {
      oldest = kept->front();
      kept->pop_front();
    }
  }
  if (oldest != nullptr) free(oldest);
}

// Ends an object of a program; false if it had ended before.
template <typename T>
bool end_handled(const T* object) {
  auto* ended = const_cast<T*>(object);
  if (ended == nullptr || __atomic_exchange_n(&ended->mark, Handled::kEnded, __ATOMIC_ACQ_REL) != Handled::kAlive) {
    return false;
  }
  free_later(ended, [](T* oldest) { delete oldest; });
  return true;
}

}  // namespace acl_cpu

// A data buffer owns nothing; both halves read it directly.
struct aclDataBuffer : acl_cpu::Handled {
  aclDataBuffer(void* data, size_t size) : data(data), size(size) {}
  void* data;
  size_t size;
};

namespace acl_cpu {

// ---- errors ------------------------------------------------------------------------------------------------------
// Makes `fmt` this thread's newest error text (an "E…: " line is put in front unless `fmt` starts with one) and its
// last error, and returns `code`.
aclError fail(aclError code, const char* fmt, ...) __attribute__((format(printf, 2, 3)));

// ---- entry points: calls are counted, faults injected ------------------------------------------------------------
enum Entry : int {
#define ACL_CPU_ENTRY_ID(release, library, ret, name, args) k_##name,
  ACL_FUNCTIONS(ACL_CPU_ENTRY_ID)
#undef ACL_CPU_ENTRY_ID
      kEntryCount
};

extern std::atomic<uint64_t> entry_calls[kEntryCount];
extern std::atomic<bool> entry_slow;  // set before first use, while faults are armed and in a forked child
aclError enter_slow(Entry entry);

inline void count_call(Entry entry) { entry_calls[entry].fetch_add(1, std::memory_order_relaxed); }

inline aclError enter(Entry entry) {
  count_call(entry);
  return __builtin_expect(entry_slow.load(std::memory_order_relaxed), 0) ? enter_slow(entry) : ACL_SUCCESS;
}

// First statement of every entry point that returns aclError / of one that returns something else.
#define ACL_CPU_ENTRY(name) ACL_CPU_ENTRY_OR(name, acl_cpu_injected)
#define ACL_CPU_ENTRY_OR(name, on_fault) \
  if (aclError acl_cpu_injected = acl_cpu::enter(acl_cpu::k_##name); acl_cpu_injected != ACL_SUCCESS) return on_fault

// Describes `name` as not supported and returns `code` (207000, or 200001 where AscendCL documents that).
aclError unsupported(Entry entry, const char* name, aclError code = ACL_ERROR_RT_FEATURE_NOT_SUPPORT);

template <typename Result>
Result unsupported_entry(Entry entry, const char* name) {
  aclError code = enter(entry);
  if (code == ACL_SUCCESS) code = unsupported(entry, name);
  if constexpr (std::is_same_v<Result, aclError>) {
    return code;
  } else if constexpr (!std::is_void_v<Result>) {
    return Result();
  }
}

// A weak definition for a function of the X-list: it answers where no source file defines the function itself.
#define ACL_CPU_WEAK_UNSUPPORTED(ret, name, args) \
  extern "C" __attribute__((weak)) ret name args { return acl_cpu::unsupported_entry<ret>(acl_cpu::k_##name, #name); }

// ---- live objects and bytes --------------------------------------------------------------------------------------
enum class Kind : int {
  kStream,
  kEvent,
  kContext,
  kModel,
  kDataset,
  kDataBuffer,
  kTensorDesc,
  kDesc,
  kDeviceMemory,
  kHostMemory,
  kCount
};
void live_add(Kind kind, int delta);

// ---- configuration -----------------------------------------------------------------------------------------------
struct CopyEngine {
  double gbps = 0;        // 1e9 bytes per second; 0: not limited
  double latency_us = 0;  // added to each copy
  double duration_us(size_t nbytes) const { return latency_us + (gbps > 0 ? double(nbytes) / (gbps * 1e3) : 0); }
};
constexpr int kMaxComputeEngines = 16;

struct Config {
  int devices = 1;
  int compute_engines = 1;  // models that run at once on a device
  uint64_t hbm_bytes = uint64_t(32) << 30;
  std::string soc_name = "Ascend910B3";
  CopyEngine h2d, d2h;
  std::vector<double> exec_us;  // empty, one number for every gear, or one per gear (the last one repeats)
  bool pageable_sync = false;   // asynchronous copies of pageable memory: false fail when they run, true synchronise

  double exec_us_of(size_t gear) const {
    return exec_us.empty() ? 0 : exec_us[gear < exec_us.size() ? gear : exec_us.size() - 1];
  }
};
const Config& config();
bool api_is_9();  // this library is the 9.x one

// ---- contexts and streams ----------------------------------------------------------------------------------------
struct Context;
struct Stream;

aclError current_context(Context** out);  // 107002 when the thread has none
int context_device(const Context* context);

aclError resolve_stream(aclrtStream handle, Stream** out);  // NULL: default stream; 107003 for another device's stream
aclError current_stream_error(Stream* stream);              // sticky error of the stream's context or device, else 0
Context* stream_context(Stream* stream);
int stream_device(const Stream* stream);

// Streams that the library needs for itself (aclmdlExecute): made in the current context, not visible to the program.
aclError create_internal_stream(Stream** out);
void destroy_internal_stream(Stream* stream);  // waits for its tasks

// Called before a device's memory and contexts go away (last reset, forced reset, finalize), on the thread that asks.
void at_device_reset(void (*callback)(int device));
// Called when a context is destroyed.
void at_context_destroy(void (*callback)(Context* context));

// ---- tasks -------------------------------------------------------------------------------------------------------
enum class Engine : int8_t { kNone = -1, kH2D = 0, kD2H = 1, kCompute = 2 };

// A move-only callable `aclError()` of up to kInline bytes without heap allocation; larger ones are boxed.
class TaskFn {
 public:
  static constexpr size_t kInline = 112;

  TaskFn() = default;
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, TaskFn>>>
  TaskFn(F&& fn) {
    using Fn = std::decay_t<F>;
    if constexpr (sizeof(Fn) <= kInline && alignof(Fn) <= alignof(std::max_align_t)) {
      new (storage_) Fn(std::forward<F>(fn));
      ops_ = &kInlineOps<Fn>;
    } else {
      new (storage_) Fn*(new Fn(std::forward<F>(fn)));
      ops_ = &kBoxedOps<Fn>;
    }
  }
  TaskFn(TaskFn&& other) noexcept : ops_(other.ops_) {
    if (ops_ != nullptr) ops_->move(other.storage_, storage_);
    other.ops_ = nullptr;
  }
  TaskFn& operator=(TaskFn&& other) noexcept {
    if (this != &other) {
      this->~TaskFn();
      new (this) TaskFn(std::move(other));
    }
    return *this;
  }
  ~TaskFn() {
    if (ops_ != nullptr) ops_->destroy(storage_);
    ops_ = nullptr;
  }
  explicit operator bool() const { return ops_ != nullptr; }
  aclError operator()() { return ops_->call(storage_); }

 private:
  struct Ops {
    aclError (*call)(void*);
    void (*move)(void* from, void* to);
    void (*destroy)(void*);
  };
  template <typename Fn>
  static constexpr Ops kInlineOps = {[](void* self) -> aclError { return (*static_cast<Fn*>(self))(); },
                                     [](void* from, void* to) {
                                       new (to) Fn(std::move(*static_cast<Fn*>(from)));
                                       static_cast<Fn*>(from)->~Fn();
                                     },
                                     [](void* self) { static_cast<Fn*>(self)->~Fn(); }};
  template <typename Fn>
  static constexpr Ops kBoxedOps = {[](void* self) -> aclError { return (**static_cast<Fn**>(self))(); },
                                    [](void* from, void* to) { new (to) Fn*(*static_cast<Fn**>(from)); },
                                    [](void* self) { delete *static_cast<Fn**>(self); }};

  const Ops* ops_ = nullptr;
  alignas(std::max_align_t) unsigned char storage_[kInline];
};

struct Task {
  TaskFn run;                     // does the real work on the stream's thread; its code becomes the stream's error
  Engine engine = Engine::kNone;  // what the task occupies on the (shared) device
  double duration_us = 0;         // 0: as long as `run` takes; else the stream lasts until the virtual end
  bool takes_real_time = false;   // without a duration: what `run` takes is virtual time too (callbacks, real graphs)
};

aclError enqueue(Stream* stream, Task&& task);
aclError synchronize(Stream* stream, int timeout_ms);  // -1 for ever; 507046 on expiry; the stream's error is taken

// Occupies an engine from this thread, as a synchronous copy does: returns at the virtual end.
void occupy(int device, Engine engine, double duration_us);

// ---- memory ------------------------------------------------------------------------------------------------------
// Read-write address of [device_ptr, device_ptr + nbytes), which must lie inside one live device allocation (its
// alignment padding included); else nullptr. `device`, if given, receives whose memory it is.
char* host_alias(const void* device_ptr, size_t nbytes, int* device = nullptr);
bool is_pinned(const void* host_ptr, size_t nbytes);
aclError device_malloc(int device, size_t nbytes, void** out);
aclError device_free(void* device_ptr);

}  // namespace acl_cpu
#pragma GCC visibility pop

#endif
