# SPDX-License-Identifier: Apache-2.0
"""The models that are measured."""
