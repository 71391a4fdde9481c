# SPDX-License-Identifier: Apache-2.0
cdef class InputLayout:
    cdef readonly object spec
    cdef readonly str name, full_name
    cdef readonly int ndim
    cdef readonly Py_ssize_t itemsize
    cdef int code, code_bits           # DLPack's
    cdef bint bits                     # bfloat16: NumPy lacks it, its bits travel as uint16
    cdef char formats[2]
    cdef Py_ssize_t[128] shape         # -1 where gears or ranges decide

    cdef int view(self, value, Py_buffer* view) except -1
    cdef bint view_capsule(self, capsule, Py_buffer* view) except *
    cdef int check_row(self, Py_buffer* view) except -1
    cdef int refuse(self, Py_buffer* view) except -1


cdef class OutputTarget:
    cdef object owner
    cdef Py_buffer view
    cdef char* ptr
    cdef readonly Py_ssize_t nbytes
    cdef public int pending_copies
    cdef readonly str dtype
    cdef readonly tuple shape


cdef object view_of(owner, void* ptr, tuple shape, dtype, bint readonly)
cdef Py_buffer* buffers(int count) except NULL
cdef void release_buffers(Py_buffer* views, int count) noexcept
