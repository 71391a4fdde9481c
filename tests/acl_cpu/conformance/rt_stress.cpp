// SPDX-License-Identifier: Apache-2.0
// Many threads, mixed calls, random faults: every call succeeds or returns a documented code, and nothing leaks.
#include <signal.h>

#include <random>

#include "rt_harness.h"

static bool documented(aclError code) {
  switch (code) {
    case ACL_SUCCESS:
#define CODE(name, value) case value:
      ACL_ERRORS(CODE)
#undef CODE
      return true;
    default:
      return false;
  }
}

static void checked(aclError code) {
  if (!documented(code)) EXPECT(code, ACL_SUCCESS);
}

// One thread's own objects; each round makes, uses or ends one of them.
struct Worker {
  std::mt19937 random;
  std::vector<aclrtStream> streams;
  std::vector<aclrtEvent> events;
  std::vector<void*> device, host;

  explicit Worker(unsigned seed) : random(seed) {}
  size_t pick(size_t count) { return random() % count; }

  template <typename T>
  T any(const std::vector<T>& all) {
    return all.empty() ? nullptr : all[pick(all.size())];
  }
  template <typename T, typename End>
  void end_one(std::vector<T>& all, End end) {
    if (all.empty()) return;
    size_t index = pick(all.size());
    aclError code = end(all[index]);
    checked(code);
    if (code != ACL_SUCCESS) return;
    all[index] = all.back();
    all.pop_back();
  }
  template <typename T, typename Make>
  void make_one(std::vector<T>& all, Make make) {
    T made = nullptr;
    aclError code = all.size() < 4 ? make(&made) : ACL_SUCCESS;
    checked(code);
    if (code == ACL_SUCCESS && made != nullptr) all.push_back(made);
  }

  void step() {
    static constexpr size_t kSize = 4096;
    aclrtStream stream = any(streams);
    aclrtEvent event = any(events);
    void *on_device = any(device), *on_host = any(host);
    aclrtStreamStatus stream_status;
    aclrtEventRecordedStatus event_status;
    size_t free_bytes, total_bytes;
    switch (pick(16)) {
      case 0:
        return make_one(streams, [](aclrtStream* out) { return aclrtCreateStream(out); });
      case 1:
        return make_one(events, [](aclrtEvent* out) { return aclrtCreateEventExWithFlag(out, ACL_EVENT_SYNC); });
      case 2:
        return make_one(device, [](void** out) { return aclrtMalloc(out, kSize, ACL_MEM_MALLOC_HUGE_FIRST); });
      case 3:
        return make_one(host, [](void** out) { return aclrtMallocHost(out, kSize); });
      case 4:
        return end_one(streams, aclrtDestroyStream);
      case 5:
        return end_one(events, aclrtDestroyEvent);
      case 6:
        return end_one(device, aclrtFree);
      case 7:
        return end_one(host, aclrtFreeHost);
      case 8:
        if (stream != nullptr) checked(aclrtSynchronizeStream(stream));
        return;
      case 9:
        if (stream != nullptr && event != nullptr) checked(aclrtRecordEvent(event, stream));
        return;
      case 10:
        if (stream != nullptr && event != nullptr) checked(aclrtStreamWaitEvent(stream, event));
        return;
      case 11:
        if (stream != nullptr) checked(aclrtStreamQuery(stream, &stream_status));
        if (event != nullptr) checked(aclrtQueryEventStatus(event, &event_status));
        return;
      case 12:
        checked(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total_bytes));
        return;
      case 13:
        if (stream != nullptr && pick(10) == 0) checked(aclrtStreamAbort(stream));
        return;
      case 14:
        if (stream == nullptr || on_device == nullptr || on_host == nullptr) return;
        checked(aclrtMemcpyAsync(on_device, kSize, on_host, kSize, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        checked(aclrtSynchronizeStream(stream));
        return;
      default:
        if (on_device == nullptr || on_host == nullptr) return;
        checked(aclrtMemcpy(on_host, kSize, on_device, kSize, ACL_MEMCPY_DEVICE_TO_HOST));
    }
  }

  void end() {
    for (auto* stream : streams) OK(aclrtDestroyStream(stream));
    for (auto* event : events) OK(aclrtDestroyEvent(event));
    for (auto* memory : device) OK(aclrtFree(memory));
    for (auto* memory : host) OK(aclrtFreeHost(memory));
  }
};

CPU_CASE(random_calls_of_64_threads_with_random_faults, "design 5") {
  static const char* const kFaulty[] = {
      "aclrtCreateStream", "aclrtCreateEventExWithFlag", "aclrtMalloc", "aclrtMallocHost", "aclrtMemcpyAsync",
      "aclrtRecordEvent",  "aclrtStreamQuery",           "aclrtMemcpy", "aclrtFree"};
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  std::vector<Worker> workers;
  for (unsigned id = 0; id < 64; ++id) workers.emplace_back(id);
  std::vector<std::thread> threads;
  for (auto& worker : workers) {
    threads.emplace_back([&worker, context] {
      OK(aclrtSetCurrentContext(context));
      for (int round = 0; round < 1000; ++round) {
        if (worker.pick(100) == 0) {
          fail_call(kFaulty[worker.pick(std::size(kFaulty))], int64_t(1 + worker.pick(50)), 507899);
        }
        if (worker.pick(200) == 0) inject("{\"entry\": \"aclrtMemcpyAsync\", \"effect\": \"task\", \"code\": 507015}");
        worker.step();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto* entry : kFaulty) fail_call(entry, 0, 0);
  for (auto& worker : workers) worker.end();
  for (auto* name :
       {"live.stream", "live.event", "live.device_memory", "live.host_memory", "bytes.device", "bytes.pinned"}) {
    EXPECT(counter(name), 0);
  }
  OK(aclrtResetDevice(0));
  OK(aclFinalize());
  EXPECT(counter("live.context"), 0);
}

CPU_CASE(calls_from_exit_handlers_and_static_destructors, "3.1") {
  static struct Late {
    ~Late() {
      for (int i = 0; i < 50; ++i) FAILS(aclrtFree(nullptr), 100000);
      OK(aclFinalize());
    }
  } late;
  thread_local struct Thread {
    ~Thread() {
      for (int i = 0; i < 50; ++i) aclrtFree(nullptr);
    }
  } thread;
  (void)&late, (void)&thread;
  std::atexit([] {
    for (int i = 0; i < 50; ++i) FAILS(aclrtFree(nullptr), 100000);
  });
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  FAILS(aclrtFree(nullptr), 100000);
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  void* memory;
  OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  for (int i = 0; i < 1000; ++i) OK(aclrtMemsetAsync(memory, 64, 1, 64, stream));
}

CPU_CASE(signals_of_the_process_are_for_the_program, "design 5") {
  static std::atomic<int> handled{0};
  signal(SIGUSR1, [](int) { ++handled; });
  WithStream session;
  Device memory(64);
  OK(aclrtMemsetAsync(memory.at, 64, 1, 64, session.stream));
  OK(aclrtSynchronizeStream(session.stream));
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  kill(getpid(), SIGUSR1);
  usleep(20000);
  EXPECT(handled.load(), 0);
  timespec soon{5, 0};
  EXPECT(sigtimedwait(&blocked, nullptr, &soon), SIGUSR1);
}
