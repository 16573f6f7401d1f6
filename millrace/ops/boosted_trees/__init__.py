"""Boosted trees over bucketized features: the ensemble, how it grows, and its op types."""
