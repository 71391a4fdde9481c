# SPDX-License-Identifier: Apache-2.0
"""Models and servers that a bench puts behind Triton."""
