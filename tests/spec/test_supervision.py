"""The seeds' sentences about supervised sessions, checkpoints and recovery."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import millrace as tf


def counting_graph() -> tuple[tf.Tensor, tf.Operation]:
    """A model whose step adds one to a variable and to the global step."""
    step = tf.train.get_or_create_global_step()
    w = tf.Variable(0.0, name="w")
    with tf.control_dependencies([w.assign_add(1.0)]):
        train = tf.assign_add(step, 1)
    return step, train


def test_a_hook_stops_at_its_step():
    """000: StopAtStepHook stops the training after the given number of steps."""
    _, train = counting_graph()
    hooks = [tf.train.StopAtStepHook(last_step=7)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
        while not sess.should_stop():
            last = sess.run(train)
    assert last == 7


def test_a_monitored_session_initialises_saves_restores_and_closes(tmp_path):
    """000: MonitoredTrainingSession initialises, restores, saves, and closes when done."""
    for begins_at, ends_at in ((0, 5), (5, 8)):
        with tf.Graph().as_default():
            step, train = counting_graph()
            hooks = [tf.train.StopAtStepHook(last_step=ends_at)]
            with tf.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), hooks=hooks
            ) as sess:
                assert sess.run(step) == begins_at
                while not sess.should_stop():
                    sess.run(train)
            with pytest.raises(RuntimeError, match="closed"):
                sess.run(step)
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-8")


def test_a_monitored_session_closes_when_an_error_occurs():
    """000: ... and closing when done *or an error occurs*."""
    step, train = counting_graph()
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="not good"),
        tf.train.MonitoredTrainingSession() as sess,
    ):
        sess.run(train)
        raise tf.errors.InvalidArgumentError(None, None, "not good")
    with pytest.raises(RuntimeError, match="closed"):
        sess.run(step)


def test_the_chief_makes_the_session_ready_and_the_others_wait(start, tmp_path):
    """001: the chief prepares the session while the other workers wait until it has done so."""
    cluster = start(ps=1, worker=2)
    order: list[str] = []
    ready = threading.Event()

    def work(task: int) -> None:
        with tf.Graph().as_default() as graph:
            setter = tf.train.replica_device_setter(
                worker_device=f"/job:worker/task:{task}", cluster=cluster.spec
            )
            with tf.device(setter):
                step = tf.Variable(0, name="global_step", trainable=False)
                init = tf.global_variables_initializer()
            supervisor = tf.train.Supervisor(
                graph=graph,
                is_chief=task == 0,
                logdir=str(tmp_path),
                init_op=init,
                global_step=step,
                recovery_wait_secs=0.05,
            )
            if task == 0:
                assert ready.wait(60)
                order.append("the chief initialises")
            else:
                ready.set()
            with supervisor.managed_session(cluster.target("worker", task)) as sess:
                assert sess.run(step) == 0
                if task:
                    order.append("the other goes on")

    threads = [threading.Thread(target=work, args=[task], daemon=True) for task in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        assert not thread.is_alive()
    assert order == ["the chief initialises", "the other goes on"]


def test_a_supervisor_restores_from_a_checkpoint(tmp_path):
    """002: the Supervisor takes care of initialisation and of restoring from a checkpoint."""
    for expected in (0, 3):
        with tf.Graph().as_default():
            step, train = counting_graph()
            supervisor = tf.train.Supervisor(
                logdir=str(tmp_path), global_step=step, save_model_secs=600
            )
            sess = supervisor.prepare_or_wait_for_session("")
            assert sess.run(step) == expected
            for _ in range(3):
                sess.run(train)
            supervisor.saver.save(sess, supervisor.save_path, global_step=step)
            assert not supervisor.should_stop()
            supervisor.stop()
            assert supervisor.should_stop()


def test_the_names_of_the_first_releases_still_work():
    """002: ``tf.merge_all_summaries`` and ``tf.initialize_all_variables``."""
    value = tf.Variable(2.0)
    tf.summary.scalar("value", value)
    summaries, init = tf.merge_all_summaries(), tf.initialize_all_variables()
    with tf.Session() as sess:
        sess.run(init)
        assert tf.Summary.FromString(sess.run(summaries)).value[0].simple_value == 2.0


def test_queue_runners_of_a_supervisor_fill_the_input_pipeline(tmp_path):
    """002: ``sv.start_queue_runners(sess)`` starts the input pipelines."""
    numbers = tf.train.range_input_producer(3, num_epochs=1, shuffle=False).dequeue()
    local = tf.local_variables_initializer()
    supervisor = tf.train.Supervisor(logdir=str(tmp_path), local_init_op=local, saver=None)
    with supervisor.managed_session("", start_standard_services=False) as sess:
        supervisor.start_queue_runners(sess)
        assert [int(sess.run(numbers)) for _ in range(3)] == [0, 1, 2]


def test_a_sharded_checkpoint_has_a_file_for_each_ps_task(start, tmp_path):
    """003: with ``sharded=True`` and 3 ps tasks, the checkpoint is written in 3 parts."""
    cluster = start(ps=3, worker=1)
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:0", cluster=cluster.spec
    )
    with tf.device(setter):
        kept = [tf.Variable(np.full(4, i, np.float32)) for i in range(3)]
        saver = tf.train.Saver(sharded=True)
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        prefix = saver.save(sess, str(tmp_path / "model"))
        sess.run([v.assign(tf.zeros_like(v)) for v in kept])
        saver.restore(sess, prefix)
        assert [float(v[0]) for v in sess.run(kept)] == [0.0, 1.0, 2.0]
    parts = sorted(name for name in os.listdir(tmp_path) if ".data-" in name)
    assert parts == [f"model.data-{i:05}-of-00003" for i in range(3)]


def test_checkpoints_go_to_other_file_systems_by_their_address():
    """003: a Saver writes to distributed file systems too (here: fsspec's memory)."""
    kept = tf.Variable([1.0, 2.0])
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        prefix = saver.save(sess, "memory://spec/model")
        sess.run(kept.assign([0.0, 0.0]))
        saver.restore(sess, prefix)
        np.testing.assert_array_equal(sess.run(kept), [1.0, 2.0])


def test_training_goes_on_from_the_checkpoint_when_a_ps_was_replaced(start, servers, tmp_path):
    """003: a ps that failed is restored by the chief from the last checkpoint.

    Seed 000: ``mon_sess.run`` handles the AbortedError of a preempted ps.
    """
    cluster = start(ps=1, worker=1)
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:0", cluster=cluster.spec
    )
    with tf.device(setter):
        _, train = counting_graph()
    hooks = [tf.train.StopAtStepHook(last_step=12)]
    with tf.train.MonitoredTrainingSession(
        cluster.target("worker"),
        checkpoint_dir=str(tmp_path),
        save_checkpoint_steps=5,
        hooks=hooks,
    ) as sess:
        for _ in range(7):
            sess.run(train)
        cluster.servers["ps", 0].stop()
        servers.append(tf.train.Server(cluster.spec, job_name="ps", task_index=0))
        steps = []
        while not sess.should_stop():
            steps.append(int(sess.run(train)))
    assert steps[0] <= 8  # not lost: what was saved; never ahead of what was done
    assert steps == list(range(steps[0], 13))
    assert steps[0] >= 2


def test_a_worker_that_failed_joins_again_without_state(start):
    """003: a worker that is not chief has no state: it connects again and goes on."""
    cluster = start(ps=1, worker=2)
    with tf.device(tf.train.replica_device_setter(cluster=cluster.spec)):
        step, train = counting_graph()
        init = tf.global_variables_initializer()
    with tf.Session(cluster.target("worker", 0)) as chief:
        chief.run(init)
        with tf.Session(cluster.target("worker", 1)) as lost:
            lost.run(train)
        with tf.Session(cluster.target("worker", 1)) as back:
            assert back.run(train) == 2
        assert chief.run(step) == 2
