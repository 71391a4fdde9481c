"""Models and servers that a bench puts behind Triton."""
