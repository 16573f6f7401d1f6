"""Transformations of `tf.data.experimental`: functions to be given to `Dataset.apply`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.graph.convert import convert_to_tensor
from millrace.graph.tensor import Tensor
from millrace.ops.array.cast import cast
from millrace.ops.array.join import stack
from millrace.ops.data import function_kernels as functions
from millrace.ops.data import order_kernels, structure, transformations
from millrace.ops.data.dataset import Dataset, VariantDataset, directed, seeds
from millrace.ops.data.tracing import trace
from millrace.ops.data.transformations import dataset_result, int64, outputs, static_batch
from millrace.ops.math.elementwise import log
from millrace.ops.math.reduction import reduce_sum
from millrace.ops.random.stateless import stateless_multinomial

__all__ = [
    "Reducer",
    "bucket_by_sequence_length",
    "cardinality",
    "choose_from_datasets",
    "copy_to_device",
    "dense_to_sparse_batch",
    "enumerate_dataset",
    "from_variant",
    "get_single_element",
    "get_structure",
    "group_by_reducer",
    "group_by_window",
    "ignore_errors",
    "map_and_batch",
    "parallel_interleave",
    "prefetch_to_device",
    "sample_from_datasets",
    "scan",
    "shuffle_and_repeat",
    "take_while",
    "to_variant",
    "unbatch",
]

Apply = Callable[[Dataset], Dataset]


def unbatch() -> Apply:
    """`Dataset.unbatch`."""
    return lambda dataset: dataset.unbatch()


def ignore_errors(log_warning: bool = False) -> Apply:
    """`Dataset.ignore_errors`."""
    return lambda dataset: dataset.ignore_errors(log_warning)


def enumerate_dataset(start: Any = 0) -> Apply:
    """`Dataset.enumerate`."""
    return lambda dataset: dataset.enumerate(start)


def scan(initial_state: Any, scan_func: Callable[..., Any]) -> Apply:
    """`Dataset.scan`."""
    return lambda dataset: dataset.scan(initial_state, scan_func)


def take_while(predicate: Callable[..., Any]) -> Apply:
    """`Dataset.take_while`."""
    return lambda dataset: dataset.take_while(predicate)


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[..., Any],
    window_size: Any = None,
    window_size_func: Callable[..., Any] | None = None,
) -> Apply:
    """`Dataset.group_by_window`."""
    return lambda dataset: dataset.group_by_window(
        key_func, reduce_func, window_size, window_size_func
    )


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Apply:
    """`Dataset.sparse_batch`."""
    return lambda dataset: dataset.sparse_batch(batch_size, row_shape)


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Apply:
    """Shuffled and repeated in one: the next pass fills the buffer while the last one empties it.

    Args:
      buffer_size: How many elements each is chosen from.
      count: How many passes; without an end if None or -1.
      seed: Makes it repeatable.
    """

    def apply(dataset: Dataset) -> Dataset:
        first, second = seeds(seed)
        return dataset._same(
            order_kernels.ShuffleAndRepeatDataset(
                dataset._variant_tensor,
                int64(buffer_size, "buffer_size"),
                first,
                second,
                int64(-1 if count is None else count, "count"),
                **outputs(dataset.element_spec),
            )
        )

    return apply


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Apply:
    """`map` and `batch` in one; the calls for a batch run side by side.

    Args:
      map_func: As for `Dataset.map`.
      batch_size: How many results make an element.
      num_parallel_batches: The calls that run side by side, in batches.
      drop_remainder: Whether a last batch with fewer elements is left out.
      num_parallel_calls: The calls that run side by side; only one of the two.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise ValueError(
            "`map_and_batch` allows only one of `num_parallel_batches` and `num_parallel_calls` to "
            "be set, but both were set."
        )

    def apply(dataset: Dataset) -> Dataset:
        traced = trace(map_func, dataset.element_spec, "tf.data.experimental.map_and_batch")
        size = int64(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        calls: Any = num_parallel_calls
        if calls is None:
            calls = size if num_parallel_batches is None else size * num_parallel_batches
        spec = structure.batched(traced.spec, static_batch(size, drop))
        tensor = functions.MapAndBatchDataset(
            dataset._variant_tensor,
            traced.captured,
            size,
            int64(calls, "num_parallel_calls"),
            drop,
            f=traced.function,
            preserve_cardinality=True,
            **outputs(spec),
        )
        return dataset._made(tensor, spec)

    return apply


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Apply:
    """Elements of several datasets by turns, made ahead in a thread for each.

    Args:
      map_func: From an element to a dataset.
      cycle_length: How many datasets take turns.
      block_length: How many elements one gives in its turn.
      sloppy: Whether a dataset whose next element is not there yet may be passed over.
      buffer_output_elements: How many elements of each are made ahead.
      prefetch_input_elements: Not used.
    """

    def apply(dataset: Dataset) -> Dataset:
        traced = trace(map_func, dataset.element_spec, "tf.data.experimental.parallel_interleave")
        spec = dataset_result(traced, "map_func")
        blocks = int64(block_length, "block_length")
        given = 2 * block_length if buffer_output_elements is None else buffer_output_elements
        ahead = 2 * cycle_length if prefetch_input_elements is None else prefetch_input_elements
        tensor = functions.ParallelInterleaveDataset(
            dataset._variant_tensor,
            traced.captured,
            int64(cycle_length, "cycle_length"),
            blocks,
            convert_to_tensor(bool(sloppy), dtype=dtypes.bool, name="sloppy"),
            int64(given, "buffer_output_elements"),
            int64(ahead, "prefetch_input_elements"),
            f=traced.function,
            **outputs(spec),
        )
        return dataset._made(tensor, spec)

    return apply


class Reducer:
    """How elements of one key are reduced.

    Args:
      init_func: From a key to a state.
      reduce_func: From a state and an element to the next state.
      finalize_func: From a state to the result.
    """

    def __init__(
        self,
        init_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


def group_by_reducer(key_func: Callable[..., Any], reducer: Reducer) -> Apply:
    """One element for each key, which a reducer makes of all elements that have it."""

    def apply(dataset: Dataset) -> Dataset:
        return dataset._made(
            *transformations.group_by_reducer(
                dataset._variant_tensor,
                dataset.element_spec,
                key_func,
                reducer.init_func,
                reducer.reduce_func,
                reducer.finalize_func,
            )
        )

    return apply


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Apply:
    """Batches of elements of similar length.

    Args:
      element_length_func: From an element to its length, a scalar int32.
      bucket_boundaries: Where one bucket ends and the next begins.
      bucket_batch_sizes: A batch size for each bucket: one more than there are boundaries.
      padded_shapes: As for `Dataset.padded_batch`.
      padding_values: As for `Dataset.padded_batch`.
      pad_to_bucket_boundary: Whether to fill up to one less than the boundary.
      no_padding: Whether all elements of a bucket have one shape.
      drop_remainder: Whether last batches with fewer elements are left out.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise ValueError(
            "`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1` but "
            f"`len(bucket_batch_sizes)={len(bucket_batch_sizes)}` and "
            f"`len(bucket_boundaries)={len(bucket_boundaries)}`."
        )
    sizes = np.array(bucket_batch_sizes, np.int64)
    limits = np.array(bucket_boundaries, np.int32)

    def bucket_of(*element: Any) -> Tensor:
        length = convert_to_tensor(element_length_func(*element))
        passed = reduce_sum(cast(length >= convert_to_tensor(limits, length.dtype), dtypes.int64))
        return passed  # how many boundaries it has reached

    def window_size(bucket: Any) -> Tensor:
        return convert_to_tensor(sizes)[bucket]

    def shapes_for(grouped: Dataset, bucket: Any) -> Any:
        stated = padded_shapes
        if stated is None:
            stated = grouped.output_shapes
        if not pad_to_bucket_boundary:
            return stated
        bounds = convert_to_tensor(np.array([*bucket_boundaries, 0], np.int64))
        boundary = bounds[bucket] - 1

        def filled(shape: Any) -> Any:
            known = shape.as_list() if hasattr(shape, "as_list") else list(shape)
            return stack([boundary if s in (None, -1) else np.int64(s) for s in known])

        return structure.map_leaves(filled, stated)

    def reduced(bucket: Any, grouped: Dataset) -> Dataset:
        size = window_size(bucket)
        if no_padding:
            return grouped.batch(size, drop_remainder=drop_remainder)
        return grouped.padded_batch(
            size, shapes_for(grouped, bucket), padding_values, drop_remainder
        )

    def apply(dataset: Dataset) -> Dataset:
        return dataset.group_by_window(bucket_of, reduced, window_size_func=window_size)

    return apply


# -- Several datasets --------------------------------------------------------------------------


def choose_from_datasets(
    datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False
) -> Dataset:
    """`Dataset.choose_from_datasets`, which goes on when one of the datasets is at its end."""
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def sample_from_datasets(
    datasets: Sequence[Dataset],
    weights: Any = None,
    seed: Any = None,
    stop_on_empty_dataset: bool = False,
) -> Dataset:
    """Elements of the datasets, each time of one that is chosen at random.

    Args:
      datasets: The datasets.
      weights: Their probabilities: a list, a tensor, or a dataset of lists; equal if None.
      seed: Makes it repeatable.
      stop_on_empty_dataset: Whether the first dataset at its end ends it all.
    """
    if not datasets:
        raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
    count = len(datasets)

    def choose(logits: Any, two_seeds: Any) -> Tensor:
        chosen = stateless_multinomial(logits, 1, seed=two_seeds)
        return chosen[0, 0]

    if isinstance(weights, Dataset):
        logits_of = weights.map(lambda *p: log(p[0], name="logits"))
        pairs = Dataset.zip((logits_of, Dataset.random(seed).batch(2)))
        choices = pairs.map(lambda logits, s: choose(logits[None, :], s))
    else:
        if weights is None:
            weights = [1.0 / count] * count
        if not isinstance(weights, Tensor) and len(weights) != count:
            raise ValueError(
                "Invalid `datasets` and `weights`. `datasets` and `weights` must have the same "
                f"length but are {count} and {len(weights)}."
            )
        probabilities = convert_to_tensor(weights, name="weights")
        if probabilities.dtype not in (dtypes.float32, dtypes.float64):
            raise TypeError(
                "Invalid `weights`. `weights` type must be either `tf.float32` or `tf.float64` but "
                f"is {probabilities.dtype}."
            )
        logits = log(probabilities, name="logits")[None, :]
        choices = Dataset.random(seed).batch(2).map(lambda s: choose(logits, s))
    return directed(datasets, choices, stop_on_empty_dataset)


# -- Devices -----------------------------------------------------------------------------------


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Apply:
    """Elements made ahead; Millrace hands XLA the memory that they are in.

    Args:
      device: Where they are used.
      buffer_size: How many are made ahead.
    """
    return lambda dataset: dataset.prefetch(1 if buffer_size is None else buffer_size)


def copy_to_device(target_device: Any, source_device: str = "/cpu:0") -> Apply:
    """The same elements: those that a device needs, XLA copies there."""
    return lambda dataset: dataset._same(dataset._variant_tensor)


# -- Questions ---------------------------------------------------------------------------------


def cardinality(dataset: Dataset) -> Tensor:
    """`Dataset.cardinality`."""
    return dataset.cardinality()


def get_single_element(dataset: Dataset) -> Any:
    """`Dataset.get_single_element`."""
    return dataset.get_single_element()


def get_structure(dataset_or_iterator: Any) -> Any:
    """The structure of an element, as specs."""
    return dataset_or_iterator.element_spec


def to_variant(dataset: Dataset) -> Tensor:
    """A dataset as a tensor of the graph."""
    return dataset._variant_tensor


def from_variant(variant: Tensor, structure: Any) -> Dataset:
    """The dataset that a tensor makes."""
    return VariantDataset(variant, structure)
