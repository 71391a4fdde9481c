# SPDX-License-Identifier: Apache-2.0
"""Reading Triton's requests: their inputs, checked against the model and held where Triton put them.

Triton's worker keeps an input twice: in its shared memory (DLPack), and as an array of its own, copied last and so
nearer to the CPU. Copies read the array; bfloat16 has none, and devices read only shared memory.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ge_core.engine import engine_of
from ge_core.serving.execution.failures import Failures
from ge_core_pyx import dlpack, dtypes
from ge_core_pyx.errors import GeCoreError
from ge_core_pyx.requests import RequestInputs


class RequestError(GeCoreError, ValueError):
    """A request that does not fit the model; its sender is told."""


class RequestState:
    """One request on its way: its inputs until they are copied, and the response that is being filled.

    Attributes
    ----------
    request : pb_utils.InferenceRequest
    inputs : RequestInputs or None
    rows : int
        0 for a request that runs whole.
    output_shapes : sequence of tuple or None
        Of all the model's outputs, where rows alone do not say.
    outputs : OutputTensors or None
        Taken from the pool for this request.
    response : pb_utils.InferenceResponse or None
    new_sizes : sequence of int
        Bytes of each tensor of the response that takes new shared memory.
    error : pb_utils.TritonError or None
        Sent instead of the response.
    sender : pb_utils.InferenceResponseSender or None
        Of requests whose responses are sent, not returned.
    pending_batches : int
        Batches that its rows are still awaited from.
    """

    inputs: Any = None
    outputs: Any = None
    output_shapes: Any = None
    response: Any = None
    error: Any = None
    sender: Any = None
    rows = pending_batches = 0
    new_sizes: Sequence[int] = ()

    def __init__(self, request):
        self.request = request

    def release(self) -> None:
        """Let go of everything but the output tensors: Triton frees the inputs after it has answered."""
        self.request = self.inputs = self.response = None


class RequestReader:
    """Turns Triton's requests into what `Batch.put` takes.

    Parameters
    ----------
    session : ge_core.InferenceSession
    binding : ge_core.serving.model_config.Binding
    failures : Failures
    share : callable, optional
        For devices that read Triton's shared memory: is called with each RequestInputs, to let them read there.
    """

    def __init__(self, session, binding, failures: Failures, share: Callable | None = None):
        self._failures, self._share = failures, share
        self._by_rows = session.description.max_rows > 0 or binding.max_batch_size > 0
        hold = engine_of(session).request_inputs
        self._hold = hold if session.description.max_rows else partial(hold, rows=self._by_rows)
        by_spec = {bound.spec.name: bound for bound in binding.inputs}
        self._inputs = tuple(by_spec[spec.name] for spec in session.description.inputs)
        self._names = tuple(bound.name for bound in self._inputs)
        self._casts = any(bound.cast for bound in self._inputs)
        self._shared = {bound.name for bound in self._inputs if share or bound.spec.dtype == "bfloat16"}
        self._simple = len(self._inputs) == 1 and self._by_rows and not self._casts and not self._shared

    def read(self, states: Iterable[RequestState]) -> list[RequestState]:
        """Set the inputs of each request; return those that fit the model. The others get their error."""
        good = []
        for state in states:
            try:
                state.inputs = inputs = self.inputs(state.request)
                state.rows = inputs.rows
                good.append(state)
            except Exception as error:
                state.error = self._failures.report(error, state.request)
        return good

    def inputs(self, request) -> RequestInputs:
        """The inputs of one request, not copied: the RequestInputs keep Triton's tensors.

        Raises
        ------
        RequestError
            Names, dtypes or shapes that are not the model's; says what was expected and what came.
        """
        tensors = request.inputs()
        if self._simple and len(tensors) == 1:  # Triton has compared its name with the configuration
            try:
                return self._hold([tensors[0].as_numpy()])
            except Exception as error:
                raise RequestError(self._problem({self._names[0]: tensors[0]}, error)) from None
        given = {tensor.name(): tensor for tensor in tensors}
        try:
            if self._casts:
                values = [self._value(given[bound.name], bound) for bound in self._inputs]
            else:
                values = [self._data(given[name], name) for name in self._names]
            held = self._hold(values)
            if len(given) == len(values) and (self._by_rows or self._fits(held.shapes)):
                if self._share is not None:
                    self._share(held)
                return held
            reason = None
        except RequestError:
            raise
        except Exception as error:  # Triton's own for BYTES, KeyError, ValueError: told in words below
            reason = error
        raise RequestError(self._problem(given, reason))

    def _fits(self, shapes) -> bool:
        return all(_agrees(bound.spec.shape, shape) for bound, shape in zip(self._inputs, shapes, strict=True))

    def _data(self, tensor, name):
        return tensor.to_dlpack() if name in self._shared else tensor.as_numpy()

    def _value(self, tensor, bound):
        """An input as it is, or the converted array of one that clients send in another type than the om's."""
        if bound.cast is None or dlpack.tensor_type(tensor.to_dlpack())[0] != bound.cast:
            return self._data(tensor, bound.name)
        array, dtype = tensor.as_numpy(), np.dtype(bound.spec.dtype)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
        finite = array[np.isfinite(array)] if dtype.kind == "f" else array
        if finite.size and not (limits.min <= finite.min() and finite.max() <= limits.max):
            worst = finite.min() if finite.min() < limits.min else finite.max()
            raise RequestError(
                f"input '{bound.name}': {worst} does not fit {_triton(bound.spec.dtype)}, which the om takes "
                f"({limits.min} to {limits.max})"
            )
        return array.astype(dtype)

    def _problem(self, given, error: Exception | None) -> str:
        rows = None
        for bound in self._inputs:
            name, dtype, shape = bound.name, bound.cast or bound.spec.dtype, bound.spec.shape
            if name not in given:
                return f"input '{name}' is missing; expected {self._expected(bound)}"
            found, dims = _found(given[name])
            got = f"{found if found == 'BYTES' or found is None else _triton(found)} {list(dims)}"
            skip = int(self._by_rows)
            if found != dtype or len(dims) != len(shape) or not _agrees(shape[skip:], dims[skip:]):
                return f"input '{name}': expected {self._expected(bound)}, got {got}"
            if self._by_rows and dims[0] != rows:
                if rows is not None or not dims[0]:
                    wanted = f"{rows} rows as in '{self._names[0]}'" if rows else "at least 1 row"
                    return f"input '{name}': expected {wanted}, got {got}"
                rows = dims[0]
        extra = ", ".join(f"'{name}'" for name in given if name not in self._names)
        if extra:
            return f"input {extra} is not one of this model's: {', '.join(self._names)}"
        return str(error)

    def _expected(self, bound) -> str:
        dims = ["rows", *bound.spec.shape[1:]] if self._by_rows else bound.spec.shape
        text = ", ".join("?" if dim is None else str(dim) for dim in dims)
        return f"{_triton(bound.cast or bound.spec.dtype)} [{text}]"


def _found(tensor) -> tuple[str | None, tuple[int, ...]]:
    """(dtype, shape) of a request's tensor."""
    try:
        return dlpack.tensor_type(tensor.to_dlpack())
    except Exception:  # the only type without DLPack
        return "BYTES", tuple(tensor.as_numpy().shape)


def _agrees(shape, dims) -> bool:
    """Whether dims are a shape's, of which some may be open; the session checks those against its gears."""
    return all(want is None or want == size for want, size in zip(shape, dims, strict=True))


def _triton(dtype: str) -> str:
    return dtypes.by_name(dtype).triton
