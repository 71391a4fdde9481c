cdef class RequestInputs:
    cdef Py_buffer* views
    cdef int filled
    cdef readonly Py_ssize_t rows
