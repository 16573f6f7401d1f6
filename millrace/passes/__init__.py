"""Pure passes over nodes: prune, raise control flow, order, group into stages.

No I/O, no threads, no clock, no jax: lookups come in as arguments.
"""
