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
