"""Contractions over several axes: einsum and tensordot."""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np

from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.registry import JAX_GRADIENT
from millrace.graph.shape_inference import ShapeContext, broadcast_shapes
from millrace.graph.tensor import Tensor
from millrace.ops.array import gather as array_gather
from millrace.ops.array import join as array_join
from millrace.ops.array import layout as array_layout
from millrace.ops.array import select as array_select
from millrace.ops.array import sets as array_sets
from millrace.ops.array import shape as array_shape
from millrace.ops.linalg import linear_algebra
from millrace.ops.math import numeric, reduction

__all__ = ["einsum", "tensordot"]

#: The size that an unknown axis counts as when the order of contractions is chosen.
_GUESSED_SIZE = 64


# -- Einsum ------------------------------------------------------------------------------


def _labels(term: str, rank: int) -> list[str]:
    """One label an axis; the axes of an ellipsis are called ``.-1``, ``.-2``... from the right."""
    if "..." not in term:
        if len(term) != rank:
            raise ValueError(f"Expected input of rank {len(term)} for '{term}', but it is {rank}")
        return list(term)
    head, _, tail = term.partition("...")
    middle = rank - len(head) - len(tail)
    if middle < 0:
        raise ValueError(f"Expected input of rank {len(head + tail)} or more for '{term}'")
    return [*head, *(f".{i - middle}" for i in range(middle)), *tail]


def _label_sizes(terms: list[str], shapes: list[tuple[int | None, ...]]) -> dict[str, int | None]:
    """The size of each label, as far as it is known; those of an ellipsis broadcast."""
    sizes: dict[str, int | None] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for axis, (label, size) in enumerate(zip(_labels(term, len(shape)), shape, strict=True)):
            known = sizes.get(label)
            if label.startswith(".") and label in sizes:
                merged = broadcast_shapes(TensorShape([known]), TensorShape([size]))
                sizes[label] = (merged.sizes or (None,))[0]
            elif known is not None and size is not None and known != size:
                raise ValueError(
                    f"Dimensions must be equal, but are {known} and {size}: Expected dimension "
                    f"{known} at axis {axis} of the input for '{term}' but got dimension {size}"
                )
            else:
                sizes[label] = size if known is None else known
    return sizes


def _einsum_shape(c: ShapeContext) -> TensorShape:
    equation = c.attr("equation").decode()
    left, _, result = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(c.inputs):
        raise ValueError(f"Expected {len(terms)} inputs for '{equation}', got {len(c.inputs)}")
    shapes = [t.shape.sizes for t in c.inputs if t.shape.sizes is not None]
    if len(shapes) < len(terms):
        return unknown_shape(len(result)) if "..." not in result else unknown_shape()
    sizes = _label_sizes(terms, shapes)
    broadcast = sum(label.startswith(".") for label in sizes) if "..." in result else 0
    rank = len(result.replace("...", "")) + broadcast
    return TensorShape([sizes.get(label) for label in _labels(result, rank)])


@op(
    "Einsum(inputs: N*T) -> output: T where equation: string; N: int >= 1; T: type",
    shape=_einsum_shape,
    gradient=JAX_GRADIENT,
)
def Einsum(inputs: list[Any], *, xp: Any, equation: bytes) -> Any:
    left, _, result = equation.decode().partition("->")
    terms = left.split(",")
    sizes = _label_sizes(terms, [x.shape for x in inputs])
    # A label that occurs twice in the result stands for a diagonal: TensorFlow's gradients of
    # traces have them. The second one gets a new letter, tied to the first by an identity.
    letters = iter(sorted(set(string.ascii_letters) - set(left + result)))
    operands, renamed = list(inputs), ""
    for label in result:
        if label != "." and label in renamed:
            other = next(letters)
            terms.append(label + other)
            operands.append(xp.eye(sizes[label], dtype=inputs[0].dtype))
            label = other
        renamed += label
    return xp.einsum(f"{','.join(terms)}->{renamed}", *operands)


def _explicit(equation: str) -> str:
    """The equation without spaces, and with its result written out."""
    compact = equation.replace(" ", "")
    if not re.fullmatch(r"[A-Za-z.,]*(->[A-Za-z.]*)?", compact) or compact.count("->") > 1:
        raise ValueError(f"Indices have incorrect format. Received: {equation}.")
    terms, arrow, result = compact.partition("->")
    if not arrow:
        letters = terms.replace("...", "").replace(",", "")
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        result = ("..." if "..." in terms else "") + "".join(once)
    for label in result:
        if label not in terms:
            raise ValueError(
                f"Output subscripts contain the label {label} not present in the input subscripts."
            )
    return f"{terms}->{result}"


def _steps(equation: str, shapes: list[TensorShape], optimize: Any) -> list[tuple[list[int], str]]:
    """Contractions of few operands each, in an order that keeps what is between them small.

    Each step names the positions of its operands (to be removed in this order) and its
    equation; its result goes to the end of the list of operands.
    """
    terms, _, result = equation.partition("->")
    waiting = terms.split(",")
    sizes = _label_sizes(waiting, [shape.sizes or () for shape in shapes])
    # Arrays of one element that look large: only their shapes are read.
    stand_ins = [
        np.broadcast_to(
            np.float32(0),
            [sizes[label] or _GUESSED_SIZE for label in _labels(term, len(shape.sizes or ()))],
        )
        for term, shape in zip(waiting, shapes, strict=True)
    ]
    path = np.einsum_path(equation, *stand_ins, optimize=optimize)[0][1:]
    steps = []
    for places in path:
        order = sorted(places, reverse=True)
        used = [waiting.pop(i) for i in order]
        needed = set("".join([*waiting, result]))
        letters = [c for c in dict.fromkeys("".join(used)) if c != "." and c in needed]
        dots = "..." if any("..." in term for term in used) else ""
        part = dots + "".join(letters) if waiting else result
        steps.append((order, f"{','.join(used)}->{part}"))
        waiting.append(part)
    return steps


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """A sum of products, told by an equation in Einstein's notation.

    Args:
      equation: Such as ``"ij,jk->ik"``; ``...`` stands for axes that broadcast.
      *inputs: The tensors, one for each term.
      **kwargs: ``name``, and ``optimize`` (how the order of contractions is chosen).

    Raises:
      ValueError: The equation is malformed, or does not fit the inputs.
    """
    name = kwargs.pop("name", None)
    optimize = kwargs.pop("optimize", "greedy")
    if kwargs:
        raise TypeError(f"Invalid keyword arguments for einsum: {', '.join(kwargs)}")
    with name_scope(name, "einsum", [equation, *inputs]):
        tensors = [convert_to_tensor(item) for item in inputs]
        full = _explicit(equation)
        count = full.partition("->")[0].count(",") + 1
        if count != len(tensors):
            raise ValueError(
                f'Got {len(tensors)} inputs for equation "{equation}", expecting {count}'
            )
        if len(tensors) <= 2 or any(t.shape.sizes is None for t in tensors):
            return Einsum(tensors, equation=full)
        for places, part in _steps(full, [t.shape for t in tensors], optimize):
            operands = [tensors.pop(i) for i in places]
            tensors.append(Einsum(operands, equation=part))
        return tensors[0]


# -- Tensordot ---------------------------------------------------------------------------


def _contracted(axes: Any, a: Tensor, b: Tensor) -> tuple[Any, Any]:
    """The axes of a and of b to sum over; lists where they can be, else tensors."""
    if isinstance(axes, int | np.integer):
        if axes < 0:
            raise ValueError(f"`axes` must be at least 0. Received: {axes}.")
        rank = a.shape.ndims
        if rank is None:
            return numeric.range(array_shape.rank(a) - axes, array_shape.rank(a)), list(range(axes))
        if axes > rank:
            raise ValueError(
                f"`axes` must not be larger than the number of dimensions of tensor {a}."
            )
        return list(range(rank - axes, rank)), list(range(axes))
    if isinstance(axes, list | tuple):
        if len(axes) != 2:
            raise ValueError(f"`axes` must be an integer or have length 2. Received {axes}.")
        first, second = ([x] if isinstance(x, int | np.integer) else x for x in axes)
        if isinstance(first, Tensor) or isinstance(second, Tensor):
            return first, second
        first, second = list(first), list(second)
        if len(first) != len(second):
            raise ValueError(
                f"Different number of contraction axes `a` and `b`, {len(first)} != {len(second)}."
            )
        return first, second
    pair: Any = convert_to_tensor(axes, name="axes", dtype="int32")
    return pair[0], pair[1]


def _as_matrix(tensor: Any, axes: Any, last: bool) -> tuple[Any, Any]:
    """The tensor as a matrix with the contracted axes on one side, and its other sizes."""
    if isinstance(axes, list) and tensor.shape.ndims is not None:
        return _as_matrix_statically(tensor, axes, last)
    shape, rank = array_shape.shape(tensor), array_shape.rank(tensor)
    places: Any = convert_to_tensor(axes, dtype="int32")
    places = array_select.where_v2(places >= 0, places, places + rank)
    free, _ = array_sets.setdiff1d(numeric.range(rank), places)
    sizes_free, sizes_bound = array_gather.gather(shape, free), array_gather.gather(shape, places)
    order = array_join.concat([free, places] if last else [places, free], 0)
    products = [reduction.reduce_prod(sizes_free), reduction.reduce_prod(sizes_bound)]
    target = array_join.stack(products if last else products[::-1])
    return array_shape.reshape(array_layout.transpose(tensor, order), target), sizes_free


def _as_matrix_statically(tensor: Any, axes: list[int], last: bool) -> tuple[Any, Any]:
    sizes = list(tensor.shape.sizes)
    rank = len(sizes)
    bound = [axis % rank if -rank <= axis < rank else axis for axis in axes]
    for axis in bound:
        if not 0 <= axis < rank:
            raise ValueError(f"Axis {axis} is out of range for tensor {tensor}")
    free = [i for i in range(rank) if i not in bound]
    order = [*free, *bound] if last else [*bound, *free]
    if order != list(range(rank)):
        tensor = array_layout.transpose(tensor, order)
    if None not in sizes:
        free_sizes: Any = [sizes[i] for i in free]
        rows = int(np.prod(free_sizes, dtype=np.int64))
        columns = int(np.prod([sizes[i] for i in bound], dtype=np.int64))
        target = [rows, columns] if last else [columns, rows]
        if target != [sizes[i] for i in order]:
            tensor = array_shape.reshape(tensor, target)
        return tensor, free_sizes
    shape = array_shape.shape(tensor)
    free_sizes = shape[: len(free)] if last else shape[len(bound) :]
    bound_sizes = shape[len(free) :] if last else shape[: len(bound)]
    products = [reduction.reduce_prod(free_sizes), reduction.reduce_prod(bound_sizes)]
    tensor = array_shape.reshape(tensor, array_join.stack(products if last else products[::-1]))
    return tensor, free_sizes


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over pairs of axes; all others stay, those of `a` first.

    Args:
      a: A tensor.
      b: A tensor.
      axes: A number N (the last N axes of `a`, the first N of `b`), or two lists of axes.
      name: The name scope.

    Raises:
      ValueError: The axes do not fit.
    """
    with name_scope(name, "Tensordot", [a, b, axes]) as scope:
        a, b = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
        axes_a, axes_b = _contracted(axes, a, b)
        left, rows = _as_matrix(a, axes_a, last=True)
        right, columns = _as_matrix(b, axes_b, last=False)
        product = linear_algebra.matmul(left, right)
        if isinstance(rows, list) and isinstance(columns, list):
            shape: Any = [*rows, *columns]
            if product.shape.is_fully_defined() and product.shape.as_list() == shape:
                return product
            return array_shape.reshape(product, shape, name=scope)
        sizes = [
            convert_to_tensor(np.asarray(part, np.int32)) if isinstance(part, list) else part
            for part in (rows, columns)
        ]
        result = array_shape.reshape(product, array_join.concat(sizes, 0), name=scope)
        result.set_shape(_known_shape(a, axes_a).concatenate(_known_shape(b, axes_b)))
        return result


def _known_shape(tensor: Tensor, axes: Any) -> TensorShape:
    """The sizes that a tensor brings to the result, as far as they are known."""
    sizes = tensor.shape.sizes
    if sizes is None:
        return unknown_shape()
    if not isinstance(axes, list):
        return unknown_shape()
    bound = {axis % len(sizes) for axis in axes}
    return TensorShape([size for i, size in enumerate(sizes) if i not in bound])
