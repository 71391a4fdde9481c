cdef class Feed:
    cdef Py_buffer* views
    cdef int filled
    cdef readonly Py_ssize_t rows


cdef class Target:
    cdef object owner
    cdef Py_buffer view
    cdef char* ptr
    cdef readonly Py_ssize_t nbytes
    cdef public int awaited
    cdef readonly str dtype
    cdef readonly tuple shape
