# SPDX-License-Identifier: Apache-2.0
"""How things are measured, and what a measurement is."""
