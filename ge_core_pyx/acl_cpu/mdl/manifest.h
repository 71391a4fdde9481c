// What a model declares: its tensors, gears or ranges, and times, with every shape resolved and checked.
#ifndef ACL_CPU_MDL_MANIFEST_H
#define ACL_CPU_MDL_MANIFEST_H

#include <cstddef>
#include <cstdint>
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

  size_t nbytes_of(const Dims& dims) const;
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

  // Throws Failure (545001) naming what is wrong.
  static Manifest parse(std::string_view json, const std::string& source);

  bool geared() const { return gear_kind != GearKind::kNone; }
  size_t gear_count() const { return geared() ? gears.size() : 1; }
  // The index of the gear with these values, or -1.
  int find_gear(const std::vector<uint64_t>& values) const;
};

// Reserved input of a gear model, after all others: its values as the setters write them.
Tensor gear_tensor(const Manifest& manifest);

}  // namespace acl_cpu::mdl

#endif
