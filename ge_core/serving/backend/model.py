# SPDX-License-Identifier: Apache-2.0
"""Triton's Python-based backend `ge`: a model folder needs only a config.pbtxt and a version folder with the om."""

import asyncio  # noqa: F401  Triton's stub imports it after the first request otherwise, which takes 16 ms
from pathlib import Path

import triton_python_backend_utils as pb_utils

from ge_core import serving

TEMPLATE = 1  # which release of this file it is: ge_core says in the log when it is too old
DEFAULTS = Path(__file__).with_name("defaults.json")


class TritonPythonModel:
    """One instance of a served om; see ge_core.serving."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        """Fills the configuration from the om, or refuses it."""
        return serving.complete_config(pb_utils, auto_complete_model_config, DEFAULTS)

    def initialize(self, args):
        """Opens the om on this instance's device."""
        self._model = serving.load(pb_utils, args, DEFAULTS, template=TEMPLATE)

    def execute(self, requests):
        """One response for each request."""
        return self._model.execute(requests)

    def is_ready(self):
        """False while the device does not answer; Triton 26.03 and newer ask."""
        return self._model.is_ready()

    def finalize(self):
        """Gives the device back."""
        self._model.close()
