"""Tensors as arrays: shape, order, joining, slicing, gathering, types."""
