# SPDX-License-Identifier: Apache-2.0
"""Small oms for tests: written in a line, with the right answers from NumPy."""

import numpy as np

from ge_core.compiler import synthetic
from ge_core_pyx import om


def write_synthetic(path, inputs, outputs, batch=None, exec_us=None, **rest):
    """An om whose tensors are (name, dtype, shape) rows; -1 in shapes is the batch of the gears in `batch`."""

    def tensors(rows):
        return [{"name": name, "dtype": dtype, "shape": list(shape), "tensor": name} for name, dtype, shape in rows]

    manifest = {
        "schema": 1, "generator": "tests", "soc": "Ascend910B3", "name": path.stem, "kind": "synthetic",
        "inputs": [tensor | {"format": "ND"} for tensor in tensors(inputs)],
        "outputs": tensors(outputs),
        "gears": {"kind": "batch", "values": list(batch)} if batch else None,
        "ranges": None, "exec_us": exec_us, "weight_bytes": 0, "work_bytes": 0,
    } | rest  # fmt: skip
    for tensor in manifest["outputs"] if batch else ():
        scale = -tensor["shape"][0] if tensor["shape"] and tensor["shape"][0] < 0 else 0
        tensor["gear_shapes"] = [[rows * scale or tensor["shape"][0], *tensor["shape"][1:]] for rows in batch]
        tensor["shape"][0] = -1 if scale else tensor["shape"][0]
    om.write(path, manifest)
    return Om(path, manifest)


def write_shaped(path, inputs, outputs, gears=None, ranges=None, exec_us=None):
    """An om with gears of other axes than the batch, or ranges; -1 in outputs: a gear's values in turn."""

    def tensors(rows):
        return [{"name": name, "dtype": dtype, "shape": shape, "tensor": name} for name, dtype, shape in rows]

    outputs = tensors(outputs)
    for output in outputs if gears else ():
        values = [value if isinstance(value, list) else [value] for value in gears["values"]]
        output["gear_shapes"] = [_filled(output["shape"], list(value)) for value in values]
    manifest = {
        "schema": 1, "generator": "tests", "soc": "Ascend910B3", "name": path.stem, "kind": "synthetic",
        "inputs": [tensor | {"format": "ND"} for tensor in tensors(inputs)],
        "outputs": outputs, "gears": gears, "ranges": ranges, "exec_us": exec_us, "weight_bytes": 0, "work_bytes": 0,
    }  # fmt: skip
    om.write(path, manifest)
    return Om(path, manifest)


def _filled(shape, values):
    return [values.pop(0) if dim == -1 else dim for dim in shape]


class Om:
    """An om on disk; `expected` says what a run must return."""

    def __init__(self, path, manifest):
        self.path, self.manifest = path, manifest

    def random(self, rows, seed=0):
        """Inputs of `rows` rows (static oms: their own shape)."""
        rng = np.random.default_rng(seed)
        feeds = {}
        for tensor in self.manifest["inputs"]:
            shape = [rows if dim == -1 else dim for dim in tensor["shape"]]
            raw = rng.integers(0, 256, (*shape, np.dtype(numpy_name(tensor["dtype"])).itemsize), np.uint8)
            if tensor["dtype"] == "bool":
                raw &= 1
            feeds[tensor["name"]] = raw.view(numpy_name(tensor["dtype"])).reshape(shape)
        return feeds

    def expected(self, feeds):
        """Outputs for any number of rows, each as if it ran alone, padded up to a batch gear; or for one gear's."""
        gears = self.manifest["gears"]
        if not gears or gears["kind"] != "batch":
            return list(synthetic.run(self.manifest, feeds).values())
        rows = next(iter(feeds.values())).shape[0]
        largest = max(gears["values"])
        parts = []
        for first in range(0, rows, largest):
            part = {name: array[first : first + largest] for name, array in feeds.items()}
            count = next(iter(part.values())).shape[0]
            gear = min(value for value in gears["values"] if value >= count)
            padded = {
                name: np.concatenate([array, np.zeros((gear - count, *array.shape[1:]), array.dtype)])
                for name, array in part.items()
            }
            outputs = synthetic.run(self.manifest, padded)
            parts.append([array[: array.shape[0] // gear * count] for array in outputs.values()])
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def numpy_name(dtype):
    return "uint16" if dtype == "bfloat16" else dtype
