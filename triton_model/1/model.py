# SPDX-License-Identifier: Apache-2.0
"""Serves the om of this folder with Triton's plain Python backend; the backend `ge` does the same without this file.

Put the compiled model beside this file as the only `.om`, or name it with the parameter `om_model_path`.
ge_core must be installed for the Python that Triton's Python backend runs.
"""

import asyncio  # noqa: F401  Triton's stub imports it after the first request otherwise, which takes 16 ms

import triton_python_backend_utils as pb_utils

from ge_core import serving

TEMPLATE = 1  # which release of this file it is: ge_core says in the log when it is too old


class TritonPythonModel:
    """One instance of a served om; see ge_core.serving."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        """Fills inputs, outputs and max_batch_size from the om where config.pbtxt leaves them out, or refuses it."""
        return serving.complete_config(pb_utils, auto_complete_model_config)

    def initialize(self, args):
        """Opens the om on this instance's device and runs it once for each batch size it was compiled for."""
        self._model = serving.load(pb_utils, args, template=TEMPLATE)

    def execute(self, requests):
        """Runs the requests of one call together and returns one response for each."""
        return self._model.execute(requests)

    def is_ready(self):
        """False while the device does not answer; Triton 26.03 and newer ask."""
        return self._model.is_ready()

    def finalize(self):
        """Gives the device back."""
        self._model.close()
