// SPDX-License-Identifier: Apache-2.0
// aclTensorDesc: type, format and shape of a tensor, with no memory behind it.
#include "mdl/objects.h"

using acl_cpu::alive;
using acl_cpu::Kind;
using acl_cpu::live_add;
using acl_cpu::mdl::Dims;
using acl_cpu::mdl::guarded;

namespace {

bool valid_dims(int count, const int64_t* dims) { return count >= 0 && (count == 0 || dims); }

void set_ranges(std::vector<std::pair<int64_t, int64_t>>& target, size_t count, int64_t ranges[][2]) {
  target.clear();
  for (size_t i = 0; i < count; ++i) target.emplace_back(ranges[i][0], ranges[i][1]);
}

size_t elements(const aclTensorDesc& desc) {
  size_t count = 0;
  return acl_cpu::mdl::element_count(desc.dims, &count) ? count : 0;
}

aclError set_storage_shape(aclTensorDesc* desc, int count, const int64_t* dims) {
  return guarded([&]() -> aclError { return desc->storage_dims.assign(dims, dims + count), ACL_SUCCESS; });
}

}  // namespace

aclTensorDesc* aclCreateTensorDesc(aclDataType dataType, int numDims, const int64_t* dims, aclFormat format) {
  ACL_CPU_ENTRY_OR(aclCreateTensorDesc, nullptr);
  if (!valid_dims(numDims, dims)) {
    acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "aclCreateTensorDesc: expected numDims >= 0 and dims, got %d dims", numDims);
    return nullptr;
  }
  aclTensorDesc* desc = nullptr;
  guarded([&]() -> aclError {
    auto fresh = std::make_unique<aclTensorDesc>();
    fresh->dtype = dataType;
    fresh->format = fresh->storage_format = format;
    fresh->dims.assign(dims, dims + numDims);
    fresh->storage_dims = fresh->dims;
    desc = fresh.release();
    return ACL_SUCCESS;
  });
  if (desc) live_add(Kind::kTensorDesc, 1);
  return desc;
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclDestroyTensorDesc, );
  if (!desc) return;
  if (!alive(desc) || desc->owned || !acl_cpu::end_handled(desc)) {
    acl_cpu::fail(ACL_ERROR_INVALID_PARAM, "aclDestroyTensorDesc: the desc is a dataset's own, or destroyed already");
    return;
  }
  live_add(Kind::kTensorDesc, -1);
}

aclError aclSetTensorShapeRange(aclTensorDesc* desc, size_t dimsCount, int64_t dimsRange[][2]) {
  ACL_CPU_ENTRY(aclSetTensorShapeRange);
  ACL_CPU_REQUIRE(alive(desc) && (dimsCount == 0 || dimsRange), "expected a tensor desc and ranges");
  return guarded([&]() -> aclError { return set_ranges(desc->range, dimsCount, dimsRange), ACL_SUCCESS; });
}

aclError aclSetTensorValueRange(aclTensorDesc* desc, size_t valueCount, int64_t valueRange[][2]) {
  ACL_CPU_ENTRY(aclSetTensorValueRange);  // approximate: kept; no operator calls use it
  ACL_CPU_REQUIRE(alive(desc) && (valueCount == 0 || valueRange), "expected a tensor desc and ranges");
  return guarded([&]() -> aclError { return set_ranges(desc->value_range, valueCount, valueRange), ACL_SUCCESS; });
}

aclDataType aclGetTensorDescType(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescType, ACL_DT_UNDEFINED);
  return alive(desc) ? desc->dtype : ACL_DT_UNDEFINED;
}

aclFormat aclGetTensorDescFormat(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescFormat, ACL_FORMAT_UNDEFINED);
  return alive(desc) ? desc->format : ACL_FORMAT_UNDEFINED;
}

size_t aclGetTensorDescSize(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescSize, 0);
  return alive(desc) ? elements(*desc) * aclDataTypeSize(desc->dtype) : 0;
}

size_t aclGetTensorDescElementCount(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescElementCount, 0);
  return alive(desc) ? elements(*desc) : 0;
}

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescNumDims, 0);
  if (!alive(desc)) return 0;
  return !desc->dims.empty() && desc->dims[0] == -2 ? ACL_UNKNOWN_RANK : desc->dims.size();
}

int64_t aclGetTensorDescDim(const aclTensorDesc* desc, size_t index) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescDim, -1);
  return alive(desc) && index < desc->dims.size() ? desc->dims[index] : -1;
}

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dimSize) {
  ACL_CPU_ENTRY(aclGetTensorDescDimV2);
  ACL_CPU_REQUIRE(alive(desc) && dimSize, "expected a tensor desc and a place for the dim");
  ACL_CPU_REQUIRE(index < desc->dims.size(), "the index is past the last dim");
  *dimSize = desc->dims[index];
  return ACL_SUCCESS;
}

aclError aclGetTensorDescDimRange(const aclTensorDesc* desc, size_t index, size_t dimRangeNum, int64_t* dimRange) {
  ACL_CPU_ENTRY(aclGetTensorDescDimRange);
  ACL_CPU_REQUIRE(alive(desc) && dimRange && dimRangeNum >= ACL_DIM_ENDPOINTS,
                  "expected a tensor desc and room for two numbers");
  ACL_CPU_REQUIRE(index < desc->range.size(), "the index is past the last range");
  dimRange[0] = desc->range[index].first;
  dimRange[1] = desc->range[index].second;
  return ACL_SUCCESS;
}

void aclSetTensorDescName(aclTensorDesc* desc, const char* name) {
  ACL_CPU_ENTRY_OR(aclSetTensorDescName, );
  if (alive(desc)) guarded([&]() -> aclError { return desc->name = name ? name : "", ACL_SUCCESS; });
}

const char* aclGetTensorDescName(aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescName, "");
  return alive(desc) ? desc->name.c_str() : "";
}

aclError aclTransTensorDescFormat(const aclTensorDesc* srcDesc, aclFormat, aclTensorDesc** dstDesc) {
  ACL_CPU_ENTRY(aclTransTensorDescFormat);
  ACL_CPU_REQUIRE(alive(srcDesc) && dstDesc, "expected two tensor descs");
  return acl_cpu::unsupported(acl_cpu::k_aclTransTensorDescFormat, "aclTransTensorDescFormat",
                              ACL_ERROR_API_NOT_SUPPORT);
}

aclError aclSetTensorStorageFormat(aclTensorDesc* desc, aclFormat format) {
  ACL_CPU_ENTRY(aclSetTensorStorageFormat);
  ACL_CPU_REQUIRE(alive(desc), "expected a tensor desc");
  desc->storage_format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorStorageShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  ACL_CPU_ENTRY(aclSetTensorStorageShape);
  ACL_CPU_REQUIRE(alive(desc) && valid_dims(numDims, dims), "expected a tensor desc, numDims >= 0 and dims");
  return set_storage_shape(desc, numDims, dims);
}

aclError aclSetTensorFormat(aclTensorDesc* desc, aclFormat format) {
  ACL_CPU_ENTRY(aclSetTensorFormat);
  ACL_CPU_REQUIRE(alive(desc), "expected a tensor desc");
  desc->storage_format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  ACL_CPU_ENTRY(aclSetTensorShape);
  ACL_CPU_REQUIRE(alive(desc) && valid_dims(numDims, dims), "expected a tensor desc, numDims >= 0 and dims");
  return set_storage_shape(desc, numDims, dims);
}

aclError aclSetTensorOriginFormat(aclTensorDesc* desc, aclFormat format) {
  ACL_CPU_ENTRY(aclSetTensorOriginFormat);
  ACL_CPU_REQUIRE(alive(desc), "expected a tensor desc");
  desc->format = format;
  return ACL_SUCCESS;
}

aclError aclSetTensorOriginShape(aclTensorDesc* desc, int numDims, const int64_t* dims) {
  ACL_CPU_ENTRY(aclSetTensorOriginShape);
  ACL_CPU_REQUIRE(alive(desc) && valid_dims(numDims, dims), "expected a tensor desc, numDims >= 0 and dims");
  return guarded([&]() -> aclError { return desc->dims.assign(dims, dims + numDims), ACL_SUCCESS; });
}

aclTensorDesc* aclGetTensorDescByIndex(aclTensorDesc* desc, size_t index) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescByIndex, nullptr);
  return index == 0 && alive(desc) ? desc : nullptr;
}

void* aclGetTensorDescAddress(const aclTensorDesc* desc) {
  ACL_CPU_ENTRY_OR(aclGetTensorDescAddress, nullptr);
  return alive(desc) && !desc->constant.empty() ? const_cast<char*>(desc->constant.data()) : nullptr;
}

aclError aclSetTensorDynamicInput(aclTensorDesc* desc, const char* dynamicInputName) {
  ACL_CPU_ENTRY(aclSetTensorDynamicInput);  // approximate: kept; no operator calls use it
  ACL_CPU_REQUIRE(alive(desc) && dynamicInputName, "expected a tensor desc and a name");
  return guarded([&]() -> aclError { return desc->dynamic_input = dynamicInputName, ACL_SUCCESS; });
}

aclError aclSetTensorConst(aclTensorDesc* desc, void* dataBuffer, size_t length) {
  ACL_CPU_ENTRY(aclSetTensorConst);  // approximate: kept; no operator calls use it
  ACL_CPU_REQUIRE(alive(desc) && dataBuffer && length > 0, "expected a tensor desc, data and its length");
  const char* bytes = static_cast<const char*>(dataBuffer);
  return guarded([&]() -> aclError { return desc->constant.assign(bytes, bytes + length), ACL_SUCCESS; });
}

aclError aclSetTensorPlaceMent(aclTensorDesc* desc, aclMemType memType) {
  ACL_CPU_ENTRY(aclSetTensorPlaceMent);  // approximate: kept; no operator calls use it
  ACL_CPU_REQUIRE(alive(desc), "expected a tensor desc");
  desc->placement = memType;
  return ACL_SUCCESS;
}
