"""A step that a fault has ended is run again, and changes no task twice."""

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.protocol.step.events import RunRefused
from millrace.server.worker import Worker


def model() -> tuple[Any, list[Any]]:
    """A training step that adds 1 to a variable on each ps, to a local one and the global step."""
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        a = tf.get_variable("a", initializer=tf.zeros([3]))
    with tf.device("/job:ps/task:1"):
        b = tf.get_variable("b", initializer=tf.zeros([3]))
    with tf.device("/job:worker/task:0"):
        mine = tf.get_variable("mine", initializer=0)
    loss = -tf.reduce_sum(a) - tf.reduce_sum(b)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
    return tf.group(train, tf.assign_add(mine, 1)), [a, b, mine, step]


class Faults:
    """Lets parts of steps fail on a task, before they begin or after they have ended."""

    def __init__(self, worker: Worker) -> None:
        self._run = worker.run
        self._tell = worker.tell
        self._changes = lambda number: worker.sessions.graph(number).changes
        self.before = self.after = 0
        worker.run = self.run  # type: ignore[method-assign]

    def run(self, graph: Any, number: int, master: str, request: Any, on_done: Any) -> None:
        lost = tf.errors.UnavailableError(None, None, "lost for this test")
        if not request.attempt or not self._changes(graph):  # a look at the model
            self._run(graph, number, master, request, on_done)
        elif self.before:
            self.before -= 1
            self._tell(RunRefused(number, lost))
            on_done(None, [], lost)
        elif self.after:
            self.after -= 1
            self._run(graph, number, master, request, lambda *end: on_done(None, [], lost))
        else:
            self._run(graph, number, master, request, on_done)


def everywhere(session: Any, values: list[Any]) -> set[float]:
    found = session.run_step_fn(lambda step_context: step_context.session.run(values))
    return {float(value) for each in found for value in np.ravel(each)}


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", [0, 1])
def test_a_repeated_step_changes_no_task_twice(
    make_cluster: Any, where: int, when: str, remote: bool
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    train, values = model()
    target = cluster.target("worker", remote=remote)
    with tf.train.MonitoredTrainingSession(target, is_chief=True) as session:
        session.run(train)
        faults = Faults(cluster["ps", where].worker)
        for steps, times in ((2, 1), (3, 2)):
            setattr(faults, when, times)
            session.run(train)
            assert not faults.before and not faults.after
            assert everywhere(session, values) == {float(steps)}
        session.run(train)
        assert everywhere(session, values) == {4.0}


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("where", [0, 1])
def test_a_repeated_step_function_changes_no_task_twice(
    make_cluster: Any, where: int, when: str, remote: bool
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    train, values = model()
    calls: list[float] = []

    def step_fn(step_context: Any) -> None:
        step_context.session.run(train)
        if not calls:  # What only the first attempt runs does not shift the others.
            step_context.session.run(values)
        calls.append(len(calls))
        step_context.run_with_hooks([train, values[0]])
        step_context.session.run(train)

    class Looks(tf.train.SessionRunHook):
        def before_run(self, context: Any) -> None:
            context.session.run(values)

        def after_run(self, context: Any, run_values: Any) -> None:
            context.session.run(values)

    target = cluster.target("worker", remote=remote)
    with tf.train.MonitoredTrainingSession(target, is_chief=True, hooks=[Looks()]) as session:
        faults = Faults(cluster["ps", where].worker)
        for steps, times in ((3, 1), (6, 2)):
            calls.clear()
            setattr(faults, when, times)
            session.run_step_fn(step_fn)
            assert not faults.before and not faults.after
            assert everywhere(session, values) == {float(steps)}
        session.run_step_fn(step_fn)
        assert everywhere(session, values) == {9.0}


def test_what_a_repeated_step_fetches_is_what_its_update_has_made(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        add = tf.assign_add(step, 1)
    with tf.device("/job:ps/task:1"):
        other = tf.get_variable("other", initializer=0)
        more = tf.assign_add(other, 10)
    with tf.train.MonitoredTrainingSession(cluster.target("worker"), is_chief=True) as session:
        Faults(cluster["ps", 1].worker).after = 2
        assert session.run([add, more]) == [1, 10]
        assert session.run([add, more]) == [2, 20]


def test_a_hook_that_runs_the_training_step_itself_applies_it_too(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    train, values = model()

    class Again(tf.train.SessionRunHook):
        def before_run(self, context: Any) -> None:
            context.session.run(train)

        def after_run(self, context: Any, run_values: Any) -> None:
            context.session.run(train)

    target = cluster.target("worker")
    with tf.train.MonitoredTrainingSession(target, is_chief=True, hooks=[Again()]) as session:
        session.run(train)
        assert everywhere(session, values) == {3.0}


def test_a_step_after_a_fault_of_a_hook_is_not_applied_again(make_cluster: Any) -> None:
    """TensorFlow repeats it: the fault came when the step was over."""
    cluster = make_cluster({"ps": 2, "worker": 1})
    train, values = model()

    class Trips(tf.train.SessionRunHook):
        tripped = False

        def after_run(self, context: Any, run_values: Any) -> None:
            if not self.tripped:
                self.tripped = True
                raise tf.errors.AbortedError(None, None, "lost for this test")

    target = cluster.target("worker")
    with tf.train.MonitoredTrainingSession(target, is_chief=True, hooks=[Trips()]) as session:
        session.run(train)
        assert everywhere(session, values) == {1.0}


def test_a_model_that_was_restored_meanwhile_gets_the_whole_step(
    make_cluster: Any, tmp_path: Any
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    train, values = model()
    saver = tf.train.Saver(values)
    with tf.train.MonitoredTrainingSession(cluster.target("worker"), is_chief=True) as session:
        session.run(train)
        path = str(tmp_path / "model")
        session.run_step_fn(lambda step_context: saver.save(step_context.session, path, 1))
        faults = Faults(cluster["ps", 1].worker)
        run = faults._run

        def restore_and_fail(*args: Any) -> None:
            faults._run = run
            with tf.Graph().as_default(), tf.Session(cluster.target("ps", 0)) as other:
                again = tf.train.import_meta_graph(f"{path}-1.meta")
                again.restore(other, f"{path}-1")
            lost = tf.errors.UnavailableError(None, None, "lost for this test")
            faults._tell(RunRefused(args[1], lost))
            args[-1](None, [], lost)

        faults._run = restore_and_fail
        session.run(train)
        assert everywhere(session, values) == {2.0}
