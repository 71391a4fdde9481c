# SPDX-License-Identifier: Apache-2.0
"""Asking whether a model really answers: Triton up to 25.12 calls a model ready whose worker is dead."""

import http.client
import json
import math
from typing import NamedTuple

from ge_core_pyx import dtypes

# Triton's answers that a worker itself gave: it lives, even if it did not like these zeros (a gear they do not fit).
_ANSWERED = (200, 400)


class Outcome(NamedTuple):
    """`ready`: the model's worker answered and its device works."""

    ready: bool
    text: str


def probe(address: str, model: str, time_limit_s: float = 10.0) -> Outcome:
    """Asks for the model's readiness, then sends one request of zeros. Blocks for at most twice `time_limit_s`.

    Parameters
    ----------
    address : str
        ``host:port`` of the server's HTTP service.
    model : str
        Its name; all of Triton's models can be asked, not only those of ge_core.
    time_limit_s : float
        For each answer.
    """
    try:
        # Says no on servers that look at the worker (26.01) and at its is_ready() (26.03); yes on all older ones.
        status, answer = ask(address, "GET", f"/v2/models/{model}/ready", time_limit_s)
        if status != 200:
            return Outcome(False, f"not ready (HTTP {status}) {_error(answer)}".rstrip())
        status, answer = ask(address, "GET", f"/v2/models/{model}", time_limit_s)
        if status != 200:
            return Outcome(False, f"HTTP {status}: {_error(answer)}")
        header, body = zeros(json.loads(answer)["inputs"])
        headers = {"Inference-Header-Content-Length": str(len(header)), "Content-Type": "application/octet-stream"}
        status, answer = ask(address, "POST", f"/v2/models/{model}/infer", time_limit_s, header + body, headers)
    except TimeoutError:
        return Outcome(False, f"no answer within {time_limit_s:g} s")
    except (OSError, http.client.HTTPException) as error:
        return Outcome(False, f"{address} does not answer: {error}")
    if status == 200:
        return Outcome(True, "answers")
    return Outcome(status in _ANSWERED, f"HTTP {status}: {_error(answer)}")


def zeros(inputs: list[dict]) -> tuple[bytes, bytes]:
    """(JSON header, binary part) of a request with zeros in every input; free dims are 1."""
    entries, nbytes = [], 0
    for tensor in inputs:
        shape = [max(int(dim), 1) for dim in tensor["shape"]]
        # Of BYTES, an empty string is a length of four zero bytes.
        itemsize = 4 if tensor["datatype"] == "BYTES" else dtypes.by_triton(tensor["datatype"]).itemsize
        size = math.prod(shape) * itemsize
        entries.append(
            {
                "name": tensor["name"],
                "shape": shape,
                "datatype": tensor["datatype"],
                "parameters": {"binary_data_size": size},
            }
        )
        nbytes += size
    return json.dumps({"inputs": entries, "parameters": {"binary_data_output": True}}).encode(), bytes(nbytes)


def ask(address: str, method: str, path: str, time_limit_s: float, body=None, headers=()) -> tuple[int, bytes]:
    """(status, body) of one HTTP request on a connection of its own, which no server has to wait for when it stops."""
    connection = http.client.HTTPConnection(address, timeout=time_limit_s)
    try:
        connection.request(method, path, body, {**dict(headers), "Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _error(answer: bytes) -> str:
    try:
        return json.loads(answer)["error"]
    except (ValueError, KeyError, TypeError):
        return answer.decode(errors="replace")[:200]
