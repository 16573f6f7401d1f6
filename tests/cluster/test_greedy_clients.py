"""A client that asks for many steps at once, and one that asks for one after the other.

The steps of the greedy one compute for as long as the test wants, on real servers and over real
connections; how many have begun is counted, and no time is measured. They compute on the task that
the client calls, or on a parameter server behind it.
"""

from __future__ import annotations

import threading
import types
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.ops.control_flow.frames import Merge, Switch
from millrace.ops.data_flow.queue_kernels import QueueDequeueV2
from millrace.ops.io import timestamp
from millrace.rpc import service, service_messages
from millrace.rpc.service import Connection
from millrace.runtime.allotments import Allotments
from millrace.runtime.stages import host
from millrace.server import worker as worker_module
from millrace.server.services import master_service

SECONDS = 60.0
#: How many steps of one client compute at a time, and how many the greedy one asks for.
SHARES, ASKED = 2, 24
LIMIT = "MILLRACE_MAX_COMPUTING_STEPS_PER_CLIENT"
PS = "/job:ps/task:0"


class Kernel:
    """What ``tf.timestamp`` does meanwhile: it computes until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        #: Of all servers.
        self.allotments: list[Allotments] = []
        self._lock = threading.Lock()
        self._gate = threading.Semaphore(0)

    def time(self) -> float:
        with self._lock:
            self.begun += 1
        assert self._gate.acquire(timeout=10 * SECONDS)  # Others may be let go before it.
        return 1.0

    def waiting(self) -> int:
        """How many steps wait for a share."""
        return sum(len(line) for each in self.allotments for line in list(each._waiting.values()))

    def finish(self, count: int = 1) -> None:
        self._gate.release(count)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(timestamp, "time", types.SimpleNamespace(time=made.time))
    monkeypatch.setenv(LIMIT, str(SHARES))

    def make(*args: Any) -> Allotments:
        made.allotments.append(Allotments(*args))
        return made.allotments[-1]

    monkeypatch.setattr(worker_module, "Allotments", make)
    return made


def ask(session: Any, background: Any, count: int = ASKED) -> list[Any]:
    computed = session.graph.get_tensor_by_name("Timestamp:0")
    return [background(lambda: session.run(computed)) for _ in range(count)]


def take_turns(honest: Any, kernel: Kernel, until: Any) -> None:
    """Every step of the greedy client's that ends lets one more begin, and no step of the other's
    waits for any of them."""
    train = honest.graph.get_tensor_by_name("train:0")
    until(lambda: kernel.begun == SHARES and kernel.waiting() == ASKED - SHARES)
    for step in range(ASKED):
        assert honest.run(train) == step + 1
        assert kernel.begun == min(SHARES + step, ASKED)
        kernel.finish()
        until(lambda n=step: kernel.begun == min(SHARES + n + 1, ASKED))


def graph() -> tf.Graph:
    with tf.Graph().as_default() as made, tf.device(PS):
        tf.timestamp()
        weight = tf.Variable(0.0, name="weight")
        tf.identity(tf.assign_add(weight, 1.0), name="train")
    return made


def in_a_branch_of_long_ago(queue: Any, then: Any = lambda: 0.0) -> Any:
    """An element of a queue and what is computed then, in a branch that has to be interpreted."""
    kind, chosen = queue.dtypes[0], tf.greater(queue.size(), -1)
    _, handle = Switch(queue.queue_ref, chosen)
    no, _ = Switch(tf.constant(0.0, kind), chosen)
    taken = QueueDequeueV2(handle, component_types=[kind])[0]
    with tf.control_dependencies([taken]):
        return Merge([no, tf.reshape(taken, []) + then()])[0]


def connect(target: str) -> Any:
    """The honest client, ready to train."""
    session = tf.Session(target, graph=graph())
    session.run("weight/Assign")
    return session


def test_a_client_with_many_steps_at_once_does_not_keep_another_waiting(
    make_cluster, kernel, background, until
):
    cluster = make_cluster({"ps": 1}, "socket")
    target = cluster.target("ps", remote=True)
    with tf.Session(target, graph=graph()) as greedy, connect(target) as honest:
        calls = ask(greedy, background)
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED


def test_nor_does_a_machine_with_many_sessions_each_with_one_step(
    make_cluster, kernel, background, until, monkeypatch
):
    cluster = make_cluster({"ps": 1}, "socket")
    target = cluster.target("ps", remote=True)
    others: list[str] = []
    connection = master_service.client

    def machine() -> str:
        others.append(connection())
        return "honest" if others[-1] == others[0] else "greedy"

    monkeypatch.setattr(master_service, "client", machine)
    with connect(target) as honest:
        sessions = [tf.Session(target, graph=graph()) for _ in range(ASKED)]
        calls = [background(lambda s=session: s.run("Timestamp:0")) for session in sessions]
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED
        for session in sessions:
            session.close()


# -- Behind the task that the client calls -------------------------------------------------


@pytest.mark.parametrize("way", ["socket", "grpc"])
@pytest.mark.parametrize("index", [0, 1], ids=["same master", "other master"])
def test_nor_does_one_whose_steps_compute_behind_the_task_that_it_calls(
    make_cluster, kernel, background, until, way, index
):
    cluster = make_cluster({"ps": 1, "worker": 2}, way)
    with (
        tf.Session(cluster.target("worker", 0, remote=True), graph=graph()) as greedy,
        connect(cluster.target("worker", index, remote=True)) as honest,
    ):
        calls = ask(greedy, background)
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED


@pytest.mark.parametrize("job", ["ps", "worker"])
def test_nor_one_whose_steps_compute_in_branches_that_have_waited(
    make_cluster, kernel, background, until, job
):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    target = cluster.target(job, remote=True)
    with tf.Graph().as_default() as made, tf.device(PS):
        queue = tf.FIFOQueue(ASKED, tf.float64, shapes=[[]], shared_name="tickets")
        fill = queue.enqueue_many([[0.0] * ASKED])
        slow = in_a_branch_of_long_ago(queue, tf.timestamp)
    with tf.Session(target, graph=made) as greedy, connect(target) as honest:
        calls = [background(lambda: greedy.run(slow)) for _ in range(ASKED)]
        until(lambda: len(cluster["ps", 0].worker.partitions.running) == ASKED)
        greedy.run(fill)
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED


@pytest.mark.parametrize("remote", [False, True], ids=["its process", "elsewhere"])
def test_nor_one_whose_parts_would_be_run_where_messages_of_its_master_are_read(
    make_cluster, kernel, background, until, monkeypatch, remote
):
    monkeypatch.setattr(host, "is_short", lambda node: True)
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    target = cluster.target("worker", remote=True)
    with (
        tf.Session(target, graph=graph()) as greedy,
        connect(cluster.target("worker", remote=remote)) as honest,
    ):
        kernel.finish()
        assert greedy.run("Timestamp:0") == 1.0  # From now on it is known to be quick.
        for fetch in ("train:0", "weight/Assign"):
            honest.run(fetch)
        kernel.begun = 0
        calls = ask(greedy, background)
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED


def test_nor_one_that_goes_through_several_masters(
    make_cluster, kernel, background, until, monkeypatch
):
    # Its machine is known to all of them by one address.
    monkeypatch.setattr(service, "is_loopback", lambda host: False)
    cluster = make_cluster({"ps": 1, "worker": 3}, "socket")
    targets = [cluster.target("worker", index, remote=True) for index in range(3)]
    with connect(cluster.target("worker", 2)) as honest:
        sessions = [tf.Session(target, graph=graph()) for target in targets]
        calls = [call for s in sessions for call in ask(s, background, ASKED // 3)]
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED
        for session in sessions:
            session.close()


def test_nor_a_trainer_with_many_threads_in_the_process_of_its_own_task(
    make_cluster, kernel, background, until
):
    cluster = make_cluster({"ps": 1, "worker": 2}, "socket")
    with (
        tf.Session(cluster.target("worker", 0), graph=graph()) as greedy,
        connect(cluster.target("worker", 1)) as honest,
    ):
        calls = ask(greedy, background)
        take_turns(honest, kernel, until)
        assert [call.result() for call in calls] == [1.0] * ASKED


@pytest.mark.parametrize("claim", ["", "localhost:1"], ids=["nobody", "a task"])
def test_nor_one_that_speaks_with_the_worker_service_itself(
    make_cluster, kernel, background, until, monkeypatch, claim
):
    monkeypatch.setattr(host, "is_short", lambda node: True)
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    connection = Connection(cluster["ps", 0].target.removeprefix("grpc://"))
    worker = connection.worker()
    worker.create_worker_session(
        service_messages.CreateWorkerSessionRequest(
            session_handle="s", master_task=claim, client=claim
        )
    )
    request = service_messages.RegisterGraphRequest(session_handle="s")
    request.graph_def.node.add(name="now", op="Timestamp", device=f"{PS}/device:CPU:0")
    handle = worker.register_graph(request).graph_handle
    numbers = iter(range(1, 1000))

    def run() -> None:
        worker.run_graph(
            service_messages.RunGraphRequest(graph_handle=handle, step_id=next(numbers)),
            timeout=SECONDS,
        )

    kernel.finish()
    run()
    kernel.begun = 0
    with connect(cluster.target("worker")) as honest:
        calls = [background(run) for _ in range(ASKED)]
        take_turns(honest, kernel, until)
        for call in calls:
            call.result()
    connection.close()


# -- What must not count -------------------------------------------------------------------


def plainly(queue: Any) -> Any:
    return queue.dequeue()


def in_a_branch(queue: Any) -> Any:
    return tf.cond(tf.equal(queue.size(), -1), lambda: tf.constant(0.0), queue.dequeue)


@pytest.mark.parametrize("take", [plainly, in_a_branch, in_a_branch_of_long_ago])
@pytest.mark.parametrize("remote", [False, True], ids=["here", "elsewhere"])
@pytest.mark.parametrize("job", ["ps", "worker"])
def test_parts_that_wait_for_each_other_do_not_need_many_shares(
    make_cluster, background, until, monkeypatch, take, remote, job
):
    monkeypatch.setenv(LIMIT, "1")
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    with tf.Graph().as_default() as made, tf.device(PS):
        queue = tf.FIFOQueue(1, tf.float32, shapes=[[]], shared_name="shared")
        taken, put = take(queue), queue.enqueue([2.0])
    ps = cluster["ps", 0].worker
    with tf.Session(cluster.target(job, remote=remote), graph=made) as session:
        for _ in range(2):  # The second time it is known how quick they are.
            calls = [background(lambda: session.run(taken)) for _ in range(6)]
            until(lambda: len(ps.partitions.running) == 6)
            for _ in calls:
                session.run(put)
            assert [call.result() for call in calls] == [2.0] * 6


def test_partitions_given_up_while_they_wait_for_a_share_end_at_once_and_do_not_run(
    make_cluster, kernel, background, until
):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    session = tf.Session(cluster.target("worker", remote=True), graph=graph())
    calls = ask(session, background)
    until(lambda: kernel.begun == SHARES and kernel.waiting() == ASKED - SHARES)
    session.close()
    partitions = cluster["ps", 0].worker.partitions
    until(
        lambda: len(partitions.running) == SHARES and not kernel.waiting()
    )  # Nobody had a share meanwhile.
    kernel.finish(SHARES)
    for call in calls:
        with pytest.raises(errors.CancelledError):
            call.result()
    until(lambda: not cluster.busy())
    assert kernel.begun == SHARES and not kernel.waiting()


def test_a_partition_that_waits_for_a_share_says_so(make_cluster, kernel, background, until):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    worker = cluster["ps", 0].worker
    with tf.Session(cluster.target("worker"), graph=graph()) as session:
        calls = ask(session, background, SHARES + 1)
        until(lambda: kernel.begun == SHARES and kernel.waiting() == 1)
        words = [worker.waits(number) for number in list(worker.partitions.running)]
        assert sum(LIMIT in text for text in words) == 1
        kernel.finish(SHARES + 1)
        assert [call.result() for call in calls] == [1.0] * (SHARES + 1)


def test_a_server_stops_while_partitions_wait_for_a_share(make_cluster, kernel, background, until):
    cluster = make_cluster({"ps": 1, "worker": 1}, "socket")
    session = tf.Session(cluster.target("worker"), graph=graph())
    calls = ask(session, background)
    until(lambda: kernel.begun == SHARES and kernel.waiting() == ASKED - SHARES)
    cluster["ps", 0].stop()
    kernel.finish(SHARES)
    for call in calls:
        with pytest.raises(errors.UnavailableError):
            call.result()
    until(lambda: not kernel.waiting())
    assert kernel.begun == SHARES
    session.close()
