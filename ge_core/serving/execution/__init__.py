# SPDX-License-Identifier: Apache-2.0
"""Requests of one served model: read, run in batches, answered."""
