"""Op types whose datasets begin a pipeline: tensors, ranges, files, databases, generators."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core import dtypes
from millrace.core.resource_handle import ResourceHandle, handle_of
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.data.pipeline import csv_files, files, sources, sql
from millrace.data.pipeline.dataset import Dataset
from millrace.ops.data.define import dataset_op, number, texts
from millrace.platform import gfile

__all__: list[str] = []


def _of_its_own(array: Any) -> Any:
    """A copy if somebody else may change the array: datasets outlive the step."""
    return array.copy() if array.flags.writeable or array.base is not None else array


@dataset_op(
    "TensorDataset(components: [Toutput_types]) where Toutput_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; METADATA",
    stateful=True,
)
def TensorDataset(components: Any, *, Toutput_types: Any, output_shapes: Any) -> Dataset:
    """One element."""
    return sources.Tensors([_of_its_own(c) for c in components], Toutput_types, output_shapes)


@dataset_op(
    "TensorSliceDataset(components: [Toutput_types]) where Toutput_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; is_files: bool = false; METADATA; "
    "replicate_on_split: bool = false",
    stateful=True,
)
def TensorSliceDataset(components: Any, *, Toutput_types: Any, output_shapes: Any) -> Dataset:
    """An element for each row."""
    return sources.TensorSlices([_of_its_own(c) for c in components], Toutput_types, output_shapes)


@dataset_op(
    "SparseTensorSliceDataset(indices: int64, values: Tvalues, dense_shape: int64) "
    "where Tvalues: type",
    stateful=True,
)
def SparseTensorSliceDataset(indices: Any, values: Any, dense_shape: Any, *, Tvalues: Any) -> Any:
    """An element for each row of a sparse tensor."""
    rank = len(dense_shape) - 1
    return sources.SparseSlices(
        indices,
        values,
        dense_shape,
        [dtypes.int64, Tvalues, dtypes.int64],
        [TensorShape([None, rank]), TensorShape([None]), TensorShape([rank])],
    )


@dataset_op(
    "RangeDataset(start: int64, stop: int64, step: int64) where OUTPUTS; METADATA; "
    "replicate_on_split: bool = false",
    stateful=True,
)
def RangeDataset(
    start: Any, stop: Any, step: Any, *, output_types: Any, output_shapes: Any
) -> Dataset:
    """Whole numbers in a row."""
    if int(step) == 0:
        raise ValueError("step must be a non-zero integer.")
    numbers = range(number(start, "start"), number(stop, "stop"), number(step, "step"))
    return sources.Range(numbers, output_types, output_shapes)


@dataset_op(
    "RandomDataset(seed: int64, seed2: int64) where OUTPUTS; METADATA",
    stateful=True,
    also=("ExperimentalRandomDataset",),
)
def RandomDataset(seed: Any, seed2: Any, *, output_types: Any, output_shapes: Any) -> Dataset:
    """Random whole numbers."""
    return sources.Random(int(seed), int(seed2), output_types, output_shapes)


class SeedGenerator:
    """Behind a handle of seeds, which shuffled datasets share."""

    def __init__(self, seeds: sources.Seeds) -> None:
        self.seeds = seeds


def seeds_of(handle: Any, ctx: Any, seed: Any, seed2: Any, reshuffles: bool) -> sources.Seeds:
    """The seeds behind a handle; those of the two numbers if there are none behind it."""
    if isinstance(handle, np.ndarray) and isinstance(handle[()], ResourceHandle):
        try:
            return ctx.resources.get(SeedGenerator, handle_of(handle)).seeds
        except Exception:
            pass
    return sources.Seeds(int(seed), int(seed2), reshuffles)


@dataset_op(
    "RandomDatasetV2(seed: int64, seed2: int64, seed_generator: resource) where "
    "rerandomize_each_iteration: bool = false; OUTPUTS; METADATA",
    stateful=True,
)
def RandomDatasetV2(
    seed: Any,
    seed2: Any,
    seed_generator: Any,
    *,
    rerandomize_each_iteration: bool,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    """Random whole numbers."""
    return sources.Random(
        int(seed), int(seed2), output_types, output_shapes, rerandomize_each_iteration
    )


@dataset_op(
    "TextLineDataset(filenames: string, compression_type: string, buffer_size: int64) "
    "where METADATA",
    stateful=True,
)
def TextLineDataset(filenames: Any, compression_type: Any, buffer_size: Any) -> Dataset:
    """The lines of files."""
    return files.TextLines(texts(filenames), texts(compression_type)[0])


@dataset_op(
    "TFRecordDataset(filenames: string, compression_type: string, buffer_size: int64) "
    "where METADATA",
    stateful=True,
)
def TFRecordDataset(filenames: Any, compression_type: Any, buffer_size: Any) -> Dataset:
    """The records of files."""
    return files.TFRecords(texts(filenames), texts(compression_type)[0])


@dataset_op(
    "TFRecordDatasetV2(filenames: string, compression_type: string, buffer_size: int64, "
    "byte_offsets: int64) where METADATA",
    stateful=True,
)
def TFRecordDatasetV2(
    filenames: Any, compression_type: Any, buffer_size: Any, byte_offsets: Any
) -> Dataset:
    """The records of files, from a place in each."""
    if np.any(np.asarray(byte_offsets) != 0):
        raise NotImplementedError("TFRecordDatasetV2 with byte_offsets")
    return files.TFRecords(texts(filenames), texts(compression_type)[0])


@dataset_op(
    "FixedLengthRecordDataset(filenames: string, header_bytes: int64, record_bytes: int64, "
    "footer_bytes: int64, buffer_size: int64) where METADATA",
    stateful=True,
)
def FixedLengthRecordDataset(
    filenames: Any, header_bytes: Any, record_bytes: Any, footer_bytes: Any, buffer_size: Any
) -> Dataset:
    """Records of one length."""
    return files.FixedLengthRecords(
        texts(filenames), int(header_bytes), int(record_bytes), int(footer_bytes)
    )


@dataset_op(
    "FixedLengthRecordDatasetV2(filenames: string, header_bytes: int64, record_bytes: int64, "
    "footer_bytes: int64, buffer_size: int64, compression_type: string) where METADATA",
    stateful=True,
)
def FixedLengthRecordDatasetV2(
    filenames: Any,
    header_bytes: Any,
    record_bytes: Any,
    footer_bytes: Any,
    buffer_size: Any,
    compression_type: Any,
) -> Dataset:
    """Records of one length, in files that may be compressed."""
    return files.FixedLengthRecords(
        texts(filenames),
        int(header_bytes),
        int(record_bytes),
        int(footer_bytes),
        texts(compression_type)[0],
    )


_CSV_INPUTS = (
    "filenames: string, compression_type: string, buffer_size: int64, header: bool, "
    "field_delim: string, use_quote_delim: bool, na_value: string, select_cols: int64, "
    "record_defaults: [output_types]"
)
_CSV_ATTRS = (
    "where output_types: list({float32, float64, int32, int64, string}) >= 1; "
    "output_shapes: list(shape) >= 1"
)


def _csv(
    filenames: Any,
    compression_type: Any,
    header: Any,
    field_delim: Any,
    use_quote_delim: Any,
    na_value: Any,
    columns: Any,
    record_defaults: Any,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    for i, default in enumerate(record_defaults):
        if np.size(default) > 1 or np.ndim(default) > 1:
            raise ValueError(f"There should only be 1 default per field but field {i} has "
                             f"{np.size(default)}")  # fmt: skip
    options = csv_files.CsvOptions(
        bool(header), texts(field_delim)[0], bool(use_quote_delim), texts(na_value)[0], columns
    )
    return csv_files.CsvFiles(
        texts(filenames),
        texts(compression_type)[0],
        options,
        record_defaults,
        output_types,
        output_shapes,
    )


@dataset_op(
    f"CSVDataset({_CSV_INPUTS}) {_CSV_ATTRS}", stateful=True, also=("ExperimentalCSVDataset",)
)
def CSVDataset(
    filenames: Any,
    compression_type: Any,
    buffer_size: Any,
    header: Any,
    field_delim: Any,
    use_quote_delim: Any,
    na_value: Any,
    select_cols: Any,
    record_defaults: Any,
    *,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    """The lines of CSV files."""
    return _csv(
        filenames,
        compression_type,
        header,
        field_delim,
        use_quote_delim,
        na_value,
        [int(c) for c in select_cols] or None,
        record_defaults,
        output_types,
        output_shapes,
    )


@dataset_op(f"CSVDatasetV2({_CSV_INPUTS}, exclude_cols: int64) {_CSV_ATTRS}", stateful=True)
def CSVDatasetV2(
    filenames: Any,
    compression_type: Any,
    buffer_size: Any,
    header: Any,
    field_delim: Any,
    use_quote_delim: Any,
    na_value: Any,
    select_cols: Any,
    record_defaults: Any,
    exclude_cols: Any,
    *,
    output_types: Any,
    output_shapes: Any,
) -> Dataset:
    """The lines of CSV files, without some columns."""
    columns = [int(c) for c in select_cols] or None
    if len(exclude_cols):
        if columns:
            raise ValueError("Either select_cols or exclude_cols should be empty")
        without = {int(c) for c in exclude_cols}
        total = len(output_types) + len(without)
        columns = [c for c in range(total) if c not in without]
    return _csv(
        filenames,
        compression_type,
        header,
        field_delim,
        use_quote_delim,
        na_value,
        columns,
        record_defaults,
        output_types,
        output_shapes,
    )


@dataset_op(
    "SqlDataset(driver_name: string, data_source_name: string, query: string) where OUTPUTS",
    stateful=True,
    also=("ExperimentalSqlDataset",),
)
def SqlDataset(
    driver_name: Any, data_source_name: Any, query: Any, *, output_types: Any, output_shapes: Any
) -> Dataset:
    """The rows that a query finds."""
    return sql.QueryRows(
        texts(driver_name)[0],
        texts(data_source_name)[0],
        texts(query)[0],
        output_types,
        output_shapes,
    )


@dataset_op(
    "MatchingFilesDataset(patterns: string)",
    stateful=True,
    also=("ExperimentalMatchingFilesDataset",),
)
def MatchingFilesDataset(patterns: Any) -> Dataset:
    """The names of files that match."""
    names = sorted({name for pattern in texts(patterns) for name in gfile.glob(pattern)})
    column = np.empty(len(names), object)
    column[:] = [name.encode() for name in names]
    return sources.TensorSlices([column], [dtypes.string], [scalar()])


@dataset_op(
    "GeneratorDataset(init_func_other_args: [Tinit_func_args], next_func_other_args: "
    "[Tnext_func_args], finalize_func_other_args: [Tfinalize_func_args]) where init_func: func; "
    "next_func: func; finalize_func: func; Tinit_func_args: list(type) >= 0; Tnext_func_args: "
    "list(type) >= 0; Tfinalize_func_args: list(type) >= 0; OUTPUTS; METADATA",
    stateful=True,
)
def GeneratorDataset(
    init_func_other_args: Any,
    next_func_other_args: Any,
    finalize_func_other_args: Any,
    *,
    init_func: Any,
    next_func: Any,
    finalize_func: Any,
    output_types: Any,
    output_shapes: Any,
    bind: Any,
) -> Dataset:
    """What a function makes again and again."""
    return sources.Generator(
        bind(init_func, init_func_other_args, "init_func_other_args"),
        bind(next_func, next_func_other_args, "next_func_other_args"),
        bind(finalize_func, finalize_func_other_args, "finalize_func_other_args"),
        output_types,
        output_shapes,
    )
