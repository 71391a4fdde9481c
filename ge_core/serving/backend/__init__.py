"""The files that `ge-core install-backend` copies into a tritonserver."""
