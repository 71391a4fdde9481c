// SPDX-License-Identifier: Apache-2.0
/*
 * The entry points ge_core calls, as one table of function pointers filled by dlsym, so that nothing links AscendCL.
 * A library that lacks a REQUIRED one is refused; a missing OPTIONAL one answers ACL_ERROR_API_NOT_SUPPORT.
 */
#ifndef GE_CORE_ACL_TABLE_H
#define GE_CORE_ACL_TABLE_H

#include <dlfcn.h>

#include "acl_abi.h"

#define ACL_REQUIRED(X)                \
  X(aclInit)                           \
  X(aclGetRecentErrMsg)                \
  X(aclrtGetSocName)                   \
  X(aclrtGetDeviceCount)               \
  X(aclrtGetMemInfo)                   \
  X(aclrtCreateContext)                \
  X(aclrtDestroyContext)               \
  X(aclrtSetCurrentContext)            \
  X(aclrtGetCurrentContext)            \
  X(aclrtCreateStream)                 \
  X(aclrtCreateStreamWithConfig)       \
  X(aclrtDestroyStream)                \
  X(aclrtSynchronizeStream)            \
  X(aclrtSynchronizeStreamWithTimeout) \
  X(aclrtMalloc)                       \
  X(aclrtFree)                         \
  X(aclrtMallocHost)                   \
  X(aclrtFreeHost)                     \
  X(aclrtMemcpyAsync)                  \
  X(aclrtStreamQuery)                  \
  X(aclCreateDataBuffer)               \
  X(aclDestroyDataBuffer)              \
  X(aclUpdateDataBuffer)               \
  X(aclGetDataBufferAddr)              \
  X(aclCreateTensorDesc)               \
  X(aclDestroyTensorDesc)              \
  X(aclGetTensorDescNumDims)           \
  X(aclGetTensorDescDimV2)             \
  X(aclmdlCreateDesc)                  \
  X(aclmdlDestroyDesc)                 \
  X(aclmdlGetDesc)                     \
  X(aclmdlGetDescFromFile)             \
  X(aclmdlGetNumInputs)                \
  X(aclmdlGetNumOutputs)               \
  X(aclmdlGetInputSizeByIndex)         \
  X(aclmdlGetOutputSizeByIndex)        \
  X(aclmdlGetInputDimsV2)              \
  X(aclmdlGetInputDimsRange)           \
  X(aclmdlGetOutputDims)               \
  X(aclmdlGetCurOutputDims)            \
  X(aclmdlGetInputNameByIndex)         \
  X(aclmdlGetOutputNameByIndex)        \
  X(aclmdlGetInputDataType)            \
  X(aclmdlGetOutputDataType)           \
  X(aclmdlGetDynamicBatch)             \
  X(aclmdlGetDynamicHW)                \
  X(aclmdlGetInputDynamicGearCount)    \
  X(aclmdlGetInputDynamicDims)         \
  X(aclmdlSetDynamicBatchSize)         \
  X(aclmdlSetDynamicHWSize)            \
  X(aclmdlSetInputDynamicDims)         \
  X(aclmdlSetDatasetTensorDesc)        \
  X(aclmdlGetDatasetTensorDesc)        \
  X(aclmdlCreateDataset)               \
  X(aclmdlDestroyDataset)              \
  X(aclmdlAddDatasetBuffer)            \
  X(aclmdlQuerySize)                   \
  X(aclmdlLoadFromFileWithMem)         \
  X(aclmdlLoadFromFile)                \
  X(aclmdlExecute)                     \
  X(aclmdlExecuteAsync)                \
  X(aclmdlUnload)

#define ACL_OPTIONAL(X)                \
  X(aclrtGetVersion)                   \
  X(aclsysGetCANNVersion)              \
  X(aclrtSetOpExecuteTimeOutWithMs)    \
  X(aclrtSynchronizeDeviceWithTimeout) \
  X(aclrtHostRegisterV2)               \
  X(aclrtHostUnregister)               \
  X(aclrtGetDeviceUtilizationRate)     \
  X(aclrtCreateEventExWithFlag)        \
  X(aclrtDestroyEvent)                 \
  X(aclrtRecordEvent)                  \
  X(aclrtEventElapsedTime)

typedef struct acl_table {
#define ACL_MEMBER(name) __typeof__(&name) name;
  ACL_REQUIRED(ACL_MEMBER)
  ACL_OPTIONAL(ACL_MEMBER)
#undef ACL_MEMBER
} acl_table;

static int acl_absent(void) { return ACL_ERROR_API_NOT_SUPPORT; }

static inline void* acl_find(void* const* libraries, int count, const char* name) {
  for (int i = 0; i < count; ++i) {
    void* symbol = dlsym(libraries[i], name);
    if (symbol != NULL) return symbol;
  }
  return NULL;
}

/* Fills the table, first hit over `libraries`. Returns NULL, or the first required symbol that none of them has. */
static inline const char* acl_table_bind(acl_table* table, void* const* libraries, int count) {
  void* symbol;
#define ACL_RESOLVE(name)                     \
  symbol = acl_find(libraries, count, #name); \
  if (symbol == NULL) return #name;           \
  *(void**)&table->name = symbol;
  ACL_REQUIRED(ACL_RESOLVE)
#undef ACL_RESOLVE
#define ACL_RESOLVE(name)                     \
  symbol = acl_find(libraries, count, #name); \
  *(void**)&table->name = symbol != NULL ? symbol : (void*)&acl_absent;
  ACL_OPTIONAL(ACL_RESOLVE)
#undef ACL_RESOLVE
  return NULL;
}

/* The name of an error code, without its ACL_ERROR_ prefix; NULL for a code AscendCL does not have. */
static inline const char* acl_error_name(aclError code) {
  switch (code) {
#define ACL_ERROR_CASE(name, value) \
  case value:                       \
    return #name;
    ACL_ERRORS(ACL_ERROR_CASE)
#undef ACL_ERROR_CASE
    default:
      return NULL;
  }
}

#endif
