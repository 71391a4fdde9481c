// SPDX-License-Identifier: Apache-2.0
// Loaded models: what loads of one file share, what belongs to one model id, and one execution.
#ifndef ACL_CPU_MDL_MODEL_H
#define ACL_CPU_MDL_MODEL_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mdl/engine.h"
#include "mdl/objects.h"
#include "mdl/om.h"

namespace acl_cpu::mdl {

using Fingerprint = std::pair<uint64_t, uint64_t>;

// One model file, read and compiled; loads of equal content share it.
struct Program {
  Manifest manifest;
  Fingerprint fingerprint;
  size_t weight_nbytes = 0, work_nbytes = 0;
  std::shared_ptr<Engine> engine;
};

// Sizes as aclmdlQuerySize tells them; never 0, so that a program may allocate what it was told.
size_t weight_nbytes(const Manifest& manifest, const Om& om);
size_t work_nbytes(const Manifest& manifest);

// Device memory for a model; the library allocates what is null.
struct Placement {
  void *work = nullptr, *weights = nullptr;
  size_t work_nbytes = 0, weight_nbytes = 0;
};

class Model;

// One execution: everything it needs was checked and copied when it was asked for. Reused, so that executing
// allocates nothing.
struct Launch {
  struct Region {
    const void* address;
    size_t nbytes;
  };

  std::shared_ptr<Model> model;  // while it is queued or running
  Call call;
  std::vector<Region> regions;  // device memory that must be alive when the execution runs: inputs, then outputs
  Region gear_buffer{nullptr, 0};
  bool holds_work = false;

  aclError run();
};

// The task on the stream. The stream destroys it when the execution has ended in virtual time, and before anyone can
// learn that it has: until then the model counts as busy.
class LaunchTask {
 public:
  explicit LaunchTask(Launch* launch) : launch_(launch) {}
  LaunchTask(LaunchTask&& other) noexcept : launch_(std::exchange(other.launch_, nullptr)) {}
  LaunchTask& operator=(LaunchTask&&) = delete;
  ~LaunchTask();
  aclError operator()() { return launch_->run(); }

 private:
  Launch* launch_;
};

enum class Mode { kSync, kAsync, kSyncOnStream };

class Model : public std::enable_shared_from_this<Model> {
 public:
  // Throws Failure, or an aclError that is already described.
  Model(std::shared_ptr<const Program> program, Context* context, const Placement& placement);
  ~Model();

  const Manifest& manifest() const { return program_->manifest; }
  std::shared_ptr<const Manifest> shared_manifest() const { return {program_, &program_->manifest}; }
  Context* context() const { return context_; }
  int device() const { return device_; }
  size_t input_count() const { return manifest().visible_inputs(); }
  bool busy() const { return in_flight_.load(std::memory_order_acquire) > 0; }

  aclError execute(Mode mode, const aclmdlDataset& input, aclmdlDataset& output, aclrtStream stream, int timeout_ms);
  // Gives device memory and the internal stream back; the model cannot be executed afterwards.
  void retire();

  uint32_t id = 0;
  std::atomic<size_t> current_gear;  // as the last setter said, for aclmdlGetCurOutputDims
  std::atomic<uint32_t> priority{0};

 private:
  friend struct Launch;
  friend class LaunchTask;

  Launch* take_launch();
  void give_back(Launch* launch);
  char* alias(const char* what, const Tensor& tensor, const void* address, size_t nbytes) const;
  void prepare_gear(Launch& launch, const aclmdlDataset& input, const aclmdlDataset& output) const;
  void prepare_range(Launch& launch, const aclmdlDataset& input, aclmdlDataset& output, bool sync) const;
  void check_memory(Launch& launch);

  std::shared_ptr<const Program> program_;
  Context* context_;
  int device_;
  std::unique_ptr<Instance> instance_;
  Placement placement_;
  bool owns_work_ = false, owns_weights_ = false;
  std::atomic<bool> retired_{false};

  std::atomic<bool> calling_{false};
  std::atomic<int> in_flight_{0};
  Stream* last_stream_ = nullptr;
  enum { kUnused, kUsedSync, kUsedAsync } use_ = kUnused;
  Stream* internal_stream_ = nullptr;

  std::mutex pool_mutex_;
  std::vector<std::unique_ptr<Launch>> launches_;
  std::vector<Launch*> free_;
};

// Held while gear values are written or compared: a program may rewrite them while an execution is queued.
std::mutex& gear_buffer_mutex();

uint32_t load(const Om& om, const Placement& placement);
std::shared_ptr<Model> find_model(uint32_t id);  // throws Failure (145003)
aclError unload(uint32_t id);

}  // namespace acl_cpu::mdl

#endif
