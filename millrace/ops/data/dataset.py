"""`tf.data.Dataset`: a node of the graph that makes a dataset, and the structure of its elements.

Every method adds one op of TensorFlow's. What the ops do is in the kernels' modules here and in
`data.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.tensor_spec import TensorSpec
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import control_dependencies
from millrace.graph.random_seed import get_seed
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array.identity import identity
from millrace.ops.array.shape import shape as shape_op
from millrace.ops.control_flow import assertion
from millrace.ops.data import function_kernels as functions
from millrace.ops.data import iterator, options, order_kernels, structure, transformations
from millrace.ops.data import source_kernels as sources
from millrace.ops.data.generator import Generators
from millrace.ops.data.tracing import trace
from millrace.ops.data.transformations import (
    dataset_result,
    deterministic_text,
    int64,
    outputs,
    predicate_of,
    static_batch,
)
from millrace.ops.functions.py_func import py_func
from millrace.ops.io.io import matching_files
from millrace.ops.math.comparison import greater

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "VariantDataset",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


def seeds(seed: Any) -> tuple[Tensor, Tensor]:
    """The two seeds of a dataset that draws random numbers."""
    if isinstance(seed, Tensor):
        first, _ = get_seed(0)
        return int64(first, "seed"), seed
    first, second = get_seed(seed)
    return int64(first or 0, "seed"), int64(second or 0, "seed2")


class Dataset:
    """A sequence of elements, each a structure of tensors.

    Args:
      variant_tensor: The dataset as a tensor of the graph.
      element_spec: The structure of its elements.
    """

    def __init__(self, variant_tensor: Any = None, element_spec: Any = None) -> None:
        if variant_tensor is None:
            raise TypeError(
                "tf.data.Dataset is made by its methods: from_tensors, from_tensor_slices, "
                "from_generator, range, ..., or by TextLineDataset, TFRecordDataset"
            )
        self._tensor = variant_tensor
        self._spec = element_spec
        self._options: options.Options | None = None

    @property
    def _variant_tensor(self) -> Tensor:
        return self._tensor

    def _as_variant_tensor(self) -> Tensor:
        return self._variant_tensor

    def _own_spec(self) -> structure.DatasetSpec:
        return structure.DatasetSpec(self.element_spec)

    def _made(self, tensor: Tensor, spec: Any, *inputs: Dataset) -> Dataset:
        made = VariantDataset(tensor, spec)
        made._options = options.merged([each._options for each in (self, *inputs)])
        return made

    def _same(self, tensor: Tensor) -> Dataset:
        return self._made(tensor, self.element_spec)

    def _outputs(self, spec: Any = None) -> dict[str, Any]:
        """The attributes that state an element's types and shapes."""
        return outputs(self.element_spec if spec is None else spec)

    # -- What it has -------------------------------------------------------------------------

    @property
    def element_spec(self) -> Any:
        """The structure of an element, as specs."""
        return self._spec

    @property
    def output_types(self) -> Any:
        """The types of an element's components."""
        return structure.legacy_types(self.element_spec)

    @property
    def output_shapes(self) -> Any:
        """The shapes of an element's components."""
        return structure.legacy_shapes(self.element_spec)

    @property
    def output_classes(self) -> Any:
        """The classes of an element's components."""
        return structure.legacy_classes(self.element_spec)

    def _flat_structure(self) -> dict[str, Any]:
        return self._outputs()

    def __repr__(self) -> str:
        shapes, types = self.output_shapes, self.output_types
        return f"<{type(self).__name__} shapes: {shapes}, types: {types}>"

    def __iter__(self) -> Any:
        raise RuntimeError(
            "__iter__() is only supported inside of tf.function or when eager execution is "
            "enabled: take elements with make_one_shot_iterator().get_next() or "
            "make_initializable_iterator()."
        )

    def __len__(self) -> int:
        raise TypeError(
            "The dataset length is unknown while the graph is built; use "
            "tf.data.experimental.cardinality(dataset)."
        )

    def __bool__(self) -> bool:
        return True

    def cardinality(self) -> Tensor:
        """The number of elements as a tensor; -1 without an end, -2 where nobody knows."""
        return order_kernels.DatasetCardinality(self._variant_tensor)

    # -- Iterators ---------------------------------------------------------------------------

    def make_one_shot_iterator(self) -> iterator.Iterator:
        """An iterator that needs no initializer, over a dataset that captures no state.

        Raises:
          ValueError: The dataset depends on a placeholder, a variable or a table.
        """
        return iterator.one_shot(self._variant_tensor, self.element_spec)

    def make_initializable_iterator(self, shared_name: str | None = None) -> iterator.Iterator:
        """An iterator to be initialised with ``sess.run(iterator.initializer)``.

        Args:
          shared_name: A name under which sessions of one server share it.
        """
        return iterator.initializable(self._variant_tensor, self.element_spec, shared_name)

    # -- Sources -----------------------------------------------------------------------------

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """One element: the tensors."""
        value = structure.normalized(tensors)
        spec = structure.specs_of(value)
        tensor = sources.TensorDataset(
            structure.to_tensors(value),
            output_shapes=structure.flat_shapes(spec),
            name=name,
        )
        return VariantDataset(tensor, spec)

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """An element for each row of the tensors.

        Raises:
          ValueError: There is no tensor, one is a scalar, or the numbers of rows differ.
        """
        value = structure.normalized(tensors)
        batched = structure.specs_of(value)
        flat = structure.flatten(batched)
        if not flat:
            raise ValueError("Invalid `tensors`. `tensors` should not be empty.")
        spec = structure.unbatched(batched)
        rows: Any = None
        for leaf in flat:
            sizes = leaf.shape.sizes
            if sizes is None or sizes[0] is None:
                continue
            if rows is not None and rows != sizes[0]:
                raise ValueError(f"Dimensions {rows} and {sizes[0]} are not compatible")
            rows = sizes[0]
        tensor = sources.TensorSliceDataset(
            structure.to_batched_tensors(value),
            output_shapes=structure.flat_shapes(spec),
            name=name,
        )
        return VariantDataset(tensor, spec)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """A tuple (indices, values, dense_shape) for each row of a SparseTensor."""
        if not isinstance(sparse_tensor, SparseTensor):
            raise TypeError(f"Invalid `sparse_tensor`. `sparse_tensor` must be a SparseTensor, got "
                            f"{type(sparse_tensor).__name__}")  # fmt: skip
        rank = sparse_tensor.dense_shape.shape[0]
        size = None if rank.value is None else rank.value - 1
        spec = (
            TensorSpec([None, size], dtypes.int64),
            TensorSpec([None], sparse_tensor.dtype),
            TensorSpec([size], dtypes.int64),
        )
        tensor = sources.SparseTensorSliceDataset(
            sparse_tensor.indices, sparse_tensor.values, sparse_tensor.dense_shape
        )
        return VariantDataset(tensor, spec)

    @staticmethod
    def from_generator(
        generator: Any,
        output_types: Any = None,
        output_shapes: Any = None,
        args: Any = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """What a Python generator yields.

        Args:
          generator: A callable that returns an iterator; called for every pass.
          output_types: The structure of types of what it yields.
          output_shapes: Their shapes; unknown if None.
          args: Tensors whose values are passed to `generator`.
          output_signature: The structure of specs, instead of types and shapes.
          name: Not used.
        """
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        if output_signature is not None:
            if output_types is not None or output_shapes is not None:
                raise TypeError(
                    "The `output_types` and `output_shapes` arguments can not be used together "
                    "with the `output_signature` argument."
                )
            spec = output_signature
        elif output_types is None:
            raise TypeError(
                "To specify the output signature you need to provide either the "
                "`output_signature` argument or the `output_types` argument."
            )
        else:
            spec = structure.from_legacy(output_types, output_shapes)
        return _from_generator(generator, spec, args)

    @staticmethod
    def range(*args: Any, **kwargs: Any) -> Dataset:
        """Whole numbers: ``range(stop)``, ``range(start, stop)``, ``range(start, stop, step)``."""
        dtype = dtypes.as_dtype(kwargs.pop("output_type", dtypes.int64))
        name = kwargs.pop("name", None)
        if kwargs or not 1 <= len(args) <= 3:
            raise ValueError(
                f"Invalid `args`. The length of `args` should be between 1 and 3 but was "
                f"{len(args)}."
            )
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        spec = TensorSpec([], dtype)
        tensor = sources.RangeDataset(
            int64(start, "start"),
            int64(stop, "stop"),
            int64(step, "step"),
            name=name,
            **outputs(spec),
        )
        return VariantDataset(tensor, spec)

    @staticmethod
    def random(
        seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None
    ) -> Dataset:
        """Random whole numbers without an end."""
        spec = TensorSpec([], dtypes.int64)
        first, second = seeds(seed)
        return VariantDataset(
            sources.RandomDataset(first, second, name=name, **outputs(spec)), spec
        )

    @staticmethod
    def counter(
        start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64, name: str | None = None
    ) -> Dataset:
        """``start``, ``start + step``, and so on, without an end."""
        kind = dtypes.as_dtype(dtype)
        end = np.iinfo(np.int64).max if not isinstance(step, int) or step > 0 else (
            np.iinfo(np.int64).min)  # fmt: skip
        return Dataset.range(start, end, step, output_type=kind, name=name)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """The elements of several datasets side by side, in a structure of datasets."""
        if args and datasets is not None:
            raise TypeError("Both `*args` and `datasets` cannot be set.")
        if args:
            datasets = args[0] if len(args) == 1 else args
        if isinstance(datasets, list):
            raise TypeError(
                "Invalid `datasets`. `datasets` is expected to be a (nested) structure of "
                "`tf.data.Dataset` objects. Python `list` is not supported and you should use "
                "`tuple` instead."
            )
        flat = structure.flatten(datasets)
        for each in flat:
            if not isinstance(each, Dataset):
                raise TypeError(
                    "Invalid `datasets`. `datasets` is expected to be a (nested) structure of "
                    f"`tf.data.Dataset` objects but encountered object of type {type(each)}."
                )
        spec = structure.pack(datasets, [each.element_spec for each in flat])
        tensor = order_kernels.ZipDataset(
            [each._variant_tensor for each in flat], name=name, **outputs(spec)
        )
        return flat[0]._made(tensor, spec, *flat[1:])

    @staticmethod
    def list_files(
        file_pattern: Any, shuffle: bool | None = None, seed: Any = None, name: str | None = None
    ) -> Dataset:
        """The names of the files that match, in random order unless `shuffle` is False."""
        from_pattern = files_matching(file_pattern)
        if shuffle is None or shuffle:
            count = shape_op(from_pattern, out_type=dtypes.int64)[0]
            dataset = Dataset.from_tensor_slices(from_pattern)
            return dataset.shuffle(count, seed=seed)
        return Dataset.from_tensor_slices(from_pattern)

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Elements of the datasets in the order of the numbers in `choice_dataset`."""
        if choice_dataset.element_spec.dtype != dtypes.int64:
            raise TypeError(
                "Invalid `choice_dataset`. Elements of `choice_dataset` must be scalar `tf.int64` "
                f"tensors but are {choice_dataset.element_spec}."
            )
        if not datasets:
            raise ValueError("Invalid `datasets`. `datasets` should not be empty.")
        return directed(datasets, choice_dataset, stop_on_empty_dataset)

    # -- Fewer, more, in another order ---------------------------------------------------------

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """The elements of `dataset` after those of this one.

        Raises:
          TypeError: Their elements have different types.
        """
        if self.output_types != dataset.output_types:
            raise TypeError(
                "Two datasets to concatenate have different types "
                f"{self.output_types} and {dataset.output_types}"
            )
        if self.output_classes != dataset.output_classes:
            raise TypeError(
                "Two datasets to concatenate have different classes "
                f"{self.output_classes} and {dataset.output_classes}"
            )
        spec = structure.most_specific(self.element_spec, dataset.element_spec)
        tensor = order_kernels.ConcatenateDataset(
            self._variant_tensor, dataset._variant_tensor, name=name, **outputs(spec)
        )
        return self._made(tensor, spec, dataset)

    def take(self, count: Any, name: str | None = None) -> Dataset:
        """The first `count` elements; all if it is -1."""
        return self._same(
            order_kernels.TakeDataset(
                self._variant_tensor, int64(count, "count"), name=name, **self._outputs()
            )
        )

    def skip(self, count: Any, name: str | None = None) -> Dataset:
        """All but the first `count` elements; none if it is -1."""
        return self._same(
            order_kernels.SkipDataset(
                self._variant_tensor, int64(count, "count"), name=name, **self._outputs()
            )
        )

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> Dataset:
        """Every `num_shards`-th element from the one at `index`."""
        shards, place = int64(num_shards, "num_shards"), int64(index, "index")
        return self._same(
            order_kernels.ShardDataset(
                self._variant_tensor, shards, place, name=name, **self._outputs()
            )
        )

    def repeat(self, count: Any = None, name: str | None = None) -> Dataset:
        """All elements `count` times; without an end if it is None or -1."""
        number = int64(-1 if count is None else count, "count")
        return self._same(
            order_kernels.RepeatDataset(self._variant_tensor, number, name=name, **self._outputs())
        )

    def shuffle(
        self,
        buffer_size: Any,
        seed: Any = None,
        reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """In random order.

        Args:
          buffer_size: How many elements each is chosen from.
          seed: Makes it repeatable.
          reshuffle_each_iteration: Whether each pass has another order (the default).
          name: A name for the operation.
        """
        size = int64(buffer_size, "buffer_size")
        first, second = seeds(seed)
        return self._same(
            order_kernels.ShuffleDataset(
                self._variant_tensor,
                size,
                first,
                second,
                reshuffle_each_iteration=reshuffle_each_iteration is not False,
                name=name,
                **self._outputs(),
            )
        )

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Makes elements once; later passes take them from memory, or from files of that name."""
        path = convert_to_tensor(filename, dtype=dtypes.string, name="filename")
        return self._same(
            order_kernels.CacheDataset(self._variant_tensor, path, name=name, **self._outputs())
        )

    def prefetch(self, buffer_size: Any, name: str | None = None) -> Dataset:
        """Makes up to `buffer_size` elements ahead, in a thread beside the training."""
        size = int64(AUTOTUNE if buffer_size is None else buffer_size, "buffer_size")
        return self._same(
            order_kernels.PrefetchDataset(self._variant_tensor, size, name=name, **self._outputs())
        )

    # -- Batches -------------------------------------------------------------------------------

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """`batch_size` elements as one; the last may have fewer unless `drop_remainder`."""
        size = int64(batch_size, "batch_size")
        drop = convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder")
        spec = structure.batched(self.element_spec, static_batch(size, drop))
        if num_parallel_calls is not None:
            tensor = order_kernels.ParallelBatchDataset(
                self._variant_tensor,
                size,
                int64(num_parallel_calls, "num_parallel_calls"),
                drop,
                deterministic=deterministic_text(deterministic),
                name=name,
                **outputs(spec),
            )
        else:
            tensor = order_kernels.BatchDatasetV2(
                self._variant_tensor, size, drop, name=name, **outputs(spec)
            )
        return self._made(tensor, spec)

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """`batch_size` elements as one, filled up to one shape.

        Args:
          batch_size: How many.
          padded_shapes: The structure of shapes; None or -1 for the largest size in the batch.
          padding_values: The structure of values to fill up with; 0 or "" where None.
          drop_remainder: Whether a last batch with fewer elements is left out.
          name: A name for the operation.
        """
        return self._made(
            *transformations.padded_batch(
                self._variant_tensor,
                self.element_spec,
                batch_size,
                padded_shapes,
                padding_values,
                drop_remainder,
                name,
            )
        )

    def unbatch(self, name: str | None = None) -> Dataset:
        """The rows of the elements."""
        spec = structure.unbatched(self.element_spec)
        return self._made(
            order_kernels.UnbatchDataset(self._variant_tensor, name=name, **outputs(spec)), spec
        )

    def window(
        self,
        size: Any,
        shift: Any = None,
        stride: Any = 1,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> Dataset:
        """Datasets of `size` elements each, in the structure of an element."""
        number = int64(size, "size")
        spec = structure.map_leaves(structure.DatasetSpec, self.element_spec)
        tensor = order_kernels.WindowDataset(
            self._variant_tensor,
            number,
            number if shift is None else int64(shift, "shift"),
            int64(stride, "stride"),
            convert_to_tensor(drop_remainder, dtype=dtypes.bool, name="drop_remainder"),
            name=name,
            **outputs(spec),
        )
        return self._made(tensor, spec)

    # -- Functions -------------------------------------------------------------------------------

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """The results of a function on each element.

        Args:
          map_func: From an element's components to a structure of tensors.
          num_parallel_calls: How many calls run side by side; `AUTOTUNE` for as many as suit.
          deterministic: Whether results come in the order of the elements.
          synchronous: Not used.
          use_unbounded_threadpool: Not used.
          name: A name for the operation.
        """
        traced = trace(map_func, self.element_spec, "Dataset.map")
        if num_parallel_calls is None:
            tensor = functions.MapDataset(
                self._variant_tensor,
                traced.captured,
                f=traced.function,
                name=name,
                **outputs(traced.spec),
            )
        else:
            tensor = functions.ParallelMapDatasetV2(
                self._variant_tensor,
                traced.captured,
                int64(num_parallel_calls, "num_parallel_calls"),
                f=traced.function,
                deterministic=deterministic_text(deterministic),
                name=name,
                **outputs(traced.spec),
            )
        return self._made(tensor, traced.spec)

    def map_with_legacy_function(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        use_unbounded_threadpool: bool = False,
    ) -> Dataset:
        """As `map`."""
        return self.map(map_func, num_parallel_calls, deterministic)

    def flat_map(self, map_func: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements of the datasets that a function makes, one after the other."""
        traced = trace(map_func, self.element_spec, "Dataset.flat_map")
        spec = dataset_result(traced, "map_func")
        return self._made(
            functions.FlatMapDataset(
                self._variant_tensor,
                traced.captured,
                f=traced.function,
                name=name,
                **outputs(spec),
            ),
            spec,
        )

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = None,
        block_length: Any = None,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """The elements of the datasets that a function makes, by turns.

        Args:
          map_func: From an element to a dataset.
          cycle_length: How many datasets take turns.
          block_length: How many elements one gives in its turn.
          num_parallel_calls: If given, elements are made ahead in threads.
          deterministic: Whether turns are kept where the next element is not there yet.
          name: A name for the operation.
        """
        return self._made(
            *transformations.interleave(
                self._variant_tensor,
                self.element_spec,
                map_func,
                cycle_length,
                block_length,
                num_parallel_calls,
                deterministic,
                name,
            )
        )

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements for which a function holds."""
        traced = predicate_of(predicate, self.element_spec, "Dataset.filter")
        return self._same(
            functions.FilterDataset(
                self._variant_tensor,
                traced.captured,
                predicate=traced.function,
                name=name,
                **self._outputs(),
            )
        )

    def filter_with_legacy_function(self, predicate: Callable[..., Any]) -> Dataset:
        """As `filter`."""
        return self.filter(predicate)

    def take_while(self, predicate: Callable[..., Any], name: str | None = None) -> Dataset:
        """The elements before the first for which a function does not hold."""
        traced = predicate_of(predicate, self.element_spec, "Dataset.take_while")
        return self._same(
            functions.TakeWhileDataset(
                self._variant_tensor,
                traced.captured,
                predicate=traced.function,
                name=name,
                **self._outputs(),
            )
        )

    def apply(self, transformation_func: Callable[[Any], Any]) -> Dataset:
        """What a function makes of this dataset.

        Raises:
          TypeError: It returned something else than a dataset.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "`transformation_func` must return a `tf.data.Dataset` object. Got "
                f"{type(dataset)}."
            )
        return dataset

    def enumerate(self, start: Any = 0, name: str | None = None) -> Dataset:
        """Pairs of a number and an element."""
        return Dataset.zip((Dataset.range(start, np.iinfo(np.int64).max), self))

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> Dataset:
        """The elements that can be made; the others are left out."""
        return self._same(
            order_kernels.IgnoreErrorsDataset(
                self._variant_tensor, log_warning=log_warning, name=name, **self._outputs()
            )
        )

    def scan(
        self, initial_state: Any, scan_func: Callable[..., Any], name: str | None = None
    ) -> Dataset:
        """The results of a function on a state, which it also returns, and each element."""
        return self._made(
            *transformations.scan(
                self._variant_tensor, self.element_spec, initial_state, scan_func, name
            )
        )

    def reduce(
        self, initial_state: Any, reduce_func: Callable[..., Any], name: str | None = None
    ) -> Any:
        """What a function makes of all elements, one after the other, as tensors."""
        return transformations.reduce(
            self._variant_tensor, self.element_spec, initial_state, reduce_func, name
        )

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element of this dataset, as tensors."""
        flat = functions.DatasetToSingleElement(self._variant_tensor, name=name, **self._outputs())
        return structure.from_tensors(self.element_spec, flat)

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[..., Any],
        window_size: Any = None,
        window_size_func: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Elements of one key, given to a function as soon as there are enough of them."""
        return self._made(
            *transformations.group_by_window(
                self._variant_tensor,
                self.element_spec,
                key_func,
                reduce_func,
                window_size,
                window_size_func,
            )
        )

    def sparse_batch(self, batch_size: Any, row_shape: Any, name: str | None = None) -> Dataset:
        """`batch_size` elements of various sizes as one SparseTensor."""
        return self._made(
            *transformations.sparse_batch(
                self._variant_tensor, self.element_spec, batch_size, row_shape
            )
        )

    # -- Options -----------------------------------------------------------------------------------

    def options(self) -> options.Options:
        """The options of this dataset and of those that it reads."""
        return self._options or options.Options()

    def with_options(self, options: Any, name: str | None = None) -> Dataset:
        """The same elements with options; what they ask for, Millrace decides itself."""
        made = VariantDataset(self._variant_tensor, self.element_spec)
        made._options = merged_options([self._options, options])
        return made


merged_options = options.merged


def _from_generator(start: Any, spec: Any, args: Any) -> Dataset:
    for leaf in structure.flatten(spec):
        if not isinstance(leaf, TensorSpec):
            raise TypeError(f"`from_generator` yields dense tensors; {leaf} is not one.")
    passes = Generators(start, spec)
    given = () if args is None else tuple(convert_to_tensor(arg) for arg in args)

    def one_pass(*_: Any) -> Dataset:
        init = trace(
            lambda: py_func(passes.begin, given, dtypes.int64), (), "Dataset.from_generator.init"
        )
        number = TensorSpec([], dtypes.int64)
        types = structure.flat_types(spec)
        following = trace(
            lambda key: tuple(py_func(passes.following, [key], types)),
            number,
            "Dataset.from_generator.next",
        )
        final = trace(
            lambda key: py_func(passes.end, [key], dtypes.int64),
            number,
            "Dataset.from_generator.finalize",
        )
        return VariantDataset(
            sources.GeneratorDataset(
                init.captured,
                following.captured,
                final.captured,
                init_func=init.function,
                next_func=following.function,
                finalize_func=final.function,
                **outputs(spec),
            ),
            spec,
        )

    return Dataset.from_tensors(np.int64(0)).flat_map(one_pass)


def directed(datasets: Sequence[Dataset], choices: Dataset, stops_on_empty: bool) -> Dataset:
    """Elements of the datasets in the order of the numbers in `choices`."""
    made = transformations.directed(
        choices._variant_tensor,
        [each._variant_tensor for each in datasets],
        [each.element_spec for each in datasets],
        stops_on_empty,
    )
    return datasets[0]._made(*made, *datasets[1:])


def files_matching(file_pattern: Any) -> Tensor:
    """The names of the files that match, as a tensor; an error in the step if there are none."""
    pattern = convert_to_tensor(file_pattern, dtype=dtypes.string, name="file_pattern")
    names = matching_files(pattern)
    condition = greater(shape_op(names)[0], 0, name="match_not_empty")
    message = ["No files matched pattern: ", pattern]
    with control_dependencies([assertion.Assert(condition, message, summarize=1)]):
        return identity(names)


class VariantDataset(Dataset):
    """A dataset that a tensor of the graph makes."""


structure.wrappers[structure.DatasetSpec] = lambda tensor, spec: VariantDataset(
    tensor, spec.element_spec
)
structure.leaf_classes[structure.DatasetSpec] = Dataset


def make_one_shot_iterator(dataset: Dataset) -> iterator.Iterator:
    """`Dataset.make_one_shot_iterator`."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(
    dataset: Dataset, shared_name: str | None = None
) -> iterator.Iterator:
    """`Dataset.make_initializable_iterator`."""
    return dataset.make_initializable_iterator(shared_name)


def get_output_types(dataset_or_iterator: Any) -> Any:
    """The types of an element's components."""
    return structure.legacy_types(dataset_or_iterator.element_spec)


def get_output_shapes(dataset_or_iterator: Any) -> Any:
    """The shapes of an element's components."""
    return structure.legacy_shapes(dataset_or_iterator.element_spec)


def get_output_classes(dataset_or_iterator: Any) -> Any:
    """The classes of an element's components."""
    return structure.legacy_classes(dataset_or_iterator.element_spec)
