// The `c` path of the bench: what a C program does per inference, on the buffers and the stream of an open session.
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
} c_path_piece;

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
  const c_path_piece* pieces;  // what of the output block comes back from the device
  uint32_t input_count;
  uint32_t output_count;
  uint32_t piece_count;
  uint32_t model_id;
} c_path_plan;

#define USED(X)             \
  X(aclrtGetCurrentContext) \
  X(aclrtSetCurrentContext) \
  X(aclrtMemcpyAsync)       \
  X(aclmdlExecuteAsync)     \
  X(aclrtSynchronizeStream)

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

static aclError once(const c_path_plan* p, int pinned) {
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
  for (uint32_t i = 0; i < p->piece_count; ++i) {
    const c_path_piece* piece = &p->pieces[i];
    rc = acl.aclrtMemcpyAsync(pinned_out + piece->offset, piece->nbytes, device_out + piece->offset, piece->nbytes,
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

// Makes `count` calls and writes each one's nanoseconds. pinned != 0 leaves out the copies between user and pinned
// memory. The session's context is bound for the calls and the caller's given back; neither is timed. Returns 0 or the
// code.
aclError c_path_run(const c_path_plan* plan, int pinned, int count, int64_t* elapsed_ns) {
  aclrtContext before = NULL;
  if (acl.aclrtGetCurrentContext(&before) != 0) before = NULL;
  aclError rc = acl.aclrtSetCurrentContext(plan->context);
  for (int i = 0; rc == 0 && i < count; ++i) {
    int64_t start = now_ns();
    rc = once(plan, pinned);
    elapsed_ns[i] = now_ns() - start;
  }
  if (before != NULL) acl.aclrtSetCurrentContext(before);
  return rc;
}
