# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef extern from "acl_table.h" nogil:
    ctypedef int aclError
    ctypedef void* aclrtContext
    ctypedef void* aclrtStream
    ctypedef void* aclrtEvent
    ctypedef enum aclrtStreamStatus:
        ACL_STREAM_STATUS_COMPLETE
        ACL_STREAM_STATUS_NOT_READY
    ctypedef struct aclDataBuffer
    ctypedef struct aclTensorDesc
    ctypedef struct aclmdlDataset
    ctypedef struct aclmdlDesc
    ctypedef struct aclmdlIODims:
        size_t dimCount
        int64_t* dims
    ctypedef struct aclmdlIODimsRange:
        size_t rangeCount
        int64_t range[128][2]
    ctypedef struct aclmdlBatch:
        size_t batchCount
        uint64_t* batch
    ctypedef struct aclmdlHW:
        size_t hwCount
        uint64_t hw[128][2]
    ctypedef struct aclrtUtilizationInfo:
        int cubeUtilization
        int vectorUtilization
        int aicpuUtilization
        void* utilizationExtend
    ctypedef struct aclCANNPackageVersion:
        char* version

    enum:
        ACL_ERROR_FAILURE
        ACL_EVENT_TIME_LINE
        ACL_ERROR_REPEAT_INITIALIZE
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT
        ACL_FORMAT_ND
        ACL_HOST_REG_PINNED
        ACL_HBM_MEM
        ACL_MEMCPY_HOST_TO_DEVICE
        ACL_MEMCPY_DEVICE_TO_HOST
        ACL_MEM_MALLOC_HUGE_FIRST
        ACL_PKG_NAME_CANN
        ACL_STREAM_FAST_LAUNCH
        ACL_STREAM_FAST_SYNC
    const char* ACL_DYNAMIC_TENSOR_NAME
    const char* ACL_DYNAMIC_AIPP_NAME

    ctypedef struct acl_table:
        aclError (*aclInit)(const char*) noexcept nogil
        const char* (*aclGetRecentErrMsg)() noexcept nogil
        const char* (*aclrtGetSocName)() noexcept nogil
        aclError (*aclrtGetDeviceCount)(uint32_t*) noexcept nogil
        aclError (*aclrtGetMemInfo)(int, size_t*, size_t*) noexcept nogil
        aclError (*aclrtCreateContext)(aclrtContext*, int) noexcept nogil
        aclError (*aclrtDestroyContext)(aclrtContext) noexcept nogil
        aclError (*aclrtSetCurrentContext)(aclrtContext) noexcept nogil
        aclError (*aclrtGetCurrentContext)(aclrtContext*) noexcept nogil
        aclError (*aclrtCreateStream)(aclrtStream*) noexcept nogil
        aclError (*aclrtCreateStreamWithConfig)(aclrtStream*, uint32_t, uint32_t) noexcept nogil
        aclError (*aclrtDestroyStream)(aclrtStream) noexcept nogil
        aclError (*aclrtSynchronizeStream)(aclrtStream) noexcept nogil
        aclError (*aclrtSynchronizeStreamWithTimeout)(aclrtStream, int) noexcept nogil
        aclError (*aclrtMalloc)(void**, size_t, int) noexcept nogil
        aclError (*aclrtFree)(void*) noexcept nogil
        aclError (*aclrtMallocHost)(void**, size_t) noexcept nogil
        aclError (*aclrtFreeHost)(void*) noexcept nogil
        aclError (*aclrtMemcpyAsync)(void*, size_t, const void*, size_t, int, aclrtStream) noexcept nogil
        aclError (*aclrtStreamQuery)(aclrtStream, aclrtStreamStatus*) noexcept nogil
        aclDataBuffer* (*aclCreateDataBuffer)(void*, size_t) noexcept nogil
        aclError (*aclDestroyDataBuffer)(const aclDataBuffer*) noexcept nogil
        aclError (*aclUpdateDataBuffer)(aclDataBuffer*, void*, size_t) noexcept nogil
        void* (*aclGetDataBufferAddr)(const aclDataBuffer*) noexcept nogil
        aclTensorDesc* (*aclCreateTensorDesc)(int, int, const int64_t*, int) noexcept nogil
        void (*aclDestroyTensorDesc)(const aclTensorDesc*) noexcept nogil
        size_t (*aclGetTensorDescNumDims)(const aclTensorDesc*) noexcept nogil
        aclError (*aclGetTensorDescDimV2)(const aclTensorDesc*, size_t, int64_t*) noexcept nogil
        aclmdlDesc* (*aclmdlCreateDesc)() noexcept nogil
        aclError (*aclmdlDestroyDesc)(aclmdlDesc*) noexcept nogil
        aclError (*aclmdlGetDesc)(aclmdlDesc*, uint32_t) noexcept nogil
        aclError (*aclmdlGetDescFromFile)(aclmdlDesc*, const char*) noexcept nogil
        size_t (*aclmdlGetNumInputs)(aclmdlDesc*) noexcept nogil
        size_t (*aclmdlGetNumOutputs)(aclmdlDesc*) noexcept nogil
        size_t (*aclmdlGetInputSizeByIndex)(aclmdlDesc*, size_t) noexcept nogil
        size_t (*aclmdlGetOutputSizeByIndex)(aclmdlDesc*, size_t) noexcept nogil
        aclError (*aclmdlGetInputDimsV2)(const aclmdlDesc*, size_t, aclmdlIODims*) noexcept nogil
        aclError (*aclmdlGetInputDimsRange)(const aclmdlDesc*, size_t, aclmdlIODimsRange*) noexcept nogil
        aclError (*aclmdlGetOutputDims)(const aclmdlDesc*, size_t, aclmdlIODims*) noexcept nogil
        aclError (*aclmdlGetCurOutputDims)(const aclmdlDesc*, size_t, aclmdlIODims*) noexcept nogil
        const char* (*aclmdlGetInputNameByIndex)(const aclmdlDesc*, size_t) noexcept nogil
        const char* (*aclmdlGetOutputNameByIndex)(const aclmdlDesc*, size_t) noexcept nogil
        int (*aclmdlGetInputDataType)(const aclmdlDesc*, size_t) noexcept nogil
        int (*aclmdlGetOutputDataType)(const aclmdlDesc*, size_t) noexcept nogil
        aclError (*aclmdlGetDynamicBatch)(const aclmdlDesc*, aclmdlBatch*) noexcept nogil
        aclError (*aclmdlGetDynamicHW)(const aclmdlDesc*, size_t, aclmdlHW*) noexcept nogil
        aclError (*aclmdlGetInputDynamicGearCount)(const aclmdlDesc*, size_t, size_t*) noexcept nogil
        aclError (*aclmdlGetInputDynamicDims)(const aclmdlDesc*, size_t, aclmdlIODims*, size_t) noexcept nogil
        aclError (*aclmdlSetDynamicBatchSize)(uint32_t, aclmdlDataset*, size_t, uint64_t) noexcept nogil
        aclError (*aclmdlSetDynamicHWSize)(uint32_t, aclmdlDataset*, size_t, uint64_t, uint64_t) noexcept nogil
        aclError (*aclmdlSetInputDynamicDims)(uint32_t, aclmdlDataset*, size_t, const aclmdlIODims*) noexcept nogil
        aclError (*aclmdlSetDatasetTensorDesc)(aclmdlDataset*, aclTensorDesc*, size_t) noexcept nogil
        aclTensorDesc* (*aclmdlGetDatasetTensorDesc)(const aclmdlDataset*, size_t) noexcept nogil
        aclmdlDataset* (*aclmdlCreateDataset)() noexcept nogil
        aclError (*aclmdlDestroyDataset)(const aclmdlDataset*) noexcept nogil
        aclError (*aclmdlAddDatasetBuffer)(aclmdlDataset*, aclDataBuffer*) noexcept nogil
        aclError (*aclmdlQuerySize)(const char*, size_t*, size_t*) noexcept nogil
        aclError (*aclmdlLoadFromFileWithMem)(const char*, uint32_t*, void*, size_t, void*, size_t) noexcept nogil
        aclError (*aclmdlLoadFromFile)(const char*, uint32_t*) noexcept nogil
        aclError (*aclmdlExecute)(uint32_t, const aclmdlDataset*, aclmdlDataset*) noexcept nogil
        aclError (*aclmdlExecuteAsync)(uint32_t, const aclmdlDataset*, aclmdlDataset*, aclrtStream) noexcept nogil
        aclError (*aclmdlUnload)(uint32_t) noexcept nogil
        aclError (*aclrtGetVersion)(int*, int*, int*) noexcept nogil
        aclError (*aclsysGetCANNVersion)(int, aclCANNPackageVersion*) noexcept nogil
        aclError (*aclrtSetOpExecuteTimeOutWithMs)(uint32_t) noexcept nogil
        aclError (*aclrtSynchronizeDeviceWithTimeout)(int) noexcept nogil
        aclError (*aclrtHostRegisterV2)(void*, uint64_t, uint32_t) noexcept nogil
        aclError (*aclrtHostUnregister)(void*) noexcept nogil
        aclError (*aclrtGetDeviceUtilizationRate)(int, aclrtUtilizationInfo*) noexcept nogil
        aclError (*aclrtCreateEventExWithFlag)(aclrtEvent*, uint32_t) noexcept nogil
        aclError (*aclrtDestroyEvent)(aclrtEvent) noexcept nogil
        aclError (*aclrtRecordEvent)(aclrtEvent, aclrtStream) noexcept nogil
        aclError (*aclrtEventElapsedTime)(float*, aclrtEvent, aclrtEvent) noexcept nogil

cdef enum Kind:
    CONTEXT, STREAM, EVENT, DEVICE_BUFFER, PINNED_BUFFER, MODEL, DATASET, DATA_BUFFER, KINDS

cdef acl_table api                     # filled once by open_library(); read-only afterwards
cdef long live[<int>KINDS]             # native objects this module's users hold, by kind
cdef bint forked                       # set in a forked child, where no handle of the parent may be used

cdef object failure(aclError rc, const char* call)
cdef int check(aclError rc, const char* call) except -1 nogil
cdef int refuse_fork() except -1
cdef bint usable() noexcept
cdef void released(Kind kind, aclError rc) noexcept
