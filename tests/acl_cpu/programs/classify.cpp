// SPDX-License-Identifier: Apache-2.0
// An AscendCL program of the usual shape, as its author would write it for an NPU: one input, one output.
// classify MODEL INPUT OUTPUT [async]
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "acl_abi.h"

#define CHECK(call)                                                                   \
  do {                                                                                \
    aclError code = (call);                                                           \
    if (code != ACL_SUCCESS) {                                                        \
      const char* text = aclGetRecentErrMsg();                                        \
      std::fprintf(stderr, "%s: %d\n%s\n", #call, code, text == nullptr ? "" : text); \
      return 1;                                                                       \
    }                                                                                 \
  } while (false)

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool async = argc > 4 && std::strcmp(argv[4], "async") == 0;
  std::ifstream file(argv[2], std::ios::binary);
  const std::vector<char> image{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};

  CHECK(aclInit(nullptr));
  CHECK(aclrtSetDevice(0));
  aclrtRunMode mode;
  CHECK(aclrtGetRunMode(&mode));
  if (mode != ACL_HOST) return 1;
  aclrtStream stream = nullptr;
  CHECK(aclrtCreateStream(&stream));

  uint32_t model = 0;
  CHECK(aclmdlLoadFromFile(argv[1], &model));
  aclmdlDesc* desc = aclmdlCreateDesc();
  CHECK(aclmdlGetDesc(desc, model));
  aclmdlIODims dims;
  CHECK(aclmdlGetInputDims(desc, 0, &dims));
  std::printf("%s %s", aclrtGetSocName(), dims.name);
  for (size_t i = 0; i < dims.dimCount; ++i) std::printf(" %lld", static_cast<long long>(dims.dims[i]));
  std::printf(" -> %s\n", aclmdlGetOutputNameByIndex(desc, 0));

  const size_t in_nbytes = aclmdlGetInputSizeByIndex(desc, 0), out_nbytes = aclmdlGetOutputSizeByIndex(desc, 0);
  if (in_nbytes != image.size()) return 1;
  void *in_device = nullptr, *out_device = nullptr, *in_host = nullptr, *out_host = nullptr;
  CHECK(aclrtMalloc(&in_device, in_nbytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMalloc(&out_device, out_nbytes, ACL_MEM_MALLOC_HUGE_FIRST));
  CHECK(aclrtMallocHost(&in_host, in_nbytes));
  CHECK(aclrtMallocHost(&out_host, out_nbytes));
  aclmdlDataset *input = aclmdlCreateDataset(), *output = aclmdlCreateDataset();
  CHECK(aclmdlAddDatasetBuffer(input, aclCreateDataBuffer(in_device, in_nbytes)));
  CHECK(aclmdlAddDatasetBuffer(output, aclCreateDataBuffer(out_device, out_nbytes)));

  std::memcpy(in_host, image.data(), in_nbytes);
  if (async) {
    CHECK(aclrtMemcpyAsync(in_device, in_nbytes, in_host, in_nbytes, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK(aclmdlExecuteAsync(model, input, output, stream));
    CHECK(aclrtMemcpyAsync(out_host, out_nbytes, out_device, out_nbytes, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
  } else {
    CHECK(aclrtMemcpy(in_device, in_nbytes, in_host, in_nbytes, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclmdlExecute(model, input, output));
    CHECK(aclrtMemcpy(out_host, out_nbytes, out_device, out_nbytes, ACL_MEMCPY_DEVICE_TO_HOST));
  }
  std::ofstream(argv[3], std::ios::binary).write(static_cast<char*>(out_host), std::streamsize(out_nbytes));

  CHECK(aclmdlUnload(model));
  CHECK(aclmdlDestroyDesc(desc));
  for (aclmdlDataset* dataset : {input, output}) {
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
      CHECK(aclDestroyDataBuffer(aclmdlGetDatasetBuffer(dataset, i)));
    }
    CHECK(aclmdlDestroyDataset(dataset));
  }
  CHECK(aclrtFree(in_device));
  CHECK(aclrtFree(out_device));
  CHECK(aclrtFreeHost(in_host));
  CHECK(aclrtFreeHost(out_host));
  CHECK(aclrtDestroyStream(stream));
  CHECK(aclrtResetDevice(0));
  CHECK(aclFinalize());
  return 0;
}
