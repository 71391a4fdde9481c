# SPDX-License-Identifier: Apache-2.0
"""Progress of a run: what is measured now, how long it should take, how long it took, and first results."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from bench.report.document import Section


class Progress:
    """Reports the parts of a run while they are measured.

    Parameters
    ----------
    print_line : callable
        Prints one line of text.
    show : callable, optional
        Shows a first result before the run has ended. None: first results are not measured.
    """

    def __init__(self, print_line: Callable[[str], object], show: Callable[[Section], object] | None = None):
        self.print_line, self.show = print_line, show

    @contextlib.contextmanager
    def part(self, what: str, estimate_s: float | None = None) -> Iterator[None]:
        """Print what a part of the run does and an estimate of its seconds, and at its end how long it took."""
        self.print_line(what if estimate_s is None else f"{what}, about {estimate_s:.0f} s")
        start_s = time.monotonic()
        yield
        self.print_line(f"  took {time.monotonic() - start_s:.1f} s")
