"""`tf.Variable`: what reference and resource variables have in common.

Calling ``Variable(...)`` itself goes through the creators that `variable_creator_scope` has
put on the graph, down to the default creator (see `variable_scope`), which chooses between
`RefVariable` and `ResourceVariable`. A variable belongs to the outermost graph: it is made
outside of conditionals, loops and control dependencies.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any

from tensorboard.compat.proto import variable_pb2

from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph import stacks
from millrace.graph.collection_protos import prepend_name_scope, strip_name_scope
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph, name_scope
from millrace.graph.graph import Graph
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import OVERLOADABLE, Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import join as array_join
from millrace.ops.array import shape as array_shape
from millrace.ops.control_flow import control_flow
from millrace.ops.math import numeric

__all__ = ["Variable", "VariableAggregation", "VariableSynchronization", "variable_creator_scope"]

#: (next_creator, **arguments of Variable) -> variable
Creator = Callable[..., Any]

#: Collection key of a graph's creators; no string, so that it is nobody's collection.
_CREATORS = ("__variable_creators",)


class VariableSynchronization(enum.Enum):
    """When a distributed variable's copies are brought together."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(enum.Enum):
    """How a distributed variable's copies are combined."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3


class _Creation:
    """Holds the creator that ends every chain; `variable_scope` sets it."""

    default: Creator | None = None


def set_default_creator(creator: Creator) -> None:
    """States what makes a variable when no creator scope does."""
    _Creation.default = creator


@contextlib.contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Variables made inside go through ``variable_creator(next_creator, **kwargs)``."""
    creators = get_default_graph().get_collection_ref(_CREATORS)
    creators.append(variable_creator)
    try:
        yield
    finally:
        if creators.pop() is not variable_creator:
            raise RuntimeError(
                "Exiting variable_creator_scope without proper nesting: another scope that was "
                "entered inside is still open."
            )


def create_variable(**kwargs: Any) -> Any:
    """A variable, made by the graph's creators and in the end by the default one."""
    assert _Creation.default is not None
    creator: Creator = lambda **kw: _Creation.default(None, **kw)  # type: ignore[misc] # noqa: E731
    for outer in get_default_graph().get_collection(_CREATORS):
        creator = _chained(outer, creator)
    return creator(**kwargs)


def _chained(outer: Creator, inner: Creator) -> Creator:
    return lambda **kwargs: outer(inner, **kwargs)


class _VariableMetaclass(type):
    """Makes ``Variable(...)`` a request for either flavour."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Variable:
            return _request(*args, **kwargs)
        return super().__call__(*args, **kwargs)


def _request(
    initial_value: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    validate_shape: bool = True,
    caching_device: Any = None,
    name: str | None = None,
    variable_def: Any = None,
    dtype: Any = None,
    expected_shape: Any = None,
    import_scope: str | None = None,
    constraint: Any = None,
    use_resource: bool | None = None,
    synchronization: VariableSynchronization = VariableSynchronization.AUTO,
    aggregation: VariableAggregation = VariableAggregation.NONE,
    shape: Any = None,
) -> Any:
    return create_variable(
        initial_value=initial_value,
        trainable=trainable,
        collections=collections,
        validate_shape=validate_shape,
        caching_device=caching_device,
        name=name,
        variable_def=variable_def,
        dtype=dtype,
        expected_shape=expected_shape,
        import_scope=import_scope,
        constraint=constraint,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
        shape=shape,
    )


class SaveSliceInfo:
    """Which part of a larger tensor a variable holds, for checkpoints.

    Attributes:
      full_name: Name of the whole.
      full_shape: Shape of the whole.
      var_offset: Where the part begins.
      var_shape: Shape of the part.
    """

    def __init__(
        self,
        full_name: str | None = None,
        full_shape: Any = None,
        var_offset: Any = None,
        var_shape: Any = None,
        save_slice_info_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if save_slice_info_def is not None:
            from_message = save_slice_info_def
            full_name = prepend_name_scope(from_message.full_name, import_scope)
            full_shape = list(from_message.full_shape)
            var_offset = list(from_message.var_offset)
            var_shape = list(from_message.var_shape)
        self.full_name = full_name
        self.full_shape = full_shape
        self.var_offset = var_offset
        self.var_shape = var_shape

    @property
    def spec(self) -> str:
        """The part as checkpoints write it: ``"4 2 0,2:0,2"``."""
        sizes = " ".join(str(d) for d in self.full_shape)
        parts = ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape, strict=True))
        return f"{sizes} {parts}"

    def to_proto(self, export_scope: str | None = None) -> Any:
        """As a SaveSliceInfoDef message, or None when it is not under `export_scope`."""
        name = self.full_name or ""
        if export_scope is not None:
            if not name.startswith(export_scope):
                return None
            name = strip_name_scope(name, export_scope)
        return variable_pb2.SaveSliceInfoDef(
            full_name=name,
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )


class Variable(metaclass=_VariableMetaclass):
    """A value that outlives the step: read it like a tensor, change it with `assign`.

    Args (of ``Variable(...)``):
      initial_value: A tensor, what converts to one, or a function of no arguments that
        gives it (then it is built where the variable is).
      trainable: Whether it is in the TRAINABLE_VARIABLES collection.
      collections: Collections that it is added to; GLOBAL_VARIABLES when None.
      validate_shape: False allows values of any shape.
      caching_device: Where reads are cached.
      name: Its name; made unique.
      variable_def: A VariableDef message to recreate it from, instead.
      dtype: Its type; that of the initial value when None.
      expected_shape: Ignored; TensorFlow has it.
      import_scope: A name scope that the names in `variable_def` are under.
      constraint: Applied to the value after every update by an optimizer.
      use_resource: Which flavour; that of the variable scope when None.
      synchronization, aggregation: Kept, for distribution strategies.
      shape: Its static shape; that of the initial value when None.
    """

    #: NumPy must leave `ndarray + variable` to us.
    __array_priority__ = 100
    SaveSliceInfo = SaveSliceInfo

    _name: str
    _initial_value: Any
    _initializer_op: Any
    _constraint: Any
    _trainable: bool
    _synchronization: VariableSynchronization
    _aggregation: VariableAggregation
    _save_slice_info: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("Variable(...) makes a flavour of itself")

    # -- What both flavours provide --------------------------------------------------------

    @property
    def dtype(self) -> dtypes.DType:
        """The type; a reference type for a reference variable."""
        raise NotImplementedError

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        raise NotImplementedError

    @property
    def op(self) -> Operation:
        """The operation that is the variable."""
        raise NotImplementedError

    def value(self) -> Tensor:
        """The last snapshot of the value."""
        raise NotImplementedError

    def read_value(self) -> Tensor:
        """The value read here: after what this place in the program depends on."""
        raise NotImplementedError

    def _as_graph_element(self) -> Tensor:
        raise NotImplementedError

    def _change(self, kind: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        """Adds the node that makes a change, and gives what stands for the changed variable.

        Args:
          kind: Name of the change without its flavour, such as ``ScatterAdd``.
          inputs: Further inputs of the node.
          name: The node's name.
          attrs: Attributes that the flavour keeps if its op type has them.
        """
        raise NotImplementedError

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Replaces the value.

        Returns:
          A tensor (or variable) with the new value; the operation if `read_value` is False.
        """
        raise NotImplementedError

    def assign_add(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Adds to the value; see `assign` for what it returns."""
        raise NotImplementedError

    def assign_sub(
        self,
        delta: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Any:
        """Subtracts from the value; see `assign` for what it returns."""
        raise NotImplementedError

    # -- Questions ---------------------------------------------------------------------------

    #: Under these names libraries written for TensorFlow 1 look into a variable: it belongs to a
    #: graph, and to no strategy that copies it to several devices.
    _in_graph_mode = True
    _distribute_strategy = None

    @property
    def _handle_name(self) -> str:
        return self.name

    @property
    def _unique_id(self) -> str:
        return self._shared_name

    def _AsTensor(self) -> Any:
        return self.value()

    @property
    def name(self) -> str:
        """The name, ``operation:0``."""
        return self._name

    @property
    def _shared_name(self) -> str:
        return self._name.partition(":")[0]

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device that was asked for."""
        return self.op.device

    @property
    def initializer(self) -> Operation:
        """The operation that gives it its initial value."""
        result: Operation = self._initializer_op
        return result

    @property
    def initial_value(self) -> Any:
        """The tensor that it is initialised with."""
        return self._initial_value

    @property
    def constraint(self) -> Any:
        """The function applied to the value after an optimizer's update, or None."""
        return self._constraint

    @property
    def trainable(self) -> bool:
        """Whether optimizers train it."""
        return self._trainable

    @property
    def synchronization(self) -> VariableSynchronization:
        """As given."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """As given."""
        return self._aggregation

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def eval(self, session: Any = None) -> Any:
        """The value in `session`, or in the default session."""
        return self._as_graph_element().eval(session=session)

    def initialized_value(self) -> Tensor:
        """The value, or the initial value while the variable is not initialised.

        For the initial value of another variable: it does not matter then which of the two
        is initialised first.
        """
        graph = get_default_graph()
        # The branch looks into the variable, so it goes where that is.
        with graph.control_dependencies(None), graph.device(self.device):
            result: Tensor = control_flow.cond(
                self._is_initialized(), self.read_value, lambda: self.initial_value
            )
            return result

    def _is_initialized(self, name: str | None = None) -> Tensor:
        raise NotImplementedError

    # -- Changes -----------------------------------------------------------------------------

    def load(self, value: Any, session: Any = None) -> None:
        """Sets the value in a session without adding to the graph.

        Raises:
          ValueError: There is no session.
        """
        session = session or stacks.sessions.get()
        if session is None:
            raise ValueError(
                "Either session argument should be provided or default session should be "
                "established"
            )
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    def scatter_add(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Adds an IndexedSlices."""
        return self._scatter("Add", sparse_delta, use_locking, name)

    def scatter_sub(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Subtracts an IndexedSlices."""
        return self._scatter("Sub", sparse_delta, use_locking, name)

    def scatter_mul(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Multiplies rows by an IndexedSlices."""
        return self._scatter("Mul", sparse_delta, use_locking, name)

    def scatter_div(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Divides rows by an IndexedSlices."""
        return self._scatter("Div", sparse_delta, use_locking, name)

    def scatter_min(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """The lesser of rows and an IndexedSlices."""
        return self._scatter("Min", sparse_delta, use_locking, name)

    def scatter_max(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """The greater of rows and an IndexedSlices."""
        return self._scatter("Max", sparse_delta, use_locking, name)

    def scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Replaces rows by an IndexedSlices."""
        return self._scatter("Update", sparse_delta, use_locking, name)

    def _scatter(self, kind: str, delta: Any, use_locking: bool, name: str | None) -> Any:
        if not isinstance(delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {delta}")
        return self._change(
            f"Scatter{kind}", delta.indices, delta.values, name=name, use_locking=use_locking
        )

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replaces the elements or slices at coordinates."""
        return self._change("ScatterNdUpdate", indices, updates, name=name, use_locking=True)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Adds to the elements or slices at coordinates."""
        return self._change("ScatterNdAdd", indices, updates, name=name, use_locking=True)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtracts from the elements or slices at coordinates."""
        return self._change("ScatterNdSub", indices, updates, name=name, use_locking=True)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """The lesser of the elements or slices at coordinates and `updates`."""
        return self._change("ScatterNdMin", indices, updates, name=name, use_locking=True)

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """The greater of the elements or slices at coordinates and `updates`."""
        return self._change("ScatterNdMax", indices, updates, name=name, use_locking=True)

    def batch_scatter_update(
        self, sparse_delta: Any, use_locking: bool = False, name: str | None = None
    ) -> Any:
        """Replaces ``self[b, indices[b, j]]`` for all leading positions b."""
        if not isinstance(sparse_delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {sparse_delta}")
        return batch_scatter_update(
            self, sparse_delta.indices, sparse_delta.values, use_locking, name
        )

    def count_up_to(self, limit: int) -> Any:
        """The value before it is incremented; OutOfRangeError once it is `limit`."""
        raise NotImplementedError

    # -- Messages ----------------------------------------------------------------------------

    def to_proto(self, export_scope: str | None = None) -> Any:
        """As a VariableDef message, or None when it is not under `export_scope`."""
        raise NotImplementedError

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Any:
        """The variable that a VariableDef message describes, in the current graph."""
        return Variable(
            variable_def=variable_def,
            import_scope=import_scope,
            use_resource=variable_def.is_resource,
        )

    def _set_save_slice_info(self, save_slice_info: Any) -> None:
        self._save_slice_info = save_slice_info

    def _get_save_slice_info(self) -> Any:
        return self._save_slice_info

    # -- As a value --------------------------------------------------------------------------

    def _as_tensor(self) -> Tensor:
        return self.value()

    def __getitem__(self, key: Any) -> Tensor:
        value: Any = self.value()
        part: Tensor = value[key]
        if part.op.type == "StridedSlice":
            part.assign = _SliceAssigner(self, part.op)
        return part

    def __iter__(self) -> Iterator[Tensor]:
        raise TypeError("'Variable' object is not iterable.")

    __hash__ = object.__hash__  # No call into Python: they are keys of every step.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


class _SliceAssigner:
    """``v[1:3].assign``: replaces the slice of the variable."""

    def __init__(self, variable: Variable, op: Operation) -> None:
        self._variable = variable
        self._op = op

    def __call__(self, value: Any, name: str | None = None) -> Any:
        begin, end, strides = self._op.inputs[1:4]
        masks = {k: v for k, v in self._op.attrs.items() if k.endswith("_mask")}
        # The trailing slash: exactly this name, wherever in the program this is called.
        with name_scope(None):
            return self._variable._change(
                "StridedSliceAssign",
                begin,
                end,
                strides,
                value,
                name=name or f"{self._op.name}/_assign",
                **masks,
            )


def _forwarded(operator: str) -> Callable[..., Any]:
    def run(self: Variable, *args: Any) -> Any:
        return getattr(Tensor, operator)(self._as_tensor(), *args)

    run.__name__ = operator
    return run


for _operator in OVERLOADABLE - {"__getitem__"}:
    setattr(Variable, _operator, _forwarded(_operator))


# -- Arguments of both flavours --------------------------------------------------------------


def checked_collections(collections: Any, trainable: bool) -> list[Any]:
    """The collections that a new variable joins.

    Raises:
      ValueError: `collections` is no list.
    """
    if collections is None:
        collections = [GraphKeys.GLOBAL_VARIABLES]
    if not isinstance(collections, list | tuple | set):
        raise ValueError(
            "collections argument to Variable constructor must be a list, tuple, or set. "
            f"Got {collections} of type {type(collections)}"
        )
    names = list(collections)
    if trainable and GraphKeys.TRAINABLE_VARIABLES not in names:
        names.append(GraphKeys.TRAINABLE_VARIABLES)
    return names


def checked_arguments(initial_value: Any, constraint: Any, name: str | None) -> None:
    """Refuses a missing or misplaced initial value and a constraint that is no function.

    Raises:
      ValueError: One of them is.
    """
    if initial_value is None:
        raise ValueError("initial_value must be specified.")
    if constraint is not None and not callable(constraint):
        raise ValueError("The `constraint` argument must be a callable.")
    if isinstance(initial_value, Tensor) and initial_value.graph is not get_default_graph():
        inside = getattr(initial_value.graph, "outer", None) is not None
        if inside:
            raise ValueError(
                f"Initializer for variable {name or 'Variable'} is from inside a control-flow "
                "construct, such as a loop or conditional. When creating a variable inside a "
                "loop or conditional, use a lambda as the initializer."
            )


def is_trainable(trainable: bool | None, synchronization: VariableSynchronization) -> bool:
    """Whether a variable is trained: as asked, and by default unless it is read-combined."""
    if trainable is None:
        return synchronization is not VariableSynchronization.ON_READ
    return trainable


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replaces ``ref[b, indices[b, j]]`` by ``updates[b, j]`` for all leading positions b."""
    with name_scope(name, "batch_scatter_update", [indices, updates]):
        indices = convert_to_tensor(indices, name="indices")
        depth = indices.shape.ndims
        if depth is None:
            raise ValueError("batch_scatter_update needs indices of known rank")
        # Each index becomes full coordinates: its leading positions, then itself.
        sizes = array_shape.shape(indices, out_type=indices.dtype)
        zeros = array_fill.zeros_like(indices)
        coordinates = []
        for axis in range(depth - 1):
            steps = numeric.range(sizes[axis], dtype=indices.dtype)
            column = array_shape.reshape(steps, [-1 if i == axis else 1 for i in range(depth)])
            coordinates.append(column + zeros)
        full = array_join.stack([*coordinates, indices], axis=-1)
        return ref.scatter_nd_update(full, updates)
