"""Loops of Enter, Merge, Switch, NextIteration and Exit that have state on several tasks."""

import numpy as np
import pytest

import millrace as tf

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
F32 = tf.AttrValue(type=tf.float32.as_datatype_enum)
I32 = tf.AttrValue(type=tf.int32.as_datatype_enum)
BOOL = tf.AttrValue(type=tf.bool.as_datatype_enum)


class Builder:
    """Adds nodes to a GraphDef, as TensorFlow's own clients build loops."""

    def __init__(self):
        self.definition = tf.GraphDef()
        self.device = WORKER

    def add(self, name, op, *inputs, device=None, **attrs):
        made = self.definition.node.add(name=name, op=op, device=device or self.device)
        made.input.extend(inputs)
        for key, value in attrs.items():
            made.attr[key].CopyFrom(value)
        return name

    def constant(self, name, value, *controls, device=None):
        value = tf.make_tensor_proto(value)
        kind = tf.AttrValue(type=value.dtype)
        attrs = {"dtype": kind, "value": tf.AttrValue(tensor=value)}
        return self.add(name, "Const", *controls, device=device, **attrs)

    def variable(self, name, device):
        shape = tf.AttrValue()
        shape.shape.SetInParent()
        return self.add(name, "VariableV2", device=device, dtype=F32, shape=shape)

    def enter(self, name, source, frame, kind, parallel=10, constant=False, device=None):
        return self.add(
            name,
            "Enter",
            source,
            device=device,
            T=kind,
            frame_name=tf.AttrValue(s=frame.encode()),
            is_constant=tf.AttrValue(b=constant),
            parallel_iterations=tf.AttrValue(i=parallel),
        )

    def merge(self, name, one, two, kind, device=None):
        return self.add(name, "Merge", one, two, device=device, T=kind, N=tf.AttrValue(i=2))

    def count(self, name, frame, start, limit, parallel=10):
        """A loop variable that counts to `limit`, and the loop's condition: ``name/go_on``."""
        self.enter(f"{name}/enter", start, frame, I32, parallel)
        self.merge(f"{name}/merge", f"{name}/enter", f"{name}/next", I32)
        self.enter(f"{name}/limit", limit, frame, I32, parallel, constant=True)
        self.add(f"{name}/less", "Less", f"{name}/merge", f"{name}/limit", T=I32)
        self.add(f"{name}/go_on", "LoopCond", f"{name}/less")
        self.add(f"{name}/switch", "Switch", f"{name}/merge", f"{name}/go_on", T=I32)
        self.add(f"{name}/body", "Identity", f"{name}/switch:1", T=I32)
        self.constant(f"{name}/one", np.int32(1), f"^{name}/body")
        self.add(f"{name}/plus", "AddV2", f"{name}/body", f"{name}/one", T=I32)
        self.add(f"{name}/next", "NextIteration", f"{name}/plus", T=I32)
        self.add(f"{name}/exit", "Exit", f"{name}/switch", T=I32)

    def done(self):
        tf.import_graph_def(self.definition, name="")


def start(sess, *names):
    graph = tf.get_default_graph()
    for name in names:
        ref = graph.get_tensor_by_name(f"{name}:0")
        with tf.device(ref.op.device):
            sess.run(tf.raw_ops.Assign(ref=ref, value=0.0, validate_shape=False).op)


def loop_over_three_tasks(parallel=1):
    """v on the ps grows by i, w on another worker by v; the counter is here."""
    b = Builder()
    b.add("n", "Placeholder", dtype=I32)
    b.constant("zero", np.int32(0))
    b.variable("v", PS)
    b.variable("w", OTHER)
    b.count("i", "loop", "zero", "n", parallel)
    b.add("as_float", "Cast", "i/body", SrcT=I32, DstT=F32)
    b.add("grow_v", "AssignAdd", "v", "as_float", device=PS, T=F32)
    b.add("grow_w", "AssignAdd", "w", "grow_v", device=OTHER, T=F32)
    b.enter("x/enter", "x0", "loop", F32, parallel)
    b.constant("x0", np.float32(0))
    b.merge("x/merge", "x/enter", "x/next", F32)
    b.add("x/switch", "Switch", "x/merge", "i/go_on", T=F32)
    b.add("x/plus", "AddV2", "x/switch:1", "grow_w", T=F32)
    b.add("x/next", "NextIteration", "x/plus", T=F32)
    b.add("x/exit", "Exit", "x/switch", T=F32)
    b.done()


def expected(n):
    v = w = x = 0.0
    for i in range(n):
        v += i
        w += v
        x += w
    return v, w, x


@pytest.mark.parametrize("remote", [False, True])
def test_a_loop_writes_variables_of_several_tasks(any_cluster, remote):
    loop_over_three_tasks()
    with tf.Session(any_cluster.target("worker", remote=remote)) as sess:
        for n in (0, 1, 7):
            start(sess, "v", "w")
            found = sess.run(["x/exit:0", "i/exit:0"], {"n:0": n})
            v, w, x = expected(n)
            assert found == [x, n]
            assert sess.run(["v:0", "w:0"]) == [v, w]


def test_one_iteration_at_a_time(cluster):
    """Nothing but ``parallel_iterations`` orders the writes of one iteration before the next's."""
    b = Builder()
    b.constant("zero", np.int32(0))
    b.constant("n", np.int32(20))
    b.variable("v", PS)
    b.variable("w", OTHER)
    b.count("i", "loop", "zero", "n", parallel=1)
    b.add("as_float", "Cast", "i/body", SrcT=I32, DstT=F32)
    b.add("set_v", "Assign", "v", "as_float", device=PS, T=F32)
    b.add("again", "Neg", "set_v", device=OTHER, T=F32)
    b.add("set_w", "Assign", "w", "again", device=OTHER, T=F32)
    b.done()
    with tf.Session(cluster.target("worker")) as sess:
        start(sess, "v", "w")
        graph = tf.get_default_graph()
        set_w = graph.get_operation_by_name("set_w")
        assert sess.run(["i/exit:0", set_w])[0] == 20
        assert sess.run(["v:0", "w:0"]) == [19.0, -19.0]


@pytest.mark.parametrize("taken", [True, False])
def test_a_loop_in_a_branch_that_may_be_dead(any_cluster, taken):
    b = Builder()
    b.add("pred", "Placeholder", dtype=BOOL)
    b.constant("zero", np.int32(0))
    b.add("n", "Placeholder", dtype=I32)
    b.variable("v", PS)
    b.variable("w", OTHER)
    b.add("choose", "Switch", "n", "pred", T=I32)
    b.add("start", "Switch", "zero", "pred", T=I32)
    b.count("i", "loop", "start:1", "choose:1", 1)
    b.add("as_float", "Cast", "i/body", SrcT=I32, DstT=F32)
    b.add("grow_v", "AssignAdd", "v", "as_float", device=PS, T=F32)
    b.add("grow_w", "AssignAdd", "w", "grow_v", device=OTHER, T=F32)
    b.enter("x/enter", "x_start:1", "loop", F32, 1, device=OTHER)
    b.constant("x0", np.float32(0))
    b.add("x_start", "Switch", "x0", "pred", T=F32)
    b.merge("x/merge", "x/enter", "x/next", F32, device=OTHER)
    b.add("x/switch", "Switch", "x/merge", "i/go_on", T=F32, device=OTHER)
    b.add("x/plus", "AddV2", "x/switch:1", "grow_w", T=F32, device=OTHER)
    b.add("x/next", "NextIteration", "x/plus", T=F32, device=OTHER)
    b.add("x/exit", "Exit", "x/switch", T=F32, device=OTHER)
    b.add("else", "Neg", "x_start:0", T=F32)
    b.merge("end", "x/exit", "else_minus", F32)
    b.constant("hundred", np.float32(100), "^else")
    b.add("else_minus", "Sub", "else", "hundred", T=F32)
    b.done()
    with tf.Session(any_cluster.target("worker")) as sess:
        start(sess, "v", "w")
        assert sess.run("end:0", {"pred:0": taken, "n:0": 4}) == (
            expected(4)[2] if taken else -100.0
        )
        assert sess.run("v:0") == (expected(4)[0] if taken else 0.0)


def test_nested_loops(any_cluster):
    """for i in range(n): for j in range(i): v += 1; w += v"""
    b = Builder()
    b.add("n", "Placeholder", dtype=I32)
    b.constant("zero", np.int32(0))
    b.variable("v", PS)
    b.variable("w", OTHER)
    b.count("i", "outer", "zero", "n", 1)
    b.constant("j0", np.int32(0), "^i/body")
    b.count("j", "inner", "j0", "i/body", 1)
    b.constant("one", np.float32(1), "^j/body")
    b.add("grow_v", "AssignAdd", "v", "one", device=PS, T=F32)
    b.add("grow_w", "AssignAdd", "w", "grow_v", device=OTHER, T=F32)
    # The outer loop goes on with what the inner one has made, on yet another task.
    b.enter("s/enter", "s0", "outer", F32, 1, device=OTHER)
    b.constant("s0", np.float32(0))
    b.merge("s/merge", "s/enter", "s/next", F32, device=OTHER)
    b.add("s/switch", "Switch", "s/merge", "i/go_on", T=F32, device=OTHER)
    b.enter("t/enter", "s/switch:1", "inner", F32, 1, device=PS)
    b.merge("t/merge", "t/enter", "t/next", F32, device=PS)
    b.add("t/switch", "Switch", "t/merge", "j/go_on", T=F32, device=PS)
    b.add("t/plus", "AddV2", "t/switch:1", "grow_w", T=F32, device=PS)
    b.add("t/next", "NextIteration", "t/plus", T=F32, device=PS)
    b.add("t/exit", "Exit", "t/switch", T=F32, device=PS)
    b.add("s/next", "NextIteration", "t/exit", T=F32, device=OTHER)
    b.add("s/exit", "Exit", "s/switch", T=F32, device=OTHER)
    b.done()
    with tf.Session(any_cluster.target("worker")) as sess:
        for n in (0, 1, 5):
            start(sess, "v", "w")
            v = w = s = 0.0
            for i in range(n):
                for _ in range(i):
                    v += 1
                    w += v
                    s += w
            assert sess.run("s/exit:0", {"n:0": n}) == s
            assert sess.run(["v:0", "w:0"]) == [v, w]


def queue_loop(b, limit="n"):
    """Each iteration dequeues on the ps and writes the number to a variable of another worker."""
    b.add("n", "Placeholder", dtype=I32)
    b.constant("zero", np.int32(0))
    b.variable("w", OTHER)
    types = tf.AttrValue()
    types.list.type.append(tf.float32.as_datatype_enum)
    name = tf.AttrValue(s=b"numbers")
    b.add("queue", "FIFOQueueV2", device=PS, component_types=types, shared_name=name)
    b.count("i", "loop", "zero", limit)
    resource = tf.AttrValue(type=tf.resource.as_datatype_enum)
    b.enter("queue/enter", "queue", "loop", resource, constant=True, device=PS)
    b.add("take", "QueueDequeueV2", "queue/enter", "^i/body", device=PS, component_types=types)
    b.add("grow_w", "AssignAdd", "w", "take", device=OTHER, T=F32)
    b.done()
    put = tf.placeholder(tf.float32, [])
    with tf.device(PS):
        queue = tf.FIFOQueue(-1, [tf.float32], shared_name="numbers")
        enqueue = queue.enqueue(put)
    targets = ["i/exit:0", tf.get_default_graph().get_operation_by_name("grow_w")]
    return targets, enqueue, put


def test_a_loop_waits_for_a_queue_of_another_task(any_cluster, background):
    targets, enqueue, put = queue_loop(Builder())
    with tf.Session(any_cluster.target("worker")) as sess:
        start(sess, "w")
        run = background(lambda: sess.run(targets, {"n:0": 3}))
        for value in (1.0, 2.0, 4.0):
            sess.run(enqueue, {put: value})
        assert run.result()[0] == 3
        assert sess.run("w:0") == 7.0


def test_closing_the_session_ends_a_loop_that_waits(any_cluster, background, until):
    targets, _, _ = queue_loop(Builder())
    with tf.Session(any_cluster.target("worker")) as sess:
        start(sess, "w")
        run = background(lambda: sess.run(targets, {"n:0": 3}))
        until(lambda: all(s.worker.partitions.running for s in any_cluster.servers.values()))
    with pytest.raises(tf.errors.CancelledError):
        run.result()


def test_a_deadline_ends_a_loop_that_waits(any_cluster):
    targets, _, _ = queue_loop(Builder())
    with tf.Session(any_cluster.target("worker")) as sess:
        start(sess, "w")
        with pytest.raises(tf.errors.DeadlineExceededError):
            sess.run(targets, {"n:0": 3}, options=tf.RunOptions(timeout_in_ms=300))


def test_an_error_in_an_iteration_names_its_op_and_ends_the_loop_everywhere(any_cluster):
    b = Builder()
    b.constant("zero", np.int32(0))
    b.constant("n", np.int32(10))
    b.variable("v", PS)
    b.variable("w", OTHER)
    b.count("i", "loop", "zero", "n")
    b.add("as_float", "Cast", "i/body", SrcT=I32, DstT=F32)
    b.add("grow_v", "AssignAdd", "v", "as_float", device=PS, T=F32)
    b.constant("bound", np.float32(5), "^i/body", device=OTHER)
    b.add("small", "Less", "grow_v", "bound", device=OTHER, T=F32)
    b.constant("text", b"too large", "^i/body", device=OTHER)
    strings = tf.AttrValue()
    strings.list.type.append(tf.string.as_datatype_enum)
    b.add("check", "Assert", "small", "text", device=OTHER, T=strings)
    b.add("grow_w", "AssignAdd", "w", "grow_v", "^check", device=OTHER, T=F32)
    b.done()
    with tf.Session(any_cluster.target("worker")) as sess:
        start(sess, "v", "w")
        grow = tf.get_default_graph().get_operation_by_name("grow_w")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)task:1.*too large.*check"):
            sess.run(["i/exit:0", grow])
        start(sess, "v", "w")
        assert sess.run("v:0") == 0.0


def test_the_loss_of_a_task_ends_a_loop_that_waits(any_cluster, background, until):
    targets, _, _ = queue_loop(Builder())
    with tf.Session(any_cluster.target("worker")) as sess:
        start(sess, "w")
        run = background(lambda: sess.run(targets, {"n:0": 3}))
        until(lambda: all(s.worker.partitions.running for s in any_cluster.servers.values()))
        any_cluster["ps", 0].stop()
        with pytest.raises((tf.errors.UnavailableError, tf.errors.AbortedError)):
            run.result()
