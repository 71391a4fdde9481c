# SPDX-License-Identifier: Apache-2.0
"""The files that `ge-core install-backend` copies into a tritonserver."""
