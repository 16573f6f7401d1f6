"""`map_fn`, `scan`, `foldl`, `foldr`: functions over the first axis, as loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.core import dtypes, nest
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow.loops import while_loop
from millrace.ops.control_flow.tensor_array import TensorArray

__all__ = ["foldl", "foldr", "map_fn", "scan"]


def _elements(elems: Any, name: str) -> tuple[list[Tensor], Any, int | None]:
    """Flat element tensors, the number of elements as a tensor, and as far as it is known."""
    flat = nest.flatten(elems)
    for elem in flat:
        if isinstance(elem, SparseTensor):
            raise TypeError(
                f"{name}: SparseTensor inputs are not supported; consider the dense value or a "
                "loop over its rows"
            )
    tensors = [convert_to_tensor(elem, name="elem") for elem in flat]
    static = None
    for tensor in tensors:
        sizes = tensor.shape.sizes
        if sizes is None:
            continue
        if not sizes:
            raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
        static = sizes[0] if static is None else static
        if sizes[0] is not None and sizes[0] != static:
            raise ValueError(
                f"elems have different first dimensions: {static} and {sizes[0]} ({tensor.name})"
            )
    count = (
        array_shape.shape(tensors[0])[0] if static is None else convert_to_tensor(static, name="n")
    )
    return tensors, count, static


def _arrays_of(tensors: list[Tensor], count: Any) -> list[TensorArray]:
    return [
        TensorArray(
            dtype=t.dtype.base_dtype,
            size=count,
            dynamic_size=False,
            infer_shape=True,
            element_shape=t.shape[1:] if t.shape.ndims is not None else None,
        ).unstack(t)
        for t in tensors
    ]


def _with_rows(tensor: Tensor, rows: int | None, element: TensorShape) -> Tensor:
    if element.ndims is not None:
        tensor.set_shape(TensorShape([rows]).concatenate(element))
    return tensor


def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
) -> Any:
    """`fn` applied to every element along axis 0, stacked.

    Args:
      fn: From an element (in the structure of `elems`) to its result.
      elems: A tensor, or a structure of tensors with one first dimension.
      dtype: The type (structure) of the results, where it differs from `elems`.
      parallel_iterations: Accepted; has no effect.
      back_prop: Whether the result can be differentiated.
      swap_memory: Accepted; has no effect.
      infer_shape: Whether all results have one shape.
      name: Name scope.
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    structure = elems if dtype is None else dtype
    with name_scope(name, "map", nest.flatten(elems)):
        tensors, count, static = _elements(elems, "map_fn")
        sources = _arrays_of(tensors, count)
        types = (
            [t.dtype.base_dtype for t in tensors]
            if dtype is None
            else [dtypes.as_dtype(d) for d in nest.flatten(dtype)]
        )
        results = [
            TensorArray(dtype=t, size=count, dynamic_size=False, infer_shape=infer_shape)
            for t in types
        ]

        def body(i: Any, arrays: list[TensorArray]) -> Any:
            element = nest.pack_sequence_as(elems, [source.read(i) for source in sources])
            value = fn(element)
            nest.assert_same_structure(structure, value, check_types=False)
            flat = nest.flatten(value)
            return i + 1, [a.write(i, v) for a, v in zip(arrays, flat, strict=True)]

        _, results = while_loop(
            lambda i, _: i < count,
            body,
            (convert_to_tensor(0, name="i"), results),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        stacked = [_with_rows(r.stack(), static, r.element_shape) for r in results]
        return nest.pack_sequence_as(structure, stacked)


def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Combines the elements from the first to the last: ``fn(fn(a0, e0), e1)...``."""
    return _fold(fn, elems, initializer, back_prop, name, "foldl", reverse=False)


def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Combines the elements from the last to the first."""
    return _fold(fn, elems, initializer, back_prop, name, "foldr", reverse=True)


def _fold(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any,
    back_prop: bool,
    name: str | None,
    default_name: str,
    reverse: bool,
) -> Any:
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with name_scope(name, default_name, nest.flatten(elems)):
        tensors, count, _ = _elements(elems, default_name)
        sources = _arrays_of(tensors, count)

        def element(i: Any) -> Any:
            return nest.pack_sequence_as(elems, [source.read(i) for source in sources])

        first = count - 1 if reverse else convert_to_tensor(0, name="i")
        start, accumulator = first, initializer
        if initializer is None:
            accumulator = element(first)
            start = first - 1 if reverse else convert_to_tensor(1, name="i")
        accumulator = nest.map_structure(convert_to_tensor, accumulator)
        going = (lambda i, _: i >= 0) if reverse else (lambda i, _: i < count)
        _, result = while_loop(
            going,
            lambda i, a: (i - 1 if reverse else i + 1, fn(a, element(i))),
            (start, accumulator),
            back_prop=back_prop,
        )
        return result


def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All partial results of combining the elements with `fn`, stacked.

    Args:
      fn: From (accumulator, element) to the next accumulator.
      elems: A tensor, or a structure of tensors with one first dimension.
      initializer: The first accumulator; the first element when None.
      parallel_iterations: Accepted; has no effect.
      back_prop: Whether the result can be differentiated.
      swap_memory: Accepted; has no effect.
      infer_shape: Whether all accumulators have one shape.
      reverse: Whether to begin with the last element.
      name: Name scope.
    """
    if not callable(fn):
        raise TypeError("fn must be callable.")
    with name_scope(name, "scan", nest.flatten(elems)):
        tensors, count, static = _elements(elems, "scan")
        sources = _arrays_of(tensors, count)

        def element(i: Any) -> Any:
            return nest.pack_sequence_as(elems, [source.read(i) for source in sources])

        if initializer is None:
            accumulator = element(count - 1 if reverse else 0)
            done = 1
        else:
            accumulator, done = initializer, 0
        structure = accumulator
        flat = [convert_to_tensor(a) for a in nest.flatten(accumulator)]
        results = [
            TensorArray(
                dtype=a.dtype.base_dtype,
                size=count,
                element_shape=a.shape if infer_shape else None,
                infer_shape=infer_shape,
            )
            for a in flat
        ]
        if initializer is None:
            position = count - 1 if reverse else 0
            results = [r.write(position, a) for r, a in zip(results, flat, strict=True)]
        start = count - done - 1 if reverse else convert_to_tensor(done, name="i")

        def body(i: Any, values: list[Any], arrays: list[TensorArray]) -> Any:
            value = fn(nest.pack_sequence_as(structure, values), element(i))
            nest.assert_same_structure(structure, value, check_types=False)
            new = [convert_to_tensor(v) for v in nest.flatten(value)]
            written = [a.write(i, v) for a, v in zip(arrays, new, strict=True)]
            return (i - 1 if reverse else i + 1), new, written

        going = (lambda i, *_: i >= 0) if reverse else (lambda i, *_: i < count)
        _, _, results = while_loop(going, body, (start, flat, results), back_prop=back_prop)
        stacked = [_with_rows(r.stack(), static, r.element_shape) for r in results]
        return nest.pack_sequence_as(structure, stacked)
