"""Ragged tensors: the class, its ops, and public functions that take one."""
