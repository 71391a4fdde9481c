// SPDX-License-Identifier: Apache-2.0
/*
 * AscendCL's C ABI as ge_core sees it: the only types, constants and prototypes of it in this project.
 *
 * ACL_FUNCTIONS lists every entry point of the runtime and model APIs that a server library exports, as
 *   X(release, library, return type, name, arguments)
 * release: V8 = in CANN 8.1, V9 = added since.  library: RT or MDL, the 9.x library that carries it (8.1 has all of
 * them in libascendcl.so).  No function changed its signature and no struct its layout between the two releases.
 */
#ifndef GE_CORE_ACL_ABI_H
#define GE_CORE_ACL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles and scalars ---- */
typedef struct aclAippExtendInfo aclAippExtendInfo;
typedef struct aclDataBuffer aclDataBuffer;
typedef struct aclTensorDesc aclTensorDesc;
typedef struct aclmdlAIPP aclmdlAIPP;
typedef struct aclmdlBundleQueryInfo aclmdlBundleQueryInfo;
typedef struct aclmdlConfigHandle aclmdlConfigHandle;
typedef struct aclmdlDataset aclmdlDataset;
typedef struct aclmdlDesc aclmdlDesc;
typedef struct aclmdlExecConfigHandle aclmdlExecConfigHandle;
typedef struct aclrtExceptionInfo aclrtExceptionInfo;
typedef struct aclrtUtilizationExtendInfo aclrtUtilizationExtendInfo;
typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;
typedef int aclError;
typedef uint16_t aclFloat16;
typedef void *aclrtAllocatorDesc;
typedef void *aclrtAllocator;
typedef void *aclrtAllocatorBlock;
typedef void *aclrtAllocatorAddr;
typedef void *aclrtTaskGrp;
typedef void *aclrtDrvMemHandle;
typedef void *aclrtFuncHandle;
typedef void *aclmdlRI;
typedef void *aclmdlRITask;
typedef void *aclrtMbuf;
typedef void *aclmdlRICondHandle;

/* ---- enums (each a 4-byte int) ---- */
typedef enum {
  ACL_DT_UNDEFINED = -1, ACL_FLOAT = 0, ACL_FLOAT16 = 1, ACL_INT8 = 2, ACL_INT32 = 3, ACL_UINT8 = 4, ACL_INT16 = 6,
  ACL_UINT16 = 7, ACL_UINT32 = 8, ACL_INT64 = 9, ACL_UINT64 = 10, ACL_DOUBLE = 11, ACL_BOOL = 12, ACL_STRING = 13,
  ACL_COMPLEX64 = 16, ACL_COMPLEX128 = 17, ACL_BF16 = 27, ACL_INT4 = 29, ACL_UINT1 = 30, ACL_COMPLEX32 = 33,
  ACL_HIFLOAT8 = 34, ACL_FLOAT8_E5M2 = 35, ACL_FLOAT8_E4M3FN = 36, ACL_FLOAT8_E8M0 = 37, ACL_FLOAT6_E3M2 = 38,
  ACL_FLOAT6_E2M3 = 39, ACL_FLOAT4_E2M1 = 40, ACL_FLOAT4_E1M2 = 41
} aclDataType;
typedef enum {
  ACL_FORMAT_UNDEFINED = -1, ACL_FORMAT_NCHW = 0, ACL_FORMAT_NHWC = 1, ACL_FORMAT_ND = 2, ACL_FORMAT_NC1HWC0 = 3,
  ACL_FORMAT_FRACTAL_Z = 4, ACL_FORMAT_NC1HWC0_C04 = 12, ACL_FORMAT_HWCN = 16, ACL_FORMAT_NDHWC = 27,
  ACL_FORMAT_FRACTAL_NZ = 29, ACL_FORMAT_NCDHW = 30, ACL_FORMAT_NDC1HWC0 = 32, ACL_FRACTAL_Z_3D = 33,
  ACL_FORMAT_NC = 35, ACL_FORMAT_NCL = 47, ACL_FORMAT_FRACTAL_NZ_C0_16 = 50, ACL_FORMAT_FRACTAL_NZ_C0_32 = 51,
  ACL_FORMAT_FRACTAL_NZ_C0_2 = 52, ACL_FORMAT_FRACTAL_NZ_C0_4 = 53, ACL_FORMAT_FRACTAL_NZ_C0_8 = 54
} aclFormat;
typedef enum { ACL_DEBUG = 0, ACL_INFO = 1, ACL_WARNING = 2, ACL_ERROR = 3 } aclLogLevel;
typedef enum { ACL_MEMTYPE_DEVICE = 0, ACL_MEMTYPE_HOST = 1, ACL_MEMTYPE_HOST_COMPILE_INDEPENDENT = 2 } aclMemType;
typedef enum {
  ACL_OPT_DETERMINISTIC = 0, ACL_OPT_ENABLE_DEBUG_KERNEL = 1, ACL_OPT_STRONG_CONSISTENCY = 2,
  ACL_OPT_ENABLE_KERNEL_EARLY_START = 3
} aclSysParamOpt;
typedef enum {
  ACL_CANN_ATTR_UNDEFINED = -1, ACL_CANN_ATTR_INF_NAN = 0, ACL_CANN_ATTR_BF16 = 1, ACL_CANN_ATTR_JIT_COMPILE = 2
} aclCannAttr;
typedef enum {
  ACL_DEVICE_INFO_UNDEFINED = -1, ACL_DEVICE_INFO_AI_CORE_NUM = 0, ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
  ACL_DEVICE_INFO_L2_SIZE = 2
} aclDeviceInfo;
typedef enum { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;
typedef enum { ACL_TS_ID_AICORE = 0, ACL_TS_ID_AIVECTOR = 1, ACL_TS_ID_RESERVED = 2 } aclrtTsId;
typedef enum {
  ACL_EVENT_STATUS_COMPLETE = 0, ACL_EVENT_STATUS_NOT_READY = 1, ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;
typedef enum {
  ACL_EVENT_RECORDED_STATUS_NOT_READY = 0, ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;
typedef enum {
  ACL_EVENT_WAIT_STATUS_COMPLETE = 0, ACL_EVENT_WAIT_STATUS_NOT_READY = 1, ACL_EVENT_WAIT_STATUS_RESERVED = 65535
} aclrtEventWaitStatus;
typedef enum {
  ACL_STREAM_STATUS_COMPLETE = 0, ACL_STREAM_STATUS_NOT_READY = 1, ACL_STREAM_STATUS_RESERVED = 65535
} aclrtStreamStatus;
typedef enum { ACL_CALLBACK_NO_BLOCK = 0, ACL_CALLBACK_BLOCK = 1 } aclrtCallbackBlockType;
typedef enum {
  ACL_MEMCPY_HOST_TO_HOST = 0, ACL_MEMCPY_HOST_TO_DEVICE = 1, ACL_MEMCPY_DEVICE_TO_HOST = 2,
  ACL_MEMCPY_DEVICE_TO_DEVICE = 3, ACL_MEMCPY_DEFAULT = 4, ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
  ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6, ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;
typedef enum {
  ACL_MEM_MALLOC_HUGE_FIRST = 0, ACL_MEM_MALLOC_HUGE_ONLY = 1, ACL_MEM_MALLOC_NORMAL_ONLY = 2,
  ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3, ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4, ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
  ACL_MEM_MALLOC_HUGE1G_ONLY = 6, ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7, ACL_MEM_TYPE_LOW_BAND_WIDTH = 256,
  ACL_MEM_TYPE_HIGH_BAND_WIDTH = 4096, ACL_MEM_ACCESS_USER_SPACE_READONLY = 0x100000
} aclrtMemMallocPolicy;
typedef enum {
  ACL_HOST_REGISTER_MAPPED = 0, ACL_HOST_REGISTER_IOMEMORY = 4, ACL_HOST_REGISTER_READONLY = 8
} aclrtHostRegisterType;
typedef enum {
  ACL_RT_MEM_ATTR_RSV = 0, ACL_RT_MEM_ATTR_MODULE_ID = 1, ACL_RT_MEM_ATTR_DEVICE_ID = 2, ACL_RT_MEM_ATTR_VA_FLAG = 3
} aclrtMallocAttrType;
typedef enum {
  ACL_DDR_MEM = 0, ACL_HBM_MEM = 1, ACL_DDR_MEM_HUGE = 2, ACL_DDR_MEM_NORMAL = 3, ACL_HBM_MEM_HUGE = 4,
  ACL_HBM_MEM_NORMAL = 5, ACL_DDR_MEM_P2P_HUGE = 6, ACL_DDR_MEM_P2P_NORMAL = 7, ACL_HBM_MEM_P2P_HUGE = 8,
  ACL_HBM_MEM_P2P_NORMAL = 9, ACL_HBM_MEM_HUGE1G = 10, ACL_HBM_MEM_P2P_HUGE1G = 11, ACL_MEM_NORMAL = 12,
  ACL_MEM_HUGE = 13, ACL_MEM_HUGE1G = 14, ACL_MEM_P2P_NORMAL = 15, ACL_MEM_P2P_HUGE = 16, ACL_MEM_P2P_HUGE1G = 17
} aclrtMemAttr;
typedef enum {
  ACL_MEM_LOCATION_TYPE_HOST = 0, ACL_MEM_LOCATION_TYPE_DEVICE = 1, ACL_MEM_LOCATION_TYPE_UNREGISTERED = 2,
  ACL_MEM_LOCATION_TYPE_MANAGED = 3, ACL_MEM_LOCATION_TYPE_HOST_NUMA = 4
} aclrtMemLocationType;
typedef enum { ACL_MEM_ALLOCATION_TYPE_PINNED = 0 } aclrtMemAllocationType;
typedef enum { ACL_MEM_HANDLE_TYPE_NONE = 0, ACL_MEM_HANDLE_TYPE_POSIX = 2 } aclrtMemHandleType;
typedef enum {
  ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM = 0, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED = 1,
  ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF = 65535
} aclrtMemGranularityOptions;
typedef enum {
  ACL_RT_DEVICE_STATUS_NORMAL = 0, ACL_RT_DEVICE_STATUS_ABNORMAL = 1, ACL_RT_DEVICE_STATUS_END = 65535
} aclrtDeviceStatus;
typedef enum {
  ACL_RT_CMO_TYPE_PREFETCH = 0, ACL_RT_CMO_TYPE_WRITEBACK = 1, ACL_RT_CMO_TYPE_INVALID = 2, ACL_RT_CMO_TYPE_FLUSH = 3
} aclrtCmoType;
typedef enum { ACL_RT_THREAD_LEVEL = 0 } aclrtLastErrLevel;
typedef enum {
  ACL_RT_LAUNCH_KERNEL_ATTR_SCHEM_MODE = 1, ACL_RT_LAUNCH_KERNEL_ATTR_LOCAL_MEMORY_SIZE = 2,
  ACL_RT_LAUNCH_KERNEL_ATTR_DYN_UBUF_SIZE = 2, ACL_RT_LAUNCH_KERNEL_ATTR_ENGINE_TYPE = 3,
  ACL_RT_LAUNCH_KERNEL_ATTR_BLOCKDIM_OFFSET = 4, ACL_RT_LAUNCH_KERNEL_ATTR_BLOCK_TASK_PREFETCH = 5,
  ACL_RT_LAUNCH_KERNEL_ATTR_DATA_DUMP = 6, ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT = 7,
  ACL_RT_LAUNCH_KERNEL_ATTR_TIMEOUT_US = 8, ACL_RT_LAUNCH_KERNEL_ATTR_ENABLE_PROFILING = 9
} aclrtLaunchKernelAttrId;
typedef enum {
  ACL_YUV420SP_U8 = 1, ACL_XRGB8888_U8 = 2, ACL_RGB888_U8 = 3, ACL_YUV400_U8 = 4, ACL_NC1HWC0DI_FP16 = 5,
  ACL_NC1HWC0DI_S8 = 6, ACL_ARGB8888_U8 = 7, ACL_YUYV_U8 = 8, ACL_YUV422SP_U8 = 9, ACL_AYUV444_U8 = 10,
  ACL_RAW10 = 11, ACL_RAW12 = 12, ACL_RAW16 = 13, ACL_RAW24 = 14, ACL_AIPP_RESERVED = 65535
} aclAippInputFormat;
typedef enum {
  ACL_MDL_PRIORITY_INT32 = 0, ACL_MDL_LOAD_TYPE_SIZET = 1, ACL_MDL_PATH_PTR = 2, ACL_MDL_MEM_ADDR_PTR = 3,
  ACL_MDL_MEM_SIZET = 4, ACL_MDL_WEIGHT_ADDR_PTR = 5, ACL_MDL_WEIGHT_SIZET = 6, ACL_MDL_WORKSPACE_ADDR_PTR = 7,
  ACL_MDL_WORKSPACE_SIZET = 8, ACL_MDL_INPUTQ_NUM_SIZET = 9, ACL_MDL_INPUTQ_ADDR_PTR = 10,
  ACL_MDL_OUTPUTQ_NUM_SIZET = 11, ACL_MDL_OUTPUTQ_ADDR_PTR = 12, ACL_MDL_WORKSPACE_MEM_OPTIMIZE = 13,
  ACL_MDL_WEIGHT_PATH_PTR = 14, ACL_MDL_MODEL_DESC_PTR = 15, ACL_MDL_MODEL_DESC_SIZET = 16, ACL_MDL_KERNEL_PTR = 17,
  ACL_MDL_KERNEL_SIZET = 18, ACL_MDL_KERNEL_ARGS_PTR = 19, ACL_MDL_KERNEL_ARGS_SIZET = 20,
  ACL_MDL_STATIC_TASK_PTR = 21, ACL_MDL_STATIC_TASK_SIZET = 22, ACL_MDL_DYNAMIC_TASK_PTR = 23,
  ACL_MDL_DYNAMIC_TASK_SIZET = 24, ACL_MDL_MEM_MALLOC_POLICY_SIZET = 25, ACL_MDL_FIFO_PTR = 26,
  ACL_MDL_FIFO_SIZET = 27, ACL_MDL_WITHOUT_GRAPH_INT32 = 28, ACL_NPU_PERF_MODE = 29, ACL_MDL_RESERVED = 65535
} aclmdlConfigAttr;
typedef enum {
  ACL_MDL_STREAM_SYNC_TIMEOUT = 0, ACL_MDL_EVENT_SYNC_TIMEOUT = 1, ACL_MDL_WORK_ADDR_PTR = 2, ACL_MDL_WORK_SIZET = 3,
  ACL_MDL_MPAIMID_SIZET = 4, ACL_MDL_AICQOS_SIZET = 5, ACL_MDL_AICOST_SIZET = 6, ACL_MDL_MEC_TIMETHR_SIZET = 7,
  ACL_MDL_EXEC_PRIORITY_INT32 = 8, ACL_MDL_NPU_PERF_MODE = 9
} aclmdlExecConfigAttr;
typedef enum {
  ACL_DATA_WITHOUT_AIPP = 0, ACL_DATA_WITH_STATIC_AIPP = 1, ACL_DATA_WITH_DYNAMIC_AIPP = 2, ACL_DYNAMIC_AIPP_NODE = 3
} aclmdlInputAippType;
typedef enum {
  ACL_MODEL_RI_CAPTURE_MODE_GLOBAL = 0, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL = 1,
  ACL_MODEL_RI_CAPTURE_MODE_RELAXED = 2
} aclmdlRICaptureMode;
typedef enum {
  ACL_MODEL_RI_CAPTURE_STATUS_NONE = 0, ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE = 1,
  ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED = 2
} aclmdlRICaptureStatus;
typedef enum {
  ACL_PKG_NAME_CANN = 0, ACL_PKG_NAME_RUNTIME = 1, ACL_PKG_NAME_COMPILER = 2, ACL_PKG_NAME_HCCL = 3,
  ACL_PKG_NAME_TOOLKIT = 4, ACL_PKG_NAME_OPP = 5, ACL_PKG_NAME_OPP_KERNEL = 6, ACL_PKG_NAME_DRIVER = 7
} aclCANNPackageName;
typedef enum {
  ACL_MEM_ADVISE_SET_READ_MOSTLY = 0, ACL_MEM_ADVISE_UNSET_READ_MOSTLY = 1, ACL_MEM_ADVISE_SET_PREFERRED_LOCATION = 2,
  ACL_MEM_ADVISE_UNSET_PREFERRED_LOCATION = 3, ACL_MEM_ADVISE_SET_ACCESSED_BY = 4,
  ACL_MEM_ADVISE_UNSET_ACCESSED_BY = 5
} aclrtMemManagedAdviseType;
typedef enum {
  ACL_MEM_LOCATIONTYPE_INVALID = 0, ACL_MEM_LOCATIONTYPE_DEVICE = 1, ACL_MEM_LOCATIONTYPE_HOST = 2,
  ACL_MEM_LOCATIONTYPE_HOST_NUMA = 3, ACL_MEM_LOCATIONTYPE_HOST_NUMA_CURRENT = 4
} aclrtMemManagedLocationType;
typedef enum { ACL_RT_IPC_MEM_ATTR_ACCESS_LINK = 0 } aclrtIpcMemAttrType;
typedef enum {
  ACL_MEM_RANGE_ATTRIBUTE_READ_MOSTLY = 1, ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION = 2,
  ACL_MEM_RANGE_ATTRIBUTE_ACCESSED_BY = 3, ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE = 4,
  ACL_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID = 5, ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION = 6,
  ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE = 7, ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID = 8
} aclrtMemManagedRangeAttribute;
typedef enum { ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT = 1, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC = 2 } aclrtMemSharedHandleType;
typedef enum {
  ACL_RT_NO_ERROR = 0, ACL_RT_ERROR_MEMORY = 1, ACL_RT_ERROR_L2 = 2, ACL_RT_ERROR_AICORE = 3, ACL_RT_ERROR_LINK = 4,
  ACL_RT_ERROR_L3_PORT = 5, ACL_RT_ERROR_OTHERS = 65535
} aclrtErrorType;
typedef enum {
  ACL_RT_AICORE_ERROR_UNKNOWN = 0, ACL_RT_AICORE_ERROR_SW = 1, ACL_RT_AICORE_ERROR_HW_LOCAL = 2
} aclrtAicoreErrorType;
typedef enum { ACL_RT_ENGINE_TYPE_AIC = 0, ACL_RT_ENGINE_TYPE_AIV = 1 } aclrtEngineType;
typedef enum {
  ACL_STREAM_ATTR_FAILURE_MODE = 1, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK = 2, ACL_STREAM_ATTR_USER_CUSTOM_TAG = 3,
  ACL_STREAM_ATTR_CACHE_OP_INFO = 4, ACL_STREAM_ATTR_PRIORITY = 5
} aclrtStreamAttr;
typedef enum {
  ACL_MODEL_RI_TASK_DEFAULT = 0, ACL_MODEL_RI_TASK_KERNEL = 1, ACL_MODEL_RI_TASK_EVENT_RECORD = 2,
  ACL_MODEL_RI_TASK_EVENT_WAIT = 3, ACL_MODEL_RI_TASK_EVENT_RESET = 4, ACL_MODEL_RI_TASK_VALUE_WRITE = 5,
  ACL_MODEL_RI_TASK_VALUE_WAIT = 6
} aclmdlRITaskType;
typedef enum {
  ACL_DEV_ATTR_AICPU_CORE_NUM = 1, ACL_DEV_ATTR_AICORE_CORE_NUM = 101, ACL_DEV_ATTR_CUBE_CORE_NUM = 102,
  ACL_DEV_ATTR_VECTOR_CORE_NUM = 201, ACL_DEV_ATTR_WARP_SIZE = 202, ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE = 203,
  ACL_DEV_ATTR_LOCAL_MEM_PER_VECTOR_CORE = 204, ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE = 204,
  ACL_DEV_ATTR_MAX_GRID_DIM_X = 205, ACL_DEV_ATTR_MAX_GRID_DIM_Y = 206, ACL_DEV_ATTR_MAX_GRID_DIM_Z = 207,
  ACL_DEV_ATTR_MAX_BLOCK_PER_GRID = 208, ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK = 209, ACL_DEV_ATTR_MAX_BLOCK_DIM_X = 210,
  ACL_DEV_ATTR_MAX_BLOCK_DIM_Y = 211, ACL_DEV_ATTR_MAX_BLOCK_DIM_Z = 212, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE = 301,
  ACL_DEV_ATTR_L2_CACHE_SIZE = 302, ACL_DEV_ATTR_SMP_ID = 401, ACL_DEV_ATTR_PHY_CHIP_ID = 402,
  ACL_DEV_ATTR_SUPER_POD_DEVIDE_ID = 403, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID = 403,
  ACL_DEV_ATTR_SUPER_POD_SERVER_ID = 404, ACL_DEV_ATTR_SUPER_POD_ID = 405, ACL_DEV_ATTR_CUST_OP_PRIVILEGE = 406,
  ACL_DEV_ATTR_MAINBOARD_ID = 407, ACL_DEV_ATTR_HD_CONNECT_TYPE = 408, ACL_DEV_ATTR_DEVICE_FORM_FACTOR = 409,
  ACL_DEV_ATTR_IS_VIRTUAL = 501, ACL_DEV_ATTR_NPU_ARCH = 601
} aclrtDevAttr;
typedef enum {
  ACL_FEATURE_TSCPU_TASK_UPDATE_SUPPORT_AIC_AIV = 1, ACL_FEATURE_SYSTEM_MEMQ_EVENT_CROSS_DEV = 21
} aclrtDevFeatureType;
typedef enum { ACL_RT_DEV_RES_CUBE_CORE = 0, ACL_RT_DEV_RES_VECTOR_CORE = 1 } aclrtDevResLimitType;
typedef enum {
  ACL_RT_EQUAL = 0, ACL_RT_NOT_EQUAL = 1, ACL_RT_GREATER = 2, ACL_RT_GREATER_OR_EQUAL = 3, ACL_RT_LESS = 4,
  ACL_RT_LESS_OR_EQUAL = 5
} aclrtCondition;
typedef enum { ACL_RT_SWITCH_INT32 = 0, ACL_RT_SWITCH_INT64 = 1 } aclrtCompareDataType;
typedef enum { ACL_RT_DEVICE_TASK_ABORT_PRE = 0, ACL_RT_DEVICE_TASK_ABORT_POST = 1 } aclrtDeviceTaskAbortStage;
typedef enum {
  ACL_RT_DEVICE_STATE_SET_PRE = 0, ACL_RT_DEVICE_STATE_SET_POST = 1, ACL_RT_DEVICE_STATE_RESET_PRE = 2,
  ACL_RT_DEVICE_STATE_RESET_POST = 3
} aclrtDeviceState;
typedef enum { ACL_RT_STREAM_STATE_CREATE_POST = 1, ACL_RT_STREAM_STATE_DESTROY_PRE = 2 } aclrtStreamState;
typedef enum {
  ACL_RT_MEM_ACCESS_FLAGS_NONE = 0, ACL_RT_MEM_ACCESS_FLAGS_READ = 1, ACL_RT_MEM_ACCESS_FLAGS_READWRITE = 3
} aclrtMemAccessFlags;
typedef enum {
  ACL_RT_HAC_TYPE_STARS = 0, ACL_RT_HAC_TYPE_AICPU = 1, ACL_RT_HAC_TYPE_AIC = 2, ACL_RT_HAC_TYPE_AIV = 3,
  ACL_RT_HAC_TYPE_PCIEDMA = 4, ACL_RT_HAC_TYPE_RDMA = 5, ACL_RT_HAC_TYPE_SDMA = 6, ACL_RT_HAC_TYPE_DVPP = 7,
  ACL_RT_HAC_TYPE_UDMA = 8, ACL_RT_HAC_TYPE_CCU = 9
} aclrtHacType;
typedef enum { ACL_RT_HOST_MEM_MAP_NOT_SUPPORTED = 0, ACL_RT_HOST_MEM_MAP_SUPPORTED = 1 } aclrtHostMemMapCapability;
typedef enum {
  ACL_RT_MEM_ACCESS_LINK_SIO = 0, ACL_RT_MEM_ACCESS_LINK_HCCS = 1, ACL_RT_MEM_ACCESS_UB_ONE_PORT_PATH = 2,
  ACL_RT_MEM_ACCESS_UB_MULTI_PORT_PATH = 3
} aclrtMemLinkType;
typedef enum {
  ACL_RT_ATOMIC_OPERATION_INTEGER_ADD = 0, ACL_RT_ATOMIC_OPERATION_INTEGER_MIN = 1,
  ACL_RT_ATOMIC_OPERATION_INTEGER_MAX = 2, ACL_RT_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
  ACL_RT_ATOMIC_OPERATION_INTEGER_DECREMENT = 4, ACL_RT_ATOMIC_OPERATION_AND = 5, ACL_RT_ATOMIC_OPERATION_OR = 6,
  ACL_RT_ATOMIC_OPERATION_XOR = 7, ACL_RT_ATOMIC_OPERATION_EXCHANGE = 8, ACL_RT_ATOMIC_OPERATION_CAS = 9,
  ACL_RT_ATOMIC_OPERATION_FLOAT_ADD = 10, ACL_RT_ATOMIC_OPERATION_FLOAT_MIN = 11,
  ACL_RT_ATOMIC_OPERATION_FLOAT_MAX = 12, ACL_RT_ATOMIC_OPERATION_DMA_ADD = 30, ACL_RT_ATOMIC_OPERATION_DMA_MIN = 31,
  ACL_RT_ATOMIC_OPERATION_DMA_MAX = 32, ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_ADD = 40,
  ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MIN = 41, ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_MAX = 42,
  ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_CAS = 43, ACL_RT_ATOMIC_OPERATION_SIMD_SCALAR_EXCH = 44
} aclrtAtomicOperation;
typedef enum { ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT = 1 } aclmdlRICondHandleFlag;
typedef enum {
  ACL_MODEL_RI_COND_TYPE_IF = 0, ACL_MODEL_RI_COND_TYPE_WHILE = 1, ACL_MODEL_RI_COND_TYPE_SWITCH = 2
} aclmdlRICondTaskType;
typedef enum {
  ACL_RT_DEV_LIMIT_SIMT_STACK_SIZE = 0, ACL_RT_DEV_LIMIT_SIMT_DVG_WARP_STACK_SIZE = 1,
  ACL_RT_DEV_LIMIT_SIMD_STACK_SIZE = 2, ACL_RT_DEV_LIMIT_SIMD_PRINTF_FIFO_SIZE_PER_CORE = 3,
  ACL_RT_DEV_LIMIT_SIMT_PRINTF_FIFO_SIZE = 4
} aclrtDeviceLimit;
typedef enum {
  ACL_REG_TYPE_ACL_MODEL = 0, ACL_REG_TYPE_ACL_OP_EXECUTOR = 1, ACL_REG_TYPE_ACL_OP_CBLAS = 2,
  ACL_REG_TYPE_ACL_OP_COMPILER = 3, ACL_REG_TYPE_ACL_TDT_CHANNEL = 4, ACL_REG_TYPE_ACL_TDT_QUEUE = 5,
  ACL_REG_TYPE_ACL_DVPP = 6, ACL_REG_TYPE_ACL_RETR = 7, ACL_REG_TYPE_OTHER = 65535
} aclRegisterCallbackType;
typedef enum { ACL_MDL_ATTR_PRIORITY_INT32 = 0 } aclmdlAttr;

/* ---- callbacks ---- */
typedef void (*aclrtCallback)(void *userData);
typedef void (*aclrtExceptionInfoCallback)(aclrtExceptionInfo *exceptionInfo);
typedef void *(*aclrtAllocatorAllocFunc)(aclrtAllocator allocator, size_t size);
typedef void (*aclrtAllocatorFreeFunc)(aclrtAllocator allocator, aclrtAllocatorBlock block);
typedef void *(*aclrtAllocatorAllocAdviseFunc)(aclrtAllocator allocator, size_t size, aclrtAllocatorAddr addr);
typedef void *(*aclrtAllocatorGetAddrFromBlockFunc)(aclrtAllocatorBlock block);
typedef void (*aclrtHostFunc)(void *args);
typedef void (*aclrtDeviceStateCallback)(int32_t deviceId, aclrtDeviceState state, void *args);
typedef void (*aclrtStreamStateCallback)(aclrtStream stm, aclrtStreamState state, void *args);
typedef int32_t (*aclrtDeviceTaskAbortCallback)(int32_t deviceId, aclrtDeviceTaskAbortStage stage, uint32_t timeout, void *args);
typedef aclError (*aclInitCallbackFunc)(const char *configStr, size_t len, void *userData);
typedef aclError (*aclFinalizeCallbackFunc)(void *userData);

/* ---- structs ---- */
typedef union aclrtMallocAttrValue {
  uint16_t moduleId;
  uint32_t deviceId;
  uint32_t vaFlag;
  uint8_t rsv[8];
} aclrtMallocAttrValue;
typedef struct aclrtMallocAttribute {
  aclrtMallocAttrType attr;
  aclrtMallocAttrValue value;
} aclrtMallocAttribute;
typedef struct aclrtMallocConfig {
  aclrtMallocAttribute *attrs;
  size_t numAttrs;
} aclrtMallocConfig;
typedef struct aclrtUtilizationInfo {
  int32_t cubeUtilization;
  int32_t vectorUtilization;
  int32_t aicpuUtilization;
  int32_t memoryUtilization;
  aclrtUtilizationExtendInfo *utilizationExtend;
} aclrtUtilizationInfo;
typedef struct aclrtMemLocation {
  uint32_t id;
  aclrtMemLocationType type;
} aclrtMemLocation;
typedef struct aclrtPtrAttributes {
  aclrtMemLocation location;
  uint32_t pageSize;
  uint32_t rsv[4];
} aclrtPtrAttributes;
typedef struct aclrtPhysicalMemProp {
  aclrtMemHandleType handleType;
  aclrtMemAllocationType allocationType;
  aclrtMemAttr memAttr;
  aclrtMemLocation location;
  uint64_t reserve;
} aclrtPhysicalMemProp;
typedef struct aclrtMemUceInfo {
  void *addr;
  size_t len;
  size_t reserved[14];
} aclrtMemUceInfo;
typedef struct aclrtTimeoutUs {
  uint32_t timeoutLow;
  uint32_t timeoutHigh;
} aclrtTimeoutUs;
typedef union aclrtLaunchKernelAttrValue {
  uint8_t schemMode;
  uint32_t localMemorySize;
  uint32_t dynUBufSize;
  aclrtEngineType engineType;
  uint32_t blockDimOffset;
  uint8_t isBlockTaskPrefetch;
  uint8_t isDataDump;
  uint16_t timeout;
  aclrtTimeoutUs timeoutUs;
  uint8_t enableProfiling;
  uint32_t rsv[4];
} aclrtLaunchKernelAttrValue;
typedef struct aclrtLaunchKernelAttr {
  aclrtLaunchKernelAttrId id;
  aclrtLaunchKernelAttrValue value;
} aclrtLaunchKernelAttr;
typedef struct aclrtLaunchKernelCfg {
  aclrtLaunchKernelAttr *attrs;
  size_t numAttrs;
} aclrtLaunchKernelCfg;
typedef struct aclmdlIODims {
  char name[128];
  size_t dimCount;
  int64_t dims[128];
} aclmdlIODims;
typedef struct aclmdlIODimsRange {
  size_t rangeCount;
  int64_t range[128][2];
} aclmdlIODimsRange;
typedef struct aclAippDims {
  aclmdlIODims srcDims;
  size_t srcSize;
  aclmdlIODims aippOutdims;
  size_t aippOutSize;
} aclAippDims;
typedef struct aclmdlBatch {
  size_t batchCount;
  uint64_t batch[128];
} aclmdlBatch;
typedef struct aclmdlHW {
  size_t hwCount;
  uint64_t hw[128][2];
} aclmdlHW;
typedef struct aclAippInfo {
  aclAippInputFormat inputFormat;
  int32_t srcImageSizeW;
  int32_t srcImageSizeH;
  int8_t cropSwitch;
  int32_t loadStartPosW;
  int32_t loadStartPosH;
  int32_t cropSizeW;
  int32_t cropSizeH;
  int8_t resizeSwitch;
  int32_t resizeOutputW;
  int32_t resizeOutputH;
  int8_t paddingSwitch;
  int32_t leftPaddingSize;
  int32_t rightPaddingSize;
  int32_t topPaddingSize;
  int32_t bottomPaddingSize;
  int8_t cscSwitch;
  int8_t rbuvSwapSwitch;
  int8_t axSwapSwitch;
  int8_t singleLineMode;
  int32_t matrixR0C0;
  int32_t matrixR0C1;
  int32_t matrixR0C2;
  int32_t matrixR1C0;
  int32_t matrixR1C1;
  int32_t matrixR1C2;
  int32_t matrixR2C0;
  int32_t matrixR2C1;
  int32_t matrixR2C2;
  int32_t outputBias0;
  int32_t outputBias1;
  int32_t outputBias2;
  int32_t inputBias0;
  int32_t inputBias1;
  int32_t inputBias2;
  int32_t meanChn0;
  int32_t meanChn1;
  int32_t meanChn2;
  int32_t meanChn3;
  float minChn0;
  float minChn1;
  float minChn2;
  float minChn3;
  float varReciChn0;
  float varReciChn1;
  float varReciChn2;
  float varReciChn3;
  aclFormat srcFormat;
  aclDataType srcDatatype;
  size_t srcDimNum;
  size_t shapeCount;
  aclAippDims outDims[128];
  aclAippExtendInfo *aippExtend;
} aclAippInfo;
typedef struct aclCANNPackageVersion {
  char version[128];
  char majorVersion[64];
  char minorVersion[64];
  char releaseVersion[64];
  char patchVersion[64];
  char reserved[128];
} aclCANNPackageVersion;
typedef struct aclrtMemManagedLocation {
  aclrtMemManagedLocationType type;
  int32_t id;
} aclrtMemManagedLocation;
typedef struct aclrtServerPid {
  uint32_t sdid;
  int32_t *pid;
  size_t num;
} aclrtServerPid;
typedef struct aclrtMemUsageInfo {
  char name[32];
  uint64_t curMemSize;
  uint64_t memPeakSize;
  size_t reserved[8];
} aclrtMemUsageInfo;
typedef struct aclrtMemUceInfoArray {
  size_t arraySize;
  aclrtMemUceInfo memUceInfoArray[20];
} aclrtMemUceInfoArray;
typedef union aclrtErrorInfoDetail {
  aclrtMemUceInfoArray uceInfo;
  aclrtAicoreErrorType aicoreErrType;
} aclrtErrorInfoDetail;
typedef struct aclrtErrorInfo {
  uint8_t tryRepair;
  uint8_t hasDetail;
  uint8_t reserved[2];
  aclrtErrorType errorType;
  aclrtErrorInfoDetail detail;
} aclrtErrorInfo;
typedef union aclrtStreamAttrValue {
  uint64_t failureMode;
  uint32_t overflowSwitch;
  uint32_t userCustomTag;
  uint32_t cacheOpInfoSwitch;
  uint32_t streamPriority;
  uint32_t reserve[4];
} aclrtStreamAttrValue;
typedef struct aclmdlRIKernelTaskParams {
  aclrtFuncHandle funcHandle;
  aclrtLaunchKernelCfg *cfg;
  void *args;
  uint32_t isHostArgs;
  size_t argsSize;
  uint32_t numBlocks;
  uint32_t rsv[10];
} aclmdlRIKernelTaskParams;
typedef struct aclmdlRIEventRecordTaskParams {
  aclrtEvent event;
  uint32_t eventFlag;
  uint32_t recordFlag;
} aclmdlRIEventRecordTaskParams;
typedef struct aclmdlRIEventWaitTaskParams {
  aclrtEvent event;
  uint32_t eventFlag;
  uint32_t waitFlag;
} aclmdlRIEventWaitTaskParams;
typedef struct aclmdlRIEventResetTaskParams {
  aclrtEvent event;
  uint32_t eventFlag;
  uint32_t resetFlag;
} aclmdlRIEventResetTaskParams;
typedef struct aclmdlRIValueWriteTaskParams {
  void *devAddr;
  uint64_t value;
} aclmdlRIValueWriteTaskParams;
typedef struct aclmdlRIValueWaitTaskParams {
  void *devAddr;
  uint64_t value;
  uint32_t flag;
} aclmdlRIValueWaitTaskParams;
typedef struct aclmdlRITaskParams {
  aclmdlRITaskType type;
  uint32_t rsv0[3];
  aclrtTaskGrp taskGrp;
  void *opInfoPtr;
  size_t opInfoSize;
  uint8_t rsv1[32];
  union {
    uint8_t rsv2[128];
    struct aclmdlRIKernelTaskParams kernelTaskParams;
    struct aclmdlRIEventRecordTaskParams eventRecordTaskParams;
    struct aclmdlRIEventWaitTaskParams eventWaitTaskParams;
    struct aclmdlRIEventResetTaskParams eventResetTaskParams;
    struct aclmdlRIValueWriteTaskParams valueWriteTaskParams;
    struct aclmdlRIValueWaitTaskParams valueWaitTaskParams;
  };
} aclmdlRITaskParams;
typedef struct aclrtBarrierCmoInfo {
  aclrtCmoType cmoType;
  uint32_t barrierId;
} aclrtBarrierCmoInfo;
typedef struct aclrtBarrierTaskInfo {
  size_t barrierNum;
  aclrtBarrierCmoInfo cmoInfo[6];
} aclrtBarrierTaskInfo;
typedef struct aclrtMemcpyBatchAttr {
  aclrtMemLocation dstLoc;
  aclrtMemLocation srcLoc;
  uint8_t rsv[16];
} aclrtMemcpyBatchAttr;
typedef struct aclrtUuid {
  char bytes[16];
} aclrtUuid;
typedef struct aclrtMemAccessDesc {
  aclrtMemAccessFlags flags;
  aclrtMemLocation location;
  uint8_t rsv[12];
} aclrtMemAccessDesc;
typedef struct aclrtIpcEventHandle {
  char reserved[64];
} aclrtIpcEventHandle;
typedef struct aclmdlRICondTaskParams {
  aclmdlRICondHandle handle;
  aclmdlRICondTaskType type;
  uint32_t size;
  aclmdlRI *modelRIArray;
} aclmdlRICondTaskParams;
typedef union aclmdlAttrValue_t {
  uint32_t mdlPriority;
  uint32_t reserved[8];
} aclmdlAttrValue_t;

/* ---- flags and limits ---- */
#define ACL_UNKNOWN_RANK 0xfffffffffffffffeull
#define ACL_EVENT_SYNC 1
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 2
#define ACL_EVENT_TIME_LINE 8
#define ACL_EVENT_EXTERNAL 32
#define ACL_STREAM_FAST_LAUNCH 1
#define ACL_STREAM_FAST_SYNC 2
#define ACL_CONTINUE_ON_FAILURE 0
#define ACL_STOP_ON_FAILURE 1
#define ACL_DIM_ENDPOINTS 2
#define ACL_MAX_DIM_CNT 128
#define ACL_MAX_TENSOR_NAME_LEN 128
#define ACL_MAX_BATCH_NUM 128
#define ACL_MAX_HW_NUM 128
#define ACL_MAX_SHAPE_COUNT 128
#define ACL_INVALID_NODE_INDEX 0xffffffffu
#define ACL_MDL_LOAD_FROM_FILE 1
#define ACL_MDL_LOAD_FROM_FILE_WITH_MEM 2
#define ACL_MDL_LOAD_FROM_MEM 3
#define ACL_MDL_LOAD_FROM_MEM_WITH_MEM 4
#define ACL_MDL_LOAD_FROM_FILE_WITH_Q 5
#define ACL_MDL_LOAD_FROM_MEM_WITH_Q 6
#define ACL_DYNAMIC_TENSOR_NAME "ascend_mbatch_shape_data"
#define ACL_DYNAMIC_AIPP_NAME "ascend_dynamic_aipp_data"
#define ACL_WORKSPACE_MEM_OPTIMIZE_DEFAULT 0
#define ACL_WORKSPACE_MEM_OPTIMIZE_INPUTOUTPUT 1
#define ACL_EVENT_DEVICE_USE_ONLY 16
#define ACL_EVENT_IPC 64
#define ACL_STREAM_PERSISTENT 4
#define ACL_STREAM_HUGE 8
#define ACL_STREAM_CPU_SCHEDULE 16
#define ACL_STREAM_DEVICE_USE_ONLY 32
#define ACL_HOST_REG_MAPPED 2
#define ACL_HOST_REG_IOMEMORY 4
#define ACL_HOST_REG_READONLY 8
#define ACL_HOST_REG_PINNED 0x10000000u

/* ---- error codes: X(name, value) ---- */
#define ACL_ERRORS(X) \
  X(ACL_ERROR_INVALID_PARAM, 100000) \
  X(ACL_ERROR_UNINITIALIZE, 100001) \
  X(ACL_ERROR_REPEAT_INITIALIZE, 100002) \
  X(ACL_ERROR_INVALID_FILE, 100003) \
  X(ACL_ERROR_WRITE_FILE, 100004) \
  X(ACL_ERROR_INVALID_FILE_SIZE, 100005) \
  X(ACL_ERROR_PARSE_FILE, 100006) \
  X(ACL_ERROR_FILE_MISSING_ATTR, 100007) \
  X(ACL_ERROR_FILE_ATTR_INVALID, 100008) \
  X(ACL_ERROR_INVALID_DUMP_CONFIG, 100009) \
  X(ACL_ERROR_INVALID_PROFILING_CONFIG, 100010) \
  X(ACL_ERROR_INVALID_MODEL_ID, 100011) \
  X(ACL_ERROR_DESERIALIZE_MODEL, 100012) \
  X(ACL_ERROR_PARSE_MODEL, 100013) \
  X(ACL_ERROR_READ_MODEL_FAILURE, 100014) \
  X(ACL_ERROR_MODEL_SIZE_INVALID, 100015) \
  X(ACL_ERROR_MODEL_MISSING_ATTR, 100016) \
  X(ACL_ERROR_MODEL_INPUT_NOT_MATCH, 100017) \
  X(ACL_ERROR_MODEL_OUTPUT_NOT_MATCH, 100018) \
  X(ACL_ERROR_MODEL_NOT_DYNAMIC, 100019) \
  X(ACL_ERROR_OP_TYPE_NOT_MATCH, 100020) \
  X(ACL_ERROR_OP_INPUT_NOT_MATCH, 100021) \
  X(ACL_ERROR_OP_OUTPUT_NOT_MATCH, 100022) \
  X(ACL_ERROR_OP_ATTR_NOT_MATCH, 100023) \
  X(ACL_ERROR_OP_NOT_FOUND, 100024) \
  X(ACL_ERROR_OP_LOAD_FAILED, 100025) \
  X(ACL_ERROR_UNSUPPORTED_DATA_TYPE, 100026) \
  X(ACL_ERROR_FORMAT_NOT_MATCH, 100027) \
  X(ACL_ERROR_BIN_SELECTOR_NOT_REGISTERED, 100028) \
  X(ACL_ERROR_KERNEL_NOT_FOUND, 100029) \
  X(ACL_ERROR_BIN_SELECTOR_ALREADY_REGISTERED, 100030) \
  X(ACL_ERROR_KERNEL_ALREADY_REGISTERED, 100031) \
  X(ACL_ERROR_INVALID_QUEUE_ID, 100032) \
  X(ACL_ERROR_REPEAT_SUBSCRIBE, 100033) \
  X(ACL_ERROR_STREAM_NOT_SUBSCRIBE, 100034) \
  X(ACL_ERROR_THREAD_NOT_SUBSCRIBE, 100035) \
  X(ACL_ERROR_WAIT_CALLBACK_TIMEOUT, 100036) \
  X(ACL_ERROR_REPEAT_FINALIZE, 100037) \
  X(ACL_ERROR_NOT_STATIC_AIPP, 100038) \
  X(ACL_ERROR_COMPILING_STUB_MODE, 100039) \
  X(ACL_ERROR_GROUP_NOT_SET, 100040) \
  X(ACL_ERROR_GROUP_NOT_CREATE, 100041) \
  X(ACL_ERROR_PROF_ALREADY_RUN, 100042) \
  X(ACL_ERROR_PROF_NOT_RUN, 100043) \
  X(ACL_ERROR_DUMP_ALREADY_RUN, 100044) \
  X(ACL_ERROR_DUMP_NOT_RUN, 100045) \
  X(ACL_ERROR_RT_PARAM_INVALID, 107000) \
  X(ACL_ERROR_RT_INVALID_DEVICEID, 107001) \
  X(ACL_ERROR_RT_CONTEXT_NULL, 107002) \
  X(ACL_ERROR_RT_STREAM_CONTEXT, 107003) \
  X(ACL_ERROR_RT_MODEL_CONTEXT, 107004) \
  X(ACL_ERROR_RT_STREAM_MODEL, 107005) \
  X(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 107006) \
  X(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, 107007) \
  X(ACL_ERROR_RT_ADDR_UNALIGNED, 107008) \
  X(ACL_ERROR_RT_FILE_OPEN, 107009) \
  X(ACL_ERROR_RT_FILE_WRITE, 107010) \
  X(ACL_ERROR_RT_STREAM_SUBSCRIBE, 107011) \
  X(ACL_ERROR_RT_THREAD_SUBSCRIBE, 107012) \
  X(ACL_ERROR_RT_GROUP_NOT_SET, 107013) \
  X(ACL_ERROR_RT_GROUP_NOT_CREATE, 107014) \
  X(ACL_ERROR_RT_STREAM_NO_CB_REG, 107015) \
  X(ACL_ERROR_RT_INVALID_MEMORY_TYPE, 107016) \
  X(ACL_ERROR_RT_INVALID_HANDLE, 107017) \
  X(ACL_ERROR_RT_INVALID_MALLOC_TYPE, 107018) \
  X(ACL_ERROR_RT_WAIT_TIMEOUT, 107019) \
  X(ACL_ERROR_RT_TASK_TIMEOUT, 107020) \
  X(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, 107021) \
  X(ACL_ERROR_RT_DEVICE_TASK_ABORT, 107022) \
  X(ACL_ERROR_RT_STREAM_ABORT, 107023) \
  X(ACL_ERROR_RT_CAPTURE_DEPENDENCY, 107024) \
  X(ACL_ERROR_RT_STREAM_UNJOINED, 107025) \
  X(ACL_ERROR_RT_MODEL_CAPTURED, 107026) \
  X(ACL_ERROR_RT_STREAM_CAPTURED, 107027) \
  X(ACL_ERROR_RT_EVENT_CAPTURED, 107028) \
  X(ACL_ERROR_RT_STREAM_NOT_CAPTURED, 107029) \
  X(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, 107030) \
  X(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, 107031) \
  X(ACL_ERROR_STREAM_CAPTURE_CONFLICT, 107032) \
  X(ACL_ERROR_STREAM_TASK_GROUP_STATUS, 107033) \
  X(ACL_ERROR_STREAM_TASK_GROUP_INTR, 107034) \
  X(ACL_ERROR_RT_TASK_ABORT_STOP, 107035) \
  X(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED, 107036) \
  X(ACL_ERROR_RT_MODEL_RUNNING, 107037) \
  X(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD, 107038) \
  X(ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY, 107039) \
  X(ACL_ERROR_RT_MODEL_UPDATE_FAILED, 107040) \
  X(ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC, 107041) \
  X(ACL_ERROR_RT_SYMBOL_NOT_FOUND, 107042) \
  X(ACL_ERROR_RT_INVALID_SYMBOL, 107043) \
  X(ACL_ERROR_RT_INVALID_DEVICE_FUNCTION, 107044) \
  X(ACL_ERROR_RT_SUB_ACLGRAPH_IS_CAPTURING, 107045) \
  X(ACL_ERROR_GE_PARAM_INVALID, 145000) \
  X(ACL_ERROR_GE_EXEC_NOT_INIT, 145001) \
  X(ACL_ERROR_GE_EXEC_MODEL_PATH_INVALID, 145002) \
  X(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, 145003) \
  X(ACL_ERROR_GE_EXEC_MODEL_DATA_SIZE_INVALID, 145006) \
  X(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, 145007) \
  X(ACL_ERROR_GE_EXEC_MODEL_QUEUE_ID_INVALID, 145008) \
  X(ACL_ERROR_GE_EXEC_LOAD_MODEL_REPEATED, 145009) \
  X(ACL_ERROR_GE_DYNAMIC_INPUT_ADDR_INVALID, 145011) \
  X(ACL_ERROR_GE_DYNAMIC_INPUT_LENGTH_INVALID, 145012) \
  X(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID, 145013) \
  X(ACL_ERROR_GE_AIPP_BATCH_EMPTY, 145014) \
  X(ACL_ERROR_GE_AIPP_NOT_EXIST, 145015) \
  X(ACL_ERROR_GE_AIPP_MODE_INVALID, 145016) \
  X(ACL_ERROR_GE_OP_TASK_TYPE_INVALID, 145017) \
  X(ACL_ERROR_GE_OP_KERNEL_TYPE_INVALID, 145018) \
  X(ACL_ERROR_GE_PLGMGR_PATH_INVALID, 145019) \
  X(ACL_ERROR_GE_FORMAT_INVALID, 145020) \
  X(ACL_ERROR_GE_SHAPE_INVALID, 145021) \
  X(ACL_ERROR_GE_DATATYPE_INVALID, 145022) \
  X(ACL_ERROR_PROF_REPEAT_SUBSCRIBE, 148046) \
  X(ACL_ERROR_PROF_API_CONFLICT, 148047) \
  X(ACL_ERROR_INVALID_MAX_OPQUEUE_NUM_CONFIG, 148048) \
  X(ACL_ERROR_INVALID_OPP_PATH, 148049) \
  X(ACL_ERROR_OP_UNSUPPORTED_DYNAMIC, 148050) \
  X(ACL_ERROR_RELATIVE_RESOURCE_NOT_CLEARED, 148051) \
  X(ACL_ERROR_UNSUPPORTED_JPEG, 148052) \
  X(ACL_ERROR_INVALID_BUNDLE_MODEL_ID, 148053) \
  X(ACL_ERROR_BAD_ALLOC, 200000) \
  X(ACL_ERROR_API_NOT_SUPPORT, 200001) \
  X(ACL_ERROR_INVALID_DEVICE, 200002) \
  X(ACL_ERROR_MEMORY_ADDRESS_UNALIGNED, 200003) \
  X(ACL_ERROR_RESOURCE_NOT_MATCH, 200004) \
  X(ACL_ERROR_INVALID_RESOURCE_HANDLE, 200005) \
  X(ACL_ERROR_FEATURE_UNSUPPORTED, 200006) \
  X(ACL_ERROR_PROF_MODULES_UNSUPPORTED, 200007) \
  X(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 207000) \
  X(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001) \
  X(ACL_ERROR_RT_MEMORY_FREE, 207002) \
  X(ACL_ERROR_RT_AICORE_OVER_FLOW, 207003) \
  X(ACL_ERROR_RT_NO_DEVICE, 207004) \
  X(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, 207005) \
  X(ACL_ERROR_RT_NO_PERMISSION, 207006) \
  X(ACL_ERROR_RT_NO_EVENT_RESOURCE, 207007) \
  X(ACL_ERROR_RT_NO_STREAM_RESOURCE, 207008) \
  X(ACL_ERROR_RT_NO_NOTIFY_RESOURCE, 207009) \
  X(ACL_ERROR_RT_NO_MODEL_RESOURCE, 207010) \
  X(ACL_ERROR_RT_NO_CDQ_RESOURCE, 207011) \
  X(ACL_ERROR_RT_OVER_LIMIT, 207012) \
  X(ACL_ERROR_RT_QUEUE_EMPTY, 207013) \
  X(ACL_ERROR_RT_QUEUE_FULL, 207014) \
  X(ACL_ERROR_RT_REPEATED_INIT, 207015) \
  X(ACL_ERROR_RT_AIVEC_OVER_FLOW, 207016) \
  X(ACL_ERROR_RT_OVER_FLOW, 207017) \
  X(ACL_ERROR_RT_DEVICE_OOM, 207018) \
  X(ACL_ERROR_RT_FEATURE_NOT_SUPPORT_UPDATE_OP, 207019) \
  X(ACL_ERROR_RT_TIMEOUT, 207020) \
  X(ACL_ERROR_RT_LINK_TYPE_NOT_SUPPORTED, 207021) \
  X(ACL_ERROR_GE_MEMORY_ALLOCATION, 245000) \
  X(ACL_ERROR_GE_MEMORY_OPERATE_FAILED, 245001) \
  X(ACL_ERROR_GE_DEVICE_MEMORY_OPERATE_FAILED, 245002) \
  X(ACL_ERROR_STORAGE_OVER_LIMIT, 300000) \
  X(ACL_ERROR_GE_SUBHEALTHY, 345102) \
  X(ACL_ERROR_GE_USER_RAISE_EXCEPTION, 345103) \
  X(ACL_ERROR_GE_DATA_NOT_ALIGNED, 345104) \
  X(ACL_ERROR_INTERNAL_ERROR, 500000) \
  X(ACL_ERROR_FAILURE, 500001) \
  X(ACL_ERROR_GE_FAILURE, 500002) \
  X(ACL_ERROR_RT_FAILURE, 500003) \
  X(ACL_ERROR_DRV_FAILURE, 500004) \
  X(ACL_ERROR_PROFILING_FAILURE, 500005) \
  X(ACL_ERROR_RT_INTERNAL_ERROR, 507000) \
  X(ACL_ERROR_RT_TS_ERROR, 507001) \
  X(ACL_ERROR_RT_STREAM_TASK_FULL, 507002) \
  X(ACL_ERROR_RT_STREAM_TASK_EMPTY, 507003) \
  X(ACL_ERROR_RT_STREAM_NOT_COMPLETE, 507004) \
  X(ACL_ERROR_RT_END_OF_SEQUENCE, 507005) \
  X(ACL_ERROR_RT_EVENT_NOT_COMPLETE, 507006) \
  X(ACL_ERROR_RT_CONTEXT_RELEASE_ERROR, 507007) \
  X(ACL_ERROR_RT_SOC_VERSION, 507008) \
  X(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, 507009) \
  X(ACL_ERROR_RT_LOST_HEARTBEAT, 507010) \
  X(ACL_ERROR_RT_MODEL_EXECUTE, 507011) \
  X(ACL_ERROR_RT_REPORT_TIMEOUT, 507012) \
  X(ACL_ERROR_RT_SYS_DMA, 507013) \
  X(ACL_ERROR_RT_AICORE_TIMEOUT, 507014) \
  X(ACL_ERROR_RT_AICORE_EXCEPTION, 507015) \
  X(ACL_ERROR_RT_AICORE_TRAP_EXCEPTION, 507016) \
  X(ACL_ERROR_RT_AICPU_TIMEOUT, 507017) \
  X(ACL_ERROR_RT_AICPU_EXCEPTION, 507018) \
  X(ACL_ERROR_RT_AICPU_DATADUMP_RSP_ERR, 507019) \
  X(ACL_ERROR_RT_AICPU_MODEL_RSP_ERR, 507020) \
  X(ACL_ERROR_RT_PROFILING_ERROR, 507021) \
  X(ACL_ERROR_RT_IPC_ERROR, 507022) \
  X(ACL_ERROR_RT_MODEL_ABORT_NORMAL, 507023) \
  X(ACL_ERROR_RT_KERNEL_UNREGISTERING, 507024) \
  X(ACL_ERROR_RT_RINGBUFFER_NOT_INIT, 507025) \
  X(ACL_ERROR_RT_RINGBUFFER_NO_DATA, 507026) \
  X(ACL_ERROR_RT_KERNEL_LOOKUP, 507027) \
  X(ACL_ERROR_RT_KERNEL_DUPLICATE, 507028) \
  X(ACL_ERROR_RT_DEBUG_REGISTER_FAIL, 507029) \
  X(ACL_ERROR_RT_DEBUG_UNREGISTER_FAIL, 507030) \
  X(ACL_ERROR_RT_LABEL_CONTEXT, 507031) \
  X(ACL_ERROR_RT_PROGRAM_USE_OUT, 507032) \
  X(ACL_ERROR_RT_DEV_SETUP_ERROR, 507033) \
  X(ACL_ERROR_RT_VECTOR_CORE_TIMEOUT, 507034) \
  X(ACL_ERROR_RT_VECTOR_CORE_EXCEPTION, 507035) \
  X(ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION, 507036) \
  X(ACL_ERROR_RT_CDQ_BATCH_ABNORMAL, 507037) \
  X(ACL_ERROR_RT_DIE_MODE_CHANGE_ERROR, 507038) \
  X(ACL_ERROR_RT_DIE_SET_ERROR, 507039) \
  X(ACL_ERROR_RT_INVALID_DIEID, 507040) \
  X(ACL_ERROR_RT_DIE_MODE_NOT_SET, 507041) \
  X(ACL_ERROR_RT_AICORE_TRAP_READ_OVERFLOW, 507042) \
  X(ACL_ERROR_RT_AICORE_TRAP_WRITE_OVERFLOW, 507043) \
  X(ACL_ERROR_RT_VECTOR_CORE_TRAP_READ_OVERFLOW, 507044) \
  X(ACL_ERROR_RT_VECTOR_CORE_TRAP_WRITE_OVERFLOW, 507045) \
  X(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 507046) \
  X(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, 507047) \
  X(ACL_ERROR_RT_FFTS_PLUS_TIMEOUT, 507048) \
  X(ACL_ERROR_RT_FFTS_PLUS_EXCEPTION, 507049) \
  X(ACL_ERROR_RT_FFTS_PLUS_TRAP_EXCEPTION, 507050) \
  X(ACL_ERROR_RT_SEND_MSG, 507051) \
  X(ACL_ERROR_RT_COPY_DATA, 507052) \
  X(ACL_ERROR_RT_DEVICE_MEM_ERROR, 507053) \
  X(ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, 507054) \
  X(ACL_ERROR_RT_SUSPECT_DEVICE_MEM_ERROR, 507055) \
  X(ACL_ERROR_RT_LINK_ERROR, 507056) \
  X(ACL_ERROR_RT_SUSPECT_REMOTE_ERROR, 507057) \
  X(ACL_ERROR_RT_DRV_INTERNAL_ERROR, 507899) \
  X(ACL_ERROR_RT_AICPU_INTERNAL_ERROR, 507900) \
  X(ACL_ERROR_RT_SOCKET_CLOSE, 507901) \
  X(ACL_ERROR_RT_AICPU_INFO_LOAD_RSP_ERR, 507902) \
  X(ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED, 507903) \
  X(ACL_ERROR_RT_COMM_OP_RETRY_FAIL, 507904) \
  X(ACL_ERROR_SNAPSHOT_LOCK_TIMEOUT, 507905) \
  X(ACL_ERROR_SNAPSHOT_LOCK_FAILED, 507906) \
  X(ACL_ERROR_SNAPSHOT_UNLOCK_FAILED, 507907) \
  X(ACL_ERROR_SNAPSHOT_BACKUP_FAILED, 507908) \
  X(ACL_ERROR_SNAPSHOT_RESTORE_FAILED, 507909) \
  X(ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED, 507910) \
  X(ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, 507911) \
  X(ACL_ERROR_SNAPSHOT_CALLBACK_FAILED, 507912) \
  X(ACL_ERROR_SNAPSHOT_REGISTER_CALLBACK_FAILED, 507913) \
  X(ACL_ERROR_RT_L3_PORT_ERROR, 507914) \
  X(ACL_ERROR_RT_CCU_TIMEOUT, 507915) \
  X(ACL_ERROR_RT_CCU_EXCEPTION, 507916) \
  X(ACL_ERROR_GE_INTERNAL_ERROR, 545000) \
  X(ACL_ERROR_GE_LOAD_MODEL, 545001) \
  X(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, 545002) \
  X(ACL_ERROR_GE_EXEC_LOAD_WEIGHT_PARTITION_FAILED, 545003) \
  X(ACL_ERROR_GE_EXEC_LOAD_TASK_PARTITION_FAILED, 545004) \
  X(ACL_ERROR_GE_EXEC_LOAD_KERNEL_PARTITION_FAILED, 545005) \
  X(ACL_ERROR_GE_EXEC_RELEASE_MODEL_DATA, 545006) \
  X(ACL_ERROR_GE_COMMAND_HANDLE, 545007) \
  X(ACL_ERROR_GE_GET_TENSOR_INFO, 545008) \
  X(ACL_ERROR_GE_UNLOAD_MODEL, 545009) \
  X(ACL_ERROR_GE_MODEL_EXECUTE_TIMEOUT, 545601) \
  X(ACL_ERROR_GE_REDEPLOYING, 545602)

enum {
  ACL_SUCCESS = 0,
#define ACL_ERROR_MEMBER(name, value) name = value,
  ACL_ERRORS(ACL_ERROR_MEMBER)
#undef ACL_ERROR_MEMBER
};

/* ---- entry points: one row each, read by the build too ---- */
/* clang-format off */
#define ACL_FUNCTIONS(X) \
  X(V8, RT, float, aclFloat16ToFloat, (aclFloat16 value)) \
  X(V8, RT, aclFloat16, aclFloatToFloat16, (float value)) \
  X(V8, RT, aclDataBuffer *, aclCreateDataBuffer, (void *data, size_t size)) \
  X(V8, RT, aclError, aclDestroyDataBuffer, (const aclDataBuffer *dataBuffer)) \
  X(V8, RT, aclError, aclUpdateDataBuffer, (aclDataBuffer *dataBuffer, void *data, size_t size)) \
  X(V8, RT, void *, aclGetDataBufferAddr, (const aclDataBuffer *dataBuffer)) \
  X(V8, RT, uint32_t, aclGetDataBufferSize, (const aclDataBuffer *dataBuffer)) \
  X(V8, RT, size_t, aclGetDataBufferSizeV2, (const aclDataBuffer *dataBuffer)) \
  X(V8, RT, size_t, aclDataTypeSize, (aclDataType dataType)) \
  X(V8, MDL, aclTensorDesc *, aclCreateTensorDesc, (aclDataType dataType, int numDims, const int64_t *dims, aclFormat format)) \
  X(V8, MDL, void, aclDestroyTensorDesc, (const aclTensorDesc *desc)) \
  X(V8, MDL, aclError, aclSetTensorShapeRange, (aclTensorDesc *desc, size_t dimsCount, int64_t dimsRange[][2])) \
  X(V8, MDL, aclError, aclSetTensorValueRange, (aclTensorDesc *desc, size_t valueCount, int64_t valueRange[][2])) \
  X(V8, MDL, aclDataType, aclGetTensorDescType, (const aclTensorDesc *desc)) \
  X(V8, MDL, aclFormat, aclGetTensorDescFormat, (const aclTensorDesc *desc)) \
  X(V8, MDL, size_t, aclGetTensorDescSize, (const aclTensorDesc *desc)) \
  X(V8, MDL, size_t, aclGetTensorDescElementCount, (const aclTensorDesc *desc)) \
  X(V8, MDL, size_t, aclGetTensorDescNumDims, (const aclTensorDesc *desc)) \
  X(V8, MDL, int64_t, aclGetTensorDescDim, (const aclTensorDesc *desc, size_t index)) \
  X(V8, MDL, aclError, aclGetTensorDescDimV2, (const aclTensorDesc *desc, size_t index, int64_t *dimSize)) \
  X(V8, MDL, aclError, aclGetTensorDescDimRange, (const aclTensorDesc *desc, size_t index, size_t dimRangeNum, int64_t *dimRange)) \
  X(V8, MDL, void, aclSetTensorDescName, (aclTensorDesc *desc, const char *name)) \
  X(V8, MDL, const char *, aclGetTensorDescName, (aclTensorDesc *desc)) \
  X(V8, MDL, aclError, aclTransTensorDescFormat, (const aclTensorDesc *srcDesc, aclFormat dstFormat, aclTensorDesc **dstDesc)) \
  X(V8, MDL, aclError, aclSetTensorStorageFormat, (aclTensorDesc *desc, aclFormat format)) \
  X(V8, MDL, aclError, aclSetTensorStorageShape, (aclTensorDesc *desc, int numDims, const int64_t *dims)) \
  X(V8, MDL, aclError, aclSetTensorFormat, (aclTensorDesc *desc, aclFormat format)) \
  X(V8, MDL, aclError, aclSetTensorShape, (aclTensorDesc *desc, int numDims, const int64_t *dims)) \
  X(V8, MDL, aclError, aclSetTensorOriginFormat, (aclTensorDesc *desc, aclFormat format)) \
  X(V8, MDL, aclError, aclSetTensorOriginShape, (aclTensorDesc *desc, int numDims, const int64_t *dims)) \
  X(V8, MDL, aclTensorDesc *, aclGetTensorDescByIndex, (aclTensorDesc *desc, size_t index)) \
  X(V8, MDL, void *, aclGetTensorDescAddress, (const aclTensorDesc *desc)) \
  X(V8, MDL, aclError, aclSetTensorDynamicInput, (aclTensorDesc *desc, const char *dynamicInputName)) \
  X(V8, MDL, aclError, aclSetTensorConst, (aclTensorDesc *desc, void *dataBuffer, size_t length)) \
  X(V8, MDL, aclError, aclSetTensorPlaceMent, (aclTensorDesc *desc, aclMemType memType)) \
  X(V8, RT, void, aclAppLog, (aclLogLevel logLevel, const char *func, const char *file, uint32_t line, const char *fmt, ...)) \
  X(V8, RT, const char *, aclrtGetSocName, (void)) \
  X(V8, RT, aclError, aclGetCannAttributeList, (const aclCannAttr **cannAttrList, size_t *num)) \
  X(V8, RT, aclError, aclGetCannAttribute, (aclCannAttr cannAttr, int32_t *value)) \
  X(V8, RT, aclError, aclGetDeviceCapability, (uint32_t deviceId, aclDeviceInfo deviceInfo, int64_t *value)) \
  X(V8, RT, aclError, aclrtPeekAtLastError, (aclrtLastErrLevel level)) \
  X(V8, RT, aclError, aclrtGetLastError, (aclrtLastErrLevel level)) \
  X(V8, RT, aclError, aclrtSetExceptionInfoCallback, (aclrtExceptionInfoCallback callback)) \
  X(V8, RT, uint32_t, aclrtGetTaskIdFromExceptionInfo, (const aclrtExceptionInfo *info)) \
  X(V8, RT, uint32_t, aclrtGetStreamIdFromExceptionInfo, (const aclrtExceptionInfo *info)) \
  X(V8, RT, uint32_t, aclrtGetThreadIdFromExceptionInfo, (const aclrtExceptionInfo *info)) \
  X(V8, RT, uint32_t, aclrtGetDeviceIdFromExceptionInfo, (const aclrtExceptionInfo *info)) \
  X(V8, RT, uint32_t, aclrtGetErrorCodeFromExceptionInfo, (const aclrtExceptionInfo *info)) \
  X(V8, RT, aclError, aclrtSubscribeReport, (uint64_t threadId, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtLaunchCallback, (aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtProcessReport, (int32_t timeout)) \
  X(V8, RT, aclError, aclrtUnSubscribeReport, (uint64_t threadId, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtCreateContext, (aclrtContext *context, int32_t deviceId)) \
  X(V8, RT, aclError, aclrtDestroyContext, (aclrtContext context)) \
  X(V8, RT, aclError, aclrtSetCurrentContext, (aclrtContext context)) \
  X(V8, RT, aclError, aclrtGetCurrentContext, (aclrtContext *context)) \
  X(V8, RT, aclError, aclrtCtxGetSysParamOpt, (aclSysParamOpt opt, int64_t *value)) \
  X(V8, RT, aclError, aclrtCtxSetSysParamOpt, (aclSysParamOpt opt, int64_t value)) \
  X(V8, RT, aclError, aclrtGetSysParamOpt, (aclSysParamOpt opt, int64_t *value)) \
  X(V8, RT, aclError, aclrtSetSysParamOpt, (aclSysParamOpt opt, int64_t value)) \
  X(V8, RT, aclError, aclrtSetDevice, (int32_t deviceId)) \
  X(V8, RT, aclError, aclrtResetDevice, (int32_t deviceId)) \
  X(V8, RT, aclError, aclrtResetDeviceForce, (int32_t deviceId)) \
  X(V8, RT, aclError, aclrtGetDevice, (int32_t *deviceId)) \
  X(V8, RT, aclError, aclrtSetStreamFailureMode, (aclrtStream stream, uint64_t mode)) \
  X(V8, RT, aclError, aclrtGetRunMode, (aclrtRunMode *runMode)) \
  X(V8, RT, aclError, aclrtSynchronizeDevice, (void)) \
  X(V8, RT, aclError, aclrtSynchronizeDeviceWithTimeout, (int32_t timeout)) \
  X(V8, RT, aclError, aclrtSetTsDevice, (aclrtTsId tsId)) \
  X(V8, RT, aclError, aclrtGetDeviceUtilizationRate, (int32_t deviceId, aclrtUtilizationInfo *utilizationInfo)) \
  X(V8, RT, aclError, aclrtGetDeviceCount, (uint32_t *count)) \
  X(V8, RT, aclError, aclrtCreateEvent, (aclrtEvent *event)) \
  X(V8, RT, aclError, aclrtCreateEventWithFlag, (aclrtEvent *event, uint32_t flag)) \
  X(V8, RT, aclError, aclrtCreateEventExWithFlag, (aclrtEvent *event, uint32_t flag)) \
  X(V8, RT, aclError, aclrtDestroyEvent, (aclrtEvent event)) \
  X(V8, RT, aclError, aclrtRecordEvent, (aclrtEvent event, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtResetEvent, (aclrtEvent event, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtQueryEvent, (aclrtEvent event, aclrtEventStatus *status)) \
  X(V8, RT, aclError, aclrtQueryEventStatus, (aclrtEvent event, aclrtEventRecordedStatus *status)) \
  X(V8, RT, aclError, aclrtQueryEventWaitStatus, (aclrtEvent event, aclrtEventWaitStatus *status)) \
  X(V8, RT, aclError, aclrtSynchronizeEvent, (aclrtEvent event)) \
  X(V8, RT, aclError, aclrtSynchronizeEventWithTimeout, (aclrtEvent event, int32_t timeout)) \
  X(V8, RT, aclError, aclrtEventElapsedTime, (float *ms, aclrtEvent startEvent, aclrtEvent endEvent)) \
  X(V8, RT, aclError, aclrtEventGetTimestamp, (aclrtEvent event, uint64_t *timestamp)) \
  X(V8, RT, aclError, aclrtMalloc, (void **devPtr, size_t size, aclrtMemMallocPolicy policy)) \
  X(V8, RT, aclError, aclrtMallocAlign32, (void **devPtr, size_t size, aclrtMemMallocPolicy policy)) \
  X(V8, RT, aclError, aclrtMallocCached, (void **devPtr, size_t size, aclrtMemMallocPolicy policy)) \
  X(V8, RT, aclError, aclrtMallocWithCfg, (void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)) \
  X(V8, RT, aclError, aclrtMallocForTaskScheduler, (void **devPtr, size_t size, aclrtMemMallocPolicy policy, aclrtMallocConfig *cfg)) \
  X(V8, RT, aclError, aclrtMallocHostWithCfg, (void **ptr, uint64_t size, aclrtMallocConfig *cfg)) \
  X(V8, RT, aclError, aclrtPointerGetAttributes, (const void *ptr, aclrtPtrAttributes *attributes)) \
  X(V8, RT, aclError, aclrtHostRegister, (void *ptr, uint64_t size, aclrtHostRegisterType type, void **devPtr)) \
  X(V8, RT, aclError, aclrtHostUnregister, (void *ptr)) \
  X(V8, RT, aclError, aclrtStreamGetId, (aclrtStream stream, int32_t *streamId)) \
  X(V8, RT, aclError, aclrtMemFlush, (void *devPtr, size_t size)) \
  X(V8, RT, aclError, aclrtMemInvalidate, (void *devPtr, size_t size)) \
  X(V8, RT, aclError, aclrtFree, (void *devPtr)) \
  X(V8, RT, aclError, aclrtMallocHost, (void **hostPtr, size_t size)) \
  X(V8, RT, aclError, aclrtFreeHost, (void *hostPtr)) \
  X(V8, RT, aclError, aclrtMemcpy, (void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)) \
  X(V8, RT, aclError, aclrtMemset, (void *devPtr, size_t maxCount, int32_t value, size_t count)) \
  X(V8, RT, aclError, aclrtMemcpyAsync, (void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtMemcpyAsyncWithCondition, (void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtMemcpy2d, (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, aclrtMemcpyKind kind)) \
  X(V8, RT, aclError, aclrtMemcpy2dAsync, (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtMemsetAsync, (void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtReserveMemAddress, (void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags)) \
  X(V8, RT, aclError, aclrtReleaseMemAddress, (void *virPtr)) \
  X(V8, RT, aclError, aclrtMallocPhysical, (aclrtDrvMemHandle *handle, size_t size, const aclrtPhysicalMemProp *prop, uint64_t flags)) \
  X(V8, RT, aclError, aclrtFreePhysical, (aclrtDrvMemHandle handle)) \
  X(V8, RT, aclError, aclrtMapMem, (void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)) \
  X(V8, RT, aclError, aclrtUnmapMem, (void *virPtr)) \
  X(V8, RT, aclError, aclrtCreateStream, (aclrtStream *stream)) \
  X(V8, RT, aclError, aclrtCreateStreamWithConfig, (aclrtStream *stream, uint32_t priority, uint32_t flag)) \
  X(V8, RT, aclError, aclrtDestroyStream, (aclrtStream stream)) \
  X(V8, RT, aclError, aclrtDestroyStreamForce, (aclrtStream stream)) \
  X(V8, RT, aclError, aclrtSynchronizeStream, (aclrtStream stream)) \
  X(V8, RT, aclError, aclrtSynchronizeStreamWithTimeout, (aclrtStream stream, int32_t timeout)) \
  X(V8, RT, aclError, aclrtStreamQuery, (aclrtStream stream, aclrtStreamStatus *status)) \
  X(V8, RT, aclError, aclrtStreamWaitEvent, (aclrtStream stream, aclrtEvent event)) \
  X(V8, RT, aclError, aclrtDeviceCanAccessPeer, (int32_t *canAccessPeer, int32_t deviceId, int32_t peerDeviceId)) \
  X(V8, RT, aclError, aclrtDeviceEnablePeerAccess, (int32_t peerDeviceId, uint32_t flags)) \
  X(V8, RT, aclError, aclrtDeviceDisablePeerAccess, (int32_t peerDeviceId)) \
  X(V8, RT, aclError, aclrtGetMemInfo, (aclrtMemAttr attr, size_t *free, size_t *total)) \
  X(V8, RT, aclError, aclrtSetOpWaitTimeout, (uint32_t timeout)) \
  X(V8, RT, aclError, aclrtSetOpExecuteTimeOut, (uint32_t timeout)) \
  X(V8, RT, aclError, aclrtSetOpExecuteTimeOutWithMs, (uint32_t timeout)) \
  X(V8, RT, aclError, aclrtSetStreamOverflowSwitch, (aclrtStream stream, uint32_t flag)) \
  X(V8, RT, aclError, aclrtGetStreamOverflowSwitch, (aclrtStream stream, uint32_t *flag)) \
  X(V8, RT, aclError, aclrtQueryDeviceStatus, (int32_t deviceId, aclrtDeviceStatus *deviceStatus)) \
  X(V8, RT, aclError, aclrtMemExportToShareableHandle, (aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags, uint64_t *shareableHandle)) \
  X(V8, RT, aclError, aclrtMemImportFromShareableHandle, (uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle *handle)) \
  X(V8, RT, aclError, aclrtMemSetPidToShareableHandle, (uint64_t shareableHandle, int32_t *pid, size_t pidNum)) \
  X(V8, RT, aclError, aclrtMemGetAllocationGranularity, (aclrtPhysicalMemProp *prop, aclrtMemGranularityOptions option, size_t *granularity)) \
  X(V8, RT, aclError, aclrtDeviceGetBareTgid, (int32_t *pid)) \
  X(V8, RT, aclError, aclrtCmoAsync, (void *src, size_t size, aclrtCmoType cmoType, aclrtStream stream)) \
  X(V8, RT, aclError, aclrtGetMemUceInfo, (int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize, size_t *retSize)) \
  X(V8, RT, aclError, aclrtDeviceTaskAbort, (int32_t deviceId, uint32_t timeout)) \
  X(V8, RT, aclError, aclrtMemUceRepair, (int32_t deviceId, aclrtMemUceInfo *memUceInfoArray, size_t arraySize)) \
  X(V8, RT, aclError, aclrtStreamAbort, (aclrtStream stream)) \
  X(V8, RT, aclError, aclrtGetMemcpyDescSize, (aclrtMemcpyKind kind, size_t *descSize)) \
  X(V8, RT, aclError, aclrtSetMemcpyDesc, (void *desc, aclrtMemcpyKind kind, void *srcAddr, void *dstAddr, size_t count, void *config)) \
  X(V8, RT, aclError, aclrtMemcpyAsyncWithDesc, (void *desc, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V8, MDL, aclmdlDesc *, aclmdlCreateDesc, (void)) \
  X(V8, MDL, aclError, aclmdlDestroyDesc, (aclmdlDesc *modelDesc)) \
  X(V8, MDL, aclError, aclmdlGetDesc, (aclmdlDesc *modelDesc, uint32_t modelId)) \
  X(V8, MDL, aclError, aclmdlGetDescFromFile, (aclmdlDesc *modelDesc, const char *modelPath)) \
  X(V8, MDL, aclError, aclmdlGetDescFromMem, (aclmdlDesc *modelDesc, const void *model, size_t modelSize)) \
  X(V8, MDL, size_t, aclmdlGetNumInputs, (aclmdlDesc *modelDesc)) \
  X(V8, MDL, size_t, aclmdlGetNumOutputs, (aclmdlDesc *modelDesc)) \
  X(V8, MDL, size_t, aclmdlGetInputSizeByIndex, (aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, size_t, aclmdlGetOutputSizeByIndex, (aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, aclmdlExecConfigHandle *, aclmdlCreateExecConfigHandle, (void)) \
  X(V8, MDL, aclError, aclmdlDestroyExecConfigHandle, (const aclmdlExecConfigHandle *handle)) \
  X(V8, MDL, aclmdlDataset *, aclmdlCreateDataset, (void)) \
  X(V8, MDL, aclError, aclmdlDestroyDataset, (const aclmdlDataset *dataset)) \
  X(V8, MDL, aclError, aclmdlAddDatasetBuffer, (aclmdlDataset *dataset, aclDataBuffer *dataBuffer)) \
  X(V8, MDL, aclError, aclmdlSetDatasetTensorDesc, (aclmdlDataset *dataset, aclTensorDesc *tensorDesc, size_t index)) \
  X(V8, MDL, aclTensorDesc *, aclmdlGetDatasetTensorDesc, (const aclmdlDataset *dataset, size_t index)) \
  X(V8, MDL, size_t, aclmdlGetDatasetNumBuffers, (const aclmdlDataset *dataset)) \
  X(V8, MDL, aclDataBuffer *, aclmdlGetDatasetBuffer, (const aclmdlDataset *dataset, size_t index)) \
  X(V8, MDL, aclError, aclmdlLoadFromFile, (const char *modelPath, uint32_t *modelId)) \
  X(V8, MDL, aclError, aclmdlBundleLoadFromFile, (const char *modelPath, uint32_t *bundleId)) \
  X(V8, MDL, aclError, aclmdlBundleLoadFromMem, (const void *model, size_t modelSize, uint32_t *bundleId)) \
  X(V8, MDL, aclError, aclmdlBundleUnload, (uint32_t bundleId)) \
  X(V8, MDL, aclError, aclmdlBundleGetModelNum, (uint32_t bundleId, size_t *modelNum)) \
  X(V8, MDL, aclError, aclmdlBundleGetModelId, (uint32_t bundleId, size_t index, uint32_t *modelId)) \
  X(V8, MDL, aclError, aclmdlLoadFromMem, (const void *model, size_t modelSize, uint32_t *modelId)) \
  X(V8, MDL, aclError, aclmdlLoadFromFileWithMem, (const char *modelPath, uint32_t *modelId, void *workPtr, size_t workSize, void *weightPtr, size_t weightSize)) \
  X(V8, MDL, aclError, aclmdlLoadFromMemWithMem, (const void *model, size_t modelSize, uint32_t *modelId, void *workPtr, size_t workSize, void *weightPtr, size_t weightSize)) \
  X(V8, MDL, aclError, aclmdlLoadFromFileWithQ, (const char *modelPath, uint32_t *modelId, const uint32_t *inputQ, size_t inputQNum, const uint32_t *outputQ, size_t outputQNum)) \
  X(V8, MDL, aclError, aclmdlLoadFromMemWithQ, (const void *model, size_t modelSize, uint32_t *modelId, const uint32_t *inputQ, size_t inputQNum, const uint32_t *outputQ, size_t outputQNum)) \
  X(V8, MDL, aclError, aclmdlExecute, (uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output)) \
  X(V8, MDL, aclError, aclmdlExecuteV2, (uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream, const aclmdlExecConfigHandle *handle)) \
  X(V8, MDL, aclError, aclmdlExecuteAsync, (uint32_t modelId, const aclmdlDataset *input, aclmdlDataset *output, aclrtStream stream)) \
  X(V8, MDL, aclError, aclmdlUnload, (uint32_t modelId)) \
  X(V8, MDL, aclError, aclmdlQuerySize, (const char *fileName, size_t *workSize, size_t *weightSize)) \
  X(V8, MDL, aclError, aclmdlQuerySizeFromMem, (const void *model, size_t modelSize, size_t *workSize, size_t *weightSize)) \
  X(V8, MDL, aclError, aclmdlSetDynamicBatchSize, (uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t batchSize)) \
  X(V8, MDL, aclError, aclmdlSetDynamicHWSize, (uint32_t modelId, aclmdlDataset *dataset, size_t index, uint64_t height, uint64_t width)) \
  X(V8, MDL, aclError, aclmdlSetInputDynamicDims, (uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlIODims *dims)) \
  X(V8, MDL, aclError, aclmdlGetInputDims, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)) \
  X(V8, MDL, aclError, aclmdlGetInputDimsV2, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)) \
  X(V8, MDL, aclError, aclmdlGetInputDimsRange, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODimsRange *dimsRange)) \
  X(V8, MDL, aclError, aclmdlGetOutputDims, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)) \
  X(V8, MDL, aclError, aclmdlGetCurOutputDims, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims)) \
  X(V8, MDL, const char *, aclmdlGetOpAttr, (aclmdlDesc *modelDesc, const char *opName, const char *attr)) \
  X(V8, MDL, const char *, aclmdlGetInputNameByIndex, (const aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, const char *, aclmdlGetOutputNameByIndex, (const aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, aclFormat, aclmdlGetInputFormat, (const aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, aclFormat, aclmdlGetOutputFormat, (const aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, aclDataType, aclmdlGetInputDataType, (const aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, aclDataType, aclmdlGetOutputDataType, (const aclmdlDesc *modelDesc, size_t index)) \
  X(V8, MDL, aclError, aclmdlGetInputIndexByName, (const aclmdlDesc *modelDesc, const char *name, size_t *index)) \
  X(V8, MDL, aclError, aclmdlGetOutputIndexByName, (const aclmdlDesc *modelDesc, const char *name, size_t *index)) \
  X(V8, MDL, aclError, aclmdlGetDynamicBatch, (const aclmdlDesc *modelDesc, aclmdlBatch *batch)) \
  X(V8, MDL, aclError, aclmdlGetDynamicHW, (const aclmdlDesc *modelDesc, size_t index, aclmdlHW *hw)) \
  X(V8, MDL, aclError, aclmdlGetInputDynamicGearCount, (const aclmdlDesc *modelDesc, size_t index, size_t *gearCount)) \
  X(V8, MDL, aclError, aclmdlGetInputDynamicDims, (const aclmdlDesc *modelDesc, size_t index, aclmdlIODims *dims, size_t gearCount)) \
  X(V8, MDL, aclmdlAIPP *, aclmdlCreateAIPP, (uint64_t batchSize)) \
  X(V8, MDL, aclError, aclmdlDestroyAIPP, (const aclmdlAIPP *aippParmsSet)) \
  X(V8, MDL, aclError, aclmdlGetAippDataSize, (uint64_t batchSize, size_t *size)) \
  X(V8, MDL, aclError, aclmdlSetAIPPInputFormat, (aclmdlAIPP *aippParmsSet, aclAippInputFormat inputFormat)) \
  X(V8, MDL, aclError, aclmdlSetAIPPCscParams, (aclmdlAIPP *aippParmsSet, int8_t cscSwitch, int16_t cscMatrixR0C0, int16_t cscMatrixR0C1, int16_t cscMatrixR0C2, int16_t cscMatrixR1C0, int16_t cscMatrixR1C1, int16_t cscMatrixR1C2, int16_t cscMatrixR2C0, int16_t cscMatrixR2C1, int16_t cscMatrixR2C2, uint8_t cscOutputBiasR0, uint8_t cscOutputBiasR1, uint8_t cscOutputBiasR2, uint8_t cscInputBiasR0, uint8_t cscInputBiasR1, uint8_t cscInputBiasR2)) \
  X(V8, MDL, aclError, aclmdlSetAIPPRbuvSwapSwitch, (aclmdlAIPP *aippParmsSet, int8_t rbuvSwapSwitch)) \
  X(V8, MDL, aclError, aclmdlSetAIPPAxSwapSwitch, (aclmdlAIPP *aippParmsSet, int8_t axSwapSwitch)) \
  X(V8, MDL, aclError, aclmdlSetAIPPSrcImageSize, (aclmdlAIPP *aippParmsSet, int32_t srcImageSizeW, int32_t srcImageSizeH)) \
  X(V8, MDL, aclError, aclmdlSetAIPPScfParams, (aclmdlAIPP *aippParmsSet, int8_t scfSwitch, int32_t scfInputSizeW, int32_t scfInputSizeH, int32_t scfOutputSizeW, int32_t scfOutputSizeH, uint64_t batchIndex)) \
  X(V8, MDL, aclError, aclmdlSetAIPPCropParams, (aclmdlAIPP *aippParmsSet, int8_t cropSwitch, int32_t cropStartPosW, int32_t cropStartPosH, int32_t cropSizeW, int32_t cropSizeH, uint64_t batchIndex)) \
  X(V8, MDL, aclError, aclmdlSetAIPPPaddingParams, (aclmdlAIPP *aippParmsSet, int8_t paddingSwitch, int32_t paddingSizeTop, int32_t paddingSizeBottom, int32_t paddingSizeLeft, int32_t paddingSizeRight, uint64_t batchIndex)) \
  X(V8, MDL, aclError, aclmdlSetAIPPDtcPixelMean, (aclmdlAIPP *aippParmsSet, int16_t dtcPixelMeanChn0, int16_t dtcPixelMeanChn1, int16_t dtcPixelMeanChn2, int16_t dtcPixelMeanChn3, uint64_t batchIndex)) \
  X(V8, MDL, aclError, aclmdlSetAIPPDtcPixelMin, (aclmdlAIPP *aippParmsSet, float dtcPixelMinChn0, float dtcPixelMinChn1, float dtcPixelMinChn2, float dtcPixelMinChn3, uint64_t batchIndex)) \
  X(V8, MDL, aclError, aclmdlSetAIPPPixelVarReci, (aclmdlAIPP *aippParmsSet, float dtcPixelVarReciChn0, float dtcPixelVarReciChn1, float dtcPixelVarReciChn2, float dtcPixelVarReciChn3, uint64_t batchIndex)) \
  X(V8, MDL, aclError, aclmdlSetInputAIPP, (uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet)) \
  X(V8, MDL, aclError, aclmdlSetAIPPByInputIndex, (uint32_t modelId, aclmdlDataset *dataset, size_t index, const aclmdlAIPP *aippParmsSet)) \
  X(V8, MDL, aclError, aclmdlGetAippType, (uint32_t modelId, size_t index, aclmdlInputAippType *type, size_t *dynamicAttachedDataIndex)) \
  X(V8, MDL, aclError, aclmdlGetFirstAippInfo, (uint32_t modelId, size_t index, aclAippInfo *aippInfo)) \
  X(V8, MDL, aclError, aclmdlCreateAndGetOpDesc, (uint32_t deviceId, uint32_t streamId, uint32_t taskId, char *opName, size_t opNameLen, aclTensorDesc **inputDesc, size_t *numInputs, aclTensorDesc **outputDesc, size_t *numOutputs)) \
  X(V8, RT, aclError, aclmdlInitDump, (void)) \
  X(V8, RT, aclError, aclmdlSetDump, (const char *dumpCfgPath)) \
  X(V8, RT, aclError, aclmdlFinalizeDump, (void)) \
  X(V8, MDL, aclError, aclmdlLoadWithConfig, (const aclmdlConfigHandle *handle, uint32_t *modelId)) \
  X(V8, MDL, aclmdlConfigHandle *, aclmdlCreateConfigHandle, (void)) \
  X(V8, MDL, aclError, aclmdlDestroyConfigHandle, (aclmdlConfigHandle *handle)) \
  X(V8, MDL, aclError, aclmdlSetConfigOpt, (aclmdlConfigHandle *handle, aclmdlConfigAttr attr, const void *attrValue, size_t valueSize)) \
  X(V8, MDL, aclError, aclmdlSetExecConfigOpt, (aclmdlExecConfigHandle *handle, aclmdlExecConfigAttr attr, const void *attrValue, size_t valueSize)) \
  X(V8, MDL, const char *, aclmdlGetTensorRealName, (const aclmdlDesc *modelDesc, const char *name)) \
  X(V8, RT, aclError, aclmdlRICaptureBegin, (aclrtStream stream, aclmdlRICaptureMode mode)) \
  X(V8, RT, aclError, aclmdlRICaptureGetInfo, (aclrtStream stream, aclmdlRICaptureStatus *status, aclmdlRI *modelRI)) \
  X(V8, RT, aclError, aclmdlRICaptureEnd, (aclrtStream stream, aclmdlRI *modelRI)) \
  X(V8, RT, aclError, aclmdlRIDebugPrint, (aclmdlRI modelRI)) \
  X(V8, RT, aclError, aclmdlRICaptureThreadExchangeMode, (aclmdlRICaptureMode *mode)) \
  X(V8, RT, aclError, aclmdlRIExecuteAsync, (aclmdlRI modelRI, aclrtStream stream)) \
  X(V8, RT, aclError, aclmdlRIDestroy, (aclmdlRI modelRI)) \
  X(V8, RT, aclError, aclmdlRICaptureTaskGrpBegin, (aclrtStream stream)) \
  X(V8, RT, aclError, aclmdlRICaptureTaskGrpEnd, (aclrtStream stream, aclrtTaskGrp *handle)) \
  X(V8, RT, aclError, aclmdlRICaptureTaskUpdateBegin, (aclrtStream stream, aclrtTaskGrp handle)) \
  X(V8, RT, aclError, aclmdlRICaptureTaskUpdateEnd, (aclrtStream stream)) \
  X(V8, RT, aclError, aclInit, (const char *configPath)) \
  X(V8, RT, aclError, aclFinalize, (void)) \
  X(V8, RT, aclError, aclrtGetVersion, (int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)) \
  X(V8, RT, const char *, aclGetRecentErrMsg, (void)) \
  X(V8, RT, aclError, aclsysGetCANNVersion, (aclCANNPackageName name, aclCANNPackageVersion *version)) \
  X(V8, RT, aclrtAllocatorDesc, aclrtAllocatorCreateDesc, (void)) \
  X(V8, RT, aclError, aclrtAllocatorDestroyDesc, (aclrtAllocatorDesc allocatorDesc)) \
  X(V8, RT, aclError, aclrtAllocatorSetObjToDesc, (aclrtAllocatorDesc allocatorDesc, aclrtAllocator allocator)) \
  X(V8, RT, aclError, aclrtAllocatorSetAllocFuncToDesc, (aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocFunc func)) \
  X(V8, RT, aclError, aclrtAllocatorSetFreeFuncToDesc, (aclrtAllocatorDesc allocatorDesc, aclrtAllocatorFreeFunc func)) \
  X(V8, RT, aclError, aclrtAllocatorSetAllocAdviseFuncToDesc, (aclrtAllocatorDesc allocatorDesc, aclrtAllocatorAllocAdviseFunc func)) \
  X(V8, RT, aclError, aclrtAllocatorSetGetAddrFromBlockFuncToDesc, (aclrtAllocatorDesc allocatorDesc, aclrtAllocatorGetAddrFromBlockFunc func)) \
  X(V8, RT, aclError, aclrtAllocatorRegister, (aclrtStream stream, aclrtAllocatorDesc allocatorDesc)) \
  X(V8, RT, aclError, aclrtAllocatorUnregister, (aclrtStream stream)) \
  X(V9, RT, aclError, aclrtAllocatorGetByStream, (aclrtStream stream, aclrtAllocatorDesc *allocatorDesc, aclrtAllocator *allocator, aclrtAllocatorAllocFunc *allocFunc, aclrtAllocatorFreeFunc *freeFunc, aclrtAllocatorAllocAdviseFunc *allocAdviseFunc, aclrtAllocatorGetAddrFromBlockFunc *getAddrFromBlockFunc)) \
  X(V9, RT, aclError, aclFinalizeReference, (uint64_t *refCount)) \
  X(V9, RT, aclError, aclsysGetVersionStr, (char *pkgName, char *versionStr)) \
  X(V9, RT, aclError, aclsysGetVersionNum, (char *pkgName, int32_t *versionNum)) \
  X(V9, RT, aclError, aclrtExceptionInfoCallbackRegister, (aclrtExceptionInfoCallback callback)) \
  X(V9, RT, aclError, aclrtExceptionInfoCallbackUnregister, (aclrtExceptionInfoCallback callback)) \
  X(V9, RT, aclError, aclrtRecordEventWithFlag, (aclrtEvent event, aclrtStream stream, uint32_t flag)) \
  X(V9, RT, aclError, aclrtMemManagedGetAttr, (aclrtMemManagedRangeAttribute attribute, const void *ptr, size_t size, void *data, size_t dataSize)) \
  X(V9, RT, aclError, aclrtMemManagedGetAttrs, (aclrtMemManagedRangeAttribute *attributes, size_t numAttributes, const void *ptr, size_t size, void **data, size_t *dataSizes)) \
  X(V9, RT, aclError, aclrtHostRegisterV2, (void *ptr, uint64_t size, uint32_t flag)) \
  X(V9, RT, aclError, aclrtHostGetDevicePointer, (void *pHost, void **pDevice, uint32_t flag)) \
  X(V9, RT, aclError, aclrtHostMemMapCapabilities, (uint32_t deviceId, aclrtHacType hacType, aclrtHostMemMapCapability *capabilities)) \
  X(V9, RT, aclError, aclrtMemAllocManaged, (void **ptr, uint64_t size, uint32_t flag)) \
  X(V9, RT, aclError, aclrtFreeWithDevSync, (void *devPtr)) \
  X(V9, RT, aclError, aclrtFreeHostWithDevSync, (void *hostPtr)) \
  X(V9, RT, aclError, aclrtMemsetD32, (void *ptr, size_t memSize, uint32_t value, size_t N)) \
  X(V9, RT, aclError, aclrtMemsetD32Async, (void *ptr, size_t memSize, uint32_t value, size_t N, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtMemcpyFromSymbol, (void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset, aclrtMemcpyKind kind)) \
  X(V9, RT, aclError, aclrtMemcpyFromSymbolAsync, (void *dst, size_t dstMax, const void *symbol, size_t count, size_t offset, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtMemcpyToSymbol, (const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind)) \
  X(V9, RT, aclError, aclrtMemcpyToSymbolAsync, (const void *symbol, const void *src, size_t count, size_t offset, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtMemManagedAdvise, (const void * const ptr, uint64_t size, aclrtMemManagedAdviseType advise, aclrtMemManagedLocation location)) \
  X(V9, RT, aclError, aclrtMemMapNoAccess, (void *virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags)) \
  X(V9, RT, aclError, aclrtStreamGetPriority, (aclrtStream stream, uint32_t *priority)) \
  X(V9, RT, aclError, aclrtStreamGetFlags, (aclrtStream stream, uint32_t *flags)) \
  X(V9, RT, aclError, aclrtStreamWaitEventWithFlag, (aclrtStream stream, aclrtEvent event, uint32_t timeout, uint32_t flag)) \
  X(V9, RT, aclError, aclrtStreamWaitEventWithTimeout, (aclrtStream stream, aclrtEvent event, int32_t timeout)) \
  X(V9, RT, aclError, aclrtGetMemUsageInfo, (int32_t deviceId, aclrtMemUsageInfo *memUsageInfo, size_t inputNum, size_t *outputNum)) \
  X(V9, RT, aclError, aclrtSetOpExecuteTimeOutV2, (uint64_t timeout, uint64_t *actualTimeout)) \
  X(V9, RT, aclError, aclrtGetOpTimeOutInterval, (uint64_t *interval)) \
  X(V9, RT, aclError, aclrtMemExportToShareableHandleV2, (aclrtDrvMemHandle handle, uint64_t flags, aclrtMemSharedHandleType shareType, void *shareableHandle)) \
  X(V9, RT, aclError, aclrtMemImportFromShareableHandleV2, (void *shareableHandle, aclrtMemSharedHandleType shareType, uint64_t flags, aclrtDrvMemHandle *handle)) \
  X(V9, RT, aclError, aclrtMemSetPidToShareableHandleV2, (void *shareableHandle, aclrtMemSharedHandleType shareType, int32_t *pid, size_t pidNum)) \
  X(V9, RT, aclError, aclrtMemcpyAsyncWithOffset, (void **dst, size_t destMax, size_t dstDataOffset, const void **src, size_t count, size_t srcDataOffset, aclrtMemcpyKind kind, aclrtStream stream)) \
  X(V9, RT, aclError, aclmdlRITaskGetParams, (aclmdlRITask task, aclmdlRITaskParams *params)) \
  X(V9, RT, aclError, aclmdlRITaskSetParams, (aclmdlRITask task, aclmdlRITaskParams *params)) \
  X(V9, RT, aclError, aclmdlRIKernelTaskGetAttribute, (aclmdlRITask task, aclrtLaunchKernelAttrId attrId, aclrtLaunchKernelAttrValue *attrValue)) \
  X(V9, RT, aclError, aclmdlRIUpdate, (aclmdlRI modelRI)) \
  X(V9, RT, aclError, aclmdlRITaskDisable, (aclmdlRITask task)) \
  X(V9, RT, aclError, aclrtGetStreamAvailableNum, (uint32_t *streamCount)) \
  X(V9, RT, aclError, aclrtSetStreamAttribute, (aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value)) \
  X(V9, RT, aclError, aclrtGetStreamAttribute, (aclrtStream stream, aclrtStreamAttr stmAttrType, aclrtStreamAttrValue *value)) \
  X(V9, RT, aclError, aclrtGetEventId, (aclrtEvent event, uint32_t *eventId)) \
  X(V9, RT, aclError, aclrtGetEventAvailNum, (uint32_t *eventCount)) \
  X(V9, RT, aclError, aclrtGetDeviceInfo, (uint32_t deviceId, aclrtDevAttr attr, int64_t *value)) \
  X(V9, RT, aclError, aclrtDeviceGetStreamPriorityRange, (int32_t *leastPriority, int32_t *greatestPriority)) \
  X(V9, RT, aclError, aclrtGetDeviceCapability, (int32_t deviceId, aclrtDevFeatureType devFeatureType, int32_t *value)) \
  X(V9, RT, aclError, aclrtDeviceGetUuid, (int32_t deviceId, aclrtUuid *uuid)) \
  X(V9, RT, aclError, aclrtDeviceGetLimit, (aclrtDeviceLimit limit, size_t *value)) \
  X(V9, RT, aclError, aclrtDeviceGetPCIBusId, (int32_t deviceId, char *pciBusId, int32_t len)) \
  X(V9, RT, aclError, aclrtDeviceGetByPCIBusId, (const char *pciBusId, int32_t *deviceId)) \
  X(V9, RT, aclError, aclrtDeviceGetHostAtomicCapabilities, (uint32_t *capabilities, const aclrtAtomicOperation *operations, const uint32_t count, int32_t deviceId)) \
  X(V9, RT, aclError, aclrtDeviceGetP2PAtomicCapabilities, (uint32_t *capabilities, const aclrtAtomicOperation *operations, const uint32_t count, int32_t srcDeviceId, int32_t dstDeviceId)) \
  X(V9, RT, aclError, aclrtCtxGetCurrentDefaultStream, (aclrtStream *stream)) \
  X(V9, RT, aclError, aclrtGetPrimaryCtxState, (int32_t deviceId, uint32_t *flags, int32_t *active)) \
  X(V9, RT, aclError, aclrtGetDeviceResLimit, (int32_t deviceId, aclrtDevResLimitType type, uint32_t *value)) \
  X(V9, RT, aclError, aclrtSetDeviceResLimit, (int32_t deviceId, aclrtDevResLimitType type, uint32_t value)) \
  X(V9, RT, aclError, aclrtResetDeviceResLimit, (int32_t deviceId)) \
  X(V9, RT, aclError, aclrtGetStreamResLimit, (aclrtStream stream, aclrtDevResLimitType type, uint32_t *value)) \
  X(V9, RT, aclError, aclrtSetStreamResLimit, (aclrtStream stream, aclrtDevResLimitType type, uint32_t value)) \
  X(V9, RT, aclError, aclrtActiveStream, (aclrtStream activeStream, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtSwitchStream, (void *leftValue, aclrtCondition cond, void *rightValue, aclrtCompareDataType dataType, aclrtStream trueStream, aclrtStream falseStream, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtFreeBuf, (aclrtMbuf buf)) \
  X(V9, RT, aclError, aclrtAllocBuf, (aclrtMbuf *buf, size_t size)) \
  X(V9, RT, aclError, aclrtCmoAsyncWithBarrier, (void *src, size_t size, aclrtCmoType cmoType, uint32_t barrierId, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtCmoWaitBarrier, (aclrtBarrierTaskInfo *taskInfo, aclrtStream stream, uint32_t flag)) \
  X(V9, RT, aclError, aclrtMemcpyBatch, (void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex)) \
  X(V9, RT, aclError, aclrtMemcpyBatchV2, (void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs)) \
  X(V9, RT, aclError, aclrtMemcpyBatchAsync, (void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, size_t *failIndex, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtMemcpyBatchAsyncV2, (void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes, size_t numAttrs, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtIpcMemGetExportKey, (void *devPtr, size_t size, char *key, size_t len, uint64_t flags)) \
  X(V9, RT, aclError, aclrtIpcMemClose, (const char *key)) \
  X(V9, RT, aclError, aclrtIpcMemImportByKey, (void **devPtr, const char *key, uint64_t flags)) \
  X(V9, RT, aclError, aclrtIpcMemSetImportPid, (const char *key, int32_t *pid, size_t num)) \
  X(V9, RT, aclError, aclrtIpcMemSetAttr, (const char *key, aclrtIpcMemAttrType type, uint64_t attr)) \
  X(V9, RT, aclError, aclrtIpcMemImportPidInterServer, (const char *key, aclrtServerPid *serverPids, size_t num)) \
  X(V9, RT, aclError, aclmdlRIDebugJsonPrint, (aclmdlRI modelRI, const char *path, uint32_t flags)) \
  X(V9, RT, aclError, aclmdlRIExecute, (aclmdlRI modelRI, int32_t timeout)) \
  X(V9, RT, aclError, aclmdlRIBuildBegin, (aclmdlRI *modelRI, uint32_t flag)) \
  X(V9, RT, aclError, aclmdlRIBindStream, (aclmdlRI modelRI, aclrtStream stream, uint32_t flag)) \
  X(V9, RT, aclError, aclmdlRIEndTask, (aclmdlRI modelRI, aclrtStream stream)) \
  X(V9, RT, aclError, aclmdlRIBuildEnd, (aclmdlRI modelRI, void *reserve)) \
  X(V9, RT, aclError, aclmdlRIUnbindStream, (aclmdlRI modelRI, aclrtStream stream)) \
  X(V9, RT, aclError, aclmdlRISetName, (aclmdlRI modelRI, const char *name)) \
  X(V9, RT, aclError, aclmdlRIGetName, (aclmdlRI modelRI, uint32_t maxLen, char *name)) \
  X(V9, RT, aclError, aclmdlRIGetId, (aclmdlRI modelRI, uint32_t *modelRIId)) \
  X(V9, RT, aclError, aclmdlRIDestroyRegisterCallback, (aclmdlRI modelRI, aclrtCallback func, void *userData)) \
  X(V9, RT, aclError, aclmdlRIDestroyUnregisterCallback, (aclmdlRI modelRI, aclrtCallback func)) \
  X(V9, RT, aclError, aclmdlRIGetStreams, (aclmdlRI modelRI, aclrtStream *streams, uint32_t *numStreams)) \
  X(V9, RT, aclError, aclmdlRIGetTasksByStream, (aclrtStream stream, aclmdlRITask *tasks, uint32_t *numTasks)) \
  X(V9, RT, aclError, aclmdlRITaskGetType, (aclmdlRITask task, aclmdlRITaskType *type)) \
  X(V9, RT, aclError, aclmdlRITaskGetSeqId, (aclmdlRITask task, uint32_t *id)) \
  X(V9, RT, aclError, aclInitCallbackRegister, (aclRegisterCallbackType type, aclInitCallbackFunc cbFunc, void *userData)) \
  X(V9, RT, aclError, aclInitCallbackUnRegister, (aclRegisterCallbackType type, aclInitCallbackFunc cbFunc)) \
  X(V9, RT, aclError, aclFinalizeCallbackRegister, (aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc, void *userData)) \
  X(V9, RT, aclError, aclFinalizeCallbackUnRegister, (aclRegisterCallbackType type, aclFinalizeCallbackFunc cbFunc)) \
  X(V9, RT, aclError, aclrtCheckMemType, (void **addrList, uint32_t size, uint32_t memType, uint32_t *checkResult, uint32_t reserve)) \
  X(V9, RT, aclError, aclrtGetLogicDevIdByUserDevId, (const int32_t userDevid, int32_t * const logicDevId)) \
  X(V9, RT, aclError, aclrtGetUserDevIdByLogicDevId, (const int32_t logicDevId, int32_t * const userDevid)) \
  X(V9, RT, aclError, aclrtGetLogicDevIdByPhyDevId, (const int32_t phyDevId, int32_t * const logicDevId)) \
  X(V9, RT, aclError, aclrtGetPhyDevIdByLogicDevId, (const int32_t logicDevId, int32_t * const phyDevId)) \
  X(V9, RT, aclError, aclrtGetUserDevIdByPhyDevId, (const int32_t phyDevId, int32_t * const userDevId)) \
  X(V9, RT, aclError, aclrtGetPhyDevIdByUserDevId, (const int32_t userDevId, int32_t * const phyDevId)) \
  X(V9, RT, aclError, aclrtCtxGetFloatOverflowAddr, (void **overflowAddr)) \
  X(V9, RT, aclError, aclrtLaunchHostFunc, (aclrtStream stream, aclrtHostFunc fn, void *args)) \
  X(V9, RT, aclError, aclrtRegStreamStateCallback, (const char *regName, aclrtStreamStateCallback callback, void *args)) \
  X(V9, RT, aclError, aclrtRegDeviceStateCallback, (const char *regName, aclrtDeviceStateCallback callback, void *args)) \
  X(V9, RT, aclError, aclrtSetDeviceTaskAbortCallback, (const char *regName, aclrtDeviceTaskAbortCallback callback, void *args)) \
  X(V9, RT, aclError, aclrtStreamStop, (aclrtStream stream)) \
  X(V9, RT, aclError, aclrtCmoGetDescSize, (size_t *size)) \
  X(V9, RT, aclError, aclrtCmoSetDesc, (void *cmoDesc, void *src, size_t size)) \
  X(V9, RT, aclError, aclrtCmoAsyncWithDesc, (void *cmoDesc, aclrtCmoType cmoType, aclrtStream stream, const void *reserve)) \
  X(V9, RT, aclError, aclmdlRIAbort, (aclmdlRI modelRI)) \
  X(V9, RT, aclError, aclmdlRICondHandleCreate, (aclmdlRI modelRI, uint32_t defaultLaunchValue, aclmdlRICondHandleFlag flag, aclmdlRICondHandle *handle)) \
  X(V9, RT, aclError, aclmdlRICondHandleGetCondPtr, (aclmdlRICondHandle handle, uint64_t **ptr)) \
  X(V9, RT, aclError, aclmdlRIAddCondTask, (aclmdlRICondTaskParams params, aclrtStream stream, uint32_t flags)) \
  X(V9, RT, aclError, aclmdlRICaptureToModelRIBegin, (aclrtStream stream, aclmdlRI modelRI, aclmdlRICaptureMode mode)) \
  X(V9, RT, aclError, aclrtGetErrorVerbose, (int32_t deviceId, aclrtErrorInfo *errorInfo)) \
  X(V9, RT, aclError, aclrtRepairError, (int32_t deviceId, const aclrtErrorInfo *errorInfo)) \
  X(V9, RT, aclError, aclrtMemSetAccess, (void *virPtr, size_t size, aclrtMemAccessDesc *desc, size_t count)) \
  X(V9, RT, aclError, aclrtMemGetAccess, (void *virPtr, aclrtMemLocation *location, uint64_t *flag)) \
  X(V9, RT, aclError, aclrtCacheLastTaskOpInfo, (const void * const infoPtr, const size_t infoSize)) \
  X(V9, RT, aclError, aclrtCacheLastTaskExtendInfo, (const char * const extendInfoPtr, const size_t infoSize)) \
  X(V9, RT, aclError, aclrtIpcGetEventHandle, (aclrtEvent event, aclrtIpcEventHandle *handle)) \
  X(V9, RT, aclError, aclrtIpcOpenEventHandle, (aclrtIpcEventHandle handle, aclrtEvent *event)) \
  X(V9, RT, aclError, aclrtMemRetainAllocationHandle, (void *virPtr, aclrtDrvMemHandle *handle)) \
  X(V9, RT, aclError, aclrtMemGetAllocationPropertiesFromHandle, (aclrtDrvMemHandle handle, aclrtPhysicalMemProp *prop)) \
  X(V9, RT, aclError, aclrtReserveMemAddressNoUCMemory, (void **virPtr, size_t size, size_t alignment, void *expectPtr, uint64_t flags)) \
  X(V9, RT, aclError, aclrtMemGetAddressRange, (void *ptr, void **pbase, size_t *psize)) \
  X(V9, RT, aclError, aclrtMemP2PMap, (void *devPtr, size_t size, int32_t dstDevId, uint64_t flags)) \
  X(V9, RT, aclError, aclrtMemManagedPrefetchAsync, (const void *ptr, size_t size, aclrtMemManagedLocation location, uint32_t flags, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtMemManagedPrefetchBatchAsync, (const void **ptrs, size_t *sizes, size_t count, aclrtMemManagedLocation *prefetchLocs, size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, aclrtStream stream)) \
  X(V9, RT, aclError, aclrtMemMapSelectedLink, (void *virPtrDst, size_t size, void *virPtrSrc, uint32_t linkIdx)) \
  X(V9, RT, aclError, aclrtMemMapSetLink, (aclrtDrvMemHandle handle, aclrtMemLinkType adviceLink)) \
  X(V9, MDL, aclmdlBundleQueryInfo *, aclmdlBundleCreateQueryInfo, (void)) \
  X(V9, MDL, aclError, aclmdlBundleDestroyQueryInfo, (aclmdlBundleQueryInfo *queryInfo)) \
  X(V9, MDL, aclError, aclmdlBundleQueryInfoFromFile, (const char *fileName, aclmdlBundleQueryInfo *queryInfo)) \
  X(V9, MDL, aclError, aclmdlBundleQueryInfoFromMem, (const void *model, size_t modelSize, aclmdlBundleQueryInfo *queryInfo)) \
  X(V9, MDL, aclError, aclmdlBundleGetQueryModelNum, (const aclmdlBundleQueryInfo *queryInfo, size_t *modelNum)) \
  X(V9, MDL, aclError, aclmdlBundleGetVarWeightSize, (const aclmdlBundleQueryInfo *queryInfo, size_t *variableWeightSize)) \
  X(V9, MDL, aclError, aclmdlBundleGetSize, (const aclmdlBundleQueryInfo *queryInfo, size_t index, size_t *workSize, size_t *constWeightSize)) \
  X(V9, MDL, aclError, aclmdlBundleInitFromFile, (const char *modelPath, void *varWeightPtr, size_t varWeightSize, uint32_t *bundleId)) \
  X(V9, MDL, aclError, aclmdlBundleInitFromMem, (const void *model, size_t modelSize, void *varWeightPtr, size_t varWeightSize, uint32_t *bundleId)) \
  X(V9, MDL, aclError, aclmdlBundleLoadModel, (uint32_t bundleId, size_t index, uint32_t *modelId)) \
  X(V9, MDL, aclError, aclmdlBundleLoadModelWithMem, (uint32_t bundleId, size_t index, void *workPtr, size_t workSize, void *weightPtr, size_t weightSize, uint32_t *modelId)) \
  X(V9, MDL, aclError, aclmdlBundleLoadModelWithConfig, (uint32_t bundleId, size_t index, aclmdlConfigHandle *handle, uint32_t *modelId)) \
  X(V9, MDL, aclError, aclmdlBundleUnloadModel, (uint32_t bundleId, uint32_t modelId)) \
  X(V9, MDL, aclError, aclmdlSetAttribute, (uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue)) \
  X(V9, MDL, aclError, aclmdlGetAttribute, (uint32_t modelId, aclmdlAttr attr, aclmdlAttrValue_t *attrValue)) \
  X(V9, MDL, aclError, aclmdlSetExternalWeightAddress, (aclmdlConfigHandle *handle, const char *weightFileName, void *devPtr, size_t size))
/* clang-format on */

#define ACL_PROTOTYPE(release, library, ret, name, args) ret name args;
ACL_FUNCTIONS(ACL_PROTOTYPE)
#undef ACL_PROTOTYPE

#ifdef __cplusplus
}
#endif

#endif
