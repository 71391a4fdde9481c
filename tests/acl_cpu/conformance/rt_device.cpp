// SPDX-License-Identifier: Apache-2.0
// Init, version, devices, contexts (facts 2.2, 2.3, 2.4, 3.1, 3.2, 6.3).
#include <sys/wait.h>

#include "rt_harness.h"

CASE(init_once_succeeds, "3.1") { OK(aclInit(nullptr)); }

CASE(init_again_says_100002, "3.1") {
  OK(aclInit(nullptr));
  FAILS(aclInit(nullptr), 100002);
}

CASE(finalize_again_says_100037, "3.1") {
  OK(aclInit(nullptr));
  OK(aclFinalize());
  FAILS(aclFinalize(), 100037);
}

CASE(finalize_without_init_says_100037, "3.1") { FAILS(aclFinalize(), 100037); }

CASE(finalize_ignores_how_often_init_was_called, "3.1") {
  OK(aclInit(nullptr));
  FAILS(aclInit(nullptr), 100002);
  OK(aclFinalize());
  FAILS(aclFinalize(), 100037);
}

CASE(init_after_finalize_succeeds, "3.1") {
  OK(aclInit(nullptr));
  OK(aclFinalize());
  OK(aclInit(nullptr));
  OK(aclFinalize());
}

CASE(init_with_missing_file_says_100003, "2.2") { FAILS(aclInit("/nonexistent/acl.json"), 100003, 107000); }

static std::string written(const char* text) {
  char path[] = "/tmp/acl_init_XXXXXX";
  int file = mkstemp(path);
  TRUE(write(file, text, std::strlen(text)) == ssize_t(std::strlen(text)));
  close(file);
  return path;
}

CASE(init_with_bad_json_says_100006, "2.2") {
  std::string path = written("{\"dump\": ");
  FAILS(aclInit(path.c_str()), 100006, 107000);
  unlink(path.c_str());
}

CASE(init_with_json_nested_deeper_than_10_says_100006, "2.2") {
  std::string path = written("{\"a\":[[[[[[[[[[[[1]]]]]]]]]]]]}");
  FAILS(aclInit(path.c_str()), 100006, 107000);
  unlink(path.c_str());
}

CASE(init_accepts_an_empty_object, "3.1") {
  std::string path = written("{}");
  OK(aclInit(path.c_str()));
  unlink(path.c_str());
}

CASE(init_with_another_config_says_100000, "2.2") {
  std::string path = written("{\"err_msg_mode\": \"1\"}");
  OK(aclInit(nullptr));
  FAILS(aclInit(path.c_str()), 100000);
  unlink(path.c_str());
}

CASE(calls_work_without_init, "2.2") {
  OK(aclrtSetDevice(0));
  Device memory(64);
  TRUE(memory.at != nullptr);
}

CASE_9(finalize_reference_counts_down, "3.1") {
  uint64_t left = 9;
  OK(aclInit(nullptr));
  FAILS(aclInit(nullptr), 100002);
  OK(aclFinalizeReference(&left));
  EXPECT(left, 1);
  OK(aclFinalizeReference(&left));
  EXPECT(left, 0);
  FAILS(aclFinalizeReference(&left), 100037);
}

static int phase_calls = 0;
CASE_9(init_and_finalize_callbacks_run, "2.2") {
  auto on_init = [](const char*, size_t, void* data) -> aclError {
    phase_calls += *static_cast<int*>(data);
    return 0;
  };
  auto on_finalize = [](void* data) -> aclError {
    phase_calls += *static_cast<int*>(data);
    return 0;
  };
  int one = 1, ten = 10;
  OK(aclInitCallbackRegister(ACL_REG_TYPE_OTHER, on_init, &one));
  OK(aclFinalizeCallbackRegister(ACL_REG_TYPE_OTHER, on_finalize, &ten));
  OK(aclInit(nullptr));
  OK(aclFinalize());
  EXPECT(phase_calls, 11);
  OK(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init));
  FAILS(aclInitCallbackUnRegister(ACL_REG_TYPE_OTHER, on_init), 100000);
}

CASE(version_of_the_api, "1.6") {
  int32_t major = 0, minor = 0, patch = -1;
  OK(aclrtGetVersion(&major, &minor, &patch));
  EXPECT(major, 1);
  TRUE(minor >= 13);
  EXPECT(patch, 0);
  FAILS(aclrtGetVersion(nullptr, &minor, &patch), 100000);
}

CPU_CASE(cann_version_follows_the_release, "1.6") {
  aclCANNPackageVersion version;
  OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  TRUE(std::strncmp(version.version, CONFORMANCE_API >= 9 ? "9." : "8.1", 2) == 0);
  FAILS(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, nullptr), 100000);
}

CASE(soc_name_is_known_before_set_device, "1.6") {
  const char* name = aclrtGetSocName();
  TRUE(name != nullptr && std::strncmp(name, "Ascend", 6) == 0);
}

CPU_CASE(soc_name_comes_from_the_configuration, "design 5") {
  configure("{\"soc_name\": \"Ascend310P3\"}");
  TRUE(std::strcmp(aclrtGetSocName(), "Ascend310P3") == 0);
}

CASE(run_mode_is_host, "2.3") {
  aclrtRunMode mode = ACL_DEVICE;
  OK(aclrtGetRunMode(&mode));
  EXPECT(mode, ACL_HOST);
  FAILS(aclrtGetRunMode(nullptr), 100000);
}

CPU_CASE(device_count_comes_from_the_configuration, "design 5") {
  configure("{\"devices\": 3}");
  uint32_t count = 0;
  OK(aclrtGetDeviceCount(&count));
  EXPECT(count, 3);
  FAILS(aclrtGetDeviceCount(nullptr), 100000);
  OK(aclrtSetDevice(2));
  FAILS(aclrtSetDevice(3), 107001);
  FAILS(aclrtSetDevice(-1), 107001);
}

CPU_CASE(visible_devices_are_renumbered, "6.3") {
  configure("{\"devices\": 4}");
  setenv("ASCEND_RT_VISIBLE_DEVICES", "1,3", 1);
  uint32_t count = 0;
  OK(aclrtGetDeviceCount(&count));
  EXPECT(count, 2);
  OK(aclrtSetDevice(1));
  FAILS(aclrtSetDevice(2), 107001);
}

CPU_CASE(visible_devices_stop_at_the_first_bad_entry, "6.3") {
  configure("{\"devices\": 4}");
  setenv("ASCEND_RT_VISIBLE_DEVICES", "2,x,3", 1);
  uint32_t count = 0;
  OK(aclrtGetDeviceCount(&count));
  EXPECT(count, 1);
}

CPU_CASE(no_visible_device_says_207004_and_107001, "6.3") {
  setenv("ASCEND_RT_VISIBLE_DEVICES", "7", 1);
  uint32_t count = 0;
  FAILS(aclrtGetDeviceCount(&count), 207004);
  FAILS(aclrtSetDevice(0), 107001);
}

CASE(a_thread_without_context_gets_107002, "3.2") {
  int32_t device;
  aclrtContext context;
  aclrtStream stream;
  aclrtEvent event;
  void* memory;
  FAILS(aclrtGetDevice(&device), 107002);
  FAILS(aclrtGetCurrentContext(&context), 107002);
  FAILS(aclrtCreateStream(&stream), 107002);
  FAILS(aclrtCreateEvent(&event), 107002);
  FAILS(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), 107002);
  FAILS(aclrtMallocHost(&memory, 64), 107002);
  FAILS(aclrtSynchronizeDevice(), 107002);
  FAILS(aclrtSynchronizeStream(nullptr), 107002);
}

CASE(the_current_context_is_thread_local, "3.2") {
  Session session;
  std::thread([] {
    int32_t device;
    FAILS(aclrtGetDevice(&device), 107002);
    OK(aclrtSetDevice(0));
    OK(aclrtGetDevice(&device));
    OK(aclrtResetDevice(0));
  }).join();
  int32_t device = -1;
  OK(aclrtGetDevice(&device));
  EXPECT(device, 0);
}

CASE(threads_that_set_one_device_share_its_default_context, "3.2") {
  Session session;
  aclrtContext mine, other = nullptr;
  OK(aclrtGetCurrentContext(&mine));
  std::thread([&] {
    OK(aclrtSetDevice(0));
    OK(aclrtGetCurrentContext(&other));
    OK(aclrtResetDevice(0));
  }).join();
  TRUE(mine == other);
}

CASE(set_device_counts_and_reset_ends_at_zero, "3.2") {
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  OK(aclrtSetDevice(0));
  OK(aclrtResetDevice(0));
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  OK(aclrtDestroyStream(stream));
  OK(aclrtResetDevice(0));
  FAILS(aclrtCreateStream(&stream), 107002);
}

CASE(one_reset_too_many_is_an_error, "3.2") {
  OK(aclrtSetDevice(0));
  OK(aclrtResetDevice(0));
  TRUE(aclrtResetDevice(0) != ACL_SUCCESS);
}

CASE(forced_reset_ignores_the_count, "3.2") {
  OK(aclrtSetDevice(0));
  OK(aclrtSetDevice(0));
  OK(aclrtResetDeviceForce(0));
  int32_t device;
  FAILS(aclrtGetDevice(&device), 107002);
  OK(aclrtSetDevice(0));
  OK(aclrtResetDevice(0));
}

CASE(reset_waits_for_queued_work, "3.2") {
  OK(aclrtSetDevice(0));
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  static std::atomic<int> ran{0};
  {
    CallbackThread callbacks;
    OK(aclrtSubscribeReport(callbacks.id, stream));
    OK(aclrtLaunchCallback([](void*) { usleep(20000), ran = 1; }, nullptr, ACL_CALLBACK_BLOCK, stream));
    OK(aclrtSynchronizeStream(stream));
    OK(aclrtUnSubscribeReport(callbacks.id, stream));
  }
  OK(aclrtResetDevice(0));
  EXPECT(ran, 1);
}

CPU_CASE(reset_frees_device_memory, "3.1") {
  OK(aclrtSetDevice(0));
  void* memory;
  OK(aclrtMalloc(&memory, 1000, ACL_MEM_MALLOC_HUGE_FIRST));
  EXPECT(counter("live.device_memory"), 1);
  OK(aclrtResetDevice(0));
  EXPECT(counter("live.device_memory"), 0);
  EXPECT(counter("bytes.device"), 0);
  FAILS(aclrtFree(memory), 507899);
}

CASE(create_context_makes_it_current, "3.2") {
  OK(aclInit(nullptr));
  aclrtContext made, current;
  OK(aclrtCreateContext(&made, 0));
  OK(aclrtGetCurrentContext(&current));
  TRUE(made == current);
  int32_t device = -1;
  OK(aclrtGetDevice(&device));
  EXPECT(device, 0);
  OK(aclrtDestroyContext(made));
  FAILS(aclrtGetCurrentContext(&current), 107002);
}

CASE(set_current_context_binds_another_thread, "3.2") {
  Session session;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  std::thread([&] {
    OK(aclrtSetCurrentContext(context));
    Device memory(128);
    TRUE(memory.at != nullptr);
  }).join();
}

CASE(set_current_context_adds_no_count, "3.2") {
  OK(aclrtSetDevice(0));
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  std::thread([&] { OK(aclrtSetCurrentContext(context)); }).join();
  OK(aclrtResetDevice(0));
  TRUE(aclrtResetDevice(0) != ACL_SUCCESS);
}

CASE(the_default_context_cannot_be_destroyed, "3.2") {
  Session session;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  TRUE(aclrtDestroyContext(context) != ACL_SUCCESS);
}

CASE(null_contexts_are_refused, "2.4") {
  Session session;
  FAILS(aclrtCreateContext(nullptr, 0), 100000);
  FAILS(aclrtDestroyContext(nullptr), 100000);
  FAILS(aclrtSetCurrentContext(nullptr), 100000);
  FAILS(aclrtGetCurrentContext(nullptr), 100000);
}

CPU_CASE(a_destroyed_context_is_refused, "design 5") {
  Session session;
  aclrtContext context;
  OK(aclrtCreateContext(&context, 0));
  OK(aclrtDestroyContext(context));
  FAILS(aclrtSetCurrentContext(context), 107002);
  FAILS(aclrtDestroyContext(context), 107002);
  OK(aclrtSetDevice(0));
  OK(aclrtResetDevice(0));
}

CPU_CASE(a_stream_under_another_device_gets_107003, "3.2") {
  configure("{\"devices\": 2}");
  OK(aclrtSetDevice(0));
  aclrtStream stream;
  OK(aclrtCreateStream(&stream));
  Device memory(64);
  Pinned host(64);
  OK(aclrtSetDevice(1));
  FAILS(aclrtMemcpyAsync(memory.at, 64, host.at, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), 107003);
  aclrtStreamStatus status;
  OK(aclrtSynchronizeStream(stream));
  OK(aclrtStreamQuery(stream, &status));
  OK(aclrtResetDevice(1));
  OK(aclrtSetDevice(0));
  OK(aclrtDestroyStream(stream));
}

CASE(utilization_wants_no_extension, "2.3") {
  OK(aclrtSetDevice(0));
  aclrtUtilizationInfo info = {};
  OK(aclrtGetDeviceUtilizationRate(0, &info));
  EXPECT(info.memoryUtilization, -1);
  TRUE(info.cubeUtilization >= -1 && info.cubeUtilization <= 100);
  info.utilizationExtend = reinterpret_cast<aclrtUtilizationExtendInfo*>(&info);
  FAILS(aclrtGetDeviceUtilizationRate(0, &info), 100000);
  FAILS(aclrtGetDeviceUtilizationRate(0, nullptr), 100000);
}

CASE(device_status_is_normal, "3.11") {
  OK(aclrtSetDevice(0));
  aclrtDeviceStatus status = ACL_RT_DEVICE_STATUS_END;
  OK(aclrtQueryDeviceStatus(0, &status));
  EXPECT(status, ACL_RT_DEVICE_STATUS_NORMAL);
}

CASE(last_error_is_kept_until_read, "3.2") {
  Session session;
  FAILS(aclrtSetDevice(-5), 107001);
  EXPECT(aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL), 107001);
  EXPECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 107001);
  EXPECT(aclrtGetLastError(ACL_RT_THREAD_LEVEL), 0);
}

CASE(recent_message_is_cleared_by_reading, "2.9") {
  Session session;
  EXPECT(aclrtFree(nullptr), 100000);
  const char* message = aclGetRecentErrMsg();
  TRUE(message != nullptr && message[0] == 'E');
  TRUE(aclGetRecentErrMsg() == nullptr);
}

CASE(recent_message_is_thread_local, "2.9") {
  Session session;
  EXPECT(aclrtFree(nullptr), 100000);
  std::thread([] { TRUE(aclGetRecentErrMsg() == nullptr); }).join();
  TRUE(aclGetRecentErrMsg() != nullptr);
}

CPU_CASE(newest_message_comes_first, "2.9") {
  Session session;
  EXPECT(aclrtFree(nullptr), 100000);
  EXPECT(aclrtSetDevice(-5), 107001);
  std::string text = aclGetRecentErrMsg();
  TRUE(text.find("107001") < text.find("100000"));
}

CASE(op_timeouts_are_accepted, "2.3") {
  Session session;
  OK(aclrtSetOpWaitTimeout(30));
  OK(aclrtSetOpExecuteTimeOut(60));
  OK(aclrtSetOpExecuteTimeOutWithMs(5000));
}

CASE(synchronize_device_waits_for_every_stream, "2.3") {
  Held held;
  FAILS(aclrtSynchronizeDeviceWithTimeout(20), 507046);
  held.release();
  OK(aclrtSynchronizeDevice());
}

CPU_CASE(unknown_configuration_key_is_an_error, "design 5") {
  configure("{\"device\": 2}");
  FAILS(aclrtSetDevice(0), 100000);
  EXPECT(aclInit(nullptr), 100000);
  const char* why = std::strstr(aclGetRecentErrMsg(), "\"device\"");
  TRUE(why != nullptr && std::strstr(why + 1, "\"device\"") == nullptr);  // said once
}

CPU_CASE(configuration_may_be_a_file, "design 5") {
  std::string path = written("{\"devices\": 2}");
  configure(path.c_str());
  uint32_t count = 0;
  OK(aclrtGetDeviceCount(&count));
  EXPECT(count, 2);
  unlink(path.c_str());
}

CPU_CASE(missing_configuration_file_is_an_error, "design 5") {
  configure("/nonexistent/cpu.json");
  FAILS(aclInit(nullptr), 100000);
}

CPU_CASE(a_forked_child_is_refused, "3.3") {
  Session session;
  pid_t child = fork();
  if (child == 0) {
    aclrtStream stream;
    bool refused = aclrtCreateStream(&stream) == 107002 && std::strstr(aclGetRecentErrMsg(), "fork") != nullptr;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  TRUE(waitpid(child, &status, 0) == child);
  EXPECT(status, 0);
}

CPU_CASE(unsupported_calls_say_so, "7") {
  Session session;
  void* address;
  FAILS(aclrtReserveMemAddress(&address, 4096, 0, nullptr, 0), 207000);
  EXPECT(aclmdlInitDump(), 207000);
  TRUE(std::strstr(aclGetRecentErrMsg(), "aclmdlInitDump") != nullptr);
}

CPU_CASE(peer_access_lets_devices_copy, "3.5") {
  configure("{\"devices\": 2}");
  OK(aclrtSetDevice(0));
  Device first(256);
  OK(aclrtMemset(first.at, 256, 5, 256));
  OK(aclrtSetDevice(1));
  {
    Device second(256);
    TRUE(aclrtMemcpy(second.at, 256, first.at, 256, ACL_MEMCPY_DEVICE_TO_DEVICE) != ACL_SUCCESS);
    int32_t can = 0;
    OK(aclrtDeviceCanAccessPeer(&can, 1, 0));
    EXPECT(can, 1);
    OK(aclrtDeviceEnablePeerAccess(0, 0));
    OK(aclrtMemcpy(second.at, 256, first.at, 256, ACL_MEMCPY_DEVICE_TO_DEVICE));
    unsigned char back[256];
    OK(aclrtMemcpy(back, 256, second.at, 256, ACL_MEMCPY_DEVICE_TO_HOST));
    EXPECT(back[255], 5);
  }
  OK(aclrtResetDevice(1));
  OK(aclrtSetDevice(0));
}

CASE_9(primary_context_state, "2.4") {
  int32_t active = -1;
  uint32_t flags = 7;
  OK(aclrtGetPrimaryCtxState(0, &flags, &active));
  EXPECT(active, 0);
  OK(aclrtSetDevice(0));
  OK(aclrtGetPrimaryCtxState(0, &flags, &active));
  EXPECT(active, 1);
}
