// SPDX-License-Identifier: Apache-2.0
// Graph models, computed by OpenVINO's CPU plugin through its C API. The library is opened when the first graph is
// loaded; only what is used of it is declared, and only what did not change from 2024 to 2026.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <unordered_map>

#include "mdl/engine.h"
#include "mdl/failure.h"
#include "rt/runtime.h"

namespace acl_cpu::mdl {
namespace {

// ---- OpenVINO's C API --------------------------------------------------------------------------------------------

typedef struct ov_core ov_core_t;
typedef struct ov_model ov_model_t;
typedef struct ov_compiled_model ov_compiled_model_t;
typedef struct ov_infer_request ov_infer_request_t;
typedef struct ov_tensor ov_tensor_t;
typedef struct ov_output_const_port ov_output_const_port_t;
struct ov_shape_t {
  int64_t rank;
  int64_t* dims;
};
struct ov_dimension_t {
  int64_t min, max;
};
struct ov_partial_shape_t {
  ov_dimension_t rank;
  ov_dimension_t* dims;
};

#define OPENVINO_FUNCTIONS(X)                                                                                       \
  X(const char*, ov_get_error_info, (int status))                                                                   \
  X(const char*, ov_get_last_err_msg, (void))                                                                       \
  X(void, ov_free, (const char* content))                                                                           \
  X(int, ov_core_create, (ov_core_t * *core))                                                                       \
  X(int, ov_core_read_model_from_memory_buffer,                                                                     \
    (const ov_core_t* core, const char* model, size_t nbytes, const ov_tensor_t* weights, ov_model_t** out))        \
  X(int, ov_core_compile_model,                                                                                     \
    (const ov_core_t* core, const ov_model_t* model, const char* device, size_t property_args,                      \
     ov_compiled_model_t** out, ...))                                                                               \
  X(int, ov_model_reshape,                                                                                          \
    (const ov_model_t* model, const char** names, const ov_partial_shape_t* shapes, size_t count))                  \
  X(int, ov_model_inputs_size, (const ov_model_t* model, size_t* count))                                            \
  X(int, ov_model_const_input_by_name, (const ov_model_t* model, const char* name, ov_output_const_port_t** port))  \
  X(int, ov_model_const_output_by_name, (const ov_model_t* model, const char* name, ov_output_const_port_t** port)) \
  X(void, ov_model_free, (ov_model_t * model))                                                                      \
  X(int, ov_partial_shape_create, (int64_t rank, const ov_dimension_t* dims, ov_partial_shape_t* out))              \
  X(void, ov_partial_shape_free, (ov_partial_shape_t * shape))                                                      \
  X(int, ov_compiled_model_input_by_name,                                                                           \
    (const ov_compiled_model_t* model, const char* name, ov_output_const_port_t** port))                            \
  X(int, ov_compiled_model_output_by_name,                                                                          \
    (const ov_compiled_model_t* model, const char* name, ov_output_const_port_t** port))                            \
  X(int, ov_compiled_model_create_infer_request, (const ov_compiled_model_t* model, ov_infer_request_t** out))      \
  X(void, ov_compiled_model_free, (ov_compiled_model_t * model))                                                    \
  X(int, ov_port_get_partial_shape, (const ov_output_const_port_t* port, ov_partial_shape_t* shape))                \
  X(int, ov_port_get_element_type, (const ov_output_const_port_t* port, int* type))                                 \
  X(void, ov_output_const_port_free, (ov_output_const_port_t * port))                                               \
  X(int, ov_infer_request_set_tensor_by_const_port,                                                                 \
    (ov_infer_request_t * request, const ov_output_const_port_t* port, const ov_tensor_t* tensor))                  \
  X(int, ov_infer_request_get_tensor_by_const_port,                                                                 \
    (const ov_infer_request_t* request, const ov_output_const_port_t* port, ov_tensor_t** tensor))                  \
  X(int, ov_infer_request_infer, (ov_infer_request_t * request))                                                    \
  X(void, ov_infer_request_free, (ov_infer_request_t * request))                                                    \
  X(int, ov_shape_free, (ov_shape_t * shape))                                                                       \
  X(int, ov_tensor_create_from_host_ptr, (int type, const ov_shape_t shape, void* data, ov_tensor_t** tensor))      \
  X(int, ov_tensor_get_shape, (const ov_tensor_t* tensor, ov_shape_t* shape))                                       \
  X(int, ov_tensor_get_byte_size, (const ov_tensor_t* tensor, size_t* nbytes))                                      \
  X(int, ov_tensor_data, (const ov_tensor_t* tensor, void** data))                                                  \
  X(void, ov_tensor_free, (ov_tensor_t * tensor))

#define MEMBER(ret, name, args) ret(*name) args = nullptr;
struct Api {
  OPENVINO_FUNCTIONS(MEMBER)
} ov;
#undef MEMBER

ov_core_t* core = nullptr;
auto& dtype_of_code = *new std::map<int, const DType*>;  // not destroyed at exit

std::string last_error(int status) {
  std::string text = ov.ov_get_error_info(status);
  if (const char* message = ov.ov_get_last_err_msg()) {
    text += ": ";
    text += message;
    ov.ov_free(message);
  }
  text.resize(std::min<size_t>(text.size(), 700));
  return text;
}

void check(int status, const char* what, const std::string& name = "", aclError code = ACL_ERROR_GE_LOAD_MODEL) {
  if (status != 0) refuse(code, "OpenVINO cannot %s %s: %s", what, name.c_str(), last_error(status).c_str());
}

template <class T>
struct Owned {  // frees with the member of `ov` for its type
  T* it = nullptr;

  Owned() = default;
  Owned(Owned&& other) noexcept : it(std::exchange(other.it, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(it, other.it);
    return *this;
  }
  ~Owned() {
    if (it) release(it);
  }
  static void release(ov_model_t* model) { ov.ov_model_free(model); }
  static void release(ov_compiled_model_t* model) { ov.ov_compiled_model_free(model); }
  static void release(ov_infer_request_t* request) { ov.ov_infer_request_free(request); }
  static void release(ov_output_const_port_t* port) { ov.ov_output_const_port_free(port); }
  static void release(ov_tensor_t* tensor) { ov.ov_tensor_free(tensor); }
};

Owned<ov_tensor_t> make_tensor(int code, const Dims& dims, void* data) {
  Owned<ov_tensor_t> tensor;
  ov_shape_t shape{static_cast<int64_t>(dims.size()), const_cast<int64_t*>(dims.data())};
  check(ov.ov_tensor_create_from_host_ptr(code, shape, data, &tensor.it), "make a tensor", "", ACL_ERROR_GE_FAILURE);
  return tensor;
}

// The numbers of the element types moved between releases, their order did not. So count those whose elements are
// whole bytes, which come in this order.
void find_dtype_codes() {
  static const char* const order[] = {"bool",  "bfloat16", "float16", "float32", "float64", "int8",  "int16",
                                      "int32", "int64",    "uint8",   "uint16",  "uint32",  "uint64"};
  size_t found = 0;
  int64_t eight = 8;
  alignas(64) char data[64];
  for (int code = 1; code < 32 && found < std::size(order); ++code) {
    ov_tensor_t* tensor = nullptr;
    size_t nbytes = 0;
    if (ov.ov_tensor_create_from_host_ptr(code, ov_shape_t{1, &eight}, data, &tensor) != 0) continue;
    ov.ov_tensor_get_byte_size(tensor, &nbytes);
    ov.ov_tensor_free(tensor);
    if (nbytes < 8) continue;
    const DType* dtype = find_dtype(order[found++]);
    if (dtype->nbytes * 8 != nbytes)
      refuse(ACL_ERROR_GE_LOAD_MODEL, "this OpenVINO numbers its element types in an order that is not known here");
    dtype_of_code[code] = dtype;
  }
}

// ---- finding and opening the library -----------------------------------------------------------------------------

bool is_file(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// `place` is the library, or a folder that holds it, itself or in libs/.
void add_candidates(const std::string& place, std::vector<std::string>& candidates) {
  bool folder = false;
  for (const std::string& inside : {place, place + "/libs"}) {
    DIR* listing = opendir(inside.c_str());
    if (!listing) continue;
    folder = true;
    std::vector<std::string> found;
    while (const dirent* entry = readdir(listing))
      if (strncmp(entry->d_name, "libopenvino_c.so", 16) == 0) found.push_back(inside + "/" + entry->d_name);
    closedir(listing);
    std::sort(found.rbegin(), found.rend());
    candidates.insert(candidates.end(), found.begin(), found.end());
  }
  if (!folder && is_file(place)) candidates.push_back(place);
}

std::vector<std::string> candidates() {
  std::vector<std::string> found;
  const char* chosen = getenv("GE_CORE_OPENVINO");
  if (chosen && *chosen) {
    add_candidates(chosen, found);
    if (found.empty())
      refuse(ACL_ERROR_GE_LOAD_MODEL,
             "GE_CORE_OPENVINO=%s: expected libopenvino_c.so* or a folder that holds it, found neither; the openvino "
             "wheel "
             "has it since 2024.3",
             chosen);
    return found;
  }
  Dl_info self;
  char real[PATH_MAX];
  if (dladdr(reinterpret_cast<void*>(&candidates), &self) && realpath(self.dli_fname, real)) {
    std::string folder(real);
    folder.resize(folder.rfind('/'));
    std::ifstream note(folder + "/openvino.path");
    for (std::string line; std::getline(note, line);)
      if (!line.empty()) add_candidates(line, found);
    // <site-packages>/ge_core_pyx/acl_cpu/lib/<api>/ is where we are, <site-packages>/openvino/libs where it is.
    add_candidates(folder + "/../../../../openvino/libs", found);
  }
  if (const char* search = getenv("LD_LIBRARY_PATH")) {
    std::string folders(search);
    for (size_t start = 0, end; start <= folders.size(); start = end + 1) {
      end = std::min(folders.find(':', start), folders.size());
      if (end > start) add_candidates(folders.substr(start, end - start), found);
    }
  }
  found.push_back("libopenvino_c.so");
  return found;
}

void open_library() {
  std::string tried;
  void* library = nullptr;
  for (const std::string& path : candidates()) {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    tried += std::string("; ") + dlerror();
  }
  if (!library)
    refuse(
        ACL_ERROR_GE_LOAD_MODEL,
        "a model with a graph needs OpenVINO 2024.3 or newer: `pip install openvino`, or set GE_CORE_OPENVINO to its "
        "folder%s",
        tried.c_str());
  Api api;
#define RESOLVE(ret, name, args)                                   \
  api.name = reinterpret_cast<ret(*) args>(dlsym(library, #name)); \
  if (!api.name) refuse(ACL_ERROR_GE_LOAD_MODEL, "this OpenVINO has no %s; 2024.3 or newer is needed", #name);
  OPENVINO_FUNCTIONS(RESOLVE)
#undef RESOLVE
  ov = api;
  find_dtype_codes();
  check(ov.ov_core_create(&core), "start");
}

void need_openvino() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (!core) open_library();
}

// ---- the engine --------------------------------------------------------------------------------------------------

Owned<ov_compiled_model_t> compile(const ov_model_t* model) {
  Owned<ov_compiled_model_t> compiled;
  // bfloat16 is the plugin's own choice where the CPU has it: ask for float32. One thread per stream.
  std::string streams = std::to_string(config().compute_engines);
  check(ov.ov_core_compile_model(core, model, "CPU", 10, &compiled.it, "INFERENCE_PRECISION_HINT", "f32",
                                 "PERFORMANCE_HINT", "LATENCY", "NUM_STREAMS", streams.c_str(), "INFERENCE_NUM_THREADS",
                                 streams.c_str(), "ENABLE_CPU_PINNING", "NO"),
        "compile", "the graph");
  return compiled;
}

void reshape(const ov_model_t* model, const std::vector<Tensor>& inputs,
             const std::vector<std::vector<ov_dimension_t>>& dims) {
  std::vector<const char*> names;
  std::vector<ov_partial_shape_t> shapes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (dims[i].empty()) continue;  // a scalar's shape cannot change, and OpenVINO's C API cannot make one
    names.push_back(inputs[i].graph_name.c_str());
    check(ov.ov_partial_shape_create(static_cast<int64_t>(dims[i].size()), dims[i].data(), &shapes.emplace_back()),
          "make", "a shape");
  }
  int status = names.empty() ? 0 : ov.ov_model_reshape(model, names.data(), shapes.data(), names.size());
  for (ov_partial_shape_t& shape : shapes) ov.ov_partial_shape_free(&shape);
  check(status, "give the graph", "the declared input shapes");
}

std::vector<std::vector<ov_dimension_t>> fixed(const std::vector<Dims>& shapes) {
  std::vector<std::vector<ov_dimension_t>> all;
  for (const Dims& dims : shapes) {
    all.emplace_back();
    for (int64_t dim : dims) all.back().push_back({dim, dim});
  }
  return all;
}

// The port's shape; false when it is not static.
bool static_shape(const ov_output_const_port_t* port, Dims* dims) {
  ov_partial_shape_t shape{};
  check(ov.ov_port_get_partial_shape(port, &shape), "tell", "a shape");
  bool known = shape.rank.min == shape.rank.max && shape.rank.min >= 0;
  dims->clear();
  for (int64_t i = 0; known && i < shape.rank.max; ++i) {
    known = shape.dims[i].min == shape.dims[i].max;
    dims->push_back(shape.dims[i].max);
  }
  ov.ov_partial_shape_free(&shape);
  return known;
}

std::string spell(const Dims& dims) {
  std::string text = "[";
  for (int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

// The graph compiled for one gear (or for all shapes in range).
struct Compiled {
  struct Port {
    Owned<ov_output_const_port_t> it;
    int code = 0;
    size_t nbytes = 0;  // 0 for models with ranges
    Dims dims;
  };
  Owned<ov_compiled_model_t> model;
  std::vector<Port> inputs, outputs;
};

class OpenVinoEngine final : public Engine, public std::enable_shared_from_this<OpenVinoEngine> {
 public:
  OpenVinoEngine(const Manifest& manifest, std::string_view onnx) : manifest_(manifest) {
    check(ov.ov_core_read_model_from_memory_buffer(core, onnx.data(), onnx.size(), nullptr, &graph_.it), "read",
          "the ONNX graph");
    size_t graph_inputs = 0;
    check(ov.ov_model_inputs_size(graph_.it, &graph_inputs), "count", "the inputs");
    if (graph_inputs != manifest.inputs.size())
      refuse(ACL_ERROR_GE_LOAD_MODEL, "the manifest declares %zu inputs, the graph has %zu; compile the model again",
             manifest.inputs.size(), graph_inputs);
    check_dtypes();
    if (manifest.ranged) {
      std::vector<std::vector<ov_dimension_t>> bounds;
      for (const Tensor& input : manifest.inputs) {
        bounds.emplace_back();
        for (auto [lower, upper] : input.range) bounds.back().push_back({upper == -1 ? -1 : lower, upper});
      }
      reshape(graph_.it, manifest.inputs, bounds);
      compiled_.push_back(compile_gear(-1));
      return;
    }
    for (size_t gear = 0; gear < manifest.gear_count(); ++gear) {
      std::vector<Dims> shapes;
      for (const Tensor& input : manifest.inputs) shapes.push_back(input.gear_shapes[gear]);
      reshape(graph_.it, manifest.inputs, fixed(shapes));
      compiled_.push_back(compile_gear(static_cast<int>(gear)));
    }
    graph_ = {};
  }

  std::unique_ptr<Instance> instantiate() override;

  std::vector<Dims> infer(const std::vector<Dims>& inputs) override {
    std::lock_guard<std::mutex> lock(mutex_);
    auto known = inferred_.find(inputs);
    if (known != inferred_.end()) return known->second;
    reshape(graph_.it, manifest_.inputs, fixed(inputs));
    std::vector<Dims> outputs;
    for (const Tensor& output : manifest_.outputs) {
      Owned<ov_output_const_port_t> port;
      check(ov.ov_model_const_output_by_name(graph_.it, output.graph_name.c_str(), &port.it), "find output",
            output.name);
      outputs.emplace_back();
      if (static_shape(port.it, &outputs.back())) continue;
      outputs.clear();
      break;
    }
    if (inferred_.size() >= 4096) inferred_.clear();
    inferred_[inputs] = outputs;
    return outputs;
  }

  const Manifest& manifest() const { return manifest_; }
  const std::vector<Compiled>& compiled() const { return compiled_; }

 private:
  void check_dtypes() const {
    for (bool input : {true, false}) {
      for (const Tensor& tensor : input ? manifest_.inputs : manifest_.outputs) {
        Owned<ov_output_const_port_t> port;
        const char* name = tensor.graph_name.c_str();
        check(input ? ov.ov_model_const_input_by_name(graph_.it, name, &port.it)
                    : ov.ov_model_const_output_by_name(graph_.it, name, &port.it),
              input ? "find the graph's input" : "find the graph's output", tensor.graph_name);
        int code = 0;
        check(ov.ov_port_get_element_type(port.it, &code), "tell the type of", tensor.name);
        auto known = dtype_of_code.find(code);
        if (known == dtype_of_code.end() || known->second->acl != tensor.dtype.acl)
          refuse(ACL_ERROR_GE_LOAD_MODEL, "%s: the manifest declares %s, the graph has %s; compile the model again",
                 tensor.name.c_str(), tensor.dtype.name,
                 known == dtype_of_code.end() ? "another type" : known->second->name);
      }
    }
  }

  Compiled compile_gear(int gear) const {
    Compiled result;
    result.model = compile(graph_.it);
    auto add = [&](const Tensor& tensor, bool input) {
      Compiled::Port port;
      const char* name = tensor.graph_name.c_str();
      check(input ? ov.ov_compiled_model_input_by_name(result.model.it, name, &port.it.it)
                  : ov.ov_compiled_model_output_by_name(result.model.it, name, &port.it.it),
            "find", tensor.graph_name);
      check(ov.ov_port_get_element_type(port.it.it, &port.code), "tell the type of", tensor.name);
      if (gear >= 0) {
        port.dims = tensor.gear_shapes[static_cast<size_t>(gear)];
        port.nbytes = tensor.gear_nbytes[static_cast<size_t>(gear)];
        Dims actual;
        if (static_shape(port.it.it, &actual) && actual != port.dims)
          refuse(ACL_ERROR_GE_LOAD_MODEL,
                 "%s: the manifest declares the shape %s, the graph gives %s; compile it again", tensor.name.c_str(),
                 spell(port.dims).c_str(), spell(actual).c_str());
      }
      (input ? result.inputs : result.outputs).push_back(std::move(port));
    };
    for (const Tensor& input : manifest_.inputs) add(input, true);
    for (const Tensor& output : manifest_.outputs) add(output, false);
    return result;
  }

  const Manifest& manifest_;
  Owned<ov_model_t> graph_;  // kept for shape inference of models with ranges
  std::vector<Compiled> compiled_;
  std::mutex mutex_;
  std::map<std::vector<Dims>, std::vector<Dims>> inferred_;
};

class OpenVinoInstance final : public Instance {
 public:
  explicit OpenVinoInstance(std::shared_ptr<OpenVinoEngine> engine) : engine_(std::move(engine)) {
    for (const Compiled& compiled : engine_->compiled()) {
      requests_.emplace_back();
      Request& request = requests_.back();
      check(ov.ov_compiled_model_create_infer_request(compiled.model.it, &request.it.it), "prepare", "the graph");
      request.inputs.resize(compiled.inputs.size());
      request.outputs.resize(compiled.outputs.size());
    }
  }

  void run(const Call& call) override {
    const Compiled& compiled = engine_->compiled()[call.gear];
    Request& request = requests_[call.gear];
    const bool ranged = engine_->manifest().ranged;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      bind(request, compiled.inputs[i], request.inputs[i], call.inputs[i], ranged ? &call.input_dims[i] : nullptr);
    for (size_t o = 0; o < call.outputs.size(); ++o)
      if (!request.outputs[o].copied)
        bind(request, compiled.outputs[o], request.outputs[o], call.outputs[o],
             ranged ? &call.output_dims[o] : nullptr);
    check(ov.ov_infer_request_infer(request.it.it), "compute", "the graph", ACL_ERROR_RT_AICORE_EXCEPTION);
    if (call.found) {
      call.found->resize(compiled.outputs.size());
      for (size_t o = 0; o < compiled.outputs.size(); ++o) collect_found(request, compiled.outputs[o], call, o);
      return;
    }
    for (size_t o = 0; o < call.outputs.size(); ++o)
      if (ranged || request.outputs[o].copied || !request.outputs[o].seen)
        collect(request, compiled.outputs[o], request.outputs[o], call.outputs[o],
                ranged ? engine_->manifest().outputs[o].nbytes_of(call.output_dims[o]) : compiled.outputs[o].nbytes);
  }

 private:
  struct Bound {
    void* address = nullptr;  // what the request uses now
    bool copied = false;      // the plugin writes elsewhere
    bool seen = false;
    std::unordered_map<void*, Owned<ov_tensor_t>> tensors;
  };
  struct Request {
    Owned<ov_infer_request_t> it;
    std::vector<Bound> inputs, outputs;
  };

  // Lets the request work on this memory. Tensors are kept by address: a server uses the same few again and again.
  void bind(Request& request, const Compiled::Port& port, Bound& bound, void* address, const Dims* dims) {
    if (!dims && bound.address == address) return;
    if (!address) address = placeholder_;
    Owned<ov_tensor_t> fresh;
    const ov_tensor_t* tensor;
    if (dims) {
      fresh = make_tensor(port.code, *dims, address);
      tensor = fresh.it;
    } else {
      if (bound.tensors.size() >= 64 && !bound.tensors.count(address)) bound.tensors.clear();
      Owned<ov_tensor_t>& kept = bound.tensors[address];
      if (!kept.it) kept = make_tensor(port.code, port.dims, address);
      tensor = kept.it;
    }
    check(ov.ov_infer_request_set_tensor_by_const_port(request.it.it, port.it.it, tensor), "use", "the given memory",
          ACL_ERROR_GE_FAILURE);
    bound.address = address;
  }

  static Owned<ov_tensor_t> output(const Request& request, const Compiled::Port& port, void** data, size_t* nbytes) {
    Owned<ov_tensor_t> tensor;
    check(ov.ov_infer_request_get_tensor_by_const_port(request.it.it, port.it.it, &tensor.it), "return", "an output",
          ACL_ERROR_GE_FAILURE);
    check(ov.ov_tensor_get_byte_size(tensor.it, nbytes), "return", "an output", ACL_ERROR_GE_FAILURE);
    if (*nbytes > 0) check(ov.ov_tensor_data(tensor.it, data), "return", "an output", ACL_ERROR_GE_FAILURE);
    return tensor;
  }

  static void collect(const Request& request, const Compiled::Port& port, Bound& bound, char* target, size_t expected) {
    void* data = nullptr;
    size_t nbytes = 0;
    Owned<ov_tensor_t> tensor = output(request, port, &data, &nbytes);
    if (nbytes != expected)
      refuse(ACL_ERROR_GE_FAILURE, "an output has %zu bytes, expected were %zu", nbytes, expected);
    bound.seen = true;
    bound.copied = nbytes > 0 && data != target;
    if (bound.copied) memcpy(target, data, nbytes);
  }

  static void collect_found(const Request& request, const Compiled::Port& port, const Call& call, size_t o) {
    void* data = nullptr;
    size_t nbytes = 0;
    Owned<ov_tensor_t> tensor = output(request, port, &data, &nbytes);
    ov_shape_t shape{};
    check(ov.ov_tensor_get_shape(tensor.it, &shape), "tell", "a shape", ACL_ERROR_GE_FAILURE);
    (*call.found)[o].assign(shape.dims, shape.dims + shape.rank);
    ov.ov_shape_free(&shape);
    char* target = call.place(o, nbytes);
    if (nbytes > 0) memcpy(target, data, nbytes);
  }

  std::shared_ptr<OpenVinoEngine> engine_;
  std::vector<Request> requests_;
  alignas(64) char placeholder_[64];  // for tensors without elements
};

std::unique_ptr<Instance> OpenVinoEngine::instantiate() {
  return std::make_unique<OpenVinoInstance>(shared_from_this());
}

}  // namespace

std::shared_ptr<Engine> make_openvino_engine(const Manifest& manifest, std::string_view onnx) {
  need_openvino();
  return std::make_shared<OpenVinoEngine>(manifest, onnx);
}

}  // namespace acl_cpu::mdl
