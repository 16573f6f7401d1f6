"""DeepFM on click logs: a model function over feature columns, tf.data, metrics, one process or
a cluster.

A factorization machine (Guo and others, 2017: "DeepFM") adds to a linear model the products of
the embeddings of all pairs of features, and a deep network on the same embeddings. The clicks are
made up: 4 numbers and 8 columns of ids, of which two have several values a row.
"""

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("model_dir", "/tmp/millrace-deepfm", "checkpoints")
flags.DEFINE_integer("train_steps", 800, "steps of all workers together")
flags.DEFINE_integer("batch_size", 128, "clicks a step")
flags.DEFINE_integer("rows", 20000, "how many there are to learn from")
flags.DEFINE_integer("eval_rows", 1000, "how many there are to evaluate with")
FLAGS = flags.FLAGS

NUMBERS = [f"i{n}" for n in range(4)]
IDS = [f"c{n}" for n in range(8)]
SEVERAL = IDS[-2:]  # columns with one to four values a row
BUCKETS, DIMENSION = 500, 4


def clicks(rows, seed):
    """Serialized Examples of a click log whose ids follow a power law."""
    random = np.random.RandomState(seed)
    taste = np.random.RandomState(0).normal(size=(len(IDS), 200, 2))
    for _ in range(rows):
        numbers = random.gamma(1.0, 1.0, len(NUMBERS))
        values = {name: random.zipf(1.3, random.randint(1, 5)) % 200 for name in SEVERAL}
        values.update({name: random.zipf(1.3, 1) % 200 for name in IDS if name not in SEVERAL})
        likes = np.stack([taste[i, values[name]].mean(0) for i, name in enumerate(IDS)])
        pairs = (likes.sum(0) ** 2 - (likes**2).sum(0)).sum() / 2.0
        score = 0.4 * pairs + likes[:, 0].sum() + numbers[0] - numbers[1]
        example = tf.train.Example()
        feature = example.features.feature
        feature["label"].float_list.value.append(float(score + random.logistic() > 0))
        for name, value in zip(NUMBERS, numbers):
            feature[name].float_list.value.append(value)
        for name in IDS:
            feature[name].bytes_list.value.extend(str(v).encode() for v in values[name])
        yield example.SerializeToString()


def columns():
    fc = tf.feature_column
    numbers = [fc.numeric_column(name, normalizer_fn=tf.log1p) for name in NUMBERS]
    ids = [fc.categorical_column_with_hash_bucket(name, BUCKETS) for name in IDS]
    return numbers, ids


def input_fn(rows, seed, repeat):
    numbers, ids = columns()
    spec = tf.feature_column.make_parse_example_spec(numbers + ids)
    spec["label"] = tf.FixedLenFeature([1], tf.float32)
    log = tf.data.Dataset.from_tensor_slices(list(clicks(rows, seed)))
    if repeat:
        log = log.shuffle(rows, seed=seed).repeat()

    def parse(batch):
        features = tf.parse_example(batch, spec)
        return features, features.pop("label")

    return log.batch(FLAGS.batch_size).map(parse).prefetch(2)


def model_fn(features, labels, mode, config):
    numbers, ids = columns()
    fc = tf.feature_column
    spread = tf.min_max_variable_partitioner(max_partitions=max(1, config.num_ps_replicas))
    with tf.variable_scope("linear", partitioner=spread):
        linear = fc.linear_model(features, numbers + ids)
    embedded = {}
    with tf.variable_scope("fm", partitioner=spread):
        start = tf.truncated_normal_initializer(stddev=0.01)
        tables = [fc.embedding_column(column, DIMENSION, initializer=start) for column in ids]
        fc.input_layer(features, tables, cols_to_output_tensors=embedded)
    fields = tf.stack([embedded[table] for table in tables], axis=1)
    total = tf.reduce_sum(fields, axis=1)
    pairs = 0.5 * (tf.square(total) - tf.reduce_sum(tf.square(fields), axis=1))
    with tf.variable_scope("deep"):
        dense = fc.input_layer(features, numbers)
        net = tf.concat([tf.reshape(fields, [-1, len(IDS) * DIMENSION]), dense], axis=1)
        for units in (32, 16):
            net = tf.layers.dense(net, units, activation=tf.nn.relu)
        deep = tf.layers.dense(net, 1)
    logits = linear + tf.reduce_sum(pairs, axis=1, keepdims=True) + deep
    head = tf.contrib.estimator.binary_classification_head()
    return head.create_estimator_spec(
        features, mode, logits, labels=labels, optimizer=tf.train.AdamOptimizer(0.01)
    )


def main(_):
    tf.logging.set_verbosity(tf.logging.INFO)
    config = tf.estimator.RunConfig(tf_random_seed=1, save_checkpoints_steps=400)
    model = tf.estimator.Estimator(model_fn, FLAGS.model_dir, config)
    tf.estimator.train_and_evaluate(
        model,
        tf.estimator.TrainSpec(lambda: input_fn(FLAGS.rows, 1, True), FLAGS.train_steps),
        tf.estimator.EvalSpec(
            lambda: input_fn(FLAGS.eval_rows, 2, False),
            steps=None,
            start_delay_secs=0,
            throttle_secs=0,
        ),
    )


if __name__ == "__main__":
    tf.app.run(main)
