// SPDX-License-Identifier: Apache-2.0
// Counters, injected faults and error texts, and the acl_cpu_* hooks that expose them to tests and benches.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <deque>

#include "internal.h"
#include "json.h"

namespace acl_cpu {
namespace {

struct Fault {
  Entry entry;
  int64_t kth;
  std::string effect;
  aclError code;
  double delay_us;
};

struct ThreadState {
  std::deque<std::string> messages;  // newest first
  std::string returned;
  std::string counters;
  aclError last_error = ACL_SUCCESS;
  TaskFault task_fault;
};

// It goes with its thread. Exit handlers and static destructors may call later still: they get one that stays.
thread_local ThreadState* thread_state_now = nullptr;
struct ThreadEnd {
  ~ThreadEnd() { delete std::exchange(thread_state_now, nullptr); }
};
ThreadState& thread_state() {
  if (thread_state_now == nullptr) {
    thread_state_now = new ThreadState;
    static thread_local ThreadEnd end;
  }
  return *thread_state_now;
}

const char* const kEntryNames[] = {
#define ENTRY_NAME(release, library, ret, name, args) #name,
    ACL_FUNCTIONS(ENTRY_NAME)
#undef ENTRY_NAME
};
const char* const kKindNames[] = {"stream",      "event",       "context", "model",         "dataset",
                                  "data_buffer", "tensor_desc", "desc",    "device_memory", "host_memory"};
static_assert(std::size(kKindNames) == size_t(Kind::kCount));

std::mutex fault_mutex;
std::vector<Fault>& faults() {
  static auto* all = new std::vector<Fault>;
  return *all;
}
std::atomic<int64_t> live[int(Kind::kCount)];
std::atomic<bool> forked{false};
auto& config_error = *new std::string;  // not destroyed at exit

Entry entry_of(const std::string& name) {
  auto found = std::find(std::begin(kEntryNames), std::end(kEntryNames), name);
  return Entry(found - std::begin(kEntryNames));
}

void update_slow() { entry_slow = forked || !config_error.empty() || !faults().empty(); }

const char* code_line(aclError code) {
  switch (code) {
    case ACL_ERROR_RT_MEMORY_ALLOCATION:
    case ACL_ERROR_RT_DEVICE_OOM:
      return "EL0004";
    case ACL_ERROR_RT_FEATURE_NOT_SUPPORT:
    case ACL_ERROR_API_NOT_SUPPORT:
      return "EE1006";
    case ACL_ERROR_GE_FAILURE:
      return "E19999";
    default:
      switch (code / 1000) {
        case 100:
        case 148:
          return "EH0001";
        case 107:
          return "EE1001";
        case 145:
        case 245:
        case 545:
          return "E19999";
        default:
          return "EE9999";
      }
  }
}

bool starts_with_code(const char* text) {
  size_t length = 0;
  if (text[0] != 'E') return false;
  while (std::isupper(static_cast<unsigned char>(text[length]))) ++length;
  size_t letters = length;
  while (std::isdigit(static_cast<unsigned char>(text[length]))) ++length;
  return length - letters >= 4 && text[length] == ':';
}

}  // namespace

std::atomic<uint64_t> entry_calls[kEntryCount];
std::atomic<bool> entry_slow{true};

void set_last_error(aclError code) { thread_state().last_error = code; }

aclError fail(aclError code, const char* fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  std::vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  std::string message = starts_with_code(text) ? text : std::string(code_line(code)) + ": " + text;
  auto& messages = thread_state().messages;
  messages.push_front(message + " [" + std::to_string(code) + "]");
  if (messages.size() > 16) messages.pop_back();
  thread_state().last_error = code;
  return code;
}

std::string take_messages() {
  std::string all;
  for (auto& message : thread_state().messages) all += (all.empty() ? "" : "\n") + message;
  thread_state().messages.clear();
  return all;
}

aclError unsupported(Entry, const char* name, aclError code) {
  return fail(code, "%s is not supported by the CPU implementation of AscendCL", name);
}

void mark_forked() {
  forked = true;
  entry_slow = true;
}

std::string load_config_once() {
  static auto* mutex = new std::mutex;
  static bool loaded = false;
  std::lock_guard lock(*mutex);
  if (!loaded) {
    std::string error = load_config(&const_cast<Config&>(config()));
    std::lock_guard faults_lock(fault_mutex);
    config_error = error;
    loaded = true;
    update_slow();
  }
  return config_error;
}

aclError enter_slow(Entry entry) {
  if (forked) {
    return fail(ACL_ERROR_RT_CONTEXT_NULL,
                "%s: this process was forked after it had used AscendCL, and a child cannot use its parent's device; "
                "start the child with spawn or exec",
                kEntryNames[entry]);
  }
  if (std::string error = load_config_once(); !error.empty()) {
    return fail(ACL_ERROR_INVALID_PARAM, "GE_CORE_CPU_CONFIG: %s", error.c_str());
  }
  Fault hit{};
  {
    std::lock_guard lock(fault_mutex);
    auto& all = faults();
    for (auto fault = all.begin(); fault != all.end();) {
      if (fault->entry == entry && --fault->kth == 0) {
        hit = *fault;
        fault = all.erase(fault);
      } else {
        ++fault;
      }
    }
    update_slow();
  }
  if (hit.effect.empty()) return ACL_SUCCESS;
  if (hit.effect == "call") return fail(hit.code, "%s: injected fault", kEntryNames[entry]);
  if (hit.effect == "device_lost") {
    Context* context;
    if (current_context(&context) == ACL_SUCCESS) lose_device(context_device(context));
  } else {
    TaskFault::Effect effect = hit.effect == "task"   ? TaskFault::kFail
                               : hit.effect == "hang" ? TaskFault::kHang
                                                      : TaskFault::kDelay;
    thread_state().task_fault = {effect, hit.code, hit.delay_us};
  }
  return ACL_SUCCESS;
}

TaskFault take_task_fault() { return std::exchange(thread_state().task_fault, TaskFault()); }

static void check_fault(const Json& spec, Fault* fault) {
  if (spec.type != Json::kObject) throw JsonError("a fault must be an object");
  *fault = {kEntryCount, 1, "call", ACL_ERROR_RT_AICORE_EXCEPTION, 0};
  for (auto& [key, value] : spec.members) {
    if (key == "entry") {
      fault->entry = entry_of(value.as_string("\"entry\""));
      if (fault->entry == kEntryCount) throw JsonError("no entry point is called \"" + value.string + "\"");
    } else if (key == "kth") {
      fault->kth = value.as_integer("\"kth\"", 1, INT64_MAX / 2);
    } else if (key == "code") {
      fault->code = aclError(value.as_integer("\"code\"", 1, INT_MAX));
    } else if (key == "delay_us") {
      fault->delay_us = value.as_number("\"delay_us\"", 0, 1e12);
    } else if (key == "effect") {
      static const char* const kEffects[] = {"call", "task", "hang", "delay", "device_lost"};
      fault->effect = value.as_string("\"effect\"");
      if (std::find(std::begin(kEffects), std::end(kEffects), fault->effect) == std::end(kEffects)) {
        throw JsonError("\"effect\" must be call, task, hang, delay or device_lost, not \"" + fault->effect + "\"");
      }
    } else {
      throw JsonError("unknown key \"" + key + "\" in a fault; known: entry, kth, effect, code, delay_us");
    }
  }
  if (fault->entry == kEntryCount) throw JsonError("a fault needs \"entry\", the name of an entry point");
}

void add_fault_spec(const Json& spec) {
  Fault fault;
  check_fault(spec, &fault);
  std::lock_guard lock(fault_mutex);
  faults().push_back(fault);
  update_slow();
}

std::string add_fault(const std::string& json) {
  try {
    add_fault_spec(Json::parse(json));
    return "";
  } catch (const JsonError& error) {
    return error.what();
  }
}

void live_add(Kind kind, int delta) { live[int(kind)].fetch_add(delta, std::memory_order_relaxed); }

// Bytes now and at peak; memory.cpp counts them.
extern std::atomic<int64_t> device_bytes, pinned_bytes, device_peak, pinned_peak;
std::atomic<int64_t> device_bytes, pinned_bytes, device_peak, pinned_peak;

}  // namespace acl_cpu

using namespace acl_cpu;

static int64_t counter(const std::string& name) {
  if (name == "bytes.device") return device_bytes;
  if (name == "bytes.pinned") return pinned_bytes;
  if (name == "peak.device") return device_peak;
  if (name == "peak.pinned") return pinned_peak;
  if (name.compare(0, 6, "calls.") == 0) {
    Entry entry = entry_of(name.substr(6));
    return entry == kEntryCount ? -1 : int64_t(entry_calls[entry].load(std::memory_order_relaxed));
  }
  if (name.compare(0, 5, "live.") == 0) {
    for (size_t kind = 0; kind < std::size(kKindNames); ++kind) {
      if (name.substr(5) == kKindNames[kind]) return live[kind].load(std::memory_order_relaxed);
    }
  }
  return -1;
}

#pragma GCC visibility push(default)
extern "C" {

const char* aclGetRecentErrMsg(void) {
  count_call(k_aclGetRecentErrMsg);  // no fault: it would add to the text
  if (thread_state().messages.empty()) return nullptr;
  thread_state().returned = take_messages();
  return thread_state().returned.c_str();
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  ACL_CPU_ENTRY(aclrtPeekAtLastError);
  if (level != ACL_RT_THREAD_LEVEL) return fail(ACL_ERROR_RT_PARAM_INVALID, "level must be ACL_RT_THREAD_LEVEL (0)");
  return thread_state().last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  ACL_CPU_ENTRY(aclrtGetLastError);
  if (level != ACL_RT_THREAD_LEVEL) return fail(ACL_ERROR_RT_PARAM_INVALID, "level must be ACL_RT_THREAD_LEVEL (0)");
  return std::exchange(thread_state().last_error, ACL_SUCCESS);
}

void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...) {
  enter(k_aclAppLog);  // approximate: printed with ASCEND_SLOG_PRINT_TO_STDOUT=1; no log files
  static const char* const kLevels[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
  const char* threshold = std::getenv("ASCEND_GLOBAL_LOG_LEVEL");
  const char* shown = std::getenv("ASCEND_SLOG_PRINT_TO_STDOUT");
  int lowest = threshold != nullptr && std::isdigit(static_cast<unsigned char>(*threshold)) ? *threshold - '0' : 3;
  if (fmt == nullptr || logLevel < ACL_DEBUG || logLevel > ACL_ERROR || logLevel < lowest) return;
  if (shown == nullptr || std::strcmp(shown, "1") != 0) return;
  char text[1024];
  va_list args;
  va_start(args, fmt);
  std::vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  std::printf("[%s] APP(%d) %s:%u %s: %s\n", kLevels[logLevel], int(getpid()), file == nullptr ? "" : file, line,
              func == nullptr ? "" : func, text);
}

int64_t acl_cpu_counter(const char* name) { return name == nullptr ? -1 : counter(name); }

const char* acl_cpu_counters_json(void) {
  std::string& json = thread_state().counters;
  json = "{\"calls\": {";
  const char* separator = "";
  for (int entry = 0; entry < kEntryCount; ++entry) {
    uint64_t calls = entry_calls[entry].load(std::memory_order_relaxed);
    if (calls == 0) continue;
    json += separator + ("\"" + std::string(kEntryNames[entry]) + "\": ") + std::to_string(calls);
    separator = ", ";
  }
  json += "}, \"live\": {";
  separator = "";
  for (size_t kind = 0; kind < std::size(kKindNames); ++kind) {
    json += separator + ("\"" + std::string(kKindNames[kind]) + "\": ") + std::to_string(live[kind].load());
    separator = ", ";
  }
  json += "}";
  for (const char* group : {"bytes", "peak"}) {
    std::string name = group;
    json += ", \"" + name + "\": {\"device\": " + std::to_string(counter(name + ".device")) +
            ", \"pinned\": " + std::to_string(counter(name + ".pinned")) + "}";
  }
  json += "}";
  return json.c_str();
}

int acl_cpu_fail(const char* entry, int64_t kth, int code) {
  Entry found = entry == nullptr ? kEntryCount : entry_of(entry);
  if (found == kEntryCount || kth < 0) return -1;
  load_config_once();
  std::lock_guard lock(fault_mutex);
  auto& all = faults();
  if (kth == 0) {
    all.erase(std::remove_if(all.begin(), all.end(), [&](const Fault& fault) { return fault.entry == found; }),
              all.end());
  } else {
    all.push_back({found, kth, "call", code, 0});
  }
  update_slow();
  return 0;
}

// A fault as in GE_CORE_CPU_CONFIG's "faults", as JSON text. 0, or -1 with the reason in aclGetRecentErrMsg().
int acl_cpu_inject(const char* fault_json) {
  load_config_once();
  std::string error = add_fault(fault_json == nullptr ? "" : fault_json);
  if (error.empty()) return 0;
  fail(ACL_ERROR_INVALID_PARAM, "%s", error.c_str());
  return -1;
}

void acl_cpu_reset_counters(void) {
  for (auto& calls : entry_calls) calls = 0;
  device_peak = device_bytes.load();
  pinned_peak = pinned_bytes.load();
}

}  // extern "C"
#pragma GCC visibility pop
