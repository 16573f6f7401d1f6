"""Synchronous training: rounds, tokens, stale gradients, and workers that leave.

Workers are copies of the model in one graph and one session: accumulators, token queue and
variables are shared as they are on a ps task.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest

import millrace as tf
from millrace.training.replicas.sync_replicas_optimizer import old_tokens_of
from millrace.training.sessions import live_model

SECONDS = 60


class Workers:
    """Replicas of ``loss = mean((x - w)**2)``-like models that share `w`, and their chief."""

    def __init__(self, count, aggregate, total=None, make=None, loss=None, **options):
        self.step = tf.train.get_or_create_global_step()
        self.x = [tf.placeholder(tf.float32, [None, 2]) for _ in range(count)]
        self.w = tf.get_variable("w", initializer=tf.constant([1.0, -1.0]))
        self.optimizers, self.trains = [], []
        for x in self.x:
            optimizer = tf.train.SyncReplicasOptimizer(
                make() if make else tf.train.GradientDescentOptimizer(0.5),
                aggregate,
                total_num_replicas=total,
                **options,
            )
            value = loss(x) if loss else tf.reduce_mean(tf.reduce_sum(tf.square(x - self.w), 1))
            self.trains.append(optimizer.minimize(value, global_step=self.step))
            self.optimizers.append(optimizer)
        self.chief = self.optimizers[0]
        self.close_round = self.chief._sync_op

    def start(self, session, tokens=-1):
        """What chief and workers run before they train."""
        put_tokens = self.chief.get_init_tokens_op(tokens)
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(self.chief.chief_init_op)
        session.run([o.local_step_init_op for o in self.optimizers])
        session.run(put_tokens)

    def push(self, session, worker, value, step=None):
        """One training step of one worker, for which a token must be there."""
        if step is not None:
            self.optimizers[worker]._local_step.load(step, session)
        session.run(self.trains[worker], {self.x[worker]: [value]})


def tokens(session, workers):
    return int(session.run(workers.chief._sync_token_queue.size()))


# -- A round -----------------------------------------------------------------------------------

MODELS = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
}


@pytest.mark.parametrize("name", MODELS)
def test_n_workers_learn_as_one_with_the_batches_of_all(name: str) -> None:
    count, rounds, batch = 3, 6, 4
    data = np.sin(np.arange(rounds * count * batch * 3.0)).reshape(rounds, count, batch, 3)

    def variables():
        return [
            tf.Variable([[0.5], [-1.0]], name="kernel"),
            tf.Variable([0.25], name="bias"),
            tf.Variable([[0.1], [0.2]], name="table"),
        ]

    def loss_of(x, kernel, bias, table):
        # Every worker uses every row: a sparse mean is over those that have the row.
        rows = tf.reduce_sum(tf.gather(table, [0, 1, 1]))
        return tf.reduce_mean(tf.square(tf.matmul(x[:, :2], kernel) + bias + rows - x[:, 2:]))

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3])
        alone = variables()
        train = MODELS[name]().minimize(loss_of(x, *alone))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for k in range(rounds):
                session.run(train, {x: data[k].reshape(-1, 3)})
            expected = session.run(alone)

    step = tf.train.get_or_create_global_step()
    shared = variables()
    inputs, trains = [], []
    for _ in range(count):
        inputs.append(tf.placeholder(tf.float32, [None, 3]))
        loss = loss_of(inputs[-1], *shared)
        optimizer = tf.train.SyncReplicasOptimizer(MODELS[name](), count)
        trains.append(optimizer.minimize(loss, global_step=step))
    runner = optimizer.get_chief_queue_runner()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(optimizer.chief_init_op)
        coordinator = tf.train.Coordinator()
        runner.create_threads(session, coordinator, start=True)
        # So that no worker takes the token of another that is slow.
        barrier = threading.Barrier(count, timeout=SECONDS)

        def work(i: int) -> None:
            with coordinator.stop_on_exception():
                for k in range(rounds):
                    session.run(trains[i], {inputs[i]: data[k, i]})
                    barrier.wait()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in threads)
        coordinator.raise_requested_exception()
        assert session.run(step) == rounds
        for found, wanted in zip(session.run(shared), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
        coordinator.request_stop()
        coordinator.join()


def test_the_updates_of_a_round_are_one_xla_call() -> None:
    def loss(x):
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            kernel = tf.get_variable("kernel", [2, 3], initializer=tf.ones_initializer())
            bias = tf.get_variable("bias", [3], initializer=tf.ones_initializer())
        return tf.reduce_sum(tf.square(tf.matmul(x, kernel) + bias))

    workers = Workers(1, 1, make=lambda: tf.train.AdamOptimizer(0.1), loss=loss)
    with tf.Session() as session:
        workers.start(session, 9)
        counts = []
        for step in range(3):
            workers.push(session, 0, [1.0, 2.0], step)
            before = session._backend.xla_calls
            session.run(workers.close_round)
            counts.append(session._backend.xla_calls - before)
        assert counts[1:] == [1, 1]


def test_a_gradient_of_an_earlier_round_is_dropped() -> None:
    workers = Workers(2, 1, total=2)
    with tf.Session() as session:
        workers.start(session, 5)
        workers.push(session, 0, [3.0, 0.0])
        session.run(workers.close_round)
        assert session.run([workers.step, workers.w])[1].tolist() == [3, 0]
        # The straggler computed at step 0; only the fresh gradient counts.
        workers.push(session, 1, [100.0, 100.0], step=0)
        workers.push(session, 0, [5.0, 5.0], step=1)
        session.run(workers.close_round)
        assert session.run(workers.w).tolist() == [5, 5]
        assert session.run(workers.step) == 2


def test_backup_workers_get_tokens_too() -> None:
    workers = Workers(3, 2, total=3)
    with tf.Session() as session:
        workers.start(session, 2)
        workers.push(session, 0, [2.0, 0.0])
        workers.push(session, 1, [4.0, 0.0])
        assert tokens(session, workers) == 0
        session.run(workers.close_round)
        assert session.run(workers.w).tolist() == [3, 0]
        assert tokens(session, workers) == 3


def test_fewer_workers_than_gradients_compute_several_batches_a_round() -> None:
    workers = Workers(1, 3, total=1)
    with pytest.raises(ValueError, match=r"Too few tokens to finish the first step: 1 .* vs 2"):
        workers.chief.get_init_tokens_op(1)
    with tf.Session() as session:
        workers.start(session, 3)
        for value in ([1.0, 0.0], [2.0, 0.0], [6.0, 0.0]):
            workers.push(session, 0, value)
        session.run(workers.close_round)
        assert session.run(workers.w).tolist() == [3, 0]
        assert tokens(session, workers) == 3


def test_the_token_is_the_next_step_of_the_worker() -> None:
    workers = Workers(1, 1)
    (optimizer,) = workers.optimizers
    with tf.Session() as session:
        workers.start(session, 1)
        workers.push(session, 0, [0.0, 0.0])
        session.run(workers.close_round)
        workers.push(session, 0, [0.0, 0.0], step=1)
        assert session.run(optimizer._local_step) == 1
        session.run(workers.step.assign(40))
        session.run(optimizer.local_step_init_op)
        assert session.run(optimizer._local_step) == 40


def test_old_tokens_are_dropped_also_when_a_worker_takes_one_after_they_were_counted() -> None:
    """The chief did not begin before its time limit then, two seconds later."""
    workers = Workers(2, 2)
    old = old_tokens_of(workers.chief)
    (count,) = (tensor for tensor in old.op.inputs if tensor.dtype == tf.int32)
    with tf.Session() as session:
        workers.start(session, 2)
        assert session.run(old, {count: 3}).tolist() == [0, 0]
        assert tokens(session, workers) == 0


# -- Leaving -----------------------------------------------------------------------------------


def test_the_others_go_on_when_a_worker_leaves() -> None:
    workers = Workers(2, 2)
    leave = workers.optimizers[1].get_leave_op()
    runner = workers.chief.get_chief_queue_runner()
    with tf.Session() as session:
        workers.start(session, 0)
        coordinator = tf.train.Coordinator()
        runner.create_threads(session, coordinator, start=True)
        barrier = threading.Barrier(2, timeout=SECONDS)
        done = []

        def stay() -> None:
            workers.push(session, 0, [1.0, 0.0])
            barrier.wait()
            # Two batches make a round now: after this, three rounds are over.
            for _ in range(4):
                workers.push(session, 0, [1.0, 0.0])
            done.append(True)

        def go() -> None:
            workers.push(session, 1, [3.0, 0.0])
            barrier.wait()
            session.run(leave)

        threads = [threading.Thread(target=target) for target in (stay, go)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SECONDS)
        assert done == [True]
        assert session.run(workers.step) == 3
        coordinator.request_stop()
        coordinator.join()


def test_workers_can_make_one_more_step_when_the_chief_has_ended_then_get_out_of_range() -> None:
    """In the step in which it waits a worker may have read the global step too early to stop."""
    workers = Workers(2, 2)
    runner = workers.chief.get_chief_queue_runner()
    assert isinstance(runner, tf.train.QueueRunner)
    with tf.Session() as session:
        workers.start(session, 0)
        coordinator = tf.train.Coordinator()
        runner.create_threads(session, coordinator, start=True)
        raised = []

        def wait() -> None:
            workers.push(session, 1, [0.0, 0.0])
            workers.push(session, 1, [0.0, 0.0])
            with pytest.raises(tf.errors.OutOfRangeError, match="sync_token_q") as info:
                workers.push(session, 1, [0.0, 0.0])
            raised.append(info.value)

        waiting = threading.Thread(target=wait)
        waiting.start()
        # Although the chief itself waits for a gradient that never comes.
        coordinator.request_stop()
        coordinator.join(stop_grace_period_secs=SECONDS)
        waiting.join(SECONDS)
        assert len(raised) == 1


def test_the_chief_does_not_hold_up_the_end_of_a_session() -> None:
    workers = Workers(1, 2)
    runner = workers.chief.get_chief_queue_runner()
    session = tf.Session()
    workers.start(session, 1)
    coordinator = tf.train.Coordinator()
    threads = runner.create_threads(session, coordinator, start=True)
    coordinator.request_stop()
    coordinator.join(stop_grace_period_secs=SECONDS)
    session.close()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()


# -- The hook ----------------------------------------------------------------------------------


def test_the_hook_prepares_the_chief_and_its_end_is_the_end_for_all() -> None:
    workers = Workers(1, 1)
    hook = workers.chief.make_session_run_hook(is_chief=True, num_tokens=1)
    assert isinstance(hook, tf.train.SessionRunHook)
    hook.begin()
    initializers = [tf.global_variables_initializer(), tf.local_variables_initializer()]
    with tf.Session() as session:
        session.run(initializers)
        session.run(workers.step.assign(7))
        coordinator = tf.train.Coordinator()
        hook.after_create_session(session, coordinator)
        assert session.run(workers.chief._local_step) == 7
        # The token that was there at first, then that of the round.
        workers.push(session, 0, [3.0, 4.0])
        workers.push(session, 0, [3.0, 4.0])
        assert session.run(workers.step) == 8
        np.testing.assert_allclose(session.run(workers.w), [3, 4], rtol=1e-6)
        # A session that is rebuilt stops the coordinator, and must not end the training.
        coordinator.request_stop()
        coordinator.join()
        queue = workers.chief._sync_token_queue
        assert not session.run(queue.is_closed())
        hook.end(session)
        assert session.run(queue.is_closed())


def test_the_hook_of_a_worker_gives_its_part_to_the_others() -> None:
    workers = Workers(2, 2)
    hook = workers.optimizers[1].make_session_run_hook(is_chief=False)
    hook.begin()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(workers.step.assign(5))
        hook.after_create_session(session, tf.train.Coordinator())
        assert session.run(workers.optimizers[1]._local_step) == 5
        assert tokens(session, workers) == 0
        hook.end(session)
        assert session.run(workers.chief._sync_token_queue.dequeue()) == 5
        # Too late: the chief has left. Nothing to hand over, and no error.
        session.run(workers.chief.get_clean_up_op())
        hook.end(session)


def test_the_hook_says_which_variables_are_missing() -> None:
    workers = Workers(1, 1)
    hook = workers.chief.make_session_run_hook(is_chief=True)
    hook.begin()
    with (
        tf.Session() as session,
        pytest.raises(RuntimeError, match="not initialized: global_step, w"),
    ):
        hook.after_create_session(session, tf.train.Coordinator())


# -- The graph ---------------------------------------------------------------------------------


def test_accumulators_tokens_and_local_steps_are_where_they_belong(graph: tf.Graph) -> None:
    setter = tf.train.replica_device_setter(ps_tasks=3, worker_device="/job:worker/task:4")
    with tf.device(setter):
        step = tf.train.get_or_create_global_step()
        w = tf.Variable(np.ones((2, 2), np.float32), name="w")
        table = tf.Variable(np.ones((5, 2), np.float32), name="table")
        unused = tf.Variable(1.0, name="unused")
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.MomentumOptimizer(0.1, 0.9), replicas_to_aggregate=2, total_num_replicas=3
        )
        loss = tf.reduce_sum(w) + tf.reduce_sum(tf.gather(table, [0, 1]))
        pairs = optimizer.compute_gradients(loss, [w, table, unused])
        assert pairs[2][0] is None
        train_op = optimizer.apply_gradients(pairs, global_step=step)
    dense = graph.get_operation_by_name("sync_replicas/conditional_accumulator")
    sparse = graph.get_operation_by_name("sync_replicas/sparse_conditional_accumulator")
    queue = graph.get_operation_by_name("sync_token_q")
    local_step = graph.get_operation_by_name("sync_rep_local_step")
    assert (dense.device, sparse.device) == (w.device, table.device)
    assert dense.get_attr("shared_name") == b"w:0/grad_accum"
    assert sparse.get_attr("shared_name") == b"table:0/grad_accum"
    assert queue.get_attr("shared_name") == b"sync_token_q"
    assert queue.device.startswith(step.device)
    assert local_step.device == train_op.device == "/job:worker/task:4"
    assert [v.op for v in tf.local_variables()] == [local_step]
    assert local_step not in [v.op for v in tf.global_variables()]
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_slot(w, "momentum").device == w.device
    assert [v.op.name for v in optimizer.variables()] == ["table/Momentum", "w/Momentum"]
    runner = optimizer.get_chief_queue_runner()
    assert [op.name for op in runner.enqueue_ops] == ["sync_token_q_EnqueueMany"]
    assert optimizer.get_init_tokens_op(0).name == "no_init_tokens"


def test_averages_of_variables_are_updated_after_each_round() -> None:
    with tf.variable_scope("", reuse=tf.AUTO_REUSE):
        w = tf.get_variable("w", initializer=tf.constant([1.0, -1.0]))
        average = tf.train.ExponentialMovingAverage(0.5)
        workers = Workers(1, 1, variable_averages=average, variables_to_average=[w])
    with tf.Session() as session:
        workers.start(session, 1)
        workers.push(session, 0, [3.0, 1.0])
        session.run(workers.close_round)
        assert session.run(workers.w).tolist() == [3, 1]
        assert session.run(average.average(w)).tolist() == [2, 0]


def test_the_order_of_arguments_of_tensorflow_0_is_understood() -> None:
    inner = tf.train.GradientDescentOptimizer(0.1)
    average = tf.train.ExponentialMovingAverage(0.5)
    w = tf.Variable(1.0)
    by_name = tf.train.SyncReplicasOptimizer(
        inner, replicas_to_aggregate=2, total_num_replicas=3, replica_id=1, name="mnist"
    )
    assert (by_name._total_num_replicas, by_name.get_name()) == (3, "mnist")
    without = tf.train.SyncReplicasOptimizer(inner, 2, None, None, 1, 3)
    assert (without._total_num_replicas, without.get_name()) == (3, "sync_replicas")
    assert (without._variable_averages, without._replica_id) == (None, 1)
    old = tf.train.SyncReplicasOptimizer(inner, 2, average, [w], 1, 0, True, "mnist")
    assert (old._variable_averages, old._variables_to_average) == (average, [w])
    assert (old._total_num_replicas, old._use_locking, old.get_name()) == (2, True, "mnist")


def test_a_chief_without_the_hook_looks_whether_rounds_are_whole_too() -> None:
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
    step = tf.train.get_or_create_global_step()
    optimizer.minimize(tf.reduce_sum(tf.Variable([1.0])), global_step=step)
    for _ in range(2):
        optimizer.get_chief_queue_runner()
        assert len(step.graph.get_collection(live_model.CHECKS)) == 1


def test_calls_in_the_wrong_order_are_refused() -> None:
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2)
    w = tf.Variable([1.0])
    for call in (
        optimizer.get_chief_queue_runner,
        optimizer.get_init_tokens_op,
        optimizer.get_leave_op,
        optimizer.get_clean_up_op,
    ):
        with pytest.raises(ValueError, match="should be called after apply_gradients"):
            call()
    with pytest.raises(ValueError, match="should be called before using the hook"):
        optimizer.make_session_run_hook(True).begin()
    with pytest.raises(ValueError, match="Must supply at least one variable"):
        optimizer.apply_gradients([], tf.train.get_or_create_global_step())
    with pytest.raises(ValueError, match="Global step is required to check staleness"):
        optimizer.minimize(tf.reduce_sum(w))
    with pytest.raises(ValueError, match="replicas_to_aggregate must be positive"):
        tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 0)


def test_a_worker_device_may_end_in_a_device() -> None:
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0/cpu:0")
    with tf.Graph().as_default(), tf.device(setter):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [2])
        b = tf.get_variable("b", [])
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 1, 1)
        train = optimizer.minimize(tf.reduce_sum(w) + b, global_step=step)
        assert train.graph.get_operations()
