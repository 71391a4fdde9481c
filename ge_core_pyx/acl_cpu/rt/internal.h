// SPDX-License-Identifier: Apache-2.0
// What the source files of the runtime share and the model half does not see.
#ifndef GE_CORE_ACL_CPU_RT_INTERNAL_H
#define GE_CORE_ACL_CPU_RT_INTERNAL_H

#include <climits>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime.h"

namespace acl_cpu {

// ---- time and waiting --------------------------------------------------------------------------------------------
constexpr int64_t kForever = INT64_MAX;

inline int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}
inline int64_t deadline_of(int timeout_ms) {
  return timeout_ms < 0 ? kForever : now_ns() + int64_t(timeout_ms) * 1000000;
}

void sleep_until(int64_t until_ns);

// A futex: take a key, test the condition, wait with the key. open() after the change costs a system call only if
// someone waits.
class Gate {
 public:
  uint32_t key() const { return word_.load(std::memory_order_seq_cst); }
  void wait(uint32_t key, int64_t deadline_ns = kForever);
  void open();

 private:
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> waiters_{0};
};

// Intrusive reference count: queued work keeps streams and events alive after the program destroyed their handles.
class Counted {
 public:
  void retain() { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Counted() = default;

 private:
  std::atomic<int> references_{1};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_ != nullptr) object_->retain();
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

// A handle is the address of a slot that holds the object or nullptr, so that any pointer a program passes can be
// checked without touching what it points at. Slots are reused oldest first, which keeps stale handles stale for long.
template <typename T>
class Handles {
 public:
  void* add(T* object) {
    std::lock_guard lock(mutex_);
    if (slots_ == nullptr) slots_ = std::make_unique<std::atomic<T*>[]>(kSlots);
    size_t index;
    if (used_ < kSlots) {
      index = used_++;
    } else if (!free_.empty()) {
      index = free_.front();
      free_.pop_front();
    } else {
      return nullptr;
    }
    base_.store(slots_.get(), std::memory_order_release);
    slots_[index].store(object, std::memory_order_release);
    return &slots_[index];
  }
  T* get(const void* handle) const {
    std::atomic<T*>* slot = slot_of(handle);
    return slot == nullptr ? nullptr : slot->load(std::memory_order_acquire);
  }
  // The object, if this call was the one that removed it.
  T* remove(const void* handle) {
    std::atomic<T*>* slot = slot_of(handle);
    T* object = slot == nullptr ? nullptr : slot->exchange(nullptr, std::memory_order_acq_rel);
    if (object != nullptr) {
      std::lock_guard lock(mutex_);
      free_.push_back(size_t(slot - slots_.get()));
    }
    return object;
  }
  size_t available() const {
    std::lock_guard lock(mutex_);
    return kSlots - used_ + free_.size();
  }

 private:
  static constexpr size_t kSlots = 65536;

  std::atomic<T*>* slot_of(const void* handle) const {
    std::atomic<T*>* base = base_.load(std::memory_order_acquire);
    uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(base);
    if (base == nullptr || offset >= kSlots * sizeof *base || offset % sizeof *base != 0) return nullptr;
    return base + offset / sizeof *base;
  }

  mutable std::mutex mutex_;
  std::unique_ptr<std::atomic<T*>[]> slots_;
  std::atomic<std::atomic<T*>*> base_{nullptr};
  std::deque<size_t> free_;
  size_t used_ = 0;
};

// ---- faults and error text ---------------------------------------------------------------------------------------
struct TaskFault {
  enum Effect : int8_t { kNone, kFail, kHang, kDelay } effect = kNone;
  aclError code = ACL_SUCCESS;
  double delay_us = 0;
};
TaskFault take_task_fault();                     // what an injected fault asks of the next task that this thread queues
std::string add_fault(const std::string& json);  // "" or what is wrong
std::string take_messages();                     // this thread's error texts, newest first; clears them
void set_last_error(aclError code);
void mark_forked();

std::string load_config(Config* config);  // "" or what is wrong

// ---- the device that all processes share -------------------------------------------------------------------------
constexpr int kMaxDevices = 64;
namespace shared {
void attach();                                     // idempotent
bool reserve_memory(int device, uint64_t nbytes);  // false: hbm_bytes exceeded
void release_memory(int device, uint64_t nbytes);
uint64_t used_memory(int device);                                                          // of all processes that live
int64_t reserve_engine(int device, Engine engine, int64_t ready_ns, int64_t duration_ns);  // → virtual end
void add_busy(int device, Engine engine, int64_t duration_ns);
int utilization(int device, Engine engine);  // per cent since the previous question
}  // namespace shared

// ---- contexts ----------------------------------------------------------------------------------------------------
struct Context {
  int device = 0;
  bool primary = false;
  void* handle = nullptr;
  Stream* default_stream = nullptr;
  std::mutex mutex;  // guards streams
  std::vector<Stream*> streams;
  std::atomic<aclError> sticky{ACL_SUCCESS};
};

extern std::atomic<uint32_t> op_wait_timeout_s;  // 0: for ever
extern std::atomic<uint64_t> op_timeout_us;      // 0: for ever

int device_count();  // visible devices
int physical_device(int device);
bool device_lost(int device);
void lose_device(int device);
bool peer_enabled(int from, int to);
aclError check_device(int device);    // 107001, or what stops this process from using it
void bind_context(Context* context);  // nullptr unbinds
std::vector<Ref<Stream>> device_streams(int device);
void close_all_devices();

// ---- streams -----------------------------------------------------------------------------------------------------
struct Reporter;

struct Stream : Counted {
  struct Item {
    Task task;
    int64_t submitted_ns = 0;
    TaskFault fault;
  };

  Context* context = nullptr;
  int device = 0;
  int id = 0;
  std::atomic<uint32_t> priority{0}, overflow{0}, tag{0};
  uint32_t flags = 0;
  bool internal = false;  // the library's own or a default stream: not counted
  void* handle = nullptr;
  std::shared_ptr<Reporter> reporter;  // guarded by mutex
  std::atomic<bool> stop_on_failure{false};

  ~Stream() override;
  aclError push(Item&& item);
  bool wait_done(uint64_t target, int64_t deadline_ns);  // false: time is over, or the stream was aborted meanwhile
  void abort(aclError code);                             // drops what is queued, ends what waits, returns when idle
  void stop();                                           // joins the worker after what is still queued
  aclError take_error();
  aclError peek_error() const { return error_.load(std::memory_order_acquire); }
  uint64_t submitted() const { return submitted_.load(std::memory_order_acquire); }
  uint64_t completed() const { return completed_.load(std::memory_order_seq_cst); }
  uint64_t aborts() const { return aborts_.load(std::memory_order_acquire); }
  aclError abort_code() const { return abort_code_.load(std::memory_order_acquire); }

  // For the worker, from within a task.
  static Stream* running();
  void poke();  // something that the task may wait for has changed
  template <typename Condition>
  bool wait(Condition condition, int64_t deadline_ns = kForever) {  // false: time is over or interrupted
    for (;;) {
      uint32_t key = bell_.key();
      if (condition()) return true;
      if (interrupted_.load(std::memory_order_acquire) || now_ns() >= deadline_ns) return false;
      bell_.wait(key, deadline_ns);
    }
  }
  bool interrupted() const { return interrupted_.load(std::memory_order_acquire); }
  int64_t mark_time(int64_t at_least = 0);  // the stream's virtual time now

 private:
  void work();
  void run(Item& item);
  void task_failed(aclError code);
  void grow();

  std::mutex mutex_;  // guards the ring, idle_, running_, stopping_, error_text_
  std::unique_ptr<Item[]> ring_;
  uint64_t capacity_ = 0, head_ = 0, tail_ = 0;
  bool idle_ = false, running_ = false, stopping_ = false;
  std::string error_text_;
  std::thread worker_;

  Gate bell_;  // the worker waits here
  Gate done_;  // those who synchronise wait here
  std::atomic<uint64_t> submitted_{0}, completed_{0};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};  // smallest completed_ that someone waits for
  std::atomic<uint64_t> aborts_{0};
  std::atomic<aclError> abort_code_{ACL_SUCCESS};
  std::atomic<bool> interrupted_{false};
  std::atomic<aclError> error_{ACL_SUCCESS};
  int64_t virtual_end_ = 0, item_submitted_ = 0;  // worker only
};

Stream* new_stream(Context* context, uint32_t priority, uint32_t flags, bool internal);
void end_stream(Stream* stream, bool force);  // releases the reference that the creator held
void report_exception(int device, int stream, uint64_t task, aclError code);
void unsubscribe_all(Stream* stream);
void end_context_streams(Context* context, bool force);

// ---- memory ------------------------------------------------------------------------------------------------------
struct Region {
  enum Type : int8_t { kUnknown, kDevice, kPinned, kMapped } type = kUnknown;
  int device = -1;
  uintptr_t base = 0;
  size_t size = 0;     // as asked for
  size_t padded = 0;   // with the spare bytes a kernel may touch
  size_t charged = 0;  // bytes of device memory it costs
  void* mapped = nullptr;

  bool holds(const void* pointer, size_t nbytes) const {  // within the size asked for
    size_t offset = reinterpret_cast<uintptr_t>(pointer) - base;
    return offset <= size && nbytes <= size - offset;
  }
};
Region find_region(const void* pointer);  // kUnknown when no live allocation holds it
void free_device_memory(int device);

// Holds the registry as it is: what find() returned stays allocated until the view ends. Copies run inside one, so a
// racing free waits for the copy that is under way (and only for that).
class MemoryView {
 public:
  MemoryView();
  ~MemoryView();
  MemoryView(const MemoryView&) = delete;
  const Region* find(const void* pointer) const;  // nullptr when no live allocation holds it
  static char* bytes(const Region& region, const void* pointer);
};

}  // namespace acl_cpu

#endif
