"""Gradients of operands that were broadcast, summed to the operand's shape in one call.

A gradient with respect to an operand of unknown shape is five nodes in TensorFlow's graphs, for
every sum and product of a model:

    axes_x, axes_y = BroadcastGradientArgs(Shape(x), Shape(y))
    result = Reshape(Sum(gradient, axes_x), Shape(x))

Mostly there is nothing to sum: the gradient has the operand's shape, and is the result.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from millrace.core.value import Value
from millrace.ops.array.shape import repeated_axes_of
from millrace.passes.node import Edge, Node, is_variable_edge

#: Nodes that only serve such sums, if nobody else uses them.
_SERVING = frozenset(("Sum", "BroadcastGradientArgs", "Shape"))


class BroadcastSum(NamedTuple):
    """The last of the five nodes, as one call.

    Attributes:
      gradient: What is summed.
      operands: The two operands, or their shapes.
      position: Which of the two operands it is.
    """

    gradient: Edge
    operands: tuple[Edge, Edge]
    position: int


class BroadcastSums:
    """Which nodes are such sums, and which nodes they make superfluous.

    Args:
      nodes: All nodes.
      wanted: Values that others want.
    """

    def __init__(self, nodes: Sequence[Node], wanted: Iterable[Edge]) -> None:
        self._found: dict[Node, BroadcastSum] = {}
        users: dict[Node, list[Node]] = {node: [] for node in nodes}
        for node in nodes:
            found = _match(node, users)
            if found is not None:
                self._found[node] = found
            for edge in node.inputs:
                if edge.node in users:
                    users[edge.node].append(node)
        kept = {edge.node for edge in wanted}
        self._replaced: set[Node] = set()
        for node in reversed(nodes):
            if node.type in _SERVING and node not in kept and users[node]:
                is_shape = node.type == "Shape"
                if is_shape and is_variable_edge(node.inputs[0]):
                    continue
                if all(user in self._replaced or user in self._found for user in users[node]):
                    self._replaced.add(node)

    def of(self, node: Node) -> BroadcastSum | None:
        """The sum that a node is the last part of, if it is one."""
        return self._found.get(node)

    def replaces(self, node: Node) -> bool:
        """Whether a node only serves sums that do without it."""
        return node in self._replaced

    def shape_of(self, operand: Edge) -> tuple[Edge, bool]:
        """(a value, whether it is the shape itself or has it) for one of `operands`."""
        if operand.node in self._replaced:
            return operand.node.inputs[0], False
        return operand, True


def _match(node: Node, inside: Container[Node]) -> BroadcastSum | None:
    if node.type != "Reshape":
        return None
    total, shape = node.inputs
    if total.node not in inside or total.node.type != "Sum" or total.node.attrs.get("keep_dims"):
        return None
    gradient, axes = total.node.inputs
    if axes.node not in inside or axes.node.type != "BroadcastGradientArgs":
        return None
    if is_variable_edge(gradient):
        return None
    x, y = axes.node.inputs
    if (x, y)[axes.index] != shape:
        return None
    return BroadcastSum(gradient, (x, y), axes.index)


def sum_to(gradient: Value, x: Value, y: Value, position: int) -> Value:
    """A gradient summed to the shape of one of two operands.

    Args:
      gradient: In the shape that both operands broadcast to.
      x: The first operand's shape.
      y: The second one's.
      position: 0 for the first, 1 for the second.
    """
    axes = repeated_axes_of(x, y)[position]
    total = np.add.reduce(gradient, axis=tuple(axes), dtype=gradient.dtype)
    return total.reshape((x, y)[position])
