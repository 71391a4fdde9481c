// SPDX-License-Identifier: Apache-2.0
// The om container: header, partition table, and the two partitions of a model compiled for this library.
#ifndef ACL_CPU_MDL_OM_H
#define ACL_CPU_MDL_OM_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace acl_cpu::mdl {

// A checked om whose partitions stay readable as long as the object lives (and, from memory, as long as that memory).
class Om {
 public:
  // Throw Failure: 145002 for a path that cannot be read, 145006 for what is no om of this library, 545002 for a
  // damaged partition table.
  static Om open(const char* path);
  static Om view(const void* model, size_t nbytes);

  Om(Om&& other) noexcept { *this = std::move(other); }
  Om& operator=(Om&& other) noexcept;
  ~Om();

  const std::string& source() const { return source_; }
  std::string_view manifest() const { return manifest_; }
  std::string_view onnx() const { return onnx_; }
  bool unknown_shapes() const { return unknown_shapes_; }
  // Equal for equal content.
  std::pair<uint64_t, uint64_t> fingerprint() const;
  uint32_t onnx_crc32() const;  // as zlib computes it

 private:
  Om() = default;
  void read();

  std::string source_;
  const unsigned char* data_ = nullptr;
  size_t nbytes_ = 0;
  size_t reserved_ = 0;  // of our own copy of a file; 0 for a view
  bool unknown_shapes_ = false;
  std::string_view manifest_, onnx_;
};

}  // namespace acl_cpu::mdl

#endif
