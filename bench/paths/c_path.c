// SPDX-License-Identifier: Apache-2.0
// The paths of the bench that are written in C: what a C program does per inference, on the stream of an open session.
// Only types and prototypes of AscendCL are used here; the functions come from the library the session has opened.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <time.h>

#include "acl_abi.h"

typedef struct {
  const void* source;  // user memory
  size_t offset;       // in the pinned input block
  size_t nbytes;
} c_path_input;

typedef struct {
  void* target;   // user memory
  size_t offset;  // in the device and the pinned output block
  size_t nbytes;
} c_path_output;

typedef struct {
  size_t offset;
  size_t nbytes;
} c_path_copy;

typedef struct {
  aclrtContext context;
  aclrtStream stream;
  aclmdlDataset* input_dataset;
  aclmdlDataset* output_dataset;
  void* pinned_in;
  void* device_in;
  void* device_out;
  void* pinned_out;
  size_t in_nbytes;
  const c_path_input* inputs;
  const c_path_output* outputs;
  const c_path_copy* output_copies;  // what of the output block comes back from the device
  uint32_t input_count;
  uint32_t output_count;
  uint32_t output_copy_count;
  uint32_t model_id;
} c_path_call;

enum { PATH_C, PATH_C_PINNED, PATH_MALLOC_PER_CALL };
enum { MAX_TENSORS = 64 };

#define USED(X)                 \
  X(aclrtGetCurrentContext)     \
  X(aclrtSetCurrentContext)     \
  X(aclrtMemcpyAsync)           \
  X(aclmdlExecuteAsync)         \
  X(aclrtSynchronizeStream)     \
  X(aclrtMalloc)                \
  X(aclrtFree)                  \
  X(aclrtMallocHost)            \
  X(aclrtFreeHost)              \
  X(aclrtMemcpy)                \
  X(aclmdlCreateDataset)        \
  X(aclmdlDestroyDataset)       \
  X(aclmdlAddDatasetBuffer)     \
  X(aclmdlGetDatasetNumBuffers) \
  X(aclmdlGetDatasetBuffer)     \
  X(aclCreateDataBuffer)        \
  X(aclDestroyDataBuffer)       \
  X(aclUpdateDataBuffer)        \
  X(aclGetDataBufferAddr)       \
  X(aclGetDataBufferSizeV2)

static struct {
#define MEMBER(name) __typeof__(&name) name;
  USED(MEMBER)
#undef MEMBER
} acl;

static void* resolve(const char* const* libraries, int count, const char* name) {
  for (int i = 0; i < count; ++i) {
    void* handle = dlopen(libraries[i], RTLD_NOW | RTLD_NOLOAD);
    if (handle == NULL) handle = dlopen(libraries[i], RTLD_NOW);
    void* symbol = handle == NULL ? NULL : dlsym(handle, name);
    if (symbol != NULL) return symbol;
  }
  return NULL;
}

// Returns NULL, or the name of the first entry point that none of the libraries has.
const char* c_path_bind(const char* const* libraries, int count) {
#define RESOLVE(name)                                    \
  *(void**)&acl.name = resolve(libraries, count, #name); \
  if (acl.name == NULL) return #name;
  USED(RESOLVE)
#undef RESOLVE
  return NULL;
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static aclError once(const c_path_call* p, int pinned) {
  char* pinned_in = p->pinned_in;
  char* pinned_out = p->pinned_out;
  const char* device_out = p->device_out;
  aclError rc;
  if (!pinned) {
    for (uint32_t i = 0; i < p->input_count; ++i)
      memcpy(pinned_in + p->inputs[i].offset, p->inputs[i].source, p->inputs[i].nbytes);
  }
  rc = acl.aclrtMemcpyAsync(p->device_in, p->in_nbytes, pinned_in, p->in_nbytes, ACL_MEMCPY_HOST_TO_DEVICE, p->stream);
  if (rc) return rc;
  rc = acl.aclmdlExecuteAsync(p->model_id, p->input_dataset, p->output_dataset, p->stream);
  if (rc) return rc;
  for (uint32_t i = 0; i < p->output_copy_count; ++i) {
    const c_path_copy* copy = &p->output_copies[i];
    rc = acl.aclrtMemcpyAsync(pinned_out + copy->offset, copy->nbytes, device_out + copy->offset, copy->nbytes,
                              ACL_MEMCPY_DEVICE_TO_HOST, p->stream);
    if (rc) return rc;
  }
  rc = acl.aclrtSynchronizeStream(p->stream);
  if (rc) return rc;
  if (!pinned) {
    for (uint32_t i = 0; i < p->output_count; ++i)
      memcpy(p->outputs[i].target, pinned_out + p->outputs[i].offset, p->outputs[i].nbytes);
  }
  return 0;
}

static void destroy_dataset(aclmdlDataset* dataset) {
  if (dataset == NULL) return;
  size_t count = acl.aclmdlGetDatasetNumBuffers(dataset);
  for (size_t i = 0; i < count; ++i) acl.aclDestroyDataBuffer(acl.aclmdlGetDatasetBuffer(dataset, i));
  acl.aclmdlDestroyDataset(dataset);
}

// A dataset of data buffers of its own over the addresses and sizes of `from`; NULL when that fails.
static aclmdlDataset* copy_dataset(const aclmdlDataset* from) {
  aclmdlDataset* copy = acl.aclmdlCreateDataset();
  size_t count = acl.aclmdlGetDatasetNumBuffers(from);
  for (size_t i = 0; copy != NULL && i < count; ++i) {
    const aclDataBuffer* buffer = acl.aclmdlGetDatasetBuffer(from, i);
    aclDataBuffer* own = acl.aclCreateDataBuffer(acl.aclGetDataBufferAddr(buffer), acl.aclGetDataBufferSizeV2(buffer));
    if (own == NULL || acl.aclmdlAddDatasetBuffer(copy, own) != 0) {
      if (own != NULL) acl.aclDestroyDataBuffer(own);
      destroy_dataset(copy);
      return NULL;
    }
  }
  return copy;
}

// Device memory for tensor `i` of `dataset`, which then refers to it.
static aclError allocate(aclmdlDataset* dataset, size_t i, size_t nbytes, void** memory) {
  aclError rc = acl.aclrtMalloc(memory, nbytes, ACL_MEM_MALLOC_HUGE_FIRST);
  return rc ? rc : acl.aclUpdateDataBuffer(acl.aclmdlGetDatasetBuffer(dataset, i), *memory, nbytes);
}

// Every tensor gets memory for this call alone; copies are synchronous and inputs come from pageable memory.
static aclError once_with_malloc(const c_path_call* p, aclmdlDataset* inputs, aclmdlDataset* outputs) {
  void* device_in[MAX_TENSORS] = {NULL};
  void* device_out[MAX_TENSORS] = {NULL};
  void* host[MAX_TENSORS] = {NULL};
  aclError rc = 0;
  for (uint32_t i = 0; rc == 0 && i < p->input_count; ++i) {
    size_t nbytes = p->inputs[i].nbytes;
    rc = allocate(inputs, i, nbytes, &device_in[i]);
    if (rc == 0) rc = acl.aclrtMemcpy(device_in[i], nbytes, p->inputs[i].source, nbytes, ACL_MEMCPY_HOST_TO_DEVICE);
  }
  for (uint32_t i = 0; rc == 0 && i < p->output_count; ++i) {
    size_t nbytes = acl.aclGetDataBufferSizeV2(acl.aclmdlGetDatasetBuffer(outputs, i));
    rc = allocate(outputs, i, nbytes, &device_out[i]);
    if (rc == 0) rc = acl.aclrtMallocHost(&host[i], p->outputs[i].nbytes);
  }
  if (rc == 0) rc = acl.aclmdlExecuteAsync(p->model_id, inputs, outputs, p->stream);
  if (rc == 0) rc = acl.aclrtSynchronizeStream(p->stream);
  for (uint32_t i = 0; rc == 0 && i < p->output_count; ++i) {
    size_t nbytes = p->outputs[i].nbytes;
    rc = acl.aclrtMemcpy(host[i], nbytes, device_out[i], nbytes, ACL_MEMCPY_DEVICE_TO_HOST);
    if (rc == 0) memcpy(p->outputs[i].target, host[i], nbytes);
  }
  for (uint32_t i = 0; i < p->output_count; ++i) {
    if (host[i] != NULL) acl.aclrtFreeHost(host[i]);
    if (device_out[i] != NULL) acl.aclrtFree(device_out[i]);
  }
  for (uint32_t i = 0; i < p->input_count; ++i) {
    if (device_in[i] != NULL) acl.aclrtFree(device_in[i]);
  }
  return rc;
}

// Makes `count` calls of one path and writes each one's nanoseconds. The session's context is bound for the calls and
// the caller's given back; neither is timed. Returns 0 or the code.
aclError c_path_run(const c_path_call* call, int path, int count, int64_t* elapsed_ns) {
  aclmdlDataset *inputs = NULL, *outputs = NULL;
  aclrtContext before = NULL;
  if (acl.aclrtGetCurrentContext(&before) != 0) before = NULL;
  aclError rc = acl.aclrtSetCurrentContext(call->context);
  if (rc == 0 && path == PATH_MALLOC_PER_CALL) {
    inputs = copy_dataset(call->input_dataset);
    outputs = copy_dataset(call->output_dataset);
    int fits = call->input_count <= MAX_TENSORS && call->output_count <= MAX_TENSORS;
    if (inputs == NULL || outputs == NULL || !fits) rc = ACL_ERROR_BAD_ALLOC;
  }
  for (int i = 0; rc == 0 && i < count; ++i) {
    int64_t start = now_ns();
    rc = path == PATH_MALLOC_PER_CALL ? once_with_malloc(call, inputs, outputs) : once(call, path == PATH_C_PINNED);
    elapsed_ns[i] = now_ns() - start;
  }
  destroy_dataset(inputs);
  destroy_dataset(outputs);
  if (before != NULL) acl.aclrtSetCurrentContext(before);
  return rc;
}
