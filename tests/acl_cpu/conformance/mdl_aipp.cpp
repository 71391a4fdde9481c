// SPDX-License-Identifier: Apache-2.0
// AIPP: what a model says about its image inputs, and the reserved input of dynamic AIPP.
#include "mdl_harness.h"

namespace {

struct Info {
  explicit Info(const Loaded& model, size_t index) : bytes(sizeof(aclAippInfo)) {
    OK(aclmdlGetFirstAippInfo(model.id, index, reinterpret_cast<aclAippInfo*>(bytes.data())));
  }
  const aclAippInfo* operator->() const { return reinterpret_cast<const aclAippInfo*>(bytes.data()); }
  std::vector<char> bytes;
};

struct Parameters {
  explicit Parameters(uint64_t images) : it(aclmdlCreateAIPP(images)) { TRUE(it); }
  ~Parameters() { OK(aclmdlDestroyAIPP(it)); }
  void size(int32_t width, int32_t height) {
    OK(aclmdlSetAIPPInputFormat(it, ACL_RGB888_U8));
    OK(aclmdlSetAIPPSrcImageSize(it, width, height));
  }
  aclmdlAIPP* it;
};

std::vector<int64_t> listed(const aclmdlIODims& dims) { return {dims.dims, dims.dims + dims.dimCount}; }

std::vector<int64_t> input_dims(const Loaded& model, size_t index, bool v2) {
  aclmdlIODims dims;
  OK(v2 ? aclmdlGetInputDimsV2(model.desc.it, index, &dims) : aclmdlGetInputDims(model.desc.it, index, &dims));
  return listed(dims);
}

using Shape = std::vector<int64_t>;

}  // namespace

CPU_CASE(aipp_static_dims, "3.8 static AIPP: GetInputDims gives n, h, w, c, V2 the dims whose product is the size") {
  Device device;
  Loaded model("aipp_static");
  EQ(aclmdlGetNumInputs(model.desc.it), 2u);
  TRUE(input_dims(model, 0, false) == (Shape{2, 8, 10, 3}));
  TRUE(input_dims(model, 0, true) == (Shape{2, 12, 10, 1}));
  EQ(aclmdlGetInputSizeByIndex(model.desc.it, 0), 240u);
  TRUE(input_dims(model, 1, false) == (Shape{2, 8, 10, 3}));
  TRUE(input_dims(model, 1, true) == (Shape{2, 8, 10, 4}));
  EQ(aclmdlGetInputSizeByIndex(model.desc.it, 1), 640u);
  EQ(aclmdlGetInputDataType(model.desc.it, 0), ACL_UINT8);
}

CPU_CASE(aipp_static_info, "2.12 GetFirstAippInfo tells the parameters and the shapes before and after") {
  Device device;
  Loaded model("aipp_static");
  size_t attached = 7;
  aclmdlInputAippType type = ACL_DATA_WITHOUT_AIPP;
  OK(aclmdlGetAippType(model.id, 0, &type, &attached));
  EQ(type, ACL_DATA_WITH_STATIC_AIPP);
  EQ(attached, size_t(ACL_INVALID_NODE_INDEX));
  Info info(model, 0);
  EQ(info->inputFormat, ACL_YUV420SP_U8);
  EQ(info->srcImageSizeW, 10);
  EQ(info->srcImageSizeH, 8);
  EQ(int(info->cropSwitch), 1);
  EQ(info->loadStartPosW, 1);
  EQ(info->loadStartPosH, 2);
  EQ(info->cropSizeW, 6);
  EQ(info->cropSizeH, 4);
  EQ(int(info->paddingSwitch), 0);
  EQ(int(info->cscSwitch), 1);
  EQ(info->matrixR0C0, 256);
  EQ(info->matrixR2C1, 454);
  EQ(info->inputBias1, 128);
  EQ(int(info->rbuvSwapSwitch), 1);
  EQ(int(info->axSwapSwitch), 0);
  EQ(info->meanChn2, 123);
  EQ(info->varReciChn0, 0.5f);
  EQ(info->srcFormat, ACL_FORMAT_NCHW);
  EQ(info->srcDatatype, ACL_FLOAT16);
  EQ(info->srcDimNum, 4u);
  EQ(info->shapeCount, 1u);
  TRUE(listed(info->outDims[0].srcDims) == (Shape{2, 8, 10, 3}));
  EQ(info->outDims[0].srcSize, 240u);
  TRUE(listed(info->outDims[0].aippOutdims) == (Shape{2, 3, 4, 6}));
  EQ(info->outDims[0].aippOutSize, 288u);
}

CPU_CASE(aipp_static_executes, "3.9 a static AIPP input is an ordinary buffer") {
  Device device;
  Loaded model("aipp_static");
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  EQ(model.out[0].read(), float_row({model.in[0].read(120), model.in[1].read(320)}, 0, 4) +
                              float_row({model.in[0].read().substr(120), model.in[1].read().substr(320)}, 0, 4));
  Parameters parameters(2);
  parameters.size(10, 8);
  CODE(ACL_ERROR_GE_AIPP_NOT_EXIST, aclmdlSetInputAIPP(model.id, model.in.it, 0, parameters.it));
}

CPU_CASE(aipp_dynamic_inputs, "3.8 dynamic AIPP: the gear input, then ascend_dynamic_aipp_data, come last") {
  Device device;
  Loaded model("aipp_dynamic");
  EQ(aclmdlGetNumInputs(model.desc.it), 4u);
  EQ(aclmdlGetInputNameByIndex(model.desc.it, 2), std::string(ACL_DYNAMIC_TENSOR_NAME));
  EQ(aclmdlGetInputNameByIndex(model.desc.it, 3), std::string(ACL_DYNAMIC_AIPP_NAME));
  size_t nbytes = 0, attached = 0;
  OK(aclmdlGetAippDataSize(4, &nbytes));
  EQ(aclmdlGetInputSizeByIndex(model.desc.it, 3), nbytes);
  aclmdlInputAippType type;
  OK(aclmdlGetAippType(model.id, 0, &type, &attached));
  EQ(type, ACL_DATA_WITH_DYNAMIC_AIPP);
  EQ(attached, 3u);
  OK(aclmdlGetAippType(model.id, 1, &type, &attached));
  EQ(type, ACL_DATA_WITHOUT_AIPP);
  OK(aclmdlGetAippType(model.id, 3, &type, &attached));
  EQ(type, ACL_DYNAMIC_AIPP_NODE);
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetAippType(model.id, 4, &type, &attached));
  Info info(model, 0);
  EQ(info->srcDatatype, ACL_FLOAT);
  EQ(info->shapeCount, 2u);
  TRUE(listed(info->outDims[0].srcDims) == (Shape{1, 8, 8, 3}));
  TRUE(listed(info->outDims[1].aippOutdims) == (Shape{4, 3, 6, 6}));
  EQ(info->outDims[1].aippOutSize, 1728u);
}

CPU_CASE(aipp_dynamic_executes, "3.9 parameters are set once all buffers are in, for the largest gear, then executed") {
  Device device;
  Loaded model("aipp_dynamic");
  Parameters parameters(4);
  parameters.size(8, 8);
  OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 2, 1));
  CODE(ACL_ERROR_GE_FAILURE, aclmdlExecute(model.id, model.in.it, model.out.it));
  OK(aclmdlSetInputAIPP(model.id, model.in.it, 3, parameters.it));
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  EQ(model.out[0].read(16), float_row({model.in[0].read(192), model.in[1].read(2)}, 0, 4));
  OK(aclmdlSetAIPPByInputIndex(model.id, model.in.it, 0, parameters.it));
  std::string written = model.in[3].read();
  EQ(int(written[0]), int(ACL_RGB888_U8));
  OK(aclmdlSetAIPPCropParams(parameters.it, 1, 2, 3, 4, 5, 3));
  OK(aclmdlSetInputAIPP(model.id, model.in.it, 3, parameters.it));
  TRUE(model.in[3].read() != written);
}

CPU_CASE(aipp_dynamic_refused, "2.15 wrong index, batch or set 100000, NULL 145011, short 145012, unknown id 145003") {
  Device device;
  Loaded model("aipp_dynamic");
  Parameters unset(4), few(1), right(4);
  few.size(8, 8);
  right.size(8, 8);
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetInputAIPP(model.id, nullptr, 3, right.it));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetInputAIPP(model.id, model.in.it, 3, nullptr));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetInputAIPP(model.id, model.in.it, 3, unset.it));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetInputAIPP(model.id, model.in.it, 3, few.it));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetInputAIPP(model.id, model.in.it, 0, right.it));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetAIPPByInputIndex(model.id, model.in.it, 3, right.it));
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlSetInputAIPP(model.id + 1000, model.in.it, 3, right.it));
  Dataset short_of_one({64, 2, 8});
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetInputAIPP(model.id, short_of_one.it, 3, right.it));
  OK(aclUpdateDataBuffer(model.in[3].it, model.in[3].data, 64));
  CODE(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, aclmdlSetInputAIPP(model.id, model.in.it, 3, right.it));
  OK(aclUpdateDataBuffer(model.in[3].it, nullptr, 448));
  CODE(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, aclmdlSetInputAIPP(model.id, model.in.it, 3, right.it));
}
