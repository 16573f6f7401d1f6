"""A dataflow graph under construction: names, scopes, devices, collections, operations.

Invariants: a name, once given, is never given again; operations are never removed; the
order of `_id` is the order of creation. Nothing here runs anything.
"""

from __future__ import annotations

import contextlib
import copy
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tensorboard.compat.proto import attr_value_pb2, graph_pb2, node_def_pb2, versions_pb2

from millrace.core import device_spec
from millrace.core.dtypes import DType
from millrace.graph import attributes, registry, shape_inference, stacks, thread_scopes
from millrace.graph.operation import Operation
from millrace.graph.signature import Signature
from millrace.graph.tensor import Tensor

#: What we write into GraphDef.versions: what TensorFlow 1.15 wrote.
GRAPH_DEF_VERSION = 134
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
GRAPH_DEF_VERSION_MIN_PRODUCER = 0

_VALID_OP_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE_NAME = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")


class _ControlDependencies:
    """One ``with graph.control_dependencies(...)`` block.

    An operation created inside depends on `controllers`, unless one of its inputs was
    created inside too (then it depends on them already).
    """

    def __init__(self, graph: Graph, controllers: list[Operation] | None) -> None:
        self._graph = graph
        self.controllers = controllers or []
        #: ``control_dependencies(None)`` hides all outer blocks and control-flow contexts.
        self.clears = controllers is None
        self._seen: set[Operation] = set()
        self._outer_stack: list[_ControlDependencies] = []
        self._outer_context: Any = None

    def __enter__(self) -> _ControlDependencies:
        graph = self._graph
        if self.clears:
            self._outer_stack = graph._control_stack
            graph._control_stack = []
            self._outer_context = graph._control_flow_context
            graph._control_flow_context = None
        graph._control_stack.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        graph = self._graph
        graph._control_stack.remove(self)
        if self.clears:
            graph._control_stack = self._outer_stack
            graph._control_flow_context = self._outer_context

    def add_op(self, op: Operation) -> None:
        self._seen.add(op)

    def op_in_group(self, op: Operation) -> bool:
        return op in self._seen


class Graph:
    """Operations and tensors, and the scopes that apply to those made next."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._ops: dict[str, Operation] = {}
        self._names_in_use: dict[str, int] = {}
        self._name_scope_prefix = ""
        self._device_stack: list[Any] = []
        #: The device stack around all `colocate_with` blocks; None outside of them.
        self._outside_devices: list[Any] | None = None
        self._control_stack: list[_ControlDependencies] = []
        self._control_flow_context: Any = None
        self._colocation_stack: list[Operation] = []
        self._container = ""
        self._attr_scopes: dict[str, Any] = {}
        self._gradient_overrides: dict[str, str] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Any] = set()
        self._finalized = False
        self._seed: int | None = None
        #: Whether it is a server's copy of a client's: its operations do not note which line has
        #: made them, and nobody looks into it once what holds it has let go of it.
        self._is_clients = False
        #: Counts edits of existing operations: plans made before one are stale.
        self._edit_count = 0
        self._graph_def_versions = versions_pb2.VersionDef(
            producer=GRAPH_DEF_VERSION, min_consumer=GRAPH_DEF_VERSION_MIN_CONSUMER
        )
        #: Functions (see `graph.function`) that operations of this graph refer to, by name.
        self._functions: dict[str, Any] = {}

    # -- Operations --------------------------------------------------------------------

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[DType] | None = None,
        input_types: Sequence[DType] | None = None,
        name: str | None = None,
        attrs: dict[str, Any] | None = None,
        op_def: Any = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Adds an operation.

        Most callers want the op's own function; this is what it ends in.

        Args:
          op_type: A registered op type.
          inputs: Its tensors, flattened.
          dtypes: Output types; inferred from the signature when None.
          input_types: Unused; TensorFlow has it.
          name: Name wanted; made unique. A trailing slash means: exactly this name.
          attrs: Attribute values, as stored values or AttrValue messages.
          op_def: Unused; TensorFlow has it.
          compute_shapes: Unused; shapes are always inferred.
          compute_device: Whether device functions apply.

        Raises:
          ValueError: A shape or name is wrong.
        """
        self._check_not_finalized()
        definition = registry.lookup(op_type)
        for i, tensor in enumerate(inputs):
            if not isinstance(tensor, Tensor):
                raise TypeError(f"Input #{i} is not a tensor: {tensor!r}")
        inputs = [self._adopt(tensor) for tensor in inputs]
        if name is None:
            name = op_type
        if name.endswith("/"):
            name = name[:-1]
            if name in self._ops:
                name = self.unique_name(name)
        else:
            name = self.unique_name(name)
        if not _VALID_OP_NAME.match(name):
            raise ValueError(f"'{name}' is not a valid node name")
        stored = definition.signature.complete(attrs or {})
        for key, value in self._attr_scopes.items():
            if key == "_class" and self._colocation_stack:
                continue  # colocation that is asked for goes before colocation by attribute
            if callable(value):
                value = value(node_preview(name, op_type))
            if isinstance(value, attr_value_pb2.AttrValue):
                value = attributes.from_proto(value)
            if value is not None and key not in stored:
                stored[key] = value
        if self._container and definition.is_stateful and stored.get("container") == b"":
            stored["container"] = self._container.encode()
        output_types = dtypes if dtypes is not None else definition.signature.output_types(stored)
        _check_input_types(definition.signature, stored, inputs, name)
        input_ops = {tensor.op for tensor in inputs}
        with self._lock:
            controls = self._control_inputs_for(input_ops)
            op = Operation(
                self, definition, name, inputs, controls, stored, output_types, len(self._ops)
            )
            try:
                shape_inference.infer(op)
            except Exception:
                self._discard([op])
                raise
            if self._control_flow_context is not None:
                op._control_flow_context = self._control_flow_context
            self._ops[name] = op
            self._names_in_use.setdefault(name.lower(), 1)
            self._apply_gradient_override(op)
            self._place(op, compute_device)
            if op._control_flow_context is not None:
                op._control_flow_context.add_op(op)
            for block in self._control_stack:
                block.add_op(op)
        return op

    def _discard(self, ops: Sequence[Operation]) -> None:
        """Lets the operations that some take their inputs from forget these."""
        gone = set(ops)
        for tensor in {tensor for op in ops for tensor in op._inputs}:
            tensor._consumers[:] = [op for op in tensor._consumers if op not in gone]
        for controller in {controller for op in ops for controller in op._control_inputs}:
            controller._control_outputs[:] = [
                op for op in controller._control_outputs if op not in gone
            ]

    def take_apart(self) -> None:
        """Lets go of all operations, of which most refer to each other; the graph is used no more.

        They go one by one: a graph that is dropped as a whole goes in one call, in which no other
        thread runs, or waits for the collector of cyclic garbage.
        """
        for op in self._ops.values():
            op._inputs, op._control_inputs, op._control_outputs = [], [], []
            op._original_op = op._control_flow_context = None
            op.outputs = []
        while self._ops:
            self._ops.popitem()
        self._functions.clear()  # Each takes itself apart when nobody calls it any more.

    def _apply_device_functions(self, op: Any) -> None:
        """Gives an operation (or what looks like one) the device that is asked for now."""
        for device in reversed(self._device_stack):
            if device is None:
                break
            op._set_device(device(op))

    def _place(self, op: Operation, compute_device: bool) -> None:
        if compute_device:
            self._apply_device_functions(op)
        if self._colocation_stack:
            groups: set[bytes] = set(op.attrs.get("_class", ()))
            for other in self._colocation_stack:
                groups.update(other.colocation_groups())
                if other.device:
                    op._set_device(other.device)
            op.attrs["_class"] = sorted(groups)

    def _apply_gradient_override(self, op: Operation) -> None:
        override = self._gradient_overrides.get(op.type)
        if override is not None and "_gradient_op_type" not in op.attrs:
            op.attrs["_gradient_op_type"] = override.encode()

    def _control_inputs_for(self, input_ops: set[Operation]) -> list[Operation]:
        result: dict[Operation, None] = {}
        for block in self._control_stack:
            if any(block.op_in_group(op) for op in input_ops):
                continue
            for controller in block.controllers:
                if controller not in input_ops:
                    result[controller] = None
        return list(result)

    def _adopt(self, tensor: Tensor) -> Tensor:
        """The tensor to use as an input here; a function's graph captures outer ones."""
        if tensor.graph is not self:
            raise ValueError(f"{tensor!r} is not from the passed-in graph.")
        return tensor

    # Under these names libraries written for TensorFlow 1 look into a graph.

    @property
    def _nodes_by_name(self) -> dict[str, Operation]:
        return self._ops

    @property
    def _nodes_by_id(self) -> dict[int, Operation]:
        return {op._id: op for op in self._ops.values()}

    @property
    def _last_id(self) -> int:
        return max((op._id for op in self._ops.values()), default=0)

    @property
    def _version(self) -> int:
        return self.version

    @property
    def _name_stack(self) -> str:
        return self.get_name_scope()

    def _is_function(self, name: str) -> bool:
        return name in self._functions

    def _get_function(self, name: str) -> Any:
        return self._functions.get(name)

    def switch_to_thread_local(self) -> None:
        """Gives each thread its own stacks of devices, colocation and control dependencies.

        Every thread begins with what they are now.
        """
        thread_scopes.separate(self)

    @property
    def building_function(self) -> bool:
        """Whether this is the graph of a function."""
        return False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def _note_change(self) -> None:
        self._edit_count += 1

    @property
    def version(self) -> int:
        """A number that grows as operations are added."""
        return len(self._ops)

    @property
    def graph_def_versions(self) -> versions_pb2.VersionDef:
        """The producer and consumer versions for GraphDef."""
        return self._graph_def_versions

    @property
    def seed(self) -> int | None:
        """The graph-level random seed."""
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed

    @property
    def finalized(self) -> bool:
        """Whether the graph is read-only."""
        return self._finalized

    def finalize(self) -> None:
        """Makes the graph read-only."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def get_operations(self) -> list[Operation]:
        """All operations in the order of creation."""
        return list(self._ops.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation called `name`.

        Raises:
          TypeError: `name` is not a string.
          KeyError: There is none.
        """
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        element = self.as_graph_element(name, allow_tensor=False, allow_operation=True)
        assert isinstance(element, Operation)
        return element

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor called `name` (``operation:index``)."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        element = self.as_graph_element(name, allow_tensor=True, allow_operation=False)
        assert isinstance(element, Tensor)
        return element

    def as_graph_element(
        self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True
    ) -> Tensor | Operation:
        """The tensor or operation that `obj` (an object or a name) denotes.

        Raises:
          TypeError: `obj` is of a kind that cannot denote what is allowed.
          ValueError: `obj` is a malformed name, or of another graph.
          KeyError: Nothing has that name.
        """
        if allow_tensor and allow_operation:
            types_text = "Tensor or Operation"
        elif allow_tensor:
            types_text = "Tensor"
        elif allow_operation:
            types_text = "Operation"
        else:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None and (element := convert()) is not None:
            obj = element
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation)
        if isinstance(obj, Tensor) and allow_tensor:
            if obj.graph is not self:
                raise ValueError(f"Tensor {obj} is not an element of this graph.")
            return obj
        if isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(f"Operation {obj!r} is not an element of this graph.")
            return obj
        raise TypeError(f"Can not convert a {type(obj).__name__} into a {types_text}.")

    def _element_by_name(
        self, name: str, allow_tensor: bool, allow_operation: bool
    ) -> Tensor | Operation:
        if ":" in name:
            if not allow_tensor:
                raise ValueError(f"Name {name!r} appears to refer to a Tensor, not an Operation.")
            op_name, _, index_text = name.rpartition(":")
            if not index_text.isdigit() or ":" in op_name:
                raise ValueError(
                    f"The name {name!r} looks a like a Tensor name, but is not a valid one. "
                    'Tensor names must be of the form "<op_name>:<output_index>".'
                )
            op = self._ops.get(op_name)
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                    f"{op_name!r}, does not exist in the graph."
                )
            index = int(index_text)
            if index >= len(op.outputs):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, "
                    f"{op_name!r}, exists but only has {len(op.outputs)} outputs."
                )
            return op.outputs[index]
        op = self._ops.get(name)
        if not allow_operation:
            form = 'Tensor names must be of the form "<op_name>:<output_index>"'
            if op is None:
                raise ValueError(
                    f"The name {name!r} looks like an (invalid) Operation name, not a "
                    f"Tensor. {form}."
                )
            raise ValueError(
                f'The name {name!r} refers to an Operation, not a Tensor. {form}: is it "{name}:0"?'
            )
        if op is None:
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        return op

    def is_feedable(self, tensor: Any) -> bool:
        """Whether the tensor may be fed."""
        return tensor not in self._unfeedable

    def prevent_feeding(self, tensor: Any) -> None:
        """Marks `tensor` as not feedable."""
        self._unfeedable.add(tensor)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether the element may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return tensor_or_op not in self._unfetchable and op not in self._unfetchable

    def prevent_fetching(self, op: Any) -> None:
        """Marks `op` as not fetchable."""
        self._unfetchable.add(op)

    # -- Names -------------------------------------------------------------------------

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """A name that no operation or scope has, made from `name` in the current scope."""
        if self._name_scope_prefix:
            name = f"{self._name_scope_prefix}/{name}"
        # Names differ by more than case, as TensorFlow's do.
        key = name.lower()
        count = self._names_in_use.get(key, 0)
        if mark_as_used:
            self._names_in_use[key] = count + 1
        if count:
            base = name
            while key in self._names_in_use:
                name = f"{base}_{count}"
                key = name.lower()
                count += 1
            if mark_as_used:
                self._names_in_use[key] = 1
                self._names_in_use[base.lower()] = count
        return name

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Puts operations created inside under `name` (made unique).

        A name with a trailing slash re-enters an existing scope; None or an empty string
        goes back to the root.
        """
        if name:
            if isinstance(name, bytes):
                name = name.decode()
            valid = _VALID_SCOPE_NAME if self._name_scope_prefix else _VALID_OP_NAME
            if not valid.match(name):
                kind = "scope" if self._name_scope_prefix else "root scope"
                raise ValueError(
                    f"'{name}' is not a valid {kind} name. A {kind} name has to match the "
                    f"following pattern: {valid.pattern}"
                )
        outer = self._name_scope_prefix
        if not name:
            prefix = ""
        elif name.endswith("/"):
            prefix = name[:-1]
        else:
            prefix = self.unique_name(name)
        self._name_scope_prefix = prefix
        try:
            yield "" if not prefix else prefix + "/"
        finally:
            self._name_scope_prefix = outer

    def get_name_scope(self) -> str:
        """The current name scope, without a trailing slash."""
        return self._name_scope_prefix

    # -- Scopes ------------------------------------------------------------------------

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Makes this the default graph of this thread."""
        with stacks.graphs.push(self):
            yield self

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Requests a device for operations created inside.

        Args:
          device_name_or_function: A device string or DeviceSpec (merged with outer ones,
            the inner wins), a function from Operation to device, or None, which ignores
            all outer requests.
        """
        if device_name_or_function is None:
            entry: Any = None
        elif callable(device_name_or_function) and not isinstance(
            device_name_or_function, str | device_spec.DeviceSpec
        ):
            entry = device_name_or_function
        else:
            entry = device_spec.merge_device(device_name_or_function)
        stack = self._device_stack
        self._device_stack = [*stack, entry]
        try:
            yield
        finally:
            self._device_stack = stack

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Puts operations created inside on the device of `op`.

        Args:
          op: An operation or what converts to one; None together with `ignore_existing`
            only clears outer requests.
          ignore_existing: Whether outer `colocate_with` blocks are forgotten.
        """
        if op is None and not ignore_existing:
            raise ValueError(
                "Trying to reset colocation (op is None) but ignore_existing is not True"
            )
        target = operation_of(op) if op is not None else None
        devices, colocation = self._device_stack, self._colocation_stack
        outside = self._outside_devices
        if outside is None:
            self._outside_devices = devices
        self._device_stack = []
        self._colocation_stack = [] if ignore_existing else list(colocation)
        if target is not None:
            # An operation colocated with one of these is colocated with all of them.
            self._colocation_stack.append(target)
        try:
            yield
        finally:
            self._device_stack, self._colocation_stack = devices, colocation
            self._outside_devices = outside

    @contextlib.contextmanager
    def _devices_outside_colocation(self) -> Iterator[None]:
        """Asks the device functions for what is created inside, though `colocate_with` decides.

        TensorFlow makes variables so: an optimizer's slots stand beside their variables, but each
        takes a turn in the round of a `replica_device_setter`.
        """
        devices = self._device_stack
        if not devices and self._outside_devices is not None:
            self._device_stack = self._outside_devices
        try:
            yield
        finally:
            self._device_stack = devices

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> _ControlDependencies:
        """Makes operations created inside run after `control_inputs`.

        None clears all control dependencies of outer blocks.
        """
        if control_inputs is None:
            return _ControlDependencies(self, None)
        controllers: list[Operation] = []
        for item in control_inputs:
            if (values := getattr(item, "values", None)) is not None and hasattr(item, "indices"):
                item = values  # IndexedSlices and SparseTensor: their values stand for them.
            element = self.as_graph_element(item)
            op = element.op if isinstance(element, Tensor) else element
            if op not in controllers:
                controllers.append(op)
        return _ControlDependencies(self, controllers)

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Keeps the state of stateful operations created inside in a named container."""
        outer = self._container
        self._container = container_name
        try:
            yield container_name
        finally:
            self._container = outer

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """Uses other registered gradients for the op types in the map."""
        if not isinstance(op_type_map, dict):
            raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        for key, value in op_type_map.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError("op_type_map must be a dictionary mapping strings to strings")
        outer = self._gradient_overrides
        self._gradient_overrides = {**outer, **op_type_map}
        try:
            yield
        finally:
            self._gradient_overrides = outer

    @contextlib.contextmanager
    def _attr_scope(self, attr_map: dict[str, Any]) -> Iterator[None]:
        """Sets attributes on all operations created inside; None removes one."""
        outer = self._attr_scopes
        merged = {**outer, **attr_map}
        self._attr_scopes = {k: v for k, v in merged.items() if v is not None}
        try:
            yield
        finally:
            self._attr_scopes = outer

    def _get_control_flow_context(self) -> Any:
        return self._control_flow_context

    def _set_control_flow_context(self, context: Any) -> None:
        self._control_flow_context = context

    # -- Collections -------------------------------------------------------------------

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Appends `value` to the collection called `name`."""
        self._check_not_finalized()
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Appends `value` to each of the named collections, once each."""
        names = (names,) if isinstance(names, str) else dict.fromkeys(names)
        for name in names:
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The collection itself, made when missing: changes to it are changes to the graph."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of the collection, or of its members whose name begins with `scope`."""
        with self._lock:
            members = list(self._collections.get(name, ()))
        if scope is None:
            return members
        pattern = re.compile(scope)
        return [m for m in members if hasattr(m, "name") and pattern.match(m.name)]

    def get_all_collection_keys(self) -> list[Any]:
        """The names of collections that programs may see."""
        with self._lock:
            return [k for k in self._collections if isinstance(k, str)]

    @property
    def collections(self) -> list[Any]:
        """The names of all collections."""
        return list(self._collections)

    def clear_collection(self, name: Any) -> None:
        """Empties the collection."""
        self._check_not_finalized()
        with self._lock:
            self._collections.pop(name, None)

    # -- Messages ----------------------------------------------------------------------

    def as_graph_def(
        self, from_version: int | None = None, add_shapes: bool = False
    ) -> graph_pb2.GraphDef:
        """The graph as a GraphDef message.

        Args:
          from_version: Only operations added since the graph had this `version`.
          add_shapes: Whether each node says its outputs' shapes in ``_output_shapes``.
        """
        message = graph_pb2.GraphDef(versions=copy.copy(self._graph_def_versions))
        ops = self.get_operations()[from_version or 0 :]
        for op in ops:
            node = message.node.add()
            node.CopyFrom(op.node_def)
            if add_shapes and op.outputs:
                shapes = node.attr["_output_shapes"].list
                shapes.shape.extend(t.shape.as_proto() for t in op.outputs)
        if self._functions:  # Touching the field would make it present, and the text differ.
            message.library.function.extend(f.to_function_def() for f in self._functions.values())
        return message


def operation_of(obj: Any) -> Operation:
    """The operation behind a tensor, variable, IndexedSlices or operation."""
    if isinstance(obj, Operation):
        return obj
    op = getattr(obj, "op", None)
    if isinstance(op, Operation):
        return op
    values = getattr(obj, "values", None)
    if isinstance(values, Tensor):
        return values.op
    raise TypeError(f"Expected an operation or a tensor, got {obj!r}")


def _check_input_types(
    signature: Signature, attrs: dict[str, Any], inputs: Sequence[Tensor], name: str
) -> None:
    """Raises ValueError unless the inputs have the types that the attributes say."""
    wanted = signature.input_types(attrs)
    if len(wanted) != len(inputs):
        raise ValueError(
            f"Operation '{name}' ({signature.name}) takes {len(wanted)} inputs with these "
            f"attributes, but {len(inputs)} were given."
        )
    for i, (dtype, tensor) in enumerate(zip(wanted, inputs, strict=True)):
        found = tensor.dtype
        if found is not dtype and found.base_dtype != dtype.base_dtype:
            raise ValueError(
                f"Input {i} of node {name} was passed {found.name} from {tensor.name} "
                f"incompatible with expected {dtype.name}."
            )


def node_preview(name: str, op_type: str) -> Any:
    """What an attribute function of `Graph._attr_scope` sees of a node to be."""
    return node_def_pb2.NodeDef(name=name, op=op_type)
