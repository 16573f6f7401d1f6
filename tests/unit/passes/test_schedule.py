"""Order and grouping: stages that are few, and never wait for what they themselves produce."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.graph import registry
from millrace.graph.signature import parse
from millrace.passes import schedule
from millrace.passes.node import Edge, Node, Program
from millrace.passes.prune import prune

FLOAT = tf.float32


def definition(name: str, kind: str, **options: Any) -> registry.OpDefinition:
    """An op type of one to three floats that is known to no registry."""
    return registry.OpDefinition(
        parse(f"{name}(xs: N*float32) -> y: float32 where N: int >= 0"),
        shape_rule=lambda c: None,
        kernel=lambda xs: xs,
        kind=kind,
        gradient=registry.NO_GRADIENT,
        **options,
    )


PURE, HOST, BLOCKING = (
    definition("TestPure", "pure"),
    definition("TestHost", "host"),
    definition("TestBlocking", "blocking"),
)
MUCH_WORK = definition("MatMulForTest", "pure")
STATIC = definition("TestStatic", "pure", static_inputs=("xs",))


def node(name: str, kind: Any, inputs: Any = (), controls: Any = (), order: int = 0) -> Node:
    edges = [Edge(source, 0) for source in inputs]
    return Node(name, kind, {"N": len(edges)}, edges, controls, order=order)


def grouped(nodes: list[Node], **options: Any) -> list[schedule.Stage]:
    arguments = options.pop("arguments", [])
    ordered = schedule.topological_order(nodes)
    program = Program(ordered, arguments, [], [])
    return schedule.stages(program, lambda n: n.definition.is_pure, **options)


def shape(stages: list[schedule.Stage]) -> list[Any]:
    return [
        (
            "xla" if stage.compiled else "blocking" if stage.blocking else "host",
            sorted(n.name for n in stage.nodes),
        )
        for stage in stages
    ]


# -- Order -----------------------------------------------------------------------------------


def test_each_node_comes_after_what_it_waits_for() -> None:
    a = node("a", PURE, order=3)
    b = node("b", PURE, [a], order=1)
    c = node("c", PURE, [], [b], order=2)
    assert [n.name for n in schedule.topological_order([c, b, a])] == ["a", "b", "c"]


def test_among_ready_nodes_the_older_goes_first_and_writers_go_last() -> None:
    with tf.Graph().as_default():
        v = tf.Variable(1.0, name="v", use_resource=False)
        update = tf.assign_add(v, 1.0, name="update")
        read = tf.identity(v, name="late_read")
        program = prune([read, update], [], [])
    order = [n.name for n in schedule.topological_order(program.nodes)]
    assert order.index("late_read") < order.index("update")


def test_a_cycle_is_refused_by_name() -> None:
    a = node("a", PURE)
    b = node("b", PURE, [a])
    a.controls.append(b)
    with pytest.raises(errors.InvalidArgumentError, match="has a cycle: 2 nodes .* a, b"):
        schedule.topological_order([a, b])


# -- Grouping --------------------------------------------------------------------------------


def test_a_pure_program_is_one_stage() -> None:
    a = node("a", PURE)
    nodes = [a, node("b", PURE, [a]), node("c", PURE), node("d", PURE, [a], [a])]
    assert shape(grouped(nodes)) == [("xla", ["a", "b", "c", "d"])]


def test_a_host_node_cuts_only_what_depends_on_it() -> None:
    a = node("a", PURE)
    h = node("h", HOST, [a])
    after = node("after", PURE, [h, a])
    free = node("free", PURE, [a])
    assert shape(grouped([a, h, after, free])) == [
        ("xla", ["a", "free"]),
        ("host", ["h"]),
        ("xla", ["after"]),
    ]


def test_host_nodes_side_by_side_make_no_more_stages() -> None:
    a = node("a", PURE)
    hosts = [node(f"h{i}", HOST, [a]) for i in range(5)]
    after = [node(f"p{i}", PURE, [h]) for i, h in enumerate(hosts)]
    stages = grouped([a, *hosts, *after])
    assert sum(stage.compiled for stage in stages) == 2


def test_what_waits_for_different_things_does_not_share_a_stage() -> None:
    first, second = node("q1", BLOCKING), node("q2", BLOCKING)
    x, y = node("x", MUCH_WORK, [first]), node("y", MUCH_WORK, [second])
    both = node("both", PURE, [x, y])
    free = node("free", PURE)
    compiled = [
        names for kind, names in shape(grouped([first, second, x, y, both, free])) if kind == "xla"
    ]
    assert sorted(compiled) == [["both"], ["free"], ["x"], ["y"]]


def test_little_work_that_could_run_early_runs_with_the_only_stage_that_needs_it():
    early, wait = node("early", PURE), node("wait", BLOCKING)
    much = node("much", MUCH_WORK)
    user = node("user", PURE, [early, much, wait])
    assert shape(grouped([early, wait, much, user])) == [
        ("xla", ["early", "much"]),
        ("blocking", ["wait"]),
        ("xla", ["user"]),
    ]
    user = node("user", PURE, [early, wait])
    assert shape(grouped([early, wait, user])) == [
        ("blocking", ["wait"]),
        ("xla", ["early", "user"]),
    ]


def test_what_decides_a_shape_is_not_postponed_into_the_stage_that_needs_it():
    early, wait = node("early", PURE), node("wait", BLOCKING)
    shaped = node("shaped", STATIC, [early, wait])
    assert ("xla", ["early"]) in shape(grouped([early, wait, shaped]))


def test_what_two_stages_need_is_not_postponed():
    early, wait, other = node("early", PURE), node("wait", BLOCKING), node("other", BLOCKING)
    users = [node("a", PURE, [early, wait]), node("b", PURE, [early, other])]
    assert ("xla", ["early"]) in shape(grouped([early, wait, other, *users]))


def test_arguments_that_arrive_late_count_as_waits() -> None:
    a, b = Node("a", PURE, {"N": 0}), Node("b", PURE, {"N": 0})
    x, y = node("x", PURE, [a]), node("y", PURE, [b])
    arguments = [Edge(a, 0), Edge(b, 0)]
    early = grouped([x, y], arguments=arguments)
    late = grouped([x, y], arguments=arguments, late_arguments=True)
    assert (len(early), len(late)) == (1, 2)


def test_a_value_that_decides_a_shape_must_be_there_before_the_stage() -> None:
    a = node("a", PURE)
    size = node("size", PURE, [a])
    made = node("made", STATIC, [size])
    assert shape(grouped([a, size, made])) == [("xla", ["a", "size"]), ("xla", ["made"])]


def test_a_shape_computed_from_shapes_needs_no_stage_of_its_own() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        flat = tf.reshape(x * 2.0, tf.stack([tf.shape(x)[0] * 3]))
        program = prune([flat], [], [x])
        program.nodes = schedule.topological_order(program.nodes)
        stages = schedule.stages(program, lambda n: n.definition.is_pure)
    assert len(stages) == 1


def test_a_long_chain_of_shape_arithmetic_is_no_problem() -> None:
    with tf.Graph().as_default():
        size = tf.shape(tf.placeholder(tf.float32, [None]))[0]
        for _ in range(1500):
            size = size + 1
        program = prune([size], [], [])
        edge = program.results[0]
    assert schedule.is_folded(edge, {})


def test_folding_knows_what_is_not_known() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        known = tf.shape(x) + 1
        unknown = tf.shape(x) + tf.cast(x[0, 0], tf.int32)
        drawn = tf.random_uniform([2])
        results = prune([known, unknown, drawn], [], []).results
    assert [schedule.is_folded(edge, {}) for edge in results] == [True, False, False]


# -- Properties of any grouping --------------------------------------------------------------


def random_program(source: random.Random) -> list[Node]:
    nodes: list[Node] = []
    for i in range(source.randint(1, 40)):
        kind = source.choice([PURE, PURE, PURE, HOST, BLOCKING, STATIC])
        inputs = source.sample(nodes, min(len(nodes), source.randint(0, 3)))
        controls = source.sample(nodes, min(len(nodes), source.randint(0, 1)))
        nodes.append(node(f"n{i}", kind, inputs, controls, order=i))
    return nodes


@pytest.fixture(params=range(40))
def stages_of_a_random_program(request: pytest.FixtureRequest) -> Iterator[Any]:
    nodes = random_program(random.Random(request.param))
    yield nodes, grouped(nodes)


def test_every_node_is_in_one_stage(stages_of_a_random_program: Any) -> None:
    nodes, stages = stages_of_a_random_program
    found = [n for stage in stages for n in stage.nodes]
    assert len(found) == len(nodes) and set(found) == set(nodes)


def test_stages_can_run_in_their_order_when_nothing_blocks(stages_of_a_random_program: Any) -> None:
    _, stages = stages_of_a_random_program
    done: set[Node] = set()
    for stage in stages:
        for member in stage.nodes:
            # Inside a stage the nodes come in order, too.
            assert all(p in done for p in member.predecessors())
            done.add(member)


def test_no_stage_waits_for_itself_through_others(stages_of_a_random_program: Any) -> None:
    _, stages = stages_of_a_random_program
    home = {n: i for i, stage in enumerate(stages) for n in stage.nodes}
    waits = [
        {home[p] for n in stage.nodes for p in n.predecessors()} - {i}
        for i, stage in enumerate(stages)
    ]
    done: set[int] = set()
    while len(done) < len(stages):
        ready = [i for i, sources in enumerate(waits) if i not in done and sources <= done]
        assert ready, "stages wait for each other in a circle"
        done.update(ready)


def test_no_stage_waits_for_a_blocking_node_that_a_member_does_not_need(
    stages_of_a_random_program: Any,
) -> None:
    """A dequeue may be waiting for what another member of the same stage would enqueue."""
    nodes, stages = stages_of_a_random_program
    needs: dict[Node, frozenset[Node]] = {}
    for n in nodes:
        own = {n} if n.definition.kind == "blocking" else set()
        needs[n] = frozenset(own.union(*(needs[p] for p in n.predecessors())))
    followers: dict[Node, set[Node]] = {n: set() for n in nodes}
    for n in nodes:
        for source in n.predecessors():
            followers[source].add(n)
    for stage in stages:
        members = set(stage.nodes)
        needed = frozenset().union(*(needs[n] for n in members))
        for n in members:
            # What waits longer than it must is wanted nowhere else.
            assert needs[n] == needed or followers[n] <= members


def test_values_that_decide_shapes_come_from_earlier_stages(
    stages_of_a_random_program: Any,
) -> None:
    _, stages = stages_of_a_random_program
    for stage in stages:
        members = set(stage.nodes)
        for n in stage.nodes:
            if n.definition is STATIC:
                assert not any(edge.node in members for edge in n.inputs)
