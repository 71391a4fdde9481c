# SPDX-License-Identifier: Apache-2.0
"""DLPack's structures: tensors in the memory of whoever made them."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

cdef extern from *:
    """
    #include <stdint.h>
    #ifndef GE_CORE_DLPACK
    #define GE_CORE_DLPACK
    typedef struct {
      void *data;
      struct { int32_t device_type, device_id; } device;
      int32_t ndim;
      struct { uint8_t code, bits; uint16_t lanes; } dtype;
      int64_t *shape, *strides;
      uint64_t byte_offset;
    } ge_dl_tensor;
    typedef struct ge_dl_managed {
      ge_dl_tensor tensor;
      void *manager;
      void (*deleter)(struct ge_dl_managed *);
    } ge_dl_managed;
    #endif
    """
    ctypedef struct ge_dl_device:
        int32_t device_type
        int32_t device_id
    ctypedef struct ge_dl_type:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct ge_dl_tensor:
        void* data
        ge_dl_device device
        int32_t ndim
        ge_dl_type dtype
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset
    ctypedef struct ge_dl_managed:
        ge_dl_tensor tensor
        void* manager
        void (*deleter)(ge_dl_managed*) noexcept


cdef bint on_host(int device_type) noexcept
cdef int check_dims(ge_dl_tensor* tensor) except -1
cdef str type_name(ge_dl_tensor* tensor)
