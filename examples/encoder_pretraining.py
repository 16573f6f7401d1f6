"""Pre-trains a Transformer encoder as BERT is: masked tokens are guessed from both sides.

`--size=base` is BERT's encoder (12 layers, 768 wide, 110 million numbers), `--size=tiny` one that
learns the made-up language below in a minute. The table of tokens and the layers are spread over
the parameter servers by their sizes; every worker reads text of its own.
"""

import collections

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("job_name", "", "ps or worker; empty to train in this process")
tf.app.flags.DEFINE_integer("task_index", 0, "which task of the job this is")
tf.app.flags.DEFINE_string("ps_hosts", "", "addresses of the parameter servers")
tf.app.flags.DEFINE_string("worker_hosts", "", "addresses of the workers")
tf.app.flags.DEFINE_string("size", "tiny", "tiny or base")
tf.app.flags.DEFINE_integer("train_steps", 400, "global steps to train for")
tf.app.flags.DEFINE_integer("batch_size", 16, "sequences per step")
tf.app.flags.DEFINE_float("learning_rate", 0.002, "after the warm-up")
FLAGS = tf.app.flags.FLAGS

Size = collections.namedtuple("Size", "vocabulary length layers width heads inner masked")
SIZES = {
    "tiny": Size(vocabulary=64, length=24, layers=2, width=48, heads=4, inner=96, masked=4),
    "base": Size(
        vocabulary=30522, length=128, layers=12, width=768, heads=12, inner=3072, masked=20
    ),
}
MASK = 0


def sentences(size, seed):
    """Masked sequences of a language in which every token follows from its neighbours."""
    draw = np.random.RandomState(seed)
    tokens = size.vocabulary - 1
    while True:
        walk = draw.randint(tokens) + draw.randint(1, 4) * np.arange(size.length)
        text = (1 + walk % tokens).astype(np.int32)
        places = np.sort(draw.choice(size.length, size.masked, replace=False)).astype(np.int32)
        labels, shown = text[places], text.copy()
        shown[places] = MASK
        yield shown, places, labels


def dense(x, width, name, activation=None):
    """A layer over the last axis, with BERT's initial weights."""
    initial = tf.truncated_normal_initializer(stddev=0.02)
    return tf.layers.dense(x, width, activation, kernel_initializer=initial, name=name)


def gelu(x):
    """The Gaussian error linear unit."""
    return x * 0.5 * (1.0 + tf.erf(x / np.sqrt(2.0)))


def attend(x, size):
    """Self-attention with several heads."""
    per_head = size.width // size.heads

    def heads(name):
        split = tf.reshape(dense(x, size.width, name), [-1, size.length, size.heads, per_head])
        return tf.transpose(split, [0, 2, 1, 3])

    scores = tf.matmul(heads("query"), heads("key"), transpose_b=True) / np.sqrt(per_head)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), heads("value")), [0, 2, 1, 3])
    return dense(tf.reshape(mixed, [-1, size.length, size.width]), size.width, "output")


def encode(tokens, size):
    """The encoder's last layer, and the table of tokens."""
    initial = tf.truncated_normal_initializer(stddev=0.02)
    table = tf.get_variable("tokens", [size.vocabulary, size.width], initializer=initial)
    places = tf.get_variable("places", [size.length, size.width], initializer=initial)
    x = tf.contrib.layers.layer_norm(
        tf.nn.embedding_lookup(table, tokens) + places, begin_norm_axis=-1
    )
    for layer in range(size.layers):
        with tf.variable_scope("layer_%d" % layer):
            x = tf.contrib.layers.layer_norm(x + attend(x, size), begin_norm_axis=-1)
            inner = dense(x, size.inner, "inner", gelu)
            x = tf.contrib.layers.layer_norm(
                x + dense(inner, size.width, "outer"), begin_norm_axis=-1
            )
    return x, table


def masked_loss(tokens, places, labels, size):
    """The mean loss and the share of right guesses over the masked places."""
    x, table = encode(tokens, size)
    picked = tf.batch_gather(x, places)
    guess = tf.contrib.layers.layer_norm(
        dense(picked, size.width, "guess", gelu), begin_norm_axis=-1
    )
    bias = tf.get_variable("bias", [size.vocabulary], initializer=tf.zeros_initializer())
    logits = tf.tensordot(guess, table, [[2], [1]]) + bias
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    right = tf.equal(tf.argmax(logits, -1, output_type=tf.int32), labels)
    return loss, tf.reduce_mean(tf.cast(right, tf.float32))


def main(_):
    size = SIZES[FLAGS.size]
    server, device = None, None
    if FLAGS.job_name:
        cluster = tf.train.ClusterSpec(
            {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
        )
        server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
        if FLAGS.job_name == "ps":
            server.join()
            return
        by_size = tf.contrib.training.GreedyLoadBalancingStrategy(
            cluster.num_tasks("ps"), tf.contrib.training.byte_size_load_fn
        )
        device = tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index,
            cluster=cluster,
            ps_strategy=by_size,
        )

    with tf.device(device):
        dataset = tf.data.Dataset.from_generator(
            lambda: sentences(size, FLAGS.task_index),
            (tf.int32, tf.int32, tf.int32),
            ([size.length], [size.masked], [size.masked]),
        )
        dataset = dataset.batch(FLAGS.batch_size, drop_remainder=True).prefetch(2)
        loss, right = masked_loss(*dataset.make_one_shot_iterator().get_next(), size=size)
        step = tf.train.get_or_create_global_step()
        warm = tf.minimum(1.0, tf.cast(step + 1, tf.float32) / 50.0)
        optimizer = tf.train.AdamOptimizer(FLAGS.learning_rate * warm, beta2=0.98)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        train = optimizer.apply_gradients(zip(gradients, variables), step)

    numbers = sum(variable.shape.num_elements() for variable in tf.trainable_variables())
    print("%d variables, %d numbers" % (len(variables), numbers), flush=True)
    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "", is_chief=FLAGS.task_index == 0
    ) as session:
        at = 0
        while at < FLAGS.train_steps:
            _, at, now, share = session.run([train, step, loss, right])
            if at % 50 == 0 or FLAGS.size == "base":
                print("step %d: loss %.3f, right %.2f" % (at, now, share), flush=True)
    print("worker %d is done" % FLAGS.task_index, flush=True)


if __name__ == "__main__":
    tf.app.run()
