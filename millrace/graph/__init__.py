"""The graph: operations, tensors, scopes, the op registry and the gradient walk.

Loads without jax and grpc. Kernels are opaque callables here; `ops` fills them in.
"""
