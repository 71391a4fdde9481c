// SPDX-License-Identifier: Apache-2.0
// GE_CORE_CPU_CONFIG: JSON text, or the path of a file that holds it. Every key is optional, an unknown one is an
// error.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "internal.h"
#include "json.h"

namespace acl_cpu {

void add_fault_spec(const Json& spec);

namespace {

void read_copy_engine(const std::string& name, const Json& value, CopyEngine* engine) {
  if (value.type != Json::kObject) throw JsonError("\"" + name + "\" must be an object with gbps and latency_us");
  for (auto& [key, number] : value.members) {
    if (key == "gbps") {
      engine->gbps = number.as_number("\"" + name + ".gbps\" (1e9 bytes per second)", 1e-6, 1e6);
    } else if (key == "latency_us") {
      engine->latency_us = number.as_number("\"" + name + ".latency_us\"", 0, 1e9);
    } else {
      throw JsonError("unknown key \"" + name + "." + key + "\"; known: gbps, latency_us");
    }
  }
}

void read_exec_us(const Json& value, std::vector<double>* exec_us) {
  if (value.type == Json::kArray) {
    if (value.items.empty()) throw JsonError("\"exec_us\" must not be an empty list");
    for (auto& item : value.items) exec_us->push_back(item.as_number("\"exec_us\"", 0, 1e12));
  } else {
    exec_us->push_back(value.as_number("\"exec_us\"", 0, 1e12));
  }
}

void read(const Json& root, Config* config) {
  if (root.type != Json::kObject) throw JsonError("expected a JSON object");
  for (auto& [key, value] : root.members) {
    if (key == "devices") {
      config->devices = int(value.as_integer("\"devices\"", 0, kMaxDevices));
    } else if (key == "hbm_bytes") {
      config->hbm_bytes = uint64_t(value.as_integer("\"hbm_bytes\"", 1 << 20, int64_t(1) << 40));
    } else if (key == "compute_engines") {
      config->compute_engines = int(value.as_integer("\"compute_engines\"", 1, kMaxComputeEngines));
    } else if (key == "soc_name") {
      config->soc_name = value.as_string("\"soc_name\"");
    } else if (key == "h2d") {
      read_copy_engine(key, value, &config->h2d);
    } else if (key == "d2h") {
      read_copy_engine(key, value, &config->d2h);
    } else if (key == "exec_us") {
      read_exec_us(value, &config->exec_us);
    } else if (key == "pageable_async") {
      const std::string& mode = value.as_string("\"pageable_async\"");
      if (mode != "error" && mode != "sync") throw JsonError("\"pageable_async\" must be \"error\" or \"sync\"");
      config->pageable_sync = mode == "sync";
    } else if (key == "faults") {
      if (value.type != Json::kArray) throw JsonError("\"faults\" must be a list");
      for (auto& fault : value.items) add_fault_spec(fault);
    } else {
      throw JsonError(
          "unknown key \"" + key +
          "\"; known: devices, hbm_bytes, compute_engines, soc_name, h2d, d2h, exec_us, pageable_async, faults");
    }
  }
}

}  // namespace

const Config& config() {
  static auto* config = new Config;
  return *config;
}

std::string load_config(Config* config) {
  const char* given = std::getenv("GE_CORE_CPU_CONFIG");
  if (given == nullptr || *given == '\0') return "";
  std::string text = given, where;
  if (text.find_first_not_of(" \t\r\n") == std::string::npos || text[text.find_first_not_of(" \t\r\n")] != '{') {
    where = text + ": ";
    std::ifstream file(text);
    if (!file) return where + std::strerror(errno) + " (expected JSON text that begins with '{', or a file's path)";
    std::stringstream content;
    content << file.rdbuf();
    text = content.str();
  }
  try {
    read(Json::parse(text), config);
    return "";
  } catch (const JsonError& error) {
    return where + error.what();
  }
}

}  // namespace acl_cpu
