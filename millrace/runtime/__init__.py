"""Running programs in one process: plans, compiled stages, variables, resources.

The only folder besides `ops` that imports jax.
"""
