"""Asking before taking: an op whose output cannot fit into the task's memory is refused.

The system may promise memory that it does not have, and end the process when it is used: so the
size of an output is worked out before its kernel runs. That costs, so a quick look at the inputs
comes first: an output is larger than the product of its inputs' sizes only where the inputs'
values say so.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Collection, Sequence

import numpy as np

from millrace.compiler.xla import jax
from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape
from millrace.core.value import Value
from millrace.graph.graph import Graph
from millrace.passes.function_body import FIRST_ARGUMENT
from millrace.passes.node import Node
from millrace.passes.schedule import static_positions
from millrace.platform import limits
from millrace.runtime.resources import ResourceStore, VariableSlot

#: No element of a tensor is larger.
ELEMENT_BYTES = 16
_ARRAYS = (np.ndarray, np.generic, jax.Array)
#: Outputs with no more elements always fit, and of no more bytes do so usually.
_SMALL = 1 << 20
_LARGE_BYTES = 256 << 20
#: Outputs of no more bytes are not large when each of up to eight sizes is twice as large.
_FAR_FROM_LARGE = _LARGE_BYTES >> 8
#: Types whose elements are Python objects, and what one takes: a pointer to it, itself, and the
#: list on its way to a message.
_OBJECTS = ("string", "resource", "variant")
_OBJECT_BYTES = 64
#: Of so many strings the lengths are added up: that takes a millisecond.
_MAX_MEASURED = 1 << 14
#: What TensorFlow calls vectors of sizes.
_SHAPE_NAME = re.compile("shape|size|dims")
#: Inputs with more elements are not taken for numbers that decide a shape.
_MAX_NUMBERS = 64

#: Ops whose outputs are never larger than the largest input: views, reductions, picked parts.
NEVER_LARGER = frozenset(
    (
        *("Identity", "StopGradient", "PreventGradient", "Cast", "Shape", "Size", "Rank"),
        *("Reshape", "ExpandDims", "Squeeze", "Transpose", "StridedSlice", "Slice"),
        *("Sum", "Mean", "Prod", "Max", "Min", "All", "Value", "ArgMax", "ArgMin"),
        *("Neg", "Exp", "Log", "Log1p", "Sqrt", "Rsqrt", "Square", "Tanh", "Sigmoid", "Relu"),
        *("Abs", "Sign", "LogicalNot", "Reciprocal", "Softmax", "LogSoftmax", "L2Loss"),
        *("TanhGrad", "SigmoidGrad", "ReluGrad", "RsqrtGrad", "SqrtGrad", "BiasAddGrad"),
        *("ZerosLike", "OnesLike", "BroadcastGradientArgs", "ShapeN", "Where", "Unique"),
        *("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits", "BiasAddGrad"),
        *("Floor", "Ceil", "Round", "IsFinite", "IsNan", "Elu", "EluGrad", "Softplus", "Selu"),
        *("SoftplusGrad", "SeluGrad", "Softsign", "SoftsignGrad", "LeakyRelu", "Relu6"),
        *("Relu6Grad", "LeakyReluGrad", "Erf", "Lgamma", "Sin", "Cos", "Expm1", "Invert"),
        *("Split", "SplitV", "Unpack", "ReverseV2", "InvertPermutation", "CheckNumerics"),
        *("Cumsum", "Cumprod", "UniqueV2", "UniqueWithCounts", "StringToHashBucketFast"),
        *("StringToHashBucket", "StringToHashBucketStrong", "StringToNumber", "ListDiff"),
    )
)


#: Ops whose outputs are parts of an input that is there.
_TAKES_APART = frozenset(
    ("Slice", "StridedSlice", "Reshape", "Squeeze", "ExpandDims", "Transpose", "ReverseV2")
)


def deciding_inputs(node: Node) -> tuple[int, ...]:
    """Positions of inputs whose numbers may decide how large an output is."""
    if node.definition.kind == "pure":
        return tuple(sorted(static_positions(node)))
    return tuple(i for i, edge in enumerate(node.inputs) if not edge.dtype._is_ref_dtype)


def _product_elements(node: Node, inputs: Sequence[Value]) -> float:
    a, b = inputs
    if a.ndim < 2 or b.ndim < 2:
        return 0.0  # The kernel refuses it.
    rows = a.shape[-1 if node.attrs.get("transpose_a", node.attrs.get("adj_x")) else -2]
    columns = b.shape[-2 if node.attrs.get("transpose_b", node.attrs.get("adj_y")) else -1]
    return float(rows * columns * max(math.prod(a.shape[:-2]), math.prod(b.shape[:-2])))


def _broadcast_elements(node: Node, inputs: Sequence[Value]) -> float:
    x, y = inputs
    if x.shape == y.shape:
        return float(x.size)
    sizes = itertools.zip_longest(reversed(x.shape), reversed(y.shape), fillvalue=1)
    return float(math.prod(max(m, n) for m, n in sizes))


def _gathered_elements(node: Node, inputs: Sequence[Value]) -> float:
    params, indices = inputs[:2]
    return float(indices.size * math.prod(params.shape[1:])) if params.ndim else 0.0


def _sum_elements(node: Node, inputs: Sequence[Value]) -> float:
    return float(sum(value.size for value in inputs))


def _largest_elements(node: Node, inputs: Sequence[Value]) -> float:
    return float(max(value.size for value in inputs))


def _filled_elements(node: Node, inputs: Sequence[Value]) -> float:
    sizes = inputs[0 if node.type == "Fill" else 1].ravel().tolist()
    return float(math.prod(sizes)) if min(sizes, default=0) >= 0 else math.inf


def _segment_elements(node: Node, inputs: Sequence[Value]) -> float:
    rows, width = inputs[-1], math.prod(inputs[0].shape[max(1, inputs[1].ndim) :])
    return float(abs(int(rows)) * width) if rows.size == 1 else math.inf


def _row_gradient_elements(node: Node, inputs: Sequence[Value]) -> float:
    rows, width = inputs[-1], math.prod(inputs[0].shape[1:])
    return float(abs(int(rows)) * width) if rows.size == 1 else math.inf


#: Kernels that ask themselves, once they know how large their outputs are.
_ASKING = frozenset(("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"))

#: How many elements an output has at most, where that is quickly told.
_ELEMENTS: dict[str, Callable[[Node, Sequence[Value]], float]] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2"), _product_elements),
    **dict.fromkeys(("Gather",), _gathered_elements),
    **dict.fromkeys(("Fill", "BroadcastTo"), _filled_elements),
    **dict.fromkeys(
        ("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad"),
        _row_gradient_elements,
    ),
    "UnsortedSegmentSum": _segment_elements,
    **dict.fromkeys(("ConcatV2", "Concat", "Pack"), _sum_elements),
    **dict.fromkeys(("AddN", "Select", "BiasAdd"), _largest_elements),
}


def elements_rule(node: Node) -> Callable[[Node, Sequence[Value]], float] | None:
    """(node, inputs) -> how many elements an output has at most, if that is quickly told."""
    if node.type == "GatherV2":
        axis = node.inputs[2].node
        if axis.type != "Const" or node.attrs.get("batch_dims"):
            return None
        return _gathered_elements if not np.any(axis.attrs["value"]) else None
    if hasattr(node.definition.kernel, "broadcasts"):
        return _broadcast_elements
    return _ELEMENTS.get(node.type)


def may_grow(node: Node) -> bool:
    """Whether an output can be larger than all inputs together."""
    rule = elements_rule(node)
    if node.type in _ASKING:
        return False
    return node.type not in NEVER_LARGER and rule not in (_sum_elements, _largest_elements)


class Fitting:
    """Sizes of a node's inputs for which its outputs are small: a larger one is looked at.

    An output's size is a product of sizes of inputs, and of numbers among them. Where it was seen
    to be far from what matters, it still is when each of these is twice as large.
    """

    __slots__ = ("_numbers", "_shapes")

    def __init__(self) -> None:
        self._shapes: list[tuple[int, ...]] | None = None
        self._numbers: list[float] = []

    def covers(self, inputs: Sequence[Value], deciding: Sequence[int]) -> bool:
        """Whether no input is larger than those that are known."""
        if self._shapes is None:
            return False
        for value, known in zip(inputs, self._shapes, strict=True):
            shape = getattr(value, "shape", ())
            if len(shape) != len(known) or (
                # Numbers that are looked at tell more than those that were not.
                math.prod(shape) <= _MAX_NUMBERS < math.prod(known) >> len(known)
                and value.dtype.kind in "iu"
            ):
                return False
            for size, most in zip(shape, known, strict=True):
                if size > most:
                    return False
        return all(
            _largest(inputs[i]) <= most for i, most in zip(deciding, self._numbers, strict=True)
        )

    def note(self, inputs: Sequence[object], deciding: Sequence[int]) -> None:
        """Notes that the outputs for these inputs are small."""
        self._numbers = [2 * _largest(inputs[i]) for i in deciding]
        self._shapes = [tuple(2 * size for size in getattr(value, "shape", ())) for value in inputs]


def _largest(value: object) -> float:
    """The largest number of an input that may decide a shape; what cannot be told is endless."""
    if type(value) is not np.ndarray or value.dtype.kind not in "iub":
        return math.inf
    # Not `np.abs`: the smallest number of a type has no counterpart in it.
    return max(-float(value.min(initial=0)), float(value.max(initial=0)))


def check_before(
    node: Node, inputs: Sequence[object], deciding: Sequence[int], fitting: Fitting | None = None
) -> None:
    """Checks that an op's outputs can fit, before its kernel runs on these inputs.

    Args:
      node: The op.
      inputs: What its kernel is given.
      deciding: Positions of inputs whose numbers may decide how large an output is.
      fitting: What was found before; what is found now is noted there.

    Raises:
      ResourceExhaustedError: They cannot.
    """
    if node.type in _TAKES_APART or node.type in FIRST_ARGUMENT:
        return  # The nodes of a body are asked themselves.
    exact = elements_rule(node)
    if exact is not None:
        bound: float = exact(node, inputs)
    else:
        bound = _bound(inputs, deciding, _shape_inputs(node, deciding))
    if bound <= _SMALL or (fitting is not None and fitting.covers(inputs, deciding)):
        return
    has_objects = any(dtype.base_dtype.name in _OBJECTS for dtype in node.output_types)
    if bound * ELEMENT_BYTES <= min(_LARGE_BYTES, limits.MEMORY_BYTES.value) and not (
        has_objects and bound > limits.STRING_ELEMENTS.value
    ):
        return
    new = 0
    shapes = _shapes(node, inputs)
    if not shapes and exact is not None and math.isfinite(bound):
        shapes = [TensorShape([int(bound)])]
    for shape, dtype in zip(shapes, node.output_types, strict=False):
        count = shape.num_elements()
        if count is not None:
            new += check_size(count, dtype.base_dtype, shape.as_list())
    check_fits_beside(new)
    # A number that is far larger than what came of it was no size: its opposite may be one.
    largest = max((_largest(inputs[i]) for i in deciding), default=0.0)
    if fitting is not None and max(new, largest) <= _FAR_FROM_LARGE and not has_objects:
        fitting.note(inputs, deciding)


def asker(node: Node, deciding: Sequence[int], fitting: Fitting) -> Callable[..., None]:
    """`check_before` of one node, as a function of its inputs."""
    rule = elements_rule(node)

    def ask(*inputs: object) -> None:
        if rule is None or rule(node, inputs) > _SMALL:
            check_before(node, inputs, deciding, fitting)

    return ask


def size_test(node: Node, names: Sequence[str], most: float) -> str | None:
    """An expression that tells whether an output may have more than `most` elements.

    Args:
      node: The op.
      names: What its inputs are called.
      most: How many.

    Returns:
      The expression; None where nothing better is known than the product of all sizes.
    """
    rule = elements_rule(node)
    if rule is _gathered_elements:
        return f"{names[0]}.size * {names[1]}.size > {most} * len({names[0]})"
    if node.type == "MatMul":
        inner = f"{names[0]}.shape[{0 if node.attrs['transpose_a'] else -1}]"
        return f"{names[0]}.size * {names[1]}.size > {most} * {inner} * {inner}"
    return None


def largest_product(values: Sequence[object]) -> int:
    """What numbers that decide a shape can make of one element."""
    every = range(len(values))
    return math.ceil(_bound(values, every, every))


def check_strings(outputs: Sequence[object]) -> None:
    """Checks that the strings that an op has made are not too long to be handed on.

    An op that doubles a string makes little of a little; a chain of them does not.

    Raises:
      ResourceExhaustedError: They are too long.
    """
    for value in outputs:
        if type(value) is np.ndarray and value.dtype == object and value.size <= _MAX_MEASURED:
            lengths = [len(item) for item in value.ravel().tolist() if type(item) is bytes]
            limits.STRING_LENGTH.check(max(lengths, default=0), "Bytes of a string of the result")
            limits.STRING_BYTES.check(sum(lengths), "Bytes of the strings of the result")


def check_after(node: Node, outputs: Sequence[object]) -> None:
    """Checks that outputs of which only the shapes are there yet can fit.

    Raises:
      ResourceExhaustedError: They cannot.
    """
    for value, dtype in zip(outputs, node.output_types, strict=False):
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple):
            check_size(math.prod(shape), dtype.base_dtype, list(shape))


def check_size(count: int, dtype: DType, shape: list[int | None]) -> int:
    """Checks that a tensor can fit; how many bytes it takes.

    Raises:
      ResourceExhaustedError: It cannot.
    """
    is_object = dtype.name in _OBJECTS
    size = count * (_OBJECT_BYTES if is_object else np.dtype(dtype.as_numpy_dtype).itemsize)
    if count <= _SMALL:
        return size
    text = str(shape).replace(" ", "")
    what = f"OOM when allocating tensor with shape{text} and type {dtype.name}"
    if is_object:
        limits.STRING_ELEMENTS.check(count, f"{what}, in elements")
    limits.MEMORY_BYTES.check(size, f"{what}, in bytes")
    return size


def check_fits_beside(new: int) -> None:
    """Checks that so many bytes fit beside all that this process has.

    Raises:
      ResourceExhaustedError: They do not.
    """
    if new <= _LARGE_BYTES or new * 16 < limits.MEMORY_BYTES.value:
        return  # The system's own limit is near enough.
    held = _resident_bytes()
    limits.MEMORY_BYTES.check(
        held + new, f"OOM: bytes that this task has ({held:,}) and of a new value ({new:,})"
    )


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def check_held(new: int, resources: ResourceStore | None) -> None:
    """Checks that a program's results fit beside the variables that there are.

    Raises:
      ResourceExhaustedError: They do not.
    """
    if new <= 0 or new * 4 < limits.MEMORY_BYTES.value:
        return  # The system's own limit is near enough.
    held = 0
    for _, _, slot in resources.all_of(VariableSlot) if resources is not None else ():
        held += int(getattr(slot.value, "nbytes", 0))
    limits.MEMORY_BYTES.check(
        held + new, f"Bytes of the variables of this task ({held:,}) and of new values ({new:,})"
    )


def out_of_memory(error: BaseException, nodes: Sequence[Node]) -> errors.OpError | None:
    """XLA's complaint about memory as TensorFlow's error, or None if it is another one."""
    text = str(error)
    if "RESOURCE_EXHAUSTED" not in text:
        return None
    names = ", ".join(f"{node.name} ({node.type})" for node in nodes[-3:])
    return errors.ResourceExhaustedError(
        None, None, f"OOM in a program of {len(nodes)} ops that ends with {names}: {text}"
    )


def _shape_inputs(node: Node, deciding: Sequence[int]) -> Collection[int]:
    """Positions of inputs of which each number is a size; other vectors are taken for indices."""
    if node.definition.kind == "pure":
        return deciding
    arguments = node.definition.signature.inputs
    if any(argument.is_list for argument in arguments):
        return ()
    return {i for i, argument in enumerate(arguments) if _SHAPE_NAME.search(argument.name)}


def _bound(inputs: Sequence[object], deciding: Sequence[int], shapes: Collection[int]) -> float:
    """More elements than any output has, unless the op is unlike all others."""
    bound = 1.0
    for value in inputs:
        # Variables, handles and lists of tensors are passed by what they are.
        if (type(value) is np.ndarray or isinstance(value, _ARRAYS)) and value.size > 1:
            bound *= value.size
    for i in deciding:
        value = inputs[i]
        if type(value) is not np.ndarray and (
            isinstance(value, jax.core.Tracer) or not isinstance(value, _ARRAYS)
        ):
            continue
        kind = value.dtype.kind
        if kind not in "iuf" or value.size > (_MAX_NUMBERS if i in shapes else 1):
            continue
        for number in np.asarray(value).ravel().tolist():
            number = abs(number)
            if kind == "f" and 0 < number < 1:
                number = 1 / number  # the step of a range
            if number > 1:
                bound *= number
    return bound


def _shapes(node: Node, inputs: Sequence[Value]) -> list[TensorShape]:
    """The outputs' shapes by the op's own rule; none where it cannot tell.

    Raises:
      InvalidArgumentError: The rule refuses the inputs of a pure op: a kernel that is not as strict
        would make what nobody has asked for.
    """
    graph = Graph()
    try:
        tensors = []
        for value, edge in zip(inputs, node.inputs, strict=True):
            dtype = edge.dtype.base_dtype
            if isinstance(value, np.ndarray | np.generic) and value.size <= _MAX_NUMBERS:
                attrs = {"value": np.asarray(value), "dtype": dtype}
                tensors.append(graph.create_op("Const", [], [dtype], attrs=attrs).outputs[0])
            else:
                attrs = {"shape": TensorShape(list(value.shape)), "dtype": dtype}
                tensors.append(graph.create_op("Placeholder", [], [dtype], attrs=attrs).outputs[0])
        types = [dtype.base_dtype for dtype in node.output_types]
        made = graph.create_op(node.type, tensors, types, attrs=dict(node.attrs))
    except ValueError as error:
        if node.definition.kind == "pure" and not node.type.startswith("_"):
            raise errors.InvalidArgumentError(None, None, str(error)) from None
        return []
    except Exception:
        return []  # The kernel will say what is wrong.
    return [tensor.shape for tensor in made.outputs]
