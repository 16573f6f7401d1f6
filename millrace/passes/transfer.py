"""The nodes between which values go from one task to another.

A send and a receive of one key in one step belong together. Their kernels hand the work to the
step's exchange, which knows the transports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from millrace.core.value import Context, Value
from millrace.graph import registry
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.signature import parse

if TYPE_CHECKING:
    from millrace.passes.node import Node


def _send(tensors: list[Value], *, ctx: Context, node: Node) -> tuple[()]:
    if node.attrs["last"]:
        ctx.exchange.send_last(tensors)
    else:
        ctx.exchange.send(node.attrs["to"].decode(), node.attrs["key"], tensors)
    return ()


def _receive(*, ctx: Context, node: Node) -> Value:
    return ctx.exchange.receive(node.attrs["source"].decode(), node.attrs["key"])


#: Sends values to the task ``to``. The ``last`` ones, after which a partition only has to say that
#: it is over, go with the message that says so. Those ``on_request`` are variables as they are when
#: the task ``to`` asks for them; they are not run. ``shapes``: what is known of theirs.
SEND = registry.OpDefinition(
    parse(
        "_SendTensors(tensors: [T]) where T: list(type) >= 0; to: string; key: int; "
        "last: bool = false; on_request: bool = false; shapes: list(shape) = []"
    ),
    shape_rule=lambda c: None,
    kernel=_send,
    kind="host",
    is_stateful=True,
    gradient=NO_GRADIENT,
)
#: Waits for values from the task ``source``. Receives of one ``group`` arrive at one point of the
#: step; ``level`` says how many transfers lie before. ``names`` are the tensors' names where they
#: were made, ``guards`` the branches that they are made in, ``shapes`` what is known of theirs.
RECEIVE = registry.OpDefinition(
    parse(
        "_ReceiveTensors() -> tensors: [T] where T: list(type) >= 0; source: string; key: int; "
        "group: string; level: int; names: list(string); guards: list(string); "
        "shapes: list(shape) = []"
    ),
    shape_rule=lambda c: None,
    kernel=_receive,
    kind="blocking",
    is_stateful=True,
    gradient=NO_GRADIENT,
)
#: Sends a value of one iteration of a loop that lies on several tasks; the interpreter tells the
#: iteration. ``level`` is as of a receive: that of the whole loop.
LOOP_SEND = registry.OpDefinition(
    parse("_LoopSend(tensor: T) where T: type; to: string; key: int; level: int"),
    shape_rule=lambda c: None,
    kernel=lambda tensor: (),
    kind="host",
    is_stateful=True,
    gradient=NO_GRADIENT,
)
#: Waits for such a value.
LOOP_RECEIVE = registry.OpDefinition(
    parse(
        "_LoopReceive() -> tensor: T where T: type; source: string; key: int; level: int; "
        "name: string"
    ),
    shape_rule=lambda c: None,
    kernel=lambda: None,
    kind="blocking",
    is_stateful=True,
    gradient=NO_GRADIENT,
)
#: A value that exists if the nodes exist that it waits for.
LIFE_SIGN = registry.OpDefinition(
    parse("_LifeSign() -> sign: int32"),
    shape_rule=lambda c: None,
    kernel=lambda: np.int32(0),
    kind="host",
    is_stateful=True,
    gradient=NO_GRADIENT,
)
#: A private attribute of the receive that a deferred partition begins with; stays at the master.
BEGINS = "_begins"
for _definition in (SEND, RECEIVE, LOOP_SEND, LOOP_RECEIVE, LIFE_SIGN):
    registry.register(_definition)
