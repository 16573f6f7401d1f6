"""Cutting a program into one a task: what is sent, in how many messages, and what is not."""

import pytest

import millrace as tf
from millrace.core import errors
from millrace.passes import pipeline
from millrace.passes.node import Setting
from millrace.passes.partitions import split
from millrace.passes.prune import prune
from millrace.passes.transfer import RECEIVE, SEND

#: Devices are as the test states them, and rows are not looked at.
CUTTING = pipeline.CLUSTER[pipeline.CLUSTER.index(pipeline.detach_constants) :]
PS, PS1, WORKER, OTHER = "/job:ps", "/job:ps1", "/job:worker", "/job:other"


def cut(fetches=(), targets=(), feeds=(), home=WORKER, ends_at_home=False):
    program = prune(list(fetches), list(targets), list(feeds))
    for node in program.nodes:
        node.device = node.device or home
    setting = Setting(home=home, feeds_one_by_one=ends_at_home)
    return split(pipeline.run(CUTTING, program.with_setting(setting)))


def transfers(parts):
    """(source, to, tensors' names) of every message."""
    found = []
    for part in parts.values():
        for node in part.program.nodes:
            if node.definition is RECEIVE:
                source = node.attrs["source"].decode()
                found.append(
                    (source, part.task, [n.decode().partition(":")[0] for n in node.attrs["names"]])
                )
    return sorted(found)


def variable(name, device):
    with tf.device(device):
        return tf.placeholder_with_default(1.0, [], name=name)


def test_one_task_needs_no_transfer():
    with tf.device(WORKER):
        y = tf.placeholder_with_default(1.0, [], name="x") + 1.0
    parts = cut([y])
    assert list(parts) == [WORKER] and transfers(parts) == []


def test_the_masters_task_has_a_part_even_if_nothing_is_to_be_done_there():
    y = variable("x", PS)
    parts = cut([y])
    assert sorted(parts) == [PS, WORKER]
    assert parts[WORKER].program.nodes == [] and transfers(parts) == []
    assert parts[PS].results == [0]


def test_values_that_are_made_together_travel_together():
    a, b, c = (variable(n, PS) for n in "abc")
    with tf.device(WORKER):
        y = tf.add_n([a, b, c])
    parts = cut([y])
    assert transfers(parts) == [(PS, WORKER, ["a", "b", "c"])]
    assert parts[PS].sends_to == [WORKER] and parts[WORKER].sends_to == []


def test_a_value_that_several_read_is_sent_once():
    a = variable("a", PS)
    with tf.device(WORKER):
        y = [a + 1.0, a * 2.0, a - 3.0]
    assert transfers(cut(y)) == [(PS, WORKER, ["a"])]


def test_a_value_goes_to_each_task_that_reads_it():
    a = variable("a", PS)
    with tf.device(WORKER):
        y = a + 1.0
    with tf.device(OTHER):
        z = a + 2.0
    assert transfers(cut([y, z])) == [(PS, OTHER, ["a"]), (PS, WORKER, ["a"])]


def test_what_depends_on_a_message_goes_in_the_next():
    a = variable("a", PS)
    with tf.device(WORKER):
        b = tf.negative(a, name="b")
    with tf.device(PS):
        c = tf.add(b, a, name="c")
    with tf.device(WORKER):
        d = tf.add(c, b, name="d")
    assert transfers(cut([d])) == [
        (PS, WORKER, ["a"]),
        (PS, WORKER, ["c"]),
        (WORKER, PS, ["b"]),
    ]


def test_what_waits_for_a_queue_does_not_hold_up_what_does_not():
    a = variable("a", PS)
    with tf.device(PS):
        taken = tf.FIFOQueue(1, [tf.float32], shapes=[[]]).dequeue(name="taken")
    with tf.device(WORKER):
        y = a + taken
    assert transfers(cut([y])) == [(PS, WORKER, ["a"]), (PS, WORKER, ["taken"])]


def test_constants_are_not_sent():
    with tf.device(PS):
        c = tf.constant(3.0, name="c")
    with tf.device(WORKER):
        y = tf.placeholder_with_default(1.0, [], name="x") * c
    assert transfers(cut([y])) == []


def test_feeds_go_where_they_are_used():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device(PS):
        a = x + 1.0
    with tf.device(WORKER):
        b = x * 2.0
    parts = cut([a, b], feeds=[x])
    assert transfers(parts) == []
    assert parts[PS].arguments == [0] and parts[WORKER].arguments == [0]
    assert parts[PS].results == [0] and parts[WORKER].results == [1]


def test_in_a_partial_run_everything_comes_in_and_goes_out_at_home():
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device(PS):
        a = tf.add(x, 1.0, name="a")
    parts = cut([a], feeds=[x], ends_at_home=True)
    assert transfers(parts) == [(PS, WORKER, ["a"]), (WORKER, PS, ["x"])]
    assert parts[PS].arguments == [] and parts[WORKER].results == [0]


def test_a_control_edge_is_a_message_without_values():
    with tf.device(PS):
        first = tf.no_op(name="first")
    with tf.device(WORKER), tf.control_dependencies([first]):
        second = tf.no_op(name="second")
    parts = cut(targets=[second])
    assert transfers(parts) == [(PS, WORKER, [])]


def test_a_control_edge_travels_with_the_values_of_its_point():
    a = variable("a", PS)
    with tf.device(PS):
        first = tf.no_op(name="first")
    with tf.device(WORKER), tf.control_dependencies([first]):
        y = a + 1.0
    assert transfers(cut([y])) == [(PS, WORKER, ["a"])]


def test_a_handle_that_would_have_to_travel_is_refused():
    with tf.device(PS):
        queue = tf.FIFOQueue(1, [tf.float32])
    with tf.device(WORKER):
        copied = tf.identity(queue.queue_ref)
    with pytest.raises(errors.InvalidArgumentError, match=r"handle.*Place its users there"):
        cut([copied])


def test_every_send_has_one_receive_of_its_key():
    value = variable("a", PS)
    for i in range(9):
        with tf.device((WORKER, OTHER, PS1)[i % 3]):
            value = tf.negative(value) + variable(f"v{i}", (PS, PS1, OTHER)[i % 3])
    sent, received = [], []
    for part in cut([value]).values():
        for node in part.program.nodes:
            if node.definition is SEND:
                sent.append((part.task, node.attrs["to"].decode(), node.attrs["key"]))
            if node.definition is RECEIVE:
                received.append((node.attrs["source"].decode(), part.task, node.attrs["key"]))
    assert sorted(sent) == sorted(received) and len(set(sent)) == len(sent)
    assert len({key for _, _, key in sent}) == len(sent)


def test_names_of_transfers_do_not_clash_with_the_programs():
    with tf.device(PS):
        a = tf.placeholder_with_default(1.0, [], name="send_0")
    with tf.device(WORKER):
        y = tf.negative(a, name="receive_0")
    for part in cut([y]).values():
        found = [n.name for n in part.program.nodes]
        assert len(set(found)) == len(found)


def test_a_loop_with_the_state_of_two_tasks_is_split():
    f32 = tf.AttrValue(type=tf.float32.as_datatype_enum)
    definition = tf.GraphDef()

    def add(name, op, inputs=(), device=WORKER, **attrs):
        made = definition.node.add(name=name, op=op, input=list(inputs), device=device)
        for key, value in attrs.items():
            made.attr[key].CopyFrom(value)

    shape = tf.AttrValue()
    shape.shape.SetInParent()
    frame = tf.AttrValue(s=b"loop")
    for name, device in (("v", PS), ("w", PS1)):
        add(name, "VariableV2", device=device, dtype=f32, shape=shape)
    add("x", "Placeholder", dtype=f32)
    add("enter", "Enter", ["x"], T=f32, frame_name=frame)
    add("merge", "Merge", ["enter", "next"], T=f32, N=tf.AttrValue(i=2))
    add("more", "IsFinite", ["merge"], T=f32)
    add("go_on", "LoopCond", ["more"])
    add("switch", "Switch", ["merge", "go_on"], T=f32)
    add("one", "AssignAdd", ["v", "switch:1"], device=PS, T=f32)
    add("two", "AssignAdd", ["w", "one"], device=PS1, T=f32)
    add("next", "NextIteration", ["two"], T=f32)
    add("exit", "Exit", ["switch"], T=f32)
    tf.import_graph_def(definition, name="")
    parts = cut([tf.get_default_graph().get_tensor_by_name("exit:0")])
    types = {
        task: {n.type for n in part.program.nodes if n.definition not in (SEND, RECEIVE)}
        for task, part in parts.items()
    }
    clock = {"Enter", "Merge", "Switch", "Identity", "NextIteration"}
    assert types[PS] >= {"AssignAdd", "_LoopSend", "_LoopReceive", *clock}
    assert types[PS1] >= {"AssignAdd", "_LoopSend", "_LoopReceive", *clock}
    assert types[WORKER] >= {"LoopCond", "Exit", "_LoopSend", "_LoopReceive", *clock}
    sent, received = [], []
    for task, part in parts.items():
        for node in part.program.nodes:
            if node.type == "_LoopSend":
                assert node in part.program.targets
                sent.append((task, node.attrs["to"].decode(), node.attrs["key"]))
            if node.type == "_LoopReceive":
                received.append((node.attrs["source"].decode(), task, node.attrs["key"]))
    # The condition to both ps, x to the first, v to the second, w back.
    assert sorted(sent) == sorted(received) and len(sent) == 5


def test_who_waits_for_a_group_waits_for_its_members():
    with tf.device(PS):
        a = tf.Variable(1.0, name="a").assign_add(1.0).op
    with tf.device(OTHER):
        b = tf.Variable(1.0, name="b").assign_add(1.0).op
    with tf.device(WORKER):
        both = tf.group(a, b)
    with tf.device(PS), tf.control_dependencies([both]):
        count = tf.Variable(0, name="count").assign_add(1).op
    parts = cut(targets=[count])
    # Not first from both to the worker, where the group is, and from there to the ps.
    assert transfers(parts) == [(OTHER, PS, [])]


def test_a_group_that_is_asked_for_stays():
    with tf.device(PS):
        a = tf.Variable(1.0, name="a").assign_add(1.0).op
    with tf.device(WORKER):
        both = tf.group(a, tf.no_op())
    parts = cut(targets=[both])
    assert transfers(parts) == [(PS, WORKER, [])]


@pytest.mark.parametrize(("size", "messages"), [(4, 1), (100_000, 2)])
def test_what_is_little_travels_with_what_its_users_wait_for(size, messages):
    with tf.device(PS):
        early = tf.placeholder_with_default(tf.zeros([size]), [size], name="early")
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.device(WORKER):
        there = x + 1.0
    with tf.device(PS):
        back = tf.negative(there, name="back")
    with tf.device(WORKER):
        result = tf.exp(back) * tf.reduce_sum(early * tf.exp(back))
    parts = cut([result], feeds=[x])
    found = [names for source, _, names in transfers(parts) if source == PS]
    # What is large is sent as soon as it is there.
    assert sorted(name for names in found for name in names) == ["back", "early"]
    assert len(found) == messages


# -- What travels with something else --------------------------------------------------------


def accumulated(early, gradient_of, name="push"):
    """A gradient that the worker computes from a value of the ps, pushed to the ps."""
    with tf.device(WORKER):
        gradient = tf.multiply(gradient_of, 2.0, name="gradient")
    with tf.device(PS):
        accumulator = tf.ConditionalAccumulator(tf.float32, [], shared_name="a")
        return accumulator.apply_grad(gradient, early, name=name)


def test_what_is_ready_early_waits_for_the_message_that_its_user_waits_for():
    with tf.device(WORKER):
        step = tf.placeholder_with_default(tf.constant(3, tf.int64), [], name="step")
    push = accumulated(step, variable("w", PS))
    assert transfers(cut(targets=[push])) == [
        (PS, WORKER, ["w"]),
        (WORKER, PS, ["step", "gradient"]),
    ]


def test_what_somebody_else_uses_early_is_sent_early():
    with tf.device(WORKER):
        step = tf.placeholder_with_default(tf.constant(3, tf.int64), [], name="step")
    push = accumulated(step, variable("w", PS))
    with tf.device(PS):
        shown = tf.negative(step)
    assert transfers(cut([shown], [push])) == [
        (PS, WORKER, ["w"]),
        (WORKER, PS, ["gradient"]),
        (WORKER, PS, ["step"]),
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_a_variable_travels_late_only_if_nothing_changes_it_before(waits):
    with tf.device(WORKER):
        step = tf.Variable(tf.constant(3, tf.int64), name="step")
    push = accumulated(step, variable("w", PS))
    with tf.device(WORKER), tf.control_dependencies([push] if waits else []):
        changed = step.assign(4)
    sent = [names for source, _, names in transfers(cut([changed], [push])) if source == WORKER]
    assert sent == ([["step/read", "gradient"]] if waits else [["gradient"], ["step/read"]])


def last_sends(parts):
    """The tensors' names of the messages that go with the end of their part, by task."""
    return {
        part.task: [e.node.name for e in node.inputs]
        for part in parts.values()
        for node in part.program.nodes
        if node.definition is SEND and node.attrs["last"]
    }


def test_a_token_comes_with_the_end_of_the_part_that_takes_it():
    push = accumulated(tf.constant(0, tf.int64), variable("w", PS))
    with tf.device(PS), tf.control_dependencies([push]):
        token = tf.FIFOQueue(1, tf.float32, [[]], name="q").dequeue(name="token")
    with tf.device(WORKER):
        parts = cut([tf.negative(token)])
    assert last_sends(parts) == {PS: ["token"]}
    (send,) = [n for n in parts[PS].program.nodes if n.attrs.get("last")]
    assert parts[PS].last_key == send.attrs["key"] and parts[WORKER].last_key is None


def test_a_part_that_still_waits_for_its_master_does_not_keep_back_what_it_sends():
    push = accumulated(tf.constant(0, tf.int64), variable("w", PS))
    parts = cut(targets=[push])
    assert last_sends(parts) == {} and parts[PS].last_key is None


def test_what_python_does_beside_a_message_does_not_keep_it_back():
    a = variable("a", PS)
    with tf.device(PS):
        slow = tf.py_func(lambda: None, [], [])
    with tf.device(WORKER):
        parts = cut([a + 1.0], [slow])
    assert last_sends(parts) == {}


def test_a_part_of_a_partial_run_keeps_nothing_back():
    a = variable("a", PS)
    with tf.device(WORKER):
        parts = cut([a + 1.0], ends_at_home=True)
    assert last_sends(parts) == {}
