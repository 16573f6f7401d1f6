"""JAX and XLA: the one place that configures them, and what tunes compiled code."""
