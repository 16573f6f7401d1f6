"""Functions inside graphs, gradients, Python functions as operations."""
