"""The om container: one strict reader for NPU and CPU models, and the writer for CPU models."""

from ge_core_pyx.om.container import *  # noqa: F403
