# SPDX-License-Identifier: Apache-2.0
"""A served model watched: its load, its health, its figures."""
