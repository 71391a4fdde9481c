"""``python -m bench``."""

from bench.commands import app

if __name__ == "__main__":
    app()
