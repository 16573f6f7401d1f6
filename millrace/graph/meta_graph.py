"""MetaGraphDef: a graph together with its collections, out of a graph and into one.

A collection's members travel as names of nodes, as numbers, as bytes, or as messages where
`graph.collection_protos` knows how. A part of a graph (an *export scope*) travels without the
scope's name in front; what it reads from outside is renamed ``$unbound_inputs_...`` and must be
mapped when it is imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from google.protobuf import any_pb2
from tensorboard.compat.proto import graph_pb2, meta_graph_pb2, op_def_pb2, saver_pb2

from millrace.graph import collection_protos, registry
from millrace.graph.collection_protos import prepend_name_scope, strip_name_scope
from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph
from millrace.graph.import_graph_def import import_graph_def
from millrace.graph.keys import GraphKeys
from millrace.graph.message_file import read_message, write_message
from millrace.platform import gfile, logging
from millrace.platform.version import GIT_VERSION, TENSORFLOW_VERSION

UNBOUND_INPUT_PREFIX = "$unbound_inputs_"

_SAVER_OPS = frozenset(
    "Save SaveV2 SaveSlices LegacySave LegacySaveSlices SaveSlice LegacySaveSlice Restore "
    "RestoreV2 RestoreSlice LegacyRestore LegacyRestoreSlice".split()
)
#: A variable is in several of these and must become one object again.
_VARIABLE_COLLECTIONS = frozenset(
    (
        GraphKeys.GLOBAL_VARIABLES,
        GraphKeys.LOCAL_VARIABLES,
        GraphKeys.METRIC_VARIABLES,
        GraphKeys.MODEL_VARIABLES,
        GraphKeys.TRAINABLE_VARIABLES,
        GraphKeys.MOVING_AVERAGE_VARIABLES,
        GraphKeys.CONCATENATED_VARIABLES,
        GraphKeys.GLOBAL_STEP,
        GraphKeys.EVAL_STEP,
    )
)
_MAX_BYTES = 1 << 31


# -- Export --------------------------------------------------------------------------------


def export_scoped_meta_graph(
    filename: str | None = None,
    graph_def: graph_pb2.GraphDef | None = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    as_text: bool = False,
    unbound_inputs_col_name: str | None = "unbound_inputs",
    clear_devices: bool = False,
    saver_def: saver_pb2.SaverDef | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    **kwargs: Any,
) -> tuple[meta_graph_pb2.MetaGraphDef, dict[str, Any]]:
    """A graph (or the part under a name scope) as a MetaGraphDef.

    Args:
      filename: Where to write it as well.
      graph_def: The nodes; those of `graph` by default.
      graph: The graph whose collections are exported; the default graph by default.
      export_scope: Only what is under this name scope; the scope is taken off the names.
      as_text: Whether the file is text.
      unbound_inputs_col_name: The collection that lists what an importer must map.
      clear_devices: Whether to leave devices out.
      saver_def: How to save and restore.
      clear_extraneous_savers: Whether to leave out the nodes of all other savers.
      strip_default_attrs: Whether to leave out attributes that have their defaults.
      **kwargs: ``meta_info_def`` and ``collection_list``, as for `create_meta_graph_def`.

    Returns:
      The message, and the exported variables by name.
    """
    graph = graph if graph is not None else get_default_graph()
    excluded: set[str] = set()
    if export_scope or clear_extraneous_savers or clear_devices:
        whole = graph_def if graph_def is not None else graph.as_graph_def(add_shapes=True)
        if clear_extraneous_savers:
            excluded = _extraneous_saver_nodes(whole, saver_def)
        unbound: list[str] = []
        graph_def = graph_pb2.GraphDef(versions=whole.versions, library=whole.library)
        for node in whole.node:
            if _is_included(node.name, export_scope, excluded):
                added = graph_def.node.add()
                added.CopyFrom(node)
                unbound.extend(_move_to_root(added, export_scope))
                if clear_devices:
                    added.device = ""
        if unbound_inputs_col_name:
            graph.clear_collection(unbound_inputs_col_name)
            for name in unbound:
                graph.add_to_collection(unbound_inputs_col_name, name)
    variables = {
        strip_name_scope(variable.name, export_scope): variable
        for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        if _is_included(variable, export_scope, excluded)
    }
    message = create_meta_graph_def(
        graph_def=graph_def,
        graph=graph,
        export_scope=export_scope,
        exclude_nodes=excluded,
        clear_extraneous_savers=clear_extraneous_savers,
        saver_def=saver_def,
        strip_default_attrs=strip_default_attrs,
        **kwargs,
    )
    if filename:
        folder = os.path.dirname(filename)
        if folder:
            gfile.makedirs(folder)
        write_message(message, filename, as_text)
    return message, variables


def _move_to_root(node: Any, export_scope: str | None) -> list[str]:
    """Takes the scope off all names in a node; its inputs from outside, as they are now."""
    if not export_scope:
        return []
    node.name = strip_name_scope(node.name, export_scope)
    unbound = []
    for i, name in enumerate(node.input):
        if _is_under(name.removeprefix("^"), export_scope):
            node.input[i] = strip_name_scope(name, export_scope)
        else:
            mark = "^" if name.startswith("^") else ""
            node.input[i] = f"{mark}{UNBOUND_INPUT_PREFIX}{name.removeprefix('^')}"
            unbound.append(node.input[i])
    if "_class" in node.attr:
        groups = node.attr["_class"].list.s
        kept = [g for g in groups if _is_under(g.decode().removeprefix("loc:@"), export_scope)]
        del groups[:]
        groups.extend(strip_name_scope(g, export_scope).encode() for g in kept)
    if node.op in ("Enter", "RefEnter"):
        frame = node.attr["frame_name"]
        frame.s = strip_name_scope(frame.s, export_scope).encode()
    return unbound


def _is_under(name: str, scope: str) -> bool:
    return name.startswith(scope.removesuffix("/") + "/")


def _is_included(member: Any, export_scope: str | None, excluded: set[str]) -> bool:
    """Whether a node, a node's name or a collection's member is exported."""
    name = member if isinstance(member, str) else getattr(member, "name", None)
    if not isinstance(name, str):
        return True
    if name in excluded or name.partition(":")[0] in excluded:
        return False
    if name.removeprefix("^").startswith(UNBOUND_INPUT_PREFIX):
        return True
    return not export_scope or _is_under(name, export_scope)


def _extraneous_saver_nodes(
    graph_def: graph_pb2.GraphDef, saver_def: saver_pb2.SaverDef | None
) -> set[str]:
    """The nodes of savers other than the given one. A saver has a name scope of its own."""
    kept = set()
    if saver_def is not None:
        for name in (saver_def.save_tensor_name, saver_def.restore_op_name):
            kept.add(_scope_of(name.partition(":")[0]))
    scopes = {_scope_of(node.name) for node in graph_def.node if node.op in _SAVER_OPS} - kept
    return {
        node.name
        for node in graph_def.node
        if any(scope and _is_under(node.name, scope) for scope in scopes)
    }


def _scope_of(node_name: str) -> str:
    return node_name.rpartition("/")[0]


def create_meta_graph_def(
    meta_info_def: Any = None,
    graph_def: graph_pb2.GraphDef | None = None,
    saver_def: saver_pb2.SaverDef | None = None,
    collection_list: Iterable[str] | None = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    exclude_nodes: Iterable[str] | None = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
) -> meta_graph_pb2.MetaGraphDef:
    """A MetaGraphDef made of its parts.

    Args:
      meta_info_def: Tags and the like; versions and the op list are filled in.
      graph_def: The nodes; all of `graph` by default.
      saver_def: How to save and restore.
      collection_list: Names of the collections to export; all by default.
      graph: Where the collections are; the default graph by default.
      export_scope: The scope to take off names in collections.
      exclude_nodes: Names of nodes that collections leave out.
      clear_extraneous_savers: Whether the savers' collection has only `saver_def`.
      strip_default_attrs: Whether to leave out attributes that have their defaults.

    Raises:
      TypeError: An argument is of the wrong type.
      ValueError: The graph is too big for one message.
    """
    for value, kind, name in (
        (graph, Graph, "graph"),
        (meta_info_def, meta_graph_pb2.MetaGraphDef.MetaInfoDef, "meta_info_def"),
        (graph_def, graph_pb2.GraphDef, "graph_def"),
        (saver_def, saver_pb2.SaverDef, "saver_def"),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{name} must be of type {kind.__name__}. Received type: {type(value)}."
            )
    graph = graph if graph is not None else get_default_graph()
    message = meta_graph_pb2.MetaGraphDef()
    if meta_info_def is not None:
        message.meta_info_def.CopyFrom(meta_info_def)
    message.meta_info_def.tensorflow_version = TENSORFLOW_VERSION
    message.meta_info_def.tensorflow_git_version = GIT_VERSION
    if graph_def is None:
        graph_def = graph.as_graph_def(add_shapes=True)
    if graph_def.ByteSize() >= _MAX_BYTES:
        raise ValueError(
            f"GraphDef cannot be larger than 2GB. Received size: {graph_def.ByteSize()}."
        )
    message.graph_def.CopyFrom(graph_def)
    if not message.meta_info_def.stripped_op_list.op:
        message.meta_info_def.stripped_op_list.CopyFrom(stripped_op_list_for_graph(graph_def))
    if strip_default_attrs:
        strip_graph_default_valued_attrs(message)
    if saver_def is not None:
        message.saver_def.CopyFrom(saver_def)
    keys = collection_list if collection_list is not None else graph.get_all_collection_keys()
    for key in keys:
        contents = None
        if clear_extraneous_savers and key == GraphKeys.SAVERS and saver_def is not None:
            from_proto = collection_protos.get_from_proto_function(key)
            contents = [from_proto(saver_def)] if from_proto is not None else None
        add_collection_def(
            message,
            key,
            graph=graph,
            export_scope=export_scope,
            exclude_nodes=exclude_nodes,
            override_contents=contents,
        )
    return message


def add_collection_def(
    meta_graph_def: meta_graph_pb2.MetaGraphDef,
    key: Any,
    graph: Graph | None = None,
    export_scope: str | None = None,
    exclude_nodes: Iterable[str] | None = None,
    override_contents: Iterable[Any] | None = None,
) -> None:
    """Adds one collection to a MetaGraphDef.

    A collection that cannot be written is left out, with a warning.

    Args:
      meta_graph_def: Where to add it.
      key: The collection's name.
      graph: Its graph; the default graph by default.
      export_scope: The scope to take off names; members outside of it are left out.
      exclude_nodes: Names of members to leave out.
      override_contents: Members to write instead of the collection's.
    """
    if graph is not None and not isinstance(graph, Graph):
        raise TypeError(f"graph must be of type Graph. Received type: {type(graph)}.")
    if not isinstance(key, str | bytes):
        logging.warning(
            "Only collections with string type keys will be serialized. This key has %s", type(key)
        )
        return
    name = key.decode() if isinstance(key, bytes) else key
    graph = graph if graph is not None else get_default_graph()
    contents = override_contents if override_contents is not None else graph.get_collection(key)
    excluded = set(exclude_nodes or ())
    members = [m for m in contents if _is_included(m, export_scope, excluded)]
    if not members:
        return
    try:
        made = _collection_def(name, members, export_scope)
    except Exception as error:
        logging.warning(
            "Issue encountered when serializing %s.\nType is unsupported, or the types of the "
            "items don't match field type in CollectionDef. Note this is a warning and probably "
            "safe to ignore.\n%s",
            name,
            error,
        )
        return
    meta_graph_def.collection_def[name].CopyFrom(made)


def _collection_def(
    key: str, members: list[Any], export_scope: str | None
) -> meta_graph_pb2.CollectionDef:
    made = meta_graph_pb2.CollectionDef()
    to_proto = collection_protos.get_to_proto_function(key)
    if to_proto is not None:
        made.bytes_list.SetInParent()
        for member in members:
            proto = to_proto(member, export_scope=export_scope)
            if proto is not None:
                made.bytes_list.value.append(proto.SerializeToString(deterministic=True))
        return made
    first = members[0]
    if isinstance(first, str | bytes):
        made.bytes_list.value.extend(m.encode() if isinstance(m, str) else m for m in members)
    elif isinstance(first, int):
        made.int64_list.value.extend(members)
    elif isinstance(first, float):
        made.float_list.value.extend(members)
    elif isinstance(first, any_pb2.Any):
        made.any_list.value.extend(members)
    else:
        made.node_list.value.extend(strip_name_scope(m.name, export_scope) for m in members)
    return made


def ops_used_by_graph_def(graph_def: graph_pb2.GraphDef) -> list[str]:
    """The op types in a graph and in the functions that it calls, sorted."""
    functions = {f.signature.name: f for f in graph_def.library.function}
    used: set[str] = set()
    called: set[str] = set()
    pending = [list(graph_def.node)]
    while pending:
        for node in pending.pop():
            used.add(node.op)
            names = [node.op]
            for value in node.attr.values():
                names.append(value.func.name)
                names.extend(item.name for item in value.list.func)
            for name in names:
                if name in functions and name not in called:
                    called.add(name)
                    pending.append(list(functions[name].node_def))
    return sorted(used - set(functions))


def stripped_op_list_for_graph(graph_def: graph_pb2.GraphDef) -> op_def_pb2.OpList:
    """The signatures of all op types that a graph uses."""
    definitions = (registry.find(name) for name in ops_used_by_graph_def(graph_def))
    return op_def_pb2.OpList(op=[d.op_def() for d in definitions if d is not None])


def strip_graph_default_valued_attrs(meta_graph_def: meta_graph_pb2.MetaGraphDef) -> None:
    """Removes all attributes that say what their op's default says."""
    graph_def = meta_graph_def.graph_def
    functions = {f.signature.name for f in graph_def.library.function}
    op_defs: dict[str, dict[str, Any]] = {}
    nodes = [graph_def.node, *(f.node_def for f in graph_def.library.function)]
    for node in (node for group in nodes for node in group):
        definition = registry.find(node.op)
        if definition is None or node.op in functions:
            continue
        if node.op not in op_defs:
            op_defs[node.op] = {
                a.name: a.default_value
                for a in definition.op_def().attr
                if a.HasField("default_value")
            }
        defaults = op_defs[node.op]
        for name in [n for n, v in node.attr.items() if n in defaults and v == defaults[n]]:
            del node.attr[name]
    meta_graph_def.meta_info_def.stripped_default_attrs = True


# -- Import --------------------------------------------------------------------------------


def read_meta_graph_file(filename: str) -> meta_graph_pb2.MetaGraphDef:
    """The MetaGraphDef in a file, in either format.

    Raises:
      OSError: There is no such file, or it holds something else.
    """
    message: meta_graph_pb2.MetaGraphDef = read_message(meta_graph_pb2.MetaGraphDef, filename)
    return message


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str | None = "unbound_inputs",
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
) -> dict[str, Any]:
    """As `import_scoped_meta_graph_with_return_elements`, for the variables only."""
    return import_scoped_meta_graph_with_return_elements(
        meta_graph_or_file,
        clear_devices,
        graph,
        import_scope,
        input_map,
        unbound_inputs_col_name,
        restore_collections_predicate,
    )[0]


def import_scoped_meta_graph_with_return_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str | None = "unbound_inputs",
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: Sequence[str] | None = None,
) -> tuple[dict[str, Any], list[Any] | None]:
    """Adds the nodes and collections of a MetaGraphDef to a graph.

    Args:
      meta_graph_or_file: The message, or the name of a file that holds one.
      clear_devices: Whether to forget the nodes' devices.
      graph: Where to; the default graph by default.
      import_scope: The name scope to put everything in.
      input_map: Tensors for inputs, as in `import_graph_def`.
      unbound_inputs_col_name: The collection that lists which inputs must be mapped.
      restore_collections_predicate: Which collections to restore, by name.
      return_elements: Names of operations and tensors to return.

    Returns:
      The variables in the scope by name, and what `return_elements` asks for.

    Raises:
      ValueError: An input that comes from outside is not mapped.
    """
    message = meta_graph_pb2.MetaGraphDef()
    if isinstance(meta_graph_or_file, meta_graph_pb2.MetaGraphDef):
        message.CopyFrom(meta_graph_or_file)
    else:
        message = read_meta_graph_file(meta_graph_or_file)
    if unbound_inputs_col_name and unbound_inputs_col_name in message.collection_def:
        _check_unbound(message.collection_def[unbound_inputs_col_name], input_map)
    if clear_devices:
        for node in message.graph_def.node:
            node.device = ""
    graph = graph if graph is not None else get_default_graph()
    with graph.as_default():
        info = message.meta_info_def
        scope = graph.unique_name(import_scope or "", mark_as_used=False)
        returned = import_graph_def(
            message.graph_def,
            name=import_scope or scope,
            input_map=input_map,
            producer_op_list=info.stripped_op_list if info.HasField("stripped_op_list") else None,
            return_elements=return_elements,
        )
        reader = _CollectionReader(graph, scope, states_trainable=_states_trainable(info))
        # Trainable variables come first: what a file of an old version says of them is there.
        for key in sorted(
            message.collection_def, key=lambda k: (k != GraphKeys.TRAINABLE_VARIABLES, k)
        ):
            if key != unbound_inputs_col_name and restore_collections_predicate(key):
                reader.restore(key, message.collection_def[key])
        pattern = scope or None
        variables = {
            strip_name_scope(variable.name, scope): variable
            for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=pattern)
        }
    return variables, returned


def _check_unbound(
    collection: meta_graph_pb2.CollectionDef, input_map: Mapping[str, Any] | None
) -> None:
    values = getattr(collection, collection.WhichOneof("kind") or "bytes_list").value
    names = [v.decode() if isinstance(v, bytes) else v for v in values]
    given = set(input_map or ())
    if names and set(names) != given:
        missing = ",".join(name for name in names if name not in given)
        raise ValueError(
            f"Graph contains unbound inputs: {missing}. Must provide these inputs through "
            "input_map."
        )


def _states_trainable(info: Any) -> bool:
    """Whether VariableDefs say if they are trainable: since TensorFlow 1.9."""
    parts = info.tensorflow_version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return True
    return (int(parts[0]), int(parts[1])) >= (1, 9)


class _CollectionReader:
    """Restores the collections of one MetaGraphDef."""

    def __init__(self, graph: Graph, scope: str, *, states_trainable: bool) -> None:
        self._graph = graph
        self._scope = scope
        self._states_trainable = states_trainable
        #: Variables by the message that they were made from: one object for each.
        self._variables: dict[bytes, Any] = {}

    def restore(self, key: str, collection: meta_graph_pb2.CollectionDef) -> None:
        """Adds the members of one collection to the graph."""
        kind = collection.WhichOneof("kind")
        if kind is None:
            logging.error("Cannot identify data type for collection %s. Skipping.", key)
            return
        values = getattr(collection, kind).value
        # Metric variables are written like other variables.
        like = GraphKeys.GLOBAL_VARIABLES if key == GraphKeys.METRIC_VARIABLES else key
        from_proto = collection_protos.get_from_proto_function(like)
        for value in values:
            if kind == "bytes_list" and from_proto is not None:
                member = self._from_message(key, like, value, from_proto)
            elif kind == "node_list":
                member = self._graph.as_graph_element(prepend_name_scope(value, self._scope))
            elif kind == "int64_list":
                member = int(value)
            else:
                member = prepend_name_scope(value, self._scope)
            self._graph.add_to_collection(key, member)

    def _from_message(
        self, key: str, like: str, value: bytes, from_proto: Callable[..., Any]
    ) -> Any:
        if key in _VARIABLE_COLLECTIONS and value in self._variables:
            return self._variables[value]
        proto = collection_protos.get_collection_proto_type(like)()
        proto.ParseFromString(value)
        if key in _VARIABLE_COLLECTIONS and not self._states_trainable:
            proto.trainable = key == GraphKeys.TRAINABLE_VARIABLES
        member = from_proto(proto, import_scope=self._scope)
        if key in _VARIABLE_COLLECTIONS:
            self._variables[value] = member
        return member


def copy_scoped_meta_graph(
    from_scope: str,
    to_scope: str,
    from_graph: Graph | None = None,
    to_graph: Graph | None = None,
) -> dict[str, Any]:
    """Copies what is under one name scope to another.

    Returns:
      The copied variables by name.

    Raises:
      ValueError: Both scopes are the same scope of one graph.
    """
    source = from_graph if from_graph is not None else get_default_graph()
    target = to_graph if to_graph is not None else get_default_graph()
    if source is target and from_scope == to_scope:
        raise ValueError(
            "'from_scope' and 'to_scope' need to be different when performing copy in the same "
            f"graph. Received {from_scope!r} for both."
        )
    message, _ = export_scoped_meta_graph(export_scope=from_scope, graph=source)
    return import_scoped_meta_graph(message, graph=target, import_scope=to_scope)
