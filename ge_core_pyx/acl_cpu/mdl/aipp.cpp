// SPDX-License-Identifier: Apache-2.0
// AIPP: parameter sets, and what a model was compiled with. Images are described and handed over, not preprocessed.
#include <algorithm>
#include <cstring>

#include "mdl/model.h"

using namespace acl_cpu::mdl;
using acl_cpu::alive;
using acl_cpu::fail;

// As the device reads it: a head, then one block per image.
struct aclmdlAIPP : acl_cpu::Handled {
  struct Head {
    uint8_t input_format = 0;
    int8_t csc = 0, rbuv_swap = 0, ax_swap = 0, batch = 0;
    int8_t reserved[3] = {};
    int32_t width = 0, height = 0;
    int16_t matrix[9] = {};
    int16_t reserved2[3] = {};
    uint8_t output_bias[3] = {}, input_bias[3] = {};
    uint8_t reserved3[18] = {};
  };
  struct Image {
    int8_t crop = 0, resize = 0, padding = 0, rotate = 0;
    int8_t reserved[4] = {};
    int32_t crop_x = 0, crop_y = 0, crop_width = 0, crop_height = 0;
    int32_t resize_in_width = 0, resize_in_height = 0, resize_out_width = 0, resize_out_height = 0;
    int32_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
    int16_t mean[4] = {};
    float minimum[4] = {}, reciprocal[4] = {};
  };
  Head head;
  std::vector<Image> images;
};

namespace {

static_assert(sizeof(aclmdlAIPP::Head) == 64 && sizeof(aclmdlAIPP::Image) == 96, "as Aipp::data_nbytes says");

aclmdlAIPP::Image* image(aclmdlAIPP* aipp, uint64_t index) {
  return alive(aipp) && index < aipp->images.size() ? &aipp->images[index] : nullptr;
}

aclError set_switch(aclmdlAIPP* aipp, int8_t aclmdlAIPP::Head::* field, int8_t value, const char* call) {
  if (!alive(aipp) || (value != 0 && value != 1))
    return fail(ACL_ERROR_INVALID_PARAM, "%s: expected a parameter set and 0 or 1", call);
  aipp->head.*field = value;
  return ACL_SUCCESS;
}

template <class T>
aclError set_channels(aclmdlAIPP* aipp, uint64_t index, T (aclmdlAIPP::Image::*field)[4], const T (&values)[4],
                      const char* call) {
  auto* target = image(aipp, index);
  if (!target) return fail(ACL_ERROR_INVALID_PARAM, "%s: expected a parameter set and an image of it", call);
  memcpy(target->*field, values, sizeof values);
  return ACL_SUCCESS;
}

const Tensor& input_of(const Model& model, size_t index) {
  static const Tensor reserved{};
  if (index >= model.input_count())
    refuse(ACL_ERROR_INVALID_PARAM, "model %u: it has %zu inputs, got the index %zu", model.id, model.input_count(),
           index);
  return index < model.manifest().inputs.size() ? model.manifest().inputs[index] : reserved;
}

size_t data_index(const Model& model) { return model.input_count() - 1; }  // of dynamic AIPP parameters: the last input

// Writes the parameters into their input's buffer, blocking, and notes that this dataset has them.
aclError attach(uint32_t model_id, aclmdlDataset* dataset, size_t index, const aclmdlAIPP* aipp, bool data_input,
                const char* call) {
  ACL_CPU_REQUIRE(alive(dataset) && alive(aipp), "expected a dataset and an AIPP parameter set");
  return guarded([&]() -> aclError {
    std::shared_ptr<Model> model = find_model(model_id);
    input_of(*model, index);
    const int images = model->manifest().dynamic_aipp_input();
    if (images < 0) refuse(ACL_ERROR_GE_AIPP_NOT_EXIST, "model %u was compiled without dynamic AIPP", model_id);
    if (index != (data_input ? data_index(*model) : size_t(images)) || data_index(*model) >= dataset->entries.size())
      refuse(ACL_ERROR_INVALID_PARAM, "%s: model %u: expected the index of input %s and all buffers in the dataset",
             call, model_id,
             data_input ? ACL_DYNAMIC_AIPP_NAME : model->manifest().inputs[size_t(images)].name.c_str());
    if (aipp->head.input_format == 0 || aipp->head.width <= 0 || aipp->head.height <= 0)
      refuse(ACL_ERROR_INVALID_PARAM, "%s: the parameter set needs an input format and a source image size", call);
    if (aipp->images.size() != largest_batch(model->manifest()))
      refuse(ACL_ERROR_INVALID_PARAM, "%s: expected parameters of %llu images, got %zu", call,
             static_cast<unsigned long long>(largest_batch(model->manifest())), aipp->images.size());
    const aclDataBuffer& buffer = buffer_of(*dataset, data_index(*model));
    const size_t nbytes = Aipp::data_nbytes(aipp->images.size());
    if (!buffer.data) refuse(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, "model %u: the AIPP buffer is NULL", model_id);
    if (buffer.size < nbytes)
      refuse(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, "model %u: expected an AIPP buffer of %zu bytes, got %zu",
             model_id, nbytes, buffer.size);
    char* target = acl_cpu::host_alias(buffer.data, nbytes);
    if (!target)
      refuse(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, "model %u: the AIPP buffer is no device memory", model_id);
    memcpy(target, &aipp->head, sizeof aipp->head);
    memcpy(target + sizeof aipp->head, aipp->images.data(), nbytes - sizeof aipp->head);
    dataset->aipp_model = model_id;
    return ACL_SUCCESS;
  });
}

void write_dims(aclmdlIODims* out, const Tensor& tensor, const Dims& dims) {
  snprintf(out->name, sizeof out->name, "%s", tensor.name.c_str());
  out->dimCount = dims.size();
  std::copy(dims.begin(), dims.end(), out->dims);
}

void write_parameters(aclAippInfo* info, const Aipp& aipp, const Dims& image) {
  info->inputFormat = aipp.format;
  info->srcImageSizeH = int32_t(image[1]);
  info->srcImageSizeW = int32_t(image[2]);
  info->cropSwitch = aipp.crops;
  info->paddingSwitch = aipp.pads;
  info->cscSwitch = aipp.converts;
  info->rbuvSwapSwitch = aipp.swaps_rbuv;
  info->axSwapSwitch = aipp.swaps_ax;
  int32_t* crop[] = {&info->loadStartPosW, &info->loadStartPosH, &info->cropSizeW, &info->cropSizeH};
  int32_t* padding[] = {&info->leftPaddingSize, &info->rightPaddingSize, &info->topPaddingSize,
                        &info->bottomPaddingSize};
  int32_t* matrix[] = {&info->matrixR0C0, &info->matrixR0C1, &info->matrixR0C2, &info->matrixR1C0, &info->matrixR1C1,
                       &info->matrixR1C2, &info->matrixR2C0, &info->matrixR2C1, &info->matrixR2C2};
  int32_t* input_bias[] = {&info->inputBias0, &info->inputBias1, &info->inputBias2};
  int32_t* output_bias[] = {&info->outputBias0, &info->outputBias1, &info->outputBias2};
  int32_t* mean[] = {&info->meanChn0, &info->meanChn1, &info->meanChn2, &info->meanChn3};
  float* minimum[] = {&info->minChn0, &info->minChn1, &info->minChn2, &info->minChn3};
  float* reciprocal[] = {&info->varReciChn0, &info->varReciChn1, &info->varReciChn2, &info->varReciChn3};
  auto write = [](auto& fields, const auto& values) {
    for (size_t i = 0; i < std::size(values); ++i)
      *fields[i] = std::remove_reference_t<decltype(*fields[i])>(values[i]);
  };
  write(crop, aipp.crop);
  write(padding, aipp.padding);
  write(matrix, aipp.matrix);
  write(input_bias, aipp.input_bias);
  write(output_bias, aipp.output_bias);
  write(mean, aipp.mean);
  write(minimum, aipp.minimum);
  write(reciprocal, aipp.reciprocal);
}

}  // namespace

aclmdlAIPP* aclmdlCreateAIPP(uint64_t batchSize) {
  ACL_CPU_ENTRY_OR(aclmdlCreateAIPP, nullptr);
  if (batchSize == 0 || batchSize > 127) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlCreateAIPP: expected a batch size from 1 to 127");
    return nullptr;
  }
  aclmdlAIPP* aipp = new (std::nothrow) aclmdlAIPP;
  if (!aipp) return nullptr;
  aipp->head.batch = static_cast<int8_t>(batchSize);
  if (guarded([&]() -> aclError { return aipp->images.resize(batchSize), ACL_SUCCESS; }) == ACL_SUCCESS) return aipp;
  delete aipp;
  return nullptr;
}

aclError aclmdlDestroyAIPP(const aclmdlAIPP* aippParmsSet) {
  ACL_CPU_ENTRY(aclmdlDestroyAIPP);
  ACL_CPU_REQUIRE(acl_cpu::end_handled(aippParmsSet), "expected an AIPP parameter set that is not destroyed");
  return ACL_SUCCESS;
}

aclError aclmdlGetAippDataSize(uint64_t batchSize, size_t* size) {
  ACL_CPU_ENTRY(aclmdlGetAippDataSize);
  ACL_CPU_REQUIRE(batchSize > 0 && batchSize <= 127 && size,
                  "expected a batch size from 1 to 127 and room for the size");
  *size = Aipp::data_nbytes(batchSize);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPInputFormat(aclmdlAIPP* aippParmsSet, aclAippInputFormat inputFormat) {
  ACL_CPU_ENTRY(aclmdlSetAIPPInputFormat);
  ACL_CPU_REQUIRE(alive(aippParmsSet), "expected an AIPP parameter set");
  ACL_CPU_REQUIRE(inputFormat >= ACL_YUV420SP_U8 && inputFormat <= ACL_RAW24, "unknown input format");
  aippParmsSet->head.input_format = static_cast<uint8_t>(inputFormat);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPCscParams(aclmdlAIPP* aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0,
                                int16_t cscMatrixR0C1, int16_t cscMatrixR0C2, int16_t cscMatrixR1C0,
                                int16_t cscMatrixR1C1, int16_t cscMatrixR1C2, int16_t cscMatrixR2C0,
                                int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0,
                                uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0,
                                uint8_t cscInputBiasR1, uint8_t cscInputBiasR2) {
  ACL_CPU_ENTRY(aclmdlSetAIPPCscParams);
  ACL_CPU_REQUIRE(alive(aippParmsSet) && (cscSwitch == 0 || cscSwitch == 1),
                  "expected an AIPP parameter set and a switch 0 or 1");
  const int16_t matrix[] = {cscMatrixR0C0, cscMatrixR0C1, cscMatrixR0C2, cscMatrixR1C0, cscMatrixR1C1,
                            cscMatrixR1C2, cscMatrixR2C0, cscMatrixR2C1, cscMatrixR2C2};
  const uint8_t output_bias[] = {cscOutputBiasR0, cscOutputBiasR1, cscOutputBiasR2};
  const uint8_t input_bias[] = {cscInputBiasR0, cscInputBiasR1, cscInputBiasR2};
  aippParmsSet->head.csc = cscSwitch;
  memcpy(aippParmsSet->head.matrix, matrix, sizeof matrix);
  memcpy(aippParmsSet->head.output_bias, output_bias, sizeof output_bias);
  memcpy(aippParmsSet->head.input_bias, input_bias, sizeof input_bias);
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPRbuvSwapSwitch(aclmdlAIPP* aippParmsSet, int8_t rbuvSwapSwitch) {
  ACL_CPU_ENTRY(aclmdlSetAIPPRbuvSwapSwitch);
  return set_switch(aippParmsSet, &aclmdlAIPP::Head::rbuv_swap, rbuvSwapSwitch, __func__);
}

aclError aclmdlSetAIPPAxSwapSwitch(aclmdlAIPP* aippParmsSet, int8_t axSwapSwitch) {
  ACL_CPU_ENTRY(aclmdlSetAIPPAxSwapSwitch);
  return set_switch(aippParmsSet, &aclmdlAIPP::Head::ax_swap, axSwapSwitch, __func__);
}

aclError aclmdlSetAIPPSrcImageSize(aclmdlAIPP* aippParmsSet, int32_t srcImageSizeW, int32_t srcImageSizeH) {
  ACL_CPU_ENTRY(aclmdlSetAIPPSrcImageSize);
  ACL_CPU_REQUIRE(alive(aippParmsSet) && srcImageSizeW > 0 && srcImageSizeH > 0,
                  "expected a parameter set, a width and a height");
  aippParmsSet->head.width = srcImageSizeW;
  aippParmsSet->head.height = srcImageSizeH;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPScfParams(aclmdlAIPP* aippParmsSet, int8_t scfSwitch, int32_t scfInputSizeW,
                                int32_t scfInputSizeH, int32_t scfOutputSizeW, int32_t scfOutputSizeH,
                                uint64_t batchIndex) {
  ACL_CPU_ENTRY(aclmdlSetAIPPScfParams);
  auto* target = image(aippParmsSet, batchIndex);
  ACL_CPU_REQUIRE(target && (scfSwitch == 0 || scfSwitch == 1), "expected a parameter set, an image of it and 0 or 1");
  target->resize = scfSwitch;
  target->resize_in_width = scfInputSizeW;
  target->resize_in_height = scfInputSizeH;
  target->resize_out_width = scfOutputSizeW;
  target->resize_out_height = scfOutputSizeH;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPCropParams(aclmdlAIPP* aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW,
                                 int32_t cropStartPosH, int32_t cropSizeW, int32_t cropSizeH, uint64_t batchIndex) {
  ACL_CPU_ENTRY(aclmdlSetAIPPCropParams);
  auto* target = image(aippParmsSet, batchIndex);
  ACL_CPU_REQUIRE(target && (cropSwitch == 0 || cropSwitch == 1),
                  "expected a parameter set, an image of it and 0 or 1");
  target->crop = cropSwitch;
  target->crop_x = cropStartPosW;
  target->crop_y = cropStartPosH;
  target->crop_width = cropSizeW;
  target->crop_height = cropSizeH;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPPaddingParams(aclmdlAIPP* aippParmsSet, int8_t paddingSwitch, int32_t paddingSizeTop,
                                    int32_t paddingSizeBottom, int32_t paddingSizeLeft, int32_t paddingSizeRight,
                                    uint64_t batchIndex) {
  ACL_CPU_ENTRY(aclmdlSetAIPPPaddingParams);
  auto* target = image(aippParmsSet, batchIndex);
  ACL_CPU_REQUIRE(target && (paddingSwitch == 0 || paddingSwitch == 1),
                  "expected a parameter set, an image of it and 0 or 1");
  target->padding = paddingSwitch;
  target->pad_top = paddingSizeTop;
  target->pad_bottom = paddingSizeBottom;
  target->pad_left = paddingSizeLeft;
  target->pad_right = paddingSizeRight;
  return ACL_SUCCESS;
}

aclError aclmdlSetAIPPDtcPixelMean(aclmdlAIPP* aippParmsSet, int16_t dtcPixelMeanChn0, int16_t dtcPixelMeanChn1,
                                   int16_t dtcPixelMeanChn2, int16_t dtcPixelMeanChn3, uint64_t batchIndex) {
  ACL_CPU_ENTRY(aclmdlSetAIPPDtcPixelMean);
  const int16_t mean[] = {dtcPixelMeanChn0, dtcPixelMeanChn1, dtcPixelMeanChn2, dtcPixelMeanChn3};
  return set_channels(aippParmsSet, batchIndex, &aclmdlAIPP::Image::mean, mean, __func__);
}

aclError aclmdlSetAIPPDtcPixelMin(aclmdlAIPP* aippParmsSet, float dtcPixelMinChn0, float dtcPixelMinChn1,
                                  float dtcPixelMinChn2, float dtcPixelMinChn3, uint64_t batchIndex) {
  ACL_CPU_ENTRY(aclmdlSetAIPPDtcPixelMin);
  const float minimum[] = {dtcPixelMinChn0, dtcPixelMinChn1, dtcPixelMinChn2, dtcPixelMinChn3};
  return set_channels(aippParmsSet, batchIndex, &aclmdlAIPP::Image::minimum, minimum, __func__);
}

aclError aclmdlSetAIPPPixelVarReci(aclmdlAIPP* aippParmsSet, float dtcPixelVarReciChn0, float dtcPixelVarReciChn1,
                                   float dtcPixelVarReciChn2, float dtcPixelVarReciChn3, uint64_t batchIndex) {
  ACL_CPU_ENTRY(aclmdlSetAIPPPixelVarReci);
  const float reciprocal[] = {dtcPixelVarReciChn0, dtcPixelVarReciChn1, dtcPixelVarReciChn2, dtcPixelVarReciChn3};
  return set_channels(aippParmsSet, batchIndex, &aclmdlAIPP::Image::reciprocal, reciprocal, __func__);
}

aclError aclmdlSetInputAIPP(uint32_t modelId, aclmdlDataset* dataset, size_t index, const aclmdlAIPP* aippParmsSet) {
  ACL_CPU_ENTRY(aclmdlSetInputAIPP);  // approximate: written to its input; images are not preprocessed
  return attach(modelId, dataset, index, aippParmsSet, true, __func__);
}

aclError aclmdlSetAIPPByInputIndex(uint32_t modelId, aclmdlDataset* dataset, size_t index,
                                   const aclmdlAIPP* aippParmsSet) {
  ACL_CPU_ENTRY(aclmdlSetAIPPByInputIndex);  // approximate: written to its input; images are not preprocessed
  return attach(modelId, dataset, index, aippParmsSet, false, __func__);
}

aclError aclmdlGetAippType(uint32_t modelId, size_t index, aclmdlInputAippType* type,
                           size_t* dynamicAttachedDataIndex) {
  ACL_CPU_ENTRY(aclmdlGetAippType);
  ACL_CPU_REQUIRE(type && dynamicAttachedDataIndex, "expected room for the type and the index");
  return guarded([&]() -> aclError {
    std::shared_ptr<Model> model = find_model(modelId);
    const Tensor& input = input_of(*model, index);
    const bool dynamic = input.aipp && input.aipp->dynamic;
    const bool node = model->manifest().dynamic_aipp_input() >= 0 && index == data_index(*model);
    *type = node         ? ACL_DYNAMIC_AIPP_NODE
            : dynamic    ? ACL_DATA_WITH_DYNAMIC_AIPP
            : input.aipp ? ACL_DATA_WITH_STATIC_AIPP
                         : ACL_DATA_WITHOUT_AIPP;
    *dynamicAttachedDataIndex = dynamic ? data_index(*model) : ACL_INVALID_NODE_INDEX;
    return ACL_SUCCESS;
  });
}

aclError aclmdlGetFirstAippInfo(uint32_t modelId, size_t index, aclAippInfo* aippInfo) {
  ACL_CPU_ENTRY(aclmdlGetFirstAippInfo);
  ACL_CPU_REQUIRE(aippInfo, "expected room for the AIPP description");
  return guarded([&]() -> aclError {
    std::shared_ptr<Model> model = find_model(modelId);
    const Tensor& input = input_of(*model, index);
    if (!input.aipp) refuse(ACL_ERROR_GE_AIPP_NOT_EXIST, "model %u, input %zu: compiled without AIPP", modelId, index);
    const Aipp& aipp = *input.aipp;
    memset(static_cast<void*>(aippInfo), 0, sizeof *aippInfo);
    if (!aipp.dynamic) write_parameters(aippInfo, aipp, aipp.image(input.shape));
    aippInfo->srcFormat = aipp.source.format;
    aippInfo->srcDatatype = aipp.source.dtype.acl;
    aippInfo->srcDimNum = aipp.source.shape.size();
    aippInfo->shapeCount = input.gear_shapes.size();
    for (size_t gear = 0; gear < input.gear_shapes.size(); ++gear) {
      aclAippDims& dims = aippInfo->outDims[gear];
      write_dims(&dims.srcDims, input, aipp.dynamic ? input.gear_shapes[gear] : aipp.image(input.gear_shapes[gear]));
      dims.srcSize = input.gear_nbytes[gear];
      write_dims(&dims.aippOutdims, input, aipp.source.gear_shapes[gear]);
      dims.aippOutSize = aipp.source.gear_nbytes[gear];
    }
    return ACL_SUCCESS;
  });
}
