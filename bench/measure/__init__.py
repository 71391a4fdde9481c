"""How things are measured, and what a measurement is."""
