"""WorkerService's methods that Millrace's own masters do not need, over gRPC."""

import numpy as np
import pytest

import millrace as tf
from millrace.core.dead import DEAD
from millrace.protocol.step.events import StepEnded, ValuesArrived
from millrace.rpc import service_messages
from millrace.rpc.service import Connection
from millrace.runtime.resources import VariableSlot


@pytest.fixture
def ask(cluster):
    """The worker service of a task."""
    made = []

    def connect(job, index=0):
        connection = Connection(cluster[job, index].target.removeprefix("grpc://"))
        made.append(connection)
        return connection.worker()

    yield connect
    for connection in made:
        connection.close()


def run_over_two_tasks(cluster):
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder(tf.float32, [4])
            there = tf.multiply(x, 2, name="there")
        with tf.device("/job:worker/task:0"):
            here = there + 1
        with tf.Session(cluster.target("worker")) as sess:
            return sess.run(here, {x: np.arange(4)})


def steps_of(cluster):
    return list(cluster["worker", 0].worker.transfers._steps)


def test_the_log_of_transfers_is_kept_handed_out_and_cleared(cluster, ask):
    worker = ask("worker")
    run_over_two_tasks(cluster)
    assert steps_of(cluster) == []  # Nobody had asked for it.
    worker.logging(service_messages.LoggingRequest(enable_rpc_logging=True))
    for _ in range(3):
        run_over_two_tasks(cluster)
    first, second, third = steps_of(cluster)
    answer = worker.logging(service_messages.LoggingRequest(fetch_step_id=[first, 12345, second]))
    assert [step.step_id for step in answer.step] == [first, second]
    (row,) = answer.step[0].step_stats.dev_stats
    assert row.device == "/job:worker/replica:0/task:0"
    assert row.node_stats[0].node_name == "RecvTensor"
    assert row.node_stats[0].timeline_label.startswith("[16B] ")
    assert "there:0 from /job:ps/replica:0/task:0 to" in row.node_stats[0].timeline_label
    assert steps_of(cluster) == [third]
    worker.logging(service_messages.LoggingRequest(enable_rpc_logging=True, clear=True))
    assert steps_of(cluster) == []
    worker.logging(service_messages.LoggingRequest(disable_rpc_logging=True))
    run_over_two_tasks(cluster)
    assert steps_of(cluster) == []


def test_tracing_is_not_there_as_with_tensorflow_and_the_error_says_what_is(ask):
    with pytest.raises(tf.errors.UnimplementedError, match=r"Tracing.*FULL_TRACE"):
        ask("ps").tracing(service_messages.TracingRequest())


class Part:
    """A part of a graph as a master of TensorFlow makes it, registered with the ps."""

    PS, WORKER = (
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:0/device:CPU:0",
    )

    def __init__(self, worker):
        self.worker = worker
        self.definition = tf.GraphDef()
        request = service_messages.CreateWorkerSessionRequest(
            session_handle="of tensorflow", master_task="/job:worker/replica:0/task:0"
        )
        worker.create_worker_session(request)
        self.handle = ""

    def add(self, name, op, *inputs, **attrs):
        made = self.definition.node.add(name=name, op=op, input=inputs, device=self.PS)
        for key, value in attrs.items():
            made.attr[key].CopyFrom(value)

    def transfer(self, name, op, source, to, *inputs, client=False):
        kind = "T" if inputs else "tensor_type"
        self.add(
            name,
            op,
            *inputs,
            **{kind: tf.AttrValue(type=tf.float32.as_datatype_enum)},
            tensor_name=tf.AttrValue(s=name.encode()),
            send_device=tf.AttrValue(s=source.encode()),
            send_device_incarnation=tf.AttrValue(i=-2),
            recv_device=tf.AttrValue(s=to.encode()),
            client_terminated=tf.AttrValue(b=client),
        )

    def register(self):
        request = service_messages.RegisterGraphRequest(
            session_handle="of tensorflow",
            graph_def=self.definition,
            create_worker_session_called=True,
        )
        self.handle = self.worker.register_graph(request).graph_handle

    def run(self, step, send=(), recv=()):
        request = service_messages.RunGraphRequest(
            session_handle="of tensorflow",
            graph_handle=self.handle,
            step_id=step,
            recv_key=recv,
            create_worker_session_called=True,
        )
        for name, value in send:
            request.send.add(name=name, tensor=tf.make_tensor_proto(value))
        return [tf.make_ndarray(item.tensor) for item in self.worker.run_graph(request).recv]

    def receive(self, step, key):
        request = service_messages.RecvTensorRequest(step_id=step, rendezvous_key=key)
        return self.worker.recv_tensor(request)

    def clean_up(self, step):
        self.worker.cleanup_graph(service_messages.CleanupGraphRequest(step_id=step))


def key(source, to, name):
    return f"{source};fffffffffffffffe;{to};{name};0:0"


@pytest.fixture
def doubling(ask):
    """Gets x from its master, gives it 2 x, and keeps 2 x for worker 0."""
    part = Part(ask("ps"))
    f32 = tf.AttrValue(type=tf.float32.as_datatype_enum)
    part.transfer("_recv_x_0", "_Recv", part.PS, part.PS, client=True)
    part.add("twice", "AddV2", "_recv_x_0", "_recv_x_0", T=f32)
    part.transfer("to_master", "_Send", part.PS, part.PS, "twice", client=True)
    part.transfer("to_worker", "_HostSend", part.PS, part.WORKER, "twice")
    part.register()
    return part


def test_a_part_of_tensorflows_master_takes_and_gives_values_by_their_keys(doubling):
    x, out = (key(doubling.PS, doubling.PS, name) for name in ("_recv_x_0", "to_master"))
    kept = key(doubling.PS, doubling.WORKER, "to_worker")
    for step in (5, 6):
        assert doubling.run(step, [(x, np.float32(step))], [out]) == [2.0 * step]
    # What a step has sent is there, after its part is over, until the master says otherwise.
    answer = doubling.receive(6, kept)
    assert tf.make_ndarray(answer.tensor) == 12.0 and not answer.is_dead
    doubling.clean_up(5)
    doubling.clean_up(6)
    with pytest.raises(tf.errors.CancelledError):
        doubling.receive(5, kept)


def test_a_value_may_be_asked_for_before_it_is_made(doubling, background):
    x, kept = (
        key(doubling.PS, doubling.PS, "_recv_x_0"),
        key(doubling.PS, doubling.WORKER, "to_worker"),
    )
    waiting = background(lambda: doubling.receive(8, kept))
    doubling.run(8, [(x, np.float32(4))])
    assert tf.make_ndarray(waiting.result().tensor) == 8.0
    doubling.clean_up(8)


def test_a_key_that_no_node_of_the_part_has_is_refused(doubling):
    x = key(doubling.PS, doubling.PS, "_recv_x_0")
    with pytest.raises(tf.errors.InvalidArgumentError, match="has not made what was asked for"):
        doubling.run(9, [(x, np.float32(1))], [key(doubling.PS, doubling.PS, "other")])
    doubling.clean_up(9)


def test_steps_that_a_master_never_cleans_up_are_forgotten(doubling, cluster, monkeypatch):
    monkeypatch.setattr("millrace.protocol.step.worker._MAX_KEPT", 2)
    x = key(doubling.PS, doubling.PS, "_recv_x_0")
    for step in (1, 2, 3, 4):
        doubling.run(step, [(x, np.float32(1))])
    assert set(cluster["ps", 0].worker.partitions.steps) == {3, 4}
    doubling.clean_up(3)
    doubling.clean_up(4)


def test_a_dead_value_is_fetched_from_the_task_that_keeps_it(cluster, ask):
    """worker 0 keeps a dead value; the ps gets it, and what depends on it stays undone."""
    worker = cluster["worker", 0].worker
    part = Part(ask("ps"))
    f32 = tf.AttrValue(type=tf.float32.as_datatype_enum)
    shape = tf.AttrValue()
    shape.shape.SetInParent()
    part.add("v", "VariableV2", dtype=f32, shape=shape)
    part.transfer("x", "_Recv", part.WORKER, part.PS)
    part.add("set", "Assign", "v", "x", T=f32, validate_shape=tf.AttrValue(b=False))
    part.add("after", "NoOp", "^set")
    value = tf.make_tensor_proto(np.float32(3))
    part.add("three", "Const", "^after", dtype=f32, value=tf.AttrValue(tensor=value))
    part.transfer("y", "_Send", part.PS, part.PS, "three")
    part.register()
    incoming, outgoing = key(part.WORKER, part.PS, "x"), key(part.PS, part.PS, "y")
    for step, sent in ((1, np.float32(7)), (2, DEAD)):
        worker.tell(ValuesArrived(step, incoming, [sent]))
        part.run(step)
        answer = part.receive(step, outgoing)
        assert answer.is_dead == (sent is DEAD)
        part.clean_up(step)
        worker.tell(StepEnded(step))
    (slot,) = [s for _, name, s in cluster["ps", 0].worker.resources.all_of(VariableSlot)]
    assert float(slot.value) == 7.0


@pytest.mark.parametrize("in_body", [True, False])
def test_an_error_of_a_part_comes_in_the_body_or_as_status_as_asked(doubling, in_body):
    """The op's name is marked as TensorFlow's clients look for it."""
    x = key(doubling.PS, doubling.PS, "_recv_x_0")
    request = service_messages.RunGraphRequest(
        session_handle="of tensorflow",
        graph_handle=doubling.handle,
        step_id=3,
        store_errors_in_response_body=in_body,
    )
    request.send.add(name=x, tensor=tf.make_tensor_proto(np.zeros([2, 3], np.float32)))
    request.send.add(name=x + "2", tensor=tf.make_tensor_proto(np.float32(0)))
    doubling.definition.node[1].op = "MatMul"
    doubling.register()
    request.graph_handle = doubling.handle
    if in_body:
        response = doubling.worker.run_graph(request)
        assert response.status_code == tf.errors.INVALID_ARGUMENT
        assert "{{node twice}}" in response.status_error_message
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="{{node twice}}"):
            doubling.worker.run_graph(request)
    doubling.clean_up(3)


@pytest.mark.parametrize("asks_first", [True, False])
def test_who_waits_for_a_value_of_a_part_that_fails_is_told_why(
    doubling, background, until, cluster, asks_first
):
    """Whichever answer reaches a master of TensorFlow first: the op that failed, and its error."""
    x = key(doubling.PS, doubling.PS, "_recv_x_0")
    kept = key(doubling.PS, doubling.WORKER, "to_worker")
    doubling.definition.node[1].op = "MatMul"
    doubling.register()
    if asks_first:
        waiting = background(lambda: doubling.receive(4, kept))
        until(lambda: 4 in cluster["ps", 0].worker.partitions.steps)
    with pytest.raises(tf.errors.InvalidArgumentError):
        doubling.run(4, [(x, np.zeros([2, 3], np.float32))])
    if not asks_first:
        waiting = background(lambda: doubling.receive(4, kept))
    with pytest.raises(tf.errors.InvalidArgumentError, match="{{node twice}}") as told:
        waiting.result()
    assert "Another op of this step failed" not in told.value.message
    doubling.clean_up(4)


@pytest.mark.parametrize("in_body", [True, False])
def test_an_error_of_a_step_comes_in_the_body_or_as_status_as_asked(cluster, in_body):
    graph = tf.Graph()
    with graph.as_default():
        tf.assert_equal(tf.placeholder(tf.int32, [], name="x"), 1, name="one")
    connection = Connection(cluster["worker", 0].target.removeprefix("grpc://"))
    master = connection.master()
    request = service_messages.CreateSessionRequest(graph_def=graph.as_graph_def())
    handle = master.create_session(request).session_handle
    step = service_messages.RunStepRequest(
        session_handle=handle,
        target=[graph.get_operations()[-1].name],
        store_errors_in_response_body=in_body,
    )
    step.feed.add(name="x:0", tensor=tf.make_tensor_proto(np.int32(2)))
    if in_body:
        response = master.run_step(step)
        assert response.status_code == tf.errors.INVALID_ARGUMENT
        assert "{{node " in response.status_error_message
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match="{{node "):
            master.run_step(step)
    master.close_session(service_messages.CloseSessionRequest(session_handle=handle))
    connection.close()
