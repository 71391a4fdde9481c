// SPDX-License-Identifier: Apache-2.0
// Cases against the C ABI of AscendCL's model API. `prog --list` names them, `prog CASE FOLDER` runs one; FOLDER holds
// the oms that tests/acl_cpu/test_acl_cpu_model.py writes. Exit code 0: the rule holds.
#ifndef CONFORMANCE_MDL_HARNESS_H
#define CONFORMANCE_MDL_HARNESS_H

#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "acl_abi.h"

struct Case {
  const char *name, *rule;
  void (*body)();
};
std::vector<Case>& cases();
extern std::string folder;

#define CASE(name, rule)                                                                  \
  static void case_##name();                                                              \
  static const bool added_##name = (cases().push_back({#name, rule, case_##name}), true); \
  static void case_##name()

// Needs the CPU implementation: its hooks, its configuration, its oms, or strictness that no device promises.
#define CPU_CASE(name, rule) CASE(name, rule)

[[noreturn]] inline void failed(const char* file, int line, const std::string& what) {
  const char* text = aclGetRecentErrMsg();
  fprintf(stderr, "%s:%d: %s\n%s\n", file, line, what.c_str(), text ? text : "");
  _exit(1);
}

template <class A, class B>
void expect_equal(const char* file, int line, const char* what, const A& got, const B& expected) {
  if (!(got == expected)) {
    auto show = [](const auto& value) {
      if constexpr (std::is_convertible_v<decltype(value), double>) {
        return std::to_string(value);
      } else {
        return "'" + std::string(value) + "'";
      }
    };
    failed(file, line, std::string(what) + ": expected " + show(expected) + ", got " + show(got));
  }
}

#define EQ(got, expected) expect_equal(__FILE__, __LINE__, #got, got, expected)
#define TRUE(condition) \
  if (!(condition)) failed(__FILE__, __LINE__, #condition)
#define OK(call) expect_equal(__FILE__, __LINE__, #call, call, ACL_SUCCESS)
// Results and texts that only synthetic models and this library have.
inline bool synthetic() { return getenv("GE_CORE_CONFORMANCE_GRAPHS") == nullptr; }
#define RESULT(condition) TRUE(!synthetic() || (condition))
// The call fails with this code and says why.
#define CODE(code, call)                                                                \
  do {                                                                                  \
    expect_equal(__FILE__, __LINE__, #call, call, code);                                \
    const char* why = aclGetRecentErrMsg();                                             \
    if (!why || why[0] != 'E') failed(__FILE__, __LINE__, #call " left no error text"); \
    last_text = why;                                                                    \
  } while (false)
extern std::string last_text;

#include "common.h"

inline double now_ms() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return double(time.tv_sec) * 1e3 + double(time.tv_nsec) / 1e6;
}

inline std::string path(const char* name) { return folder + "/" + name + ".om"; }

struct Device {
  Device() {
    OK(aclInit(nullptr));
    OK(aclrtSetDevice(0));
  }
  ~Device() {
    OK(aclrtResetDevice(0));
    OK(aclFinalize());
  }
};

// A data buffer with device memory of its own.
struct Buffer {
  explicit Buffer(size_t nbytes) : nbytes(nbytes) {
    if (nbytes) OK(aclrtMalloc(&data, nbytes, ACL_MEM_MALLOC_HUGE_FIRST));
    it = aclCreateDataBuffer(data, nbytes);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() {
    OK(aclDestroyDataBuffer(it));
    if (data) OK(aclrtFree(data));
  }
  void write(const void* bytes) { OK(aclrtMemcpy(data, nbytes, bytes, nbytes, ACL_MEMCPY_HOST_TO_DEVICE)); }
  std::string read(size_t count) const {
    std::string bytes(count, '\0');
    if (count) OK(aclrtMemcpy(bytes.data(), count, data, count, ACL_MEMCPY_DEVICE_TO_HOST));
    return bytes;
  }
  std::string read() const { return read(nbytes); }
  void* data = nullptr;
  size_t nbytes;
  aclDataBuffer* it;
};

struct Dataset {
  Dataset() : it(aclmdlCreateDataset()) { TRUE(it); }
  explicit Dataset(const std::vector<size_t>& sizes) : Dataset() {
    for (size_t nbytes : sizes) add(nbytes);
  }
  Dataset(const Dataset&) = delete;
  ~Dataset() {
    OK(aclmdlDestroyDataset(it));
    for (Buffer* buffer : buffers) delete buffer;
  }
  Buffer& add(size_t nbytes) {
    buffers.push_back(new Buffer(nbytes));
    OK(aclmdlAddDatasetBuffer(it, buffers.back()->it));
    return *buffers.back();
  }
  Buffer& operator[](size_t index) { return *buffers[index]; }
  void shape(size_t index, aclDataType dtype, const std::vector<int64_t>& dims) {
    aclTensorDesc* desc = aclCreateTensorDesc(dtype, int(dims.size()), dims.data(), ACL_FORMAT_ND);
    TRUE(desc);
    OK(aclmdlSetDatasetTensorDesc(it, desc, index));
    aclDestroyTensorDesc(desc);
  }
  aclmdlDataset* it;
  std::vector<Buffer*> buffers;
};

struct Desc {
  Desc() : it(aclmdlCreateDesc()) { TRUE(it); }
  ~Desc() { OK(aclmdlDestroyDesc(it)); }
  aclmdlDesc* it;
};

// A loaded om, its desc, and datasets with a buffer for everything it lists.
struct Loaded {
  explicit Loaded(const char* name, bool with_buffers = true) {
    OK(aclmdlLoadFromFile(path(name).c_str(), &id));
    OK(aclmdlGetDesc(desc.it, id));
    for (size_t i = 0; with_buffers && i < aclmdlGetNumInputs(desc.it); ++i) {
      in.add(aclmdlGetInputSizeByIndex(desc.it, i));
      if (in[i].nbytes) fill(in[i], uint32_t(i));
    }
    for (size_t i = 0; with_buffers && i < aclmdlGetNumOutputs(desc.it); ++i)
      out.add(aclmdlGetOutputSizeByIndex(desc.it, i));
  }
  ~Loaded() {
    if (loaded) OK(aclmdlUnload(id));
  }
  static void fill(Buffer& buffer, uint32_t seed) {
    std::string bytes(buffer.nbytes, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = char((seed + i) * 2654435761u >> 13);
    buffer.write(bytes.data());
  }
  uint32_t id = 0;
  bool loaded = true;
  Desc desc;
  Dataset in, out;
};

struct Stream {
  Stream() { OK(aclrtCreateStream(&it)); }
  ~Stream() { OK(aclrtDestroyStream(it)); }
  void wait() { OK(aclrtSynchronizeStream(it)); }
  aclrtStream it;
};

// A stream whose work is held back until open(): what a case does meanwhile comes before it, however slow the host is.
struct HeldStream : Stream {
  HeldStream() {
    OK(aclrtSubscribeReport(callbacks.id, it));
    OK(aclrtLaunchCallback(Latch::wait, &latch, ACL_CALLBACK_BLOCK, it));
    while (!latch.entered) usleep(100);
  }
  ~HeldStream() {
    open();
    aclrtSynchronizeStream(it);
    OK(aclrtUnSubscribeReport(callbacks.id, it));
  }
  void open() { latch.open = true; }
  Latch latch;
  CallbackThread callbacks;
};

// ---- the arithmetic of synthetic models, one number at a time ------------------------------------------------------
inline uint32_t row_state(const std::vector<std::string>& inputs) {
  uint32_t s = 0;
  for (std::string bytes : inputs) {
    uint32_t lanes[64], size = uint32_t(bytes.size());
    for (uint32_t i = 0; i < 64; ++i) lanes[i] = 0x811C9DC5u ^ i;
    bytes.resize((bytes.size() + 255) / 256 * 256);
    for (size_t at = 0; at < bytes.size(); at += 4) {
      uint32_t word;
      memcpy(&word, &bytes[at], 4);
      lanes[at / 4 % 64] = (lanes[at / 4 % 64] ^ word) * 0x01000193u;
    }
    s ^= 0x811C9DC5u;
    for (uint32_t lane : lanes) {
      s ^= lane;
      s = (s << 13 | s >> 19) * 0x01000193u;
    }
    s ^= size;
  }
  return s;
}
inline uint32_t element(uint32_t state, uint32_t output, uint32_t j) {
  uint32_t x = state + output * 0x85EBCA6Bu + j * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x85EBCA6Bu;
  x = (x ^ x >> 13) * 0xC2B2AE35u;
  return x ^ x >> 16;
}
// `count` float32 elements of one row of an output.
inline std::string float_row(const std::vector<std::string>& inputs, uint32_t output, uint32_t count) {
  std::string bytes;
  uint32_t state = row_state(inputs);
  for (uint32_t j = 0; j < count; ++j) {
    float value = float(element(state, output, j) >> 8) / float(1 << 24);
    bytes.append(reinterpret_cast<char*>(&value), 4);
  }
  return bytes;
}

#endif
