"""Seeds of random ops: how a graph's seed and an op's seed become the two that a node carries.

The rule is TensorFlow's, and the op seeds that a seeded graph hands out are numbered as TensorFlow
2 numbers them (0, 1, 2, ... in the order of construction), so that a seeded program draws the
numbers that it draws there.
"""

from __future__ import annotations

import weakref

from millrace.graph.defaults import get_default_graph
from millrace.graph.graph import Graph

#: The graph seed of an op that has a seed of its own in a graph that has none.
DEFAULT_GRAPH_SEED = 87654321
_MAX_INT32 = 2**31 - 1

#: How many op seeds each graph has handed out.
_handed_out: weakref.WeakKeyDictionary[Graph, int] = weakref.WeakKeyDictionary()


def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The two seeds of an op that is being made in the default graph.

    Args:
      op_seed: The seed that the caller gave for this op, or None.

    Returns:
      (seed, seed2); (None, None) when neither the graph nor the op is seeded. Never (0, 0), which
      kernels take for "not seeded".
    """
    graph = get_default_graph()
    if graph.seed is not None:
        if op_seed is None:
            op_seed = _handed_out.get(graph, 0)
            _handed_out[graph] = op_seed + 1
        seeds = graph.seed % _MAX_INT32, op_seed % _MAX_INT32
    elif op_seed is not None:
        seeds = DEFAULT_GRAPH_SEED, op_seed % _MAX_INT32
    else:
        return None, None
    return (0, _MAX_INT32) if seeds == (0, 0) else seeds


def set_random_seed(seed: int | None) -> None:
    """Sets the seed of the default graph."""
    get_default_graph().seed = seed
