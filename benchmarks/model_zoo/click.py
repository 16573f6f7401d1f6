"""Click logs: features with one or several values, tables of rows, sparse updates."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from model_zoo.model import Model, dense, endless, mean_cross_entropy

BATCH = 256


def _bags(random: np.random.RandomState, batch: int, most: int, ids: int) -> tuple:
    """A sparse batch of ids: (indices, values, shape); each row has 1 to `most`."""
    counts = random.randint(1, most + 1, batch)
    rows = np.repeat(np.arange(batch), counts)
    places = np.concatenate([np.arange(n) for n in counts])
    values = np.minimum(random.zipf(1.3, len(rows)), ids) - 1
    return np.stack([rows, places], 1).astype(np.int64), values.astype(np.int64), [batch, most]


def _labels(random: np.random.RandomState, batch: int) -> np.ndarray:
    return random.randint(0, 2, [batch, 1]).astype(np.float32)


def wide_and_deep(tf: Any, worker: str = "") -> Model:
    """Strings hashed into buckets, a cross of two features, a linear and a deep part."""
    names = ["query", "tags", "site"]
    buckets = 20_000
    words = {n: tf.sparse_placeholder(tf.string, name=n) for n in names}
    numbers = tf.placeholder(tf.float32, [None, 13])
    y_ = tf.placeholder(tf.float32, [None, 1])
    wide, deep, columns = [], [numbers], {}
    for name in names:
        given = words[name]
        ids = tf.string_to_hash_bucket_fast(given.values, buckets)
        columns[name] = tf.SparseTensor(given.indices, ids, given.dense_shape)
    columns["cross"] = tf.sparse.cross_hashed([words["query"], words["site"]], buckets)
    with tf.variable_scope("wide"):
        for name, ids in columns.items():
            table = tf.get_variable(name, [buckets, 1], initializer=tf.zeros_initializer())
            wide.append(tf.nn.embedding_lookup_sparse(table, ids, None, combiner="sum"))
        bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    with tf.variable_scope("deep"):
        for name in names:
            table = tf.get_variable(name, [buckets, 16])
            found = tf.nn.embedding_lookup_sparse(table, columns[name], None, combiner="mean")
            deep.append(found)
        hidden = tf.concat(deep, 1)
        hidden.set_shape([None, 13 + 16 * len(names)])
        for i, width in enumerate((128, 64)):
            hidden = dense(tf, hidden, width, f"layer{i}", tf.nn.relu)
        logits = dense(tf, hidden, 1, "logits")
    loss = mean_cross_entropy(tf, y_, logits + tf.add_n(wide) + bias)
    linear = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "wide")
    others = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "deep")
    step = tf.group(
        tf.train.FtrlOptimizer(0.05, l1_regularization_strength=0.001).minimize(
            loss, var_list=linear
        ),
        tf.train.AdagradOptimizer(0.05).minimize(loss, var_list=others),
    )

    def make(random: np.random.RandomState) -> dict:
        feed: dict = {numbers: random.rand(BATCH, 13), y_: _labels(random, BATCH)}
        for name, most in zip(names, (6, 4, 1), strict=True):
            indices, values, shape = _bags(random, BATCH, most, 50_000)
            texts = np.array([b"%s-%d" % (name.encode(), v) for v in values], object)
            feed[words[name]] = (indices, texts, shape)
        return feed

    return Model(step, loss, endless(make))


def deepfm(tf: Any, worker: str = "") -> Model:
    """Factorisation machine and MLP over 26 fields; six of them have 1 to 9 values."""
    fields, several, ids, width = 26, 6, 10_000, 8
    single = tf.placeholder(tf.int64, [None, fields - several])
    bags = [tf.sparse_placeholder(tf.int64) for _ in range(several)]
    y_ = tf.placeholder(tf.float32, [None, 1])
    linear, rows = [], []
    for i in range(fields):
        w = tf.get_variable(f"w{i}", [ids, 1], initializer=tf.zeros_initializer())
        v = tf.get_variable(f"v{i}", [ids, width])
        if i < several:
            linear.append(tf.nn.embedding_lookup_sparse(w, bags[i], None, combiner="sum"))
            rows.append(tf.nn.embedding_lookup_sparse(v, bags[i], None, combiner="mean"))
        else:
            linear.append(tf.nn.embedding_lookup(w, single[:, i - several]))
            rows.append(tf.nn.embedding_lookup(v, single[:, i - several]))
    stacked = tf.stack(rows, 1)
    total = tf.reduce_sum(stacked, 1)
    pairs = tf.square(total) - tf.reduce_sum(tf.square(stacked), 1)
    second = 0.5 * tf.reduce_sum(pairs, 1, keepdims=True)
    hidden = tf.reshape(stacked, [-1, fields * width])
    for i, units in enumerate((128, 64)):
        hidden = dense(tf, hidden, units, f"layer{i}", tf.nn.relu)
    loss = mean_cross_entropy(tf, y_, tf.add_n(linear) + second + dense(tf, hidden, 1, "out"))
    step = tf.train.AdagradOptimizer(0.05).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        feed: dict = {b: _bags(random, BATCH, 9, ids) for b in bags}
        feed[single] = np.minimum(random.zipf(1.2, [BATCH, fields - several]), ids) - 1
        feed[y_] = _labels(random, BATCH)
        return feed

    return Model(step, loss, endless(make))


def dlrm(tf: Any, worker: str = "") -> Model:
    """Dense features through an MLP, bags of ids, products of all pairs, a second MLP."""
    tables, ids, width = 8, 50_000, 16
    x = tf.placeholder(tf.float32, [None, 13])
    bags = [tf.sparse_placeholder(tf.int64) for _ in range(tables)]
    y_ = tf.placeholder(tf.float32, [None, 1])
    bottom = dense(tf, dense(tf, x, 64, "b0", tf.nn.relu), width, "b1", tf.nn.relu)
    found = [bottom]
    for i, bag in enumerate(bags):
        table = tf.get_variable(f"table{i}", [ids, width])
        found.append(tf.nn.safe_embedding_lookup_sparse(table, bag, combiner="sum"))
    stacked = tf.stack(found, 1)
    products = tf.matmul(stacked, stacked, transpose_b=True)
    count = tables + 1
    pairs = [i * count + j for i in range(count) for j in range(i)]
    chosen = tf.gather(tf.reshape(products, [-1, count * count]), pairs, axis=1)
    top = tf.concat([bottom, chosen], 1)
    top.set_shape([None, width + len(pairs)])
    logits = dense(tf, dense(tf, top, 64, "t0", tf.nn.relu), 1, "t1")
    loss = mean_cross_entropy(tf, y_, logits)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        feed: dict = {b: _bags(random, BATCH, 5, ids) for b in bags}
        feed.update({x: random.rand(BATCH, 13), y_: _labels(random, BATCH)})
        return feed

    return Model(step, loss, endless(make))


def embedding_mlp(tf: Any, worker: str = "") -> Model:
    """Rows of a table concatenated, not averaged; the last batch of an epoch is smaller."""
    ids = tf.placeholder(tf.int64, [None, 20])
    y_ = tf.placeholder(tf.float32, [None, 1])
    table = tf.get_variable("table", [200_000, 16])
    flat = tf.reshape(tf.nn.embedding_lookup(table, ids), [-1, 20 * 16])
    hidden = dense(tf, dense(tf, flat, 128, "l0", tf.nn.relu), 64, "l1", tf.nn.relu)
    loss = mean_cross_entropy(tf, y_, dense(tf, hidden, 1, "out"))
    step = tf.train.AdagradOptimizer(0.1).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        batch = BATCH if random.randint(10) else random.randint(1, BATCH)
        chosen = np.minimum(random.zipf(1.2, [batch, 20]), 200_000) - 1
        return {ids: chosen, y_: _labels(random, batch)}

    return Model(step, loss, endless(make))


def matrix_factorisation(tf: Any, worker: str = "") -> Model:
    """Users times items with biases; Adam over whole tables' rows that a batch has."""
    users, items, width = 1_000_000, 100_000, 32

    def table(name: str, rows: int) -> Any:
        # A formula, since numbers at random are not the same in both libraries.
        first = tf.sin(tf.range(rows * width, dtype=tf.float32)) * 0.1
        return tf.get_variable(name, initializer=lambda: tf.reshape(first, [rows, width]))

    user, item = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.int64, [None])
    rating = tf.placeholder(tf.float32, [None])
    p = tf.nn.embedding_lookup(table("users", users), user)
    q = tf.nn.embedding_lookup(table("items", items), item)
    error = tf.reduce_sum(p * q, 1) - rating
    loss = tf.reduce_mean(tf.square(error)) + 0.01 * (tf.nn.l2_loss(p) + tf.nn.l2_loss(q)) / 1000.0
    step = tf.train.AdamOptimizer(0.001).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        batch = 1024 if random.randint(10) else random.randint(1, 1024)
        return {
            user: random.randint(0, users, batch),
            item: np.minimum(random.zipf(1.2, batch), items) - 1,
            rating: random.rand(batch).astype(np.float32),
        }

    return Model(step, loss, endless(make))


def records(tf: Any, worker: str = "") -> Model:
    """A queue of files, a reader, batches of serialised examples, parse_example, a small model."""
    path = os.path.join(tempfile.mkdtemp(), "examples.tfrecord")
    random = np.random.RandomState(0)
    with tf.python_io.TFRecordWriter(path) as writer:
        for _ in range(2000):
            count = random.randint(1, 8)
            feature = {
                "ids": _int64s(tf, random.randint(0, 5000, count)),
                "numbers": tf.train.Feature(
                    float_list=tf.train.FloatList(value=random.rand(16).tolist())
                ),
                "label": _int64s(tf, [int(random.randint(2))]),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    with tf.device(worker):
        names = tf.train.string_input_producer([path], shuffle=False)
        _, serialized = tf.TFRecordReader().read(names)
        batch = tf.train.batch([serialized], 64, num_threads=1, capacity=256)
        parsed = tf.parse_example(
            batch,
            {
                "ids": tf.VarLenFeature(tf.int64),
                "numbers": tf.FixedLenFeature([16], tf.float32),
                "label": tf.FixedLenFeature([1], tf.int64),
            },
        )
    table = tf.get_variable("table", [5000, 16])
    bag = tf.nn.embedding_lookup_sparse(table, parsed["ids"], None, combiner="mean")
    bag.set_shape([None, 16])
    hidden = dense(tf, tf.concat([bag, parsed["numbers"]], 1), 64, "layer", tf.nn.relu)
    loss = mean_cross_entropy(tf, tf.cast(parsed["label"], tf.float32), dense(tf, hidden, 1, "out"))
    step = tf.train.AdagradOptimizer(0.05).minimize(loss)
    return Model(step, loss, endless(lambda _: {}))


def _int64s(tf: Any, values: Any) -> Any:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))
