"""Structures of elements: tuples and dicts of tensors, sparse tensors and datasets.

As in TensorFlow's datasets a list is no structure: it becomes a tensor. An element's structure is
described by specs (`TensorSpec` and its kin), and travels as one flat tensor per leaf: a sparse
tensor as a variant of three cells, a dataset as a variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape, scalar, unknown_shape
from millrace.core.tensor_spec import SparseTensorSpec, TensorSpec, TypeSpec
from millrace.graph.convert import convert_to_tensor
from millrace.graph.slices import SparseTensor, SparseTensorValue
from millrace.graph.tensor import Tensor
from millrace.ops.sparse.serialization import (
    deserialize_sparse,
    serialize_many_sparse,
    serialize_sparse,
)


def is_nested(value: Any) -> bool:
    """Whether a value is a structure rather than a leaf."""
    return isinstance(value, tuple | Mapping) and not isinstance(
        value, SparseTensorValue | TensorShape
    )


def _children(value: Any) -> list[Any]:
    return [value[key] for key in sorted(value)] if isinstance(value, Mapping) else list(value)


def _rebuilt(structure: Any, children: Iterable[Any]) -> Any:
    if isinstance(structure, Mapping):
        by_key = dict(zip(sorted(structure), children, strict=True))
        kind: Any = type(structure)
        return kind((key, by_key[key]) for key in structure)
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return tuple(children)


def flatten(structure: Any) -> list[Any]:
    """The leaves in order; dicts by their sorted keys."""
    if not is_nested(structure):
        return [structure]
    return [leaf for child in _children(structure) for leaf in flatten(child)]


def pack(structure: Any, leaves: Iterable[Any]) -> Any:
    """A structure like `structure` with other leaves."""
    rest = iter(leaves)

    def build(part: Any) -> Any:
        if not is_nested(part):
            return next(rest)
        return _rebuilt(part, [build(child) for child in _children(part)])

    return build(structure)


def map_leaves(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """The structure of the results of a function on the leaves."""
    flats = [flatten_up_to(structure, other) for other in others]
    return pack(
        structure,
        [function(*leaves) for leaves in zip(flatten(structure), *flats, strict=True)],
    )


def flatten_up_to(structure: Any, value: Any) -> list[Any]:
    """The parts of `value` in the places of the leaves of `structure`.

    Raises:
      TypeError: They are not of one structure.
      ValueError: They have different lengths or keys.
    """
    if not is_nested(structure):
        return [value]
    if not is_nested(value):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: "
            f"{type(value).__name__}."
        )
    if isinstance(structure, Mapping) != isinstance(value, Mapping):
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(value).__name__}, while shallow structure has type {type(structure).__name__}."
        )
    if isinstance(structure, Mapping) and set(structure) != set(value):
        raise ValueError(
            "The two structures don't have the same keys. Input structure has keys "
            f"{sorted(value)}, while shallow structure has keys {sorted(structure)}."
        )
    if len(structure) != len(value):
        raise ValueError(
            "The two structures don't have the same sequence length. Input structure has length "
            f"{len(value)}, while shallow structure has length {len(structure)}."
        )
    pairs = zip(_children(structure), _children(value), strict=True)
    return [leaf for part, given in pairs for leaf in flatten_up_to(part, given)]


class DatasetSpec(TypeSpec):
    """What elements a dataset has that is itself an element."""

    def __init__(self, element_spec: Any, dataset_shape: Any = ()) -> None:
        self._element_spec = element_spec
        self._shape = as_shape(dataset_shape)

    @property
    def element_spec(self) -> Any:
        """The structure of its elements."""
        return self._element_spec

    @property
    def shape(self) -> TensorShape:
        """The shape of the tensor of variants."""
        return self._shape

    @property
    def dtype(self) -> dtypes.DType:
        """Variants."""
        return dtypes.variant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self._element_spec == other._element_spec

    def __hash__(self) -> int:
        return hash(str(self._element_spec))

    def __repr__(self) -> str:
        return f"DatasetSpec({self._element_spec!r}, {self._shape})"


class OptionalSpec(TypeSpec):
    """What an optional may hold."""

    def __init__(self, element_spec: Any) -> None:
        self.element_spec = element_spec
        self.shape = scalar()
        self.dtype = dtypes.variant

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionalSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash(str(self.element_spec))

    def __repr__(self) -> str:
        return f"OptionalSpec({self.element_spec!r})"


#: Makes the value of a leaf that is a dataset or an optional, of a variant and its spec; set by the
#: modules that have these classes.
wrappers: dict[type[TypeSpec], Callable[[Any, Any], Any]] = {}
#: The classes of such leaves, for `output_classes`.
leaf_classes: dict[type[TypeSpec], type] = {TensorSpec: Tensor, SparseTensorSpec: SparseTensor}


# -- Specs of values -------------------------------------------------------------------------


def spec_of(leaf: Any) -> Any:
    """The spec of a leaf that `normalized` has returned."""
    if isinstance(leaf, SparseTensor):
        return SparseTensorSpec(leaf.get_shape(), leaf.dtype)
    own = getattr(leaf, "_own_spec", None)
    if own is not None:
        return own()
    return TensorSpec(leaf.shape, leaf.dtype.base_dtype)


def normalized(value: Any, packs_lists: bool = False) -> Any:
    """A value with tensors, sparse tensors, datasets and optionals as its leaves.

    Args:
      value: What a program gave, or a function of it returned.
      packs_lists: Whether a list at the top is a tuple: what functions return often is one.
    """
    if packs_lists and isinstance(value, list):
        value = tuple(value)

    def convert(leaf: Any, name: str) -> Any:
        if isinstance(leaf, SparseTensor) or hasattr(leaf, "_own_spec"):
            return leaf
        if isinstance(leaf, SparseTensorValue):
            return SparseTensor.from_value(leaf)
        return convert_to_tensor(leaf, name=name)

    leaves = flatten(value)
    return pack(value, [convert(leaf, f"component_{i}") for i, leaf in enumerate(leaves)])


def specs_of(value: Any) -> Any:
    """The structure of specs of a normalized value."""
    return map_leaves(spec_of, value)


# -- Specs and flat tensors --------------------------------------------------------------------


def flat_types(spec: Any) -> list[dtypes.DType]:
    """The types of the flat tensors of an element."""
    return [s.dtype if isinstance(s, TensorSpec) else dtypes.variant for s in flatten(spec)]


def flat_shapes(spec: Any) -> list[TensorShape]:
    """Their shapes."""
    return [unknown_shape() if isinstance(s, SparseTensorSpec) else s.shape for s in flatten(spec)]


def to_tensors(value: Any) -> list[Tensor]:
    """A normalized value as flat tensors."""

    def flat(leaf: Any) -> Tensor:
        if isinstance(leaf, SparseTensor):
            return serialize_sparse(leaf, out_type=dtypes.variant)
        variant = getattr(leaf, "_variant_tensor", None)
        return leaf if variant is None else variant

    return [flat(leaf) for leaf in flatten(value)]


def to_batched_tensors(value: Any) -> list[Tensor]:
    """A normalized value as flat tensors with a first dimension of rows."""
    return [
        serialize_many_sparse(leaf, out_type=dtypes.variant)
        if isinstance(leaf, SparseTensor)
        else to_tensors(leaf)[0]
        for leaf in flatten(value)
    ]


def from_tensors(spec: Any, tensors: Iterable[Tensor]) -> Any:
    """The value of flat tensors."""

    def value(leaf: Any, tensor: Tensor) -> Any:
        if isinstance(leaf, TensorSpec):
            tensor.set_shape(leaf.shape)
            return tensor
        if isinstance(leaf, SparseTensorSpec):
            sparse = deserialize_sparse(tensor, leaf.dtype, leaf.shape.ndims)
            sparse._static_shape = leaf.shape
            return sparse
        return wrappers[type(leaf)](tensor, leaf)

    return pack(spec, [value(s, t) for s, t in zip(flatten(spec), tensors, strict=True)])


# -- Changed specs -------------------------------------------------------------------------------


def batched(spec: Any, size: int | None) -> Any:
    """The spec of batches of so many elements."""

    def change(leaf: Any) -> Any:
        shape = TensorShape([size]).concatenate(leaf.shape)
        return _reshaped(leaf, shape)

    return map_leaves(change, spec)


def unbatched(spec: Any) -> Any:
    """The spec of the rows of elements.

    Raises:
      ValueError: A component is a scalar.
    """

    def change(leaf: Any) -> Any:
        if leaf.shape.ndims == 0:
            raise ValueError("Unbatching a tensor is only supported for rank >= 1")
        return _reshaped(leaf, leaf.shape[1:] if leaf.shape.ndims else unknown_shape())

    return map_leaves(change, spec)


def _reshaped(leaf: Any, shape: TensorShape) -> Any:
    if isinstance(leaf, SparseTensorSpec):
        return SparseTensorSpec(shape, leaf.dtype)
    if isinstance(leaf, DatasetSpec):
        return DatasetSpec(leaf.element_spec, shape)
    if isinstance(leaf, OptionalSpec):
        raise TypeError("Batching of elements that are optionals is not supported")
    return TensorSpec(shape, leaf.dtype)


def most_specific(a: Any, b: Any) -> Any:
    """The spec that holds for the elements of both.

    Raises:
      TypeError: They have different types.
    """

    def join(x: Any, y: Any) -> Any:
        if type(x) is not type(y):
            raise TypeError(f"Two datasets to concatenate have different classes {x} and {y}")
        return _reshaped(x, common_shape(x.shape, y.shape))

    return map_leaves(join, a, b)


def common_shape(a: TensorShape, b: TensorShape) -> TensorShape:
    """The most precise shape that both are of."""
    if a.sizes is None or b.sizes is None or len(a.sizes) != len(b.sizes):
        return unknown_shape()
    pairs = zip(a.sizes, b.sizes, strict=True)
    return TensorShape([x if x == y else None for x, y in pairs])


# -- The three structures of TensorFlow 1 ----------------------------------------------------


def legacy_types(spec: Any) -> Any:
    """The structure of types."""
    return map_leaves(lambda leaf: leaf.dtype if hasattr(leaf, "dtype") else leaf, spec)


def legacy_shapes(spec: Any) -> Any:
    """The structure of shapes."""
    return map_leaves(lambda leaf: leaf.shape, spec)


def legacy_classes(spec: Any) -> Any:
    """The structure of classes."""
    return map_leaves(lambda leaf: leaf_classes[type(leaf)], spec)


def from_legacy(types: Any, shapes: Any = None, classes: Any = None) -> Any:
    """The spec that three structures state; shapes may be missing or None in places."""
    types = map_leaves(lambda leaf: leaf if _is_special(leaf) else dtypes.as_dtype(leaf), types)
    flat_types = flatten(types)
    if shapes is None:
        given: list[Any] = [None] * len(flat_types)
    else:
        given = flatten_up_to(types, shapes)
    kinds = [Tensor] * len(flat_types) if classes is None else flatten_up_to(types, classes)
    made = []
    for dtype, shape, kind in zip(flat_types, given, kinds, strict=True):
        if _is_special(dtype):
            made.append(dtype)
        elif isinstance(kind, type) and issubclass(kind, SparseTensor):
            made.append(SparseTensorSpec(shape, dtype))
        else:
            made.append(TensorSpec(as_shape(shape), dtype))
    return pack(types, made)


def _is_special(leaf: Any) -> bool:
    return isinstance(leaf, DatasetSpec | OptionalSpec)
