"""MNIST's four files, for `millrace.data.mnist`, which reads them from this package's folder."""
