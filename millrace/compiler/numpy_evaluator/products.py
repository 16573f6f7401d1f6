"""Products of matrices and convolutions, by BLAS.

A convolution is a sum of matrix products: one for each position of the kernel, or one for each
position of the result, whichever are fewer. The gradient of a filter is a convolution whose kernel
is as large as the image and whose result is as small as the filter, so both kinds occur.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.rules import Call, out_dtype, rule


def _computed_in(dtype: Any) -> np.dtype[Any]:
    """The type that products are summed in."""
    kind = np.dtype(dtype)
    return np.dtype(np.float32) if kind.kind == "V" or kind == np.float16 else kind


def _wider(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


@rule("dot_general")
def _dot_general(eqn: Any) -> Call:
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    left, right = eqn.invars[0].aval, eqn.invars[1].aval
    dtype = np.dtype(out_dtype(eqn))
    inner = _computed_in(dtype)
    left_free = [i for i in range(len(left.shape)) if i not in (*left_sum, *left_batch)]
    right_free = [i for i in range(len(right.shape)) if i not in (*right_sum, *right_batch)]
    left_order = (*left_batch, *left_free, *left_sum)
    right_order = (*right_batch, *right_sum, *right_free)
    batch = [left.shape[i] for i in left_batch]
    depth = math.prod(left.shape[i] for i in left_sum)
    rows = math.prod(left.shape[i] for i in left_free)
    columns = math.prod(right.shape[i] for i in right_free)
    shape = (
        *batch,
        *(left.shape[i] for i in left_free),
        *(right.shape[i] for i in right_free),
    )

    def product(x: Any, y: Any) -> Any:
        a = np.transpose(_wider(x, inner), left_order).reshape(*batch, rows, depth)
        b = np.transpose(_wider(y, inner), right_order).reshape(*batch, depth, columns)
        return np.matmul(a, b).reshape(shape).astype(dtype, copy=False)

    return product


@rule("conv_general_dilated")
def _convolution(eqn: Any) -> Call:
    params = eqn.params
    numbers = params["dimension_numbers"]
    groups, batch_groups = params["feature_group_count"], params["batch_group_count"]
    dtype = np.dtype(out_dtype(eqn))
    inner = _computed_in(dtype)
    image_order = (numbers.lhs_spec[0], *numbers.lhs_spec[2:], numbers.lhs_spec[1])
    kernel_order = (*numbers.rhs_spec[2:], numbers.rhs_spec[1], numbers.rhs_spec[0])
    out_spec = (numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])
    back = np.argsort(out_spec)

    def convolve(image: Any, kernel: Any) -> Any:
        x = _dilated(
            np.transpose(_wider(image, inner), image_order),
            params["lhs_dilation"],
            params["padding"],
        )
        w = np.transpose(_wider(kernel, inner), kernel_order)
        strides, dilation = params["window_strides"], params["rhs_dilation"]
        if batch_groups > 1:
            parts = [
                _convolve(a, b, strides, dilation)
                for a, b in zip(
                    np.split(x, batch_groups, 0), np.split(w, batch_groups, -1), strict=True
                )
            ]
            result = np.concatenate(parts, -1)
        elif groups > 1:
            result = _in_groups(x, w, strides, dilation, groups)
        else:
            result = _convolve(x, w, strides, dilation)
        return np.transpose(result, back).astype(dtype, copy=False)

    return convolve


def _dilated(x: Any, dilation: Any, padding: Any) -> Any:
    """An image (batch, positions, features) with zeros between and around its positions."""
    if all(step == 1 for step in dilation) and not any(low or high for low, high in padding):
        return x
    sizes = [
        (n - 1) * step + 1 if n else 0 for n, step in zip(x.shape[1:-1], dilation, strict=True)
    ]
    outer = [max(0, n + low + high) for n, (low, high) in zip(sizes, padding, strict=True)]
    result = np.zeros((x.shape[0], *outer, x.shape[-1]), x.dtype)
    into: list[slice] = [slice(None)]
    of: list[slice] = [slice(None)]
    for n, step, (low, _), size in zip(x.shape[1:-1], dilation, padding, outer, strict=True):
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(n, max(first, (size - 1 - low) // step + 1)) if size else first
        begin = low + first * step
        into.append(slice(begin, begin + max(0, (last - first - 1) * step + 1), step))
        of.append(slice(first, last))
    into.append(slice(None))
    of.append(slice(None))
    result[tuple(into)] = x[tuple(of)]
    return result


def _result_sizes(x: Any, w: Any, strides: Any, dilation: Any) -> list[int]:
    return [
        max(0, (n - ((k - 1) * gap + 1)) // step + 1) if k else 0
        for n, k, step, gap in zip(x.shape[1:-1], w.shape[:-2], strides, dilation, strict=True)
    ]


def _convolve(x: Any, w: Any, strides: Any, dilation: Any) -> Any:
    """(batch, positions, in) with (positions, in, out): the products added up."""
    sizes = _result_sizes(x, w, strides, dilation)
    kernel = w.shape[:-2]
    count, features = x.shape[0], w.shape[-1]
    result: Any = np.zeros((count, *sizes, features), x.dtype)
    if not result.size:
        return result
    if math.prod(sizes) <= math.prod(kernel):
        flat = np.ascontiguousarray(w).reshape(-1, features)
        for position in itertools.product(*map(range, sizes)):
            where = tuple(
                slice(p * step, p * step + (k - 1) * gap + 1, gap)
                for p, step, k, gap in zip(position, strides, kernel, dilation, strict=True)
            )
            window = x[(slice(None), *where)]
            result[(slice(None), *position)] = window.reshape(count, -1) @ flat
        return result
    joined = result.reshape(-1, features)
    for position in itertools.product(*map(range, kernel)):
        where = tuple(
            slice(p * gap, p * gap + (n - 1) * step + 1, step)
            for p, gap, n, step in zip(position, dilation, sizes, strides, strict=True)
        )
        window = x[(slice(None), *where)]
        joined += window.reshape(-1, x.shape[-1]) @ w[position]
    return result


def _in_groups(x: Any, w: Any, strides: Any, dilation: Any, groups: int) -> Any:
    """Features in groups; where each has one, products element by element."""
    if x.shape[-1] != groups:
        parts = zip(np.split(x, groups, -1), np.split(w, groups, -1), strict=True)
        return np.concatenate([_convolve(a, b, strides, dilation) for a, b in parts], -1)
    sizes = _result_sizes(x, w, strides, dilation)
    each = w.shape[-1] // groups
    result = np.zeros((x.shape[0], *sizes, groups, each), x.dtype)
    for position in itertools.product(*map(range, w.shape[:-2])):
        where = tuple(
            slice(p * gap, p * gap + (n - 1) * step + 1, step)
            for p, gap, n, step in zip(position, dilation, sizes, strides, strict=True)
        )
        result += x[(slice(None), *where)][..., None] * w[position].reshape(groups, each)
    return result.reshape(x.shape[0], *sizes, groups * each)
