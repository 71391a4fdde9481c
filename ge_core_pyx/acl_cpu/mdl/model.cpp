// SPDX-License-Identifier: Apache-2.0
#include "mdl/model.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>
#include <shared_mutex>
#include <unordered_map>

namespace acl_cpu::mdl {
namespace {

constexpr size_t kSlack = 64;  // a buffer may be this much shorter than the model says
constexpr size_t kSmallest = 512;

// What all loads share. Never destroyed: a program may exit with models loaded and work queued.
struct Globals {
  std::shared_mutex registry_mutex;
  std::unordered_map<uint32_t, std::shared_ptr<Model>> registry;
  std::atomic<uint32_t> next_id{1};

  std::mutex programs_mutex;  // also held while a program is compiled, so that equal files are compiled once
  std::map<Fingerprint, std::weak_ptr<const Program>> programs;

  std::mutex gear_buffer_mutex;
  std::mutex work_mutex;
  std::map<const void*, const Launch*> work_in_use;
};
Globals& globals = *new Globals;

void pass_on(aclError code) {
  if (code != ACL_SUCCESS) throw code;
}

std::string spell(const Dims& dims) {
  std::string text = "[";
  for (int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

// "Ascend910B" of "Ascend910B3": an om runs on the chips of the family it was compiled for.
std::string family(const std::string& soc) {
  size_t digits = soc.find_first_of("0123456789");
  if (digits == std::string::npos) return soc;
  size_t end = soc.find_first_not_of("0123456789", digits);
  return end == std::string::npos ? soc : soc.substr(0, end + 1);
}

std::shared_ptr<const Program> compile(const Om& om) {
  Fingerprint fingerprint = om.fingerprint();
  std::lock_guard<std::mutex> lock(globals.programs_mutex);
  std::weak_ptr<const Program>& known = globals.programs[fingerprint];
  if (std::shared_ptr<const Program> program = known.lock()) return program;
  auto program = std::make_shared<Program>();
  program->manifest = Manifest::parse(om.manifest(), om.source());
  const Manifest& manifest = program->manifest;
  const std::string& device = config().soc_name;
  std::string made_for = family(manifest.soc);
  if (device.compare(0, made_for.size(), made_for) != 0)
    refuse(ACL_ERROR_RT_SOC_VERSION, "%s: compiled for %s, this device is %s; compile it with --soc_version=%s",
           om.source().c_str(), manifest.soc.c_str(), device.c_str(), device.c_str());
  if (manifest.ranged != om.unknown_shapes())
    refuse(ACL_ERROR_GE_LOAD_MODEL, "%s: header and manifest disagree about ranges; compile it again",
           om.source().c_str());
  if (manifest.synthetic != om.onnx().empty())
    refuse(ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED, "%s: a model of kind %s %s", om.source().c_str(),
           manifest.synthetic ? "synthetic" : "graph", manifest.synthetic ? "has no graph" : "needs its graph");
  // Not left to OpenVINO: a damaged graph can crash it.
  if (manifest.onnx_crc32)
    if (uint32_t crc = om.onnx_crc32(); crc != *manifest.onnx_crc32)
      refuse(ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED,
             "%s: expected ONNX bytes with checksum %08x, got %08x; the file is damaged, copy or compile it again",
             om.source().c_str(), *manifest.onnx_crc32, crc);
  program->fingerprint = fingerprint;
  program->weight_nbytes = weight_nbytes(manifest, om);
  program->work_nbytes = work_nbytes(manifest);
  program->engine = manifest.synthetic ? make_synthetic_engine(manifest) : make_openvino_engine(manifest, om.onnx());
  known = program;
  return program;
}

template <class Doomed>
void drop_models(Doomed doomed) {
  std::vector<std::shared_ptr<Model>> dropped;
  {
    std::unique_lock<std::shared_mutex> lock(globals.registry_mutex);
    for (auto it = globals.registry.begin(); it != globals.registry.end();) {
      if (doomed(*it->second)) {
        dropped.push_back(std::move(it->second));
        it = globals.registry.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (const std::shared_ptr<Model>& model : dropped) model->retire();
}

void sleep_until(const timespec& start, double microseconds) {
  timespec end = start;
  int64_t nanoseconds = end.tv_nsec + static_cast<int64_t>(microseconds * 1e3);
  end.tv_sec += nanoseconds / 1000000000;
  end.tv_nsec = nanoseconds % 1000000000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, nullptr) == EINTR) {
  }
}

void describe_output(aclmdlDataset::Entry& entry, const Tensor& tensor, const Dims& dims) {
  if (!entry.desc) entry.desc = std::make_unique<aclTensorDesc>();
  entry.desc->owned = true;
  aclTensorDesc& desc = *entry.desc;
  desc.dtype = tensor.dtype.acl;
  desc.format = desc.storage_format = tensor.format;
  desc.dims = desc.storage_dims = dims;
  desc.name = tensor.name;
}

// What a gear setter wrote: uint64 numbers where there is room for them, else uint32.
bool holds_gear(const char* written, size_t nbytes, const std::vector<uint64_t>& values) {
  bool wide = nbytes >= values.size() * sizeof(uint64_t);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t value = 0;
    memcpy(&value, written + i * (wide ? 8 : 4), wide ? 8 : 4);
    if (value != values[i]) return false;
  }
  return true;
}

}  // namespace

size_t weight_nbytes(const Manifest& manifest, const Om& om) {
  return std::max(manifest.weight_nbytes ? manifest.weight_nbytes : om.onnx().size(), kSmallest);
}

std::mutex& gear_buffer_mutex() { return globals.gear_buffer_mutex; }

size_t work_nbytes(const Manifest& manifest) { return std::max(manifest.work_nbytes, kSmallest); }

// ---- one execution -----------------------------------------------------------------------------------------------

LaunchTask::~LaunchTask() {
  if (!launch_) return;
  std::shared_ptr<Model> model = std::move(launch_->model);
  model->give_back(launch_);
  model->in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

aclError Launch::run() {
  return guarded([&]() -> aclError {
    model->check_memory(*this);
    model->instance_->run(call);
    return ACL_SUCCESS;
  });
}

Model::Model(std::shared_ptr<const Program> program, Context* context, const Placement& placement)
    : current_gear(program->manifest.largest_gear),
      program_(std::move(program)),
      context_(context),
      device_(context_device(context)),
      placement_(placement) {
  auto place = [&](const char* what, void*& memory, size_t& given, size_t needed, bool& owns) {
    if (memory && given < needed)
      refuse(ACL_ERROR_GE_PARAM_INVALID, "%s memory: expected at least %zu bytes, got %zu", what, needed, given);
    if (!memory) {
      pass_on(device_malloc(device_, needed, &memory));
      owns = true;
    } else if (int device; !host_alias(memory, given, &device) || device != device_) {
      refuse(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, "%s memory: expected %zu bytes of device %d's memory", what, given,
             device_);
    }
    given = std::max(given, needed);
  };
  if (manifest().ranged) placement_.work = nullptr;
  try {
    place("work", placement_.work, placement_.work_nbytes, program_->work_nbytes, owns_work_);
    place("weight", placement_.weights, placement_.weight_nbytes, program_->weight_nbytes, owns_weights_);
    char* weights = host_alias(placement_.weights, sizeof(Fingerprint));
    if (weights) memcpy(weights, &program_->fingerprint, sizeof(Fingerprint));
    instance_ = program_->engine->instantiate();
  } catch (...) {
    if (owns_work_) device_free(placement_.work);
    if (owns_weights_) device_free(placement_.weights);
    throw;
  }
  live_add(Kind::kModel, 1);
}

Model::~Model() { live_add(Kind::kModel, -1); }

void Model::retire() {
  if (retired_.exchange(true)) return;
  if (internal_stream_) destroy_internal_stream(internal_stream_);
  if (owns_work_) device_free(placement_.work);
  if (owns_weights_) device_free(placement_.weights);
}

Launch* Model::take_launch() {
  std::lock_guard<std::mutex> lock(pool_mutex_);
  if (free_.empty()) {
    launches_.push_back(std::make_unique<Launch>());
    free_.reserve(launches_.size());
    return launches_.back().get();
  }
  Launch* launch = free_.back();
  free_.pop_back();
  return launch;
}

void Model::give_back(Launch* launch) {
  if (launch->holds_work) {
    std::lock_guard<std::mutex> lock(globals.work_mutex);
    globals.work_in_use.erase(placement_.work);
    launch->holds_work = false;
  }
  std::lock_guard<std::mutex> lock(pool_mutex_);
  free_.push_back(launch);
}

// What only shows when the execution runs: memory freed or overwritten while it was queued.
void Model::check_memory(Launch& launch) {
  for (size_t i = 0; i < launch.regions.size(); ++i) {
    const Launch::Region& region = launch.regions[i];
    if (region.nbytes > 0 && !host_alias(region.address, region.nbytes))
      refuse(ACL_ERROR_RT_AICORE_EXCEPTION, "model %u: the memory of %s %zu was freed while an execution was queued",
             id, i < manifest().inputs.size() ? "input" : "output",
             i < manifest().inputs.size() ? i : i - manifest().inputs.size());
  }
  if (const Launch::Region& buffer = launch.gear_buffer; buffer.address) {
    std::lock_guard<std::mutex> lock(globals.gear_buffer_mutex);
    const char* written = host_alias(buffer.address, buffer.nbytes);
    if (!written || !holds_gear(written, buffer.nbytes, manifest().gears[launch.call.gear]))
      refuse(
          ACL_ERROR_GE_FAILURE,
          "model %u: the gear buffer was changed while an execution was queued; use one buffer per request in flight",
          id);
  }
  if (!owns_weights_) {
    const char* weights = host_alias(placement_.weights, sizeof(Fingerprint));
    if (!weights || memcmp(weights, &program_->fingerprint, sizeof(Fingerprint)) != 0)
      refuse(ACL_ERROR_RT_AICORE_EXCEPTION,
             "model %u: its weight memory was freed, or another model was loaded into it", id);
  }
  if (!owns_work_) {
    std::lock_guard<std::mutex> lock(globals.work_mutex);
    if (!globals.work_in_use.emplace(placement_.work, &launch).second)
      refuse(ACL_ERROR_GE_FAILURE, "model %u: another running model uses the same work memory", id);
    launch.holds_work = true;
  }
}

char* Model::alias(const char* what, const Tensor& tensor, const void* address, size_t nbytes) const {
  if (nbytes == 0) return nullptr;
  if (!address)
    refuse(ACL_ERROR_GE_PARAM_INVALID, "model %u, %s %s: the data buffer has no address", id, what,
           tensor.name.c_str());
  int device = -1;
  char* host = host_alias(address, nbytes, &device);
  if (!host)
    refuse(ACL_ERROR_GE_FAILURE, "model %u, %s %s: expected %zu bytes of device memory at %p", id, what,
           tensor.name.c_str(), nbytes, address);
  if (device != device_)
    refuse(ACL_ERROR_GE_FAILURE, "model %u, %s %s: expected memory of device %d, got memory of device %d", id, what,
           tensor.name.c_str(), device_, device);
  return host;
}

void Model::prepare_gear(Launch& launch, const aclmdlDataset& input, const aclmdlDataset& output) const {
  const Manifest& model = manifest();
  if (input.entries.size() != input_count() || output.entries.size() != model.outputs.size())
    refuse(ACL_ERROR_GE_PARAM_INVALID, "model %u: expected %zu input and %zu output buffers, got %zu and %zu", id,
           input_count(), model.outputs.size(), input.entries.size(), output.entries.size());
  if (model.dynamic_aipp_input() >= 0 && input.aipp_model != id)
    refuse(ACL_ERROR_GE_FAILURE, "model %u: its AIPP parameters were not set; call aclmdlSetInputAIPP first", id);
  const bool set = model.geared() && input.gear_model == id;
  const size_t gear = set ? input.gear : model.largest_gear;
  launch.call.gear = gear;
  launch.regions.clear();
  launch.gear_buffer = {nullptr, 0};
  if (set) {
    const aclDataBuffer& buffer = buffer_of(input, input.gear_index);
    launch.gear_buffer = {buffer.data, std::min(buffer.size, model.gears[gear].size() * sizeof(uint64_t))};
  }
  auto gather = [&](const char* what, const std::vector<Tensor>& tensors, const aclmdlDataset& dataset,
                    std::vector<char*>& addresses) {
    addresses.clear();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i];
      const aclDataBuffer& buffer = buffer_of(dataset, i);
      const size_t nbytes = tensor.gear_nbytes[gear];
      if (!model.geared() && buffer.size + kSlack < nbytes)
        refuse(ACL_ERROR_GE_FAILURE, "E13025: model %u, %s %zu (%s): expected a buffer of %zu bytes, got %zu", id, what,
               i, tensor.name.c_str(), nbytes, buffer.size);
      addresses.push_back(alias(what, tensor, buffer.data, nbytes));
      launch.regions.push_back({buffer.data, nbytes});
    }
  };
  gather("input", model.inputs, input, launch.call.inputs);
  gather("output", model.outputs, output, launch.call.outputs);
}

void Model::prepare_range(Launch& launch, const aclmdlDataset& input, aclmdlDataset& output, bool sync) const {
  const Manifest& model = manifest();
  if (input.entries.size() < model.inputs.size() || output.entries.size() < model.outputs.size())
    refuse(ACL_ERROR_INVALID_PARAM, "model %u: expected at least %zu input and %zu output buffers, got %zu and %zu", id,
           model.inputs.size(), model.outputs.size(), input.entries.size(), output.entries.size());
  Call& call = launch.call;
  call = Call();
  launch.regions.clear();
  launch.gear_buffer = {nullptr, 0};
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const Tensor& tensor = model.inputs[i];
    const aclmdlDataset::Entry& entry = input.entries[i];
    Dims dims = entry.desc ? entry.desc->dims : tensor.shape;
    bool fits = dims.size() == tensor.range.size();
    for (size_t axis = 0; fits && axis < dims.size(); ++axis) {
      auto [lower, upper] = tensor.range[axis];
      fits = dims[axis] >= lower && (upper == -1 || dims[axis] <= upper);
    }
    if (!fits)
      refuse(
          ACL_ERROR_INVALID_PARAM,
          "model %u, input %s: the shape %s is not within the compiled ranges; set it with aclmdlSetDatasetTensorDesc",
          id, tensor.name.c_str(), spell(dims).c_str());
    const aclDataBuffer& buffer = buffer_of(input, i);
    size_t nbytes = tensor.nbytes_of(dims);
    if (buffer.size + kSlack < nbytes)
      refuse(ACL_ERROR_GE_FAILURE, "E13025: model %u, input %zu (%s): expected a buffer of %zu bytes for %s, got %zu",
             id, i, tensor.name.c_str(), nbytes, spell(dims).c_str(), buffer.size);
    call.inputs.push_back(alias("input", tensor, buffer.data, nbytes));
    launch.regions.push_back({buffer.data, nbytes});
    call.input_dims.push_back(std::move(dims));
  }

  // Where an output of this size goes: the caller's buffer, or fresh memory that the caller frees (blocking calls
  // only).
  auto place = [this, &output, sync](size_t o, size_t nbytes) -> char* {
    const Tensor& tensor = manifest().outputs[o];
    aclDataBuffer& buffer = buffer_of(output, o);
    if (!buffer.data && nbytes > 0) {
      if (!sync)
        refuse(ACL_ERROR_INVALID_PARAM, "model %u, output %s: an asynchronous execution needs an output buffer", id,
               tensor.name.c_str());
      pass_on(device_malloc(device_, nbytes, &buffer.data));
      buffer.size = nbytes;
    }
    if (buffer.size < nbytes)
      refuse(ACL_ERROR_GE_FAILURE, "model %u, output %s: expected a buffer of at least %zu bytes, got %zu", id,
             tensor.name.c_str(), nbytes, buffer.size);
    return alias("output", tensor, buffer.data, nbytes);
  };
  call.output_dims = program_->engine->infer(call.input_dims);
  if (call.output_dims.empty()) {
    call.place = place;
    call.found = std::make_shared<std::vector<Dims>>();
    return;
  }
  for (size_t o = 0; o < model.outputs.size(); ++o) {
    size_t nbytes = model.outputs[o].nbytes_of(call.output_dims[o]);
    call.outputs.push_back(place(o, nbytes));
    launch.regions.push_back({output.entries[o].buffer->data, nbytes});
  }
}

aclError Model::execute(Mode mode, const aclmdlDataset& input, aclmdlDataset& output, aclrtStream handle,
                        int timeout_ms) {
  Context* context = nullptr;
  pass_on(current_context(&context));
  if (retired_) refuse(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "model %u was unloaded", id);
  if (context != context_)
    refuse(ACL_ERROR_RT_MODEL_CONTEXT, "model %u was loaded in another context; execute it in that one", id);
  const bool ranged = manifest().ranged;
  const bool internal = mode == Mode::kSync || (ranged && mode == Mode::kSyncOnStream);

  if (calling_.exchange(true, std::memory_order_acquire))
    refuse(ACL_ERROR_GE_FAILURE, "model %u is being executed by another thread; load it once per thread", id);
  struct Leave {
    std::atomic<bool>& flag;
    ~Leave() { flag.store(false, std::memory_order_release); }
  } leave{calling_};

  Stream* stream = nullptr;
  if (!internal) {
    pass_on(resolve_stream(handle, &stream));
  } else {
    if (!internal_stream_) pass_on(create_internal_stream(&internal_stream_));
    stream = internal_stream_;
  }
  pass_on(current_stream_error(stream));
  if (!ranged && mode != Mode::kSyncOnStream) {
    auto use = mode == Mode::kSync ? kUsedSync : kUsedAsync;
    if (use_ != kUnused && use_ != use)
      refuse(
          ACL_ERROR_GE_FAILURE,
          "model %u: aclmdlExecute and aclmdlExecuteAsync cannot be mixed on one model id (mix execute); load it twice",
          id);
    use_ = use;
  }
  if (stream != last_stream_ && busy())
    refuse(ACL_ERROR_GE_FAILURE, "model %u is still executing on another stream; load it once per stream", id);

  timespec start;
  if (ranged) clock_gettime(CLOCK_MONOTONIC, &start);
  Launch* launch = take_launch();
  launch->model = shared_from_this();
  in_flight_.fetch_add(1, std::memory_order_acq_rel);
  LaunchTask task(launch);  // gives the launch back on every way out
  if (ranged) {
    prepare_range(*launch, input, output, internal);
  } else {
    prepare_gear(*launch, input, output);
  }
  last_stream_ = stream;
  const size_t gear = launch->call.gear;
  const double duration_us = std::max(manifest().exec_us[gear], config().exec_us_of(gear));
  std::shared_ptr<std::vector<Dims>> found = launch->call.found;
  if (ranged && !found)
    for (size_t o = 0; o < manifest().outputs.size(); ++o)
      describe_output(output.entries[o], manifest().outputs[o], launch->call.output_dims[o]);

  Task queued;
  queued.run = TaskFn(std::move(task));
  queued.engine = acl_cpu::Engine::kCompute;
  queued.duration_us = duration_us;
  queued.takes_real_time = !manifest().synthetic;
  pass_on(enqueue(stream, std::move(queued)));
  if (internal || mode != Mode::kAsync || found) pass_on(synchronize(stream, found ? -1 : timeout_ms));
  if (found)
    for (size_t o = 0; o < manifest().outputs.size(); ++o)
      describe_output(output.entries[o], manifest().outputs[o], (*found)[o]);
  // The host walks the graph of a model with ranges itself, which takes as long as the model.
  if (ranged && mode == Mode::kAsync && duration_us > 0) sleep_until(start, duration_us);
  return ACL_SUCCESS;
}

// ---- the models of this process ----------------------------------------------------------------------------------

uint32_t load(const Om& om, const Placement& placement) {
  static std::once_flag watching;
  std::call_once(watching, [] {
    at_device_reset([](int device) { drop_models([=](const Model& model) { return model.device() == device; }); });
    at_context_destroy(
        [](Context* context) { drop_models([=](const Model& model) { return model.context() == context; }); });
  });
  Context* context = nullptr;
  pass_on(current_context(&context));
  auto model = std::make_shared<Model>(compile(om), context, placement);
  model->id = globals.next_id.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock<std::shared_mutex> lock(globals.registry_mutex);
  globals.registry[model->id] = model;
  return model->id;
}

std::shared_ptr<Model> find_model(uint32_t id) {
  std::shared_lock<std::shared_mutex> lock(globals.registry_mutex);
  auto found = globals.registry.find(id);
  if (found == globals.registry.end())
    refuse(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "model %u: no such model is loaded", id);
  return found->second;
}

aclError unload(uint32_t id) {
  std::shared_ptr<Model> model = find_model(id);
  Context* context = nullptr;
  pass_on(current_context(&context));
  if (context != model->context())
    refuse(ACL_ERROR_RT_MODEL_CONTEXT, "model %u was loaded in another context; unload it in that one", id);
  if (model->busy())
    refuse(ACL_ERROR_RT_MODEL_RUNNING, "model %u has executions that are queued or running; synchronise first", id);
  {
    std::unique_lock<std::shared_mutex> lock(globals.registry_mutex);
    if (globals.registry.erase(id) == 0)
      refuse(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "model %u: no such model is loaded", id);
  }
  model->retire();
  return ACL_SUCCESS;
}

}  // namespace acl_cpu::mdl
