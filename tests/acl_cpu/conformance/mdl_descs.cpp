// SPDX-License-Identifier: Apache-2.0
// Tensor descs, datasets and model descs. Sections 2.11, 2.12 and 3.8 of the facts.
#include "mdl_harness.h"

static std::vector<int64_t> dims_of(const aclmdlIODims& dims) { return {dims.dims, dims.dims + dims.dimCount}; }
#define DIMS(call, ...)                                        \
  do {                                                         \
    aclmdlIODims dims;                                         \
    OK(call);                                                  \
    TRUE(dims_of(dims) == (std::vector<int64_t> __VA_ARGS__)); \
  } while (false)

CASE(tensor_desc_basics, "2.11 type, format, dims, sizes") {
  int64_t dims[] = {2, 3, 5};
  aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT16, 3, dims, ACL_FORMAT_NCHW);
  EQ(aclGetTensorDescType(desc), ACL_FLOAT16);
  EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_NCHW);
  EQ(aclGetTensorDescNumDims(desc), 3u);
  EQ(aclGetTensorDescElementCount(desc), 30u);
  EQ(aclGetTensorDescSize(desc), 60u);
  EQ(aclGetTensorDescDim(desc, 2), 5);
  EQ(aclGetTensorDescDim(desc, 3), -1);
  int64_t dim = 0;
  OK(aclGetTensorDescDimV2(desc, 1, &dim));
  EQ(dim, 3);
  CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(desc, 3, &dim));
  CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimV2(nullptr, 0, &dim));
  aclDestroyTensorDesc(desc);
}

CASE(tensor_desc_refused, "2.11 numDims < 0, or dims NULL → NULL") {
  int64_t dim = 1;
  TRUE(!aclCreateTensorDesc(ACL_FLOAT, -1, &dim, ACL_FORMAT_ND));
  TRUE(!aclCreateTensorDesc(ACL_FLOAT, 1, nullptr, ACL_FORMAT_ND));
}

CASE(tensor_desc_null, "2.11 getters accept NULL") {
  EQ(aclGetTensorDescType(nullptr), ACL_DT_UNDEFINED);
  EQ(aclGetTensorDescFormat(nullptr), ACL_FORMAT_UNDEFINED);
  EQ(aclGetTensorDescNumDims(nullptr), 0u);
  EQ(aclGetTensorDescElementCount(nullptr), 0u);
  EQ(aclGetTensorDescSize(nullptr), 0u);
  EQ(aclGetTensorDescDim(nullptr, 0), -1);
  EQ(std::string(aclGetTensorDescName(nullptr)), "");
  aclDestroyTensorDesc(nullptr);
}

CASE(tensor_desc_counts, "2.11 scalar 1, negative dim 0, overflow 0, unknown rank") {
  struct {
    std::vector<int64_t> dims;
    size_t count, rank;
  } rows[] = {{{}, 1, 0}, {{2, -1}, 0, 2}, {{0, 4}, 0, 2}, {{1ll << 40, 1ll << 40}, 0, 2}, {{-2}, 0, ACL_UNKNOWN_RANK}};
  for (auto& row : rows) {
    aclTensorDesc* desc = aclCreateTensorDesc(ACL_INT8, int(row.dims.size()), row.dims.data(), ACL_FORMAT_ND);
    EQ(aclGetTensorDescElementCount(desc), row.count);
    EQ(aclGetTensorDescNumDims(desc), row.rank);
    aclDestroyTensorDesc(desc);
  }
}

CASE(tensor_desc_ranges, "2.11 DimRange writes two numbers, needs room for them") {
  int64_t dims[] = {-1, 3}, ranges[][2] = {{1, 8}, {3, 3}}, out[2];
  aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT, 2, dims, ACL_FORMAT_ND);
  CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimRange(desc, 0, 2, out));
  OK(aclSetTensorShapeRange(desc, 2, ranges));
  OK(aclGetTensorDescDimRange(desc, 0, 2, out));
  EQ(out[0], 1);
  EQ(out[1], 8);
  CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimRange(desc, 0, 1, out));
  CODE(ACL_ERROR_INVALID_PARAM, aclGetTensorDescDimRange(desc, 2, 2, out));
  CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorShapeRange(nullptr, 2, ranges));
  OK(aclSetTensorValueRange(desc, 2, ranges));
  aclDestroyTensorDesc(desc);
}

CASE(tensor_desc_storage, "2.11 SetTensorShape/Format set the storage ones, Origin the visible ones") {
  int64_t dims[] = {4}, other[] = {2, 2}, origin[] = {8, 1};
  aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT, 1, dims, ACL_FORMAT_ND);
  OK(aclSetTensorShape(desc, 2, other));
  OK(aclSetTensorFormat(desc, ACL_FORMAT_NHWC));
  OK(aclSetTensorStorageShape(desc, 2, other));
  OK(aclSetTensorStorageFormat(desc, ACL_FORMAT_NHWC));
  EQ(aclGetTensorDescNumDims(desc), 1u);
  EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_ND);
  OK(aclSetTensorOriginShape(desc, 2, origin));
  OK(aclSetTensorOriginFormat(desc, ACL_FORMAT_NCHW));
  EQ(aclGetTensorDescNumDims(desc), 2u);
  EQ(aclGetTensorDescElementCount(desc), 8u);
  EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_NCHW);
  CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorOriginShape(desc, -1, origin));
  aclDestroyTensorDesc(desc);
}

CASE(tensor_desc_rest, "2.11 names, constants, placement, TransTensorDescFormat 200001") {
  int64_t dims[] = {4};
  aclTensorDesc *desc = aclCreateTensorDesc(ACL_FLOAT, 1, dims, ACL_FORMAT_ND), *other = nullptr;
  aclSetTensorDescName(desc, "weights");
  EQ(std::string(aclGetTensorDescName(desc)), "weights");
  float values[] = {1, 2, 3, 4};
  OK(aclSetTensorConst(desc, values, sizeof values));
  CODE(ACL_ERROR_INVALID_PARAM, aclSetTensorConst(desc, nullptr, 4));
  OK(aclSetTensorPlaceMent(desc, ACL_MEMTYPE_HOST));
  OK(aclSetTensorDynamicInput(desc, "x"));
  CODE(ACL_ERROR_API_NOT_SUPPORT, aclTransTensorDescFormat(desc, ACL_FORMAT_NHWC, &other));
  TRUE(aclGetTensorDescByIndex(desc, 0) == desc);
  aclDestroyTensorDesc(desc);
}

CASE(dataset_basics, "2.12 buffers in order, NULL → 100000") {
  Device device;
  Dataset dataset({8, 16});
  EQ(aclmdlGetDatasetNumBuffers(dataset.it), 2u);
  TRUE(aclmdlGetDatasetBuffer(dataset.it, 1) == dataset[1].it);
  TRUE(!aclmdlGetDatasetBuffer(dataset.it, 2));
  TRUE(!aclmdlGetDatasetBuffer(nullptr, 0));
  EQ(aclmdlGetDatasetNumBuffers(nullptr), 0u);
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlAddDatasetBuffer(dataset.it, nullptr));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlAddDatasetBuffer(nullptr, dataset[0].it));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyDataset(nullptr));
}

CASE(dataset_descs_are_copies, "3.9 SetDatasetTensorDesc copies, NULL clears") {
  Device device;
  Dataset dataset({8});
  TRUE(!aclmdlGetDatasetTensorDesc(dataset.it, 0));
  dataset.shape(0, ACL_INT32, {2, 1});
  aclTensorDesc* kept = aclmdlGetDatasetTensorDesc(dataset.it, 0);
  EQ(aclGetTensorDescDim(kept, 0), 2);
  EQ(aclGetTensorDescType(kept), ACL_INT32);
  OK(aclmdlSetDatasetTensorDesc(dataset.it, nullptr, 0));
  TRUE(!aclmdlGetDatasetTensorDesc(dataset.it, 0));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDatasetTensorDesc(dataset.it, nullptr, 1));
}

CASE(desc_static, "3.8 fixed dims, exact sizes, names, types") {
  Device device;
  Desc desc;
  OK(aclmdlGetDescFromFile(desc.it, path("static").c_str()));
  EQ(aclmdlGetNumInputs(desc.it), 2u);
  EQ(aclmdlGetNumOutputs(desc.it), 2u);
  EQ(aclmdlGetInputSizeByIndex(desc.it, 0), 24u);
  EQ(aclmdlGetInputSizeByIndex(desc.it, 1), 16u);
  EQ(aclmdlGetOutputSizeByIndex(desc.it, 0), 40u);
  EQ(std::string(aclmdlGetInputNameByIndex(desc.it, 0)), "a");
  EQ(std::string(aclmdlGetOutputNameByIndex(desc.it, 0)), "add:0:y");
  EQ(aclmdlGetInputDataType(desc.it, 1), ACL_INT64);
  EQ(aclmdlGetOutputDataType(desc.it, 1), ACL_INT32);
  EQ(aclmdlGetInputFormat(desc.it, 0), ACL_FORMAT_ND);
  DIMS(aclmdlGetInputDims(desc.it, 0, &dims), {2, 3});
  DIMS(aclmdlGetInputDimsV2(desc.it, 1, &dims), {2});
  DIMS(aclmdlGetOutputDims(desc.it, 0, &dims), {2, 5});
  size_t index = 9;
  OK(aclmdlGetInputIndexByName(desc.it, "b", &index));
  EQ(index, 1u);
  OK(aclmdlGetOutputIndexByName(desc.it, "add:0:y", &index));
  EQ(index, 0u);
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetInputIndexByName(desc.it, "nothing", &index));
  aclmdlBatch batch;
  OK(aclmdlGetDynamicBatch(desc.it, &batch));
  EQ(batch.batchCount, 0u);
}

CASE(desc_bad_index, "3.8 bad index: \"\" for names, 0 for sizes, -1 for type and format") {
  Device device;
  Desc desc;
  OK(aclmdlGetDescFromFile(desc.it, path("static").c_str()));
  EQ(std::string(aclmdlGetInputNameByIndex(desc.it, 2)), "");
  EQ(std::string(aclmdlGetOutputNameByIndex(nullptr, 0)), "");
  EQ(aclmdlGetInputSizeByIndex(desc.it, 2), 0u);
  EQ(aclmdlGetOutputSizeByIndex(nullptr, 0), 0u);
  EQ(aclmdlGetInputDataType(desc.it, 2), ACL_DT_UNDEFINED);
  EQ(aclmdlGetOutputFormat(desc.it, 2), ACL_FORMAT_UNDEFINED);
  aclmdlIODims dims;
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetInputDims(desc.it, 2, &dims));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetOutputDims(desc.it, 0, nullptr));
}

CASE(desc_empty, "2.12 a desc that was not filled has nothing") {
  Desc desc;
  EQ(aclmdlGetNumInputs(desc.it), 0u);
  EQ(aclmdlGetNumOutputs(nullptr), 0u);
  aclmdlBatch batch;
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetDynamicBatch(desc.it, &batch));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyDesc(nullptr));
}

CASE(desc_batch, "3.8 batch gears: one more input, -1 in N, largest sizes, range count 0") {
  Device device;
  Desc desc;
  OK(aclmdlGetDescFromFile(desc.it, path("batch").c_str()));
  EQ(aclmdlGetNumInputs(desc.it), 2u);
  EQ(std::string(aclmdlGetInputNameByIndex(desc.it, 1)), ACL_DYNAMIC_TENSOR_NAME);
  EQ(aclmdlGetInputDataType(desc.it, 1), ACL_INT64);
  EQ(aclmdlGetInputSizeByIndex(desc.it, 1), 8u);
  DIMS(aclmdlGetInputDims(desc.it, 1, &dims), {1});
  DIMS(aclmdlGetInputDims(desc.it, 0, &dims), {-1, 3, 8, 8});
  DIMS(aclmdlGetOutputDims(desc.it, 0, &dims), {-1, 10});
  EQ(aclmdlGetInputSizeByIndex(desc.it, 0), 8u * 3 * 8 * 8 * 4);
  EQ(aclmdlGetOutputSizeByIndex(desc.it, 0), 8u * 10 * 4);
  EQ(aclmdlGetInputFormat(desc.it, 0), ACL_FORMAT_NCHW);
  aclmdlBatch batch;
  OK(aclmdlGetDynamicBatch(desc.it, &batch));
  EQ(batch.batchCount, 4u);
  EQ(batch.batch[0], 1u);
  EQ(batch.batch[3], 8u);
  aclmdlHW hw;
  OK(aclmdlGetDynamicHW(desc.it, size_t(-1), &hw));
  EQ(hw.hwCount, 0u);
  aclmdlIODimsRange range;
  OK(aclmdlGetInputDimsRange(desc.it, 0, &range));
  EQ(range.rangeCount, 0u);
}

CASE(desc_image_size, "3.8 image size gears: -1 in H and W, pairs from GetDynamicHW") {
  Device device;
  Desc desc;
  OK(aclmdlGetDescFromFile(desc.it, path("image").c_str()));
  DIMS(aclmdlGetInputDims(desc.it, 0, &dims), {1, 3, -1, -1});
  DIMS(aclmdlGetInputDims(desc.it, 1, &dims), {2});
  EQ(aclmdlGetInputSizeByIndex(desc.it, 0), 3u * 64 * 48);
  EQ(aclmdlGetInputSizeByIndex(desc.it, 1), 16u);
  aclmdlHW hw;
  OK(aclmdlGetDynamicHW(desc.it, size_t(-1), &hw));
  EQ(hw.hwCount, 2u);
  EQ(hw.hw[1][0], 64u);
  EQ(hw.hw[1][1], 48u);
  aclmdlBatch batch;
  OK(aclmdlGetDynamicBatch(desc.it, &batch));
  EQ(batch.batchCount, 0u);
}

CASE(desc_dims_gears, "3.8 dims gears: all inputs' dims, one gear after the other") {
  Device device;
  Desc desc;
  OK(aclmdlGetDescFromFile(desc.it, path("dims").c_str()));
  EQ(aclmdlGetNumInputs(desc.it), 3u);
  DIMS(aclmdlGetInputDims(desc.it, 2, &dims), {4});
  size_t count = 0;
  OK(aclmdlGetInputDynamicGearCount(desc.it, size_t(-1), &count));
  EQ(count, 2u);
  std::vector<aclmdlIODims> gears(2);
  OK(aclmdlGetInputDynamicDims(desc.it, size_t(-1), gears.data(), 2));
  TRUE(dims_of(gears[0]) == (std::vector<int64_t>{1, 16, 1, 16}));
  TRUE(dims_of(gears[1]) == (std::vector<int64_t>{2, 32, 2, 32}));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetInputDynamicDims(desc.it, size_t(-1), gears.data(), 1));
}

CASE(desc_range, "3.8 ranges: -1, bounds, size of the upper bounds or 0, CurOutputDims 200001") {
  Device device;
  {
    Loaded model("range", false);
    DIMS(aclmdlGetInputDims(model.desc.it, 0, &dims), {-1, 3, -1});
    aclmdlIODimsRange range;
    OK(aclmdlGetInputDimsRange(model.desc.it, 0, &range));
    EQ(range.rangeCount, 3u);
    EQ(range.range[0][1], 8);
    EQ(range.range[1][0], 3);
    EQ(range.range[2][1], 100);
    EQ(aclmdlGetInputSizeByIndex(model.desc.it, 0), 8u * 3 * 100 * 4);
    EQ(aclmdlGetOutputSizeByIndex(model.desc.it, 0), 0u);
    EQ(aclmdlGetOutputSizeByIndex(model.desc.it, 1), 16u);
    aclmdlIODims dims;
    CODE(ACL_ERROR_API_NOT_SUPPORT, aclmdlGetCurOutputDims(model.desc.it, 0, &dims));
    Desc open;
    OK(aclmdlGetDescFromFile(open.it, path("open").c_str()));
    EQ(aclmdlGetInputSizeByIndex(open.it, 0), 0u);
    OK(aclmdlGetInputDimsRange(open.it, 0, &range));
    EQ(range.range[0][1], -1);
    EQ(aclmdlGetNumInputs(open.it), 1u);
  }
}

CASE(desc_static_ranges, "3.8 GetInputDimsRange of a static model: [d, d]") {
  Device device;
  Desc desc;
  OK(aclmdlGetDescFromFile(desc.it, path("static").c_str()));
  aclmdlIODimsRange range;
  OK(aclmdlGetInputDimsRange(desc.it, 0, &range));
  EQ(range.rangeCount, 2u);
  EQ(range.range[1][0], 3);
  EQ(range.range[1][1], 3);
}

CPU_CASE(desc_long_names, "3.8 names of 128 characters and more are shown under a made-up one") {
  Device device;
  {
    Loaded model("long");
    std::string name = aclmdlGetInputNameByIndex(model.desc.it, 0);
    EQ(name.size(), 150u);
    aclmdlIODims dims;
    OK(aclmdlGetInputDims(model.desc.it, 0, &dims));
    EQ(std::string(dims.name), "acl_modelId_" + std::to_string(model.id) + "_input_0");
    EQ(std::string(aclmdlGetTensorRealName(model.desc.it, dims.name)), name);
    OK(aclmdlGetOutputDims(model.desc.it, 0, &dims));
    EQ(std::string(dims.name), "acl_modelId_" + std::to_string(model.id) + "_output_0");
    TRUE(!aclmdlGetTensorRealName(model.desc.it, "nothing"));
  }
}

CASE(desc_from_memory, "3.8 GetDescFromMem needs no load") {
  Device device;
  FILE* file = fopen(path("static").c_str(), "rb");
  std::vector<char> bytes(1 << 16);
  size_t nbytes = fread(bytes.data(), 1, bytes.size(), file);
  fclose(file);
  Desc desc;
  OK(aclmdlGetDescFromMem(desc.it, bytes.data(), nbytes));
  EQ(aclmdlGetNumInputs(desc.it), 2u);
  aclmdlIODims dims;
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlGetCurOutputDims(desc.it, 0, &dims));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetDescFromMem(desc.it, nullptr, 4));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetDescFromMem(desc.it, bytes.data(), 0));
}

CASE(aipp_parameters, "2.12 AIPP parameter sets can be built; a model without AIPP refuses them") {
  Device device;
  {
    Loaded model("batch");
    aclmdlAIPP* aipp = aclmdlCreateAIPP(8);
    TRUE(aipp);
    OK(aclmdlSetAIPPInputFormat(aipp, ACL_YUV420SP_U8));
    OK(aclmdlSetAIPPSrcImageSize(aipp, 256, 224));
    OK(aclmdlSetAIPPCropParams(aipp, 1, 2, 2, 224, 224, 7));
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetAIPPCropParams(aipp, 1, 2, 2, 224, 224, 8));
    CODE(ACL_ERROR_GE_AIPP_NOT_EXIST, aclmdlSetInputAIPP(model.id, model.in.it, 0, aipp));
    CODE(ACL_ERROR_GE_AIPP_NOT_EXIST, aclmdlSetAIPPByInputIndex(model.id, model.in.it, 0, aipp));
    OK(aclmdlDestroyAIPP(aipp));
    size_t small = 0, large = 0, attached = 0;
    OK(aclmdlGetAippDataSize(1, &small));
    OK(aclmdlGetAippDataSize(2, &large));
    TRUE(large > small);
    aclmdlInputAippType type = ACL_DATA_WITH_STATIC_AIPP;
    OK(aclmdlGetAippType(model.id, 0, &type, &attached));
    EQ(type, ACL_DATA_WITHOUT_AIPP);
    EQ(attached, size_t(ACL_INVALID_NODE_INDEX));
    std::vector<char> info(sizeof(aclAippInfo));
    CODE(ACL_ERROR_GE_AIPP_NOT_EXIST, aclmdlGetFirstAippInfo(model.id, 0, reinterpret_cast<aclAippInfo*>(info.data())));
  }
}
