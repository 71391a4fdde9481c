# SPDX-License-Identifier: Apache-2.0
from libc.stdint cimport int64_t, uint64_t

from ge_core_pyx.acl cimport aclError, aclmdlDataset, aclmdlIODims, aclrtEvent
from ge_core_pyx.device cimport Context, Event, Stream
from ge_core_pyx.memory cimport DeviceBuffer, PinnedBuffer
from ge_core_pyx.model cimport Dataset, Model

cdef extern from *:
    """
    #include <time.h>
    static inline int64_t ge_core_now_ns(void) {
      struct timespec t;
      clock_gettime(CLOCK_MONOTONIC, &t);
      return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    """
    int64_t ge_core_now_ns() noexcept nogil


cdef enum GearKind:
    STATIC, BATCH, IMAGE_SIZE, DIMS, RANGE


cdef struct Tensor:
    size_t offset                      # in the slot's blocks
    size_t nbytes
    size_t row_nbytes                  # of one row of the batch; 0 when the model cannot be cut by rows


cdef struct Gear:                      # one gear of one slot: all the hot path needs
    uint64_t sizes[2]                  # the batch size; or height and width
    aclmdlIODims* dims                 # or all inputs' dims
    size_t rows                        # rows of the batch; 0 when the model cannot be cut by rows
    aclmdlDataset* input
    aclmdlDataset* output
    size_t input_nbytes
    size_t output_nbytes
    bint adjacent                      # the outputs lie close enough for one copy
    Tensor* inputs
    Tensor* outputs


cdef struct OutputCopy:                # bytes of the pinned output that go somewhere else
    char* target
    size_t offset                      # in the slot's block
    size_t nbytes


cdef struct Execution:                 # one execution of a slot, as its caller wants it
    int gear
    size_t rows                        # 0: the whole tensors
    size_t first                       # row of `views` to begin at
    Py_buffer* views                   # the inputs, to be copied into pinned memory; NULL: they are there already
    bint in_place                      # the device reads them where they are: registered memory, in `Slot.sources`
    bint copy_back                     # copy the outputs into the pinned output at once


cdef enum Moment:                      # of a sampled batch, on the host
    BEGUN, GATHERED, SUBMITTED, AWAITED, SCATTERED, MOMENTS


cdef struct StageSample:               # the times of one batch
    int gear
    size_t rows
    int64_t moments[5]
    float device_ms[3]                 # copy in, model, copy out; negative where the runtime has no events


cdef class Slot:
    cdef readonly Context context
    cdef readonly Stream stream
    cdef readonly Model model
    cdef readonly PinnedBuffer pinned_input, pinned_output
    cdef readonly DeviceBuffer device_input, device_output, gear_memory
    cdef readonly object description
    cdef readonly list gear_shapes     # per gear: (input shapes, output shapes)
    cdef list datasets
    cdef Gear* gears
    cdef int n_gears, n_inputs, n_outputs
    cdef uint64_t* pads                # per input: what padded places hold
    cdef void** sources                # per input: registered memory to read, where Execution.in_place
    cdef OutputCopy* copies            # per output: for whoever has the slot
    cdef GearKind kind
    cdef int current                   # the gear that is set; -1: none
    cdef int timeout_ms
    cdef int64_t started_ns            # when the batch in flight began
    cdef bint closing
    cdef object submission             # weak reference to the Submission that started it; else returns None
    cdef bint in_flight                # work was queued and not awaited yet
    cdef bint failed
    cdef aclError noticed              # what done() met and finish() must report
    cdef const char* call              # the entry point called last
    cdef int sample_every              # 0: no batch is timed
    cdef long long batches
    cdef bint sampling                 # the batch in flight is timed
    cdef int64_t moments[5]
    cdef list event_objects
    cdef aclrtEvent events[4]          # before the copy in, after it, after the model, after the copy out
    cdef bint has_events
    cdef int device                    # which of the session's devices
    cdef object error                  # what a RangeSlot's thread met
    cdef object keep                   # whose memory the device may be writing to

    cdef int _prepare_gear(self, int index, gear) except -1
    cdef void begin(self) noexcept nogil
    cdef void mark(self, Moment moment) noexcept nogil
    cdef void _record(self, int event) noexcept nogil
    cdef aclError _set_gear(self, int index) noexcept nogil
    cdef aclError start(self, Execution* execution) noexcept nogil
    cdef aclError copy_back(self, int index, size_t rows) noexcept nogil
    cdef aclError fetch(self, char* target, size_t offset, size_t nbytes) noexcept nogil
    cdef aclError _copy_in(self, Gear* gear, Execution* execution) noexcept nogil
    cdef aclError _read_in_place(self, Gear* gear) noexcept nogil
    cdef void _pad_rows(self, Gear* gear, size_t rows) noexcept nogil
    cdef aclError _to_device(self, size_t offset, size_t nbytes) noexcept nogil
    cdef aclError finish(self, int64_t timeout_ms) noexcept nogil
    cdef bint drained(self, int timeout_ms) noexcept nogil
    cdef bint expired(self) noexcept nogil
    cdef bint has_failed(self)
    cdef void scatter(self, OutputCopy* copies, int count) noexcept nogil
    cdef void read_sample(self, Execution* execution, StageSample* sample) noexcept nogil
    cdef void fill(self, int i, char* place, size_t nbytes) noexcept nogil
