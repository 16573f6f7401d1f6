"""Tensors of more than 2 GiB, which TensorFlow cannot send, pass between tasks.

All such tests are here: each needs some GiB of memory, so they must not run beside each other. What
is sent is pages of zeros but for the ends, which take no memory; whoever receives needs all of it.
"""

import fcntl
import tempfile
from pathlib import Path

import numpy as np
import pytest

import millrace as tf
from tests.cluster.conftest import WAYS

SIZE = (5 << 29) + 3


@pytest.fixture(autouse=True)
def one_at_a_time():
    """Keeps tests of other processes of this run from needing the memory at the same time."""
    with (Path(tempfile.gettempdir()) / "millrace-large-tensors").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def value():
    made = np.zeros(SIZE, np.uint8)
    made[0], made[-1] = 5, 7
    return made


@pytest.mark.parametrize("way", WAYS)
def test_a_tensor_of_two_and_a_half_gibibytes_goes_to_another_task(make_cluster, way, value):
    cluster = make_cluster({"ps": 1, "worker": 1}, way)
    with tf.device("/job:ps/task:0"):
        x = tf.placeholder(tf.uint8, [None])
        ends = tf.stack([x[0], x[-1]])
        size = tf.size(x, out_type=tf.int64)
    with tf.Session(cluster.target("worker")) as sess:
        found, count = sess.run([ends, size], {x: value})
    assert found.tolist() == [5, 7] and count == SIZE


def test_a_feed_that_no_message_can_hold_is_refused_and_the_limit_is_named(make_cluster, value):
    """Between a client and a server in another process: TensorFlow's wire has the limit."""
    cluster = make_cluster({"worker": 1})
    x = tf.placeholder(tf.uint8, [None])
    with tf.Session(cluster.target("worker", remote=True)) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"2684354563 bytes.*2 GiB"):
            sess.run(x[:1], {x: value})
        assert sess.run(x[:1], {x: value[:9]}) == [5]


def test_a_fetch_that_no_message_can_hold_is_refused_and_the_limit_is_named(
    make_cluster, monkeypatch
):
    cluster = make_cluster({"worker": 1})
    two = [tf.zeros([600], tf.uint8), tf.ones([600], tf.uint8)]
    with tf.Session(cluster.target("worker", remote=True)) as sess:
        monkeypatch.setattr("millrace.rpc.wire_limit.MAX_BYTES", 1000)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"1200 bytes.*The step has run"):
            sess.run(two)
        assert sess.run(two[1]).sum() == 600
