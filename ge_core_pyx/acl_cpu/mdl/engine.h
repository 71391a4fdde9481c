// SPDX-License-Identifier: Apache-2.0
// What computes a model: the graph by OpenVINO, or the synthetic arithmetic.
#ifndef ACL_CPU_MDL_ENGINE_H
#define ACL_CPU_MDL_ENGINE_H

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "mdl/manifest.h"

namespace acl_cpu::mdl {

// One computation: host addresses of every input and output.
struct Call {
  size_t gear = 0;
  std::vector<char*> inputs, outputs;
  std::vector<Dims> input_dims, output_dims;  // models with ranges only
  // Models whose output shapes only the data decides: `outputs` and `output_dims` are empty, the instance asks for
  // the place of each output and notes its shape.
  std::function<char*(size_t output, size_t nbytes)> place;
  std::shared_ptr<std::vector<Dims>> found;
};

// The part that belongs to one loaded model id. Calls do not overlap.
class Instance {
 public:
  virtual ~Instance() = default;
  // Throws Failure.
  virtual void run(const Call& call) = 0;
};

// The part that all loads of one file share; thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::unique_ptr<Instance> instantiate() = 0;
  // Models with ranges: the outputs' shapes for these input shapes; an empty list when only the data decides.
  virtual std::vector<Dims> infer(const std::vector<Dims>& inputs) = 0;
};

// Both throw Failure. The manifest outlives the engine.
std::shared_ptr<Engine> make_synthetic_engine(const Manifest& manifest);
std::shared_ptr<Engine> make_openvino_engine(const Manifest& manifest, std::string_view onnx);

}  // namespace acl_cpu::mdl

#endif
