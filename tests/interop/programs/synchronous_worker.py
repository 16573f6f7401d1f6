"""A worker of synchronous training, written for `tensorflow` and `millrace` alike.

Usage: synchronous_worker.py MODULE CLUSTER_AS_JSON TASK ROUNDS
"""

import json
import sys

import numpy as np

module, addresses, task, rounds = (
    sys.argv[1],
    json.loads(sys.argv[2]),
    int(sys.argv[3]),
    int(sys.argv[4]),
)
if module == "tensorflow":
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
else:
    import millrace as tf

count = len(addresses["worker"])
setter = tf.train.replica_device_setter(
    worker_device=f"/job:worker/task:{task}", cluster=tf.train.ClusterSpec(addresses)
)
# Apart from what other programs keep on these tasks.
with tf.container("mixed_synchronous_training"), tf.device(setter):
    step = tf.train.get_or_create_global_step()
    kernel = tf.get_variable("kernel", [3, 1], initializer=tf.zeros_initializer())
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    x = tf.placeholder(tf.float32, [8, 3])
    y = tf.placeholder(tf.float32, [8, 1])
    loss = tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y))
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.AdamOptimizer(0.2), count)
    train = optimizer.minimize(loss, global_step=step)
    # Without tokens at first, no worker can fill a round on its own.
    hook = optimizer.make_session_run_hook(task == 0, num_tokens=0)

random = np.random.RandomState(task)
truth = np.array([[1.0], [2.0], [3.0]])
batches, value = 0, float("nan")
with tf.train.MonitoredTrainingSession(
    master=f"grpc://{addresses['worker'][task]}",
    is_chief=task == 0,
    hooks=[hook, tf.train.StopAtStepHook(last_step=rounds)],
    stop_grace_period_secs=1,
) as session:
    while not session.should_stop():
        batch = random.randn(8, 3)
        _, value = session.run([train, loss], {x: batch, y: batch @ truth})
        batches += 1
print(json.dumps({"batches": batches, "loss": float(value)}))
