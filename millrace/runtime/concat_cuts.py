"""Gradients of concatenations, taken apart in one call per part.

The gradient of a concatenation of tensors of unknown shape is, in TensorFlow's graphs,

    begin_0, begin_1, … = ConcatOffset(axis, shape_0, shape_1, …)
    part_0 = Slice(gradient, begin_0, shape_0); part_1 = Slice(gradient, begin_1, shape_1); …

Where each part begins follows from the sizes along one axis, and in all others it is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from millrace.core.value import Value
from millrace.passes.node import Edge, Node


class Cut(NamedTuple):
    """A Slice that takes a part of a concatenation out.

    Attributes:
      whole: What it is taken out of.
      axis: The axis along which the parts lie.
      shapes: The shapes of the parts up to this one.
    """

    whole: Edge
    axis: int
    shapes: tuple[Edge, ...]


class ConcatCuts:
    """Which nodes are such slices, and which nodes they make superfluous.

    Args:
      nodes: All nodes.
      wanted: Values that others want.
    """

    def __init__(self, nodes: Sequence[Node], wanted: Iterable[Edge]) -> None:
        inside = set(nodes)
        self._found: dict[Node, Cut] = {}
        others = {edge.node for edge in wanted}
        for node in nodes:
            found = _match(node, inside)
            if found is not None:
                self._found[node] = found
            for edge in node.inputs:
                if found is None or edge != node.inputs[1]:
                    others.add(edge.node)
            others.update(node.controls)
        self._replaced = {n for n in nodes if n.type == "ConcatOffset" and n not in others}

    def of(self, node: Node) -> Cut | None:
        """The cut that a node is, if it is one."""
        found = self._found.get(node)
        if found is None or node.inputs[1].node not in self._replaced:
            return None
        return found

    def replaces(self, node: Node) -> bool:
        """Whether a node only serves slices that do without it."""
        return node in self._replaced


def _match(node: Node, inside: set[Node]) -> Cut | None:
    if node.type != "Slice":
        return None
    whole, begin, size = node.inputs
    offsets = begin.node
    if offsets.type != "ConcatOffset" or offsets not in inside:
        return None
    axis, *shapes = offsets.inputs
    if axis.node.type != "Const" or axis.node.attrs["value"].size != 1:
        return None
    if shapes[begin.index] != size:
        return None
    return Cut(whole, int(axis.node.attrs["value"].item()), tuple(shapes[: begin.index + 1]))


def cut(whole: Value, axis: int, *shapes: Value) -> Value:
    """The last of some parts that lie one after the other.

    Args:
      whole: All of them.
      axis: Along this axis.
      shapes: The shape of each, up to the one that is wanted.

    Raises:
      ValueError: The part is not inside.
    """
    shape = tuple(shapes[-1].tolist())
    start = 0
    for before in shapes[:-1]:
        start += before.item(axis)
    stop = start + shape[axis]
    if axis == 1:
        part = whole[:, start:stop]
    elif axis == 0:
        part = whole[start:stop]
    else:
        place = (slice(None),) * (axis % whole.ndim)
        part = whole[(*place, slice(start, stop))]
    if part.shape != shape:
        raise ValueError(
            f"The gradient of a concatenation has shape {list(whole.shape)}, of which a part of "
            f"shape {list(shape)} was to begin at {start} along axis {axis}"
        )
    return part
