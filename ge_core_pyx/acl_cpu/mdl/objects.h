// SPDX-License-Identifier: Apache-2.0
// The objects that programs hold, and what their entry points share.
#ifndef ACL_CPU_MDL_OBJECTS_H
#define ACL_CPU_MDL_OBJECTS_H

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "mdl/failure.h"
#include "mdl/manifest.h"
#include "rt/runtime.h"

struct aclTensorDesc : acl_cpu::Handled {
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED, storage_format = ACL_FORMAT_UNDEFINED;
  acl_cpu::mdl::Dims dims, storage_dims;
  std::vector<std::pair<int64_t, int64_t>> range, value_range;
  std::string name, dynamic_input;
  std::vector<char> constant;
  aclMemType placement = ACL_MEMTYPE_DEVICE;
  bool owned = false;  // by a dataset
};

struct aclmdlDataset : acl_cpu::Handled {
  struct Entry {
    aclDataBuffer* buffer;
    std::unique_ptr<aclTensorDesc> desc;
  };
  std::vector<Entry> entries;
  // The gear that a setter noted, for which model, and where it wrote the values.
  uint32_t gear_model = 0;
  size_t gear = 0, gear_index = 0;
  uint32_t aipp_model = 0;  // the model whose dynamic AIPP parameters were set
};

struct aclmdlDesc : acl_cpu::Handled {
  std::shared_ptr<const acl_cpu::mdl::Manifest> manifest;
  std::vector<acl_cpu::mdl::Tensor> inputs;  // the reserved ones included
  uint32_t model_id = 0;                     // 0: described from a file or memory
};

namespace acl_cpu::mdl {

// Runs the body of an entry point; what it throws becomes a code and a text.
template <class Body>
aclError guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (aclError code) {  // already described
    return code;
  } catch (const Failure& failure) {
    return fail(failure.code, "%s", failure.text.c_str());
  } catch (const std::bad_alloc&) {
    return fail(ACL_ERROR_BAD_ALLOC, "out of host memory");
  }
}

// A buffer of a dataset; the program may have destroyed it meanwhile.
inline aclDataBuffer& buffer_of(const aclmdlDataset& dataset, size_t index) {
  aclDataBuffer* buffer = dataset.entries[index].buffer;
  if (!alive(buffer)) refuse(ACL_ERROR_INVALID_PARAM, "data buffer %zu of the dataset was destroyed", index);
  return *buffer;
}

#define ACL_CPU_REQUIRE(condition, what)                                                       \
  do {                                                                                         \
    if (!(condition)) return acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "%s: %s", __func__, what); \
  } while (false)

}  // namespace acl_cpu::mdl

#endif
