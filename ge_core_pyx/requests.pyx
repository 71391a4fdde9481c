# SPDX-License-Identifier: Apache-2.0
"""The inputs of a request: held where the caller has them, checked against the model, placed in a gear, padded."""

cimport cython

from ge_core_pyx.arrays cimport InputLayout, buffers, release_buffers, view_of
from ge_core_pyx.slot cimport Slot

import math

import numpy as np

from ge_core_pyx.arrays import numpy_dtype

cdef object _empty = np.empty


@cython.final
cdef class RequestInputs:
    """The inputs of one request, checked against a model's and held, without a copy, until this dies.

    Parameters
    ----------
    layouts : list of InputLayout
        The model's inputs.
    values : list
        One array, buffer or DLPack capsule for each, of its dtype. A capsule is looked into, not consumed.
    by_rows : bool
        Whether the model is cut by rows: then every dim but the first must be the model's.

    Attributes
    ----------
    rows : int
        0 for a model that is not cut by rows.

    Raises
    ------
    ValueError
        A wrong dtype, rank, dim or number of rows.
    """

    def __cinit__(self, list layouts not None, list values not None, bint by_rows):
        cdef InputLayout layout
        cdef Py_buffer* view
        cdef int i, count = len(layouts)
        if len(values) != count:
            raise ValueError(f"expected {count} inputs, got {len(values)}")
        self.views = buffers(count)
        for i in range(count):
            layout = <InputLayout>layouts[i]
            view = &self.views[i]
            layout.view(values[i], view)
            self.filled += 1
            if by_rows:
                layout.check_row(view)
                if view.shape[0] != self.views[0].shape[0] or view.shape[0] == 0:
                    raise ValueError(
                        f"input {layout.name!r}: expected {self.views[0].shape[0] or 'some'} rows, got {view.shape[0]}"
                    )
        if by_rows and self.filled:
            self.rows = self.views[0].shape[0]

    @property
    def address(self) -> int:
        """Where the first input begins."""
        return <size_t>self.views[0].buf if self.filled else 0

    @property
    def shapes(self) -> tuple:
        """The shape of each input."""
        cdef int i, d
        return tuple(tuple(self.views[i].shape[d] for d in range(self.views[i].ndim)) for i in range(self.filled))

    def __dealloc__(self):
        if self.views != NULL:
            release_buffers(self.views, self.filled)


@cython.final
cdef class ModelInterface:
    """What a model takes and gives: checks a call's inputs, places them in a gear, makes arrays for the outputs.

    Parameters
    ----------
    description : ge_core_pyx.model.Description
        Of a loaded model.
    gear_shapes : list
        Per gear the shapes of (inputs, outputs); empty for range models.
    """

    def __init__(self, description, list gear_shapes not None):
        self.description = description
        self.gear_shapes = gear_shapes
        self.layouts = [InputLayout(spec) for spec in description.inputs]
        self.outputs = description.outputs
        self.n_inputs, self.n_outputs = len(self.layouts), len(self.outputs)
        self.output_dtypes = [numpy_dtype(spec) for spec in self.outputs]
        self.plain = all(spec.dtype != "bfloat16" for spec in self.outputs)
        self.input_index = _index(description.inputs)
        self.output_index = _index(self.outputs)
        self.max_rows = description.max_rows
        self.exact_rows = self.max_rows > 0 and description.gear_kind == "static"
        self.multiples = list(description.row_multiples)
        self.gear_by_shapes = {shapes[0]: i for i, shapes in enumerate(gear_shapes)}
        self.output_axes = {}
        self.pads = [0] * self.n_inputs
        self.shaped_rows = -1

    def set_padding(self, dict output_axes, dict pad_values):
        """Which output axis follows which input axis, and what padded places of the inputs hold."""
        self.output_axes = output_axes
        self.pads = [pad_bits(spec, pad_values.get(spec.name, 0)) for spec in self.description.inputs]

    def set_split_table(self, table):
        """`table[n]`: the executions that n rows, up to the largest gear, are split into; None: one."""
        self.split_table = table

    # ---- inputs ----

    cdef int views(self, inputs, Py_buffer* views, int* filled) except -1:
        """A C-contiguous view of every input, of the right dtype and rank."""
        cdef dict arrays = inputs if type(inputs) is dict else _mapping(inputs)
        cdef InputLayout layout
        if len(arrays) != self.n_inputs:
            self._refuse_names(arrays)
        for layout in self.layouts:
            value = arrays.get(layout.name)
            if value is None:
                value = arrays.get(layout.full_name)
                if value is None:
                    self._refuse_names(arrays)
            layout.view(value, &views[filled[0]])
            filled[0] += 1
        return 0

    def _refuse_names(self, dict arrays):
        specs = self.description.inputs
        known = {name for spec in specs for name in (spec.name, spec.full_name)}
        unknown = [name for name in arrays if name not in known]
        missing = [spec.name for spec in specs if arrays.get(spec.name) is None and arrays.get(spec.full_name) is None]
        problems = [f"unknown input {name!r}" for name in unknown] + [f"missing input {name!r}" for name in missing]
        raise ValueError(f"{'; '.join(problems) or 'an input is given twice'}; this model has {listed(specs)}")

    cdef Py_ssize_t rows_of(self, Py_buffer* views) except -1:
        """The rows of a request, the same for every input."""
        cdef InputLayout layout
        cdef int i = 0
        for layout in self.layouts:
            layout.check_row(&views[i])
            if views[i].shape[0] != views[0].shape[0]:
                raise ValueError(
                    f"input {layout.name!r} has {views[i].shape[0]} rows, but "
                    f"{(<InputLayout>self.layouts[0]).name!r} has {views[0].shape[0]}; all inputs of a call have the "
                    "same number of rows"
                )
            i += 1
        if self.exact_rows and views[0].shape[0] != self.max_rows:
            raise ValueError(
                f"this static om takes exactly {self.max_rows} row(s) per run, got {views[0].shape[0]}; "
                "pad them, or compile batch gears"
            )
        return views[0].shape[0]

    cdef tuple shapes_of(self, Py_buffer* views):
        return tuple([tuple([views[i].shape[d] for d in range(views[i].ndim)]) for i in range(self.n_inputs)])

    # ---- outputs ----

    cdef list empty_outputs(self, Py_ssize_t rows):
        """New arrays for the outputs of so many rows."""
        cdef int i
        cdef list arrays = [], shapes
        if rows != self.shaped_rows:
            shapes = [(rows * self.multiples[i], *self.outputs[i].shape[1:]) for i in range(self.n_outputs)]
            self.shapes, self.shaped_rows = shapes, rows
        else:
            shapes = self.shapes
        for i in range(len(shapes)):
            arrays.append(_empty(shapes[i], self.output_dtypes[i]))
        return arrays

    def empty_whole(self, int gear) -> list:
        """New arrays for the outputs of a whole gear."""
        shapes = self.gear_shapes[gear][1]
        return [_empty(shape, dtype) for shape, dtype in zip(shapes, self.output_dtypes)]

    def wanted(self, names):
        """The indices of the outputs with these names; None: all."""
        if names is None:
            return None
        wanted = []
        for name in [names] if isinstance(names, str) else names:
            index = self.output_index.get(name)
            if index is None:
                raise ValueError(f"no output {name!r}; this model has {listed(self.outputs)}")
            wanted.append(index)
        return wanted

    # ---- gears ----

    def split(self, Py_ssize_t rows):
        """How many rows each execution of a request takes."""
        full, rest = divmod(rows, self.max_rows)
        if self.split_table is not None:
            return self.split_table[self.max_rows] * full + self.split_table[rest]
        return [self.max_rows] * full + ([rest] if rest else [])

    def gear_of(self, tuple shapes):
        """The gear with exactly these input shapes; a ValueError lists the gears when it is none."""
        if shapes not in self.gear_by_shapes:
            known = " or ".join(str(list(gear)) for gear in self.gear_by_shapes) or "none of a range"
            raise ValueError(f"shapes: expected the input shapes of a gear, {known}, got {list(shapes)}")
        return self.gear_by_shapes[shapes]

    def place(self, tuple shapes):
        """(gear, crop shapes) for whole tensors of these input shapes.

        The crop shapes are those that the outputs are cut back to; None: they are right as the gear gives them.
        """
        description = self.description
        if description.gear_kind == "range":
            self._check_ranges(shapes)
            return 0, None
        gear = self.gear_by_shapes.get(shapes)
        if gear is not None:
            return gear, None
        gears = [inputs for inputs, _ in self.gear_shapes]
        if self.output_axes:
            fitting = [
                (sum(map(math.prod, gear)), i) for i, gear in enumerate(gears)
                if all(a <= b for shape, full in zip(shapes, gear) for a, b in zip(shape, full))
            ]
            if fitting:
                gear = min(fitting)[1]
                return gear, self._crop_shapes(shapes, *self.gear_shapes[gear])
        known = " or ".join(str(list(gear)) for gear in gears)
        why = "none is as large" if self.output_axes else "declare output_axes to have it padded"
        if description.gear_kind in ("static", "batch"):
            why = description.not_rows
        raise ValueError(f"the om takes input shapes {known}, got {list(shapes)} ({why})")

    def _check_ranges(self, shapes):
        description = self.description
        for spec, shape, limits in zip(description.inputs, shapes, description.ranges):
            for size, (low, high) in zip(shape, limits):
                if size < low or (high is not None and size > high):
                    text = ", ".join(f"{a}~{'' if b is None else b}" if a != b else str(a) for a, b in limits)
                    raise ValueError(
                        f"input {spec.name!r}: expected {spec.dtype}[{text}], got {spec.dtype}{list(shape)}"
                    )

    def _crop_shapes(self, shapes, gear, output_shapes):
        inputs = {spec.name: (shape, full) for spec, shape, full in zip(self.description.inputs, shapes, gear)}
        cropped = []
        for spec, full in zip(self.outputs, output_shapes):
            result = list(full)
            for axis, (name, input_axis) in self.output_axes.get(spec.name, {}).items():
                shape, padded_shape = inputs[name]
                result[axis] = full[axis] * shape[input_axis] // padded_shape[input_axis]
            cropped.append(tuple(result))
        return tuple(cropped)

    cdef int pad(self, Slot slot, int gear, Py_buffer* views, tuple shapes) except -1:
        """Copy whole tensors into the pinned input of a larger gear, and fill the rest with the pad values."""
        cdef int i
        for i, (spec, shape) in enumerate(zip(self.description.inputs, shapes)):
            full = self.gear_shapes[gear][0][i]
            dtype = np.dtype(spec.dtype if spec.dtype != "bfloat16" else "uint16")
            target = view_of(slot, <char*>slot.pinned_input.ptr + slot.gears[gear].inputs[i].offset, full, dtype, False)
            source = view_of(slot, views[i].buf, shape, dtype, True)
            target[...] = np.frombuffer(self.pads[i].to_bytes(8, "little"), dtype, 1)[0]
            target[tuple(map(slice, shape))] = source
        return 0


def pad_bits(spec, value) -> int:
    """A pad value of an input's type, repeated to 8 bytes; a ValueError when the type cannot hold it."""
    name = "float32" if spec.dtype == "bfloat16" else spec.dtype
    try:
        with np.errstate(over="raise", invalid="raise"):
            element = np.array([value]).astype(name)
    except FloatingPointError:
        element = None
    if element is None or (element.dtype.kind in "iub" and element[0] != value):
        raise ValueError(f"pad_value: {value} is no {spec.dtype}, the type of input {spec.name!r}")
    raw = element.tobytes()[2:] if spec.dtype == "bfloat16" else element.tobytes()
    return int.from_bytes(raw * (8 // len(raw)), "little")


def listed(specs):
    """Tensor specs as a sentence lists them."""
    return ", ".join(str(spec) for spec in specs) or "none"


cdef object bits_of(array):
    """bfloat16 arrays lend no buffer: their bits do."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _mapping(inputs):
    if not hasattr(inputs, "keys"):
        raise TypeError(f"expected a mapping of input name to array, got {type(inputs).__name__}")
    return {name: inputs[name] for name in inputs.keys()}


def _index(specs):
    index = {}
    for i, spec in enumerate(specs):
        index[spec.full_name] = i
        index[spec.name] = i
    return index
