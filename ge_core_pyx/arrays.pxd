cdef class Source:
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


cdef object view_of(owner, void* ptr, tuple shape, dtype, bint readonly)
cdef Py_buffer* buffers(int count) except NULL
cdef void release_buffers(Py_buffer* views, int count) noexcept
cdef bint on_host(int device_type) noexcept
