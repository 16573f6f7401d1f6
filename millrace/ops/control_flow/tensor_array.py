"""`TensorArray`: an array of tensors, for loops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape, as_shape, unknown_shape
from millrace.graph.constant_value import constant_value
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import colocate_with, name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import JAX_GRADIENT, NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, none, scalars, unknown
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.array import shape as array_shape
from millrace.ops.array.gather import check_indices
from millrace.ops.control_flow.tensor_array_value import TensorArrayValue
from millrace.ops.control_flow.tensor_list_value import unset
from millrace.ops.math import numeric

__all__ = ["TensorArray"]


class ArrayHandle(NamedTuple):
    """What a handle tells of its array, where it is a value (in graphs with frames)."""

    size: int
    dtype: Any
    element_shape: tuple[int, ...] | None
    dynamic_size: bool
    is_gradient: bool = False


@op(
    "TensorArrayV3(size: int32) -> (handle: resource, flow: float32) where dtype: type; "
    "element_shape: shape = ?; dynamic_size: bool = false; clear_after_read: bool = true; "
    'identical_element_shapes: bool = false; tensor_array_name: string = ""',
    shape=scalars,
    gradient=NO_GRADIENT,
    static=("size",),
    stateful=True,
)
def TensorArrayV3(
    size: Any, *, dtype: Any, element_shape: Any, dynamic_size: bool, clear_after_read: bool
) -> Any:
    """A new array; the flow is its value."""
    if size < 0:
        raise ValueError(f"Size should be >= 0, but is {size}")
    shape = tuple(element_shape.as_list()) if element_shape.is_fully_defined() else None
    value = TensorArrayValue(dtype.as_numpy_dtype, unset(int(size)), None, shape)
    value.clears = clear_after_read
    handle = np.empty((), object)
    handle[()] = ArrayHandle(int(size), dtype.as_numpy_dtype, shape, dynamic_size)
    return handle, value


@TensorArrayV3.on_host
def _(node: Any, known: Any) -> Any:
    attrs, shape = node.attrs, node.attrs["element_shape"]
    sizes = tuple(shape.as_list()) if shape.is_fully_defined() else None
    dtype, clears = attrs["dtype"].as_numpy_dtype, attrs["clear_after_read"]

    def array(size: Any) -> Any:
        value = TensorArrayValue(dtype, unset(int(size)), None, sizes)
        value.clears = clears
        handle = np.empty((), object)
        handle[()] = ArrayHandle(int(size), dtype, sizes, attrs["dynamic_size"])
        return handle, value

    return array


@op(
    "TensorArrayWriteV3(handle: resource, index: int32, value: T, flow_in: float32) "
    "-> flow_out: float32",
    shape=scalars,
    stateful=True,
)
def TensorArrayWriteV3(
    handle: Any, index: Any, value: Any, flow_in: Any, *, xp: Any, node: Any
) -> Any:
    """The array with one more element."""
    flow_in = _flow_of(handle, flow_in)
    flow_in.check_type(value)
    return flow_in.write(index, value, _is_dynamic(handle, node))


def _flow_of(handle: Any, flow: Any) -> Any:
    """The value that a flow stands for, given the handle that it is used with.

    The gradient array of a stock graph takes its first flow from the forward array, for the
    order only: it begins empty.
    """
    if handle is None or not handle[()].is_gradient:
        return flow
    if isinstance(flow, TensorArrayValue) and flow.is_gradient:
        return flow
    info = handle[()]
    size = flow.size if isinstance(flow, TensorArrayValue) else info.size
    return TensorArrayValue(info.dtype, unset(size), None, info.element_shape, True)


def _is_dynamic(handle: Any, node: Any) -> bool:
    """Whether the array behind the node's handle may grow."""
    if handle is not None:
        return bool(handle[()].dynamic_size)
    inputs: Any = getattr(node, "inputs", None)
    return bool(inputs) and bool(inputs[0].node.attrs.get("dynamic_size", False))


@op(
    "TensorArrayReadV3(handle: resource, index: int32, flow_in: float32) -> value: dtype "
    "where dtype: type",
    shape=unknown,
    stateful=True,
)
def TensorArrayReadV3(handle: Any, index: Any, flow_in: Any, *, xp: Any) -> Any:
    """One element."""
    return _flow_of(handle, flow_in).read(index, xp)


def _gather_shape(c: ShapeContext) -> TensorShape:
    shape = as_shape(c.attr("element_shape"))
    count = c.inputs[1].shape.sizes
    first = count[0] if count else None
    return TensorShape([first]).concatenate(shape)


@op(
    "TensorArrayGatherV3(handle: resource, indices: int32, flow_in: float32) -> value: dtype "
    "where dtype: type; element_shape: shape = ?",
    shape=_gather_shape,
    stateful=True,
)
def TensorArrayGatherV3(
    handle: Any, indices: Any, flow_in: Any, *, element_shape: Any, xp: Any
) -> Any:
    """Chosen elements, stacked."""
    flow_in = _flow_of(handle, flow_in)
    if not flow_in.size and element_shape.is_fully_defined():
        return xp.zeros((0, *element_shape.as_list()), flow_in.dtype)
    stacked = flow_in.stacked(xp)
    if isinstance(indices, np.ndarray) and np.array_equal(indices, np.arange(stacked.shape[0])):
        return stacked
    if (
        isinstance(indices, np.ndarray)
        and indices.size
        and (indices.min() < 0 or indices.max() >= stacked.shape[0])
    ):
        raise ValueError(
            f"Tried to read from index {indices.max()} but array size is: {stacked.shape[0]}"
        )
    return stacked[indices]


@op(
    "TensorArrayScatterV3(handle: resource, indices: int32, value: T, flow_in: float32) "
    "-> flow_out: float32",
    shape=scalars,
    stateful=True,
)
def TensorArrayScatterV3(
    handle: Any, indices: Any, value: Any, flow_in: Any, *, xp: Any, node: Any, check: Any
) -> Any:
    """The array with the rows of `value` written at `indices`."""
    flow_in = _flow_of(handle, flow_in)
    if isinstance(indices, jax.core.Tracer):
        flow_in.check_type(value)
        result = flow_in.scatter(indices, value, _is_dynamic(handle, node))
        check_indices(indices, result.size, check)
        return result
    blank = flow_in.items is not None and all(i is None for i in flow_in.items)
    if (
        blank
        and isinstance(indices, np.ndarray)
        and np.array_equal(indices, np.arange(value.shape[0]))
        and (value.shape[0] == flow_in.size or _is_dynamic(handle, node))
    ):
        return flow_in._with(None, value)
    result = flow_in
    for i in range(value.shape[0]):
        result = result.write(indices[i], value[i], _is_dynamic(handle, node))
    return result


@op(
    "TensorArrayConcatV3(handle: resource, flow_in: float32) -> (value: dtype, lengths: int64) "
    "where dtype: type; element_shape_except0: shape = ?",
    shape=lambda c: [
        TensorShape([None]).concatenate(as_shape(c.attr("element_shape_except0"))),
        TensorShape([None]),
    ],
    gradient=JAX_GRADIENT,
    stateful=True,
)
def TensorArrayConcatV3(handle: Any, flow_in: Any, *, xp: Any) -> Any:
    """The elements one after the other along their first axis."""
    flow_in = _flow_of(handle, flow_in)
    if flow_in.buffer is not None and flow_in.buffer.ndim > 1:
        buffer = flow_in.buffer
        lengths = np.full(flow_in.size, buffer.shape[1], np.int64)
        return buffer.reshape((-1, *buffer.shape[2:])), lengths
    parts = flow_in._as_items()
    if any(p is None for p in parts):
        raise ValueError("TensorArray concat: some elements were not written")
    lengths = np.array([p.shape[0] for p in parts], np.int64)
    return xp.concatenate(parts, axis=0), lengths


@op(
    "TensorArraySplitV3(handle: resource, value: T, lengths: int64, flow_in: float32) "
    "-> flow_out: float32",
    shape=scalars,
    gradient=JAX_GRADIENT,
    static=("lengths",),
    stateful=True,
)
def TensorArraySplitV3(handle: Any, value: Any, lengths: Any, flow_in: Any, *, xp: Any) -> Any:
    """The array whose elements are consecutive pieces of `value`."""
    flow_in = _flow_of(handle, flow_in)
    if int(np.sum(lengths)) != value.shape[0]:
        raise ValueError(
            f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
            f"{int(np.sum(lengths))} and value's shape is: {list(value.shape)}"
        )
    bounds = np.cumsum(lengths)[:-1].tolist()
    pieces = xp.split(value, bounds) if len(lengths) else []
    return TensorArrayValue(flow_in.dtype, list(pieces), None, None, flow_in.is_gradient)


@op(
    "TensorArraySizeV3(handle: resource, flow_in: float32) -> size: int32",
    shape=scalars,
    gradient=NO_GRADIENT,
    stateful=True,
)
def TensorArraySizeV3(handle: Any, flow_in: Any, *, xp: Any) -> Any:
    """The number of elements; known while tracing."""
    flow_in = _flow_of(handle, flow_in)
    return np.array(flow_in.size, np.int32)


@op("TensorArrayCloseV3(handle: resource)", shape=none, gradient=NO_GRADIENT, stateful=True)
def TensorArrayCloseV3(handle: Any, *, xp: Any) -> None:
    """Nothing to free: values are freed when nobody holds them."""


class TensorArray:
    """An array of tensors of one type, written once an element.

    Every write gives a new TensorArray object; use that one afterwards.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot construct with both handle and tensor_array_name")
        if handle is not None and not isinstance(handle, Tensor):
            raise TypeError("Handle must be a Tensor")
        if handle is None and size is None:
            raise ValueError("Size must be provided if handle is not provided")
        if handle is not None and size is not None:
            raise ValueError("Cannot provide both a handle and size at the same time")
        if handle is not None and dynamic_size is not None:
            raise ValueError("Cannot provide both a handle and dynamic_size at the same time")
        self._dtype = dtypes.as_dtype(dtype).base_dtype
        self._infer_shape = infer_shape or element_shape is not None
        self._dynamic_size = bool(dynamic_size)
        self._colocate = colocate_with_first_write_call
        #: One-entry list shared by all objects for one array: what writes have shown.
        self._element_shape: list[TensorShape] = [as_shape(element_shape)]
        if handle is not None:
            assert flow is not None
            self._handle, self._flow = handle, flow
            self._size = None
            return
        with name_scope(name, "TensorArray", [size]) as scope:
            size = convert_to_tensor(size, dtypes.int32, name="size")
            #: The number of elements where it cannot change.
            self._size = None if self._dynamic_size else size
            self._handle, self._flow = TensorArrayV3(
                size,
                dtype=self._dtype,
                element_shape=as_shape(element_shape),
                dynamic_size=self._dynamic_size,
                clear_after_read=True if clear_after_read is None else clear_after_read,
                identical_element_shapes=infer_shape,
                tensor_array_name=tensor_array_name or "",
                name=scope,
            )

    @property
    def flow(self) -> Tensor:
        """The value of the array; order of reads and writes follows it."""
        return self._flow

    @property
    def handle(self) -> Tensor:
        """Names the array."""
        return self._handle

    @property
    def dtype(self) -> dtypes.DType:
        """The type of the elements."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether the array may grow."""
        return self._dynamic_size

    @property
    def element_shape(self) -> TensorShape:
        """What is known of the elements' shape."""
        return self._element_shape[0]

    def _with_flow(self, flow: Tensor) -> TensorArray:
        other = TensorArray.__new__(TensorArray)
        other.__dict__.update(self.__dict__)
        other._flow = flow
        return other

    def _note_shape(self, shape: TensorShape) -> None:
        if not self._infer_shape:
            return
        known = self._element_shape[0]
        if not known.is_compatible_with(shape):
            raise ValueError(
                f"Inconsistent shapes: saw {shape} but expected {known} (and infer_shape=True)"
            )
        self._element_shape[0] = known.merge_with(shape)

    def identity(self) -> TensorArray:
        """The same array, with a new flow."""
        return self._with_flow(array_identity.identity(self._flow))

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`."""
        value: Tensor = TensorArrayReadV3(
            self._handle, index, self._flow, dtype=self._dtype, name=name
        )
        value.set_shape(self._element_shape[0])
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with `value` at `index`."""
        with name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            value = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            self._note_shape(value.shape)
            flow = TensorArrayWriteV3(self._handle, index, value, self._flow)
        return self._with_flow(flow)

    def stack(self, name: str | None = None) -> Tensor:
        """All elements as one tensor."""
        with colocate_with(self._handle), name_scope(name, "TensorArrayStack", [self._handle]):
            return self.gather(numeric.range(0, self.size()))

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Chosen elements as one tensor."""
        value: Tensor = TensorArrayGatherV3(
            self._handle,
            indices,
            self._flow,
            dtype=self._dtype,
            element_shape=self._element_shape[0],
            name=name,
        )
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """All elements joined along their first axis."""
        known = self._element_shape[0]
        rest = unknown_shape() if known.ndims is None else known[1:]
        value, _ = TensorArrayConcatV3(
            self._handle, self._flow, dtype=self._dtype, element_shape_except0=rest, name=name
        )
        count = None if self._size is None else constant_value(self._size)
        if count is not None and known.is_fully_defined() and known.ndims:
            sizes: list[Any] = known.as_list()
            value.set_shape([int(count) * sizes[0], *sizes[1:]])
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """The array whose elements are the rows of `value`."""
        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            value = convert_to_tensor(value, self._dtype, name="value")
            count = array_shape.shape(value)[0]
            return self.scatter(numeric.range(0, count), value)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """The array with the rows of `value` at `indices`."""
        with name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            value = convert_to_tensor(value, self._dtype, name="value")
            if value.shape.ndims is not None:
                self._note_shape(value.shape[1:])
            flow = TensorArrayScatterV3(self._handle, indices, value, self._flow)
        return self._with_flow(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """The array whose elements are pieces of `value` of the given lengths."""
        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            value = convert_to_tensor(value, self._dtype, name="value")
            lengths = convert_to_tensor(lengths, dtypes.int64)
            flow = TensorArraySplitV3(self._handle, value, lengths, self._flow)
        return self._with_flow(flow)

    def size(self, name: str | None = None) -> Tensor:
        """The number of elements."""
        if self._size is not None:
            return array_identity.identity(self._size, name=name)
        result: Tensor = TensorArraySizeV3(self._handle, self._flow, name=name)
        return result

    def close(self, name: str | None = None) -> Operation:
        """An operation that ends the array's life."""
        result: Operation = TensorArrayCloseV3(self._handle, name=name)
        return result
