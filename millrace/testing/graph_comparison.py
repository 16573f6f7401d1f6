"""`tf.test.assert_equal_graph_def`."""

from __future__ import annotations

from typing import Any

from millrace.core.config import GraphDef

_RESTORES = ("RestoreV2", "SaveV2")
_TABLES = ("HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2")


def assert_equal_graph_def(
    actual: Any,
    expected: Any,
    checkpoint_v2: bool = False,
    hash_table_shared_name: bool = False,
) -> None:
    """Two graphs have equal nodes; their order and the versions do not matter.

    Args:
      actual: A GraphDef.
      expected: A GraphDef.
      checkpoint_v2: Whether to overlook the names of temporary checkpoints.
      hash_table_shared_name: Whether to overlook the shared names of tables.

    Raises:
      AssertionError: They differ; says in which node.
      TypeError: One is no GraphDef.
    """
    for name, graph in (("actual", actual), ("expected", expected)):
        if not isinstance(graph, GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {name}, got {type(graph).__name__}")
    ours, theirs = (
        {node.name: _comparable(node, checkpoint_v2, hash_table_shared_name) for node in graph.node}
        for graph in (actual, expected)
    )
    for name in theirs:
        if name not in ours:
            raise AssertionError(f"Did not find expected node '{theirs[name]}'")
    for name in ours:
        if name not in theirs:
            raise AssertionError(f"Found unexpected node '{ours[name]}'")
    for name, node in ours.items():
        if node != theirs[name]:
            raise AssertionError(
                f"Node named '{name}' is\n{node}\nbut was expected to be\n{theirs[name]}"
            )


def _comparable(node: Any, checkpoint_v2: bool, hash_table_shared_name: bool) -> Any:
    copy = type(node)()
    copy.CopyFrom(node)
    if checkpoint_v2 and node.op == "Const" and b"_temp_" in node.SerializeToString():
        copy.attr["value"].tensor.string_val[:] = [b""]
    if hash_table_shared_name and node.op in _TABLES and "shared_name" in node.attr:
        copy.attr["shared_name"].s = b""
    return copy
