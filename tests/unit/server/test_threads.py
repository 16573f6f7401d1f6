"""How many threads XLA gets in a task: the choice, and that XLA takes it."""

import os
import subprocess
import sys

import pytest

import millrace as tf
from millrace.server import threads
from millrace.server.threads import MUCH_WORK


@pytest.mark.parametrize(
    ("cores", "tasks", "same_job", "work", "count"),
    [
        (8, 1, 1, MUCH_WORK, None),  # alone on its machine: XLA's own choice
        (2, 3, 2, 0, 1),
        (2, 2, 1, 0, 1),
        (2, 2, 1, None, 1),  # a ps, which has no graph of its own
        (2, 2, 1, MUCH_WORK, 2),  # the ps waits while the only worker computes
        (2, 4, 2, MUCH_WORK, 1),
        (16, 4, 2, 0, 4),
        (16, 4, 2, MUCH_WORK, 8),
        (1, 3, 2, MUCH_WORK, 1),
    ],
)
def test_tasks_share_the_cores_of_their_machine(cores, tasks, same_job, work, count):
    assert threads.choose(cores, tasks, same_job, work) == count


def test_neighbours_are_the_tasks_on_the_same_machine():
    cluster = tf.train.ClusterSpec(
        {"ps": ["a:1", "b:1"], "worker": ["a:2", "a:3", "localhost:1", "127.0.0.1:2"]}
    )
    assert threads.neighbours(cluster, "worker", "a:2") == (3, 2)
    assert threads.neighbours(cluster, "ps", "b:1") == (1, 1)
    assert threads.neighbours(cluster, "worker", "localhost:1") == (2, 2)


def test_the_largest_product_counts():
    with tf.Graph().as_default() as graph:
        assert threads.largest_product(graph) == 0
        x = tf.placeholder(tf.float32, [100, 784])
        tf.matmul(x, tf.zeros([784, 30]))
        tf.matmul(x, tf.zeros([100, 5]), transpose_a=True)
        assert threads.largest_product(graph) == 100 * 784 * 30
        image = tf.placeholder(tf.float32, [None, 28, 28, 1])
        tf.nn.conv2d(image, tf.zeros([5, 5, 1, 32]), [1, 1, 1, 1], "SAME")
        assert threads.largest_product(graph) == 64 * 28 * 28 * 32 * 25
        tf.matmul(tf.placeholder(tf.float32), tf.placeholder(tf.float32))


PROGRAM = """
import os
import millrace as tf
cluster = {"ps": ["localhost:0"], "worker": ["localhost:1", "localhost:2"]}
server = tf.train.Server(cluster, "ps", 0, config=%s)
server.create_session(tf.get_default_graph(), tf.ConfigProto(device_filters=["/job:ps"]))
with tf.Session() as sess:
    sess.run(tf.matmul(tf.ones([900, 900]), tf.ones([900, 900])))
names = [open(f"/proc/self/task/{t}/comm").read() for t in os.listdir("/proc/self/task")]
print(sum(name.startswith("tf_XLAEigen") for name in names), os.environ.get("PJRT_NPROC"))
server.stop()
"""


@pytest.mark.parametrize(
    ("config", "count"), [("None", 1), ("tf.ConfigProto(intra_op_parallelism_threads=3)", 3)]
)
def test_xla_has_as_many_threads_as_were_chosen(config, count):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM % config],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "XLA_FLAGS": ""},
    )
    expected = max(1, len(os.sched_getaffinity(0)) // 3) if count == 1 else count
    assert done.stdout.split() == [str(expected), "None"], done.stderr
