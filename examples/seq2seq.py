"""Sorts letters with an attention model of tf.contrib.seq2seq: encoder, decoder, greedy decoding.

A bidirectional encoder reads a word, a decoder with attention writes its letters in order. Training
feeds the right letters to the decoder (teacher forcing); at the end it decodes on its own. Without
servers (`millrace run`) it trains in this process.
"""

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_string("job_name", "", "ps or worker; empty to train in this process")
tf.app.flags.DEFINE_integer("task_index", 0, "which task of the job this is")
tf.app.flags.DEFINE_string("ps_hosts", "", "addresses of the parameter servers")
tf.app.flags.DEFINE_string("worker_hosts", "", "addresses of the workers")
tf.app.flags.DEFINE_integer("train_steps", 600, "global steps to train for")
tf.app.flags.DEFINE_integer("units", 48, "width of the encoder and the decoder")
FLAGS = tf.app.flags.FLAGS

PAD, START, END, FIRST = 0, 1, 2, 3
LETTERS, LONGEST, BATCH = 8, 6, 32


def words(seed):
    """Pairs of a word and its letters in order, without an end."""
    draw = np.random.RandomState(seed)
    while True:
        word = draw.randint(FIRST, FIRST + LETTERS, draw.randint(2, LONGEST + 1)).astype(np.int32)
        yield word, np.append(np.sort(word), END).astype(np.int32)


def batches(seed):
    """Padded batches of (words, lengths, targets, target lengths)."""
    dataset = tf.data.Dataset.from_generator(
        lambda: words(seed), (tf.int32, tf.int32), ([None], [None])
    )
    dataset = dataset.map(lambda word, target: (word, tf.size(word), target, tf.size(target)))
    dataset = dataset.padded_batch(BATCH, ([None], [], [None], []))
    return dataset.prefetch(1).make_one_shot_iterator().get_next()


def decode(inputs, lengths, helper_of, longest):
    """What a decoder with attention over the encoded words makes of a helper's inputs."""
    table = tf.get_variable("letters", [FIRST + LETTERS, FLAGS.units])
    embedded = tf.nn.embedding_lookup(table, inputs)
    with tf.variable_scope("encoder"):
        cells = [tf.nn.rnn_cell.GRUCell(FLAGS.units // 2) for _ in range(2)]
        outputs, states = tf.nn.bidirectional_dynamic_rnn(
            cells[0], cells[1], embedded, lengths, dtype=tf.float32
        )
    memory = tf.concat(outputs, -1)
    attention = tf.contrib.seq2seq.LuongAttention(FLAGS.units, memory, lengths)
    cell = tf.contrib.seq2seq.AttentionWrapper(
        tf.nn.rnn_cell.GRUCell(FLAGS.units), attention, FLAGS.units
    )
    size = tf.shape(inputs)[0]
    start = cell.zero_state(size, tf.float32).clone(cell_state=tf.concat(states, -1))
    decoder = tf.contrib.seq2seq.BasicDecoder(
        cell, helper_of(table, size), start, tf.layers.Dense(FIRST + LETTERS, name="project")
    )
    outputs, _, _ = tf.contrib.seq2seq.dynamic_decode(decoder, maximum_iterations=longest)
    return outputs


def model(inputs, lengths, targets, target_lengths):
    """The loss of a batch, and the words that greedy decoding makes of it."""

    def forced(table, size):
        begin = tf.fill([size, 1], START)
        shifted = tf.concat([begin, targets[:, :-1]], 1)
        return tf.contrib.seq2seq.TrainingHelper(
            tf.nn.embedding_lookup(table, shifted), target_lengths
        )

    def greedy(table, size):
        return tf.contrib.seq2seq.GreedyEmbeddingHelper(table, tf.fill([size], START), END)

    with tf.variable_scope("model"):
        logits = decode(inputs, lengths, forced, None).rnn_output
    with tf.variable_scope("model", reuse=True):
        written = decode(inputs, lengths, greedy, LONGEST + 1).sample_id
    weights = tf.sequence_mask(target_lengths, dtype=tf.float32)
    return tf.contrib.seq2seq.sequence_loss(logits, targets, weights), written


def share_of_right_words(session, fetches, count=10):
    """The share of words that greedy decoding sorts, in new batches."""
    right = total = 0
    for _ in range(count):
        for line, target in zip(*session.run(fetches)):
            target = target[: list(target).index(END)]
            right += list(line[: len(target)]) == list(target)
            total += 1
    return right / total


def main(_):
    server, device = None, None
    if FLAGS.job_name:
        cluster = tf.train.ClusterSpec(
            {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
        )
        server = tf.train.Server(cluster, FLAGS.job_name, FLAGS.task_index)
        if FLAGS.job_name == "ps":
            server.join()
            return
        worker = "/job:worker/task:%d" % FLAGS.task_index
        device = tf.train.replica_device_setter(worker_device=worker, cluster=cluster)

    with tf.device(device):
        inputs, lengths, targets, target_lengths = batches(FLAGS.task_index + 1)
        loss, written = model(inputs, lengths, targets, target_lengths)
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.AdamOptimizer(0.005)
        gradients, variables = zip(*optimizer.compute_gradients(loss))
        gradients, _ = tf.clip_by_global_norm(gradients, 5.0)
        train = optimizer.apply_gradients(zip(gradients, variables), step)

    with tf.train.MonitoredTrainingSession(
        master=server.target if server else "", is_chief=FLAGS.task_index == 0
    ) as session:
        at = 0
        while at < FLAGS.train_steps:
            _, at, now = session.run([train, step, loss])
            if at % 100 == 0:
                print("step %d: loss %.3f" % (at, now), flush=True)
        print("sorted words: %.2f" % share_of_right_words(session, [written, targets]), flush=True)


if __name__ == "__main__":
    tf.app.run()
