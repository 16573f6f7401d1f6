"""`TextLineDataset`, `TFRecordDataset`, `FixedLengthRecordDataset`, `CsvDataset`, `SqlDataset`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_spec import TensorSpec
from millrace.graph.convert import convert_to_tensor
from millrace.graph.tensor import Tensor
from millrace.ops.array.shape import reshape
from millrace.ops.data import source_kernels as sources
from millrace.ops.data import structure
from millrace.ops.data.dataset import Dataset, VariantDataset
from millrace.ops.data.transformations import int64, outputs

__all__ = [
    "CsvDataset",
    "FixedLengthRecordDataset",
    "RandomDataset",
    "SqlDataset",
    "TFRecordDataset",
    "TextLineDataset",
]

_DEFAULT_BUFFER = 256 * 1024
_STRING = TensorSpec([], dtypes.string)


def _text(value: Any, name: str, default: str = "") -> Tensor:
    return convert_to_tensor(default if value is None else value, dtypes.string, name=name)


def _buffer(size: Any) -> Tensor:
    return int64(_DEFAULT_BUFFER if size is None else size, "buffer_size")


def _file_names(filenames: Any) -> Dataset:
    """A dataset of scalar names, of a dataset, a tensor or a list.

    Raises:
      TypeError: These are no strings.
    """
    if isinstance(filenames, Dataset):
        spec = filenames.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype != dtypes.string:
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements. Got "
                f"{filenames.output_types!r} elements."
            )
        return filenames
    names = convert_to_tensor(filenames, dtype_hint(filenames), name="filenames")
    if names.dtype != dtypes.string:
        raise TypeError(
            f"The `filenames` argument must contain `tf.string` elements. Got {names.dtype!r} "
            "elements."
        )
    return Dataset.from_tensor_slices(reshape(names, [-1], name="flat_filenames"))


def dtype_hint(value: Any) -> Any:
    """The type of names where there are none to tell it."""
    return dtypes.string if isinstance(value, list | tuple) and not value else None


def _over_files(
    filenames: Any, num_parallel_reads: Any, one_file: Callable[[Any], Tensor]
) -> tuple[Tensor, Any]:
    """A dataset over files: one after the other, or several by turns."""
    names = _file_names(filenames)

    def read(name: Any) -> Dataset:
        return VariantDataset(one_file(name), _STRING)

    if num_parallel_reads is None:
        made = names.flat_map(read)
    else:
        # AUTOTUNE leaves the number of files to read at a time to us.
        made = names.interleave(
            read, cycle_length=num_parallel_reads, num_parallel_calls=num_parallel_reads
        )
    return made._variant_tensor, _STRING


class TextLineDataset(Dataset):
    """The lines of text files.

    Args:
      filenames: Names: a tensor, a list, or a dataset of them.
      compression_type: "", "ZLIB" or "GZIP".
      buffer_size: Not used.
      num_parallel_reads: How many files are read by turns; None for one after the other.
      name: Not used.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        compression = _text(compression_type, "compression_type")
        size = _buffer(buffer_size)
        super().__init__(
            *_over_files(
                filenames,
                num_parallel_reads,
                lambda file: sources.TextLineDataset(file, compression, size),
            )
        )


class TFRecordDataset(Dataset):
    """The records of TFRecord files; arguments as those of `TextLineDataset`."""

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        compression = _text(compression_type, "compression_type")
        size = _buffer(buffer_size)
        super().__init__(
            *_over_files(
                filenames,
                num_parallel_reads,
                lambda file: sources.TFRecordDataset(file, compression, size),
            )
        )


class FixedLengthRecordDataset(Dataset):
    """Records of one length.

    Args:
      filenames: Names: a tensor, a list, or a dataset of them.
      record_bytes: The length of a record.
      header_bytes: What is skipped at the beginning of each file.
      footer_bytes: What is left out at the end of each file.
      buffer_size: Not used.
      compression_type: "", "ZLIB" or "GZIP".
      num_parallel_reads: How many files are read by turns.
      name: Not used.
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        header = int64(header_bytes or 0, "header_bytes")
        record = int64(record_bytes, "record_bytes")
        footer = int64(footer_bytes or 0, "footer_bytes")
        size, compression = _buffer(buffer_size), _text(compression_type, "compression_type")
        super().__init__(
            *_over_files(
                filenames,
                num_parallel_reads,
                lambda file: sources.FixedLengthRecordDatasetV2(
                    file, header, record, footer, size, compression
                ),
            )
        )


class CsvDataset(Dataset):
    """The lines of CSV files: a tuple of scalars each.

    Args:
      filenames: Names.
      record_defaults: For each column a type (the field must be there) or a default value.
      compression_type: "", "ZLIB" or "GZIP".
      buffer_size: Not used.
      header: Whether the first line of each file is skipped.
      field_delim: What separates fields.
      use_quote_delim: Whether quotation marks have their meaning.
      na_value: A text that counts as a missing field.
      select_cols: The columns that are wanted.
      exclude_cols: The columns that are not; only one of the two.
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        header: Any = False,
        field_delim: Any = ",",
        use_quote_delim: Any = True,
        na_value: Any = "",
        select_cols: Any = None,
        exclude_cols: Any = None,
    ) -> None:
        names = convert_to_tensor(filenames, dtypes.string, name="filenames")
        defaults = [_default(each) for each in record_defaults]
        spec = tuple(TensorSpec([], each.dtype) for each in defaults)
        settings = (
            reshape(names, [-1]),
            _text(compression_type, "compression_type"),
            int64(4 * 1024 * 1024 if buffer_size is None else buffer_size, "buffer_size"),
            convert_to_tensor(header, dtypes.bool, name="header"),
            _text(field_delim, "field_delim"),
            convert_to_tensor(use_quote_delim, dtypes.bool, name="use_quote_delim"),
            _text(na_value, "na_value"),
            int64([] if select_cols is None else select_cols, "select_cols"),
            defaults,
        )
        if exclude_cols is None:
            tensor = sources.CSVDataset(*settings, output_shapes=structure.flat_shapes(spec))
        else:
            tensor = sources.CSVDatasetV2(
                *settings,
                int64(exclude_cols, "exclude_cols"),
                output_shapes=structure.flat_shapes(spec),
            )
        super().__init__(tensor, spec)


def _default(value: Any) -> Tensor:
    """A default as a vector: empty for a type, which says that the field must be there."""
    if isinstance(value, dtypes.DType) or (isinstance(value, type) and value is not bool):
        return convert_to_tensor([], dtype=dtypes.as_dtype(value), name="record_default")
    made = convert_to_tensor(value, name="record_default")
    return reshape(made, [1]) if made.shape.ndims == 0 else made


class SqlDataset(Dataset):
    """The rows that an SQLite query finds.

    Args:
      driver_name: "sqlite".
      data_source_name: The file.
      query: The query.
      output_types: The types of the columns, a tuple.
    """

    def __init__(
        self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any
    ) -> None:
        spec = structure.map_leaves(lambda t: TensorSpec([], dtypes.as_dtype(t)), output_types)
        super().__init__(
            sources.SqlDataset(
                _text(driver_name, "driver_name"),
                _text(data_source_name, "data_source_name"),
                _text(query, "query"),
                **outputs(spec),
            ),
            spec,
        )


class RandomDataset(Dataset):
    """Random whole numbers without an end."""

    def __init__(
        self, seed: Any = None, rerandomize_each_iteration: Any = None, name: str | None = None
    ) -> None:
        made = Dataset.random(seed, name=name)
        super().__init__(made._variant_tensor, made.element_spec)
