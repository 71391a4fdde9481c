// SPDX-License-Identifier: Apache-2.0
// Execution: results, gears, ranges, and what is refused. Section 3.9 of the facts.
#include <pthread.h>

#include <cmath>

#include "mdl_harness.h"

static void expect_static_results(Loaded& model) {
  if (!synthetic()) return;
  std::string a = model.in[0].read(), b = model.in[1].read(), y = model.out[0].read(), z = model.out[1].read();
  for (size_t row = 0; row < 2; ++row) {
    std::vector<std::string> inputs{a.substr(row * 12, 12), b.substr(row * 8, 8)};
    RESULT(y.substr(row * 20, 20) == float_row(inputs, 0, 5));
    uint32_t m = element(row_state(inputs), 1, 0);
    TRUE(memcmp(&z[row * 4], &m, 4) == 0);
  }
}

CASE(execute_static, "3.9 blocking execution") {
  Device device;
  Loaded model("static");
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  expect_static_results(model);
}

CASE(execute_async, "3.9 ExecuteAsync on a stream; datasets may go, buffers must stay") {
  Device device;
  {
    Loaded model("static");
    Stream stream;
    aclmdlDataset *in = aclmdlCreateDataset(), *out = aclmdlCreateDataset();
    for (Buffer* buffer : model.in.buffers) OK(aclmdlAddDatasetBuffer(in, buffer->it));
    for (Buffer* buffer : model.out.buffers) OK(aclmdlAddDatasetBuffer(out, buffer->it));
    OK(aclmdlExecuteAsync(model.id, in, out, stream.it));
    OK(aclmdlDestroyDataset(in));
    OK(aclmdlDestroyDataset(out));
    stream.wait();
    expect_static_results(model);
  }
}

CASE(execute_async_default_stream, "3.9 stream NULL is the default stream") {
  Device device;
  Loaded model("static");
  OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, nullptr));
  OK(aclrtSynchronizeStream(nullptr));
  expect_static_results(model);
}

CASE(execute_copies_addresses, "3.9 addresses are taken when ExecuteAsync is called") {
  Device device;
  {
    Loaded model("slow");
    Stream stream;
    Buffer other(model.in[0].nbytes);
    std::string before = model.in[0].read();
    Loaded::fill(other, 99);
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    OK(aclUpdateDataBuffer(model.in[0].it, other.data, other.nbytes));
    stream.wait();
    OK(aclUpdateDataBuffer(model.in[0].it, model.in[0].data, model.in[0].nbytes));
    RESULT(model.out[0].read() == float_row({before}, 0, 4));
  }
}

CASE(execute_reads_when_it_runs, "3.5, 3.9 copies, execution and copy back on one stream, in order") {
  Device device;
  {
    Loaded model("static");
    Stream stream;
    void *pinned_in, *pinned_out;
    OK(aclrtMallocHost(&pinned_in, 24));
    OK(aclrtMallocHost(&pinned_out, 40));
    for (int round = 0; round < 200; ++round) {
      memset(pinned_in, round, 24);
      OK(aclrtMemcpyAsync(model.in[0].data, 24, pinned_in, 24, ACL_MEMCPY_HOST_TO_DEVICE, stream.it));
      OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
      OK(aclrtMemcpyAsync(pinned_out, 40, model.out[0].data, 40, ACL_MEMCPY_DEVICE_TO_HOST, stream.it));
      stream.wait();
      std::string b = model.in[1].read();
      for (size_t row = 0; row < 2; ++row)
        RESULT(std::string(static_cast<char*>(pinned_out) + row * 20, 20) ==
               float_row({std::string(12, char(round)), b.substr(row * 8, 8)}, 0, 5));
    }
    OK(aclrtFreeHost(pinned_in));
    OK(aclrtFreeHost(pinned_out));
  }
}

CASE(execute_v2, "2.12 ExecuteV2 waits, on the given stream; NULL handle → 100000") {
  Device device;
  {
    Loaded model("static");
    Stream stream;
    aclmdlExecConfigHandle* handle = aclmdlCreateExecConfigHandle();
    OK(aclmdlExecuteV2(model.id, model.in.it, model.out.it, stream.it, handle));
    expect_static_results(model);
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecuteV2(model.id, model.in.it, model.out.it, stream.it, nullptr));
    int32_t timeout = 0;
    CODE(ACL_ERROR_INVALID_PARAM,
         aclmdlSetExecConfigOpt(handle, ACL_MDL_STREAM_SYNC_TIMEOUT, &timeout, sizeof timeout));
    timeout = 5;
    OK(aclmdlSetExecConfigOpt(handle, ACL_MDL_STREAM_SYNC_TIMEOUT, &timeout, sizeof timeout));
    HeldStream held;
    CODE(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, aclmdlExecuteV2(model.id, model.in.it, model.out.it, held.it, handle));
    held.open();
    held.wait();
    OK(aclmdlDestroyExecConfigHandle(handle));
  }
}

CASE(execute_null, "2.12 NULL datasets → 100000, unknown id → 145003, no context → 107002") {
  Device device;
  Loaded model("static");
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecute(model.id, nullptr, model.out.it));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(model.id, model.in.it, nullptr, nullptr));
  CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlExecute(99999, model.in.it, model.out.it));
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* argument) -> void* {
        Loaded& model = *static_cast<Loaded*>(argument);
        CODE(ACL_ERROR_RT_CONTEXT_NULL, aclmdlExecute(model.id, model.in.it, model.out.it));
        return nullptr;
      },
      &model);
  pthread_join(thread, nullptr);
}

CASE(execute_wrong_counts, "3.9 wrong number of buffers → 145000") {
  Device device;
  {
    Loaded model("static");
    Dataset one({24}), three({24, 16, 8});
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlExecute(model.id, one.it, model.out.it));
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlExecute(model.id, three.it, model.out.it));
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlExecute(model.id, model.in.it, one.it));
    Loaded gears("batch");
    Dataset forgotten({8 * 3 * 8 * 8 * 4});
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlExecute(gears.id, forgotten.it, gears.out.it));
  }
}

CASE(execute_short_buffer, "3.9 length + 64 < model size → 500002 with E13025; up to 64 short passes") {
  Device device;
  {
    Loaded model("weights_wide");
    size_t nbytes = model.in[0].nbytes;
    OK(aclUpdateDataBuffer(model.in[0].it, model.in[0].data, nbytes - 64));
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    OK(aclUpdateDataBuffer(model.in[0].it, model.in[0].data, nbytes - 65));
    CODE(ACL_ERROR_GE_FAILURE, aclmdlExecute(model.id, model.in.it, model.out.it));
    TRUE(last_text.find("E13025") != std::string::npos);
    OK(aclUpdateDataBuffer(model.in[0].it, model.in[0].data, nbytes + 1000));
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  }
}

CPU_CASE(execute_host_memory, "3.9 device memory only (cpu-only)") {
  Device device;
  Loaded model("static");
  char host[64] = {};
  OK(aclUpdateDataBuffer(model.in[0].it, host, 24));
  CODE(ACL_ERROR_GE_FAILURE, aclmdlExecute(model.id, model.in.it, model.out.it));
  OK(aclUpdateDataBuffer(model.in[0].it, nullptr, 24));
  CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlExecute(model.id, model.in.it, model.out.it));
}

CPU_CASE(execute_freed_memory, "3.4 memory freed while queued work uses it is noticed (cpu-only)") {
  Device device;
  {
    Loaded model("static");
    HeldStream stream;
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    OK(aclrtFree(model.in[0].data));
    model.in[0].data = nullptr;
    stream.open();
    CODE(ACL_ERROR_RT_AICORE_EXCEPTION, aclrtSynchronizeStream(stream.it));
  }
}

CASE(mix_sync_async, "3.9 aclmdlExecute and ExecuteAsync on one static id → 500002") {
  Device device;
  {
    Loaded model("static"), other("static");
    Stream stream;
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    CODE(ACL_ERROR_GE_FAILURE, aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    OK(aclmdlExecuteAsync(other.id, other.in.it, other.out.it, stream.it));
    stream.wait();
    CODE(ACL_ERROR_GE_FAILURE, aclmdlExecute(other.id, other.in.it, other.out.it));
  }
}

CPU_CASE(two_streams_at_once, "3.9 one id on two streams at once (cpu-only); afterwards is fine") {
  Device device;
  {
    Loaded model("static");
    HeldStream first;
    Stream second;
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, first.it));
    CODE(ACL_ERROR_GE_FAILURE, aclmdlExecuteAsync(model.id, model.in.it, model.out.it, second.it));
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, first.it));
    first.open();
    first.wait();
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, second.it));
    second.wait();
  }
}

CASE(alternating_streams, "3.9 one id on many streams, one after the other") {
  Device device;
  {
    Loaded model("static");
    Stream streams[3];
    for (int round = 0; round < 600; ++round) {
      Stream& stream = streams[round % 3];
      OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
      stream.wait();
    }
    expect_static_results(model);
  }
}

CASE(two_loads_at_once, "3.9 N loads run on N streams, each with its own results") {
  Device device;
  {
    Loaded models[4] = {Loaded("static"), Loaded("static"), Loaded("static"), Loaded("static")};
    Stream streams[4];
    for (uint32_t i = 0; i < 4; ++i) Loaded::fill(models[i].in[0], 100 * i);
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 4; ++i)
        OK(aclmdlExecuteAsync(models[i].id, models[i].in.it, models[i].out.it, streams[i].it));
      for (Stream& stream : streams) stream.wait();
    }
    for (Loaded& model : models) expect_static_results(model);
  }
}

CPU_CASE(shared_work_memory, "3.9 work memory in use by two running models is noticed (cpu-only)") {
  configure_own(int64_t(1) << 36, ", \"compute_engines\": 2");
  Device device;
  {
    Buffer work(8192);
    uint32_t first, second;
    OK(aclmdlLoadFromFileWithMem(path("endless").c_str(), &first, work.data, 8192, nullptr, 0));
    OK(aclmdlLoadFromFileWithMem(path("slow").c_str(), &second, work.data, 8192, nullptr, 0));
    Loaded buffers("slow");
    Stream one, two;
    OK(aclmdlExecuteAsync(first, buffers.in.it, buffers.out.it, one.it));
    // Its result is written when it begins.
    for (std::string expected = float_row({buffers.in[0].read()}, 0, 4); buffers.out[0].read() != expected;)
      usleep(100);
    OK(aclmdlExecuteAsync(second, buffers.in.it, buffers.out.it, two.it));
    CODE(ACL_ERROR_GE_FAILURE, aclrtSynchronizeStream(two.it));
    OK(aclrtStreamAbort(one.it));
    OK(aclmdlUnload(first));
    OK(aclmdlUnload(second));
  }
}

CPU_CASE(declared_time, "5 the declared time of a model is kept, per gear (cpu-only)") {
  Device device;
  {
    Loaded model("slow"), small("slow_batch"), large("slow_batch");  // 50 ms; 10 and 60 ms
    HeldStream stream;
    aclrtEvent marks[4];
    for (aclrtEvent& mark : marks) OK(aclrtCreateEventWithFlag(&mark, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
    OK(aclrtRecordEvent(marks[0], stream.it));
    for (int i = 0; i < 2; ++i) OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    OK(aclrtRecordEvent(marks[1], stream.it));
    OK(aclmdlSetDynamicBatchSize(small.id, small.in.it, 1, 1));
    OK(aclmdlExecuteAsync(small.id, small.in.it, small.out.it, stream.it));
    OK(aclrtRecordEvent(marks[2], stream.it));
    OK(aclmdlSetDynamicBatchSize(large.id, large.in.it, 1, 2));
    OK(aclmdlExecuteAsync(large.id, large.in.it, large.out.it, stream.it));
    OK(aclrtRecordEvent(marks[3], stream.it));
    double start = now_ms();
    stream.open();
    stream.wait();
    TRUE(now_ms() - start >= 170);
    float took[3];
    for (int i = 0; i < 3; ++i) OK(aclrtEventElapsedTime(&took[i], marks[i], marks[i + 1]));
    for (aclrtEvent mark : marks) OK(aclrtDestroyEvent(mark));
    const float declared[] = {100, 10, 60};
    for (int i = 0; i < 3; ++i) TRUE(std::abs(took[i] - declared[i]) < 0.001f);
  }
}

CASE(events_tell_what_executions_take, "2.6 the time between events around executions, within the host's") {
  Device device;
  Loaded model(synthetic() ? "slow" : "wide");  // 50 ms declared, or a graph that is really computed
  Stream stream;
  aclrtEvent marks[3];
  for (aclrtEvent& mark : marks) OK(aclrtCreateEventWithFlag(&mark, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC));
  double start = now_ms();
  for (aclrtEvent mark : marks) {
    OK(aclrtRecordEvent(mark, stream.it));
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
  }
  stream.wait();
  double host = now_ms() - start;
  float first = 0, second = 0, both = 0;
  OK(aclrtEventElapsedTime(&first, marks[0], marks[1]));
  OK(aclrtEventElapsedTime(&second, marks[1], marks[2]));
  OK(aclrtEventElapsedTime(&both, marks[0], marks[2]));
  TRUE(first > 0 && second > 0);
  TRUE(both >= first && both >= second && both <= host);
  RESULT(first >= 50 && second >= 50 && both >= 100);
  for (aclrtEvent mark : marks) OK(aclrtDestroyEvent(mark));
}

// ---- data types and shapes ---------------------------------------------------------------------------------------

CPU_CASE(all_dtypes, "2.14 every data type in and out") {
  Device device;
  Loaded model("dtypes");
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  std::vector<std::string> rows[2];
  for (Buffer* buffer : model.in.buffers) {
    std::string bytes = buffer->read();
    for (size_t row = 0; row < 2; ++row) rows[row].push_back(bytes.substr(row * bytes.size() / 2, bytes.size() / 2));
  }
  for (uint32_t o = 0; o < model.out.buffers.size(); ++o) {
    std::string got = model.out[o].read(), expected;
    aclDataType dtype = aclmdlGetOutputDataType(model.desc.it, o);
    size_t size = aclDataTypeSize(dtype);
    for (auto& row : rows) {
      for (uint32_t j = 0; j < got.size() / size / 2; ++j) {
        uint32_t m = element(row_state(row), o, j);
        char bytes[8] = {};
        auto put = [&](auto value) { memcpy(bytes, &value, sizeof value); };
        auto bits = [](float value) {
          uint32_t all;
          memcpy(&all, &value, 4);
          return all;
        };
        switch (dtype) {
          case ACL_FLOAT:
            put(float(m >> 8) / float(1 << 24));
            break;
          case ACL_DOUBLE:
            put(double(m) / 4294967296.0);
            break;
          case ACL_BF16:
            put(uint16_t(bits(float(m >> 24) / 256) >> 16));
            break;
          case ACL_FLOAT16: {
            uint32_t all = bits(float(m >> 21) / 2048);
            put(uint16_t(all ? ((all >> 23) - 112) << 10 | (all >> 13 & 1023) : 0));
            break;
          }
          case ACL_BOOL:
            put(uint8_t(m & 1));
            break;
          default:
            put(uint64_t(m));
        }
        expected.append(bytes, size);
      }
    }
    if (got != expected) failed(__FILE__, __LINE__, "output " + std::to_string(o) + " differs");
  }
}

CASE(scalars, "2.11 tensors without dims have one element") {
  Device device;
  Loaded model("scalar");
  EQ(model.in[0].nbytes, 4u);
  EQ(model.out[0].nbytes, 8u);
  aclmdlIODims dims;
  OK(aclmdlGetInputDims(model.desc.it, 0, &dims));
  EQ(dims.dimCount, 0u);
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  double value = double(element(row_state({model.in[0].read()}), 0, 0)) / 4294967296.0;
  RESULT(model.out[0].read() == std::string(reinterpret_cast<char*>(&value), 8));
}

CPU_CASE(zero_elements, "a tensor without elements needs no memory") {
  Device device;
  Loaded model("zero");
  EQ(model.in[0].nbytes, 0u);
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  uint32_t state = row_state({"", model.in[1].read()});
  std::string got = model.out[1].read();
  for (uint32_t j = 0; j < 3; ++j) EQ(uint8_t(got[j]), uint8_t(element(state, 1, j)));
}

CASE(large_rows, "rows of any length") {
  Device device;
  Loaded model("wide");
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  RESULT(model.out[0].read() == float_row({model.in[0].read()}, 0, 1000));
}

// ---- gears -------------------------------------------------------------------------------------------------------

static void expect_batch_rows(Loaded& model, size_t rows) {
  std::string x = model.in[0].read(), y = model.out[0].read();
  for (size_t row = 0; row < rows; ++row)
    RESULT(y.substr(row * 40, 40) == float_row({x.substr(row * 768, 768)}, 0, 10));
}

CASE(batch_gears, "3.9 the setter chooses the gear; CurOutputDims follows; the rest is old data") {
  Device device;
  Loaded model("batch");
  aclmdlIODims dims;
  OK(aclmdlGetCurOutputDims(model.desc.it, 0, &dims));
  EQ(dims.dims[0], 8);
  for (uint64_t batch : {4, 1, 8, 2}) {
    std::string old(model.out[0].nbytes, '\x5a');
    model.out[0].write(old.data());
    OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, batch));
    OK(aclmdlGetCurOutputDims(model.desc.it, 0, &dims));
    EQ(dims.dims[0], int64_t(batch));
    EQ(dims.dims[1], 10);
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    expect_batch_rows(model, batch);
    TRUE(model.out[0].read().substr(batch * 40) == old.substr(batch * 40));
  }
}

CASE(batch_never_set, "3.9 never set: the largest gear, silently") {
  Device device;
  Loaded model("batch");
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  expect_batch_rows(model, 8);
}

CASE(batch_small_buffers, "3.9 buffers of the small gear's size pass") {
  Device device;
  {
    Loaded model("batch", false);
    model.in.add(2 * 768);
    model.in.add(8);
    model.out.add(2 * 40);
    Loaded::fill(model.in[0], 5);
    OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 2));
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    expect_batch_rows(model, 2);
  }
}

CASE(batch_refused, "3.9 0 → 100000, no gear → 145013, short 145012, NULL 145011, bad id 145003") {
  Device device;
  {
    Loaded model("batch"), fixed("static");
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 0));
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDynamicBatchSize(model.id, nullptr, 1, 1));
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDynamicBatchSize(model.id, model.in.it, 0, 1));
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDynamicBatchSize(model.id, model.in.it, 2, 1));
    CODE(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 3));
    CODE(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, aclmdlSetDynamicBatchSize(99999, model.in.it, 1, 1));
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlSetDynamicBatchSize(fixed.id, fixed.in.it, 1, 1));
    CODE(ACL_ERROR_GE_PARAM_INVALID, aclmdlSetDynamicHWSize(model.id, model.in.it, 1, 1, 1));
    OK(aclUpdateDataBuffer(model.in[1].it, model.in[1].data, 3));
    CODE(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 1));
    OK(aclUpdateDataBuffer(model.in[1].it, nullptr, 8));
    CODE(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 1));
  }
}

CASE(batch_writes_gear, "3.9 the setter writes uint64 where there is room, else uint32, blocking") {
  Device device;
  Loaded model("batch");
  OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 4));
  TRUE(model.in[1].read() == std::string("\4\0\0\0\0\0\0\0", 8));
  std::string ones(8, '\1');
  model.in[1].write(ones.data());
  OK(aclUpdateDataBuffer(model.in[1].it, model.in[1].data, 4));
  OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 2));
  TRUE(model.in[1].read() == std::string("\2\0\0\0\1\1\1\1", 8));
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  expect_batch_rows(model, 2);
}

CPU_CASE(gear_buffer_reused, "3.9 a gear buffer rewritten while an execution reads it is noticed (cpu-only)") {
  Device device;
  {
    Loaded model("batch");
    HeldStream stream;
    OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 4));
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    OK(aclmdlSetDynamicBatchSize(model.id, model.in.it, 1, 2));
    stream.open();
    CODE(ACL_ERROR_GE_FAILURE, aclrtSynchronizeStream(stream.it));
  }
}

CASE(image_size_gears, "3.9 SetDynamicHWSize") {
  Device device;
  Loaded model("image");
  OK(aclmdlSetDynamicHWSize(model.id, model.in.it, 1, 32, 32));
  aclmdlIODims dims;
  OK(aclmdlGetCurOutputDims(model.desc.it, 0, &dims));
  EQ(dims.dimCount, 3u);
  EQ(dims.dims[1], 8);
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  RESULT(model.out[0].read(8 * 8 * 4) == float_row({model.in[0].read(3 * 32 * 32)}, 0, 64));
  OK(aclmdlSetDynamicHWSize(model.id, model.in.it, 1, 64, 48));
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  RESULT(model.out[0].read(16 * 12 * 4) == float_row({model.in[0].read(3 * 64 * 48)}, 0, 192));
  CODE(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, aclmdlSetDynamicHWSize(model.id, model.in.it, 1, 48, 64));
  CODE(ACL_ERROR_INVALID_PARAM, aclmdlSetDynamicHWSize(model.id, model.in.it, 1, 0, 64));
}

CASE(dims_gears, "3.9 SetInputDynamicDims takes the dims of all inputs") {
  Device device;
  Loaded model("dims");
  auto set = [&](std::vector<int64_t> all) {
    aclmdlIODims dims{};
    dims.dimCount = all.size();
    std::copy(all.begin(), all.end(), dims.dims);
    return aclmdlSetInputDynamicDims(model.id, model.in.it, 2, &dims);
  };
  OK(set({1, 16, 1, 16}));
  uint64_t written[4];
  memcpy(written, model.in[2].read().data(), 32);
  EQ(written[1], 16u);
  EQ(written[2], 1u);
  aclmdlIODims dims;
  OK(aclmdlGetCurOutputDims(model.desc.it, 0, &dims));
  EQ(dims.dims[1], 16);
  OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  CODE(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, set({1, 16, 2, 32}));
  CODE(ACL_ERROR_GE_PARAM_INVALID, set({1, 16, 1}));
  CODE(ACL_ERROR_GE_PARAM_INVALID, set({1, 16, 1, 16, 1}));
}

// ---- ranges ------------------------------------------------------------------------------------------------------

static std::vector<int64_t> shape_of(const Dataset& dataset, size_t index) {
  aclTensorDesc* desc = aclmdlGetDatasetTensorDesc(dataset.it, index);
  TRUE(desc);
  std::vector<int64_t> dims;
  for (size_t i = 0; i < aclGetTensorDescNumDims(desc); ++i) dims.push_back(aclGetTensorDescDim(desc, i));
  return dims;
}

CASE(range_execute, "3.9 shapes through tensor descs, real output shapes from the output's descs") {
  Device device;
  {
    Loaded model("range", false);
    model.in.add(2 * 3 * 10 * 4);
    model.out.add(1000);
    model.out.add(16);
    Loaded::fill(model.in[0], 3);
    model.in.shape(0, ACL_FLOAT, {2, 3, 10});
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    TRUE(shape_of(model.out, 0) == (std::vector<int64_t>{2, 7}));
    TRUE(shape_of(model.out, 1) == (std::vector<int64_t>{4}));
    EQ(aclGetTensorDescType(aclmdlGetDatasetTensorDesc(model.out.it, 1)), ACL_INT32);
    std::string expected = float_row({model.in[0].read()}, 0, 14);
    RESULT(model.out[0].read(56) == expected);
    model.in.shape(0, ACL_FLOAT, {1, 3, 1});
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    TRUE(shape_of(model.out, 0) == (std::vector<int64_t>{1, 7}));
  }
}

CPU_CASE(range_async, "3.9 the output descs are valid when ExecuteAsync returns; the host time is spent in it") {
  Device device;
  {
    Loaded model("slow_range", false);  // 40 ms
    model.in.add(4 * 4);
    model.out.add(400);
    Loaded::fill(model.in[0], 3);
    model.in.shape(0, ACL_FLOAT, {4});
    Stream stream;
    double start = now_ms();
    OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
    TRUE(now_ms() - start >= 40);
    TRUE(shape_of(model.out, 0) == (std::vector<int64_t>{4, 3}));
    stream.wait();
    RESULT(model.out[0].read(12) == float_row({model.in[0].read().substr(0, 4)}, 0, 3));
  }
}

CASE(range_refused, "3.9 missing or out-of-range shape, too few buffers → 100000") {
  Device device;
  {
    Loaded model("range", false);
    model.in.add(9 * 3 * 100 * 4);
    model.out.add(1000);
    model.out.add(16);
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecute(model.id, model.in.it, model.out.it));
    for (std::vector<int64_t> dims :
         {std::vector<int64_t>{9, 3, 1}, {0, 3, 1}, {1, 2, 1}, {1, 3, 101}, {1, 3, -1}, {1, 3}}) {
      model.in.shape(0, ACL_FLOAT, dims);
      CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecute(model.id, model.in.it, model.out.it));
    }
    Dataset none;
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecute(model.id, none.it, model.out.it));
    model.in.shape(0, ACL_FLOAT, {1, 3, 1});
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecute(model.id, model.in.it, none.it));
    model.in.add(8);
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
  }
}

CASE(range_null_output, "3.9 NULL output: a blocking call allocates it, an asynchronous one refuses") {
  Device device;
  {
    Loaded model("range", false);
    model.in.add(2 * 3 * 10 * 4);
    model.out.add(0);
    model.out.add(16);
    Loaded::fill(model.in[0], 3);
    model.in.shape(0, ACL_FLOAT, {2, 3, 10});
    OK(aclmdlExecute(model.id, model.in.it, model.out.it));
    EQ(aclGetDataBufferSizeV2(model.out[0].it), 56u);
    model.out[0].data = aclGetDataBufferAddr(model.out[0].it);  // freed with the buffer
    RESULT(model.out[0].read(56) == float_row({model.in[0].read()}, 0, 14));
    OK(aclUpdateDataBuffer(model.out[0].it, nullptr, 0));
    Stream stream;
    CODE(ACL_ERROR_INVALID_PARAM, aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
  }
}

CASE(range_small_output, "3.9 a too small output buffer is an error, not a truncation") {
  Device device;
  {
    Loaded model("range", false);
    model.in.add(2 * 3 * 10 * 4);
    model.out.add(55);
    model.out.add(16);
    model.in.shape(0, ACL_FLOAT, {2, 3, 10});
    CODE(ACL_ERROR_GE_FAILURE, aclmdlExecute(model.id, model.in.it, model.out.it));
  }
}

CASE(range_mixes_modes, "3.9 ranges: blocking and asynchronous calls may alternate; V2 takes its own stream") {
  Device device;
  {
    Loaded model("range", false);
    model.in.add(2 * 3 * 10 * 4);
    model.out.add(56);
    model.out.add(16);
    model.in.shape(0, ACL_FLOAT, {2, 3, 10});
    Stream stream;
    aclmdlExecConfigHandle* handle = aclmdlCreateExecConfigHandle();
    for (int round = 0; round < 20; ++round) {
      OK(aclmdlExecute(model.id, model.in.it, model.out.it));
      OK(aclmdlExecuteAsync(model.id, model.in.it, model.out.it, stream.it));
      stream.wait();
      OK(aclmdlExecuteV2(model.id, model.in.it, model.out.it, stream.it, handle));
    }
    OK(aclmdlDestroyExecConfigHandle(handle));
  }
}

CASE(one_id_from_threads, "3.9 one id from many threads under a lock") {
  Device device;
  struct Shared {
    Loaded model{"static"};
    aclrtContext context;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  } shared;
  OK(aclrtGetCurrentContext(&shared.context));
  pthread_t threads[8];
  for (pthread_t& thread : threads) {
    pthread_create(
        &thread, nullptr,
        [](void* argument) -> void* {
          Shared& shared = *static_cast<Shared*>(argument);
          OK(aclrtSetCurrentContext(shared.context));
          for (int i = 0; i < 100; ++i) {
            pthread_mutex_lock(&shared.lock);
            OK(aclmdlExecute(shared.model.id, shared.model.in.it, shared.model.out.it));
            pthread_mutex_unlock(&shared.lock);
          }
          return nullptr;
        },
        &shared);
  }
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  expect_static_results(shared.model);
}
