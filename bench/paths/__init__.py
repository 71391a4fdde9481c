"""The ways from a caller to the device."""
