# SPDX-License-Identifier: Apache-2.0
"""What is measured: one module for each bench."""
