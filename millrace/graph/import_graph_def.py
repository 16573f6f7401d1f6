"""From a GraphDef message to operations of a graph.

What TensorFlow's importer does, it does in the same order and with the same words: names get
the prefix and are made unique, inputs may be replaced, attributes that are missing get their
defaults, nodes may come in any order, and the only cycles are those of v1 loops, from a
NextIteration back to its Merge. An import that fails leaves the graph as it was.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tensorboard.compat.proto import attr_value_pb2, function_pb2, graph_pb2, op_def_pb2

from millrace.core.dtypes import DType
from millrace.core.tensor_shape import TensorShape, unknown_shape
from millrace.graph import attributes, function, registry
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.operation import Operation
from millrace.graph.shape_inference import merge_shapes
from millrace.graph.signature import AttrSpec, Signature
from millrace.graph.tensor import Tensor

_VALID_NODE_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_INPUT = re.compile(r"^(\^?)([^:^]+)(?::(\d+))?$")
_BACK_EDGE_SOURCES = frozenset(("NextIteration", "RefNextIteration"))
_BACK_EDGE_TARGETS = frozenset(("Merge", "RefMerge"))
#: Graphs that ask for a newer consumer than this are refused. TensorFlow 2.21 writes 2474.
_NEWEST_CONSUMER = 2474
#: Where TensorFlow's error messages spell a type differently from its Python name.
_WIRE_TYPE_NAMES = {"float32": "float", "float64": "double", "float16": "half"}
_ATTR_FIELD_KINDS = {"s": "string", "i": "int", "f": "float", "b": "bool"}
_NODES_BETWEEN = 1024
#: The control input's place in the `input_map`: ``^name``.
_CONTROL = -1


class _Source(NamedTuple):
    """An input of a node: an output of another, or (slot -1) the other as a control."""

    name: str
    slot: int

    @property
    def text(self) -> str:
        return f"^{self.name}" if self.slot == _CONTROL else f"{self.name}:{self.slot}"


def import_graph_def(
    graph_def: Any,
    input_map: Mapping[str, Any] | None = None,
    return_elements: Sequence[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: op_def_pb2.OpList | None = None,
) -> list[Any] | None:
    """Adds the nodes of a GraphDef to the default graph.

    Args:
      graph_def: The message.
      input_map: Tensors (or values) by the names of tensors in `graph_def` that they replace
        as inputs; ``^name`` replaces a control input by the operation of a tensor.
      return_elements: Names of operations and tensors of `graph_def` to return.
      name: Prefix of the new names, ``import`` by default; the empty string for none.
      op_dict: Unused; TensorFlow has it.
      producer_op_list: Signatures as the writer of `graph_def` knew them: attributes that are
        unknown here are dropped where they have the default that these state.

    Returns:
      The operations and tensors named in `return_elements`, or None.

    Raises:
      TypeError: An argument is of the wrong type.
      ValueError: The graph is malformed, or a name is not in it.
      NotFoundError: An op type is not known.
    """
    message = _graph_def_of(graph_def)
    keys = _input_keys(input_map)
    wanted = _return_names(return_elements)
    graph = get_default_graph()
    graph._check_not_finalized()
    values = list(input_map.values()) if input_map else []
    scope = "import" if name is None else name
    with graph._lock, _undone_on_error(graph), graph.name_scope(scope):
        replaced = dict(zip(keys, _input_tensors(graph, keys, values, name), strict=True))
        importer = _Importer(graph, message, graph.get_name_scope(), replaced, producer_op_list)
        importer.run()
        importer.check_all_keys_used()
        return None if wanted is None else [importer.element(item) for item in wanted]


def extend_graph(
    graph: Graph, message: graph_pb2.GraphDef, between: Callable[[], None] = lambda: None
) -> None:
    """Adds nodes under their own names; their inputs may be nodes that `graph` has already.

    That is how a client's session grows on a server. Devices are taken as the message states them.

    Args:
      graph: The graph.
      message: The nodes; they are not copied.
      between: Called now and then; may raise if the nodes are not wanted any more.

    Raises:
      ValueError: The message is malformed, or has a node that the graph has too.
      NotFoundError: An op type is not known.
    """
    graph._check_not_finalized()
    with graph.as_default(), graph._lock, _undone_on_error(graph):
        _Importer(graph, message, "", {}, None, existing=graph._ops).run(between)


# -- Arguments -----------------------------------------------------------------------------


def _graph_def_of(graph_def: Any) -> graph_pb2.GraphDef:
    message = graph_pb2.GraphDef()
    if isinstance(graph_def, graph_pb2.GraphDef):
        message.CopyFrom(graph_def)
        return message
    descriptor = getattr(graph_def, "DESCRIPTOR", None)
    if descriptor is None or descriptor.full_name.rpartition(".")[2] != "GraphDef":
        raise TypeError("Argument `graph_def` must be a GraphDef proto.")
    # Another package's copy of the message class: the encoding is the same.
    message.ParseFromString(graph_def.SerializeToString())
    return message


def _parse_tensor_name(text: str) -> _Source:
    if text.startswith("^"):
        return _Source(text[1:], _CONTROL)
    name, colon, index = text.partition(":")
    if not colon:
        return _Source(name, 0)
    if ":" in index:
        raise ValueError(
            f"Cannot convert {text!r} to a tensor name. Tensor names should not contain more than "
            f"1 ':'. Got {text.count(':')}."
        )
    if not index.isdigit():
        raise ValueError(
            f"Cannot convert {text!r} to a tensor name. Second component of the name following "
            f"the `:` should be an int. Got {index}."
        )
    return _Source(name, int(index))


def _input_keys(input_map: Mapping[str, Any] | None) -> list[_Source]:
    if input_map is None:
        return []
    if not isinstance(input_map, Mapping):
        raise TypeError(
            f"Argument `input_map` must be a dictionary. Obtained {type(input_map).__name__}"
        )
    if not all(isinstance(key, str | bytes) for key in input_map):
        raise TypeError(
            f"All keys for argument `input_map` must be strings. Obtained keys: {list(input_map)}"
        )
    return [_parse_tensor_name(_text(key)) for key in input_map]


def _return_names(return_elements: Sequence[str] | None) -> list[str] | None:
    if return_elements is None:
        return None
    if not all(isinstance(item, str | bytes) for item in return_elements):
        raise TypeError(
            f"Argument `return_elements` must be a list of strings. Obtained {return_elements}."
        )
    return [_text(item) for item in return_elements]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _input_tensors(
    graph: Graph, keys: list[_Source], values: list[Any], name: str | None
) -> Iterator[Tensor]:
    """The values of an `input_map` as tensors of `graph`."""
    if name == "" and not all(isinstance(value, Tensor) for value in values):
        raise ValueError(
            "tf.import_graph_def() requires a non-empty `name` if `input_map` contains non-Tensor "
            "values. Try calling tf.convert_to_tensor() on `input_map` values before calling "
            "tf.import_graph_def()."
        )
    for key, value in zip(keys, values, strict=True):
        if isinstance(value, Operation):
            raise TypeError(
                f"can't convert Operation '{value.name}' to Tensor: map {key.text!r} to a tensor "
                "of it instead"
            )
        if not isinstance(value, Tensor):
            scope = graph.get_name_scope()
            with graph.name_scope(f"{scope}/_inputs/" if scope else "_inputs/"):
                value = convert_to_tensor(value)
        try:
            yield graph._adopt(value)
        except ValueError:
            raise ValueError(
                f"node '{value.op.name}' in input_map does not exist in graph "
                f"(input_map entry: {key.text}->{value.name})"
            ) from None


def _root(graph: Graph) -> Graph:
    """The graph that keeps the functions."""
    return graph.root if isinstance(graph, function.FuncGraph) else graph


class _undone_on_error:  # noqa: N801 - reads as a word in a `with` statement
    """Takes back what was added to a graph when the block fails."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._root = _root(graph)

    def __enter__(self) -> None:
        graph = self._graph
        self._count = len(graph._ops)
        self._names = dict(graph._names_in_use)
        self._functions = dict(self._root._functions)
        self._versions = type(graph._graph_def_versions)()
        self._versions.CopyFrom(graph._graph_def_versions)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            return
        graph = self._graph
        added = list(graph._ops.values())[self._count :]
        for op in reversed(added):
            del graph._ops[op.name]
        graph._discard(added)
        graph._names_in_use = self._names
        self._root._functions = self._functions
        graph._graph_def_versions.CopyFrom(self._versions)


# -- The import itself ---------------------------------------------------------------------


class _Importer:
    """One call of `import_graph_def`.

    Attributes:
      ops: The operations made, by the names that they have in the message.
    """

    def __init__(
        self,
        graph: Graph,
        message: graph_pb2.GraphDef,
        prefix: str,
        replaced: dict[_Source, Tensor],
        producer_op_list: op_def_pb2.OpList | None,
        existing: Mapping[str, Operation] | None = None,
    ) -> None:
        self._graph = graph
        #: Operations that the message may name as inputs, when it extends the graph.
        self._existing = {} if existing is None else dict(existing)
        self._extends = existing is not None
        self._message = message
        self._prefix = f"{prefix}/" if prefix else ""
        self._replaced = replaced
        self._nodes = {node.name: node for node in message.node}
        self._inputs: dict[str, list[_Source]] = {}
        self._names: dict[str, str] = {}
        #: Keys of `input_map` that stand for something in the message.
        self._used: set[_Source] = set()
        self._producer = {op.name: op for op in producer_op_list.op} if producer_op_list else {}
        #: Inputs of Merge nodes that were not there when the Merge was made.
        self._back_edges: list[tuple[str, int, _Source]] = []
        self.ops: dict[str, Operation] = {}

    def run(self, between: Callable[[], None] = lambda: None) -> None:
        """Makes all operations; calls `between` now and then."""
        self._check_versions()
        self._check_nodes()
        self._names = self._unique_names()
        self._add_functions()
        outer = self._graph._control_stack, self._graph._colocation_stack
        self._graph._control_stack, self._graph._colocation_stack = [], []
        try:
            with self._graph.name_scope(None):
                for i, node in enumerate(self._in_order()):
                    if i % _NODES_BETWEEN == 0:
                        between()
                    self._add(node)
        finally:
            self._graph._control_stack, self._graph._colocation_stack = outer
        for name, position, source in self._back_edges:
            tensor = self._tensor(self._nodes[name], source)
            self.ops[name]._update_input(position, tensor)
        self._apply_scopes()

    # -- Checks before anything is made ----------------------------------------------------

    def _check_versions(self) -> None:
        theirs, ours = self._message.versions, self._graph._graph_def_versions
        if theirs.min_consumer > _NEWEST_CONSUMER:
            raise ValueError(
                f"GraphDef min consumer version {theirs.min_consumer} above current version "
                f"{_NEWEST_CONSUMER}. It was written by a TensorFlow that is too new."
            )
        # What is merged can be read by consumers that can read both.
        ours.producer = min(ours.producer, theirs.producer)
        ours.min_consumer = max(ours.min_consumer, theirs.min_consumer)
        ours.bad_consumers.extend(set(theirs.bad_consumers) - set(ours.bad_consumers))

    def _check_nodes(self) -> None:
        seen: set[str] = set()
        for node in self._message.node:
            if not _VALID_NODE_NAME.match(node.name):
                raise ValueError(f"Node '{node.name}': Node name contains invalid characters")
            if node.name in seen:
                raise ValueError(f"Node '{node.name}' is not unique")
            seen.add(node.name)
        for node in self._message.node:
            self._inputs[node.name] = self._parse_inputs(node)
            for group in _colocated_names(node):
                if not self._is_known(group):
                    raise ValueError(
                        f"Node '{node.name}' expects to be colocated with unknown node '{group}'"
                    )
        for node in self._message.node:
            self._drop_unknown_defaults(node)

    def _parse_inputs(self, node: Any) -> list[_Source]:
        sources: list[_Source] = []
        controls = False
        for text in node.input:
            match = _INPUT.match(text)
            if match is None:
                raise ValueError(f"Node '{node.name}': Unknown input node '{text}'")
            source = _Source(match[2], _CONTROL if match[1] else int(match[3] or 0))
            # A replaced input need not exist: a part of a graph is imported that way.
            if not self._is_known(source.name) and source not in self._replaced:
                raise ValueError(f"Node '{node.name}': Unknown input node '{text}'")
            if controls and source.slot != _CONTROL:
                raise ValueError(
                    f"Node '{node.name}': Control dependencies must come after regular dependencies"
                )
            controls = source.slot == _CONTROL
            sources.append(source)
        return sources

    def _is_known(self, name: str) -> bool:
        return name in self._nodes or name in self._existing

    def _drop_unknown_defaults(self, node: Any) -> None:
        """Removes attributes that are new to us and say nothing new."""
        producer, definition = self._producer.get(node.op), registry.find(node.op)
        if producer is None or definition is None:
            return
        for spec in producer.attr:
            if (
                spec.name in node.attr
                and spec.name not in definition.signature.attrs
                and spec.HasField("default_value")
                and spec.default_value == node.attr[spec.name]
            ):
                del node.attr[spec.name]

    def _unique_names(self) -> dict[str, str]:
        """New names: with the prefix, and a number where the graph has the name already."""
        if self._extends:
            for name in self._nodes:
                if name in self._existing:
                    raise ValueError(
                        f"GraphDef argument to Extend includes node '{name}', which was created by "
                        "a previous call to Create or Extend in this session."
                    )
            return {name: name for name in self._nodes}
        names: dict[str, str] = {}
        reserved = {self._prefix + name for name in self._nodes}
        for name in self._nodes:
            wanted = candidate = self._prefix + name
            count = 0
            while candidate in self._graph._ops or (count and candidate in reserved):
                count += 1
                candidate = f"{wanted}_{count}"
            reserved.add(candidate)
            names[name] = candidate
        return names

    # -- Functions -------------------------------------------------------------------------

    def _add_functions(self) -> None:
        messages = {f.signature.name: f for f in self._message.library.function}
        found: set[str] = set()
        for first in messages:
            path = [] if first in found else [(first, _called_functions(messages[first]))]
            found.add(first)
            while path:
                name, callees = path[-1]
                callee = next((c for c in callees if c in messages and c not in found), None)
                if callee is None:
                    path.pop()
                    self._add_function(messages[name])
                else:  # One that calls itself is found already.
                    found.add(callee)
                    path.append((callee, _called_functions(messages[callee])))
        functions = _root(self._graph)._functions
        for name in messages:  # In the order of the message, so that it comes out as it went in.
            functions[name] = functions.pop(name)

    def _add_function(self, message: function_pb2.FunctionDef) -> None:
        name = message.signature.name
        known = _root(self._graph)._functions.get(name)
        made = None
        if known is None or known.to_function_def() != message:
            made = function.from_function_def(self._graph, message)
        if known is None:
            assert made is not None
            function.add_function(self._graph, made)
        elif made is not None and made.to_function_def() != known.to_function_def():
            raise ValueError(
                f"Cannot add function '{name}' because a different function with the same name "
                "already exists."
            )

    # -- Nodes -----------------------------------------------------------------------------

    def _in_order(self) -> Iterator[Any]:
        """Nodes after their inputs; among those that are ready, in the message's order."""
        nodes = self._message.node
        place = {node.name: i for i, node in enumerate(nodes)}
        waiting: list[int] = []
        followers: list[list[int]] = [[] for _ in nodes]
        for i, node in enumerate(nodes):
            sources = [
                s
                for s in self._inputs[node.name]
                if s not in self._replaced and s.name in self._nodes
            ]
            waiting.append(len(sources))
            if node.op in _BACK_EDGE_TARGETS and any(
                self._is_back_edge(node, source) for source in sources
            ):
                # One input that is not a back edge is enough to begin with.
                controls = sum(source.slot == _CONTROL for source in sources)
                given = len(self._inputs[node.name]) > len(sources)
                waiting[i] = min(waiting[i], controls + (not given))
            for source in sources:
                followers[place[source.name]].append(i)
        ready = [i for i, count in enumerate(waiting) if count == 0]
        done = 0
        while ready:
            i = heapq.heappop(ready)
            done += 1
            yield nodes[i]
            for follower in followers[i]:
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    heapq.heappush(ready, follower)
        if done < len(nodes):
            stuck = [n.name for n, count in zip(nodes, waiting, strict=True) if count > 0]
            raise ValueError(
                f"{len(nodes) - done} nodes in a cycle, among them {', '.join(stuck[:5])}"
            )

    def _is_back_edge(self, node: Any, source: _Source) -> bool:
        return (
            node.op in _BACK_EDGE_TARGETS
            and source.slot != _CONTROL
            and source not in self._replaced
            and source.name in self._nodes
            and self._nodes[source.name].op in _BACK_EDGE_SOURCES
        )

    def _add(self, node: Any) -> None:
        function.make_call(self._graph, node)
        definition = registry.lookup(node.op)
        name = self._names[node.name]
        attrs = self._attributes(definition.signature, node, name)
        inputs: list[Tensor | None] = []
        controls: dict[Operation, None] = {}
        for source in self._inputs[node.name]:
            if source.slot == _CONTROL:
                controls[self._control(source)] = None
            elif self._is_back_edge(node, source) and source.name not in self.ops:
                self._back_edges.append((node.name, len(inputs), source))
                inputs.append(None)
            else:
                inputs.append(self._tensor(node, source))
        first = next((tensor for tensor in inputs if tensor is not None), None)
        # Until the loop is closed, a back edge is stood in for by the value that goes in.
        tensors = [tensor if tensor is not None else first for tensor in inputs]
        output_shapes = attrs.pop("_output_shapes") if _states_shapes(node) else None
        _check_inputs(definition.signature, attrs, tensors, name)
        op = self._graph.create_op(
            node.op,
            tensors,  # type: ignore[arg-type]
            name=f"{name}/",
            attrs=attrs,
            compute_device=False,
        )
        op._add_control_inputs(list(controls))
        if None in inputs:
            op.outputs[0]._shape = unknown_shape()
        if output_shapes is not None:
            _refine_shapes(op, output_shapes)
        self.ops[node.name] = op

    def _attributes(self, signature: Signature, node: Any, name: str) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        for key, value in node.attr.items():
            spec = signature.attrs.get(key)
            if spec is not None:
                _check_attr(signature, spec, value, name)
                attrs[key] = self._stored(value)
            elif (stored := self._stored(value)) is not None:
                attrs[key] = stored
        if (groups := attrs.get("_class")) is not None:
            attrs["_class"] = [self._renamed_group(group) for group in groups]
        try:
            return signature.complete(attrs)
        except ValueError as error:
            raise ValueError(f"{error}; NodeDef: {{{{node {name}}}}}") from None

    def _stored(self, message: attr_value_pb2.AttrValue) -> Any:
        if len(message.list.func):
            return [
                function.stored_attr(self._graph, attr_value_pb2.AttrValue(func=item))
                for item in message.list.func
            ]
        return function.stored_attr(self._graph, message)

    def _renamed_group(self, group: bytes) -> bytes:
        if not group.startswith(b"loc:@"):
            return group
        name = group.decode().removeprefix("loc:@")
        return f"loc:@{self._names.get(name, name)}".encode()

    def _control(self, source: _Source) -> Operation:
        if source in self._replaced:
            self._used.add(source)
            return self._replaced[source].op
        return self._operation(source.name)

    def _operation(self, name: str) -> Operation:
        made = self.ops.get(name)
        return self._existing[name] if made is None else made

    def _tensor(self, node: Any, source: _Source) -> Tensor:
        if source in self._replaced:
            self._used.add(source)
            return self._replaced[source]
        outputs = self._operation(source.name).outputs
        if source.slot >= len(outputs):
            raise ValueError(
                f"Node '{node.name}': Connecting to invalid output {source.slot} of source node "
                f"{source.name} which has {len(outputs)} outputs."
            )
        return outputs[source.slot]

    # -- The scopes around the import ------------------------------------------------------

    def _apply_scopes(self) -> None:
        """Control dependencies, devices and colocation of the surrounding ``with`` blocks."""
        graph = self._graph
        colocated: list[tuple[Operation, list[str]]] = []
        controls = [
            graph._control_inputs_for({t.op for t in op.inputs}) for op in self.ops.values()
        ]
        for (name, op), extra in zip(self.ops.items(), controls, strict=True):
            op._add_control_inputs(extra)
            for block in graph._control_stack:
                block.add_op(op)
            op._set_device(self._nodes[name].device)
            if self._extends:
                continue
            groups = _colocated_names(self._nodes[name])
            if groups and not graph._colocation_stack:
                colocated.append((op, groups))
                continue
            graph._place(op, True)
        for op, groups in colocated:
            for group in groups:
                if device := self.ops[group].device:
                    op._set_device(device)
                    break

    # -- Results ---------------------------------------------------------------------------

    def check_all_keys_used(self) -> None:
        """Every key of the `input_map` must name something in the message.

        Raises:
          ValueError: One does not.
        """
        unknown = []
        for source in self._replaced:
            op = self.ops.get(source.name)
            exists = op is not None and source.slot < len(op.outputs)
            if source not in self._used and not exists:
                unknown.append(source.text)
        if unknown:
            raise ValueError(
                f"Attempted to map inputs that were not found in graph_def: [{', '.join(unknown)}]"
            )

    def element(self, text: str) -> Tensor | Operation:
        """What a name of `return_elements` denotes."""
        if ":" not in text:
            op = self.ops.get(text)
            if op is None:
                raise ValueError(f"Requested return node '{text}' not found in graph def")
            return op
        source = _parse_tensor_name(text)
        if source in self._replaced:
            return self._replaced[source]
        op = self.ops.get(source.name)
        if op is None:
            raise ValueError(f"Requested return tensor '{text}' not found in graph def")
        if source.slot >= len(op.outputs):
            raise ValueError(
                f"Invalid return output {source.slot} of node '{source.name}', which has "
                f"{len(op.outputs)} output(s)"
            )
        return op.outputs[source.slot]


# -- Nodes against signatures --------------------------------------------------------------


def _colocated_names(node: Any) -> list[str]:
    groups = node.attr["_class"].list.s if "_class" in node.attr else ()
    return [g.decode().removeprefix("loc:@") for g in groups if g.startswith(b"loc:@")]


def _called_functions(message: function_pb2.FunctionDef) -> Iterator[str]:
    for node in message.node_def:
        yield node.op
        for value in node.attr.values():
            if value.HasField("func"):
                yield value.func.name
            for item in value.list.func:
                yield item.name


def _type_name(dtype: DType) -> str:
    base = dtype.base_dtype.name
    return _WIRE_TYPE_NAMES.get(base, base) + ("_ref" if dtype._is_ref_dtype else "")


def _check_attr(
    signature: Signature, spec: AttrSpec, value: attr_value_pb2.AttrValue, name: str
) -> None:
    where = f"\n\t; NodeDef: {{{{node {name}}}}}; Op<name={signature.name}>"
    found = _kind_of(value)
    if (
        found is not None
        and found != spec.type
        and not (found == "list()" and spec.type.startswith("list("))
    ):
        raise ValueError(
            f"AttrValue had value with type '{found}' when '{spec.type}' expected"
            f"\n\t for attr '{spec.name}'{where}"
        )
    if found is None:
        raise ValueError(
            f"AttrValue missing value with expected type '{spec.type}'"
            f"\n\t for attr '{spec.name}'{where}"
        )
    stored = attributes.from_proto(value)
    if spec.allowed is not None:
        for item in stored if spec.type.startswith("list(") else [stored]:
            if item not in spec.allowed:
                allowed = ", ".join(_value_text(other) for other in spec.allowed)
                raise ValueError(
                    f"Value for attr '{spec.name}' of {_value_text(item)} is not in the list of "
                    f"allowed values: {allowed}{where}"
                )
    if spec.minimum is not None:
        size = len(stored) if spec.type.startswith("list(") else stored
        if size < spec.minimum:
            what = "Length" if spec.type.startswith("list(") else "Value"
            raise ValueError(
                f"{what} for attr '{spec.name}' of {size} must be at least minimum "
                f"{spec.minimum}{where}"
            )


def _value_text(value: Any) -> str:
    return _type_name(value) if isinstance(value, DType) else f'"{value.decode()}"'


def _kind_of(value: attr_value_pb2.AttrValue) -> str | None:
    """The attribute type that a message holds; ``list()`` for an empty list."""
    field = value.WhichOneof("value")
    if field != "list":
        return _ATTR_FIELD_KINDS.get(field, field) if field is not None else None
    for part, _ in value.list.ListFields():
        return f"list({_ATTR_FIELD_KINDS.get(part.name, part.name)})"
    return "list()"


def _states_shapes(node: Any) -> bool:
    return "_output_shapes" in node.attr and _kind_of(node.attr["_output_shapes"]) in (
        "list(shape)",
        "list()",
    )


def _check_inputs(
    signature: Signature, attrs: dict[str, Any], tensors: Sequence[Tensor | None], name: str
) -> None:
    wanted = signature.input_types(attrs)
    if len(wanted) != len(tensors):
        raise ValueError(
            f"NodeDef expected inputs '{', '.join(map(_type_name, wanted))}' do not match "
            f"{len(tensors)} inputs specified; Op<name={signature.name}>; NodeDef: "
            f"{{{{node {name}}}}}"
        )
    for i, (dtype, tensor) in enumerate(zip(wanted, tensors, strict=True)):
        if tensor is None:
            raise ValueError(f"Node '{name}': all of its inputs are back edges of a loop")
        found = tensor.dtype
        if found.base_dtype != dtype.base_dtype or (
            dtype._is_ref_dtype and not found._is_ref_dtype
        ):
            raise ValueError(
                f"Input {i} of node {name} was passed {_type_name(found)} from {tensor.name} "
                f"incompatible with expected {_type_name(dtype)}."
            )


def _refine_shapes(op: Operation, shapes: list[TensorShape]) -> None:
    """Merges the shapes that ``_output_shapes`` states with what was inferred."""
    if len(shapes) != len(op.outputs):
        return
    for i, (tensor, shape) in enumerate(zip(op.outputs, shapes, strict=True)):
        try:
            tensor._shape = merge_shapes(tensor._shape, shape)
        except ValueError as error:
            raise ValueError(
                f"Node '{op.name}' has an _output_shapes attribute inconsistent with the GraphDef "
                f"for output #{i}: {error}"
            ) from None
