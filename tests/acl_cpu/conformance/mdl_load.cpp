// SPDX-License-Identifier: Apache-2.0
// Loading and unloading. Sections 3.8, 3.9 and 5.2 of the facts.
#include <pthread.h>

#include "mdl_harness.h"

static std::vector<char> bytes_of(const char* name) {
  FILE* file = fopen(path(name).c_str(), "rb");
  TRUE(file);
  std::vector<char> bytes(1 << 20);
  bytes.resize(fread(bytes.data(), 1, bytes.size(), file));
  fclose(file);
  return bytes;
}

// Every way to read this om fails with this code, and the text holds `word`.
static void refused(aclError code, const char* name, const char* word) {
  uint32_t id = 0;
  size_t work, weights;
  Desc desc;
  CODE(code, aclmdlLoadFromFile(path(name).c_str(), &id));
  if (synthetic() && last_text.find(word) == std::string::npos)
    failed(__FILE__, __LINE__, last_text + " does not say " + word);
  CODE(code, aclmdlGetDescFromFile(desc.it, path(name).c_str()));
  CODE(code, aclmdlQuerySize(path(name).c_str(), &work, &weights));
  std::vector<char> bytes = bytes_of(name);
  if (!bytes.empty()) CODE(code, aclmdlLoadFromMem(bytes.data(), bytes.size(), &id));
}

CASE(load_unload, "3.9 ids come from one counter; an unloaded id is unknown") {
  Device device;
  uint32_t first, second;
  OK(aclmdlLoadFromFile(path("static").c_str(), &first));
  OK(aclmdlLoadFromFile(path("static").c_str(), &second));
  TRUE(second > first);
  OK(aclmdlUnload(first));
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlUnload(first));
  Desc desc;
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlGetDesc(desc.it, first));
  OK(aclmdlUnload(second));
}

CASE(load_null, "2.12 NULL arguments → 100000") {
  Device device;
  uint32_t id;
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromFile(nullptr, &id));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromFile(path("static").c_str(), nullptr));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromMem(nullptr, 10, &id));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadFromMem("IMOD", 0, &id));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlGetDesc(nullptr, 1));
}

CASE(load_without_context, "3.2 a thread without a context → 107002") {
  OK(aclInit(nullptr));
  uint32_t id;
  CODE(ACL_ERROR_RT_CONTEXT_NULL, aclmdlLoadFromFile(path("static").c_str(), &id));
}

CASE(load_missing, "5.2 unreadable path → 145002") {
  Device device;
  uint32_t id;
  CODE(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, aclmdlLoadFromFile(path("not_there").c_str(), &id));
  CODE(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, aclmdlLoadFromFile(folder.c_str(), &id));
}

CASE(load_empty, "5.2 empty file → 145006") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "empty", "empty");
}
CASE(load_short, "5.2 shorter than a header → 145006") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "short", "truncated");
}
CASE(load_magic, "5.2 no magic → 145006") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "magic", "IMOD");
}
CASE(load_truncated, "5.2 payload != file size - 256 → 145006") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "truncated", "truncated");
}
CASE(load_longer, "5.2 payload != file size - 256 → 145006") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "longer", "damaged");
}
CASE(load_pointer, "5.2 a git-lfs pointer is no om; the text says so") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "pointer", "git-lfs");
}
CASE(load_zip, "5.2 an OM2 archive is no om") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "zip", "ZIP");
}
CPU_CASE(load_foreign, "5.2 an om compiled for an NPU is refused by name (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "npu", "NPU");
}
CPU_CASE(load_bundle, "5.2 bundles are not supported (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, "bundle", "bundle");
  uint32_t id;
  EQ(aclmdlBundleLoadFromFile(path("bundle").c_str(), &id), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
  TRUE(aclGetRecentErrMsg());
}
CPU_CASE(load_table, "5.2 a partition outside the file → 545002") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, "table", "outside");
}
CPU_CASE(load_count, "5.2 more partitions than fit → 545002") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, "count", "table");
}
CPU_CASE(load_no_manifest, "5.2 no manifest → 545002 (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, "no_manifest", "manifest");
}
CPU_CASE(load_bad_json, "a manifest that is not JSON → 545001 (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_LOAD_MODEL, "bad_json", "JSON");
}
CPU_CASE(load_deep_json, "a manifest nested without end is refused, not followed (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_LOAD_MODEL, "deep_json", "JSON");
}
CPU_CASE(load_unknown_key, "unknown manifest keys are refused by name (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_LOAD_MODEL, "unknown_key", "surprise");
}
CPU_CASE(load_nul_name, "a name that C would cut is refused (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_LOAD_MODEL, "nul_name", "a name with NUL");
}
CPU_CASE(load_huge, "a shape whose size overflows is refused (cpu-only)") {
  Device device;
  refused(ACL_ERROR_GE_LOAD_MODEL, "huge", "size");
}
CPU_CASE(load_table32, "5.2 old files have a 32-bit table") {
  Device device;
  Loaded model("table32");
  EQ(aclmdlGetInputSizeByIndex(model.desc.it, 0), 24u);
}
CPU_CASE(load_other_soc, "1.6 an om runs only on the SoC family it was compiled for") {
  Device device;
  uint32_t id;
  CODE(ACL_ERROR_RT_SOC_VERSION, aclmdlLoadFromFile(path("soc310").c_str(), &id));
  TRUE(last_text.find("Ascend310P3") != std::string::npos);
  OK(aclmdlLoadFromFile(path("soc_family").c_str(), &id));
  OK(aclmdlUnload(id));
}

CPU_CASE(load_fuzzed, "no damaged om crashes the reader, every code is a documented one") {
  Device device;
  std::vector<char> good = bytes_of("batch");
  uint32_t random = 12345;
  auto next = [&](size_t below) { return size_t((random = random * 1664525u + 1013904223u) >> 8) % below; };
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> bytes = good;
    for (size_t flips = 1 + next(4); flips > 0; --flips) {
      // Half of the damage goes where the lengths and offsets are.
      size_t at = next(2) ? next(bytes.size()) : 70 + next(300);
      bytes[at] = char(next(3) ? next(256) : -1);
    }
    if (next(10) == 0) bytes.resize(1 + next(bytes.size()));
    Desc desc;
    aclError code = aclmdlGetDescFromMem(desc.it, bytes.data(), bytes.size());
    TRUE(code == ACL_SUCCESS || code == ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID || code == ACL_ERROR_GE_LOAD_MODEL ||
         code == ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED);
  }
}

CASE(load_from_memory, "3.9 host memory may be freed after the load") {
  Device device;
  Loaded model("static");
  std::vector<char>* bytes = new std::vector<char>(bytes_of("static"));
  uint32_t id;
  OK(aclmdlLoadFromMem(bytes->data(), bytes->size(), &id));
  memset(bytes->data(), 0, bytes->size());
  delete bytes;
  OK(aclmdlExecute(id, model.in.it, model.out.it));
  OK(aclmdlUnload(id));
}

CASE(query_size, "3.9 QuerySize tells what LoadFromFileWithMem takes") {
  Device device;
  size_t work = 0, weights = 0, work2 = 0, weights2 = 0;
  OK(aclmdlQuerySize(path("weights").c_str(), &work, &weights));
  RESULT(work == 8192u && weights == 4096u);
  std::vector<char> bytes = bytes_of("weights");
  OK(aclmdlQuerySizeFromMem(bytes.data(), bytes.size(), &work2, &weights2));
  EQ(work2, work);
  EQ(weights2, weights);
  OK(aclmdlQuerySize(path("static").c_str(), &work, &weights));
  TRUE(work > 0 && weights > 0);
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlQuerySize(nullptr, &work, &weights));
}

CASE(load_with_memory, "3.9 shared weight memory, own work memory") {
  Device device;
  {
    std::string om = path("weights");
    size_t work, weight;
    OK(aclmdlQuerySize(om.c_str(), &work, &weight));
    Buffer work1(work), work2(work), weights(weight);
    uint32_t first, second;
    OK(aclmdlLoadFromFileWithMem(om.c_str(), &first, work1.data, work, weights.data, weight));
    OK(aclmdlLoadFromFileWithMem(om.c_str(), &second, work2.data, work, weights.data, weight));
    Loaded model("static");
    OK(aclmdlExecute(first, model.in.it, model.out.it));
    OK(aclmdlExecute(second, model.in.it, model.out.it));
    OK(aclmdlUnload(first));
    OK(aclmdlExecute(second, model.in.it, model.out.it));
    OK(aclmdlUnload(second));
    CODE(ACL_ERROR_GE_PARAM_INVALID,
         aclmdlLoadFromFileWithMem(om.c_str(), &first, work1.data, work, weights.data, weight - 1));
    std::vector<char> bytes = bytes_of("weights"), host(weight);
    OK(aclmdlLoadFromMemWithMem(bytes.data(), bytes.size(), &first, nullptr, 0, weights.data, weight));
    OK(aclmdlUnload(first));
    CODE(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID,
         aclmdlLoadFromFileWithMem(om.c_str(), &first, work1.data, work, host.data(), weight));
  }
}

CPU_CASE(weights_overwritten, "3.9 weight memory that another model was loaded into is noticed (cpu-only)") {
  Device device;
  {
    Buffer weights(4096);
    uint32_t first, second;
    OK(aclmdlLoadFromFileWithMem(path("weights").c_str(), &first, nullptr, 0, weights.data, 4096));
    OK(aclmdlLoadFromFileWithMem(path("static").c_str(), &second, nullptr, 0, weights.data, 4096));
    Loaded model("static");
    OK(aclmdlExecute(second, model.in.it, model.out.it));
    CODE(ACL_ERROR_RT_AICORE_EXCEPTION, aclmdlExecute(first, model.in.it, model.out.it));
    OK(aclmdlUnload(first));
    OK(aclmdlUnload(second));
  }
}

template <class T>
static aclError set(aclmdlConfigHandle* handle, aclmdlConfigAttr attr, T value) {
  return aclmdlSetConfigOpt(handle, attr, &value, sizeof value);
}

CASE(load_with_config, "2.12 LoadWithConfig: type and path, or memory; missing → 100000") {
  Device device;
  {
    aclmdlConfigHandle* handle = aclmdlCreateConfigHandle();
    uint32_t id;
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadWithConfig(handle, &id));
    OK(set(handle, ACL_MDL_LOAD_TYPE_SIZET, size_t(ACL_MDL_LOAD_FROM_FILE)));
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadWithConfig(handle, &id));
    std::string om = path("weights");
    OK(set(handle, ACL_MDL_PATH_PTR, om.c_str()));
    om = "the string was copied";
    OK(set(handle, ACL_MDL_PRIORITY_INT32, int32_t(3)));
    OK(set(handle, ACL_MDL_WORKSPACE_MEM_OPTIMIZE, size_t(1)));
    OK(set(handle, ACL_MDL_MEM_MALLOC_POLICY_SIZET, size_t(0)));
    OK(aclmdlLoadWithConfig(handle, &id));
    OK(aclmdlUnload(id));

    size_t work, weight;
    OK(aclmdlQuerySize(path("weights").c_str(), &work, &weight));
    Buffer weights(weight);
    OK(set(handle, ACL_MDL_LOAD_TYPE_SIZET, size_t(ACL_MDL_LOAD_FROM_FILE_WITH_MEM)));
    OK(set(handle, ACL_MDL_WEIGHT_ADDR_PTR, weights.data));
    OK(set(handle, ACL_MDL_WEIGHT_SIZET, weight - 1));
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlLoadWithConfig(handle, &id));
    OK(set(handle, ACL_MDL_WEIGHT_SIZET, weight));
    OK(aclmdlLoadWithConfig(handle, &id));
    OK(aclmdlUnload(id));

    std::vector<char> bytes = bytes_of("static");
    OK(set(handle, ACL_MDL_LOAD_TYPE_SIZET, size_t(ACL_MDL_LOAD_FROM_MEM)));
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadWithConfig(handle, &id));
    OK(set(handle, ACL_MDL_MEM_ADDR_PTR, bytes.data()));
    OK(set(handle, ACL_MDL_MEM_SIZET, bytes.size()));
    OK(aclmdlLoadWithConfig(handle, &id));
    OK(aclmdlUnload(id));
    OK(aclmdlDestroyConfigHandle(handle));
  }
}

CASE(config_refused, "2.12 wrong value sizes → 100000; queues and nano options are not supported") {
  Device device;
  aclmdlConfigHandle* handle = aclmdlCreateConfigHandle();
  int32_t number = 1;
  size_t size = 7;
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetConfigOpt(handle, ACL_MDL_LOAD_TYPE_SIZET, &number, sizeof number));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetConfigOpt(handle, ACL_MDL_LOAD_TYPE_SIZET, nullptr, sizeof size));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetConfigOpt(nullptr, ACL_MDL_LOAD_TYPE_SIZET, &size, sizeof size));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetConfigOpt(handle, ACL_MDL_WORKSPACE_MEM_OPTIMIZE, &size, sizeof size));
  CODE(ACL_ERROR_API_NOT_SUPPORT, aclmdlSetConfigOpt(handle, ACL_MDL_INPUTQ_NUM_SIZET, &size, sizeof size));
  uint32_t id;
  OK(aclmdlSetConfigOpt(handle, ACL_MDL_LOAD_TYPE_SIZET, &size, sizeof size));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlLoadWithConfig(handle, &id));
  size = ACL_MDL_LOAD_FROM_FILE_WITH_Q;
  OK(aclmdlSetConfigOpt(handle, ACL_MDL_LOAD_TYPE_SIZET, &size, sizeof size));
  CODE(ACL_ERROR_API_NOT_SUPPORT, aclmdlLoadWithConfig(handle, &id));
  OK(aclmdlDestroyConfigHandle(handle));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlDestroyConfigHandle(nullptr));
}

CASE(load_in_another_context, "3.2 execute and unload in the loading context, else 107004") {
  Device device;
  {
    Loaded model("static");
    aclrtContext loading, other;
    OK(aclrtGetCurrentContext(&loading));
    OK(aclrtCreateContext(&other, 0));
    CODE(ACL_ERROR_RT_MODEL_CONTEXT, aclmdlExecute(model.id, model.in.it, model.out.it));
    CODE(ACL_ERROR_RT_MODEL_CONTEXT, aclmdlUnload(model.id));
    OK(aclrtSetCurrentContext(loading));
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    OK(aclrtDestroyContext(other));
    OK(aclrtSetCurrentContext(loading));
  }
}

CASE(reset_drops_models, "3.2 the last reset takes the device's models with it") {
  OK(aclInit(nullptr));
  OK(aclrtSetDevice(0));
  uint32_t id;
  OK(aclmdlLoadFromFile(path("static").c_str(), &id));
  OK(aclrtResetDevice(0));
  OK(aclrtSetDevice(0));
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlUnload(id));
  OK(aclrtResetDevice(0));
}

CPU_CASE(unload_while_busy, "3.9 nothing may be queued or running at unload (cpu-only)") {
  Device device;
  {
    Loaded model("static");
    HeldStream stream;
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    CODE(ACL_ERROR_RT_MODEL_RUNNING, aclmdlUnload(model.id));
    stream.open();
    stream.wait();
  }
}

CASE(load_from_threads, "many threads may load one file") {
  Device device;
  aclrtContext context;
  OK(aclrtGetCurrentContext(&context));
  struct Thread {
    aclrtContext context;
    pthread_t handle;
    uint32_t id = 0;
  } threads[8];
  for (Thread& thread : threads) {
    thread.context = context;
    pthread_create(
        &thread.handle, nullptr,
        [](void* argument) -> void* {
          Thread& self = *static_cast<Thread*>(argument);
          OK(aclrtSetCurrentContext(self.context));
          for (int i = 0; i < 50; ++i) {
            Loaded model("batch");
            OK(aclmdlExecute(model.id, model.in.it, model.out.it));
          }
          return nullptr;
        },
        &thread);
  }
  for (Thread& thread : threads) pthread_join(thread.handle, nullptr);
}
