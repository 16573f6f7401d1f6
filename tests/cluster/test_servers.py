"""tf.train.Server: how it is described, where it listens, how it ends."""

import gc
import socket
import threading

import pytest

import millrace as tf
from millrace.platform.ports import HeldPorts
from millrace.platform.reachability import why_unreachable
from millrace.rpc.service import Connection
from millrace.server.server import find_running


@pytest.fixture
def start():
    """Starts servers, and stops them after the test."""
    made = []

    def make(*args, **kwargs):
        made.append(tf.train.Server(*args, **kwargs))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def is_listening(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize(
    "describe",
    [
        lambda address: {"worker": [address]},
        lambda address: {"worker": {0: address}},
        lambda address: tf.train.ClusterSpec({"worker": [address]}),
        lambda address: tf.train.ClusterSpec({"worker": [address]}).as_cluster_def(),
        lambda address: tf.train.ServerDef(
            cluster=tf.train.ClusterSpec({"worker": [address]}).as_cluster_def(),
            job_name="worker",
            task_index=0,
            protocol="grpc",
        ),
    ],
    ids=["lists", "dicts", "ClusterSpec", "ClusterDef", "ServerDef"],
)
def test_a_cluster_may_be_described_in_any_form(start, free_port, describe):
    server = start(describe(f"localhost:{free_port}"))
    assert server.target == f"grpc://localhost:{free_port}"
    assert server.server_def.job_name == "worker" and server.server_def.task_index == 0
    with tf.Session(server.target) as sess:
        assert sess.run(tf.constant(3)) == 3


def test_tasks_may_leave_numbers_out(start, free_port):
    server = start({"worker": {7: f"localhost:{free_port}"}})
    assert server.server_def.task_index == 7
    with tf.Session(server.target) as sess:
        (device,) = sess.list_devices()
        assert device.name == "/job:worker/replica:0/task:7/device:CPU:0"


def test_port_zero_picks_a_free_one_and_the_server_def_tells_it(start):
    server = start({"worker": ["localhost:0"]})
    address = server.target.removeprefix("grpc://")
    assert not address.endswith(":0") and is_listening(address)
    assert server.server_def.cluster.job[0].tasks[0] == address


def test_a_local_server_is_a_cluster_of_its_own():
    server = tf.train.Server.create_local_server()
    other = tf.train.Server.create_local_server()
    try:
        assert server.server_def.job_name == "local"
        assert server.target != other.target
        with tf.Session(server.target) as sess:
            assert sess.run(tf.constant("hello")) == b"hello"
    finally:
        server.stop()
        other.stop()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (({"a": ["localhost:0"], "b": ["localhost:0"]},), ValueError, "explicit `job_name`"),
        (({"a": ["localhost:0", "localhost:0"]},), ValueError, "explicit `task_index`"),
        (({"a": ["localhost:0"]}, "b", 0), tf.errors.InternalError, 'Job "b" was not defined'),
        (({"a": ["localhost:0"]}, "a", 3), tf.errors.InternalError, "Task 3 was not defined"),
        (({"a": ["localhost:0"]}, "a", -1), tf.errors.InternalError, "Task -1 was not defined"),
        ((3,), TypeError, "Could not convert `server_or_cluster_def`"),
        (({"a": ["localhost"]},), tf.errors.InvalidArgumentError, "Could not parse port"),
        (({"a": ["localhost:99999"]},), tf.errors.InvalidArgumentError, "Could not parse port"),
        (({"a": ["localhost:x"]},), tf.errors.InvalidArgumentError, "Could not parse port"),
        (({"a": ["localhost:0"]}, "a", 0, "pigeon"), tf.errors.NotFoundError, "grpc, grpc"),
        (({"a": ["no.such.host.invalid:0"]},), tf.errors.UnknownError, "Could not start gRPC"),
    ],
)
def test_a_wrong_description_raises_tensorflows_class_and_says_what_there_is(
    start, arguments, error, words
):
    with pytest.raises(error, match=words.replace("+", r"\+")):
        start(*arguments)


def test_a_taken_port_raises_and_says_what_to_change(start):
    with socket.create_server(("localhost", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(tf.errors.UnknownError, match="Could not start gRPC server") as caught:
            start({"a": [f"127.0.0.1:{port}"]})
    assert str(port) in caught.value.message and "choose another, or 0" in caught.value.message


def test_two_servers_cannot_have_one_port(start, free_port):
    start({"a": [f"localhost:{free_port}"]})
    with pytest.raises(tf.errors.UnknownError):
        start({"a": [f"localhost:{free_port}"]})


def test_stop_frees_the_port_and_a_new_server_can_have_it(start, free_port):
    spec = {"a": [f"localhost:{free_port}"]}
    first = start(spec)
    first.stop()
    first.stop()
    assert not is_listening(f"localhost:{free_port}")
    second = start(spec)
    with tf.Session(second.target) as sess:
        assert sess.run(tf.constant(1)) == 1


def test_join_returns_when_the_server_is_stopped(start, background):
    server = start({"a": ["localhost:0"]})
    joined = background(server.join)
    assert joined.is_running
    server.stop()
    joined.result()


def test_join_returns_when_another_process_asks_the_server_to_stop(start, background):
    server = start({"a": ["localhost:0"]})
    joined = background(server.join)
    connection = Connection(server.target.removeprefix("grpc://"))
    connection.stop_server(timeout=60)
    joined.result()
    connection.close()


def test_join_does_not_return_while_a_worker_trains_that_had_left_and_came_back(
    cluster, background, monkeypatch
):
    monkeypatch.setattr("millrace.server.server._LEAVE_SECONDS", 60.0)
    ps, again, other = cluster["ps", 0], cluster["worker", 0], cluster["worker", 1]
    joined = background(ps.join)
    again._tell_left()
    with tf.Session(again.target):
        pass
    other._tell_left()
    assert not ps._leaving.is_over
    again._tell_left()
    joined.result()


def test_a_server_that_is_not_started_serves_once_it_is(start, background, free_port):
    server = start({"a": [f"localhost:{free_port}"]}, start=False)
    assert server.target == f"grpc://localhost:{free_port}"
    graph = tf.Graph()
    with graph.as_default():
        three = tf.constant(3)

    def run():
        with tf.Session(server.target, graph=graph) as sess:
            return sess.run(three)

    waiting = background(run)
    server.start()
    server.start()
    assert waiting.result() == 3


def test_a_stopped_server_cannot_be_started_again(start):
    server = start({"a": ["localhost:0"]})
    server.stop()
    with pytest.raises(tf.errors.FailedPreconditionError, match="make a new one"):
        server.start()


def test_stop_may_be_called_by_several_threads_at_once(start):
    server = start({"a": ["localhost:0"]})
    threads = [threading.Thread(target=server.stop) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_server_that_nobody_holds_goes_on_serving_as_tensorflows_does():
    target = tf.train.Server.create_local_server().target
    gc.collect()
    with tf.Session(target.replace("localhost", "127.0.0.1")) as sess:
        assert sess.run(tf.constant(2)) == 2
    find_running(target).stop()


def test_the_servers_config_is_the_default_of_its_sessions(start):
    config = tf.ConfigProto(device_count={"CPU": 3}, allow_soft_placement=True)
    server = start({"a": ["localhost:0"]}, config=config)
    with tf.device("/device:GPU:0"):
        x = tf.constant(1)
    for target in (server.target, server.target.replace("localhost", "127.0.0.1")):
        with tf.Session(target) as sess:
            assert len(sess.list_devices()) == 3
            assert sess.run(x) == 1


def test_a_task_listens_where_it_is_told_and_others_dial_its_address(monkeypatch) -> None:
    with HeldPorts(2, "127.0.0.1") as held:
        dialled, listened = held.addresses
        monkeypatch.setenv("MILLRACE_BIND", listened)
        server = tf.train.Server({"ps": [dialled]}, "ps", 0)
        try:
            assert server.target == f"grpc://{dialled}"
            assert why_unreachable(listened) is None
            assert "refused" in str(why_unreachable(dialled))
        finally:
            server.stop()


@pytest.mark.parametrize("said", ["0.0.0.0:many", "a:99999"])
def test_a_place_to_listen_at_that_is_none_is_told(said: str, monkeypatch) -> None:
    monkeypatch.setenv("MILLRACE_BIND", said)
    with pytest.raises(ValueError, match="is no address; write"):
        tf.train.Server({"ps": ["localhost:0"]}, "ps", 0)


def test_a_name_that_does_not_resolve_is_another_sentence_than_a_port_that_is_taken() -> None:
    with pytest.raises(tf.errors.UnknownError, match="cannot be found|does not resolve"):
        tf.train.Server({"ps": ["host.invalid:2222"]}, "ps", 0)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        with pytest.raises(tf.errors.UnknownError, match="another process has the port"):
            tf.train.Server({"ps": [address]}, "ps", 0)
