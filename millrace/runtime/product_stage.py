"""A matrix product that is only sent: NumPy makes it in the message, where XLA's would be copied.

For the weights' gradient of the seed programs' MLP in one thread that is 130 µs instead of 190 and
a copy of 40; see `passes/sent_products.py` for which products these are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.core.written import Written
from millrace.ops import blas, xla
from millrace.passes.node import Edge, Node
from millrace.runtime.compiled_stage import CompiledStage


class ProductStage:
    """One product of two matrices, to be written where it is wanted."""

    blocking = False

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.nodes = [node]
        self.name = name
        self.inputs = list(dict.fromkeys(node.inputs))
        self.outputs = [Edge(node, 0)]
        self._left, self._right = map(self.inputs.index, node.inputs)
        self._is_turned = bool(node.attrs["transpose_a"]), bool(node.attrs["transpose_b"])
        #: For what is no product, to say so.
        self._compiled = CompiledStage(self.nodes, self.outputs, name)

    def run(self, inputs: list[Any], step: Any) -> list[Any]:
        """What will write the product."""
        left, right = np.asarray(inputs[self._left]), np.asarray(inputs[self._right])
        if left.ndim != 2 or right.ndim != 2:
            return self._compiled.run(inputs, step)
        if self._is_turned[0]:
            left = left.T
        if self._is_turned[1]:
            right = right.T
        if left.shape[1] != right.shape[0]:
            return self._compiled.run(inputs, step)

        def write(place: Any) -> None:
            np.matmul(left, right, out=place)

        return [Written((left.shape[0], right.shape[1]), left.dtype, write)]


def is_better() -> bool:
    """Whether such products are quicker than XLA's here: where both have one thread."""
    return xla.has_one_thread() and blas.use_one_thread()
