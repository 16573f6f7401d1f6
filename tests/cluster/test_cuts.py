"""A checkpoint is one instant: of every step, all that it changed on all tasks, or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.data.delta_bundle import base_of
from millrace.protocol.cut.events import CutRequested
from millrace.server.drivers.pending_cut import PendingCut
from millrace.server.worker import Worker
from millrace.training.checkpoint.reader import load_checkpoint

PS = 3


class Counting:
    """A model whose step adds one to every variable on every ps, and to the global step."""

    def __init__(self, worker: int, resource: bool = False, adam: bool = False) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            with tf.device("/job:ps/task:0"):
                step = tf.train.get_or_create_global_step()
            self.variables = [step]
            for i in range(2 * PS):
                with tf.device(f"/job:ps/task:{i % PS}"):
                    self.variables.append(
                        tf.get_variable(
                            f"v{i}",
                            shape=[50],
                            initializer=tf.zeros_initializer(),
                            use_resource=resource,
                        )
                    )
            with tf.device(f"/job:worker/task:{worker}"):
                loss = -tf.add_n([tf.reduce_sum(v) for v in self.variables[1:]])
                optimizer = tf.train.GradientDescentOptimizer(1.0)
                self.train = optimizer.minimize(loss, global_step=step)
            self.initialize = tf.global_variables_initializer()
            self.saver = tf.train.Saver(sharded=True, max_to_keep=0)
            self.unsharded = tf.train.Saver(max_to_keep=0)


def counts_of(path: str) -> dict[str, set[float]]:
    """What each variable of a checkpoint has counted."""
    reader = load_checkpoint(path)
    return {
        name: {float(x) for x in np.ravel(reader.get_tensor(name))}
        for name in reader.get_variable_to_shape_map()
    }


class Training:
    """Workers that train in threads until they are stopped."""

    def __init__(self, sessions: list[Any], models: list[Counting], threads: int = 1) -> None:
        self._stop = threading.Event()
        self.failures: list[BaseException] = []
        self.steps = 0
        self._threads = [
            threading.Thread(target=self._train, args=(session, model))
            for session, model in zip(sessions, models, strict=True)
            for _ in range(threads)
        ]

    def _train(self, session: Any, model: Counting) -> None:
        try:
            while not self._stop.is_set():
                session.run(model.train)
                self.steps += 1
        except BaseException as error:
            self.failures.append(error)

    def wait(self, steps: int) -> None:
        """Waits until so many more steps were made."""
        goal, deadline = self.steps + steps, time.monotonic() + 60
        while self.steps < goal and not self.failures and time.monotonic() < deadline:
            time.sleep(0.001)
        assert not self.failures and self.steps >= goal

    def __enter__(self) -> Training:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.mark.parametrize("sharded", [True, False])
@pytest.mark.parametrize("resource", [False, True])
def test_asynchronous_checkpoints_are_consistent(
    sharded: bool, resource: bool, make_cluster: Any, tmp_path: Path
) -> None:
    cluster = make_cluster({"ps": PS, "worker": 2})
    models = [Counting(i, resource) for i in range(2)]
    sessions = [
        tf.Session(cluster.target("worker", i), graph=model.graph) for i, model in enumerate(models)
    ]
    sessions[0].run(models[0].initialize)
    saver = models[0].saver if sharded else models[0].unsharded
    paths = []
    with Training(sessions, models, threads=2) as training:
        training.wait(20)
        for i in range(15):
            with models[0].graph.as_default():
                paths.append(saver.save(sessions[0], str(tmp_path / "model"), global_step=i))
            training.wait(2)
    assert not training.failures
    seen = []
    for path in paths:
        counts = counts_of(path)
        assert len(counts) == 1 + 2 * PS
        everywhere = set().union(*counts.values())
        assert len(everywhere) == 1, counts
        seen.append(everywhere.pop())
    assert seen == sorted(seen)
    assert len(set(seen)) == len(seen)
    assert sum(server.worker.cuts.taken for server in cluster.servers.values()) == PS * len(paths)
    saver.restore(sessions[0], paths[3])
    found = sessions[0].run(models[0].variables)
    assert {float(x) for value in found for x in np.ravel(value)} == {seen[3]}
    for session in sessions:
        session.close()


@pytest.mark.parametrize("sharded", [True, False])
def test_incremental_checkpoints_are_consistent(
    sharded: bool, make_cluster: Any, tmp_path: Path
) -> None:
    cluster = make_cluster({"ps": PS, "worker": 1})
    with tf.Graph().as_default() as graph:
        tables, changes = [], []
        for i in range(PS):
            with tf.device(f"/job:ps/task:{i}"):
                table = tf.get_variable(f"t{i}", [2000, 4], initializer=tf.zeros_initializer())
                tables.append(table)
                changes.append(tf.scatter_add(table, [3, 700], tf.ones([2, 4])))
        train = tf.group(*changes)
        initialize = tf.global_variables_initializer()
        saver = tf.train.Saver(sharded=sharded, max_to_keep=0, keep_delta=True)
    model = SimpleNamespace(train=train)
    with tf.Session(cluster.target("worker", 0), graph=graph) as session:
        session.run(initialize)
        paths = []
        with Training([session], [model], threads=2) as training:
            for i in range(6):
                with graph.as_default():
                    paths.append(saver.save(session, str(tmp_path / "model"), global_step=i))
                training.wait(2)
        for path in paths:
            saver.restore(session, path)
            found = session.run(tables)
            assert len({float(x) for table in found for x in np.ravel(table[[3, 700]])}) == 1
            assert all(np.count_nonzero(table) in (0, 8) for table in found)
    assert [base_of(path) for path in paths] == [None] + paths[:1] * 5
    assert sum(server.worker.cuts.taken for server in cluster.servers.values()) == PS * len(paths)


class SlowTask:
    """Lets the changes of a task wait until it is told that they may go on."""

    def __init__(self, worker: Worker) -> None:
        self.go = threading.Event()
        self.go.set()
        self.waiting = threading.Event()
        apply = worker.record._apply

        def slow(*args: Any) -> Any:
            if not self.go.is_set():
                self.waiting.set()
                assert self.go.wait(30)
            return apply(*args)

        worker.record._apply = slow  # type: ignore[method-assign]


def test_a_save_waits_for_a_step_that_has_changed_one_task_and_not_yet_another(
    make_cluster: Any, tmp_path: Path
) -> None:
    cluster = make_cluster({"ps": PS, "worker": 2})
    models = [Counting(i) for i in range(2)]
    sessions = [
        tf.Session(cluster.target("worker", i), graph=model.graph) for i, model in enumerate(models)
    ]
    sessions[0].run(models[0].initialize)
    slow = SlowTask(cluster["ps", 1].worker)
    for session, model in zip(sessions, models, strict=True):
        session.run(model.train)
    slow.go.clear()
    late = threading.Thread(target=sessions[1].run, args=(models[1].train,))
    late.start()
    assert slow.waiting.wait(30)
    paths: list[Any] = []

    def save() -> None:
        with models[0].graph.as_default():
            paths.append(models[0].saver.save(sessions[0], str(tmp_path / "model")))

    saving = threading.Thread(target=save)
    saving.start()
    rules = cluster["ps", 0].worker.cuts._rules
    deadline = time.monotonic() + 30
    while not rules.is_closed and time.monotonic() < deadline:
        time.sleep(0.001)
    assert rules.is_closed
    assert not paths
    # Another step must wait: it would be on the first task and not on the second.
    other = threading.Thread(target=sessions[0].run, args=(models[0].train,))
    other.start()
    slow.go.set()
    for thread in (late, saving, other):
        thread.join()
    assert set().union(*counts_of(paths[0]).values()) == {3.0}
    assert set(map(float, np.ravel(sessions[0].run(models[0].variables[1])))) == {4.0}
    for session in sessions:
        session.close()


def test_a_step_that_saves_and_trains_still_runs(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster({"ps": PS, "worker": 1})
    model = Counting(0)
    with tf.Session(cluster.target("worker"), graph=model.graph) as session:
        session.run(model.initialize)
        name = model.saver.saver_def.filename_tensor_name
        fetch = model.saver.saver_def.save_tensor_name
        session.run([model.train, fetch], {name: str(tmp_path / "both")})
        assert len(counts_of(str(tmp_path / "both"))) == 1 + 2 * PS


def test_tasks_open_again_when_the_master_of_a_cut_is_lost(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": PS, "worker": 2})
    models = [Counting(i) for i in range(2)]
    sessions = [
        tf.Session(cluster.target("worker", i), graph=model.graph) for i, model in enumerate(models)
    ]
    sessions[0].run(models[0].initialize)
    sessions[1].run(models[1].train)
    servers = [cluster["ps", i] for i in range(PS)]
    master = cluster["worker", 0]._master
    tasks = {server.worker.task: server._peers.me.address for server in servers}
    cut = PendingCut(master, tasks, sessions[0]._backend.handle)
    cut.tell(CutRequested())
    deadline = time.monotonic() + 30
    while not all(server.worker.cuts._rules.is_closed for server in servers):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    held = threading.Thread(target=sessions[1].run, args=(models[1].train,))
    held.start()
    cluster["worker", 0].stop()
    held.join(30)
    assert not held.is_alive()
    assert not any(server.worker.cuts._rules.is_closed for server in servers)
    sessions[1].close()


def synchronous(worker: int, workers: int) -> tuple[Any, Callable[[], Any], Any]:
    """A synchronous training whose rounds add the same to every variable."""
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            step = tf.train.get_or_create_global_step()
        variables = []
        for i in range(2):
            with tf.device(f"/job:ps/task:{i}"):
                variables.append(
                    tf.get_variable(f"v{i}", shape=[5], initializer=tf.zeros_initializer())
                )
        with tf.device(f"/job:worker/task:{worker}"):
            loss = -tf.add_n([tf.reduce_sum(v) for v in variables])
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(1.0), workers, workers
            )
            train = optimizer.minimize(loss, global_step=step)
        hook = optimizer.make_session_run_hook(worker == 0)
    return graph, lambda: train, hook


def test_synchronous_checkpoints_are_consistent(make_cluster: Any, tmp_path: Path) -> None:
    cluster = make_cluster({"ps": 2, "worker": 2})
    folder = str(tmp_path)
    failures: list[BaseException] = []

    def work(index: int) -> None:
        graph, train, hook = synchronous(index, 2)
        try:
            with (
                graph.as_default(),
                tf.train.MonitoredTrainingSession(
                    cluster.target("worker", index),
                    is_chief=index == 0,
                    checkpoint_dir=folder if index == 0 else None,
                    hooks=[hook, tf.train.StopAtStepHook(last_step=60)],
                    save_checkpoint_steps=7,
                    save_checkpoint_secs=None,
                    save_summaries_steps=None,
                    save_summaries_secs=None,
                ) as session,
            ):
                while not session.should_stop():
                    session.run(train())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    found = tf.train.get_checkpoint_state(folder)
    assert len(found.all_model_checkpoint_paths) >= 4
    for path in found.all_model_checkpoint_paths:
        counts = counts_of(path)
        steps = counts.pop("global_step")
        local = {name for name in counts if name.startswith("sync_rep_local_step")}
        assert all(counts[name] == steps for name in counts if name not in local), (path, counts)
