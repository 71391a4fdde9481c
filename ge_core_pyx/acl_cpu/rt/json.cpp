// SPDX-License-Identifier: Apache-2.0
#include "json.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace acl_cpu {
namespace {

class Parser {
 public:
  Parser(const std::string& text, int max_depth) : text_(text), max_depth_(max_depth) {}

  Json document() {
    Json value = this->value(0);
    skip_space();
    if (at_ != text_.size()) wrong("end of text");
    return value;
  }

 private:
  [[noreturn]] void wrong(const char* expected) const {
    throw JsonError("JSON byte " + std::to_string(at_) + ": expected " + expected);
  }
  void skip_space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  bool word(const char* literal) {
    size_t length = std::strlen(literal);
    if (text_.compare(at_, length, literal) != 0) return false;
    at_ += length;
    return true;
  }

  Json value(int depth) {
    if (depth > max_depth_) wrong("less nesting");
    Json json;
    switch (peek()) {
      case '{':
        ++at_;
        json.type = Json::kObject;
        if (take('}')) return json;
        do {
          if (peek() != '"') wrong("a key");
          std::string key = string();
          if (json.find(key) != nullptr) wrong(("one \"" + key + "\" only").c_str());
          if (!take(':')) wrong("':'");
          json.members.emplace_back(std::move(key), value(depth + 1));
        } while (take(','));
        if (!take('}')) wrong("',' or '}'");
        return json;
      case '[':
        ++at_;
        json.type = Json::kArray;
        if (take(']')) return json;
        do json.items.push_back(value(depth + 1));
        while (take(','));
        if (!take(']')) wrong("',' or ']'");
        return json;
      case '"':
        json.type = Json::kString;
        json.string = string();
        return json;
      default:
        if (word("null")) return json;
        json.type = Json::kBool;
        if (word("true")) {
          json.boolean = true;
          return json;
        }
        if (word("false")) return json;
        return number();
    }
  }

  Json number() {
    size_t begin = at_;
    auto digits = [&] {
      size_t first = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      if (at_ == first) wrong("a value");
    };
    if (text_[at_] == '-') ++at_;
    size_t integer = at_;
    digits();
    if (text_[integer] == '0' && at_ - integer > 1) wrong("no leading zero");
    if (at_ < text_.size() && text_[at_] == '.') ++at_, digits();
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      ++at_;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      digits();
    }
    Json json;
    json.type = Json::kNumber;
    std::from_chars(text_.data() + begin, text_.data() + at_, json.number);
    return json;
  }

  unsigned hex4() {
    unsigned code = 0;
    if (at_ + 4 > text_.size()) wrong("four hexadecimal digits");
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, code, 16);
    if (error != std::errc() || end != text_.data() + at_ + 4) wrong("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  std::string string() {
    std::string out;
    for (++at_;;) {
      if (at_ >= text_.size() || static_cast<unsigned char>(text_[at_]) < 0x20) wrong("'\"'");
      char c = text_[at_++];
      if (c == '"') return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      char escape = at_ < text_.size() ? text_[at_++] : '\0';
      const char* known = std::strchr("\"\"\\\\//b\bf\fn\nr\rt\t", escape);
      if (escape == 'u') {
        unsigned code = hex4();
        if (code >= 0xD800 && code < 0xDC00) {
          if (!word("\\u")) wrong("the second half of a surrogate pair");
          code = 0x10000 + ((code - 0xD800) << 10) + (hex4() - 0xDC00);
        }
        append_utf8(out, code);
      } else if (escape != '\0' && known != nullptr) {
        out += known[1];
      } else {
        wrong("an escape");
      }
    }
  }

  static void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += char(code);
    } else if (code < 0x800) {
      out += {char(0xC0 | code >> 6), char(0x80 | (code & 63))};
    } else if (code < 0x10000) {
      out += {char(0xE0 | code >> 12), char(0x80 | (code >> 6 & 63)), char(0x80 | (code & 63))};
    } else {
      out += {char(0xF0 | code >> 18), char(0x80 | (code >> 12 & 63)), char(0x80 | (code >> 6 & 63)),
              char(0x80 | (code & 63))};
    }
  }

  const std::string& text_;
  int max_depth_;
  size_t at_ = 0;
};

}  // namespace

Json Json::parse(const std::string& text, int max_depth) { return Parser(text, max_depth).document(); }

const Json* Json::find(const std::string& key) const {
  for (auto& member : members) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

double Json::as_number(const std::string& what, double low, double high) const {
  if (type != kNumber || !(number >= low && number <= high)) {
    char range[80];
    std::snprintf(range, sizeof range, " must be a number from %g to %g", low, high);
    throw JsonError(what + range);
  }
  return number;
}

int64_t Json::as_integer(const std::string& what, int64_t low, int64_t high) const {
  double value = as_number(what, double(low), double(high));
  if (value != std::floor(value)) throw JsonError(what + " must be a whole number");
  return int64_t(value);
}

const std::string& Json::as_string(const std::string& what) const {
  if (type != kString) throw JsonError(what + " must be a string");
  return string;
}

}  // namespace acl_cpu
