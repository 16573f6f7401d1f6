"""Who will click? A small model learns a click log that tf.data reads from CSV or Parquet.

Every worker reads its own share of the rows; embeddings are on the parameter servers. Without
servers (`millrace run`) it trains in this process. The log is made up, with a rule to be found:
users click on items of their own taste.
"""

import os
import tempfile

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("job_name", "", "ps or worker; empty to train in this process")
tf.app.flags.DEFINE_integer("task_index", 0, "which task of the job this is")
tf.app.flags.DEFINE_string("ps_hosts", "", "addresses of the parameter servers")
tf.app.flags.DEFINE_string("worker_hosts", "", "addresses of the workers")
tf.app.flags.DEFINE_string("format", "csv", "csv or parquet")
tf.app.flags.DEFINE_integer("train_steps", 600, "global steps to train for")
tf.app.flags.DEFINE_integer("rows", 20000, "rows of the click log")
FLAGS = tf.app.flags.FLAGS

USERS, ITEMS, TASTES, BATCH = 200, 100, 5, 128


def click_log(rows):
    """Columns of a made-up click log."""
    draw = np.random.RandomState(3)
    user, item = draw.randint(0, USERS, rows), draw.randint(0, ITEMS, rows)
    likes = user % TASTES == item % TASTES
    clicked = (draw.rand(rows) < np.where(likes, 0.95, 0.05)).astype(np.int64)
    hour = draw.rand(rows).astype(np.float32)
    return {"user": user, "item": item, "hour": hour, "clicked": clicked}


def write_log(folder):
    """Writes the log, and returns its name."""
    columns = click_log(FLAGS.rows)
    path = os.path.join(folder, "clicks." + FLAGS.format)
    if FLAGS.format == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        return path
    with open(path, "w") as table:
        table.write(",".join(columns) + "\n")
        for row in zip(*columns.values()):
            table.write(",".join(str(value) for value in row) + "\n")
    return path


def batches(path, shard, shards):
    """Batches of (features, labels), without an end, of one worker's share of the rows."""
    if FLAGS.format == "parquet":
        dataset = tf.data.experimental.ParquetDataset(path)
    else:
        defaults = [tf.int64, tf.int64, tf.float32, tf.int64]
        rows = tf.data.experimental.CsvDataset(path, defaults, header=True)
        dataset = rows.map(lambda u, i, h, c: {"user": u, "item": i, "hour": h, "clicked": c})
    dataset = dataset.shard(shards, shard).shuffle(5000).repeat().batch(BATCH)

    def with_label(columns):
        label = tf.cast(columns.pop("clicked"), tf.float32)
        return columns, label

    return dataset.map(with_label).prefetch(2)


def click_logits(features):
    """How likely each row is a click."""
    user = tf.get_variable("users", [USERS, 8], initializer=tf.random_normal_initializer(0, 0.3))
    item = tf.get_variable("items", [ITEMS, 8], initializer=tf.random_normal_initializer(0, 0.3))
    together = tf.nn.embedding_lookup(user, features["user"]) * tf.nn.embedding_lookup(
        item, features["item"]
    )
    bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    by_hour = tf.get_variable("by_hour", [1], initializer=tf.zeros_initializer())
    return tf.reduce_sum(together, axis=1) + bias + by_hour * features["hour"]


def train(target, device, chief, shard, shards):
    """Trains, and says how often the model is right in the end."""
    with tempfile.TemporaryDirectory() as folder, tf.device(device):
        dataset = batches(write_log(folder), shard, shards)
        features, labels = dataset.make_one_shot_iterator().get_next()
        logits = click_logits(features)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
        right = tf.reduce_mean(tf.cast(tf.equal(logits > 0, labels > 0.5), tf.float32))
        step = tf.train.get_or_create_global_step()
        update = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=step)
        hooks = [tf.train.StopAtStepHook(last_step=FLAGS.train_steps)]
        seen = []
        with tf.train.MonitoredTrainingSession(target, is_chief=chief, hooks=hooks) as session:
            while not session.should_stop():
                seen.append(session.run([update, right])[1])
    print("accuracy of the last batches: %.3f" % np.mean(seen[-20:]))


def main(_):
    if not FLAGS.job_name:
        train("", None, True, 0, 1)
        return
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    worker = "/job:worker/task:%d" % FLAGS.task_index
    device = tf.train.replica_device_setter(cluster=cluster, worker_device=worker)
    workers = cluster.num_tasks("worker")
    train(server.target, device, FLAGS.task_index == 0, FLAGS.task_index, workers)


if __name__ == "__main__":
    tf.app.run()
