# SPDX-License-Identifier: Apache-2.0
"""What the Triton backend and the bench need of a session, and its users do not."""

from collections.abc import Mapping, Sequence

from ge_core_pyx import batch, device, executor, future, memory, requests


class Engine:
    """One opened model below its `InferenceSession`; see `engine_of`. Any thread may call.

    Attributes
    ----------
    split_table : list of list of int, or None
        With ``gear_plan="time"``: entry n, how n rows are split into executions.
    """

    def __init__(self, opened: executor.Executor):
        self.executor = opened
        self.split_table: list[list[int]] | None = None

    def request_inputs(self, values: list, rows: bool = False) -> requests.RequestInputs:
        """Check one request's inputs and hold them, without a copy, for `launch` or `InferenceSession.submit`.

        Parameters
        ----------
        values : list of ndarray, buffer or DLPack capsule
            In the order of get_inputs(). They must not change until they were put.
        rows : bool
            For gears whose trailing dims vary: whether axis 0 of every input is the batch. Other models know.

        Raises
        ------
        ValueError
            A wrong dtype or shape, or inputs with different numbers of rows.
        """
        return self.executor.request_inputs(values, rows)

    def launch(
        self, rows: int, puts: Sequence[tuple[requests.RequestInputs, int, int, int]], gear: int = -1
    ) -> batch.Batch:
        """Borrow a batch of `rows`, `Batch.put` each (inputs, row, first, count) of `puts`, start it and return it.

        Blocks while no slot is free, at most `submit_timeout_ms`. `Batch.collect` is its other half.

        Parameters
        ----------
        rows : int
            0 for whole tensors.
        puts : sequence of (RequestInputs, int, int, int)
        gear : int
            Which entry of `gear_shapes` to run; default: by rows, the smallest that holds them.
        """
        return batch.launch(self.executor, rows, puts, gear)

    def submit(self, inputs: requests.RequestInputs) -> future.Future:
        """`InferenceSession.submit` of inputs that are checked already."""
        return self.executor.submit(None, inputs)

    @property
    def gear_shapes(self) -> tuple:
        """The shapes of (inputs, outputs) of each gear; empty for range models."""
        return tuple(self.executor.interface.gear_shapes)

    def register_memory(self, array) -> memory.HostRegistration:
        """Let devices read and write a long-lived array, where the runtime can pin it (aclrtHostRegisterV2, CANN 9).

        run() and launch() then skip the copy into pinned memory for inputs that lie in it and fill their gear, and
        `Batch.collect` the copy out for targets that lie in it. Elsewhere nothing changes; `.direct` says which.
        Close the registration before the memory goes. Not tried on an NPU.

        Parameters
        ----------
        array : writable C-contiguous ndarray or buffer
        """
        return memory.HostRegistration(self.contexts, array, self.executor.registered)

    def native_handles(self, rows: int = 1, *, shapes: Mapping[str, Sequence[int]] | None = None) -> dict:
        """Addresses for calls of AscendCL from outside on this session's stream; the session must not run meanwhile.

        Parameters
        ----------
        rows : int
            Of the gear: the smallest that holds them.
        shapes : mapping of str to shape, optional
            Instead of rows, the input shapes of a gear, exactly; ValueError lists the gears when it is none.
        """
        return self.executor.handles(rows, shapes)

    @property
    def contexts(self) -> list[device.Context]:
        """The session's ge_core_pyx.device.Context on each of its devices."""
        return [one.context for one in self.executor.devices]

    def sample_stages(self, every: int) -> None:
        """Time the stages of every n-th batch of each slot from now on; 0, the default: of none."""
        if every < 0:
            raise ValueError(f"every must be 0 or more, got {every}")
        self.executor.sample_stages(every)

    def stage_samples(self) -> list[dict]:
        """The stages of the batches timed since the last call, 4096 at most.

        Returns
        -------
        list of dict
            ``rows``, ``gear``; ``begin_ns`` (CLOCK_MONOTONIC); on the host ``gather_ns`` (into pinned memory),
            ``submit_ns``, ``wait_ns``, ``scatter_ns`` (out of it); on the device ``h2d_us``, ``execute_us``, ``d2h_us``
            from events, None where the runtime has none. Range models are not timed.
        """
        return self.executor.stage_samples()


def engine_of(session) -> Engine:
    """The engine of an `InferenceSession`."""
    return session._engine
