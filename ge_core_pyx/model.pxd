# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport uint32_t

from ge_core_pyx.acl cimport aclDataBuffer, aclError, aclmdlDataset, aclmdlDesc
from ge_core_pyx.device cimport Context
from ge_core_pyx.memory cimport DeviceBuffer


cdef class Dataset:
    cdef aclmdlDataset* handle
    cdef list buffers                  # addresses of the aclDataBuffers, freed with the dataset
    cdef readonly object owner         # keeps the device memory alive

    cdef aclDataBuffer* buffer(self, int index)
    cdef int add(self, void* ptr, size_t nbytes) except -1
    cdef aclError _release(self) noexcept


cdef class Model:
    cdef uint32_t id
    cdef bint loaded
    cdef aclmdlDesc* desc
    cdef readonly Context context
    cdef readonly str path
    cdef readonly object description
    cdef readonly DeviceBuffer weights
    cdef readonly DeviceBuffer work
    cdef size_t gear_input             # index of the reserved gear input

    cdef aclError _release(self) noexcept
