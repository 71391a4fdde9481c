// SPDX-License-Identifier: Apache-2.0
// Synthetic models: no graph, but outputs that depend on every input byte of their row. The same arithmetic exists in
// NumPy in ge_core/compiler/synthetic.py; both must agree bit for bit.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mdl/engine.h"
#include "mdl/failure.h"

namespace acl_cpu::mdl {
namespace {

constexpr uint32_t kBasis = 0x811C9DC5u, kPrime = 0x01000193u;
constexpr size_t kLanes = 64, kBlock = kLanes * sizeof(uint32_t);

typedef uint32_t UnalignedWord __attribute__((aligned(1), may_alias));

#define ACL_CPU_INLINE static inline __attribute__((always_inline))

ACL_CPU_INLINE void mix_blocks(uint32_t* lanes, const char* data, size_t blocks) {
  for (; blocks > 0; --blocks, data += kBlock) {
    const UnalignedWord* words = reinterpret_cast<const UnalignedWord*>(data);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = (lanes[i] ^ words[i]) * kPrime;
  }
}

ACL_CPU_INLINE uint32_t fmix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

ACL_CPU_INLINE uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct ToFloat32 {
  typedef float Type;
  static float of(uint32_t m) { return static_cast<float>(static_cast<int32_t>(m >> 8)) * 0x1p-24f; }
};
struct ToFloat16 {
  typedef uint16_t Type;
  static uint16_t of(uint32_t m) {
    uint32_t bits = float_bits(static_cast<float>(static_cast<int32_t>(m >> 21)) * 0x1p-11f);
    return static_cast<uint16_t>(bits == 0 ? 0 : (bits >> 13) - ((127 - 15) << 10));
  }
};
struct ToBfloat16 {
  typedef uint16_t Type;
  static uint16_t of(uint32_t m) {
    return static_cast<uint16_t>(float_bits(static_cast<float>(static_cast<int32_t>(m >> 24)) * 0x1p-8f) >> 16);
  }
};
struct ToFloat64 {
  typedef double Type;
  static double of(uint32_t m) { return m * 0x1p-32; }
};
template <class T>
struct ToInteger {
  typedef T Type;
  static T of(uint32_t m) { return static_cast<T>(m); }
};
struct ToBool {
  typedef uint8_t Type;
  static uint8_t of(uint32_t m) { return m & 1; }
};

template <class Convert>
ACL_CPU_INLINE void fill(char* out, size_t count, uint32_t start) {
  typedef typename Convert::Type Value __attribute__((aligned(1), may_alias));
  Value* values = reinterpret_cast<Value*>(out);
  for (size_t j = 0; j < count; ++j) values[j] = Convert::of(fmix32(start + static_cast<uint32_t>(j) * 0x9E3779B9u));
}

ACL_CPU_INLINE void fill_any(aclDataType dtype, char* out, size_t count, uint32_t start) {
  switch (dtype) {
    case ACL_FLOAT:
      return fill<ToFloat32>(out, count, start);
    case ACL_FLOAT16:
      return fill<ToFloat16>(out, count, start);
    case ACL_BF16:
      return fill<ToBfloat16>(out, count, start);
    case ACL_DOUBLE:
      return fill<ToFloat64>(out, count, start);
    case ACL_INT8:
    case ACL_UINT8:
      return fill<ToInteger<uint8_t>>(out, count, start);
    case ACL_INT16:
    case ACL_UINT16:
      return fill<ToInteger<uint16_t>>(out, count, start);
    case ACL_INT32:
    case ACL_UINT32:
      return fill<ToInteger<uint32_t>>(out, count, start);
    case ACL_INT64:
    case ACL_UINT64:
      return fill<ToInteger<uint64_t>>(out, count, start);
    default:
      return fill<ToBool>(out, count, start);
  }
}

// One variant per instruction set. Chosen by hand: ifuncs (target_clones) run before sanitizers are ready.
struct Kernels {
  void (*mix)(uint32_t* lanes, const char* data, size_t blocks);
  void (*fill)(aclDataType dtype, char* out, size_t count, uint32_t start);
};

#define ACL_CPU_KERNELS(suffix, attribute)                                                                           \
  attribute void mix_##suffix(uint32_t* lanes, const char* data, size_t blocks) { mix_blocks(lanes, data, blocks); } \
  attribute void fill_##suffix(aclDataType dtype, char* out, size_t count, uint32_t start) {                         \
    fill_any(dtype, out, count, start);                                                                              \
  }

ACL_CPU_KERNELS(plain, )
#if defined(__x86_64__)
ACL_CPU_KERNELS(avx2, __attribute__((target("avx2"))))
ACL_CPU_KERNELS(avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"))))
#endif

Kernels choose_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return {mix_avx512, fill_avx512};
  if (__builtin_cpu_supports("avx2")) return {mix_avx2, fill_avx2};
#endif
  return {mix_plain, fill_plain};
}

const Kernels kernels = choose_kernels();

uint32_t hash_row(const char* data, size_t nbytes, uint32_t seed) {
  alignas(64) uint32_t lanes[kLanes];
  for (uint32_t i = 0; i < kLanes; ++i) lanes[i] = kBasis ^ i;
  const size_t blocks = nbytes / kBlock, rest = nbytes % kBlock;
  kernels.mix(lanes, data, blocks);
  if (rest > 0) {
    char padded[kBlock] = {};
    memcpy(padded, data + blocks * kBlock, rest);
    kernels.mix(lanes, padded, 1);
  }
  uint32_t s = kBasis ^ seed;  // each step is a bijection of it: no input before is forgotten
  for (uint32_t lane : lanes) {
    s ^= lane;
    s = (s << 13 | s >> 19) * kPrime;  // turned, so that differences in the top bits of two lanes do not cancel
  }
  return s ^ static_cast<uint32_t>(nbytes);
}

bool leads(const Dims& dims, int64_t rows) { return !dims.empty() && dims[0] == rows; }

class SyntheticEngine final : public Engine, public std::enable_shared_from_this<SyntheticEngine> {
 public:
  explicit SyntheticEngine(const Manifest& manifest) : manifest_(manifest) {
    if (manifest.ranged) return;
    for (size_t gear = 0; gear < manifest.gear_count(); ++gear) {
      std::vector<Dims> inputs, outputs;
      for (const Tensor& input : manifest.inputs) inputs.push_back(input.gear_shapes[gear]);
      for (const Tensor& output : manifest.outputs) outputs.push_back(output.gear_shapes[gear]);
      plans_.push_back(plan(gear, inputs, outputs));
    }
  }

  std::unique_ptr<Instance> instantiate() override;

  // A -1 of an output is the size of the first input that has a -1 there too, else of the first -1 of any input.
  std::vector<Dims> infer(const std::vector<Dims>& inputs) override {
    std::vector<Dims> outputs;
    for (const Tensor& output : manifest_.outputs) {
      Dims dims = output.shape;
      for (size_t axis = 0; axis < dims.size(); ++axis)
        if (dims[axis] == -1) dims[axis] = dynamic_dim(inputs, axis);
      outputs.push_back(std::move(dims));
    }
    return outputs;
  }

  void run(const Call& call) const {
    if (manifest_.ranged) {
      compute(plan(0, call.input_dims, call.output_dims), call);
    } else {
      compute(plans_[call.gear], call);
    }
  }

 private:
  struct Plan {
    size_t rows = 1;
    std::vector<size_t> input_nbytes;     // of one row
    std::vector<size_t> input_stride;     // 0: every row sees the whole input
    std::vector<size_t> output_elements;  // of one row
  };

  Plan plan(size_t gear, const std::vector<Dims>& inputs, const std::vector<Dims>& outputs) const {
    Plan plan;
    if (manifest_.gear_kind == GearKind::kBatch) {
      plan.rows = manifest_.gears[gear][0];
    } else if (!outputs[0].empty() && outputs[0][0] >= 1) {
      auto same = [&](const Dims& dims) { return leads(dims, outputs[0][0]); };
      if (std::all_of(inputs.begin(), inputs.end(), same) && std::all_of(outputs.begin(), outputs.end(), same))
        plan.rows = static_cast<size_t>(outputs[0][0]);
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      size_t nbytes = manifest_.inputs[i].nbytes_of(inputs[i]);
      bool split = leads(inputs[i], static_cast<int64_t>(plan.rows));
      plan.input_nbytes.push_back(split ? nbytes / plan.rows : nbytes);
      plan.input_stride.push_back(split ? nbytes / plan.rows : 0);
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      size_t count = 0;
      element_count(outputs[o], &count);
      if (count % plan.rows != 0)
        refuse(ACL_ERROR_GE_LOAD_MODEL, "output %s: its %zu elements cannot be divided into %zu rows",
               manifest_.outputs[o].name.c_str(), count, plan.rows);
      plan.output_elements.push_back(count / plan.rows);
    }
    return plan;
  }

  int64_t dynamic_dim(const std::vector<Dims>& inputs, size_t axis) const {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (axis < inputs[i].size() && manifest_.inputs[i].shape[axis] == -1) return inputs[i][axis];
    for (size_t i = 0; i < inputs.size(); ++i)
      for (size_t other = 0; other < inputs[i].size(); ++other)
        if (manifest_.inputs[i].shape[other] == -1) return inputs[i][other];
    return 1;
  }

  void compute(const Plan& plan, const Call& call) const {
    for (size_t row = 0; row < plan.rows; ++row) {
      uint32_t s = 0;
      for (size_t i = 0; i < call.inputs.size(); ++i)
        s = hash_row(call.inputs[i] + row * plan.input_stride[i], plan.input_nbytes[i], s);
      for (size_t o = 0; o < call.outputs.size(); ++o) {
        const DType& dtype = manifest_.outputs[o].dtype;
        size_t count = plan.output_elements[o];
        kernels.fill(dtype.acl, call.outputs[o] + row * count * dtype.nbytes, count,
                     s + static_cast<uint32_t>(o) * 0x85EBCA6Bu);
      }
    }
  }

  const Manifest& manifest_;
  std::vector<Plan> plans_;
};

class SyntheticInstance final : public Instance {
 public:
  explicit SyntheticInstance(std::shared_ptr<SyntheticEngine> engine) : engine_(std::move(engine)) {}
  void run(const Call& call) override { engine_->run(call); }

 private:
  std::shared_ptr<SyntheticEngine> engine_;
};

std::unique_ptr<Instance> SyntheticEngine::instantiate() {
  return std::make_unique<SyntheticInstance>(shared_from_this());
}

}  // namespace

std::shared_ptr<Engine> make_synthetic_engine(const Manifest& manifest) {
  return std::make_shared<SyntheticEngine>(manifest);
}

}  // namespace acl_cpu::mdl
