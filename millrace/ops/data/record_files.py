"""`make_batched_features_dataset`: Example files, read, shuffled, batched and parsed."""

from __future__ import annotations

from typing import Any

from millrace.core import dtypes
from millrace.ops.data.dataset import Dataset
from millrace.ops.data.experimental import parallel_interleave, shuffle_and_repeat
from millrace.ops.data.readers import TFRecordDataset
from millrace.ops.parsing.parsing import parse_example

__all__ = ["make_batched_features_dataset", "shuffled_and_repeated"]


def shuffled_and_repeated(
    dataset: Dataset,
    num_epochs: int | None,
    shuffle: bool,
    buffer_size: int,
    seed: int | None,
) -> Dataset:
    """A dataset shuffled and repeated, both, or one of them."""
    if shuffle and num_epochs != 1:
        return dataset.apply(shuffle_and_repeat(buffer_size, num_epochs, seed))
    if shuffle:
        return dataset.shuffle(buffer_size, seed)
    return dataset if num_epochs == 1 else dataset.repeat(num_epochs)


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: dict[str, Any],
    reader: Any = None,
    label_key: str | None = None,
    reader_args: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: Any = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Dataset:
    """Batches of parsed features of the Example messages in files.

    Args:
      file_pattern: A pattern of names, or a list of them.
      batch_size: How many examples make a batch.
      features: What to parse, as for `tf.parse_example`.
      reader: Makes a dataset of records of a file's name; `TFRecordDataset`.
      label_key: The feature that is returned beside the others.
      reader_args: Further arguments of `reader`.
      num_epochs: How many passes; without an end if None.
      shuffle: Whether files and examples are shuffled.
      shuffle_buffer_size: How many examples each is chosen from.
      shuffle_seed: Makes the order repeatable.
      prefetch_buffer_size: How many batches are made ahead.
      reader_num_threads: How many files are read by turns.
      parser_num_threads: How many batches are parsed side by side.
      sloppy_ordering: Whether files need not take turns.
      drop_final_batch: Whether a last batch with fewer examples is left out.
    """
    make_reader = TFRecordDataset if reader is None else reader
    if reader is not None and not isinstance(reader, type) and not callable(reader):
        raise TypeError("`reader` must be a class or a function that makes a dataset")
    threads = 1 if reader_num_threads in (None, -1) else reader_num_threads
    further = () if reader_args is None else tuple(reader_args)
    names = Dataset.list_files(file_pattern, shuffle, seed=shuffle_seed)
    dataset = names.apply(
        parallel_interleave(
            lambda name: make_reader(name, *further),
            cycle_length=threads,
            sloppy=sloppy_ordering,
        )
    )
    spec = dataset.element_spec
    if isinstance(spec, tuple) and len(spec) == 2:
        dataset = dataset.map(lambda _, value: value)  # readers of (key, record)
    elif getattr(spec, "dtype", None) != dtypes.string:
        raise TypeError(f"`reader` must make records: strings, or pairs of strings, not {spec}")
    dataset = shuffled_and_repeated(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)

    def parsed(records: Any) -> Any:
        found = parse_example(records, features)
        if label_key is None:
            return found
        return found, found.pop(label_key)

    if label_key is not None and label_key not in features:
        raise ValueError(
            f"The `label_key` provided ({label_key}) must be one of the `features` keys: "
            f"{sorted(features)}."
        )
    calls = 2 if parser_num_threads is None else parser_num_threads
    dataset = dataset.map(parsed, num_parallel_calls=calls if calls != 1 else None)
    return dataset.prefetch(-1 if prefetch_buffer_size is None else prefetch_buffer_size)
