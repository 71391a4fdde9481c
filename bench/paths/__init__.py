# SPDX-License-Identifier: Apache-2.0
"""The ways from a caller to the device."""
