"""A symbolic value: one output of an operation.

Arithmetic operators are attached by `ops` through `Tensor.overload`, so that this module
needs no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from millrace.core import errors
from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, as_shape, merge_shapes, unknown_shape
from millrace.graph import stacks

if TYPE_CHECKING:
    from millrace.graph.graph import Graph
    from millrace.graph.operation import Operation

OVERLOADABLE = frozenset(
    f"__{name}__"
    for name in (
        "add radd sub rsub mul rmul div rdiv truediv rtruediv floordiv rfloordiv mod rmod lt le "
        "gt ge and rand or ror xor rxor getitem pow rpow invert neg abs matmul rmatmul"
    ).split()
)


class Tensor:
    """One output of an `Operation`.

    Attributes:
      op: The operation that makes the value.
      value_index: Which of its outputs this is.
      dtype: Element type; a reference type for a variable's own output.
    """

    __slots__ = (
        #: Libraries hang their own notes on tensors: an alias, the layer that made it, a mask.
        "__dict__",
        "__weakref__",
        "_consumers",
        "_shape",
        #: Set on a slice of a variable: ``v[2:4].assign(value)``.
        "assign",
        "dtype",
        "graph",
        "handle_data",
        "op",
        "value_index",
    )
    #: NumPy must leave `ndarray + tensor` to us.
    __array_priority__: ClassVar[int] = 100
    #: Libraries give classes of their own the operators that tensors have.
    OVERLOADABLE_OPERATORS: ClassVar[set[str]] = set(OVERLOADABLE)

    assign: Any

    def __init__(self, op: Operation, value_index: int, dtype: DType) -> None:
        self.op = op
        self.graph: Graph = op.graph
        self.value_index = value_index
        self.dtype = dtype
        self._shape: TensorShape = unknown_shape()
        self._consumers: list[Operation] = []
        #: (shape, dtype) of the variable behind a resource handle, where known.
        self.handle_data: tuple[TensorShape, DType] | None = None

    if TYPE_CHECKING:
        # `ops` attaches these through `overload`.
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __rfloordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __rmod__(self, other: Any) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __rand__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __ror__(self, other: Any) -> Any: ...
        def __xor__(self, other: Any) -> Any: ...
        def __rxor__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __rpow__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __rmatmul__(self, other: Any) -> Any: ...
        def __getitem__(self, other: Any) -> Any: ...
        def __invert__(self) -> Any: ...
        def __neg__(self) -> Any: ...
        def __abs__(self) -> Any: ...

    @classmethod
    def overload(cls, operator: str, function: Callable[..., Any]) -> None:
        """Makes `function` the meaning of a Python operator on tensors."""
        if operator not in OVERLOADABLE:
            raise ValueError(f"Overloading {operator} is not allowed")
        setattr(cls, operator, function)

    @property
    def name(self) -> str:
        """The name, ``operation:index``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def device(self) -> str:
        """The device of the operation that makes this tensor."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """The static shape, as far as it is known."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Merges what is known of the shape with `shape`."""
        self._shape = merge_shapes(self._shape, as_shape(shape))

    # Under these names libraries written for TensorFlow 1 look into a tensor.

    @property
    def _op(self) -> Operation:
        return self.op

    @property
    def _value_index(self) -> int:
        return self.value_index

    @property
    def _dtype(self) -> DType:
        return self.dtype

    @property
    def _id(self) -> int:
        return id(self)

    def _rank(self) -> int | None:
        return self.shape.ndims

    def _shape_tuple(self) -> tuple[int | None, ...] | None:
        return None if self.shape.ndims is None else tuple(self.shape.as_list())

    def _as_node_def_input(self) -> str:
        """The tensor's name as an input of a node: without ``:0``."""
        return self.name.removesuffix(":0")

    def consumers(self) -> list[Operation]:
        """The operations that read this tensor."""
        return list(self._consumers)

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Runs what this tensor needs in `session`, or in the default session."""
        return stacks.session_for(session, self.graph, "Tensor").run(self, feed_dict)

    def __iter__(self) -> Iterator[Tensor]:
        raise errors.OperatorNotAllowedInGraphError(
            f"Tensor object {self.name!r} is not iterable when eager execution is not enabled. "
            "To iterate over this tensor use tf.map_fn, or tf.unstack if its first dimension is "
            "known."
        )

    def __len__(self) -> int:
        raise TypeError(
            f"len is not well defined for symbolic Tensors ({self.name}). Please call "
            "`x.shape` rather than `len(x)` for shape information."
        )

    def __bool__(self) -> bool:
        raise errors.OperatorNotAllowedInGraphError(
            f"Using a `tf.Tensor` ({self.name}) as a Python `bool` is not allowed. Use "
            "`if t is not None:` instead of `if t:` to test if a tensor is defined, and use "
            "TensorFlow ops such as tf.cond to execute subgraphs conditioned on the value of "
            "a tensor."
        )

    __nonzero__ = __bool__  # Python 2's name, which libraries copy.

    __hash__ = object.__hash__  # No call into Python: they are keys of every step.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __copy__(self) -> Tensor:
        return self

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotImplementedError(
            f"Cannot convert a symbolic Tensor ({self.name}) to a numpy array."
        )

    def _as_tensor(self) -> Tensor:
        return self

    def __str__(self) -> str:
        shape = f", shape={self._shape}" if self._shape.ndims is not None else ""
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'

    def __repr__(self) -> str:
        return f"<tf.Tensor '{self.name}' shape={self._shape} dtype={self.dtype.name}>"
