// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "mdl_harness.h"

std::string folder, last_text;
std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

// run OM [--batch N | --hw H W | --dims D…] [--shape D,D,…]… IN… -- OUT…: one blocking execution, for comparisons.
static int run(int argc, char** argv) {
  Device device;
  {
    uint32_t id;
    OK(aclmdlLoadFromFile(argv[0], &id));
    Desc desc;
    OK(aclmdlGetDesc(desc.it, id));
    std::vector<std::string> inputs, outputs;
    std::vector<std::vector<int64_t>> shapes;
    uint64_t batch = 0;
    bool after = false;
    for (int i = 1; i < argc; ++i) {
      std::string word = argv[i];
      if (word == "--") {
        after = true;
      } else if (word == "--batch") {
        batch = strtoull(argv[++i], nullptr, 10);
      } else if (word == "--shape") {
        shapes.emplace_back();
        for (char* at = argv[++i]; *at; at += *at == ',') shapes.back().push_back(strtoll(at, &at, 10));
      } else {
        (after ? outputs : inputs).push_back(word);
      }
    }
    {
      Dataset in, out;
      for (size_t i = 0; i < inputs.size(); ++i) {
        FILE* file = fopen(inputs[i].c_str(), "rb");
        TRUE(file);
        std::string bytes;
        for (int c; (c = fgetc(file)) != EOF;) bytes += char(c);
        fclose(file);
        in.add(bytes.size());
        if (!bytes.empty()) in[i].write(bytes.data());
        if (i < shapes.size()) in.shape(i, aclmdlGetInputDataType(desc.it, i), shapes[i]);
      }
      if (batch) {
        in.add(8);
        OK(aclmdlSetDynamicBatchSize(id, in.it, inputs.size(), batch));
      }
      for (size_t i = 0; i < outputs.size(); ++i) out.add(shapes.empty() ? aclmdlGetOutputSizeByIndex(desc.it, i) : 0);
      OK(aclmdlExecute(id, in.it, out.it));
      for (size_t i = 0; i < outputs.size(); ++i) {
        size_t nbytes = 0;
        if (shapes.empty()) {
          aclmdlIODims dims;
          OK(aclmdlGetCurOutputDims(desc.it, i, &dims));
          nbytes = aclDataTypeSize(aclmdlGetOutputDataType(desc.it, i));
          for (size_t axis = 0; axis < dims.dimCount; ++axis) nbytes *= size_t(dims.dims[axis]);
        } else {
          nbytes = aclGetTensorDescSize(aclmdlGetDatasetTensorDesc(out.it, i));
          out[i].data = aclGetDataBufferAddr(out[i].it);
        }
        std::string bytes = out[i].read(nbytes);
        FILE* file = fopen(outputs[i].c_str(), "wb");
        TRUE(file);
        fwrite(bytes.data(), 1, bytes.size(), file);
        fclose(file);
      }
    }
    OK(aclmdlUnload(id));
  }
  return 0;
}

int main(int argc, char** argv) {
  std::string name = argc > 1 ? argv[1] : "";
  if (name == "--list") {
    for (const Case& item : cases()) printf("%s\t%s\n", item.name, item.rule);
    return 0;
  }
  if (name == "run" && argc > 2) return run(argc - 2, argv + 2);
  for (const Case& item : cases()) {
    if (name != item.name || argc != 3) continue;
    folder = argv[2];
    if (getenv("GE_CORE_CPU_CONFIG") == nullptr) configure_own(int64_t(1) << 36);
    item.body();
    return 0;
  }
  fprintf(stderr, "usage: %s --list | CASE FOLDER | run OM …\n", argv[0]);
  return 2;
}
