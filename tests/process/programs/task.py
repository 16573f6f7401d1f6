"""A task of a cluster: ``task.py job index cluster.json program protocol [file]``.

A ps serves until it is stopped. A worker says what happens, a line each, so that a test follows:
``step N``, ``error Class text``, ``session``.
"""

import ctypes
import json
import sys
import time
from pathlib import Path
from typing import Any

import millrace as tf

#: Longer than it takes to give up a task that is stopped.
HELD_MICROSECONDS = 5_000_000


def say(*words: object) -> None:
    print(*words, flush=True)


def compute(value: Any) -> Any:
    """A gradient that is ready when a file is there."""
    say("computes")
    if sys.argv[6] == "hold the interpreter":
        ctypes.PyDLL(None).usleep(HELD_MICROSECONDS)  # PyDLL does not let go of it, as CDLL does.
        return value * 0 + 1
    while not Path(sys.argv[6]).exists():
        time.sleep(0.01)
    return value * 0 + 1


def asked_again(sess: Any, ready: Any) -> str:
    """What a session that met a fault says once the lost task is back."""
    while True:
        try:
            sess.run(ready)
            return "fine"
        except tf.errors.UnavailableError:
            time.sleep(0.02)
        except tf.errors.OpError as error:
            return type(error).__name__


def count(server: Any) -> None:
    """Trains variables on two ps, one more in each step, to the number in the arguments."""
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
        a = tf.get_variable("a", initializer=tf.zeros([3]))
    with tf.device("/job:ps/task:1"):
        b = tf.get_variable("b", initializer=tf.zeros([3]))
    loss = -tf.reduce_sum(a) - tf.reduce_sum(b)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
    last = int(sys.argv[6])
    hooks = [tf.train.StopAtStepHook(last_step=last)]
    with tf.train.MonitoredTrainingSession(server.target, True, hooks=hooks) as sess:
        while not sess.should_stop():
            _, done = sess.run([train, step])
            say("step", done)
            time.sleep(0.005)
    with tf.Session(server.target) as sess:
        values = sess.run([a, b])
        say("values", *(float(value) for each in values for value in each), sess.run(step))


def main() -> None:
    job, index, cluster, program = (
        sys.argv[1],
        int(sys.argv[2]),
        json.loads(sys.argv[3]),
        sys.argv[4],
    )
    server = tf.train.Server(cluster, job, index, protocol=sys.argv[5] or None)
    say("up")
    if program == "serve":
        server.join()
        say("joined")
        return
    if program == "count":
        count(server)
        return
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(0, name="v")
        queue = tf.FIFOQueue(1, [tf.int32], shared_name="empty")
        taken = queue.dequeue()
    add, ready = v.assign_add(1), tf.is_variable_initialized(v)
    with tf.device(f"/job:worker/task:{index}"):
        doubled = taken * 2
        if program == "gradient":
            add = v.assign_add(tf.py_func(compute, [v + 0], tf.int32))
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    while True:
        with tf.Session(server.target, config=config) as sess:
            say("session")
            try:
                if not sess.run(ready):
                    sess.run(v.initializer)
                say("value", sess.run(v))
                if program == "blocked":
                    say("blocks")
                    sess.run(doubled)
                while True:
                    say("step", sess.run(add))
                    time.sleep(0.02)
            except tf.errors.OpError as error:
                say("error", type(error).__name__, error.message.splitlines()[0])
                say("at last", asked_again(sess, ready))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted")
