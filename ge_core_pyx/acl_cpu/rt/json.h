// SPDX-License-Identifier: Apache-2.0
// A small strict JSON reader: UTF-8 text in, a tree out, an exception with the byte offset for anything else.
#ifndef GE_CORE_ACL_CPU_RT_JSON_H
#define GE_CORE_ACL_CPU_RT_JSON_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace acl_cpu {

struct JsonError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Json {
  enum Type { kNull, kBool, kNumber, kString, kArray, kObject };
  Type type = kNull;
  bool boolean = false;
  double number = 0;
  std::string string;
  std::vector<Json> items;
  std::vector<std::pair<std::string, Json>> members;

  static Json parse(const std::string& text, int max_depth = 64);
  const Json* find(const std::string& key) const;

  // The value as asked for; JsonError names `what` otherwise.
  double as_number(const std::string& what, double low, double high) const;
  int64_t as_integer(const std::string& what, int64_t low, int64_t high) const;
  const std::string& as_string(const std::string& what) const;
};

}  // namespace acl_cpu

#endif
