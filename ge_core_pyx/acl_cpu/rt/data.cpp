// SPDX-License-Identifier: Apache-2.0
// Data buffers, sizes of data types and float16.
#include <cstring>

#include "internal.h"

using namespace acl_cpu;

#pragma GCC visibility push(default)
extern "C" {

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) {
  ACL_CPU_ENTRY_OR(aclCreateDataBuffer, nullptr);
  live_add(Kind::kDataBuffer, 1);
  return new aclDataBuffer(data, size);
}

aclError aclDestroyDataBuffer(const aclDataBuffer* dataBuffer) {
  ACL_CPU_ENTRY(aclDestroyDataBuffer);
  if (!end_handled(dataBuffer)) return fail(ACL_ERROR_INVALID_PARAM, "expected a data buffer that is not destroyed");
  live_add(Kind::kDataBuffer, -1);
  return ACL_SUCCESS;
}

aclError aclUpdateDataBuffer(aclDataBuffer* dataBuffer, void* data, size_t size) {
  ACL_CPU_ENTRY(aclUpdateDataBuffer);
  if (!alive(dataBuffer)) return fail(ACL_ERROR_INVALID_PARAM, "expected a data buffer that is not destroyed");
  dataBuffer->data = data;
  dataBuffer->size = size;
  return ACL_SUCCESS;
}

void* aclGetDataBufferAddr(const aclDataBuffer* dataBuffer) {
  ACL_CPU_ENTRY_OR(aclGetDataBufferAddr, nullptr);
  return alive(dataBuffer) ? dataBuffer->data : nullptr;
}

uint32_t aclGetDataBufferSize(const aclDataBuffer* dataBuffer) {
  ACL_CPU_ENTRY_OR(aclGetDataBufferSize, 0);
  return alive(dataBuffer) ? uint32_t(dataBuffer->size) : 0;
}

size_t aclGetDataBufferSizeV2(const aclDataBuffer* dataBuffer) {
  ACL_CPU_ENTRY_OR(aclGetDataBufferSizeV2, 0);
  return alive(dataBuffer) ? dataBuffer->size : 0;
}

size_t aclDataTypeSize(aclDataType dataType) {
  ACL_CPU_ENTRY_OR(aclDataTypeSize, 0);
  switch (dataType) {
    case ACL_DT_UNDEFINED:
    case ACL_STRING:
      return 0;
    case ACL_UINT1:
    case ACL_INT4:
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0:
      return 1;
    case ACL_FLOAT16:
    case ACL_BF16:
    case ACL_INT16:
    case ACL_UINT16:
      return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32:
      return 4;
    case ACL_COMPLEX128:
      return 16;
    default:
      return 8;
  }
}

// As shipped, both conversions know no infinity and no NaN: exponent 31 is an ordinary one, and what is too large for
// float16 becomes its largest finite value.
float aclFloat16ToFloat(aclFloat16 value) {
  ACL_CPU_ENTRY_OR(aclFloat16ToFloat, 0);
  uint32_t sign = uint32_t(value & 0x8000) << 16, exponent = value >> 10 & 31, mantissa = value & 0x3FF;
  if (exponent == 0) {
    float magnitude = float(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  uint32_t bits = sign | (exponent + 112) << 23 | mantissa << 13;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

aclFloat16 aclFloatToFloat16(float value) {
  ACL_CPU_ENTRY_OR(aclFloatToFloat16, 0);
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
  if (magnitude >= 0x477FF000) return aclFloat16(sign | 0x7BFF);
  int shift = magnitude >= 0x38800000 ? 13 : 126 - int(magnitude >> 23);
  if (shift > 25) return aclFloat16(sign);
  uint32_t whole = magnitude >= 0x38800000 ? magnitude - 0x38000000 : (magnitude & 0x7FFFFF) | 0x800000;
  uint32_t half = whole >> shift, rest = whole & ((1u << shift) - 1), middle = 1u << (shift - 1);
  if (rest > middle || (rest == middle && (half & 1) != 0)) ++half;
  return aclFloat16(sign | half);
}

}  // extern "C"
#pragma GCC visibility pop
