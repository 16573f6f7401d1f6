"""The seeds' models, trained with every optimizer, on variables of parameter servers."""

import numpy as np
import sites
import tensorflow.compat.v1 as tf

_STEPS = 5

_OPTIMIZERS = {
    "gradient_descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.01),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.01, momentum=0.9),
    "ftrl": lambda: tf.train.FtrlOptimizer(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01
    ),
}
_OTHER_OPTIMIZERS = {
    "nesterov_momentum": lambda: tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "centered_rmsprop": lambda: tf.train.RMSPropOptimizer(0.01, centered=True),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.1),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1),
}


def _digits(count):
    draw = np.random.RandomState(7)
    images = draw.rand(count, 784).astype(np.float32)
    labels = np.eye(10, dtype=np.float32)[draw.randint(10, size=count)]
    return images, labels


def _variable(site, index, value, name, use_resource):
    with site.ps(index):
        return tf.get_variable(name, initializer=value, use_resource=use_resource)


def _mlp(site, use_resource):
    """The network of seed 001: 784-100-10, cross entropy of a clipped softmax."""
    draw = np.random.RandomState(3)
    hid_w = _variable(
        site, 0, (draw.randn(784, 100) / 28).astype(np.float32), "hid_w", use_resource
    )
    hid_b = _variable(site, 1, np.zeros(100, np.float32), "hid_b", use_resource)
    sm_w = _variable(site, 0, (draw.randn(100, 10) / 10).astype(np.float32), "sm_w", use_resource)
    sm_b = _variable(site, 1, np.zeros(10, np.float32), "sm_b", use_resource)
    with site.worker():
        x = tf.placeholder(tf.float32, [None, 784])
        y_ = tf.placeholder(tf.float32, [None, 10])
        hid = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
        y = tf.nn.softmax(tf.nn.xw_plus_b(hid, sm_w, sm_b))
        loss = -tf.reduce_mean(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
        hits = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))
    return x, y_, loss, accuracy


def _train_mlp(site, make_optimizer, use_resource):
    with site.ps():
        step = tf.train.get_or_create_global_step()
    x, y_, loss, accuracy = _mlp(site, use_resource)
    with site.worker():
        train = make_optimizer().minimize(loss, global_step=step)
    images, labels = _digits(50)
    losses = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(_STEPS):
            batch = slice(10 * i, 10 * i + 10)
            losses.append(sess.run([loss, train], {x: images[batch], y_: labels[batch]})[0])
        final = sess.run([loss, accuracy, step], {x: images, y_: labels})
        sums = sess.run([tf.reduce_sum(tf.abs(v)) for v in tf.trainable_variables()])
    return {"losses": losses, "final": final, "sums": sums}


def _train_embedding(site, make_optimizer):
    """Two tables, one of them in two parts: gradients that are sparse, with rows that repeat."""
    draw = np.random.RandomState(11)
    parts = [
        _variable(site, i, draw.randn(8, 4).astype(np.float32), f"part_{i}", False)
        for i in range(2)
    ]
    whole = _variable(site, 0, draw.randn(6, 4).astype(np.float32), "whole", True)
    with site.worker(1):
        ids = tf.placeholder(tf.int64, [None])
        rows = tf.nn.embedding_lookup(parts, ids, partition_strategy="mod")
        others = tf.nn.embedding_lookup(whole, ids % 6)
        loss = tf.reduce_mean(tf.square(rows * 2.0 - others))
        train = make_optimizer().minimize(loss)
    losses = []
    with site.session(1) as sess:
        sess.run(tf.global_variables_initializer())
        for batch in ([0, 3, 3, 15], [1, 1, 1, 1], [14, 0, 2, 5]):
            losses.append(sess.run([loss, train], {ids: batch})[0])
        tables = sess.run([whole, *parts])
    return {"losses": losses, "tables": tables}


for _name, _make in (_OPTIMIZERS | _OTHER_OPTIMIZERS).items():
    sites.named_case(f"embedding_{_name}", lambda site, make=_make: _train_embedding(site, make))
for _name, _make in _OPTIMIZERS.items():
    for _kind, _use_resource in (("ref", False), ("resource", True)):
        sites.named_case(
            f"mlp_{_name}_{_kind}",
            lambda site, make=_make, kind=_use_resource: _train_mlp(site, make, kind),
        )


@sites.case
def linear_model_of_seed_003(site):
    device = None
    if site.addresses:
        device = tf.train.replica_device_setter(
            worker_device="/job:worker/task:0", cluster=tf.train.ClusterSpec(site.addresses)
        )
    with tf.device(device):
        x = tf.placeholder(tf.float32, [100])
        y_ = tf.placeholder(tf.float32, [100])
        w = tf.Variable([0.7])
        b = tf.Variable(tf.zeros([1]))
        loss = tf.reduce_mean(tf.square(w * x + b - y_))
        step = tf.Variable(0, name="global_step", trainable=False)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        tf.summary.scalar("cost", loss)
        summary = tf.summary.merge_all()
        init = tf.global_variables_initializer()
    draw = np.random.RandomState(5)
    found = []
    with site.session() as sess:
        sess.run(init)
        for _ in range(20):
            data = draw.rand(100).astype(np.float32)
            # With the step and the weights in the same run, TensorFlow gives either of two values.
            found.append(sess.run([train, loss], {x: data, y_: data * 0.1 + 0.3})[1])
            found.append(sess.run([step, w, b]))
        text = sess.run(summary, {x: data, y_: data * 0.1 + 0.3})
    message = tf.Summary.FromString(text)
    return {"steps": found, "summary": [(v.tag, v.simple_value) for v in message.value]}


@sites.case
def softmax_model_of_seed_002(site):
    with site.ps(0):
        w = tf.Variable(tf.zeros([784, 10]))
        step = tf.Variable(0)
    with site.ps(1):
        b = tf.Variable(tf.zeros([10]))
    with site.worker():
        x = tf.placeholder(tf.float32, [None, 784])
        y_ = tf.placeholder(tf.float32, [None, 10])
        y = tf.matmul(x, w) + b
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits=y, labels=y_))
        train = tf.train.AdagradOptimizer(0.01).minimize(loss, global_step=step)
        hits = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))
    images, labels = _digits(40)
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        losses = [sess.run([train, loss, step], {x: images, y_: labels})[1] for _ in range(_STEPS)]
        return losses, sess.run([accuracy, step], {x: images, y_: labels})


@sites.case
def convolutional_network(site):
    draw = np.random.RandomState(1)
    with site.ps(0):
        kernel = tf.Variable((draw.randn(3, 3, 1, 4) / 3).astype(np.float32))
        scale = tf.Variable(tf.ones([4]))
        shift = tf.Variable(tf.zeros([4]))
    with site.ps(1):
        w = tf.Variable((draw.randn(4 * 4 * 4, 3) / 8).astype(np.float32))
    with site.worker(1):
        x = tf.placeholder(tf.float32, [None, 8, 8, 1])
        labels = tf.placeholder(tf.int32, [None])
        found = tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")
        found, _, _ = tf.nn.fused_batch_norm(found, scale, shift)
        found = tf.nn.max_pool2d(tf.nn.relu(found), 2, 2, "VALID")
        logits = tf.matmul(tf.reshape(found, [-1, 64]), w)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        optimizer = tf.train.AdamOptimizer(0.01)
        pairs = optimizer.compute_gradients(loss)
        clipped, norm = tf.clip_by_global_norm([g for g, _ in pairs], 1.0)
        train = optimizer.apply_gradients(zip(clipped, [v for _, v in pairs], strict=True))
    images = draw.randn(6, 8, 8, 1).astype(np.float32)
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        feed = {x: images, labels: [0, 1, 2, 0, 1, 2]}
        return [sess.run([loss, norm, train], feed)[:2] for _ in range(3)]


@sites.case
def recurrent_network(site):
    draw = np.random.RandomState(2)
    with site.ps(0):
        w = tf.Variable((draw.randn(8, 20) / 4).astype(np.float32))
        b = tf.Variable(tf.zeros([20]))
    with site.worker():
        x = tf.placeholder(tf.float32, [None, None, 3])

        def advance(state, row):
            c, h = state
            i, j, f, o = tf.split(tf.matmul(tf.concat([row, h], 1), w) + b, 4, 1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
            return c, tf.sigmoid(o) * tf.tanh(c)

        zero = tf.zeros([tf.shape(x)[1], 5])
        _, h = tf.scan(advance, x, (zero, zero))
        loss = tf.reduce_mean(tf.square(h[-1] - 1.0))
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    data = draw.randn(4, 2, 3).astype(np.float32)
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        return [sess.run([loss, train], {x: data})[0] for _ in range(3)]


if __name__ == "__main__":
    sites.main()
