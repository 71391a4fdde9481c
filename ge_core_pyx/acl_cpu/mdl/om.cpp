// SPDX-License-Identifier: Apache-2.0
#include "mdl/om.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "mdl/failure.h"

namespace acl_cpu::mdl {

void refuse(aclError code, const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  throw Failure{code, text};
}

namespace {

constexpr size_t kHeader = 256;
constexpr uint32_t kManifest = 1000, kOnnx = 1001;

// Offsets of the header fields that matter here.
enum { kMagicAt = 0, kHeadSizeAt = 4, kLengthAt = 76, kEncryptAt = 80, kModelTypeAt = 82, kModelNumAt = 156 };
enum { kPlatformAt = 160, kPlatformNbytes = 20, kModelLengthAt = 184, kUnknownModelAt = 193 };

template <class T>
T load(const unsigned char* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

bool starts_with(const unsigned char* data, size_t nbytes, const char* prefix) {
  size_t length = strlen(prefix);
  return nbytes >= length && memcmp(data, prefix, length) == 0;
}

const char* what_came(const unsigned char* data, size_t nbytes) {
  if (nbytes == 0) return "an empty file; copy or compile it again";
  if (starts_with(data, nbytes, "version https://git-lfs"))
    return "a git-lfs pointer; fetch the file itself with `git lfs pull`";
  if (starts_with(data, nbytes, "PK\x03\x04")) return "a ZIP archive (an OM2 model?); compile it as a plain om";
  if (data[0] == '{' || data[0] == '[') return "JSON; compile it with `ge-core compile`";
  if (nbytes > 2 && data[0] == 0x08 && data[1] > 0 && data[1] < 0x20)
    return "what looks like an ONNX file; compile it with `ge-core compile`";
  return "a file that does not begin with IMOD; compile the model with `ge-core compile`";
}

}  // namespace

Om& Om::operator=(Om&& other) noexcept {
  std::swap(source_, other.source_);
  std::swap(data_, other.data_);
  std::swap(nbytes_, other.nbytes_);
  std::swap(reserved_, other.reserved_);
  std::swap(unknown_shapes_, other.unknown_shapes_);
  std::swap(manifest_, other.manifest_);
  std::swap(onnx_, other.onnx_);
  return *this;
}

Om::~Om() {
  if (reserved_ > 0) munmap(const_cast<unsigned char*>(data_), reserved_);
}

Om Om::open(const char* path) {
  Om om;
  om.source_ = path;
  // O_NONBLOCK: a FIFO must not hang the open.
  int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    refuse(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, "%s: expected a readable om file: %s", path, strerror(errno));
  struct stat status;
  bool regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  int error = 0;
  if (regular && status.st_size > 0) {
    // Read, not mapped: a file that is truncated meanwhile must be an error, not a SIGBUS.
    om.reserved_ = static_cast<size_t>(status.st_size);
    void* data = mmap(nullptr, om.reserved_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      om.reserved_ = 0;
      error = errno;
    } else {
      om.data_ = static_cast<unsigned char*>(data);
    }
    while (om.nbytes_ < om.reserved_) {
      ssize_t count = ::read(file, static_cast<char*>(data) + om.nbytes_, om.reserved_ - om.nbytes_);
      if (count > 0) om.nbytes_ += static_cast<size_t>(count);
      if (count == 0) break;
      if (count < 0 && errno != EINTR) {
        error = errno;
        break;
      }
    }
  }
  close(file);
  if (!regular)
    refuse(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, "%s: expected an om file, got something that is not a file", path);
  if (error != 0) refuse(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, "%s: cannot read the file: %s", path, strerror(error));
  om.read();
  return om;
}

Om Om::view(const void* model, size_t nbytes) {
  Om om;
  om.source_ = "model in memory";
  om.data_ = static_cast<const unsigned char*>(model);
  om.nbytes_ = nbytes;
  om.read();
  return om;
}

void Om::read() {
  constexpr aclError kNoOm = ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID;
  constexpr aclError kBadTable = ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED;
  const char* source = source_.c_str();
  if (!starts_with(data_, nbytes_, "IMOD"))
    refuse(kNoOm, "%s: expected an om, got %s", source, what_came(data_, nbytes_));
  if (nbytes_ < kHeader)
    refuse(kNoOm, "%s: expected a header of 256 bytes, got %zu bytes in all; the file is truncated", source, nbytes_);
  if (uint32_t head = load<uint32_t>(data_ + kHeadSizeAt); head != kHeader)
    refuse(kNoOm, "%s: expected a header size of 256, got %u; the file is damaged", source, head);
  uint64_t model_length = load<uint64_t>(data_ + kModelLengthAt);
  uint64_t payload = model_length ? model_length : load<uint32_t>(data_ + kLengthAt);
  if (payload != nbytes_ - kHeader)
    refuse(kNoOm, "%s: expected %llu bytes after the header, got %zu; the file is truncated or damaged", source,
           static_cast<unsigned long long>(payload), nbytes_ - kHeader);
  char platform[kPlatformNbytes + 1] = {};
  memcpy(platform, data_ + kPlatformAt, kPlatformNbytes);
  if (strcmp(platform, "CPU") != 0)
    refuse(kNoOm,
           "%s: expected an om for the CPU implementation of AscendCL, got one compiled for an NPU (platform version "
           "'%s'); compile its ONNX file with `ge-core compile` for the cpu runtime",
           source, platform);
  if (data_[kModelTypeAt] != 0 || load<uint32_t>(data_ + kModelNumAt) != 1)
    refuse(kNoOm, "%s: expected one model of type 0, got model type %d with %u models; bundles are not supported",
           source, data_[kModelTypeAt], load<uint32_t>(data_ + kModelNumAt));
  if (data_[kEncryptAt] != 0) refuse(kNoOm, "%s: encrypted models are not supported", source);
  unknown_shapes_ = data_[kUnknownModelAt] != 0;

  const size_t counter = model_length ? 8 : 4, row = model_length ? 24 : 12;
  if (payload < counter) refuse(kBadTable, "%s: the partition table is truncated", source);
  const unsigned char* table = data_ + kHeader;
  const uint64_t count = load<uint32_t>(table);
  if (count == 0 || count > (payload - counter) / row)
    refuse(kBadTable, "%s: %llu partitions do not fit into the file; the table is damaged", source,
           static_cast<unsigned long long>(count));
  const unsigned char* base = table + counter + count * row;
  const uint64_t room = payload - counter - count * row;
  for (uint64_t i = 0; i < count; ++i) {
    const unsigned char* at = table + counter + i * row;
    uint32_t type = load<uint32_t>(at);
    uint64_t offset = model_length ? load<uint64_t>(at + 8) : load<uint32_t>(at + 4);
    uint64_t nbytes = model_length ? load<uint64_t>(at + 16) : load<uint32_t>(at + 8);
    if (offset > room || nbytes > room - offset)
      refuse(kBadTable, "%s: partition %u lies outside the file; the table is damaged", source, type);
    std::string_view* part = type == kManifest ? &manifest_ : type == kOnnx ? &onnx_ : nullptr;
    if (part) *part = {reinterpret_cast<const char*>(base + offset), static_cast<size_t>(nbytes)};
  }
  if (manifest_.empty())
    refuse(kBadTable, "%s: expected a manifest (partition %u), found none; compile the model again", source, kManifest);
}

std::pair<uint64_t, uint64_t> Om::fingerprint() const {
  uint64_t a = 0x9E3779B97F4A7C15u ^ nbytes_, b = 0xC2B2AE3D27D4EB4Fu;
  auto mix = [&](uint64_t word) {
    a = (a ^ word) * 0xFF51AFD7ED558CCDu;
    a ^= a >> 32;
    b = (b + word) * 0xC4CEB9FE1A85EC53u;
    b ^= b >> 29;
  };
  size_t at = 0;
  for (; at + 8 <= nbytes_; at += 8) mix(load<uint64_t>(data_ + at));
  uint64_t tail = 0;
  if (at < nbytes_) memcpy(&tail, data_ + at, nbytes_ - at);
  mix(tail);
  return {a, b};
}

uint32_t Om::onnx_crc32() const {
  // tables[k][b]: the byte b followed by k zero bytes. Eight bytes at a time are an eighth of the dependent steps.
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> made;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
      made[0][byte] = crc;
    }
    for (size_t k = 1; k < 8; ++k)
      for (size_t byte = 0; byte < 256; ++byte)
        made[k][byte] = made[k - 1][byte] >> 8 ^ made[0][made[k - 1][byte] & 255];
    return made;
  }();
  const auto* at = reinterpret_cast<const unsigned char*>(onnx_.data());
  const unsigned char* const end = at + onnx_.size();
  uint32_t crc = ~0u;
  for (; end - at >= 8; at += 8) {
    const uint32_t low = load<uint32_t>(at) ^ crc, high = load<uint32_t>(at + 4);
    crc = tables[7][low & 255] ^ tables[6][low >> 8 & 255] ^ tables[5][low >> 16 & 255] ^ tables[4][low >> 24] ^
          tables[3][high & 255] ^ tables[2][high >> 8 & 255] ^ tables[1][high >> 16 & 255] ^ tables[0][high >> 24];
  }
  for (; at < end; ++at) crc = crc >> 8 ^ tables[0][(crc ^ *at) & 255];
  return ~crc;
}

}  // namespace acl_cpu::mdl
