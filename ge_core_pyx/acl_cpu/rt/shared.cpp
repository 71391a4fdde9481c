// SPDX-License-Identifier: Apache-2.0
// One device for all processes of a user: how much memory each process holds, and when each engine is free.
//
// The state is a memfd that every process keeps open. A newcomer finds it through /proc/<pid>/fd of a process that has
// it, or makes it if nobody does, so it exists exactly as long as a process that uses it: nothing is left in a file
// system, not even after kill -9. Finding and making happen under a lock that the kernel drops with its holder: an
// abstract socket name. Memory of processes that died is given back when somebody next needs to know.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "internal.h"

namespace acl_cpu::shared {
namespace {

constexpr int kMaxProcesses = 512;
constexpr int kEngines = 3;

struct EngineState {
  pthread_mutex_t mutex;                // of the two below; survives the end of a process that holds it
  int64_t free_at[kMaxComputeEngines];  // CLOCK_MONOTONIC ns; copy engines use the first alone
  int64_t owner[kMaxComputeEngines];    // the process that took it last
  std::atomic<int64_t> busy;            // ns so far
};
struct Process {
  std::atomic<int64_t> pid;    // 0: slot free
  std::atomic<uint64_t> born;  // start time from /proc, tells a reused pid
  std::atomic<uint64_t> used[kMaxDevices];
};
struct State {
  EngineState engines[kMaxDevices][kEngines];
  Process processes[kMaxProcesses];
};

State* state = nullptr;
Process* self = nullptr;

std::string state_name() {
  char name[96];  // the size tells builds with another layout apart
  std::snprintf(name, sizeof name, "ge_core_cpu.%u.%d.%llx.%d.%zx", unsigned(getuid()), config().devices,
                static_cast<unsigned long long>(config().hbm_bytes), config().compute_engines, sizeof(State));
  return name;
}

// The start time of a living process, 0 for one that is gone or a zombie.
uint64_t born(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  char status = 0;
  unsigned long long start = 0;
  int read =
      std::sscanf(line.c_str() + name_end + 1,
                  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &status, &start);
  return read == 2 && status != 'Z' && status != 'X' ? start : 0;
}

class NameLock {
 public:
  explicit NameLock(const std::string& name) : socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    socklen_t length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    for (int attempt = 0; attempt < 5000; ++attempt) {
      if (bind(socket_, reinterpret_cast<sockaddr*>(&address), length) == 0 || errno != EADDRINUSE) return;
      usleep(1000);
    }
  }
  ~NameLock() { close(socket_); }

 private:
  int socket_;
};

void make_mutexes(State* made) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
  for (auto& engines : made->engines) {
    for (auto& engine : engines) pthread_mutex_init(&engine.mutex, &kind);
  }
  pthread_mutexattr_destroy(&kind);
}

class EngineLock {
 public:
  explicit EngineLock(EngineState& engine) : mutex_(&engine.mutex) {
    if (pthread_mutex_lock(mutex_) == EOWNERDEAD) pthread_mutex_consistent(mutex_);
  }
  ~EngineLock() { pthread_mutex_unlock(mutex_); }

 private:
  pthread_mutex_t* mutex_;
};

int find_memfd(const std::string& name) {
  const std::string wanted = "/memfd:" + name + " (deleted)";
  DIR* proc = opendir("/proc");
  int found = -1;
  for (dirent* entry; found < 0 && proc != nullptr && (entry = readdir(proc)) != nullptr;) {
    struct stat info;
    std::string folder = std::string("/proc/") + entry->d_name;
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || stat(folder.c_str(), &info) != 0) continue;
    if (info.st_uid != getuid()) continue;
    folder += "/fd";
    DIR* fds = opendir(folder.c_str());
    for (dirent* fd; found < 0 && fds != nullptr && (fd = readdir(fds)) != nullptr;) {
      char target[128];
      std::string path = folder + "/" + fd->d_name;
      ssize_t length = readlink(path.c_str(), target, sizeof target);
      if (length == ssize_t(wanted.size()) && wanted.compare(0, wanted.size(), target, size_t(length)) == 0) {
        found = open(path.c_str(), O_RDWR | O_CLOEXEC);
      }
    }
    if (fds != nullptr) closedir(fds);
  }
  if (proc != nullptr) closedir(proc);
  return found;
}

void reclaim_dead() {
  for (auto& process : state->processes) {
    int64_t pid = process.pid.load();
    if (pid == 0 || &process == self) continue;
    uint64_t start = born(pid);
    if (start != 0 && start == process.born.load()) continue;
    for (auto& used : process.used) used = 0;
    process.pid = 0;
  }
}

uint64_t sum_used(int device) {
  uint64_t total = 0;
  for (auto& process : state->processes) {
    if (process.pid.load(std::memory_order_relaxed) != 0) total += process.used[device].load();
  }
  return total;
}

}  // namespace

void attach() {
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  if (state != nullptr) return;
  std::string name = state_name();
  NameLock name_lock(name);
  int fd = find_memfd(name);
  bool made = fd < 0;
  if (made) {
    fd = memfd_create(name.c_str(), MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, sizeof(State)) != 0) {
      close(fd);
      fd = -1;
    }
  }
  void* map =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) std::abort();
  state = static_cast<State*>(map);
  if (made) make_mutexes(state);
  reclaim_dead();
  for (auto& process : state->processes) {
    if (process.pid.load() != 0) continue;
    self = &process;
    process.born = born(getpid());
    process.pid = getpid();
    break;
  }
  if (self == nullptr) self = new Process();  // 512 processes: this one's memory is not seen by the others
}

bool reserve_memory(int device, uint64_t nbytes) {
  for (bool retry : {true, false}) {
    self->used[device] += nbytes;
    if (sum_used(device) <= config().hbm_bytes) return true;
    self->used[device] -= nbytes;
    if (retry) {
      NameLock lock(state_name());
      reclaim_dead();
    }
  }
  return false;
}

void release_memory(int device, uint64_t nbytes) { self->used[device] -= nbytes; }

uint64_t used_memory(int device) {
  {
    NameLock lock(state_name());
    reclaim_dead();
  }
  return sum_used(device);
}

int64_t reserve_engine(int device, Engine engine, int64_t ready_ns, int64_t duration_ns) {
  EngineState& slot = state->engines[device][int(engine)];
  slot.busy.fetch_add(duration_ns, std::memory_order_relaxed);
  static const int64_t pid = getpid();
  int lanes = engine == Engine::kCompute ? config().compute_engines : 1;
  EngineLock lock(slot);
  int first = int(std::min_element(slot.free_at, slot.free_at + lanes) - slot.free_at);  // the one that is free first
  // What a process had queued ends with it, as the driver sees to on a real device.
  int64_t owner = slot.owner[first];
  bool free = slot.free_at[first] <= ready_ns || (owner != pid && born(owner) == 0);
  slot.free_at[first] = (free ? ready_ns : slot.free_at[first]) + duration_ns;
  slot.owner[first] = pid;
  return slot.free_at[first];
}

void add_busy(int device, Engine engine, int64_t duration_ns) {
  state->engines[device][int(engine)].busy.fetch_add(duration_ns, std::memory_order_relaxed);
}

int utilization(int device, Engine engine) {
  static auto* mutex = new std::mutex;
  static int64_t last_time[kMaxDevices][kEngines], last_busy[kMaxDevices][kEngines];
  std::lock_guard lock(*mutex);
  int64_t now = now_ns(), busy = state->engines[device][int(engine)].busy.load();
  int64_t &time_before = last_time[device][int(engine)], &busy_before = last_busy[device][int(engine)];
  int64_t window = now - time_before;
  int percent = time_before == 0 || window <= 0 ? 0 : int(std::min<int64_t>(100, (busy - busy_before) * 100 / window));
  time_before = now;
  busy_before = busy;
  return std::max(percent, 0);
}

}  // namespace acl_cpu::shared
