"""Bad input: tens of thousands of seeded requests that no client of good will would send.

Each gets an error status (or an answer, where it happens to be right). None crashes the server,
keeps memory, or disturbs the training of others, which goes on meanwhile and after.
"""

import json
import os
import random
import socket
import threading
import time

import grpc
import numpy as np
import pytest

import millrace as tf
from millrace.rpc import service_messages
from millrace.rpc.message import Kind, Message, encode
from millrace.rpc.service import MASTER, PEER, WORKER

REQUESTS = 20_000
#: These do what they are asked to, for everybody; only bytes that are no message are sent.
DESTRUCTIVE = {"Reset", "CleanupAll"}
#: What becomes of a graph that is malformed or too large.
REFUSALS = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
MALFORMED = b"\x0f\xff"
METHODS = [
    *((f"/{MASTER}/{name}", types[0]) for name, types in service_messages.MASTER_METHODS.items()),
    *((f"/{WORKER}/{name}", types[0]) for name, types in service_messages.WORKER_METHODS.items()),
]
ERRORS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,  # what waits for a value that never comes
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.OUT_OF_RANGE,
}


def memory() -> int:
    """Resident bytes of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Fuzzer:
    """Makes requests from a seed."""

    def __init__(self, seed: int, address: str) -> None:
        self.draw = random.Random(seed)
        self.channel = grpc.insecure_channel(
            address,
            options=[("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        )
        self.calls = {path: self.channel.unary_unary(path) for path, _ in METHODS}
        self.statuses: dict[str, int] = {}

    def send(self, path: str, data: bytes) -> bytes | None:
        if path.rpartition("/")[2] in DESTRUCTIVE:
            data = MALFORMED + data
        try:
            answer = self.calls[path](data, timeout=0.02 if "RecvTensor" in path else 60)
        except grpc.RpcError as error:
            code = error.code()
            assert code in ERRORS, (path, code, error.details())
            self.statuses[code.name] = self.statuses.get(code.name, 0) + 1
            return None
        self.statuses["OK"] = self.statuses.get("OK", 0) + 1
        if path.endswith("/CreateSession"):
            handle = service_messages.CreateSessionResponse.FromString(answer).session_handle
            request = service_messages.CloseSessionRequest(session_handle=handle)
            self.calls[f"/{MASTER}/CloseSession"](request.SerializeToString(), timeout=60)
        return answer

    def bytes(self, most: int = 200) -> bytes:
        return self.draw.randbytes(self.draw.randrange(most))

    def text(self) -> str:
        return "".join(self.draw.choice("abc:/^@0-9é\0") for _ in range(self.draw.randrange(20)))

    def fill(self, message, depth: int = 0):
        """Sets some fields of a message to values of their types."""
        for field in message.DESCRIPTOR.fields:
            if self.draw.random() < 0.5 or depth > 3:
                continue
            repeated = field.is_repeated if hasattr(field, "is_repeated") else field.label == 3
            if field.message_type is not None:
                if field.message_type.GetOptions().map_entry:
                    continue
                target = getattr(message, field.name)
                self.fill(target.add() if repeated else target, depth + 1)
                continue
            value = self.value(field)
            if value is None:
                continue
            if repeated:
                getattr(message, field.name).append(value)
            else:
                setattr(message, field.name, value)
        return message

    def value(self, field):
        draw = self.draw
        if field.cpp_type == field.CPPTYPE_STRING:
            return self.bytes(20) if field.type == field.TYPE_BYTES else self.text()
        if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
            return draw.uniform(-1e30, 1e30)
        if field.cpp_type == field.CPPTYPE_BOOL:
            return draw.random() < 0.5
        if field.cpp_type == field.CPPTYPE_ENUM:
            return draw.choice([v.number for v in field.enum_type.values])
        small = draw.choice([0, 1, 2, 7, 1 << 20])
        if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
            return draw.choice([small, -1, (1 << 31) - 1])
        return small

    def one(self) -> None:
        path, request = self.draw.choice(METHODS)
        kind = self.draw.randrange(3)
        if kind == 0:
            self.send(path, self.bytes())
            return
        message = self.fill(request())
        if hasattr(message, "config"):
            message.ClearField("config")  # It may ask for tasks that have to be waited for.
        data = message.SerializeToString()
        if kind == 2 and data:
            damaged = bytearray(data)
            for _ in range(self.draw.randint(1, 3)):
                damaged[self.draw.randrange(len(damaged))] = self.draw.randrange(256)
            data = bytes(damaged)
            if path.endswith("/CreateSession"):
                try:
                    if request.FromString(data).HasField("config"):
                        return
                except Exception:
                    pass
        self.send(path, data)


@pytest.fixture
def trained(make_cluster):
    """A cluster on which clients train, and (cluster, how many steps they have made)."""
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            w = tf.Variable(np.zeros(50, np.float32))
        with tf.device("/job:worker/task:0"):
            loss = tf.reduce_sum(tf.square(w - 1.0))
        train = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
    steps, failures, end = [0], [], threading.Event()
    sessions = [tf.Session(cluster.target("worker", remote=r), graph=graph) for r in (False, True)]
    sessions[0].run(w.initializer)

    def work(sess):
        try:
            while not end.is_set():
                before = sess.run([train, loss])[1]
                assert np.isfinite(before)
                steps[0] += 1
                time.sleep(0.01)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(s,)) for s in sessions]
    for thread in threads:
        thread.start()
    yield cluster, steps
    end.set()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert sessions[0].run(loss) < 50
    for sess in sessions:
        sess.close()


def test_requests_of_no_sense_get_an_error_and_disturb_nobody(trained):
    cluster, steps = trained
    addresses = [s.target.removeprefix("grpc://") for s in cluster.servers.values()]
    fuzzers = [Fuzzer(seed, addresses[seed % 2]) for seed in range(2)]
    for fuzzer in fuzzers:
        for _ in range(300):
            fuzzer.one()
    before_memory, before_steps = memory(), steps[0]
    failures = []

    def work(fuzzer):
        try:
            for _ in range(REQUESTS // 2):
                fuzzer.one()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f,)) for f in fuzzers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert steps[0] > before_steps + 10
    assert memory() - before_memory < 100 << 20
    for server in cluster.servers.values():
        assert len(server._master.sessions) <= 2
        assert len(server.worker.sessions.by_handle) <= 1100
        assert len(server.worker.sessions.graphs) < 50
    for fuzzer in fuzzers:
        assert fuzzer.statuses["INVALID_ARGUMENT"] + fuzzer.statuses["ABORTED"] > 1000
        fuzzer.channel.close()


def node(definition, name, op, inputs=(), **attrs):
    made = definition.node.add(name=name, op=op, input=list(inputs))
    for key, value in attrs.items():
        made.attr[key].CopyFrom(value)


FLOAT = tf.AttrValue(type=tf.float32.as_datatype_enum)


def bad_graphs():
    unknown = tf.GraphDef()
    node(unknown, "a", "NoSuchOp")
    cycle = tf.GraphDef()
    node(cycle, "a", "Neg", ["b"], T=FLOAT)
    node(cycle, "b", "Neg", ["a"], T=FLOAT)
    missing = tf.GraphDef()
    node(missing, "a", "Neg", ["nobody"], T=FLOAT)
    twice = tf.GraphDef()
    node(twice, "a", "NoOp")
    node(twice, "a", "NoOp")
    name = tf.GraphDef()
    node(name, "a b", "NoOp")
    types = tf.GraphDef()
    node(types, "a", "Placeholder", dtype=tf.AttrValue(type=9999))
    long = tf.GraphDef()
    node(long, "x" * 10_000_000, "NoSuchOp")
    deep = tf.GraphDef()
    node(deep, "a", "Neg", ["^a"], T=FLOAT)
    return {
        "unknown op": unknown,
        "cycle": cycle,
        "missing input": missing,
        "a name twice": twice,
        "bad name": name,
        "bad type": types,
        "10 MB of names": long,
        "waits for itself": deep,
    }


@pytest.mark.parametrize("kind", bad_graphs())
def test_a_bad_graph_is_refused_and_nothing_is_kept(trained, kind):
    cluster, _ = trained
    server = cluster["worker", 0]
    with grpc.insecure_channel(
        server.target.removeprefix("grpc://"), options=[("grpc.max_send_message_length", -1)]
    ) as channel:
        create = channel.unary_unary(f"/{MASTER}/CreateSession")
        request = service_messages.CreateSessionRequest(graph_def=bad_graphs()[kind])
        before = len(server._master.sessions)
        with pytest.raises(grpc.RpcError) as caught:
            create(request.SerializeToString(), timeout=60)
        assert caught.value.code() in REFUSALS
        assert len(caught.value.details()) < 10_000
        register = channel.unary_unary(f"/{WORKER}/RegisterGraph")
        with pytest.raises(grpc.RpcError):
            register(
                service_messages.RegisterGraphRequest(
                    session_handle=next(iter(server.worker.sessions.by_handle)),
                    graph_def=bad_graphs()[kind],
                ).SerializeToString(),
                timeout=60,
            )
        assert len(server._master.sessions) == before


def test_absurd_shapes_and_endless_names_fail_alone(trained):
    cluster, _ = trained
    with tf.Graph().as_default(), tf.Session(cluster.target("worker", remote=True)) as sess:
        size = tf.placeholder(tf.int32, [2])
        with tf.device("/job:ps/task:0"):
            huge = tf.reduce_sum(tf.fill(size, 1.0) * 2.0)
        with pytest.raises(tf.errors.OpError):
            sess.run(huge, {size: [2_000_000_000, 2_000_000_000]})
        with pytest.raises(tf.errors.OpError):
            sess.run(huge, {size: [-1, 5]})
        assert sess.run(huge, {size: [2, 3]}) == 12.0
        with pytest.raises(tf.errors.OpError) as caught:
            sess._backend._run_step(
                service_messages.RunStepRequest(
                    session_handle=sess._backend._handle, fetch=["y" * 10_000_000]
                )
            )
        assert len(caught.value.message) < 10_000
        with pytest.raises(tf.errors.AbortedError) as caught:
            sess._backend._master.run_step(
                service_messages.RunStepRequest(session_handle="z" * 10_000_000)
            )
        assert len(caught.value.message) < 10_000


def test_the_peer_service_and_the_fast_socket_shrug_off_noise(trained):
    cluster, steps = trained
    server = cluster["ps", 0]
    draw = random.Random(3)
    address = server.target.removeprefix("grpc://")
    before = memory(), steps[0]
    with grpc.insecure_channel(address) as channel:
        meet = channel.unary_unary(f"/{PEER}/Meet")
        exchange = channel.stream_stream(f"/{PEER}/Exchange")
        greetings = [
            b"", b"{}", b"[" * 10_000, b"null", b'{"task": 1}', b"x" * 100_000,
            b'{"task": "a", "address": "b", "incarnation": 1e999}',
        ]  # fmt: skip
        for i in range(1500):
            greeting = draw.choice([*greetings, draw.randbytes(draw.randrange(100))])
            with pytest.raises(grpc.RpcError) as caught:
                meet(greeting, timeout=60)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            if i % 10 == 0:
                with pytest.raises(grpc.RpcError) as caught:
                    list(exchange(iter([draw.randbytes(32), b"more"]), timeout=60))
                assert caught.value.code() in (
                    grpc.StatusCode.UNAUTHENTICATED,
                    grpc.StatusCode.CANCELLED,
                )
        # With a ticket, but then not with messages; or with messages about nothing.
        good = [
            b"".join(
                bytes(p) for p in encode(Message(kind, draw.getrandbits(62), 5, b"x", [np.ones(3)]))
            )
            for kind in (Kind.RUN, Kind.TENSORS, Kind.DONE, Kind.CANCEL, Kind.PING)
        ]
        for i in range(400):
            me = {
                "task": "/job:evil",
                "address": f"nowhere:{i % 7}",
                "incarnation": 5,
                "protocol": "grpc+fast",
            }
            answer = json.loads(meet(json.dumps(me).encode(), timeout=60))
            ticket = bytes.fromhex(answer["ticket"])
            data = draw.choice(good) * draw.randint(0, 3) + draw.randbytes(draw.randrange(200))
            if i % 4 == 0:
                damaged = bytearray(draw.choice(good))
                damaged[draw.randrange(len(damaged))] ^= 0xFF
                data = bytes(damaged) + bytes(200)
            with socket.create_connection(("localhost", answer["fast_port"]), timeout=60) as raw:
                raw.sendall(ticket + data)
        for _ in range(200):
            with socket.create_connection(
                ("localhost", server.peers._listener.port), timeout=60
            ) as raw:
                raw.sendall(draw.randbytes(draw.randrange(100)))
    deadline = time.monotonic() + 60
    while steps[0] < before[1] + 10 or any("nowhere" in c.address for c in server.peers._open):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert memory() - before[0] < 100 << 20
