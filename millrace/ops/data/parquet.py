"""`ParquetDataset`: the rows of Parquet files, as dicts of columns. TensorFlow has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import as_shape
from millrace.core.tensor_spec import TensorSpec
from millrace.data.pipeline import parquet
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.ops.array.shape import reshape
from millrace.ops.data.dataset import Dataset
from millrace.ops.data.define import dataset_op, texts
from millrace.ops.data.transformations import outputs

__all__ = ["ParquetDataset"]


@dataset_op("ParquetDataset(filenames: string, columns: string) where OUTPUTS", stateful=True)
def ParquetRows(
    filenames: Any, columns: Any, *, output_types: Any, output_shapes: Any
) -> parquet.ParquetFiles:
    """The rows of files."""
    return parquet.ParquetFiles(texts(filenames), texts(columns), output_types, output_shapes)


class ParquetDataset(Dataset):
    """The rows of Parquet files: a dict of scalars (vectors for columns of lists) each.

    Needs pyarrow: ``pip install 'millrace-tf[parquet]'``.

    Args:
      filenames: Names of files: a list, or a tensor.
      columns: The names of the columns that are wanted; all of the first file if None.
      output_types: The type of each column, by name, where the files cannot be looked into while
        the graph is built; else found in the first file.
      output_shapes: The shapes, by name; scalars if None.
    """

    def __init__(
        self,
        filenames: Any,
        columns: Sequence[str] | None = None,
        output_types: dict[str, Any] | None = None,
        output_shapes: dict[str, Any] | None = None,
    ) -> None:
        names = reshape(convert_to_tensor(filenames, dtypes.string, name="filenames"), [-1])
        if output_types is not None:
            shapes = output_shapes or {}
            spec = {
                name: TensorSpec(as_shape(shapes.get(name, [])), dtypes.as_dtype(dtype))
                for name, dtype in output_types.items()
                if columns is None or name in columns
            }
        else:
            spec = _spec_in_file(names, columns)
        ordered = sorted(spec)
        tensor = ParquetRows(
            names, convert_to_tensor(ordered, dtypes.string, name="columns"), **outputs(spec)
        )
        super().__init__(tensor, spec)


def _spec_in_file(names: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    known = constant_value(names)
    if known is None or not known.size:
        raise ValueError(
            "ParquetDataset: the names of the files are not known while the graph is built: say "
            "output_types."
        )
    found = parquet.schema_of(known[0].decode())
    for name in columns or ():
        if name not in found:
            raise ValueError(f"ParquetDataset: there is no column {name!r} among {sorted(found)}.")
    wanted = found if columns is None else {name: found[name] for name in columns}
    return {name: TensorSpec(shape, dtype) for name, (dtype, shape) in wanted.items()}
