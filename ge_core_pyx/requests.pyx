"""The inputs of one request, held where the caller has them."""

cimport cython

from ge_core_pyx.arrays cimport InputLayout, buffers, release_buffers


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
