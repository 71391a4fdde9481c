"""What readers see of a run."""
