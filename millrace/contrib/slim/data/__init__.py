"""`slim.data`: readers, decoders and providers of examples. Re-exports only."""

from millrace.contrib.slim.data import (
    data_decoder,
    data_provider,
    dataset,
    dataset_data_provider,
    parallel_reader,
    prefetch_queue,
    tfexample_decoder,
)

__all__ = [
    "data_decoder",
    "data_provider",
    "dataset",
    "dataset_data_provider",
    "parallel_reader",
    "prefetch_queue",
    "tfexample_decoder",
]
