"""WorkerService's methods that Millrace's own masters do not need, over gRPC."""

import numpy as np
import pytest

import millrace as tf
from millrace.rpc import messages
from millrace.rpc.service import Connection


@pytest.fixture
def ask(cluster):
    """The worker service of a task."""
    made = []

    def connect(job, index=0):
        connection = Connection(cluster[job, index].target.removeprefix("grpc://"))
        made.append(connection)
        return connection.worker()

    yield connect
    for connection in made:
        connection.close()


def run_over_two_tasks(cluster):
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            x = tf.placeholder(tf.float32, [4])
            there = tf.multiply(x, 2, name="there")
        with tf.device("/job:worker/task:0"):
            here = there + 1
        with tf.Session(cluster.target("worker")) as sess:
            return sess.run(here, {x: np.arange(4)})


def steps_of(cluster):
    return list(cluster["worker", 0].worker.transfers._steps)


def test_the_log_of_transfers_is_kept_handed_out_and_cleared(cluster, ask):
    worker = ask("worker")
    run_over_two_tasks(cluster)
    assert steps_of(cluster) == []  # Nobody had asked for it.
    worker.logging(messages.LoggingRequest(enable_rpc_logging=True))
    for _ in range(3):
        run_over_two_tasks(cluster)
    first, second, third = steps_of(cluster)
    answer = worker.logging(messages.LoggingRequest(fetch_step_id=[first, 12345, second]))
    assert [step.step_id for step in answer.step] == [first, second]
    (row,) = answer.step[0].step_stats.dev_stats
    assert row.device == "/job:worker/replica:0/task:0"
    assert row.node_stats[0].node_name == "RecvTensor"
    assert row.node_stats[0].timeline_label.startswith("[16B] ")
    assert "there:0 from /job:ps/replica:0/task:0 to" in row.node_stats[0].timeline_label
    assert steps_of(cluster) == [third]
    worker.logging(messages.LoggingRequest(enable_rpc_logging=True, clear=True))
    assert steps_of(cluster) == []
    worker.logging(messages.LoggingRequest(disable_rpc_logging=True))
    run_over_two_tasks(cluster)
    assert steps_of(cluster) == []


def test_tracing_is_not_there_as_with_tensorflow_and_the_error_says_what_is(ask):
    with pytest.raises(tf.errors.UnimplementedError, match=r"Tracing.*FULL_TRACE"):
        ask("ps").tracing(messages.TracingRequest())
