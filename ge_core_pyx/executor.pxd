from ge_core_pyx.acl cimport aclError, aclmdlDataset
from ge_core_pyx.device cimport Context, Stream
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer
from ge_core_pyx.model cimport Model


cdef struct Tensor:
    size_t offset                      # in the slot's blocks
    size_t nbytes
    size_t row_nbytes                  # of one row of the batch; 0 when the model cannot be cut by rows


cdef struct Plan:                      # one gear of one slot: all the hot path needs
    size_t gear                        # the batch size it was compiled for
    size_t rows                        # the same; 0 when the model cannot be cut by rows
    aclmdlDataset* input
    aclmdlDataset* output
    size_t input_nbytes
    size_t output_nbytes
    Tensor* inputs
    Tensor* outputs


cdef class Slot:
    cdef readonly Context context
    cdef readonly Stream stream
    cdef readonly Model model
    cdef readonly PinnedBuffer pinned_input, pinned_output
    cdef readonly DeviceBuffer device_input, device_output, gear_memory
    cdef list datasets
    cdef readonly list gears           # per plan: (input shapes, output shapes)
    cdef Plan* plans
    cdef int n_plans, n_inputs, n_outputs
    cdef int current                   # the plan whose gear is set; -1: none
    cdef int timeout_ms
    cdef bint has_gears
    cdef bint failed
    cdef const char* call              # the entry point called last

    cdef int _plan(self, int index, description) except -1
    cdef aclError execute(self, int index, size_t rows) noexcept nogil
    cdef bint drained(self, int timeout_ms) noexcept nogil


cdef class Executor:
    cdef readonly Context context
    cdef readonly str path
    cdef readonly object description
    cdef readonly list slots
    cdef readonly str unhealthy
    cdef readonly bint closed
    cdef list free, sources, output_dtypes
    cdef tuple output_specs
    cdef dict input_index, output_index
    cdef object condition
    cdef int waiters, submit_timeout_ms, execute_timeout_ms
    cdef long long executions, rows_run, rows_padded

    cdef int _add_slot(self) except -1
    cdef Slot acquire(self)
    cdef void release(self, Slot slot) noexcept
    cdef int failed(self, Slot slot, aclError rc) except -1
    cdef int plan_for(self, Slot slot, size_t rows) noexcept
    cdef int exact_plan(self, Slot slot, Py_buffer* views) except -2
    cdef list _run_rows(self, Py_buffer* views, Py_ssize_t rows, list wanted)
    cdef list _run_exact(self, Py_buffer* views, list wanted)


cdef class Hold:
    cdef Executor executor
    cdef Slot slot
