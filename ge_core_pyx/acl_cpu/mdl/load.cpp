// SPDX-License-Identifier: Apache-2.0
// Loading, sizes, gears, execution: the entry points that name a model id.
#include <cstring>

#include "mdl/model.h"

using namespace acl_cpu::mdl;
using acl_cpu::alive;
using acl_cpu::fail;

struct aclmdlConfigHandle : acl_cpu::Handled {
  size_t load_type = 0, memory_nbytes = 0;
  std::string path;
  bool has_path = false;
  const void* memory = nullptr;
  Placement placement;
};

struct aclmdlExecConfigHandle : acl_cpu::Handled {
  int32_t stream_timeout_ms = -1;
};

namespace {

aclError load_om(Om&& om, uint32_t* model_id, const Placement& placement = {}) {
  *model_id = load(om, placement);
  return ACL_SUCCESS;
}

aclError query(const Om& om, size_t* work, size_t* weights) {
  Manifest manifest = Manifest::parse(om.manifest(), om.source());
  *work = work_nbytes(manifest);
  *weights = weight_nbytes(manifest, om);
  return ACL_SUCCESS;
}

aclError execute(uint32_t id, const aclmdlDataset* input, aclmdlDataset* output, Mode mode, aclrtStream stream,
                 int timeout_ms) {
  return guarded([&] { return find_model(id)->execute(mode, *input, *output, stream, timeout_ms); });
}

// Writes a gear's values into the gear buffer, blocking, and notes the gear for the next execution of this dataset.
aclError set_gear(uint32_t id, aclmdlDataset& dataset, size_t index, GearKind kind,
                  const std::vector<uint64_t>& values) {
  std::shared_ptr<Model> model = find_model(id);
  const Manifest& manifest = model->manifest();
  acl_cpu::Context* context = nullptr;
  if (aclError code = acl_cpu::current_context(&context)) return code;
  if (manifest.gear_kind != kind)
    refuse(ACL_ERROR_GE_PARAM_INVALID, "model %u was not compiled with gears of this kind", id);
  if (index >= dataset.entries.size() || index != manifest.inputs.size())
    refuse(ACL_ERROR_INVALID_PARAM,
           "model %u: expected the index of input %s, %zu, and its buffer in the dataset, got %zu", id,
           ACL_DYNAMIC_TENSOR_NAME, manifest.inputs.size(), index);
  const aclDataBuffer& buffer = buffer_of(dataset, index);
  if (!buffer.data) refuse(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, "model %u: the gear buffer has no address", id);
  const size_t count = values.size();
  if (buffer.size < count * sizeof(uint32_t))
    refuse(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, "model %u: expected a gear buffer of %zu bytes, got %zu", id,
           count * sizeof(uint64_t), buffer.size);
  int gear = manifest.find_gear(values);
  if (gear < 0) {
    std::string text;
    for (uint64_t value : values) text += " " + std::to_string(value);
    refuse(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, "model %u has no gear%s", id, text.c_str());
  }
  const bool wide = buffer.size >= count * sizeof(uint64_t);
  char* target = acl_cpu::host_alias(buffer.data, count * (wide ? 8 : 4));
  if (!target)
    refuse(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, "model %u: the gear buffer is not device memory of this size", id);
  {
    std::lock_guard<std::mutex> lock(gear_buffer_mutex());
    for (size_t i = 0; i < count; ++i) memcpy(target + i * (wide ? 8 : 4), &values[i], wide ? 8 : 4);
  }
  dataset.gear_model = id;
  dataset.gear = static_cast<size_t>(gear);
  dataset.gear_index = index;
  model->current_gear.store(static_cast<size_t>(gear), std::memory_order_relaxed);
  return ACL_SUCCESS;
}

// The values of a gear out of the dims of all inputs: those at the -1's.
std::vector<uint64_t> gear_values(const Manifest& manifest, const aclmdlIODims& dims) {
  std::vector<uint64_t> values;
  size_t at = 0;
  for (const Tensor& input : manifest.inputs) {
    for (int64_t dim : input.shape) {
      if (at >= dims.dimCount)
        refuse(ACL_ERROR_GE_PARAM_INVALID, "expected the dims of all inputs, got %zu", dims.dimCount);
      int64_t given = dims.dims[at++];
      if (dim == -1) {
        values.push_back(static_cast<uint64_t>(given));
      } else if (given != dim) {
        refuse(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, "input %s: expected the fixed dim %lld, got %lld",
               input.name.c_str(), static_cast<long long>(dim), static_cast<long long>(given));
      }
    }
  }
  if (at != dims.dimCount)
    refuse(ACL_ERROR_GE_PARAM_INVALID, "expected the %zu dims of all inputs, got %zu", at, dims.dimCount);
  return values;
}

template <class T>
aclError read_option(const void* value, size_t nbytes, T* target) {
  if (nbytes != sizeof(T))
    return fail(ACL_ERROR_INVALID_PARAM, "expected a value of %zu bytes for this option, got %zu", sizeof(T), nbytes);
  memcpy(target, value, sizeof(T));
  return ACL_SUCCESS;
}

}  // namespace

// ---- load and unload ---------------------------------------------------------------------------------------------

aclError aclmdlLoadFromFile(const char* modelPath, uint32_t* modelId) {
  ACL_CPU_ENTRY(aclmdlLoadFromFile);  // approximate: oms compiled for the CPU
  ACL_CPU_REQUIRE(modelPath && modelId, "expected a path and room for the model id");
  return guarded([&] { return load_om(Om::open(modelPath), modelId); });
}

aclError aclmdlLoadFromMem(const void* model, size_t modelSize, uint32_t* modelId) {
  ACL_CPU_ENTRY(aclmdlLoadFromMem);  // approximate: oms compiled for the CPU
  ACL_CPU_REQUIRE(model && modelSize > 0 && modelId, "expected a model, its size and room for the model id");
  return guarded([&] { return load_om(Om::view(model, modelSize), modelId); });
}

aclError aclmdlLoadFromFileWithMem(const char* modelPath, uint32_t* modelId, void* workPtr, size_t workSize,
                                   void* weightPtr, size_t weightSize) {
  ACL_CPU_ENTRY(aclmdlLoadFromFileWithMem);  // approximate: oms compiled for the CPU; weights stay on the host
  ACL_CPU_REQUIRE(modelPath && modelId, "expected a path and room for the model id");
  return guarded([&] { return load_om(Om::open(modelPath), modelId, {workPtr, weightPtr, workSize, weightSize}); });
}

aclError aclmdlLoadFromMemWithMem(const void* model, size_t modelSize, uint32_t* modelId, void* workPtr,
                                  size_t workSize, void* weightPtr, size_t weightSize) {
  ACL_CPU_ENTRY(aclmdlLoadFromMemWithMem);  // approximate: oms compiled for the CPU; weights stay on the host
  ACL_CPU_REQUIRE(model && modelSize > 0 && modelId, "expected a model, its size and room for the model id");
  return guarded(
      [&] { return load_om(Om::view(model, modelSize), modelId, {workPtr, weightPtr, workSize, weightSize}); });
}

aclmdlConfigHandle* aclmdlCreateConfigHandle(void) {
  ACL_CPU_ENTRY_OR(aclmdlCreateConfigHandle, nullptr);
  return new (std::nothrow) aclmdlConfigHandle;
}

aclError aclmdlDestroyConfigHandle(aclmdlConfigHandle* handle) {
  ACL_CPU_ENTRY(aclmdlDestroyConfigHandle);
  ACL_CPU_REQUIRE(acl_cpu::end_handled(handle), "expected a config handle that is not destroyed");
  return ACL_SUCCESS;
}

aclError aclmdlSetConfigOpt(aclmdlConfigHandle* handle, aclmdlConfigAttr attr, const void* attrValue,
                            size_t valueSize) {
  ACL_CPU_ENTRY(aclmdlSetConfigOpt);  // approximate: priority, malloc policy and the like are checked and ignored
  ACL_CPU_REQUIRE(alive(handle) && attrValue, "expected a config handle and a value");
  int32_t number = 0;
  size_t size = 0;
  switch (attr) {
    case ACL_MDL_LOAD_TYPE_SIZET:
      return read_option(attrValue, valueSize, &handle->load_type);
    case ACL_MDL_PATH_PTR: {
      const char* path = nullptr;
      if (aclError code = read_option(attrValue, valueSize, &path)) return code;
      ACL_CPU_REQUIRE(path, "expected a path");
      handle->has_path = true;
      return guarded([&]() -> aclError { return handle->path = path, ACL_SUCCESS; });
    }
    case ACL_MDL_MEM_ADDR_PTR:
      return read_option(attrValue, valueSize, &handle->memory);
    case ACL_MDL_MEM_SIZET:
      return read_option(attrValue, valueSize, &handle->memory_nbytes);
    case ACL_MDL_WEIGHT_ADDR_PTR:
      return read_option(attrValue, valueSize, &handle->placement.weights);
    case ACL_MDL_WEIGHT_SIZET:
      return read_option(attrValue, valueSize, &handle->placement.weight_nbytes);
    case ACL_MDL_WORKSPACE_ADDR_PTR:
      return read_option(attrValue, valueSize, &handle->placement.work);
    case ACL_MDL_WORKSPACE_SIZET:
      return read_option(attrValue, valueSize, &handle->placement.work_nbytes);
    // Accepted, checked, and without effect here.
    case ACL_MDL_PRIORITY_INT32:
    case ACL_MDL_WITHOUT_GRAPH_INT32:
      return read_option(attrValue, valueSize, &number);
    case ACL_MDL_MEM_MALLOC_POLICY_SIZET:
      return read_option(attrValue, valueSize, &size);
    case ACL_MDL_WORKSPACE_MEM_OPTIMIZE:
      if (aclError code = read_option(attrValue, valueSize, &size)) return code;
      ACL_CPU_REQUIRE(size <= ACL_WORKSPACE_MEM_OPTIMIZE_INPUTOUTPUT, "ACL_MDL_WORKSPACE_MEM_OPTIMIZE is 0 or 1");
      return ACL_SUCCESS;
    default:
      return fail(ACL_ERROR_API_NOT_SUPPORT, "aclmdlSetConfigOpt: option %d is not supported by the CPU implementation",
                  attr);
  }
}

aclError aclmdlLoadWithConfig(const aclmdlConfigHandle* handle, uint32_t* modelId) {
  ACL_CPU_ENTRY(aclmdlLoadWithConfig);  // approximate: oms compiled for the CPU, without queues
  ACL_CPU_REQUIRE(alive(handle) && modelId, "expected a config handle and room for the model id");
  const bool with_memory =
      handle->load_type == ACL_MDL_LOAD_FROM_FILE_WITH_MEM || handle->load_type == ACL_MDL_LOAD_FROM_MEM_WITH_MEM;
  const Placement placement = with_memory ? handle->placement : Placement();
  switch (handle->load_type) {
    case ACL_MDL_LOAD_FROM_FILE:
    case ACL_MDL_LOAD_FROM_FILE_WITH_MEM:
      ACL_CPU_REQUIRE(handle->has_path, "loading from a file needs ACL_MDL_PATH_PTR");
      return guarded([&] { return load_om(Om::open(handle->path.c_str()), modelId, placement); });
    case ACL_MDL_LOAD_FROM_MEM:
    case ACL_MDL_LOAD_FROM_MEM_WITH_MEM:
      ACL_CPU_REQUIRE(handle->memory && handle->memory_nbytes > 0,
                      "loading from memory needs ACL_MDL_MEM_ADDR_PTR and ACL_MDL_MEM_SIZET");
      return guarded([&] { return load_om(Om::view(handle->memory, handle->memory_nbytes), modelId, placement); });
    case ACL_MDL_LOAD_FROM_FILE_WITH_Q:
    case ACL_MDL_LOAD_FROM_MEM_WITH_Q:
      return fail(ACL_ERROR_API_NOT_SUPPORT,
                  "aclmdlLoadWithConfig: queues are not supported by the CPU implementation");
    default:
      return fail(ACL_ERROR_INVALID_PARAM, "aclmdlLoadWithConfig: expected ACL_MDL_LOAD_TYPE_SIZET from 1 to 6");
  }
}

aclError aclmdlUnload(uint32_t modelId) {
  ACL_CPU_ENTRY(aclmdlUnload);
  return guarded([&] { return unload(modelId); });
}

aclError aclmdlQuerySize(const char* fileName, size_t* workSize, size_t* weightSize) {
  ACL_CPU_ENTRY(aclmdlQuerySize);  // approximate: the size of the weights, 512 bytes of work memory unless declared
  ACL_CPU_REQUIRE(fileName && workSize && weightSize, "expected a path and room for two sizes");
  return guarded([&] { return query(Om::open(fileName), workSize, weightSize); });
}

aclError aclmdlQuerySizeFromMem(const void* model, size_t modelSize, size_t* workSize, size_t* weightSize) {
  ACL_CPU_ENTRY(aclmdlQuerySizeFromMem);  // approximate: as aclmdlQuerySize
  ACL_CPU_REQUIRE(model && modelSize > 0 && workSize && weightSize,
                  "expected a model, its size and room for two sizes");
  return guarded([&] { return query(Om::view(model, modelSize), workSize, weightSize); });
}

aclError aclmdlSetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t* attrValue) {
  ACL_CPU_ENTRY(aclmdlSetAttribute);  // approximate: kept, no effect
  ACL_CPU_REQUIRE(attrValue && attr == ACL_MDL_ATTR_PRIORITY_INT32, "expected ACL_MDL_ATTR_PRIORITY_INT32 and a value");
  return guarded([&]() -> aclError {
    find_model(modelId)->priority.store(attrValue->mdlPriority, std::memory_order_relaxed);
    return ACL_SUCCESS;
  });
}

aclError aclmdlGetAttribute(uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t* attrValue) {
  ACL_CPU_ENTRY(aclmdlGetAttribute);  // approximate: as set
  ACL_CPU_REQUIRE(attrValue && attr == ACL_MDL_ATTR_PRIORITY_INT32, "expected ACL_MDL_ATTR_PRIORITY_INT32 and a value");
  return guarded([&]() -> aclError {
    attrValue->mdlPriority = find_model(modelId)->priority.load(std::memory_order_relaxed);
    return ACL_SUCCESS;
  });
}

// ---- gears -------------------------------------------------------------------------------------------------------

aclError aclmdlSetDynamicBatchSize(uint32_t modelId, aclmdlDataset* dataset, size_t index, uint64_t batchSize) {
  ACL_CPU_ENTRY(aclmdlSetDynamicBatchSize);
  ACL_CPU_REQUIRE(alive(dataset) && batchSize > 0, "expected a dataset and a batch size of at least 1");
  return guarded([&] { return set_gear(modelId, *dataset, index, GearKind::kBatch, {batchSize}); });
}

aclError aclmdlSetDynamicHWSize(uint32_t modelId, aclmdlDataset* dataset, size_t index, uint64_t height,
                                uint64_t width) {
  ACL_CPU_ENTRY(aclmdlSetDynamicHWSize);
  ACL_CPU_REQUIRE(alive(dataset) && height > 0 && width > 0, "expected a dataset, a height and a width of at least 1");
  return guarded([&] { return set_gear(modelId, *dataset, index, GearKind::kImageSize, {height, width}); });
}

aclError aclmdlSetInputDynamicDims(uint32_t modelId, aclmdlDataset* dataset, size_t index, const aclmdlIODims* dims) {
  ACL_CPU_ENTRY(aclmdlSetInputDynamicDims);
  ACL_CPU_REQUIRE(alive(dataset) && dims && dims->dimCount > 0 && dims->dimCount <= ACL_MAX_DIM_CNT,
                  "expected a dataset and dims");
  return guarded([&] {
    std::shared_ptr<Model> model = find_model(modelId);
    return set_gear(modelId, *dataset, index, GearKind::kDims, gear_values(model->manifest(), *dims));
  });
}

// ---- execute -----------------------------------------------------------------------------------------------------

aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output) {
  ACL_CPU_ENTRY(aclmdlExecute);
  ACL_CPU_REQUIRE(alive(input) && alive(output), "expected an input and an output dataset");
  return execute(modelId, input, output, Mode::kSync, nullptr, -1);
}

aclError aclmdlExecuteV2(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output, aclrtStream stream,
                         const aclmdlExecConfigHandle* handle) {
  ACL_CPU_ENTRY(aclmdlExecuteV2);
  ACL_CPU_REQUIRE(alive(input) && alive(output) && alive(handle),
                  "expected an input and an output dataset and a config handle");
  return execute(modelId, input, output, Mode::kSyncOnStream, stream, handle->stream_timeout_ms);
}

aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output, aclrtStream stream) {
  ACL_CPU_ENTRY(aclmdlExecuteAsync);
  ACL_CPU_REQUIRE(alive(input) && alive(output), "expected an input and an output dataset");
  return execute(modelId, input, output, Mode::kAsync, stream, -1);
}

aclmdlExecConfigHandle* aclmdlCreateExecConfigHandle(void) {
  ACL_CPU_ENTRY_OR(aclmdlCreateExecConfigHandle, nullptr);
  return new (std::nothrow) aclmdlExecConfigHandle;
}

aclError aclmdlDestroyExecConfigHandle(const aclmdlExecConfigHandle* handle) {
  ACL_CPU_ENTRY(aclmdlDestroyExecConfigHandle);
  ACL_CPU_REQUIRE(acl_cpu::end_handled(handle), "expected a config handle that is not destroyed");
  return ACL_SUCCESS;
}

aclError aclmdlSetExecConfigOpt(aclmdlExecConfigHandle* handle, aclmdlExecConfigAttr attr, const void* attrValue,
                                size_t valueSize) {
  ACL_CPU_ENTRY(aclmdlSetExecConfigOpt);  // approximate: the stream timeout is honoured, the rest checked and ignored
  ACL_CPU_REQUIRE(alive(handle) && attrValue, "expected a config handle and a value");
  int32_t number = 0;
  size_t size = 0;
  switch (attr) {
    case ACL_MDL_STREAM_SYNC_TIMEOUT:
    case ACL_MDL_EVENT_SYNC_TIMEOUT:
      if (aclError code = read_option(attrValue, valueSize, &number)) return code;
      ACL_CPU_REQUIRE(number == -1 || number > 0, "expected a timeout of -1 or of at least 1 ms");
      if (attr == ACL_MDL_STREAM_SYNC_TIMEOUT) handle->stream_timeout_ms = number;
      return ACL_SUCCESS;
    // Accepted, checked, and without effect here.
    case ACL_MDL_EXEC_PRIORITY_INT32:
      return read_option(attrValue, valueSize, &number);
    case ACL_MDL_WORK_ADDR_PTR:
    case ACL_MDL_WORK_SIZET:
    case ACL_MDL_MPAIMID_SIZET:
    case ACL_MDL_AICQOS_SIZET:
    case ACL_MDL_AICOST_SIZET:
    case ACL_MDL_MEC_TIMETHR_SIZET:
      return read_option(attrValue, valueSize, &size);
    default:
      return fail(ACL_ERROR_API_NOT_SUPPORT,
                  "aclmdlSetExecConfigOpt: option %d is not supported by the CPU implementation", attr);
  }
}
