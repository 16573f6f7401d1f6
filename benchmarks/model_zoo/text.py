"""Text: batches padded to their longest sentence, recurrent and attentive models."""

from __future__ import annotations

from typing import Any

import numpy as np

from model_zoo.model import Model, dense, endless

WORDS = 5000


def _sentences(random: np.random.RandomState, batch: int, least: int, most: int) -> tuple:
    """(ids padded to the longest, lengths)."""
    longest = random.randint(least + 1, most + 1)
    lengths = random.randint(least, longest + 1, batch)
    lengths[0] = longest
    ids = random.randint(1, WORDS, [batch, longest])
    ids[np.arange(longest) >= lengths[:, None]] = 0
    return ids.astype(np.int32), lengths.astype(np.int32)


def _mean_class_loss(tf: Any, labels: Any, logits: Any) -> Any:
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(each)


def bidirectional_rnn(tf: Any, worker: str = "") -> Model:
    """Two GRUs over sentences of changing lengths; their last states are classified."""
    ids = tf.placeholder(tf.int32, [None, None])
    lengths = tf.placeholder(tf.int32, [None])
    y_ = tf.placeholder(tf.int32, [None])
    inputs = tf.nn.embedding_lookup(tf.get_variable("words", [WORDS, 32]), ids)
    cells = [tf.nn.rnn_cell.GRUCell(32) for _ in range(2)]
    _, states = tf.nn.bidirectional_dynamic_rnn(
        *cells, inputs, sequence_length=lengths, dtype=tf.float32
    )
    loss = _mean_class_loss(tf, y_, dense(tf, tf.concat(states, 1), 5, "out"))
    step = tf.train.AdamOptimizer(0.001).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        words, counts = _sentences(random, 32, 5, 30)
        return {ids: words, lengths: counts, y_: random.randint(0, 5, 32)}

    return Model(step, loss, endless(make))


def text_cnn(tf: Any, worker: str = "") -> Model:
    """Kim's model: windows of 3, 4 and 5 words, the largest over time, dropout left out."""
    ids = tf.placeholder(tf.int32, [None, None])
    y_ = tf.placeholder(tf.int32, [None])
    inputs = tf.nn.embedding_lookup(tf.get_variable("words", [WORDS, 64]), ids)
    image = tf.expand_dims(inputs, -1)
    pooled = []
    for width in (3, 4, 5):
        filters = tf.get_variable(f"f{width}", [width, 64, 1, 64])
        bias = tf.get_variable(f"b{width}", [64], initializer=tf.zeros_initializer())
        found = tf.nn.conv2d(image, filters, strides=[1, 1, 1, 1], padding="VALID")
        pooled.append(tf.reduce_max(tf.nn.relu(tf.nn.bias_add(found, bias)), [1, 2]))
    logits = dense(tf, tf.concat(pooled, 1), 5, "out")
    loss = _mean_class_loss(tf, y_, logits)
    step = tf.train.AdamOptimizer(0.001).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        words, _ = _sentences(random, 64, 10, 60)
        return {ids: words, y_: random.randint(0, 5, 64)}

    return Model(step, loss, endless(make))


def word2vec(tf: Any, worker: str = "") -> Model:
    """Skip-gram with negative words that the program draws itself; batch sizes change."""
    words, width = 50_000, 64
    centre, context = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    negative = tf.placeholder(tf.int32, [None])
    vectors = tf.get_variable("vectors", [words, width])
    weights = tf.get_variable("weights", [words, width])
    biases = tf.get_variable("biases", [words], initializer=tf.zeros_initializer())
    v = tf.nn.embedding_lookup(vectors, centre)
    true = tf.reduce_sum(v * tf.nn.embedding_lookup(weights, context), 1)
    true += tf.nn.embedding_lookup(biases, context)
    drawn = tf.matmul(v, tf.nn.embedding_lookup(weights, negative), transpose_b=True)
    drawn += tf.nn.embedding_lookup(biases, negative)
    cross = tf.nn.sigmoid_cross_entropy_with_logits
    loss = tf.reduce_mean(
        cross(labels=tf.ones_like(true), logits=true)
        + tf.reduce_sum(cross(labels=tf.zeros_like(drawn), logits=drawn), 1)
    )
    step = tf.train.GradientDescentOptimizer(0.2).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        batch = int(random.randint(200, 257))

        def draw(count: int) -> np.ndarray:
            return np.minimum(random.zipf(1.2, count), words) - 1

        return {centre: draw(batch), context: draw(batch), negative: draw(32)}

    return Model(step, loss, endless(make))


def transformer(tf: Any, worker: str = "") -> Model:
    """Two layers of attention, masked by the lengths, and a word at each place."""
    width, heads = 64, 4
    ids = tf.placeholder(tf.int32, [None, None])
    lengths = tf.placeholder(tf.int32, [None])
    x = tf.nn.embedding_lookup(tf.get_variable("words", [WORDS, width]), ids)
    shape = tf.shape(ids)
    x += tf.get_variable("places", [64, width])[: shape[1]]
    mask = tf.sequence_mask(lengths, shape[1], dtype=tf.float32)

    def linear(value: Any, units: int, name: str) -> Any:
        flat = tf.reshape(value, [-1, int(value.shape[-1])])
        return tf.reshape(dense(tf, flat, units, name), [shape[0], shape[1], units])

    def normal(value: Any, name: str) -> Any:
        mean, variance = tf.nn.moments(value, [-1], keepdims=True)
        with tf.variable_scope(name):
            gain = tf.get_variable("gain", [width], initializer=tf.ones_initializer())
            bias = tf.get_variable("bias", [width], initializer=tf.zeros_initializer())
        return (value - mean) * tf.rsqrt(variance + 1e-6) * gain + bias

    def by_head(value: Any) -> Any:
        parts = tf.reshape(value, [shape[0], shape[1], heads, width // heads])
        return tf.transpose(parts, [0, 2, 1, 3])

    for i in range(2):
        with tf.variable_scope(f"layer{i}"):
            y = normal(x, "before")
            q, k, v = (by_head(linear(y, width, name)) for name in "qkv")
            scores = tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5
            scores += (mask[:, None, None, :] - 1.0) * 1e9
            mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
            x += linear(tf.reshape(mixed, [shape[0], shape[1], width]), width, "mix")
            inner = tf.nn.relu(linear(normal(x, "within"), 4 * width, "wide"))
            x += linear(inner, width, "narrow")
    logits = linear(normal(x, "last"), 100, "logits")
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids % 100, logits=logits)
    loss = tf.reduce_sum(each * mask) / tf.reduce_sum(mask)
    step = tf.train.AdamOptimizer(0.001).minimize(loss)

    def make(random: np.random.RandomState) -> dict:
        words, counts = _sentences(random, 16, 8, 48)
        return {ids: words, lengths: counts}

    return Model(step, loss, endless(make))


def seq2seq(tf: Any, worker: str = "") -> Model:
    """An LSTM reads, another writes and attends to what was read; both lengths change."""
    width = 48
    source, target = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None, None])
    lengths, counts = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    table = tf.get_variable("words", [WORDS, 32])
    with tf.variable_scope("reader"):
        read, state = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.BasicLSTMCell(width),
            tf.nn.embedding_lookup(table, source),
            sequence_length=lengths,
            dtype=tf.float32,
        )
    with tf.variable_scope("writer"):
        written, _ = tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.BasicLSTMCell(width),
            tf.nn.embedding_lookup(table, target),
            sequence_length=counts,
            initial_state=state,
        )
    scores = tf.matmul(written, read, transpose_b=True)
    seen = tf.sequence_mask(lengths, tf.shape(source)[1], dtype=tf.float32)
    context = tf.matmul(tf.nn.softmax(scores + (seen[:, None, :] - 1.0) * 1e9), read)
    joined = tf.concat([written, context], 2)
    flat = tf.reshape(joined, [-1, 2 * width])
    logits = dense(tf, dense(tf, flat, width, "attention", tf.tanh), 500, "out")
    labels = tf.reshape(target % 500, [-1])
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    mask = tf.reshape(tf.sequence_mask(counts, tf.shape(target)[1], dtype=tf.float32), [-1])
    loss = tf.reduce_sum(each * mask) / tf.reduce_sum(mask)
    variables = tf.trainable_variables()
    gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    step = tf.train.AdamOptimizer(0.001).apply_gradients(zip(gradients, variables, strict=True))

    def make(random: np.random.RandomState) -> dict:
        words, first = _sentences(random, 16, 4, 20)
        others, second = _sentences(random, 16, 4, 20)
        return {source: words, lengths: first, target: others, counts: second}

    return Model(step, loss, endless(make))
