"""Outside of the serving process: tritonserver itself, and who watches it."""
