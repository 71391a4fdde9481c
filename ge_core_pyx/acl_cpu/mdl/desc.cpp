// SPDX-License-Identifier: Apache-2.0
// aclmdlDesc: what a model takes and gives.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "mdl/model.h"

using namespace acl_cpu::mdl;
using acl_cpu::alive;
using acl_cpu::Kind;
using acl_cpu::live_add;

namespace {

constexpr size_t kAnyInput = static_cast<size_t>(-1);

void describe(aclmdlDesc& desc, std::shared_ptr<const Manifest> manifest, uint32_t model_id) {
  desc.inputs = manifest->inputs;
  if (manifest->geared()) desc.inputs.push_back(gear_tensor(*manifest));
  if (manifest->dynamic_aipp_input() >= 0) desc.inputs.push_back(aipp_tensor(*manifest));
  desc.manifest = std::move(manifest);
  desc.model_id = model_id;
}

aclError describe_om(aclmdlDesc* desc, const Om& om) {
  describe(*desc, std::make_shared<Manifest>(Manifest::parse(om.manifest(), om.source())), 0);
  return ACL_SUCCESS;
}

bool filled(const aclmdlDesc* desc) { return alive(desc) && desc->manifest; }

const Tensor* input_of(const aclmdlDesc* desc, size_t index) {
  return filled(desc) && index < desc->inputs.size() ? &desc->inputs[index] : nullptr;
}

const Tensor* output_of(const aclmdlDesc* desc, size_t index) {
  return filled(desc) && index < desc->manifest->outputs.size() ? &desc->manifest->outputs[index] : nullptr;
}

bool fits(const std::string& name) { return name.size() < ACL_MAX_TENSOR_NAME_LEN; }

// Names that do not fit into aclmdlIODims are shown under a made-up one.
std::string shown_name(const aclmdlDesc& desc, const Tensor& tensor, const char* kind, size_t index) {
  if (fits(tensor.name)) return tensor.name;
  return "acl_modelId_" + std::to_string(desc.model_id) + "_" + kind + "_" + std::to_string(index);
}

void write_dims(aclmdlIODims* out, const std::string& name, const Dims& dims) {
  snprintf(out->name, sizeof out->name, "%s", name.c_str());
  out->dimCount = dims.size();
  std::copy(dims.begin(), dims.end(), out->dims);
}

// `as_image`: an input with static AIPP in n, h, w, c of its image, else in the dims whose product is its size.
aclError input_dims(const aclmdlDesc* desc, size_t index, aclmdlIODims* dims, bool as_image, const char* call) {
  const Tensor* tensor = input_of(desc, index);
  if (!tensor || !dims)
    return acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "%s: expected a filled desc, an input index and room for dims", call);
  return guarded([&]() -> aclError {
    const bool image = as_image && tensor->aipp && !tensor->aipp->dynamic;
    const Dims shown = image ? tensor->aipp->image(tensor->shape) : tensor->shape;
    return write_dims(dims, shown_name(*desc, *tensor, "input", index), shown), ACL_SUCCESS;
  });
}

aclError index_of(const std::vector<Tensor>& tensors, const char* name, size_t* index, const char* call) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != name) continue;
    *index = i;
    return ACL_SUCCESS;
  }
  return acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "%s: the model has no tensor named '%s'", call, name);
}

}  // namespace

aclmdlDesc* aclmdlCreateDesc(void) {
  ACL_CPU_ENTRY_OR(aclmdlCreateDesc, nullptr);
  aclmdlDesc* desc = new (std::nothrow) aclmdlDesc;
  if (desc) live_add(Kind::kDesc, 1);
  return desc;
}

aclError aclmdlDestroyDesc(aclmdlDesc* modelDesc) {
  ACL_CPU_ENTRY(aclmdlDestroyDesc);
  ACL_CPU_REQUIRE(acl_cpu::end_handled(modelDesc), "expected a model desc that is not destroyed");
  live_add(Kind::kDesc, -1);
  return ACL_SUCCESS;
}

aclError aclmdlGetDesc(aclmdlDesc* modelDesc, uint32_t modelId) {
  ACL_CPU_ENTRY(aclmdlGetDesc);
  ACL_CPU_REQUIRE(alive(modelDesc), "expected a model desc");
  return guarded([&]() -> aclError {
    std::shared_ptr<Model> model = find_model(modelId);
    describe(*modelDesc, model->shared_manifest(), modelId);
    return ACL_SUCCESS;
  });
}

aclError aclmdlGetDescFromFile(aclmdlDesc* modelDesc, const char* modelPath) {
  ACL_CPU_ENTRY(aclmdlGetDescFromFile);  // approximate: oms compiled for the CPU
  ACL_CPU_REQUIRE(alive(modelDesc) && modelPath, "expected a model desc and a path");
  return guarded([&] { return describe_om(modelDesc, Om::open(modelPath)); });
}

aclError aclmdlGetDescFromMem(aclmdlDesc* modelDesc, const void* model, size_t modelSize) {
  ACL_CPU_ENTRY(aclmdlGetDescFromMem);  // approximate: oms compiled for the CPU
  ACL_CPU_REQUIRE(alive(modelDesc) && model && modelSize > 0, "expected a model desc, a model and its size");
  return guarded([&] { return describe_om(modelDesc, Om::view(model, modelSize)); });
}

size_t aclmdlGetNumInputs(aclmdlDesc* modelDesc) {
  ACL_CPU_ENTRY_OR(aclmdlGetNumInputs, 0);
  return filled(modelDesc) ? modelDesc->inputs.size() : 0;
}

size_t aclmdlGetNumOutputs(aclmdlDesc* modelDesc) {
  ACL_CPU_ENTRY_OR(aclmdlGetNumOutputs, 0);
  return filled(modelDesc) ? modelDesc->manifest->outputs.size() : 0;
}

size_t aclmdlGetInputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetInputSizeByIndex, 0);
  const Tensor* tensor = input_of(modelDesc, index);
  return tensor ? tensor->nbytes : 0;
}

size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetOutputSizeByIndex, 0);
  const Tensor* tensor = output_of(modelDesc, index);
  return tensor ? tensor->nbytes : 0;
}

aclError aclmdlGetInputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  ACL_CPU_ENTRY(aclmdlGetInputDims);
  return input_dims(modelDesc, index, dims, true, __func__);
}

aclError aclmdlGetInputDimsV2(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  ACL_CPU_ENTRY(aclmdlGetInputDimsV2);
  return input_dims(modelDesc, index, dims, false, __func__);
}

aclError aclmdlGetInputDimsRange(const aclmdlDesc* modelDesc, size_t index, aclmdlIODimsRange* dimsRange) {
  ACL_CPU_ENTRY(aclmdlGetInputDimsRange);
  const Tensor* tensor = input_of(modelDesc, index);
  ACL_CPU_REQUIRE(tensor && dimsRange, "expected a filled desc, an input index and room for ranges");
  dimsRange->rangeCount = 0;
  if (modelDesc->manifest->geared()) return ACL_SUCCESS;
  for (size_t axis = 0; axis < tensor->shape.size(); ++axis) {
    int64_t dim = tensor->shape[axis];
    auto [lower, upper] = tensor->range.empty() ? std::pair(dim, dim) : tensor->range[axis];
    dimsRange->range[axis][0] = lower;
    dimsRange->range[axis][1] = upper;
  }
  dimsRange->rangeCount = tensor->shape.size();
  return ACL_SUCCESS;
}

aclError aclmdlGetOutputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  ACL_CPU_ENTRY(aclmdlGetOutputDims);
  const Tensor* tensor = output_of(modelDesc, index);
  ACL_CPU_REQUIRE(tensor && dims, "expected a filled desc, an output index and room for dims");
  return guarded([&]() -> aclError {
    return write_dims(dims, shown_name(*modelDesc, *tensor, "output", index), tensor->shape), ACL_SUCCESS;
  });
}

aclError aclmdlGetCurOutputDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims) {
  ACL_CPU_ENTRY(aclmdlGetCurOutputDims);
  const Tensor* tensor = output_of(modelDesc, index);
  ACL_CPU_REQUIRE(tensor && dims, "expected a filled desc, an output index and room for dims");
  if (modelDesc->manifest->ranged)
    return acl_cpu::fail(
        ACL_ERROR_API_NOT_SUPPORT,
        "aclmdlGetCurOutputDims: not for a model with ranges; read aclmdlGetDatasetTensorDesc of the output");
  return guarded([&]() -> aclError {
    size_t gear = find_model(modelDesc->model_id)->current_gear.load(std::memory_order_relaxed);
    return write_dims(dims, shown_name(*modelDesc, *tensor, "output", index), tensor->gear_shapes[gear]), ACL_SUCCESS;
  });
}

const char* aclmdlGetOpAttr(aclmdlDesc* modelDesc, const char* opName, const char* attr) {
  ACL_CPU_ENTRY_OR(aclmdlGetOpAttr, nullptr);  // approximate: a CPU om keeps no attributes: always empty
  if (!filled(modelDesc) || !opName || !attr) {
    acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetOpAttr: expected a filled desc, an operator and an attribute");
    return nullptr;
  }
  // A CPU om keeps no operator attributes.
  acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetOpAttr: operator '%s' has no attribute '%s'", opName, attr);
  return "";
}

const char* aclmdlGetInputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetInputNameByIndex, "");
  const Tensor* tensor = input_of(modelDesc, index);
  return tensor ? tensor->name.c_str() : "";
}

const char* aclmdlGetOutputNameByIndex(const aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetOutputNameByIndex, "");
  const Tensor* tensor = output_of(modelDesc, index);
  return tensor ? tensor->name.c_str() : "";
}

aclFormat aclmdlGetInputFormat(const aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetInputFormat, ACL_FORMAT_UNDEFINED);
  const Tensor* tensor = input_of(modelDesc, index);
  return tensor ? tensor->format : ACL_FORMAT_UNDEFINED;
}

aclFormat aclmdlGetOutputFormat(const aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetOutputFormat, ACL_FORMAT_UNDEFINED);
  const Tensor* tensor = output_of(modelDesc, index);
  return tensor ? tensor->format : ACL_FORMAT_UNDEFINED;
}

aclDataType aclmdlGetInputDataType(const aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetInputDataType, ACL_DT_UNDEFINED);
  const Tensor* tensor = input_of(modelDesc, index);
  return tensor ? tensor->dtype.acl : ACL_DT_UNDEFINED;
}

aclDataType aclmdlGetOutputDataType(const aclmdlDesc* modelDesc, size_t index) {
  ACL_CPU_ENTRY_OR(aclmdlGetOutputDataType, ACL_DT_UNDEFINED);
  const Tensor* tensor = output_of(modelDesc, index);
  return tensor ? tensor->dtype.acl : ACL_DT_UNDEFINED;
}

aclError aclmdlGetInputIndexByName(const aclmdlDesc* modelDesc, const char* name, size_t* index) {
  ACL_CPU_ENTRY(aclmdlGetInputIndexByName);
  ACL_CPU_REQUIRE(filled(modelDesc) && name && index, "expected a filled desc, a name and room for the index");
  return index_of(modelDesc->inputs, name, index, __func__);
}

aclError aclmdlGetOutputIndexByName(const aclmdlDesc* modelDesc, const char* name, size_t* index) {
  ACL_CPU_ENTRY(aclmdlGetOutputIndexByName);
  ACL_CPU_REQUIRE(filled(modelDesc) && name && index, "expected a filled desc, a name and room for the index");
  return index_of(modelDesc->manifest->outputs, name, index, __func__);
}

const char* aclmdlGetTensorRealName(const aclmdlDesc* modelDesc, const char* name) {
  ACL_CPU_ENTRY_OR(aclmdlGetTensorRealName, nullptr);
  if (!filled(modelDesc) || !name) {
    acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetTensorRealName: expected a filled desc and a name");
    return nullptr;
  }
  for (size_t i = 0; const Tensor* tensor = input_of(modelDesc, i); ++i)
    if (tensor->name == name || shown_name(*modelDesc, *tensor, "input", i) == name) return tensor->name.c_str();
  for (size_t i = 0; const Tensor* tensor = output_of(modelDesc, i); ++i)
    if (tensor->name == name || shown_name(*modelDesc, *tensor, "output", i) == name) return tensor->name.c_str();
  acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetTensorRealName: the model has no tensor named '%s'", name);
  return nullptr;
}

aclError aclmdlGetDynamicBatch(const aclmdlDesc* modelDesc, aclmdlBatch* batch) {
  ACL_CPU_ENTRY(aclmdlGetDynamicBatch);
  ACL_CPU_REQUIRE(filled(modelDesc) && batch, "expected a filled desc and room for batches");
  const Manifest& manifest = *modelDesc->manifest;
  batch->batchCount = manifest.gear_kind == GearKind::kBatch ? manifest.gears.size() : 0;
  for (size_t gear = 0; gear < batch->batchCount; ++gear) batch->batch[gear] = manifest.gears[gear][0];
  return ACL_SUCCESS;
}

aclError aclmdlGetDynamicHW(const aclmdlDesc* modelDesc, size_t index, aclmdlHW* hw) {
  ACL_CPU_ENTRY(aclmdlGetDynamicHW);
  ACL_CPU_REQUIRE(filled(modelDesc) && hw, "expected a filled desc and room for sizes");
  ACL_CPU_REQUIRE(index == kAnyInput || input_of(modelDesc, index), "expected the index -1");
  const Manifest& manifest = *modelDesc->manifest;
  hw->hwCount = manifest.gear_kind == GearKind::kImageSize ? manifest.gears.size() : 0;
  for (size_t gear = 0; gear < hw->hwCount; ++gear) std::copy_n(manifest.gears[gear].begin(), 2, hw->hw[gear]);
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicGearCount(const aclmdlDesc* modelDesc, size_t index, size_t* gearCount) {
  ACL_CPU_ENTRY(aclmdlGetInputDynamicGearCount);
  ACL_CPU_REQUIRE(filled(modelDesc) && gearCount, "expected a filled desc and room for the count");
  ACL_CPU_REQUIRE(index == kAnyInput, "expected the index -1");
  *gearCount = modelDesc->manifest->gear_kind == GearKind::kDims ? modelDesc->manifest->gears.size() : 0;
  return ACL_SUCCESS;
}

aclError aclmdlGetInputDynamicDims(const aclmdlDesc* modelDesc, size_t index, aclmdlIODims* dims, size_t gearCount) {
  ACL_CPU_ENTRY(aclmdlGetInputDynamicDims);
  ACL_CPU_REQUIRE(filled(modelDesc) && dims, "expected a filled desc and room for dims");
  ACL_CPU_REQUIRE(index == kAnyInput, "expected the index -1");
  const Manifest& manifest = *modelDesc->manifest;
  const size_t gears = manifest.gear_kind == GearKind::kDims ? manifest.gears.size() : 0;
  ACL_CPU_REQUIRE(gearCount >= gears, "there is room for fewer gears than the model has");
  return guarded([&]() -> aclError {
    for (size_t gear = 0; gear < gears; ++gear) {
      Dims all;  // of all inputs, one after the other
      for (const Tensor& input : manifest.inputs)
        all.insert(all.end(), input.gear_shapes[gear].begin(), input.gear_shapes[gear].end());
      if (all.size() > ACL_MAX_DIM_CNT) refuse(ACL_ERROR_INVALID_PARAM, "the inputs have more than 128 dims together");
      write_dims(&dims[gear], "", all);
    }
    return ACL_SUCCESS;
  });
}
