# SPDX-License-Identifier: Apache-2.0
"""Outside of the serving process: tritonserver itself, and who watches it."""
