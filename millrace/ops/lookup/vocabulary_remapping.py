"""Matrices of a checkpoint whose rows or columns stand for words, loaded for another vocabulary.

`GenerateVocabRemapping` says where each new word was in the old vocabulary;
`LoadAndRemapMatrix` puts the old rows and columns in their new places and takes values for what
is new from another tensor. `load_and_remap_matrix_initializer` makes an initialiser of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.tensor_shape import TensorShape, scalar
from millrace.data.checkpoint_reader import open_checkpoint
from millrace.graph.convert import convert_to_tensor
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.array import join as array_join
from millrace.ops.array.rules import shape_text
from millrace.ops.math import numeric
from millrace.ops.state import initializers
from millrace.platform import gfile

__all__: list[str] = []


def _words(name: bytes, limit: int | None = None) -> list[bytes]:
    with gfile.GFile(name.decode(), "rb") as file:
        lines: list[bytes] = file.read().split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines if limit is None else lines[:limit]


@op(
    "GenerateVocabRemapping(new_vocab_file: string, old_vocab_file: string) -> "
    "(remapping: int64, num_present: int32) where new_vocab_offset: int >= 0; "
    "num_new_vocab: int >= 0; old_vocab_size: int >= -1 = -1",
    shape=lambda c: [TensorShape([c.attr("num_new_vocab")]), scalar()],
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,  # the files may change
)
def GenerateVocabRemapping(
    new_vocab_file: Any,
    old_vocab_file: Any,
    *,
    new_vocab_offset: int,
    num_new_vocab: int,
    old_vocab_size: int,
) -> tuple[Any, Any]:
    """For each new word its line in the old vocabulary, or -1; and how many were there."""
    old = _words(old_vocab_file.item(), None if old_vocab_size < 0 else old_vocab_size)
    new = _words(new_vocab_file.item())[new_vocab_offset : new_vocab_offset + num_new_vocab]
    if len(new) != num_new_vocab:
        raise ValueError(
            f"The new vocabulary {new_vocab_file.item().decode()} has {len(new)} words from line "
            f"{new_vocab_offset} on, {num_new_vocab} were asked for"
        )
    places = {word: i for i, word in reversed(list(enumerate(old)))}
    remapping = np.array([places.get(word, -1) for word in new], np.int64)
    return remapping, np.int32(np.count_nonzero(remapping >= 0))


def _matrix_shape(c: ShapeContext) -> TensorShape:
    return TensorShape([c.attr("num_rows"), c.attr("num_cols")])


@op(
    "LoadAndRemapMatrix(ckpt_path: string, old_tensor_name: string, row_remapping: int64, "
    "col_remapping: int64, initializing_values: float32) -> output_matrix: float32 where "
    "num_rows: int >= 0; num_cols: int >= 1; max_rows_in_memory: int = -1",
    shape=_matrix_shape,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def LoadAndRemapMatrix(
    ckpt_path: Any,
    old_tensor_name: Any,
    row_remapping: Any,
    col_remapping: Any,
    initializing_values: Any,
    *,
    num_rows: int,
    num_cols: int,
) -> Any:
    """A matrix with rows and columns of one in a checkpoint; what is new comes in row order."""
    if row_remapping.shape != (num_rows,):
        raise ValueError(
            f"Size of row_remapping is {shape_text(row_remapping.shape)} instead of being equal "
            f"to num_rows={num_rows}"
        )
    columns = np.arange(num_cols) if not col_remapping.size else col_remapping
    if columns.shape != (num_cols,):
        raise ValueError(
            f"Provided col_remapping, but its size is {shape_text(columns.shape)} instead of "
            f"being equal to num_cols={num_cols}"
        )
    name = old_tensor_name.item().decode()
    with open_checkpoint(ckpt_path.item().decode()) as reader:
        old = reader.read(name)
    if old.ndim != 2 or old.dtype != np.float32:
        raise errors.InvalidArgumentError(
            None,
            None,
            f"Tensor {name} is a {old.dtype} tensor of shape {shape_text(old.shape)}, not a "
            "float32 matrix",
        )
    for what, remapping, size in (
        ("row", row_remapping, old.shape[0]),
        ("column", columns, old.shape[1]),
    ):
        if remapping.size and remapping.max() >= size:
            raise ValueError(
                f"The {what} remapping asks for {what} {int(remapping.max())}, but tensor {name} "
                f"has {size} of them: its vocabulary is another one"
            )
    known = np.ix_(row_remapping, columns)
    is_old = (row_remapping >= 0)[:, None] & (columns >= 0)[None, :]
    missing = is_old.size - int(np.count_nonzero(is_old))
    if missing != initializing_values.size:
        raise ValueError(
            f"initializing_values contained {initializing_values.size} elements, but {missing} "
            "missing values are to be filled in"
        )
    result = np.empty((num_rows, num_cols), np.float32)
    if old.size and result.size:
        result[:] = old[known]
    result[~is_old] = initializing_values.reshape(-1)
    return result


# -- Initialisers --------------------------------------------------------------------------


def load_and_remap_matrix(
    ckpt_path: Any,
    old_tensor_name: Any,
    new_row_vocab_offset: int,
    num_rows_to_load: int,
    new_col_vocab_size: int,
    initializer: Callable[[Any], Any],
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    max_rows_in_memory: int = -1,
) -> Tensor:
    """A matrix of a checkpoint with its rows or columns in the order of another vocabulary.

    Args:
      ckpt_path: The checkpoint.
      old_tensor_name: The matrix.
      new_row_vocab_offset: The line of the new vocabulary to begin with.
      num_rows_to_load: How many rows to make.
      new_col_vocab_size: How many columns to make.
      initializer: Values for what the checkpoint does not have, by shape.
      old_row_vocab_size: How many words of the old vocabulary count; -1 for all.
      old_row_vocab_file: The words that the rows of the checkpoint stand for.
      new_row_vocab_file: The words that the rows are to stand for.
      old_col_vocab_file: The same for columns.
      new_col_vocab_file: The same for columns.
      num_row_oov_buckets: How many rows to append for words that are in no vocabulary.
      num_col_oov_buckets: How many columns to append.
      max_rows_in_memory: Accepted; the matrix is read whole.

    Raises:
      ValueError: One vocabulary of a pair is missing, or both pairs are.
    """
    for what, count in (("row", num_row_oov_buckets), ("col", num_col_oov_buckets)):
        if count < 0:
            raise ValueError(f"num_{what}_oov_buckets must be >= 0, but received {count}")
    for what, old, new in (
        ("row", old_row_vocab_file, new_row_vocab_file),
        ("col", old_col_vocab_file, new_col_vocab_file),
    ):
        if (old is None) != (new is None):
            raise ValueError(
                f"old_{what}_vocab_file and new_{what}_vocab_file must both be specified or left "
                f"unspecified. old_{what}_vocab_file='{old}', new_{what}_vocab_file='{new}'"
            )
    if new_row_vocab_file is None and new_col_vocab_file is None:
        raise ValueError(
            "Must provide either row or column vocab files. If no remapping is necessary, "
            "consider using `tf.train.init_from_checkpoint` instead."
        )
    rows_present: Any = num_rows_to_load
    if new_row_vocab_file is not None:
        row_remapping, rows_present = GenerateVocabRemapping(
            new_row_vocab_file,
            old_row_vocab_file,
            new_vocab_offset=new_row_vocab_offset,
            num_new_vocab=num_rows_to_load,
            old_vocab_size=old_row_vocab_size,
        )
    else:
        row_remapping = numeric.range(
            new_row_vocab_offset, new_row_vocab_offset + num_rows_to_load, dtype=dtypes.int64
        )
    col_remapping: Any = np.zeros([0], np.int64)
    cols_present: Any = new_col_vocab_size
    if new_col_vocab_file is not None:
        col_remapping, cols_present = GenerateVocabRemapping(
            new_col_vocab_file,
            old_col_vocab_file,
            new_vocab_offset=0,
            num_new_vocab=new_col_vocab_size,
        )
    missing = num_rows_to_load * new_col_vocab_size - rows_present * cols_present
    result: Tensor = LoadAndRemapMatrix(
        ckpt_path,
        old_tensor_name,
        row_remapping,
        col_remapping,
        initializer([missing, 1]),
        num_rows=num_rows_to_load,
        num_cols=new_col_vocab_size,
        max_rows_in_memory=max_rows_in_memory,
    )
    if num_row_oov_buckets > 0:
        rows = convert_to_tensor(initializer([num_row_oov_buckets, new_col_vocab_size]))
        result = array_join.concat([result, rows], 0)
    if num_col_oov_buckets > 0:
        height = num_rows_to_load + num_row_oov_buckets
        columns = convert_to_tensor(initializer([height, num_col_oov_buckets]))
        result = array_join.concat([result, columns], 1)
    return result


def load_and_remap_matrix_initializer(
    ckpt_path: Any,
    old_tensor_name: Any,
    new_row_vocab_size: int,
    new_col_vocab_size: int,
    old_row_vocab_size: int = -1,
    old_row_vocab_file: Any = None,
    new_row_vocab_file: Any = None,
    old_col_vocab_file: Any = None,
    new_col_vocab_file: Any = None,
    num_row_oov_buckets: int = 0,
    num_col_oov_buckets: int = 0,
    initializer: Any = None,
    max_rows_in_memory: int = -1,
) -> Callable[..., Any]:
    """An initialiser for a variable, or a part of one cut along its rows.

    See `load_and_remap_matrix`; the variable has the shape
    ``[new_row_vocab_size + num_row_oov_buckets, new_col_vocab_size + num_col_oov_buckets]``.

    Raises:
      TypeError: `initializer` cannot be called.
    """
    backup = initializers.zeros_initializer() if initializer is None else initializer
    if not callable(backup):
        raise TypeError(
            f"initializer must be callable, instead of being {backup} of type {type(backup)}."
        )

    def initialize(
        shape: Sequence[int], dtype: Any = dtypes.float32, partition_info: Any = None
    ) -> Any:
        if dtype != dtypes.float32:
            raise TypeError(f"Currently, only float32 is supported. Received dtype: {dtype}")
        if len(shape) != 2:
            raise ValueError(f"Expected 2-dim shape, but received: {shape}")
        if shape[0] <= 0:
            raise ValueError(f"Expected 1st dim of shape to be > 0, but received shape: {shape}")
        if shape[1] != new_col_vocab_size + num_col_oov_buckets:
            raise ValueError(
                f"Expected 2nd dim of shape to be new_col_vocab_size ({new_col_vocab_size}) + "
                f"num_col_oov_buckets ({num_col_oov_buckets}) = "
                f"{new_col_vocab_size + num_col_oov_buckets}, but received shape: {shape}"
            )
        offset = 0 if partition_info is None else partition_info.single_offset(shape)
        total = new_row_vocab_size + num_row_oov_buckets
        if offset + shape[0] > total:
            raise ValueError(
                f"Trying to initialize {shape[0]} additional rows after {offset} rows have "
                "already been initialized, which would exceed expected total row count of "
                f"new_row_vocab_size ({new_row_vocab_size}) + num_row_oov_buckets "
                f"({num_row_oov_buckets}) = {total}."
            )
        beyond = min(shape[0], max(0, offset + shape[0] - new_row_vocab_size))
        if offset > new_row_vocab_size:
            return backup(shape)
        return load_and_remap_matrix(
            ckpt_path=ckpt_path,
            old_tensor_name=old_tensor_name,
            new_row_vocab_offset=offset,
            num_rows_to_load=shape[0] - beyond,
            new_col_vocab_size=new_col_vocab_size,
            initializer=backup,
            old_row_vocab_size=old_row_vocab_size,
            old_row_vocab_file=old_row_vocab_file,
            new_row_vocab_file=new_row_vocab_file,
            old_col_vocab_file=old_col_vocab_file,
            new_col_vocab_file=new_col_vocab_file,
            num_row_oov_buckets=beyond,
            num_col_oov_buckets=num_col_oov_buckets,
            max_rows_in_memory=max_rows_in_memory,
        )

    return initialize


def load_embedding_initializer(
    ckpt_path: Any,
    embedding_tensor_name: Any,
    new_vocab_size: int,
    embedding_dim: int,
    old_vocab_file: Any,
    new_vocab_file: Any,
    old_vocab_size: int = -1,
    num_oov_buckets: int = 0,
    initializer: Any = None,
    max_rows_in_memory: int = -1,
) -> Callable[..., Any]:
    """An initialiser for an embedding whose rows stand for the words of a vocabulary."""
    if initializer is None:
        initializer = initializers.truncated_normal_initializer(stddev=embedding_dim**-0.5)
    return load_and_remap_matrix_initializer(
        ckpt_path=ckpt_path,
        old_tensor_name=embedding_tensor_name,
        new_row_vocab_size=new_vocab_size,
        new_col_vocab_size=embedding_dim,
        old_row_vocab_size=old_vocab_size,
        old_row_vocab_file=old_vocab_file,
        new_row_vocab_file=new_vocab_file,
        num_row_oov_buckets=num_oov_buckets,
        initializer=initializer,
        max_rows_in_memory=max_rows_in_memory,
    )
