# SPDX-License-Identifier: Apache-2.0
from ge_core_pyx.slot cimport Slot


cdef class RequestInputs:
    cdef Py_buffer* views
    cdef int filled
    cdef readonly Py_ssize_t rows


cdef class ModelInterface:
    cdef readonly object description
    cdef readonly list gear_shapes     # per gear: (input shapes, output shapes)
    cdef readonly list layouts         # an InputLayout per input
    cdef readonly tuple outputs        # a TensorSpec per output
    cdef readonly list output_dtypes
    cdef readonly dict input_index, output_index
    cdef readonly dict output_axes
    cdef readonly list pads            # per input: 8 bytes of its pad value
    cdef readonly list split_table
    cdef int n_inputs, n_outputs
    cdef Py_ssize_t max_rows           # of the description; 0: the model cannot be cut by rows
    cdef bint exact_rows               # a static om: no other number of rows
    cdef bint plain                    # every output dtype is one that NumPy has
    cdef list multiples                # of the description
    cdef dict gear_by_shapes
    cdef Py_ssize_t shaped_rows        # what `shapes` is for
    cdef list shapes                   # of the outputs of the request before

    cdef int views(self, inputs, Py_buffer* views, int* filled) except -1
    cdef Py_ssize_t rows_of(self, Py_buffer* views) except -1
    cdef list empty_outputs(self, Py_ssize_t rows)
    cdef tuple shapes_of(self, Py_buffer* views)
    cdef int pad(self, Slot slot, int gear, Py_buffer* views, tuple shapes) except -1


cdef object bits_of(array)
