# SPDX-License-Identifier: Apache-2.0
"""Direct AscendCL and Triton side by side, measured in one run. Run it from the repository: ``python -m bench``."""
