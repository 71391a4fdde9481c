"""Requests of one served model: read, run in batches, answered."""
