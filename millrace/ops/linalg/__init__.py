"""Matrices: products, norms, factorizations."""
