# SPDX-License-Identifier: Apache-2.0
"""``python -m bench``."""

from bench.commands import app

if __name__ == "__main__":
    app()
