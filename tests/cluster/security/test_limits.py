"""How much a client gets: memory, graphs, sessions, calls, bytes in a message."""

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.rpc import message, service_messages
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from tests.cluster.security.conftest import SECONDS, Trainer, address


def hundred_terabytes() -> dict[str, Any]:
    """Ops that ask for 100 TB, by their names."""
    many = 12_500_000_000_000
    column = tf.placeholder_with_default(np.ones([5_000_000, 1], np.float32), [None, 1])
    fed = tf.placeholder_with_default(np.array([many]), [1])
    return {
        "zeros": tf.zeros([many], tf.float64, name="zeros"),
        "fill": tf.reduce_sum(tf.fill(fed, 1.0, name="fill")),
        "random": tf.random_normal([5_000_000, 5_000_000], name="random"),
        "outer": tf.matmul(column, column, transpose_b=True, name="outer"),
        "sum": tf.add(column, tf.transpose(column), name="sum"),
        "range": tf.range(many, name="range"),
        "strings": tf.tile(tf.constant(["a"]), [many], name="strings"),
        "variable": tf.Variable(tf.zeros([many], name="initial"), name="huge").initializer,
    }


@pytest.mark.parametrize("job", ["ps", "worker"])
def test_a_graph_that_asks_for_100_terabytes_is_refused(make_job, job):
    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        asked = hundred_terabytes()
    with tf.Session(cluster.target(job, 0, remote=True)) as session:
        for name, fetch in asked.items():
            with pytest.raises(
                errors.ResourceExhaustedError, match="MILLRACE_MAX_(MEMORY_BYTES|STRING_ELEMENTS)"
            ) as refused:
                session.run(fetch)
            assert ("initial" if name == "variable" else name) in str(refused.value)
            trainer.step()


MANY = 200_000_000


def many_objects() -> dict[str, Any]:
    """Ops that ask for more Python objects than one client gets, by their names."""
    count = tf.placeholder_with_default(np.array([MANY]), [1])
    one = tf.placeholder_with_default(np.array(MANY, np.int32), [])
    word = tf.constant(["word"])
    far = tf.placeholder_with_default(np.array([10**12]), [1])
    blanks = tf.placeholder_with_default(np.array([b" " * (1 << 20)] * 40, object), [40])
    array = tf.TensorArray(tf.float32, size=one, name="array")
    return {
        "fill": tf.fill(count, "word", name="fill"),
        "tile": tf.tile(word, count, name="tile"),
        "broadcast": tf.broadcast_to(word, count, name="broadcast"),
        "pad": tf.pad(word, [[0, one]], constant_values="", name="pad"),
        "one_hot": tf.one_hot([0], one, "a", "b", name="one_hot"),
        "dense": tf.sparse_to_dense(np.array([[0]]), count, ["a"], "b", name="dense"),
        "width": tf.as_string([1, 2], width=2_000_000_000, name="width"),
        "split": tf.string_split(blanks, " ", skip_empty=False).values,
        "stitch": tf.dynamic_stitch([[0, one]], [["a", "b"]], name="stitch"),
        "segments": tf.segment_sum([1.0], far, name="segments"),
        "rows": tf.sparse_fill_empty_rows(
            tf.SparseTensor(np.zeros([0, 2], np.int64), np.zeros([0], np.float32), [10**12, 2]), 0.0
        )[1],
        "array": array.write(0, 1.0).flow,
        "rewritten": tf.regex_replace("a" * 1000, "a", "b" * 3_000_000),
        "sampled": tf.nn.uniform_candidate_sampler(
            np.ones([1, 1], np.int64), 1, 2**31 - 1, False, 10**9
        )[0],
    }


def test_ops_that_ask_for_too_many_python_objects_are_refused_before_any_is_made(make_job):
    """So the bystander's steps go on, and no memory is taken."""
    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        asked = many_objects()
        little = tf.constant(3.0) * 2
    with tf.Session(cluster.target("ps", 0, remote=True)) as session:
        for name, fetch in asked.items():
            with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_") as refused:
                session.run(fetch)
            assert f"{fetch.op.name} (" in str(refused.value) or "[[" in str(refused.value), name
            trainer.step()
        assert session.run(little) == 6


def const_of_many(dtype: Any) -> Any:
    """A NodeDef of 60 bytes that stands for many elements."""
    node = tf.NodeDef(name="huge", op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto("word"))
    node.attr["value"].tensor.tensor_shape.dim.add(size=MANY)
    return node


def test_few_bytes_that_stand_for_many_strings_are_refused_wherever_they_are(make_job):
    """In the graph, in a function's body, in any attribute, and in a feed."""
    cluster, trainer = make_job()
    connection = Connection(address(cluster), Security())
    master = connection.master()
    in_graph, in_body, in_list = (service_messages.CreateSessionRequest() for _ in range(3))
    in_graph.graph_def.node.add().CopyFrom(const_of_many(tf.string))
    body = in_body.graph_def.library.function.add()
    body.signature.name = "Body"
    body.node_def.add().CopyFrom(const_of_many(tf.string))
    other = in_list.graph_def.node.add(name="huge", op="NoOp")
    other.attr["_any"].list.tensor.add().CopyFrom(const_of_many(tf.string).attr["value"].tensor)
    for request in (in_graph, in_body, in_list):
        with pytest.raises(errors.ResourceExhaustedError, match="huge.*200000000"):
            master.create_session(request, SECONDS)
    empty = service_messages.CreateSessionRequest()
    empty.graph_def.node.add(name="fed", op="Placeholder").attr["dtype"].type = 7
    handle = master.create_session(empty, SECONDS).session_handle
    step = service_messages.RunStepRequest(session_handle=handle, fetch=["fed:0"])
    feed = step.feed.add(name="fed:0")
    feed.tensor.CopyFrom(const_of_many(tf.string).attr["value"].tensor)
    with pytest.raises(errors.ResourceExhaustedError, match="fed.*200000000"):
        master.run_step(step, SECONDS)
    trainer.step()
    master.close_session(service_messages.CloseSessionRequest(session_handle=handle), SECONDS)
    connection.close()


@pytest.mark.parametrize(("op", "count"), [("AddN", "N"), ("Pack", "N"), ("Unpack", "num")])
def test_a_number_of_tensors_that_no_graph_has_is_refused(make_job, op, count):
    cluster, _ = make_job()
    connection = Connection(address(cluster), Security())
    request = service_messages.CreateSessionRequest()
    constant = request.graph_def.node.add(name="one", op="Const")
    constant.attr["dtype"].type = 1
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([1.0]))
    node = request.graph_def.node.add(name="many", op=op, input=["one"])
    node.attr["T"].type = 1
    node.attr[count].i = 1 << 40
    refusals = (errors.InvalidArgumentError, errors.ResourceExhaustedError)
    with pytest.raises(refusals, match="1,?099,?511,?627,?77"):
        connection.master().create_session(request, SECONDS)
    connection.close()


def test_few_bytes_that_stand_for_100_terabytes_are_refused(make_job):
    cluster, _ = make_job()
    connection = Connection(address(cluster), Security())
    request = service_messages.CreateSessionRequest()
    node = request.graph_def.node.add(name="huge", op="Const")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    tensor = node.attr["value"].tensor
    tensor.dtype = tf.float32.as_datatype_enum
    tensor.float_val.append(1.0)
    tensor.tensor_shape.dim.add(size=25_000_000_000_000)
    with pytest.raises(errors.ResourceExhaustedError, match="huge"):
        connection.master().create_session(request, SECONDS)
    connection.close()


@pytest.mark.parametrize("part", ["name", "device", "input"])
def test_a_name_of_megabytes_is_refused(make_job, part):
    cluster, trainer = make_job()
    request = service_messages.CreateSessionRequest()
    node = request.graph_def.node.add(name="n", op="NoOp")
    if part == "input":
        node.input.append("^" + "x" * 1_000_000)
    else:
        setattr(node, part, "x" * 1_000_000)
    connection = Connection(address(cluster), Security())
    with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_NAME_BYTES") as told:
        connection.master().create_session(request, SECONDS)
    assert len(told.value.message) < 1000
    connection.close()
    trainer.step()


@pytest.mark.parametrize(
    ("variable", "value"), [("MILLRACE_MAX_GRAPH_NODES", "100"), ("MILLRACE_MAX_GRAPH_BYTES", "9K")]
)
def test_a_graph_may_be_so_large_and_no_larger(make_job, monkeypatch, variable, value):
    cluster, trainer = make_job()
    monkeypatch.setenv(variable, value)
    total = tf.constant(0.0)
    for _ in range(20):
        total = total + 1
    with tf.Session(cluster.target("ps", 0, remote=True)) as session:
        assert session.run(total) == 20
        for _ in range(200):
            total = total + 1
        with pytest.raises(errors.ResourceExhaustedError, match=variable):
            session.run(total)
    trainer.step()


def test_a_client_may_have_so_many_sessions_and_no_more(make_job, monkeypatch):
    cluster, trainer = make_job()
    monkeypatch.setenv("MILLRACE_MAX_SESSIONS_PER_CLIENT", "5")
    target = cluster.target("ps", 0, remote=True)
    tf.constant(1)
    sessions = [tf.Session(target) for _ in range(4)]  # the bystander's is on the worker
    sessions.append(tf.Session(target))
    with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_SESSIONS_PER_CLIENT"):
        tf.Session(target)
    trainer.step()
    sessions.pop().close()
    sessions.append(tf.Session(target))
    for session in sessions:
        session.close()


def test_sessions_of_a_client_are_not_those_of_the_task_that_it_calls(make_job, monkeypatch):
    cluster, _ = make_job()
    monkeypatch.setenv("MILLRACE_MAX_SESSIONS_PER_CLIENT", "5")
    target = cluster.target("worker", 0, remote=True)
    tf.constant(1)
    sessions = [tf.Session(target) for _ in range(5)]
    with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_SESSIONS_PER_CLIENT"):
        tf.Session(target)
    restarted = Trainer(cluster)  # The ps has the worker's own session beside those of clients.
    restarted.step()
    restarted.close()
    for session in sessions:
        session.close()


def test_who_speaks_with_a_worker_service_has_limits_too(make_job, monkeypatch):
    cluster, trainer = make_job()
    connection = Connection(address(cluster), Security())
    worker = connection.worker()

    def create(handle: str) -> None:
        request = service_messages.CreateWorkerSessionRequest(session_handle=handle)
        worker.create_worker_session(request, SECONDS)

    try:
        monkeypatch.setenv("MILLRACE_MAX_SESSIONS_PER_CLIENT", "5")
        for i in range(5):
            create(str(i))
        with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_SESSIONS_PER_CLIENT"):
            create("one too many")
        trainer.step()
        graph = service_messages.RegisterGraphRequest(session_handle="0")
        for i in range(101):
            graph.graph_def.node.add(name=f"n{i}", op="NoOp")
        monkeypatch.setenv("MILLRACE_MAX_GRAPH_NODES", "100")
        with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_GRAPH_NODES"):
            worker.register_graph(graph, SECONDS)
        trainer.step()
        for i in range(5):
            request = service_messages.DeleteWorkerSessionRequest(session_handle=str(i))
            worker.delete_worker_session(request, SECONDS)
        create("again")
    finally:
        connection.close()


def test_a_greedy_client_may_have_so_many_calls_and_no_more(
    make_job, monkeypatch, background, until
):
    monkeypatch.setenv("MILLRACE_MAX_CALLS_PER_CLIENT", "20")
    cluster, trainer = make_job()
    queue = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="greedy")
    taken, closing = queue.dequeue(), queue.close(cancel_pending_enqueues=True)
    ended: list[Exception] = []
    session = tf.Session(cluster.target("ps", 0, remote=True))
    session.run(queue.size())

    def take() -> None:
        try:
            session.run(taken)
        except errors.OpError as error:
            ended.append(error)

    calls = [background(take) for _ in range(40)]
    until(lambda: len(ended) >= 20)
    for error in ended:
        assert isinstance(error, errors.ResourceExhaustedError), error
        assert "MILLRACE_MAX_CALLS_PER_CLIENT" in error.message
    for _ in range(5):
        trainer.step()
    with tf.Session(cluster.target("ps", 0)) as other:  # not over the network
        other.run(closing)
    for call in calls:
        call.result()
    session.close()


def test_steps_of_a_client_that_wait_for_each_other_do_not_need_many_shares(
    make_job, monkeypatch, background
):
    monkeypatch.setenv("MILLRACE_MAX_COMPUTING_STEPS_PER_CLIENT", "1")
    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        here = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="here")
    with tf.device("/job:worker/task:0"):
        there = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="there")
    with tf.Session(cluster.target("ps", 0, remote=True)) as session:
        for queue in (here, there):
            taken, put = queue.dequeue(), queue.enqueue([2.0])
            calls = [background(lambda op=taken: session.run(op)) for _ in range(8)]
            trainer.step()
            for _ in calls:
                session.run(put)
            assert [call.result() for call in calls] == [2.0] * 8


@pytest.fixture
def small_messages():
    """Messages of a megabyte at most; to be named before what makes servers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_MAX_MESSAGE_BYTES", "1M")
        message.max_block_bytes.cache_clear()
        yield
    message.max_block_bytes.cache_clear()


def test_a_message_may_be_so_large_and_no_larger(small_messages, make_job):
    cluster, trainer = make_job()
    value = tf.placeholder(tf.float32, [None])
    with tf.Session(cluster.target("ps", 0, remote=True)) as session:
        total = tf.reduce_sum(value)
        assert session.run(total, {value: np.ones(1000)}) == 1000
        with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_MESSAGE_BYTES"):
            session.run(total, {value: np.ones(1_000_000)})
        trainer.step()
        assert session.run(total, {value: np.ones(1000)}) == 1000


@pytest.mark.parametrize("way", ["socket", "grpc"])
def test_between_tasks_a_message_may_be_so_large_and_no_larger(small_messages, make_job, way):
    cluster, trainer = make_job(way=way)
    with tf.device("/job:worker/task:0"):
        count = tf.placeholder(tf.int32, [])
        value = tf.random_uniform([count], 1, 2)
    with tf.device("/job:ps/task:0"):
        total = tf.reduce_sum(value)
    for job in ("worker", "ps"):  # sent by the master, and to it
        with tf.Session(cluster.target(job, 0, remote=True)) as session:
            assert session.run(total, {count: 10}) >= 10
            with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_MESSAGE_BYTES"):
                session.run(total, {count: 1_000_000})
            trainer.step()
            assert session.run(total, {count: 10}) >= 10
