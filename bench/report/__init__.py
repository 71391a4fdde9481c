# SPDX-License-Identifier: Apache-2.0
"""What readers see of a run."""
