"""Functions: the bodies of conditionals and loops, as graphs of their own.

A `FuncGraph` captures tensors of the graph around it: using one inside adds an argument. Its
collections are those of the outer graph, so that library code behaves as if it were there.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

from tensorboard.compat.proto import attr_value_pb2, function_pb2

from millrace.core import dtypes, errors
from millrace.core.tensor_shape import TensorShape
from millrace.graph import attributes, registry, stacks
from millrace.graph.graph import Graph, _ControlDependencies
from millrace.graph.operation import Operation
from millrace.graph.signature import parse
from millrace.graph.tensor import Tensor


def _argument_kernel(*, node: Any) -> Any:
    raise errors.InternalError(None, node.source, "A function's argument is never run")


#: A function's argument. The runtime replaces it by what the caller passes.
ARGUMENT = registry.OpDefinition(
    parse("_Arg() -> output: T where T: type; index: int = 0"),
    shape_rule=lambda c: None,
    kernel=_argument_kernel,
    kind="argument",
    gradient=registry.NO_GRADIENT,
)
registry.register(ARGUMENT)


class FuncGraph(Graph):
    """A graph whose inputs are arguments and captured tensors of `outer`.

    Attributes:
      arguments: The tensors inside that stand for the arguments, captures last.
      captures: Outer tensors by the inner tensor that stands for them, in order.
      outer_controls: Outer operations that something inside was told to run after.
    """

    def __init__(self, name: str, outer: Graph) -> None:
        super().__init__()
        self.name = name
        self.outer = outer
        self.arguments: list[Tensor] = []
        self.captures: dict[Tensor, Tensor] = {}
        self.outer_controls: list[Operation] = []
        #: What a loop keeps of its body for its gradient; see `ops.control_flow.loop_gradient`.
        self.kept: object = None
        self._collections = outer._collections
        self._device_stack = list(outer._device_stack)
        self._container = outer._container
        self._seed = outer._seed
        self._gradient_overrides = dict(outer._gradient_overrides)
        self._is_clients = outer._is_clients

    def take_apart(self) -> None:
        """Lets go of all operations; see `Graph.take_apart`."""
        super().take_apart()
        self.arguments, self.captures, self.outer_controls = [], {}, []

    @property
    def root(self) -> Graph:
        """The outermost graph around this one."""
        graph: Graph = self
        while isinstance(graph, FuncGraph):
            graph = graph.outer
        return graph

    def add_argument(self, dtype: dtypes.DType, shape: TensorShape, name: str) -> Tensor:
        """A new argument."""
        with self.as_default():
            device, self._device_stack = self._device_stack, []
            controls, self._control_stack = self._control_stack, []
            try:
                op = self.create_op(
                    "_Arg",
                    [],
                    dtypes=[dtype],
                    name=name,
                    attrs={"T": dtype.base_dtype, "index": len(self.arguments)},
                )
            finally:
                self._device_stack, self._control_stack = device, controls
        tensor = op.outputs[0]
        tensor._shape = shape
        self.arguments.append(tensor)
        return tensor

    def capture(self, tensor: Tensor) -> Tensor:
        """The inner tensor for an outer one.

        Raises:
          ValueError: The tensor is of a graph that is not around this one.
        """
        if tensor.graph is self:
            return tensor
        inner = self.captures.get(tensor)
        if inner is None:
            if not self.is_inside(tensor.graph):
                raise ValueError(f"{tensor!r} is not from a graph around {self.name!r}.")
            source = tensor
            if isinstance(self.outer, FuncGraph) and tensor.graph is not self.outer:
                source = self.outer.capture(tensor)
            inner = self.add_argument(source.dtype, source.shape, source.op.name.split("/")[-1])
            inner.handle_data = tensor.handle_data
            self.captures[tensor] = inner
        return inner

    def is_inside(self, graph: Graph) -> bool:
        """Whether `graph` is this one or around it."""
        if self is graph or self.outer is graph:
            return True
        return isinstance(self.outer, FuncGraph) and self.outer.is_inside(graph)

    def _adopt(self, tensor: Tensor) -> Tensor:
        return self.capture(tensor)

    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> _ControlDependencies:
        """As in `Graph`; outer operations become control inputs of the function's caller."""
        if control_inputs is None:
            return super().control_dependencies(None)
        inside = []
        for item in control_inputs:
            op = item if isinstance(item, Operation) else getattr(item, "op", None)
            graph = getattr(op, "graph", None)
            if graph is not None and graph is not self:
                self.outer_controls.append(op)  # type: ignore[arg-type]
            else:
                inside.append(item)
        return super().control_dependencies(inside)


class Function:
    """A finished function.

    Attributes:
      inputs: Argument tensors, in order.
      outputs: Result tensors; may be arguments.
      controls: Operations that run though no result needs them.
      output_names: What a FunctionDef that it comes from calls its results.
    """

    def __init__(
        self, graph: FuncGraph, outputs: Sequence[Tensor], controls: Sequence[Operation] = ()
    ) -> None:
        self.graph = graph
        self.name = graph.name
        self.inputs = list(graph.arguments)
        self.outputs = list(outputs)
        self.controls = list(controls)
        self.output_names: list[str] = []

    def __del__(self) -> None:
        if self.graph._is_clients:
            self.graph.take_apart()

    @functools.cached_property
    def counters(self) -> list[int]:
        """Positions of the results that are an argument plus one: what counts iterations."""
        found = []
        for i, (before, after) in enumerate(zip(self.inputs, self.outputs, strict=False)):
            if after.op.type == "AddV2" and after.op.inputs[0] is before:
                step = after.op.inputs[1].op
                if step.type == "Const" and step.attrs["value"].size == 1:
                    found.extend([i] * bool(step.attrs["value"] == 1))
        return found

    def to_name_attr_list(self) -> attr_value_pb2.NameAttrList:
        """How an attribute refers to this function."""
        return attr_value_pb2.NameAttrList(name=self.name)

    def to_function_def(self) -> function_pb2.FunctionDef:
        """This function as a FunctionDef message."""
        message = function_pb2.FunctionDef()
        message.signature.name = self.name
        argument_names: dict[Operation, str] = {}
        arguments = {tensor.op for tensor in self.inputs}
        taken = {op.name for op in self.graph.get_operations() if op not in arguments}
        for i, tensor in enumerate(self.inputs):
            name = _argument_name(tensor.op.name, i)
            while name in taken:  # Arguments and nodes share one space of names.
                name = f"arg_{name}"
            argument_names[tensor.op] = name
            message.signature.input_arg.add(
                name=name, type=tensor.dtype.base_dtype.as_datatype_enum
            )

        def reference(tensor: Tensor) -> str:
            if tensor.op in argument_names:
                return argument_names[tensor.op]
            return _output_reference(tensor)

        for i, tensor in enumerate(self.outputs):
            name = f"output_{i}"
            message.signature.output_arg.add(
                name=name, type=tensor.dtype.base_dtype.as_datatype_enum
            )
            message.ret[name] = reference(tensor)
        for op in self.controls:
            message.signature.control_output.append(op.name)
            message.control_ret[op.name] = op.name
        for op in self.graph.get_operations():
            if op in argument_names:
                continue
            node = message.node_def.add()
            node.CopyFrom(op.node_def)
            del node.input[:]
            node.input.extend(reference(tensor) for tensor in op.inputs)
            node.input.extend(f"^{argument_names.get(c, c.name)}" for c in op.control_inputs)
        return message


def _argument_name(name: str, index: int) -> str:
    cleaned = "".join(c if c.isalnum() else "_" for c in name).lower().strip("_")
    if cleaned.endswith(f"_{index}"):  # From a FunctionDef: it keeps the name that it has there.
        return cleaned
    return f"{cleaned or 'arg'}_{index}"


def _output_reference(tensor: Tensor) -> str:
    """``node:output argument:index``, the form of edges inside a FunctionDef."""
    op = tensor.op
    signature = op.definition.signature
    for arg, place in zip(signature.outputs, signature.output_slices(op.attrs), strict=True):
        if isinstance(place, slice):
            if place.start <= tensor.value_index < place.stop:
                return f"{op.name}:{arg.name}:{tensor.value_index - place.start}"
        elif place == tensor.value_index:
            return f"{op.name}:{arg.name}:0"
    raise AssertionError(tensor)


def unique_function_name(graph: Graph, wanted: str) -> str:
    """A name that no function of the outermost graph has."""
    root = graph.root if isinstance(graph, FuncGraph) else graph
    count = len(root._functions)
    while f"{wanted}_{count}" in root._functions:
        count += 1
    return f"{wanted}_{count}"


def add_function(graph: Graph, function: Function) -> None:
    """Makes a function known to the outermost graph."""
    root = graph.root if isinstance(graph, FuncGraph) else graph
    root._functions[function.name] = function


def from_function_def(graph: Graph, message: function_pb2.FunctionDef) -> Function:
    """A function from a FunctionDef message; those that it calls must be known to `graph`."""
    body = FuncGraph(message.signature.name, graph)
    values: dict[str, Tensor] = {}
    for arg in message.signature.input_arg:
        values[arg.name] = body.add_argument(dtypes.as_dtype(arg.type), TensorShape(None), arg.name)
    pending = list(message.node_def)
    while pending:
        waiting = []
        for node in pending:
            data = [name for name in node.input if not name.startswith("^")]
            controls = [name[1:] for name in node.input if name.startswith("^")]
            known = all(name in values or _plain(name) in values for name in data) and all(
                name in body._ops or name in values for name in controls
            )
            if not known:
                waiting.append(node)
                continue
            _add_node(body, node, data, controls, values)
        if len(waiting) == len(pending):
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Function {message.signature.name!r}: node {waiting[0].name!r} has an input "
                f"that nothing makes, among {list(waiting[0].input)}",
            )
        pending = waiting
    outputs: list[Tensor] = []
    for arg in message.signature.output_arg:
        source = _plain(message.ret[arg.name])
        if source not in values:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"Function {message.signature.name!r}: its result {arg.name!r} is {source!r}, "
                "which nothing makes",
            )
        outputs.append(values[source])
    controls = [body._ops[name] for name in message.control_ret.values()]
    made = Function(body, outputs, controls)
    made.output_names = [arg.name for arg in message.signature.output_arg]
    return made


def _plain(name: str) -> str:
    """``node:out:0`` as it is kept in the table of values."""
    return name if name.count(":") != 1 else name.replace(":", ":output:")


def _add_node(
    body: FuncGraph, node: Any, data: list[str], controls: list[str], values: dict[str, Tensor]
) -> None:
    called = body.root._functions.get(node.op)
    make_call(body, node)
    attrs = {key: stored_attr(body, value) for key, value in node.attr.items()}
    inputs = [values[name] if name in values else values[_plain(name)] for name in data]
    control_ops = [body._ops[n] if n in body._ops else values[n].op for n in controls]
    with body.as_default(), stacks.graphs.push(body), body.control_dependencies(control_ops):
        op = body.create_op(node.op, inputs, name=node.name + "/", attrs=attrs)
    op._device = node.device
    for tensor in op.outputs:
        values[_output_reference(tensor)] = tensor
        values.setdefault(f"{op.name}:{tensor.value_index}", tensor)
    if called is not None:
        # Who calls a function by its name calls its results by theirs.
        for name, tensor in zip(called.output_names, op.outputs, strict=False):
            values[f"{op.name}:{name}:0"] = tensor
    values.setdefault(op.name, op.outputs[0] if op.outputs else None)  # type: ignore[arg-type]


def make_call(graph: Graph, node: Any) -> None:
    """Makes a NodeDef whose op type is a function's name, as old clients write it, a call."""
    root = graph.root if isinstance(graph, FuncGraph) else graph
    function = root._functions.get(node.op)
    if function is None or registry.find(node.op) is not None:
        return
    node.op = "StatefulPartitionedCall"
    node.attr.clear()
    node.attr["f"].func.CopyFrom(function.to_name_attr_list())
    for name, tensors in (("Tin", function.inputs), ("Tout", function.outputs)):
        node.attr[name].list.SetInParent()
        node.attr[name].list.type.extend(t.dtype.base_dtype.as_datatype_enum for t in tensors)


def stored_attr(graph: Graph, message: attr_value_pb2.AttrValue) -> Any:
    """An attribute from a message, with functions looked up in `graph`."""
    value = attributes.from_proto(message)
    if isinstance(value, attr_value_pb2.NameAttrList):
        root = graph.root if isinstance(graph, FuncGraph) else graph
        return root._functions.get(value.name, value)
    return value
