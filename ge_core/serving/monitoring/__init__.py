"""A served model watched: its load, its health, its figures."""
