"""Sparse features without a program for each number of ids.

`passes/few_unique.py` puts these ops where nobody can tell the difference. Nobody builds them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from millrace.compiler.row_sums import add_rows
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import unknown
from millrace.ops.array.sets import Unique
from millrace.ops.cluster.padded_unique import padded_length

__all__: list[str] = []


@op(
    "_FewUnique(x: T) -> (y: T, idx: out_idx) where T: {int32, int64}; out_idx: index = int32",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def FewUnique(x: Any, *, ctx: Any, node: Any) -> Any:
    """As Unique, with the first element as often behind the others as makes a length of few.

    Args:
      x: A vector.
      ctx: Remembers how long the output was.
      node: The node.
    """
    y, idx = Unique.kernel(x, xp=np)
    lengths = ctx.session.state_of(node, lambda: [0])
    if len(y):
        lengths[0] = padded_length(len(y), lengths[0])
        y = np.concatenate([y, np.broadcast_to(y[:1], lengths[0] - len(y))])
    return y, idx


@op(
    "_SparseSegmentGradOnHost(grad: T, indices: Tidx, segment_ids: Tsegmentids, "
    "output_dim0: int32) -> output: T where T: {float32, float64}; norm: string; "
    "Tidx: {int32, int64} = int32; Tsegmentids: {int32, int64} = int32",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def SparseSegmentGradOnHost(
    grad: Any, indices: Any, segment_ids: Any, output_dim0: Any, *, norm: bytes
) -> Any:
    """As SparseSegmentSumGrad and its kin, for any number of ids at once.

    Args:
      grad: The gradient of the segments.
      indices: Which row each id has.
      segment_ids: Which segment each is in.
      output_dim0: How many rows there are.
      norm: What the sums are divided by: ``Sum`` nothing, ``Mean`` the number of a segment's ids,
        ``SqrtN`` its root.
    """
    rows = int(output_dim0)
    if indices.ndim != 1 or indices.shape != segment_ids.shape:
        raise ValueError("segment_ids and indices should have same size.")
    for name, found, limit in (("indices", indices, rows), ("segment_ids", segment_ids, len(grad))):
        wrong = np.flatnonzero((found < 0) | (found >= limit))
        if wrong.size:
            place = wrong[0]
            raise ValueError(f"Bad: {name}[{place}] == {found[place]} out of range [0, {limit})")
    each = np.ascontiguousarray(grad).reshape(len(grad), math.prod(grad.shape[1:]))
    if norm != b"Sum":
        counts = np.maximum(np.bincount(segment_ids, minlength=len(grad)), 1).astype(grad.dtype)
        each = each / (np.sqrt(counts) if norm == b"SqrtN" else counts)[:, None]
    total = np.zeros((rows, each.shape[1]), grad.dtype)
    add_rows(total, indices.astype(np.int32), each, segment_ids.astype(np.int32))
    return total.reshape(rows, *grad.shape[1:])


@op(
    "_FirstColumn(x: T) -> column: dtype where T: {int32, int64}; dtype: {int32, int64}",
    shape=unknown,
    gradient=NO_GRADIENT,
    host=True,
)
def FirstColumn(x: Any, *, dtype: Any) -> Any:
    """The first column of a matrix: which example each of a sparse tensor's elements is of."""
    return x[:, 0].astype(dtype.as_numpy_dtype)
