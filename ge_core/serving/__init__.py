# SPDX-License-Identifier: Apache-2.0
"""Serving oms from Triton: `load` and `complete_config` are what a Triton Python model calls."""

from ge_core.serving.loading import complete_config, load

__all__ = ["complete_config", "load"]
