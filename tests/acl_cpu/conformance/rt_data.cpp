// SPDX-License-Identifier: Apache-2.0
// Data buffers, data types, float16 (facts 2.1, 2.10, 2.14).
#include "rt_harness.h"

CASE(data_buffers_hold_address_and_length, "2.10") {
  int local = 0;
  aclDataBuffer* buffer = aclCreateDataBuffer(&local, size_t(5) << 32);
  TRUE(aclGetDataBufferAddr(buffer) == &local);
  EXPECT(aclGetDataBufferSizeV2(buffer), 5LL << 32);
  EXPECT(aclGetDataBufferSize(buffer), 0);
  OK(aclUpdateDataBuffer(buffer, nullptr, 7));
  TRUE(aclGetDataBufferAddr(buffer) == nullptr);
  EXPECT(aclGetDataBufferSize(buffer), 7);
  OK(aclDestroyDataBuffer(buffer));
}

CASE(data_buffers_may_be_empty, "2.10") {
  aclDataBuffer* buffer = aclCreateDataBuffer(nullptr, 0);
  TRUE(buffer != nullptr);
  OK(aclDestroyDataBuffer(buffer));
}

CASE(data_buffer_getters_accept_null, "2.10") {
  TRUE(aclGetDataBufferAddr(nullptr) == nullptr);
  EXPECT(aclGetDataBufferSize(nullptr), 0);
  EXPECT(aclGetDataBufferSizeV2(nullptr), 0);
  FAILS(aclDestroyDataBuffer(nullptr), 100000);
  FAILS(aclUpdateDataBuffer(nullptr, nullptr, 0), 100000);
}

CASE(sizes_of_data_types, "2.10") {
  struct {
    int type;
    size_t size;
  } const expected[] = {{ACL_DT_UNDEFINED, 0}, {ACL_STRING, 0}, {ACL_BOOL, 1},      {ACL_INT8, 1},
                        {ACL_UINT8, 1},        {ACL_INT4, 1},   {ACL_UINT1, 1},     {ACL_FLOAT16, 2},
                        {ACL_BF16, 2},         {ACL_INT16, 2},  {ACL_UINT16, 2},    {ACL_FLOAT, 4},
                        {ACL_INT32, 4},        {ACL_UINT32, 4}, {ACL_COMPLEX32, 4}, {ACL_INT64, 8},
                        {ACL_UINT64, 8},       {ACL_DOUBLE, 8}, {ACL_COMPLEX64, 8}, {ACL_COMPLEX128, 16}};
  for (auto& row : expected) EXPECT(aclDataTypeSize(aclDataType(row.type)), static_cast<long long>(row.size));
}

CASE_9(sizes_of_small_floats, "2.10") {
  EXPECT(aclDataTypeSize(ACL_FLOAT8_E5M2), 1);
  EXPECT(aclDataTypeSize(ACL_HIFLOAT8), 1);
  EXPECT(aclDataTypeSize(ACL_FLOAT6_E3M2), 8);
}

CASE(float16_to_float, "2.1") {
  TRUE(aclFloat16ToFloat(0x3C00) == 1.0f);
  TRUE(aclFloat16ToFloat(0xC000) == -2.0f);
  TRUE(aclFloat16ToFloat(0x0001) == 0x1p-24f);
  TRUE(aclFloat16ToFloat(0x7BFF) == 65504.0f);
  TRUE(aclFloat16ToFloat(0x0000) == 0.0f);
}

CASE(float16_knows_no_infinity, "2.1") {
  TRUE(aclFloat16ToFloat(0x7C00) == 65536.0f);
  TRUE(aclFloat16ToFloat(0x7E00) == 98304.0f);
  EXPECT(aclFloatToFloat16(__builtin_inff()), 0x7BFF);
  EXPECT(aclFloatToFloat16(1e9f), 0x7BFF);
}

CASE(float_to_float16, "2.1") {
  EXPECT(aclFloatToFloat16(1.0f), 0x3C00);
  EXPECT(aclFloatToFloat16(-2.0f), 0xC000);
  EXPECT(aclFloatToFloat16(65504.0f), 0x7BFF);
  EXPECT(aclFloatToFloat16(0x1p-24f), 0x0001);
  EXPECT(aclFloatToFloat16(0.0f), 0);
  EXPECT(aclFloatToFloat16(0x1p-40f), 0);
}

CASE(float16_survives_the_round_trip, "2.1") {
  for (int bits = 0; bits < 0x7C00; ++bits) {
    EXPECT(aclFloatToFloat16(aclFloat16ToFloat(aclFloat16(bits))), bits);
    EXPECT(aclFloatToFloat16(aclFloat16ToFloat(aclFloat16(bits | 0x8000))), bits | 0x8000);
  }
}
