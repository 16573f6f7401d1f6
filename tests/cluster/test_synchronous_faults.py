"""Rounds of synchronous training on two ps tasks, interrupted: what each ps counts.

A fault in the middle of a step is made by running the part of it that came before: the operations
of one ps task and not those of the other.
"""

import contextlib
import threading
import types

import numpy as np
import pytest

import millrace as tf
from millrace.platform import wait_reporter
from millrace.training.checkpoint.fence import Term
from millrace.training.election.sync_replicas import ElectedSyncReplicasHook
from millrace.training.sessions.live_model import LiveModel

SECONDS = 60


class Replica:
    """One worker's graph: ``a`` on the first ps and ``b`` on the second have the gradient ``x``."""

    def __init__(self, cluster, task, folder=None, local_init=False):
        self.cluster = cluster
        self.target = cluster.target("worker", task)
        self.is_chief = task == 0
        self.folder = folder
        self.graph = tf.Graph()
        setter = tf.train.replica_device_setter(
            cluster=cluster.spec, worker_device=f"/job:worker/task:{task}"
        )
        with self.graph.as_default(), tf.device(setter):
            self.x = tf.placeholder(tf.float32, [])
            self.step = tf.train.get_or_create_global_step()  # on the first ps
            b = tf.get_variable("b", initializer=0.0)
            a = tf.get_variable("a", initializer=0.0)
            self.model = [a, b]
            assert [v.device for v in (*self.model, self.step)] == [
                "/job:ps/task:0",
                "/job:ps/task:1",
                "/job:ps/task:0",
            ]
            self.optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=2
            )
            self.train = self.optimizer.minimize(-(a + b) * self.x, self.step)
            self.grouped = tf.group(self.train)
            self.counts = [each.num_accumulated() for each, _ in self.optimizer._accumulator_list]
            self.scaffold = tf.train.Scaffold(
                local_init_op=self.optimizer.chief_init_op if local_init else None
            )
            self.hook = self.optimizer.make_session_run_hook(self.is_chief, num_tokens=0)
            self.hook.begin()
        self.creator = None
        self.session = None

    def operation(self, kind, ps):
        """The operation of some type on a ps."""
        (found,) = [
            op
            for op in self.graph.get_operations()
            if op.type == kind
            and op.device.startswith(f"/job:ps/task:{ps}")
            and "global_step" not in op.name
        ]
        return found

    def begin(self):
        """A session as a MonitoredSession makes it, again and again; then its hook."""
        with self.graph.as_default():
            if self.creator is None:
                creator = (
                    tf.train.ChiefSessionCreator if self.is_chief else tf.train.WorkerSessionCreator
                )
                place = {"checkpoint_dir": self.folder} if self.is_chief else {}
                self.creator = creator(self.scaffold, master=self.target, **place)
            self.session = self.creator.create_session()
            coordinator = tf.train.Coordinator()
            if not self.is_chief:
                self.hook.after_create_session(self.session, coordinator)
            else:
                # Without the thread that closes rounds: the tests do.
                self.session.run(self.hook._local_init_op)
                self.session.run(self.hook._init_tokens_op)
        return self

    def push(self, x, train=None):
        """A step, which ends when the round is closed."""
        thread = threading.Thread(
            target=self.session.run,
            args=(self.train if train is None else train, {self.x: x}),
            daemon=True,
        )
        thread.start()
        return thread

    def push_on(self, x):
        """Steps until the chief ends the training."""

        def train():
            with contextlib.suppress(tf.errors.OutOfRangeError):
                while True:
                    self.run(self.train, x)

        thread = threading.Thread(target=train, daemon=True)
        thread.start()
        return thread

    def run(self, operation, x=0.0):
        return self.session.run(operation, {self.x: x})


@pytest.fixture
def replicas(make_cluster, tmp_path):
    cluster = make_cluster({"ps": 2, "worker": 2})
    made = [Replica(cluster, task, str(tmp_path)) for task in range(2)]
    for replica in made:
        replica.begin()
    yield made
    for replica in made:
        replica.session.close()


def close_round(chief, seconds=SECONDS):
    options = tf.RunOptions(timeout_in_ms=int(seconds * 1000))
    chief.session.run(chief.optimizer._sync_op, options=options)


def joined(*threads):
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "a worker got no token"


PUSH = "ResourceAccumulatorApplyGradient"


@pytest.mark.parametrize("reached", [0, 1, "both"])
def test_a_step_that_is_repeated_counts_once_on_every_ps(replicas, reached):
    chief, worker = replicas
    for ps in (0, 1) if reached == "both" else (reached,):
        worker.run(worker.operation(PUSH, ps), 4.0)
    worker.session.close()
    threads = [worker.begin().push(4.0), chief.push(2.0)]
    close_round(chief)
    joined(*threads)
    np.testing.assert_array_equal(chief.run(chief.model), [3.0, 3.0])
    # And nobody is one token short in the rounds after it.
    threads = [worker.push_on(4.0), chief.push_on(2.0)]
    for _ in range(3):
        close_round(chief)
    assert chief.run(chief.step) == 4
    chief.run(chief.hook._end_op)
    joined(*threads)


def test_a_worker_that_dies_after_its_push_does_not_hold_the_round_up(replicas):
    chief, worker = replicas
    for ps in (0, 1):
        worker.run(worker.operation(PUSH, ps), 4.0)
    worker.session.close()
    thread = chief.push(2.0)
    close_round(chief)
    joined(thread)
    np.testing.assert_array_equal(chief.run(chief.model), [3.0, 3.0])


def test_a_chief_that_begins_counts_nothing_of_the_round_before_it(replicas):
    chief, worker = replicas
    worker.run(worker.operation(PUSH, 0), 4.0)
    worker.run(worker.operation(PUSH, 1), 4.0)
    assert chief.run(chief.counts) == [1, 1]
    chief.session.close()
    # The model is restored to a checkpoint of this very step, or is as it was.
    chief.begin()
    assert chief.run(chief.counts) == [0, 0]


def half_a_round(chief, worker, folder):
    """A checkpoint of a whole round, and then a round that only the second ps has applied."""
    threads = [worker.push(4.0), chief.push(2.0)]
    close_round(chief)
    joined(*threads)
    if folder:
        chief.scaffold.saver.save(chief.session, f"{folder}/model.ckpt", 1)
    for each in (chief, worker):
        each.run([each.operation(PUSH, ps) for ps in (0, 1)], 10.0)
    chief.run(chief.operation("ApplyGradientDescent", 1))
    assert chief.run([*chief.model, chief.step]) == [3.0, 13.0, 1]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_round_that_was_applied_on_one_ps_only_is_undone_if_it_can_be(
    replicas, tmp_path, has_checkpoint
):
    chief, worker = replicas
    half_a_round(chief, worker, str(tmp_path) if has_checkpoint else None)
    chief.session.close()
    chief.begin()
    found = chief.run([*chief.model, chief.step])
    assert found == ([3.0, 3.0, 1] if has_checkpoint else [3.0, 13.0, 1])
    worker.session.close()
    threads = [worker.begin().push(4.0), chief.push(2.0)]
    close_round(chief)
    joined(*threads)
    assert chief.run(chief.step) == 2


@pytest.fixture
def restart(replicas):
    """Starts the chief's program again, after a death that left its session as it was."""
    made = []

    def start(**options):
        chief = replicas[0]
        made.append(Replica(chief.cluster, 0, chief.folder, **options).begin())
        return made[-1]

    yield start
    for each in made:
        each.session.close()


def test_a_restarted_chief_goes_on_with_the_model_and_counts_nothing_twice(
    replicas, restart, tmp_path
):
    chief, worker = replicas
    chief.scaffold.saver.save(chief.session, str(tmp_path / "model.ckpt"), 0)
    threads = [worker.push(4.0), chief.push(2.0)]
    close_round(chief)
    joined(*threads)
    for ps in (0, 1):
        worker.run(worker.operation(PUSH, ps), 100.0)
    again = restart()
    assert again.run([*again.model, again.step]) == [3.0, 3.0, 1]
    assert again.run(again.counts) == [0, 0]
    threads = [worker.push(4.0), again.push(2.0)]
    close_round(again)
    joined(*threads)
    assert again.run([*again.model, again.step]) == [6.0, 6.0, 2]


@pytest.mark.parametrize("local_init", [False, True], ids=["hook", "supervisor"])
def test_a_restarted_chief_restores_what_was_applied_on_one_ps_only(
    replicas, restart, tmp_path, local_init
):
    half_a_round(*replicas, str(tmp_path))
    again = restart(local_init=local_init)
    assert again.run([*again.model, again.step]) == [3.0, 3.0, 1]


def test_a_round_that_one_ps_cannot_take_is_applied_by_none_and_costs_nothing(replicas, tmp_path):
    chief, worker = replicas
    chief.scaffold.saver.save(chief.session, str(tmp_path / "model.ckpt"), 0)
    threads = [worker.push(4.0), chief.push(2.0)]
    close_round(chief)
    joined(*threads)
    for each in (chief, worker):
        each.run(each.operation(PUSH, 1), 10.0)
    with pytest.raises(tf.errors.DeadlineExceededError):
        close_round(chief, seconds=0.3)
    chief.session.close()
    chief.begin()
    assert chief.run([*chief.model, chief.step]) == [3.0, 3.0, 1]


class Campaign:
    """A worker that is elected when the test says so."""

    def __init__(self):
        self.now = None

    def term(self):
        return self.now

    def listen(self, listener):
        self.tell = listener

    def elect(self):
        self.now = Term(2, "test")
        self.tell(self.now)


def test_a_newly_elected_chief_makes_its_session_again_after_half_a_round(replicas, tmp_path):
    chief, worker = replicas
    campaign = Campaign()
    with worker.graph.as_default():
        worker.graph._unsafe_unfinalize()
        hook = ElectedSyncReplicasHook(worker.hook, types.SimpleNamespace(campaign=campaign))
        hook.begin()
        model = LiveModel(worker.graph)
    half_a_round(chief, worker, str(tmp_path))
    coordinator = tf.train.Coordinator()
    hook.after_create_session(worker.session, coordinator)
    chief.session.close()
    campaign.elect()
    assert coordinator.wait_for_stop(SECONDS)
    with pytest.raises(tf.errors.AbortedError, match="the model is restored"):
        coordinator.raise_requested_exception()
    worker.session = tf.Session(worker.target, graph=worker.graph)
    assert not model.is_whole(worker.session)
    chief.session = tf.Session(chief.target, graph=chief.graph)


# -- Waits -------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    """Waits that say at once what they wait for."""
    for name in ("FIRST_SECONDS", "INTERVAL_SECONDS"):
        monkeypatch.setattr(wait_reporter, name, 0.2)


def test_a_worker_says_whose_gradient_a_round_waits_for(replicas, impatient, caplog, until):
    chief, worker = replicas
    threads = [worker.push(4.0), chief.push(2.0)]
    close_round(chief)
    joined(*threads)
    # The other worker does not come back.
    threads = [chief.push(2.0)]
    until(lambda: "No chief closes this one: check that it runs" in caplog.text)
    threads.append(threading.Thread(target=close_round, args=(chief,), daemon=True))
    threads[-1].start()
    until(lambda: "which has 1 of step 1: none from /job:worker/task:1. Check" in caplog.text)
    joined(*threads, worker.push(4.0))
    assert chief.run(chief.step) == 2


# -- A worker that ends well, without the hook ---------------------------------------------------


def tokens(chief):
    """How many steps the workers may make that nobody has begun."""
    with chief.graph.as_default():
        chief.graph._unsafe_unfinalize()
        return chief.optimizer._sync_token_queue.size()


def test_a_worker_with_a_supervisor_hands_its_part_to_the_others_when_it_ends_well(replicas):
    chief, worker = replicas
    size = tokens(chief)

    def session(end):
        with worker.graph.as_default():
            supervisor = tf.train.Supervisor(
                is_chief=False,
                graph=worker.graph,
                local_init_op=worker.optimizer.local_step_init_op,
                ready_op=None,
            )
            with end, supervisor.managed_session(worker.target):
                if not isinstance(end, contextlib.nullcontext):
                    raise KeyError("the worker's program fails")

    worker.graph._unsafe_unfinalize()
    session(pytest.raises(KeyError))
    assert chief.run(size) == 0
    session(contextlib.nullcontext())
    assert chief.run(size) == 1


@pytest.mark.parametrize("fetch", ["train", "grouped"])
def test_the_others_go_on_when_a_worker_with_a_plain_session_has_ended_well(replicas, fetch):
    chief, worker = replicas
    worker.session.close()

    def make_a_round():
        worker.session = tf.Session(worker.target, graph=worker.graph)
        worker.session.run(worker.optimizer.local_step_init_op)
        threads = [chief.push(2.0), worker.push(4.0, getattr(worker, fetch))]
        close_round(chief)
        joined(*threads)

    make_a_round()
    with contextlib.suppress(KeyError), worker.session:
        raise KeyError("the worker's program fails")
    # It may come back: nobody goes on without it.
    thread = chief.push(2.0)
    with pytest.raises(tf.errors.DeadlineExceededError):
        close_round(chief, seconds=0.3)
    worker.session = tf.Session(worker.target, graph=worker.graph)
    worker.session.run(worker.optimizer.local_step_init_op)
    other = worker.push(4.0, getattr(worker, fetch))
    close_round(chief)
    joined(thread, other)
    # And now it has ended: the chief computes both gradients of each round.
    worker.session.close()
    thread = chief.push_on(2.0)
    for _ in range(3):
        close_round(chief)
    assert chief.run([*chief.model, chief.step]) == [3.0 + 3.0 + 3 * 2.0] * 2 + [5]
    chief.run(chief.hook._end_op)
    joined(thread)


def test_a_session_that_does_not_train_leaves_nothing(replicas):
    chief, worker = replicas
    size = tokens(chief)
    with tf.Session(worker.target, graph=worker.graph) as session:
        session.run([worker.step, *worker.model])
    assert chief.run(size) == 0


def test_a_worker_leaves_the_job_once_where_its_hook_and_its_session_say_so(replicas):
    chief, worker = replicas
    size = tokens(chief)
    threads = [chief.push(2.0), worker.push(4.0)]
    close_round(chief)
    joined(*threads)
    worker.hook.end(worker.session)
    worker.session.close()
    assert chief.run(size) == 1
