"""`DatasetDataProvider`: reads and decodes the examples of a `Dataset`."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.slim.data import data_provider, parallel_reader


class DatasetDataProvider(data_provider.DataProvider):
    """Tensors of the next example, read by several readers and shuffled."""

    def __init__(
        self,
        dataset: Any,
        num_readers: int = 1,
        reader_kwargs: dict[str, Any] | None = None,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 256,
        common_queue_min: int = 128,
        record_key: str = "record_key",
        seed: int | None = None,
        scope: str | None = None,
    ) -> None:
        key, data = parallel_reader.parallel_read(
            dataset.data_sources,
            reader_class=dataset.reader,
            num_epochs=num_epochs,
            num_readers=num_readers,
            reader_kwargs=reader_kwargs,
            shuffle=shuffle,
            capacity=common_queue_capacity,
            min_after_dequeue=common_queue_min,
            seed=seed,
            scope=scope,
        )
        items = dataset.decoder.list_items()
        tensors = dataset.decoder.decode(data, items)
        items_to_tensors = dict(zip(items, tensors, strict=True))
        if record_key in items_to_tensors:
            raise ValueError(
                f"The item name used for `record_key` cannot also be used for a dataset item: "
                f"{record_key}"
            )
        items_to_tensors[record_key] = key
        super().__init__(
            items_to_tensors=items_to_tensors,
            num_samples=dataset.num_samples,
            items_to_descriptions=dataset.items_to_descriptions,
        )


class ParallelDatasetDataProvider(data_provider.DataProvider):
    """Pairs of the examples of two data sets, read side by side."""

    def __init__(
        self,
        dataset1: Any,
        dataset2: Any,
        shuffle: bool = True,
        num_epochs: int | None = None,
        common_queue_capacity: int = 4096,
        common_queue_min: int = 2048,
        seed: int | None = None,
    ) -> None:
        tensors: dict[str, Any] = {}
        for number, dataset in enumerate((dataset1, dataset2)):
            with tf.name_scope(f"dataset_{number}"):
                _, data = parallel_reader.parallel_read(
                    dataset.data_sources,
                    reader_class=dataset.reader,
                    num_epochs=num_epochs,
                    num_readers=1,
                    shuffle=False,
                    capacity=common_queue_capacity,
                    min_after_dequeue=common_queue_min,
                    seed=seed,
                )
                items = dataset.decoder.list_items()
                for item, tensor in zip(items, dataset.decoder.decode(data, items), strict=True):
                    if item in tensors:
                        raise ValueError(f"Both data sets have an item {item!r}.")
                    tensors[item] = tensor
        descriptions = {**dataset1.items_to_descriptions, **dataset2.items_to_descriptions}
        super().__init__(
            items_to_tensors=tensors,
            num_samples=dataset1.num_samples,
            items_to_descriptions=descriptions,
        )
