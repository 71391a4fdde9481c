// SPDX-License-Identifier: Apache-2.0
// What a model declares: its tensors, gears or ranges, and times, with every shape resolved and checked.
#ifndef ACL_CPU_MDL_MANIFEST_H
#define ACL_CPU_MDL_MANIFEST_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "acl_abi.h"

namespace acl_cpu::mdl {

using Dims = std::vector<int64_t>;

struct DType {
  const char* name;
  aclDataType acl;
  size_t nbytes;
};
const DType* find_dtype(std::string_view name);

// Number of elements; false when a dim is negative or the product does not fit.
bool element_count(const Dims& dims, size_t* count);

struct Aipp;

struct Tensor {
  std::string name;        // as AscendCL shows it
  std::string graph_name;  // the ONNX value
  DType dtype;
  aclFormat format = ACL_FORMAT_ND;
  Dims shape;                                      // -1 for what gears or ranges decide
  std::vector<Dims> gear_shapes;                   // one per gear (one for a static model, none for ranges)
  std::vector<size_t> gear_nbytes;                 // likewise
  std::vector<std::pair<int64_t, int64_t>> range;  // lower and upper bound per dim, upper -1 for none (ranges only)
  size_t nbytes = 0;                               // of the largest gear; ranges: of the upper bounds, 0 without
  std::shared_ptr<const Aipp> aipp;                // inputs that are images only

  size_t nbytes_of(const Dims& dims) const;
};

// The preprocessing that an image input was compiled with; described, not computed.
struct Aipp {
  bool dynamic = false;
  aclAippInputFormat format = ACL_RGB888_U8;
  Tensor source;                          // the graph's input, which preprocessing makes from the image
  int64_t crop[4] = {}, padding[4] = {};  // left, top, width, height; left, right, top, bottom
  int64_t matrix[9] = {}, input_bias[3] = {}, output_bias[3] = {}, mean[4] = {};
  double minimum[4] = {}, reciprocal[4] = {};
  bool crops = false, pads = false, converts = false, swaps_rbuv = false, swaps_ax = false;

  static size_t data_nbytes(uint64_t batch) { return 64 + batch * 96; }  // a parameter set: a head, a block per image
  Dims image(const Dims& dims) const;                                    // n, h, w, c of an input of these dims
};

enum class GearKind { kNone, kBatch, kImageSize, kDims };

struct Manifest {
  std::string soc, name;
  bool synthetic = false;
  bool ranged = false;
  std::vector<Tensor> inputs, outputs;
  GearKind gear_kind = GearKind::kNone;
  std::vector<std::vector<uint64_t>> gears;  // the values of each gear, ascending
  size_t largest_gear = 0;
  std::vector<double> exec_us;  // one per gear
  size_t weight_nbytes = 0, work_nbytes = 0;
  std::optional<uint32_t> onnx_crc32;  // of the graph's bytes; oms of before it was written have none

  // Throws Failure (545001) naming what is wrong.
  static Manifest parse(std::string_view json, const std::string& source);

  bool geared() const { return gear_kind != GearKind::kNone; }
  size_t gear_count() const { return geared() ? gears.size() : 1; }
  // The index of the gear with these values, or -1.
  int find_gear(const std::vector<uint64_t>& values) const;
  int dynamic_aipp_input() const;  // -1: none
  // The inputs a program sees: the declared ones, then those of gear values and of dynamic AIPP parameters.
  size_t visible_inputs() const { return inputs.size() + (geared() ? 1 : 0) + (dynamic_aipp_input() >= 0 ? 1 : 0); }
};

// Reserved inputs, after all others: the values as their setters write them.
Tensor gear_tensor(const Manifest& manifest);
Tensor aipp_tensor(const Manifest& manifest);
uint64_t largest_batch(const Manifest& manifest);  // of the images of a model with dynamic AIPP

}  // namespace acl_cpu::mdl

#endif
