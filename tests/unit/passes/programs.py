"""Programs that between them have something to do for every pass, and programs as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import millrace as tf
from millrace.core.tensor_shape import TensorShape
from millrace.graph.function import FuncGraph, Function, add_function
from millrace.ops.functions import function_call
from millrace.passes.node import Node, Program, Setting
from millrace.passes.prune import prune
from tests.cluster.test_split_loops import F32, Builder

PS, PS1 = "/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1"
WORKER = "/job:worker/replica:0/task:0"
DEVICES = tuple(f"{task}/device:CPU:0" for task in (WORKER, PS, PS1))
#: A session of a cluster with two parameter servers, whose master is on the worker.
CLUSTER = Setting(devices=DEVICES, home=WORKER)
#: A task that runs its partition.
TASK = Setting()


def _program(fetches: Any = (), targets: Any = (), feeds: Any = ()) -> Program:
    return prune(list(fetches), [getattr(t, "op", t) for t in targets], list(feeds))


def training() -> Program:
    """A layer on a parameter server, trained by a worker; the step is counted on another."""
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    with tf.device(setter):
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        weights = tf.Variable(tf.ones([4, 3]), name="weights")
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights)))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    return _program([loss], [train], [x])


def table_on_two_tasks() -> Program:
    """Rows of a table in two parts, looked up, added up and trained."""
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    with tf.device(setter):
        ids = tf.placeholder(tf.int32, [None, 3], name="ids")
        parts = [tf.Variable(tf.ones([10, 4]), name=f"part_{i}") for i in range(2)]
        rows = tf.nn.embedding_lookup(parts, ids)
        loss = tf.reduce_sum(tf.square(tf.reduce_sum(rows, 1)))
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    return _program([loss], [train], [ids])


def sparse_features() -> Program:
    """The distinct ids of sparse features, and the rows of each example added up."""
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    with tf.device(setter):
        ids = tf.sparse_placeholder(tf.int64, name="ids")
        parts = [tf.Variable(tf.ones([10, 4]), name=f"part_{i}") for i in range(2)]
        rows = tf.nn.embedding_lookup_sparse(parts, ids, None, combiner="sum")
        loss = tf.reduce_sum(tf.square(rows))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return _program([loss], [train], [ids.indices, ids.values, ids.dense_shape])


def synchronous_round() -> Program:
    """Gradients that go into several accumulators, and out of them."""
    accumulators = [tf.ConditionalAccumulator(tf.float32, [2], shared_name=f"a{i}") for i in (0, 1)]
    queue = tf.FIFOQueue(3, tf.float32, [[]], shared_name="tokens")
    given = tf.placeholder(tf.float32, [2], name="gradient")
    applies = [each.apply_grad(given, 0) for each in accumulators]
    with tf.control_dependencies(applies):
        taken = [each.take_grad(1) for each in accumulators]
    return _program([*taken, queue.dequeue()], applies, [given])


def calls() -> Program:
    """A function that is called twice, the second time with what the first has made."""
    graph = tf.get_default_graph()
    body = FuncGraph("double", graph)
    argument = body.add_argument(tf.float32, TensorShape(None), "a")
    with body.as_default():
        doubled = argument * 2.0
    double = Function(body, [doubled], [])
    add_function(graph, double)
    x = tf.placeholder(tf.float32, [2], name="x")

    def call(value: Any) -> Any:
        make = function_call.StatefulPartitionedCall.operation
        return make([value], f=double, Tout=[tf.float32]).outputs[0]

    return _program([call(call(x))], [], [x])


def loop_of_tf1() -> Program:
    """A loop of Switch and Merge whose body adds to variables of two tasks."""
    build = Builder()
    build.constant("start", np.int32(0))
    build.constant("limit", np.int32(3))
    build.count("i", "loop", "start", "limit")
    for i, device in enumerate((PS, PS1)):
        build.variable(f"count_{i}", device)
        reference = {"T": F32, "device": device}
        attrs = {
            "frame_name": tf.AttrValue(s=b"loop"),
            "is_constant": tf.AttrValue(b=True),
            "parallel_iterations": tf.AttrValue(i=10),
        }
        build.add(f"enter_{i}", "RefEnter", f"count_{i}", **reference, **attrs)
        build.constant(f"one_{i}", np.float32(1), "^i/body", device=device)
        build.add(f"add_{i}", "AssignAdd", f"enter_{i}", f"one_{i}", **reference)
        (plus,) = (node for node in build.definition.node if node.name == "i/plus")
        plus.input.append(f"^add_{i}")
    build.done()
    return _program([tf.get_default_graph().get_tensor_by_name("i/exit:0")])


def groups_and_constants() -> Program:
    """Constants that wait, and groups that lie between tasks."""
    with tf.device(PS):
        first = tf.Variable(1.0, name="first")
        update = tf.assign_add(first, 1.0)
    with tf.device(PS1):
        second = tf.Variable(1.0, name="second")
        both = tf.group(update, tf.assign_add(second, 1.0), name="both")
    with tf.control_dependencies([both]):
        constant = tf.constant(np.float32(3.0), name="waiting")
    return _program([constant * 2.0 + first], [both])


PROGRAMS: tuple[Callable[[], Program], ...] = (
    training,
    table_on_two_tasks,
    sparse_features,
    synchronous_round,
    calls,
    loop_of_tf1,
    groups_and_constants,
)


def text_of(program: Program) -> str:
    """Everything that a program states, in its order."""
    lines = [_line(node) for node in program.nodes]
    lines.append("arguments " + " ".join(edge.name for edge in program.arguments))
    lines.append("results " + " ".join(edge.name for edge in program.results))
    lines.append("targets " + " ".join(node.name for node in program.targets))
    for stage in program.stages or ():
        lines.append(repr(stage))
    return "\n".join(lines)


def _line(node: Node) -> str:
    attrs = {
        name: value.name if isinstance(value, Function) else value
        for name, value in sorted(node.attrs.items())
        if name not in ("region", "outside")
    }
    region = node.attrs.get("region")
    inside = "" if region is None else " ".join(map(_line, region.nodes))
    members = " ".join(_line(member) for member in getattr(node, "members", ()))
    return (
        f"{node.name} {node.type} on {node.device} ({' '.join(e.name for e in node.inputs)}) "
        f"after ({' '.join(c.name for c in node.controls)}) {attrs} {inside} {members}"
    )


def elsewhere(program: Program, seed: int) -> Program:
    """The same program, whose nodes lie in another order in memory: sets of them differ."""
    nodes = list(program.nodes)
    random.Random(seed).shuffle(nodes)
    held: list[Any] = []

    def copies(of: Iterable[Node]) -> dict[Node, Node]:
        made = {}
        for node in of:
            made[node] = node.copy()
            held.append(bytearray(random.Random(seed).randrange(8, 600)))
        return made

    made = copies(nodes)
    for copy in made.values():
        copy.rewire(made)
    return Program(
        [made[node] for node in program.nodes],
        program.arguments,
        [type(edge)(made.get(edge.node, edge.node), edge.index) for edge in program.results],
        [made.get(node, node) for node in program.targets],
        program.setting,
    )
