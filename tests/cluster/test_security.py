"""The door of a server: who is let in, what they may touch, how much they get.

In each test somebody is refused, and a step of somebody else is trained before and after.
"""

import datetime
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.cli import main
from millrace.core import errors
from millrace.ops.frames import Merge, Switch
from millrace.ops.queue_kernels import QueueDequeueV2
from millrace.rpc import message, messages
from millrace.rpc.certificates import LOOPBACK_HOSTS, Authority
from millrace.rpc.security import (
    INSECURE,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    TOKEN,
    Security,
    is_loopback,
)
from millrace.rpc.service import Connection

GOOD_TOKEN = "a-token-that-nobody-guesses"
SECONDS = 60.0


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def keys(authority: Authority, **options: Any) -> Security:
    """What a holder of a certificate has."""
    certificate, key = authority.issue("somebody", LOOPBACK_HOSTS, **options)
    return Security(authority.certificate, certificate, key)


@pytest.fixture
def use(monkeypatch: Any, tmp_path: Path) -> Callable[[Security], None]:
    """Lets servers and clients of this process take these keys from the environment."""

    def set_variables(security: Security) -> None:
        for variable in (TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN):
            monkeypatch.delenv(variable, raising=False)
        parts = {
            TLS_CA: security.authority,
            TLS_CERTIFICATE: security.certificate,
            TLS_KEY: security.key,
        }
        for variable, content in parts.items():
            if content:
                path = tmp_path / variable
                path.write_bytes(content)
                monkeypatch.setenv(variable, str(path))
        if security.token:
            monkeypatch.setenv(TOKEN, security.token)

    return set_variables


class Trainer:
    """A client in the process of worker 0 that trains a weight on the ps: the bystander."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                weight = tf.Variable(0.0, name="bystander")
            with tf.device("/job:worker/task:0"):
                gradient = tf.constant(1.0) + 0.0 * weight
            self._train = tf.assign_add(weight, gradient)
            self._session = tf.Session(cluster.target("worker", 0))
            self._session.run(weight.initializer)
        self._steps = 0

    def step(self) -> None:
        """Trains a step; nobody has disturbed the weight."""
        self._steps += 1
        assert self._session.run(self._train) == self._steps

    def close(self) -> None:
        self._session.close()


@pytest.fixture
def make_job(make_cluster: Any, use: Any) -> Iterator[Callable[..., tuple[Any, Trainer]]]:
    """Starts 1 ps and 1 worker with keys, and the bystander; who is well afterwards."""
    trainers: list[Trainer] = []

    def make(security: Security | None = None, way: str = "socket") -> tuple[Any, Trainer]:
        use(security or Security())
        cluster = make_cluster({"ps": 1, "worker": 1}, way)
        trainers.append(Trainer(cluster))
        trainers[-1].step()
        return cluster, trainers[-1]

    yield make
    for trainer in trainers:
        trainer.step()
        trainer.close()


def address(cluster: Any, job: str = "ps") -> str:
    return cluster.target(job, 0, remote=True).removeprefix("grpc://")


def run_remotely(cluster: Any, fetch: Any, job: str = "ps") -> Any:
    """Runs a step as a client that is not in the server's process."""
    with tf.Session(cluster.target(job, 0, remote=True)) as session:
        return session.run(fetch)


# -- Which addresses -----------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["grpc", "grpc+fast"])
def test_a_server_listens_at_its_own_address_only(protocol):
    server = tf.train.Server({"a": ["127.0.0.1:0"]}, protocol=protocol)
    try:
        ports = [int(server.target.rpartition(":")[2])]
        listener = server.peers._listener
        ports += [listener.port] if listener is not None else []
        for port in ports:
            socket.create_connection(("127.0.0.1", port), 5).close()
            with pytest.raises(OSError):  # who listened everywhere would answer here too
                socket.create_connection(("127.0.0.2", port), 5).close()
    finally:
        server.stop()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]"])
def test_loopback_needs_no_door(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "", "10.1.2.3", "no.such.host.invalid"])
def test_other_addresses_do(host):
    assert not is_loopback(host)


def test_a_server_that_others_reach_refuses_to_start_and_says_how_to():
    with pytest.raises(errors.FailedPreconditionError) as refused:
        tf.train.Server({"a": ["0.0.0.0:0"]})
    for word in (TLS_CA, TLS_CERTIFICATE, TLS_KEY, "MILLRACE_TOKEN_FILE", INSECURE, "0.0.0.0:0"):
        assert word in str(refused.value)


def test_the_command_line_refuses_too(capsys):
    cluster = json.dumps({"a": ["0.0.0.0:0"]})
    assert main.main(["server", "--cluster", cluster]) == 1
    assert "will not start" in capsys.readouterr().err


def test_it_starts_with_certificates_a_token_or_an_explicit_word(authority):
    for security in (keys(authority), Security(token=GOOD_TOKEN), Security(insecure=True)):
        tf.train.Server({"a": ["0.0.0.0:0"]}, security=security).stop()


def test_half_of_the_keys_is_refused(monkeypatch):
    monkeypatch.setenv(TLS_CA, __file__)
    with pytest.raises(ValueError, match="three files"):
        tf.train.Server({"a": ["localhost:0"]})


def test_more_connections_than_a_server_takes_are_closed(monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_CONNECTIONS", "3")
    server = tf.train.Server({"a": ["127.0.0.1:0"]})
    connections = [Connection(server.target.removeprefix("grpc://")) for _ in range(4)]
    try:
        for connection in connections[:3]:
            connection.status(SECONDS)
        with pytest.raises(errors.UnavailableError, match="MILLRACE_MAX_CONNECTIONS"):
            connections[3].status(SECONDS)
        connections[0].status(SECONDS)
    finally:
        for connection in connections:
            connection.close()
        server.stop()


@pytest.mark.parametrize("token", ["short", "sixteen characters with spaces", "ä" * 20])
def test_a_token_that_could_be_guessed_or_cannot_be_sent_is_refused(token):
    with pytest.raises(ValueError, match="A token has") as refused:
        Security(token=token)
    assert token not in str(refused.value)


def test_keys_are_not_shown(authority):
    shown = repr(keys(authority)) + repr(Security(token=GOOD_TOKEN))
    assert "PRIVATE" not in shown and GOOD_TOKEN not in shown


# -- Both planes with a door ---------------------------------------------------------------


@pytest.mark.parametrize("way", ["socket", "grpc"])
@pytest.mark.parametrize("kind", ["tls", "token", "both"])
def test_those_who_have_the_keys_train(make_job, authority, kind, way):
    certified = keys(authority)
    token = GOOD_TOKEN if kind != "tls" else ""
    security = Security(token=token)
    if kind != "token":
        security = Security(certified.authority, certified.certificate, certified.key, token)
    cluster, trainer = make_job(security, way)
    for _ in range(3):
        trainer.step()
    assert run_remotely(cluster, tf.constant(7.0) * 2) == 14
    with tf.device("/job:worker/task:0"):
        large = tf.ones([1000, 1000]) * 3  # many records of TLS's
    with tf.device("/job:ps/task:0"):
        assert run_remotely(cluster, tf.reduce_sum(large)) == 3e6


def test_a_task_that_is_gone_and_back_is_found_behind_its_door(make_cluster, use, authority):
    use(keys(authority))
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    with tf.device("/job:ps/task:0"):
        fetch = tf.Variable(3.0)
    with tf.device("/job:worker/task:0"):
        doubled = fetch * 2
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(fetch.initializer)
        assert session.run(doubled) == 6
        cluster["ps", 0].stop()
        with pytest.raises((errors.UnavailableError, errors.AbortedError)):
            session.run(doubled)
    cluster.start("ps", 0)
    with tf.Session(cluster.target("worker", 0)) as session:
        session.run(fetch.initializer)
        assert session.run(doubled) == 6


def test_the_data_plane_speaks_tls_only(make_job, authority):
    cluster, _ = make_job(keys(authority))
    port = cluster["ps", 0].peers._listener.port
    with socket.create_connection(("127.0.0.1", port), SECONDS) as plain:
        plain.sendall(b"t" * 32)
        assert _is_closed(plain)
    with socket.create_connection(("127.0.0.1", port), SECONDS) as raw:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(OSError):  # It wants to see a certificate.
            with context.wrap_socket(raw) as stranger:
                stranger.sendall(b"t" * 32)
                assert stranger.recv(1), "closed"
            raise ConnectionError("closed")


def _is_closed(connection: socket.socket) -> bool:
    connection.settimeout(SECONDS)
    try:
        while data := connection.recv(4096):
            assert data  # an alert
    except ConnectionError:
        pass
    return True


def test_a_ticket_is_no_use_to_one_who_does_not_know_the_token(make_job):
    cluster, _ = make_job(Security(token=GOOD_TOKEN))
    peers = cluster["ps", 0].peers
    connection = Connection(address(cluster), Security(token=GOOD_TOKEN))
    greeting = {"task": "/job:x", "address": "x:1", "incarnation": 1, "protocol": "grpc+fast"}
    answer = json.loads(connection.meet(json.dumps(greeting).encode(), SECONDS))
    connection.close()
    with socket.create_connection(("127.0.0.1", answer["fast_port"]), SECONDS) as stranger:
        stranger.sendall(bytes.fromhex(answer["ticket"]))
        assert _is_closed(stranger)
    assert not peers.has_channel("x:1")


# -- Those who have not --------------------------------------------------------------------


def _other_authority(authority: Authority) -> Security:
    return keys(Authority())


def _certificate_of_another_authority(authority: Authority) -> Security:
    theirs = keys(Authority())
    return Security(authority.certificate, theirs.certificate, theirs.key)


def _expired(authority: Authority) -> Security:
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    return keys(authority, valid=(now - 2 * hour, now - hour))


def _nothing(authority: Authority) -> Security:
    return Security()


REFUSED_BY_TLS = {
    "does not trust the server": (_other_authority, "certificate that this side does not accept"),
    "is not trusted": (_certificate_of_another_authority, "does not accept this side's"),
    "has an expired certificate": (_expired, "certificate expired"),
    "does not speak TLS": (_nothing, f"set {TLS_CA}"),
}


@pytest.mark.parametrize("who", REFUSED_BY_TLS)
def test_a_client_without_the_right_certificate_is_refused(make_job, authority, use, who):
    make, told = REFUSED_BY_TLS[who]
    cluster, trainer = make_job(keys(authority))
    use(make(authority))
    with pytest.raises(errors.UnauthenticatedError, match=told):
        tf.Session(cluster.target("ps", 0, remote=True))
    trainer.step()


def test_a_server_with_an_expired_certificate_is_not_trusted(authority, use):
    server = tf.train.Server({"a": ["127.0.0.1:0"]}, security=_expired(authority))
    use(keys(authority))
    connection = Connection(server.target.removeprefix("grpc://"))
    try:
        with pytest.raises(errors.UnauthenticatedError, match="has expired"):
            connection.status(SECONDS)
    finally:
        connection.close()
        server.stop()


def test_a_client_with_tls_at_a_server_without_is_told_so(make_job, authority, use):
    cluster, _ = make_job()
    use(keys(authority))
    with pytest.raises(errors.UnauthenticatedError, match="does not speak TLS"):
        tf.Session(cluster.target("ps", 0, remote=True))


@pytest.mark.parametrize("token", ["", GOOD_TOKEN[:-1] + "x", GOOD_TOKEN + "x"])
def test_a_client_without_the_token_is_refused(make_job, use, token):
    cluster, trainer = make_job(Security(token=GOOD_TOKEN))
    use(Security(token=token))
    with pytest.raises(errors.UnauthenticatedError, match="asks for a token") as refused:
        tf.Session(cluster.target("ps", 0, remote=True))
    assert GOOD_TOKEN not in str(refused.value)
    trainer.step()


@pytest.mark.parametrize("call", ["stop", "reset", "status", "meet", "register"])
def test_nothing_is_done_for_one_who_has_no_token(make_job, call):
    cluster, _ = make_job(Security(token=GOOD_TOKEN))
    connection = Connection(address(cluster), Security())
    calls: dict[str, Callable[[], Any]] = {
        "stop": lambda: connection.stop_server(SECONDS),
        "reset": lambda: connection.master().reset(messages.ResetRequest(), SECONDS),
        "status": lambda: connection.status(SECONDS),
        "meet": lambda: connection.meet(b"{}", SECONDS),
        "register": lambda: connection.register(b"{}", SECONDS),
    }
    with pytest.raises(errors.UnauthenticatedError):
        calls[call]()
    connection.close()


def test_a_task_of_another_job_is_not_waited_for(make_job, authority):
    """Its certificate is valid, for another job: a session says so instead of waiting."""
    cluster, trainer = make_job(keys(authority))
    here, there = keys(Authority()), address(cluster)
    with tf.Graph().as_default():
        spec = {"a": ["127.0.0.1:0"], "b": [there]}
        server = tf.train.Server(spec, "a", 0, security=here)
        try:
            with pytest.raises(errors.UnauthenticatedError, match=there):
                tf.Session(server.target)
        finally:
            server.stop()
    trainer.step()


# -- Command line --------------------------------------------------------------------------


def test_status_and_stop_take_their_keys_from_flags(make_job, authority, use, tmp_path, capsys):
    cluster, _ = make_job(keys(authority))
    mine = keys(authority)
    use(Security())
    target = f"grpc://{address(cluster)}"
    assert main.main(["status", target]) == 1
    assert "speaks TLS" in capsys.readouterr().err
    assert main.main(["stop", "--only", target]) == 1
    flags = []
    for flag, content in (
        ("--tls-ca", mine.authority),
        ("--tls-certificate", mine.certificate),
        ("--tls-key", mine.key),
    ):
        path = tmp_path / flag.strip("-")
        path.write_bytes(content)
        flags += [flag, str(path)]
    assert main.main(["status", *flags, "--json", target]) == 0
    assert '"sessions"' in capsys.readouterr().out


# -- Files and Python ----------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: Any) -> tuple[Path, Path]:
    """A folder that clients may touch, and one that they may not."""
    inside, outside = tmp_path / "job", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "data").write_bytes(b"data\n")
    (outside / "secret").write_bytes(b"secret\n")
    (inside / "link").symlink_to(outside)
    monkeypatch.setenv("MILLRACE_ALLOWED_FOLDERS", str(inside))
    return inside, outside


def ways_out(inside: Path, outside: Path) -> list[str]:
    return [
        str(outside / "secret"),
        f"{inside}/../outside/secret",
        f"{inside}/link/secret",
        f"file://{outside}/secret",
        f"local://{outside}/secret",
        f"{inside}2/secret",
        f"/proc/self/root{outside}/secret",
        "memory://secret",
    ]


def test_files_outside_of_the_jobs_folders_are_out_of_reach(make_job, folders):
    inside, outside = folders
    cluster, trainer = make_job()
    assert run_remotely(cluster, tf.read_file(str(inside / "data"))) == b"data\n"
    name = tf.placeholder(tf.string, [])
    read, write = tf.read_file(name), tf.write_file(name, "overwritten")
    with tf.Session(cluster.target("ps", 0, remote=True)) as session:
        for path in ways_out(inside, outside):
            for op in (read, write):
                with pytest.raises(errors.PermissionDeniedError, match="MILLRACE_ALLOWED_FOLDERS"):
                    session.run(op, {name: path})
    assert (outside / "secret").read_bytes() == b"secret\n"
    trainer.step()


def _matching(path: str) -> Any:
    return tf.matching_files(f"{path}*")


def _reader(path: str) -> Any:
    queue = tf.FIFOQueue(10, tf.string)
    with tf.control_dependencies([queue.enqueue(path)]):
        return tf.WholeFileReader().read(queue).value


def _waiting_reader(path: str) -> Any:
    """The file's name arrives while the read waits for it."""
    queue = tf.FIFOQueue(10, tf.string)
    return tf.group(tf.WholeFileReader().read(queue).value, queue.enqueue(path))


def _branch_that_waits(path: str) -> Any:
    """It is interpreted, in a thread of its own."""
    queue = tf.FIFOQueue(10, tf.string)
    chosen = tf.equal(queue.size(), queue.size())
    no, _ = Switch(tf.constant("", tf.string), chosen)
    _, handle = Switch(queue.queue_ref, chosen)
    name = QueueDequeueV2(handle, component_types=[tf.string])[0]
    read = Merge([no, tf.read_file(tf.reshape(name, []))])[0]
    return tf.group(read, queue.enqueue(path))


def _table(path: str) -> Any:
    initializer = tf.lookup.TextFileInitializer(
        path,
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    return tf.lookup.StaticHashTable(initializer, -1).initializer


def _print(path: str) -> Any:
    return tf.print("overwritten", output_stream=f"file://{path}")


def _restore(path: str) -> Any:
    return tf.raw_ops.RestoreV2(
        prefix=path, tensor_names=["x"], shape_and_slices=[""], dtypes=[tf.float32]
    )


def _save(path: str) -> Any:
    return tf.raw_ops.SaveV2(
        prefix=path, tensor_names=["x"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
    )


def _merge(path: str) -> Any:
    return tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[path], destination_prefix=path)


@pytest.mark.parametrize(
    "op",
    [
        _matching,
        _reader,
        _waiting_reader,
        _branch_that_waits,
        _table,
        _print,
        _restore,
        _save,
        _merge,
    ],
)
def test_no_op_touches_what_is_outside(make_job, folders, op):
    inside, outside = folders
    cluster, _ = make_job()
    before = sorted(p.name for p in outside.iterdir())
    with tf.device("/job:ps/task:0"):
        asked = op(f"{inside}/../outside/secret")
    for job in ("ps", "worker"):
        with pytest.raises(errors.PermissionDeniedError):
            run_remotely(cluster, asked, job)
    assert sorted(p.name for p in outside.iterdir()) == before
    assert (outside / "secret").read_bytes() == b"secret\n"


def test_a_checkpoint_goes_to_the_jobs_folder_and_to_no_other(make_job, folders):
    inside, outside = folders
    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        tf.Variable([1.0, 2.0], name="saved")
    saver = tf.train.Saver()
    with tf.Session(cluster.target("worker", 0, remote=True)) as session:
        session.run(tf.global_variables_initializer())
        assert saver.save(session, str(inside / "model")) == str(inside / "model")
        for path in (f"{inside}/../outside/model", f"{inside}/link/model"):
            with pytest.raises(errors.PermissionDeniedError):
                saver.save(session, path)
        saver.restore(session, str(inside / "model"))
    assert [p.name for p in outside.iterdir()] == ["secret"]
    trainer.step()


def test_a_client_of_the_servers_process_may_do_what_the_process_may(make_job, folders):
    _, outside = folders
    cluster, _ = make_job()
    with tf.Session(cluster.target("ps", 0)) as session:
        assert session.run(tf.read_file(str(outside / "secret"))) == b"secret\n"


def test_on_loopback_nothing_need_be_named(make_job, tmp_path):
    cluster, _ = make_job()
    run_remotely(cluster, tf.write_file(str(tmp_path / "new"), "content"))
    assert (tmp_path / "new").read_text() == "content"


def test_where_others_reach_it_a_server_allows_what_it_names(tmp_path, authority, use):
    use(keys(authority))
    (tmp_path / "job").mkdir()
    server = tf.train.Server({"a": ["0.0.0.0:0"]}, allowed_folders=[str(tmp_path / "job")])
    target = server.target.replace("0.0.0.0", "127.0.0.1")
    try:
        with tf.Session(target) as session:
            session.run(tf.write_file(str(tmp_path / "job/new"), "content"))
            with pytest.raises(errors.PermissionDeniedError, match=str(tmp_path / "job")):
                session.run(tf.write_file(str(tmp_path / "new"), "content"))
    finally:
        server.stop()
    assert os.listdir(tmp_path / "job") == ["new"] and not (tmp_path / "new").exists()


def test_a_server_runs_no_python_for_clients_elsewhere(make_job):
    called: list[Any] = []

    def function(value: Any) -> Any:
        called.append(value)
        return value

    cluster, trainer = make_job()
    with tf.device("/job:ps/task:0"):
        result = tf.py_func(function, [1.0], tf.float32)
        hidden = tf.cond(tf.random_uniform([]) < 2, lambda: result * 2, lambda: result)
    for fetch in (result, hidden):
        with pytest.raises(errors.PermissionDeniedError, match="PyFunc.*Python function"):
            run_remotely(cluster, fetch)
        with pytest.raises(errors.PermissionDeniedError, match="PyFunc.*Python function"):
            run_remotely(cluster, fetch, "worker")
    assert not called
    with tf.Session(cluster.target("ps", 0)) as session:  # in its process it may
        assert session.run(result) == 1 and called == [1]
    trainer.step()


# -- Limits --------------------------------------------------------------------------------


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
                errors.ResourceExhaustedError, match="MILLRACE_MAX_MEMORY_BYTES"
            ) as refused:
                session.run(fetch)
            assert ("initial" if name == "variable" else name) in str(refused.value)
            trainer.step()


def test_few_bytes_that_stand_for_100_terabytes_are_refused(make_job):
    cluster, _ = make_job()
    connection = Connection(address(cluster), Security())
    request = messages.CreateSessionRequest()
    node = request.graph_def.node.add(name="huge", op="Const")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    tensor = node.attr["value"].tensor
    tensor.dtype = tf.float32.as_datatype_enum
    tensor.float_val.append(1.0)
    tensor.tensor_shape.dim.add(size=25_000_000_000_000)
    with pytest.raises(errors.ResourceExhaustedError, match="huge"):
        connection.master().create_session(request, SECONDS)
    connection.close()


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
    restarted = Trainer(cluster)  # The ps has the worker's own session beside its guests'.
    restarted.step()
    restarted.close()
    for session in sessions:
        session.close()


def test_who_speaks_with_a_worker_service_has_limits_too(make_job, monkeypatch):
    cluster, trainer = make_job()
    connection = Connection(address(cluster), Security())
    worker = connection.worker()

    def create(handle: str) -> None:
        request = messages.CreateWorkerSessionRequest(session_handle=handle)
        worker.create_worker_session(request, SECONDS)

    try:
        monkeypatch.setenv("MILLRACE_MAX_SESSIONS_PER_CLIENT", "5")
        for i in range(5):
            create(str(i))
        with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_SESSIONS_PER_CLIENT"):
            create("one too many")
        trainer.step()
        graph = messages.RegisterGraphRequest(session_handle="0")
        for i in range(101):
            graph.graph_def.node.add(name=f"n{i}", op="NoOp")
        monkeypatch.setenv("MILLRACE_MAX_GRAPH_NODES", "100")
        with pytest.raises(errors.ResourceExhaustedError, match="MILLRACE_MAX_GRAPH_NODES"):
            worker.register_graph(graph, SECONDS)
        trainer.step()
        for i in range(5):
            request = messages.DeleteWorkerSessionRequest(session_handle=str(i))
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


def _unfinished_request(port: int, method: str) -> socket.socket:
    """A connection with a call of which the request never ends, in HTTP/2's own bytes."""

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        size = len(payload).to_bytes(3, "big")
        return size + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":authority": "localhost",
        ":path": method,
        "te": "trailers",
        "content-type": "application/grpc",
    }
    block = b"".join(
        bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in headers.items()
    )
    settings, begun = frame(4, 0, 0, b""), frame(1, 4, 1, block)  # 4: the headers end here
    part = frame(0, 0, 1, b"\0" + (1 << 20).to_bytes(4, "big") + b"some of it")
    connection = socket.create_connection(("127.0.0.1", port), SECONDS)
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings + begun + part)
    return connection


def _step_threads() -> int:
    return sum(thread.name == "millrace step" for thread in threading.enumerate())


@pytest.mark.parametrize("token", ["", GOOD_TOKEN])
def test_clients_that_never_finish_their_request_keep_nobody_waiting(make_job, token, until):
    cluster, trainer = make_job(Security(token=token))
    port = int(address(cluster).rpartition(":")[2])
    before = _step_threads()
    slow = [_unfinished_request(port, "/tensorflow.MasterService/RunStep") for _ in range(100)]
    try:
        if not token:
            until(lambda: _step_threads() >= before + 50)  # They wait, each by itself.
        for _ in range(3):
            trainer.step()
        assert run_remotely(cluster, tf.constant(3.0) * 2) == 6
        if token:  # They have none, and are not waited for.
            assert _step_threads() < before + 50
    finally:
        for connection in slow:
            connection.close()


def test_a_message_may_be_so_large_and_no_larger(make_job, monkeypatch):
    monkeypatch.setenv("MILLRACE_MAX_MESSAGE_BYTES", "1M")
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
def test_between_tasks_a_message_may_be_so_large_and_no_larger(make_job, monkeypatch, way):
    monkeypatch.setenv("MILLRACE_MAX_MESSAGE_BYTES", "1M")
    message.max_block_bytes.cache_clear()
    try:
        cluster, trainer = make_job(way=way)
        with tf.device("/job:worker/task:0"):
            count = tf.placeholder(tf.int32, [])
            value = tf.random_uniform([count], 1, 2)
        with tf.device("/job:ps/task:0"):
            total = tf.reduce_sum(value)
        for job in ("worker", "ps"):  # sent by the master, and to it
            with tf.Session(cluster.target(job, 0, remote=True)) as session:
                assert session.run(total, {count: 10}) >= 10
                with pytest.raises(
                    errors.ResourceExhaustedError, match="MILLRACE_MAX_MESSAGE_BYTES"
                ):
                    session.run(total, {count: 1_000_000})
                trainer.step()
                assert session.run(total, {count: 10}) >= 10
    finally:
        message.max_block_bytes.cache_clear()


def test_a_thousand_half_open_connections_keep_nobody_out(make_job, authority, monkeypatch, until):
    monkeypatch.setenv("MILLRACE_HANDSHAKE_SECONDS", "8")
    cluster, trainer = make_job(keys(authority))
    listener = cluster["ps", 0].peers._listener
    ports = [int(address(cluster).rpartition(":")[2]), listener.port]
    silent = [
        socket.create_connection(("127.0.0.1", port), SECONDS) for _ in range(500) for port in ports
    ]
    try:
        assert listener.guests <= 256
        trainer.step()
        assert run_remotely(cluster, tf.constant(3.0) * 2) == 6
        trainer.step()
        until(lambda: not listener.guests)
        for connection in silent:
            assert _is_closed(connection)
    finally:
        for connection in silent:
            connection.close()
