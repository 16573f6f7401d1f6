"""A task of a cluster: ``task.py job index cluster.json [program]``.

A ps serves until it is stopped. A worker says what happens, a line each, so that a test follows:
``step N``, ``error Class text``, ``session``.
"""

import json
import sys
import time

import millrace as tf


def say(*words: object) -> None:
    print(*words, flush=True)


def main() -> None:
    job, index, cluster, program = (
        sys.argv[1],
        int(sys.argv[2]),
        json.loads(sys.argv[3]),
        sys.argv[4],
    )
    server = tf.train.Server(cluster, job, index)
    say("up")
    if program == "serve":
        server.join()
        say("joined")
        return
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(0, name="v")
        queue = tf.FIFOQueue(1, [tf.int32], shared_name="empty")
        taken = queue.dequeue()
    add, ready = v.assign_add(1), tf.is_variable_initialized(v)
    with tf.device(f"/job:worker/task:{index}"):
        doubled = taken * 2
    config = tf.ConfigProto(device_filters=["/job:ps", f"/job:worker/task:{index}"])
    while True:
        with tf.Session(server.target, config=config) as sess:
            say("session")
            try:
                if not sess.run(ready):
                    sess.run(v.initializer)
                if program == "blocked":
                    say("blocks")
                    sess.run(doubled)
                while True:
                    say("step", sess.run(add))
                    time.sleep(0.02)
            except tf.errors.OpError as error:
                say("error", type(error).__name__, error.message.splitlines()[0])
                while isinstance(error, tf.errors.UnavailableError):
                    # The old session: until the task is back, and then it is another one.
                    try:
                        sess.run(add)
                    except tf.errors.OpError as other:
                        error = other
                    time.sleep(0.02)
                say("at last", type(error).__name__)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        say("interrupted")
