"""Finds matrix products that are made for a message only: gradients of weights, on a worker.

XLA puts what it makes into memory of its own, from where it is copied into the message. NumPy can
make a product right there. So such a product is taken out of the program that XLA compiles; all
else of a step is still one program, because nothing but a send comes after the product.
"""

from __future__ import annotations

import math
from collections import defaultdict

from millrace.passes.node import Edge, Node, Program
from millrace.passes.transfer import SEND

#: A smaller one is copied sooner than it is handed over.
MIN_BYTES = 64 << 10
_TYPES = ("float32", "float64")
#: What only hands on its input, or nothing.
_PASSES_ON = ("Identity", "NoOp")


def sent_products(program: Program) -> set[Node]:
    """The products that are only sent; their sends are made to take them as they are.

    Between a gradient and its send may lie an Identity that waits for the other gradients. The
    send waits for these instead, and nobody for the product: who waits for it wants no more than
    that nothing is sent before all is computed, and a product of matrices that fit cannot fail.
    """
    users: dict[Node, set[Node]] = defaultdict(set)
    for node in program.nodes:
        for source in node.predecessors():
            users[source].add(node)
    wanted = {edge.node for edge in program.results} | set(program.targets)
    found = set()
    for send in list(program.nodes):
        if send.definition is not SEND or send.attrs["last"] or send.attrs["on_request"]:
            continue
        for i, (edge, shape) in enumerate(zip(send.inputs, send.attrs["shapes"], strict=True)):
            passed = _passed_on(edge, users, wanted)
            product = passed[-1].node
            if (
                product.type != "MatMul"
                or product.output_types[0].name not in _TYPES
                or not shape.is_fully_defined()
                or math.prod(shape.as_list()) * product.output_types[0].size < MIN_BYTES
                or product in wanted
                or not _is_only_sent(product, passed, send, users)
            ):
                continue
            send.inputs[i] = passed[-1]
            for between in passed[:-1]:
                send.controls.extend(c for c in between.node.controls if c not in send.controls)
                program.nodes.remove(between.node)
            for node in program.nodes:
                if product in node.controls:
                    node.controls.remove(product)
            found.add(product)
    return found


def _passed_on(edge: Edge, users: dict[Node, set[Node]], wanted: set[Node]) -> list[Edge]:
    """The edge and those that it hands on without anybody else seeing it, to the first one."""
    passed = [edge]
    while (
        passed[-1].node.type == "Identity"
        and len(users[passed[-1].node]) == 1
        and passed[-1].node not in wanted
        and not passed[-1].dtype._is_ref_dtype
    ):
        passed.append(passed[-1].node.inputs[0])
    return passed


def _is_only_sent(
    product: Node, passed: list[Edge], send: Node, users: dict[Node, set[Node]]
) -> bool:
    """Whether its value is used by that send alone, and all that waits for it is sends."""
    taker = passed[-2].node if len(passed) > 1 else send
    for user in users[product]:
        taken = sum(edge.node is product for edge in user.inputs)
        if taken != (user is taker):
            return False
    after, seen = list(users[product]), {product}
    while after:
        node = after.pop()
        if node not in seen and node.definition is not SEND:
            if node.type not in _PASSES_ON:
                return False
            seen.add(node)
            after.extend(users[node])
    return True
