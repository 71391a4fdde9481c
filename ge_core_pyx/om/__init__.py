# SPDX-License-Identifier: Apache-2.0
"""Om files: one strict reader for NPU and CPU models, and the writer for CPU models."""

from ge_core_pyx.om.container import (
    MAGIC,
    MANIFEST,
    ONNX,
    OmHeader,
    Partition,
    is_cpu,
    read_header,
    read_partition,
    read_partitions,
)
from ge_core_pyx.om.cpu_om import check, read_manifest, write
from ge_core_pyx.om.manifest import SCHEMA, check_manifest

__all__ = [
    "MAGIC",
    "MANIFEST",
    "ONNX",
    "SCHEMA",
    "OmHeader",
    "Partition",
    "check",
    "check_manifest",
    "is_cpu",
    "read_header",
    "read_manifest",
    "read_partition",
    "read_partitions",
    "write",
]
