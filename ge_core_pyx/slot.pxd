from libc.stdint cimport int64_t, uint64_t

from ge_core_pyx.acl cimport aclError, aclmdlDataset, aclmdlIODims
from ge_core_pyx.device cimport Context, Event, Stream
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer
from ge_core_pyx.model cimport Dataset, Model

cdef enum GearKind:
    STATIC, BATCH, IMAGE_SIZE, DIMS, RANGE


cdef struct Tensor:
    size_t offset                      # in the slot's blocks
    size_t nbytes
    size_t row_nbytes                  # of one row of the batch; 0 when the model cannot be cut by rows


cdef struct Plan:                      # one gear of one slot: all the hot path needs
    uint64_t gear[2]                   # the batch size; or height and width
    aclmdlIODims* dims                 # or all inputs' dims
    size_t rows                        # rows of the batch; 0 when the model cannot be cut by rows
    aclmdlDataset* input
    aclmdlDataset* output
    size_t input_nbytes
    size_t output_nbytes
    bint adjacent                      # the outputs lie close enough for one copy
    Tensor* inputs
    Tensor* outputs


cdef struct Copy:                      # bytes of the outputs that someone wants elsewhere
    char* target
    size_t offset                      # in the slot's blocks
    size_t nbytes


cdef enum Moment:                      # of a sampled batch, on the host
    BEGUN, GATHERED, SUBMITTED, AWAITED, SCATTERED, MOMENTS


cdef class Slot:
    cdef readonly Context context
    cdef readonly Stream stream
    cdef readonly Model model
    cdef readonly PinnedBuffer pinned_input, pinned_output
    cdef readonly DeviceBuffer device_input, device_output, gear_memory
    cdef readonly object description
    cdef readonly list gears           # per plan: (input shapes, output shapes)
    cdef list datasets
    cdef Plan* plans
    cdef int n_plans, n_inputs, n_outputs
    cdef uint64_t[128] pads            # per input: what padded places hold
    cdef GearKind kind
    cdef int current                   # the plan whose gear is set; -1: none
    cdef int timeout_ms
    cdef int64_t started_ns            # when the batch in flight began
    cdef bint closing
    cdef object future                 # weak reference to the Future that started it
    cdef bint in_flight                # work was queued and not awaited yet
    cdef bint failed
    cdef aclError noticed              # what done() met and finish() must report
    cdef const char* call              # the entry point called last
    cdef int sample_every              # 0: no batch is timed
    cdef long long batches
    cdef bint sampling                 # the batch in flight is timed
    cdef int64_t moments[5]
    cdef list events                   # before the copy in, after it, after the model, after the copy out
    cdef int device                    # which of the session's devices
    cdef object error                  # what a RangeSlot's thread met
    cdef object keep                   # whose memory the device may be writing to

    cdef int _plan(self, int index, gear) except -1
    cdef void begin(self) noexcept nogil
    cdef void mark(self, Moment moment) noexcept nogil
    cdef void _record(self, int event) noexcept nogil
    cdef aclError _set_gear(self, int index) noexcept nogil
    cdef aclError start(
        self, int index, size_t rows, Py_buffer* views, size_t first, void** sources, bint back
    ) noexcept nogil
    cdef aclError copy_back(self, int index, size_t rows) noexcept nogil
    cdef aclError fetch(self, char* target, size_t offset, size_t nbytes) noexcept nogil
    cdef aclError _feed(self, Plan* plan, size_t rows, Py_buffer* views, size_t first) noexcept nogil
    cdef aclError _to_device(self, size_t offset, size_t nbytes) noexcept nogil
    cdef aclError finish(self, int64_t timeout_ms) noexcept nogil
    cdef bint drained(self, int timeout_ms) noexcept nogil
    cdef void fill(self, int i, char* place, size_t nbytes) noexcept nogil


cdef class RangeSlot(Slot):
    cdef dict known                    # input shapes → output bytes, learnt by running; shared by the slots of a model
    cdef bint bounded                  # every output's bound is small enough to be allocated at load
    cdef bint learning                 # the batch in flight runs synchronously, to learn its output sizes
    cdef tuple shapes                  # of its inputs
    cdef list least, capacities, output_shapes
    cdef object requests, answered, thread
    cdef aclError result

    cdef int prepare(self, tuple shapes) except -1
    cdef int _grow(self, list nbytes) except -1
    cdef int _fetch_output(self, int index, void* source) except -1
