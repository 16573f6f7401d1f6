"""Plain values: dtypes, shapes, device names, tensor protos, clusters, errors.

Everything here is data and arithmetic on data. Nothing in this folder imports jax or grpc, starts
a thread, reads a clock or opens a socket; everything above may import from here.
"""
