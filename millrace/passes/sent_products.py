"""Finds matrix products that are made for a message only: gradients of weights, on a worker.

XLA puts what it makes into memory of its own, from where it is copied into the message. NumPy can
make a product right there. So such a product is taken out of the program that XLA compiles; all
else of a step is still one program, because nothing but a send needs the product.
"""

from __future__ import annotations

import math
from collections import defaultdict

from millrace.passes.function_body import functions_of
from millrace.passes.node import Edge, Node, Program
from millrace.passes.schedule import writes_state
from millrace.passes.transfer import SEND

#: A smaller one is copied sooner than it is handed over.
MIN_BYTES = 64 << 10
_TYPES = ("float32", "float64")


def sent_products(program: Program) -> set[Node]:
    """The products that are only sent; their sends are made to take them as they are.

    Between a gradient and its send may lie an Identity that waits for the other gradients of the
    same op, as what comes after these waits for the product. The send waits for the others instead,
    and of what waits for the product only other sends still do: nothing is sent of a step in which
    matrices do not fit, and whatever only computes need not wait for what it does not use.
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
                or not _is_used_once(product, passed[-2].node if len(passed) > 1 else send, users)
            ):
                continue
            after = _after(product, users)
            if after is None:
                continue
            send.inputs[i] = passed[-1]
            for between in passed[:-1]:
                send.controls.extend(c for c in between.node.controls if c not in send.controls)
                program.nodes.remove(between.node)
            for node in program.nodes:
                if product in node.controls:
                    node.controls.remove(product)
            for node in after:
                if node.definition is SEND and node is not send:
                    node.controls.append(product)
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


def _is_used_once(product: Node, taker: Node, users: dict[Node, set[Node]]) -> bool:
    """Whether its value goes to that node alone, once."""
    return all(
        sum(edge.node is product for edge in user.inputs) == (user is taker)
        for user in users[product]
    )


def _after(product: Node, users: dict[Node, set[Node]]) -> set[Node] | None:
    """All that waits for it, up to sends; None if something else is among it that has effects."""
    after: set[Node] = set()
    pending = list(users[product])
    while pending:
        node = pending.pop()
        if node in after:
            continue
        after.add(node)
        if node.definition is SEND:
            continue
        definition = node.definition
        if definition.is_stateful or definition.kind == "blocking" or writes_state(node):
            return None
        if functions_of(node):
            return None
        pending.extend(users[node])
    return after
