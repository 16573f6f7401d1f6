"""What goes between tasks: every type, dead values, control edges; and in how many messages."""

import ml_dtypes
import numpy as np
import pytest

import millrace as tf

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
DTYPES = [
    np.float16, np.float32, np.float64, ml_dtypes.bfloat16, np.complex64, np.complex128,
    np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_,
]  # fmt: skip


def moved(value, there=PS):
    """The value, made on one task and handed to the session's by a copy there."""
    with tf.device(there):
        made = tf.placeholder_with_default(value, np.shape(value))
    with tf.device(WORKER):
        return tf.identity(made)


def test_every_dtype_goes_over_every_transport(any_cluster):
    values = [np.arange(6).reshape(2, 3).astype(dtype) for dtype in DTYPES]
    values += [np.zeros((0, 4), dtype) for dtype in DTYPES[:3]]
    values += [np.array(7, dtype) for dtype in DTYPES[:3]]
    values += [np.array([b"", b"a\0b", "é".encode()], object), np.array(b"one", object)]
    tensors = [moved(value) for value in values]
    with tf.Session(any_cluster.target("worker")) as sess:
        for value, found in zip(values, sess.run(tensors), strict=True):
            assert np.shape(found) == value.shape
            assert np.asarray(found).dtype == value.dtype or value.dtype == object
            assert np.asarray(found, value.dtype).tolist() == value.tolist()


def test_strings_are_worked_on_where_they_are_sent_to(any_cluster):
    with tf.device(PS):
        words = tf.constant(["a", "bc"]) + tf.placeholder_with_default("!", [])
    with tf.device(WORKER):
        joined = tf.strings.reduce_join(words, separator=" ")
    with tf.device(OTHER):
        length = tf.strings.length(joined)
    with tf.Session(any_cluster.target("worker")) as sess:
        assert sess.run([joined, length]) == [b"a! bc!", 6]


def test_a_handle_cannot_leave_its_task_and_the_error_says_so(cluster):
    with tf.device(PS):
        handle = tf.Variable(1.0, use_resource=True).handle
    with tf.device(OTHER):
        copied = tf.identity(handle)
    with tf.Session(cluster.target("worker")) as sess, pytest.raises(tf.errors.OpError):
        sess.run(copied)


def test_a_control_edge_between_tasks_orders_steps_work(any_cluster):
    with tf.device(PS):
        v = tf.Variable(0)
        w = tf.Variable(0)
        first = v.assign(5)
    with tf.device(OTHER), tf.control_dependencies([first.op]):
        middle = tf.no_op()
    with tf.device(PS), tf.control_dependencies([middle]):
        second = w.assign(v.read_value() + 1)
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run([v.initializer, w.initializer])
        assert sess.run(second) == 6


@pytest.mark.parametrize("taken", [True, False])
def test_branches_of_tensorflow_1_may_lie_on_different_tasks(any_cluster, taken):
    """Switch and Merge as TensorFlow's client builds them: dead values cross the border."""
    definition = tf.GraphDef()

    def add(name, op, device, inputs=(), **attrs):
        made = definition.node.add(name=name, op=op, device=device, input=list(inputs))
        for key, value in attrs.items():
            made.attr[key].CopyFrom(value)

    f32 = tf.AttrValue(type=tf.float32.as_datatype_enum)
    boolean = tf.AttrValue(type=tf.bool.as_datatype_enum)
    two = tf.AttrValue(i=2)
    add("pred", "Placeholder", WORKER, dtype=boolean)
    add("x", "Placeholder", WORKER, dtype=f32)
    add("switch", "Switch", PS, ["x", "pred"], T=f32)
    add("no", "Neg", OTHER, ["switch:0"], T=f32)
    add("yes", "Square", PS, ["switch:1"], T=f32)
    add("merge", "Merge", WORKER, ["no", "yes"], T=f32, N=two)
    add("after_no", "NoOp", OTHER, ["^no"])
    add("late", "Identity", PS, ["switch:0", "^after_no"], T=f32)
    add("end", "Merge", WORKER, ["late", "yes"], T=f32, N=two)
    tf.import_graph_def(definition, name="")
    with tf.Session(any_cluster.target("worker")) as sess:
        found = sess.run(["merge:0", "end:0"], {"x:0": 3.0, "pred:0": taken})
        assert found == ([9.0, 9.0] if taken else [-3.0, 3.0])


def test_a_condition_and_a_loop_over_tasks(any_cluster):
    with tf.device(PS):
        v = tf.Variable(3.0)
    with tf.device(WORKER):
        chosen = tf.cond(v > 2.0, lambda: v * 2.0, lambda: v - 1.0)
        total = tf.while_loop(
            lambda i, t: i < 4, lambda i, t: (i + 1, t + chosen), [tf.constant(0), tf.constant(0.0)]
        )[1]
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(total) == 24.0


def test_a_loop_that_writes_a_variable_of_another_task_runs_there(cluster):
    with tf.device(PS):
        v = tf.Variable(3.0)
    with tf.device(WORKER):

        def body(i):
            with tf.control_dependencies([v.assign_add(1.0)]):
                return i + 1

        end = tf.while_loop(lambda i: i < 4, body, [tf.constant(0)])
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        assert sess.run(end) == 4
        assert sess.run(v) == 7


def test_what_two_tasks_hand_each_other_back_and_forth(any_cluster):
    x = tf.placeholder(tf.float32, [])
    value = x
    for i in range(6):
        with tf.device((PS, WORKER, OTHER)[i % 3]):
            value = value * 2 + 1
    with tf.Session(any_cluster.target("worker")) as sess:
        for _ in range(20):
            assert sess.run(value, {x: 1.0}) == 127.0


def mlp(optimizer):
    """The network of seed 001, parameters on the ps and the rest on a worker."""
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
        step = tf.train.get_or_create_global_step()
        w1 = tf.Variable(tf.random_normal([20, 16], stddev=0.1, seed=1), name="hid_w")
        b1 = tf.Variable(tf.zeros([16]), name="hid_b")
        w2 = tf.Variable(tf.random_normal([16, 4], stddev=0.1, seed=2), name="sm_w")
        b2 = tf.Variable(tf.zeros([4]), name="sm_b")
        x = tf.placeholder(tf.float32, [None, 20])
        y = tf.placeholder(tf.float32, [None, 4])
        hidden = tf.nn.relu(tf.nn.xw_plus_b(x, w1, b1))
        output = tf.nn.softmax(tf.nn.xw_plus_b(hidden, w2, b2))
        loss = -tf.reduce_sum(y * tf.log(tf.clip_by_value(output, 1e-10, 1.0)))
        train = optimizer.minimize(loss, global_step=step)
    return x, y, loss, train, step


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.01),
        lambda: tf.train.MomentumOptimizer(0.01, 0.9),
        lambda: tf.train.AdagradOptimizer(0.01),
        lambda: tf.train.AdamOptimizer(0.01),
    ],
    ids=["GradientDescent", "Momentum", "Adagrad", "Adam"],
)
def test_a_training_step_is_two_round_trips_and_one_xla_call_for_all_updates(
    any_cluster, optimizer
):
    x, y, loss, train, step = mlp(optimizer())
    rng = np.random.RandomState(0)
    feed = {x: rng.rand(8, 20), y: np.eye(4)[rng.randint(4, size=8)]}
    worker, ps = any_cluster["worker", 0], any_cluster["ps", 0]
    with tf.Session(worker.target) as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run([train, loss], feed)[1]
        traffic = worker.peers.traffic()["/job:ps/replica:0/task:0"]
        sent, received = traffic.messages_sent, traffic.messages_received
        calls, steps = ps.worker.xla_calls, ps.worker.steps
        for _ in range(10):
            sess.run([train, loss], feed)
        traffic = worker.peers.traffic()["/job:ps/replica:0/task:0"]
        assert traffic.messages_sent - sent <= 20
        assert traffic.messages_received - received <= 20
        assert ps.worker.steps - steps == 10
        assert ps.worker.xla_calls - calls == 10
        assert sess.run(loss, feed) < before
        assert sess.run(step) == 11


def test_a_fetched_value_of_another_task_comes_with_its_answer(cluster):
    with tf.device(PS):
        v = tf.Variable(2.0)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(v.initializer)
        sess.run(v)
        traffic = cluster["worker", 0].peers.traffic()["/job:ps/replica:0/task:0"]
        before = traffic.messages_sent, traffic.messages_received
        sess.run(v)
        traffic = cluster["worker", 0].peers.traffic()["/job:ps/replica:0/task:0"]
        assert (traffic.messages_sent, traffic.messages_received) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize("remote", [False, True])
def test_a_trace_has_a_row_for_every_task_and_the_transfers(any_cluster, remote):
    x, y, loss, train, _step = mlp(tf.train.GradientDescentOptimizer(0.01))
    feed = {x: np.ones((2, 20)), y: np.ones((2, 4))}
    metadata = tf.RunMetadata()
    with tf.Session(any_cluster.target("worker", remote=remote)) as sess:
        sess.run(tf.global_variables_initializer())
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        sess.run([train, loss], feed, options=options, run_metadata=metadata)
    names = {
        device.device: [n.timeline_label + n.node_name for n in device.node_stats]
        for device in metadata.step_stats.dev_stats
    }
    tasks = {device.partition("/device:")[0] for device in names}
    assert tasks == {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"}
    for task in tasks:
        text = " ".join(" ".join(v) for k, v in names.items() if k.startswith(task))
        # The ps sends its variables on request, which is no part of the step.
        assert "_SendTensors" in text or "ps" in task
        assert "_ReceiveTensors" in text
    from millrace.client.timeline import Timeline

    assert "/job:ps" in Timeline(metadata.step_stats).generate_chrome_trace_format()


def test_a_step_leaves_nothing_to_the_garbage_collector(any_cluster, left_by):
    """What it received would stay in memory, and its sender's too, until the collector comes."""
    x, y, loss, train, _ = mlp(tf.train.AdamOptimizer(0.01))
    feed = {x: np.ones([8, 20]), y: np.ones([8, 4])}
    with tf.Session(any_cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run([train, loss], feed)
        left = left_by(lambda: sess.run([train, loss], feed), 20)
        assert left.total() < 20, left  # not one object a step
