"""Gradients at ties and kinks, inside the bodies of loops and conditionals.

Where a function has no derivative, an op's gradient is a choice, and a body's must be the same.
"""

from parity_kit import array, cases

#: Zeros, equal largest and smallest values, borders of intervals.
TIES = [[0.0, 1.0, 1.0, -1.0], [0.0, 0.0, 2.0, 2.0]]

GROUPS = {
    "activations": lambda tf: [
        tf.nn.relu,
        lambda x: tf.nn.relu6(x * 6.0),
        tf.nn.leaky_relu,
        tf.nn.elu,
        tf.nn.selu,
        tf.nn.softplus,
        tf.nn.softsign,
        lambda x: tf.nn.relu(1.0 - x),
    ],
    "choices": lambda tf: [
        lambda x: tf.maximum(x, 0.0),
        lambda x: tf.minimum(x, tf.zeros_like(x)),
        lambda x: tf.maximum(x, tf.constant([0.0, 1.0, 1.0, 2.0])),
        lambda x: tf.maximum(x, x * 1.0),
        lambda x: tf.clip_by_value(x, 0.0, 1.0),
        lambda x: tf.where(x > 0.0, x, 2.0 * x),
        tf.abs,
        lambda x: tf.sign(x) * x + tf.floor(x) * x,
    ],
    "reductions": lambda tf: [
        lambda x: tf.reduce_max(x, 1, keepdims=True) + x,
        lambda x: tf.reduce_min(x, 0, keepdims=True) + x,
        lambda x: x * tf.reduce_max(x),
        lambda x: tf.reduce_prod(x, 1, keepdims=True) + x,
        lambda x: tf.cumprod(x, 1),
        lambda x: tf.reduce_logsumexp(x, 1, keepdims=True) + x,
        lambda x: tf.nn.top_k(x, 4)[0],
        lambda x: tf.gather(tf.math.unsorted_segment_max(x, [0, 0], 1), [0, 0]),
    ],
    "others": lambda tf: [
        lambda x: tf.reshape(
            tf.nn.max_pool(tf.reshape(x, [1, 2, 4, 1]), [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), [2, 4]
        ),
        lambda x: tf.pow(tf.abs(x), x),
        lambda x: tf.div_no_nan(x, x),
        lambda x: tf.math.xlogy(x, x + 2.0),
        lambda x: tf.sqrt(tf.abs(x) + 1.0),
        lambda x: tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=x),
        lambda x: tf.clip_by_norm(x, 1.0),
        lambda x: tf.nn.softmax(x),
    ],
}


def in_a_loop(tf, functions, xs):
    def body(i, *values):
        return (i + 1, *(f(x) for f, x in zip(functions, values, strict=True)))

    return tf.while_loop(lambda i, *_: i < 1, body, [0, *xs])[1:]


def in_a_conditional(tf, functions, xs):
    p = tf.placeholder_with_default(True, [])
    return tf.cond(p, lambda: [f(x) for f, x in zip(functions, xs, strict=True)], lambda: list(xs))


def in_a_loop_of_any_length(tf, functions, xs):
    count = tf.placeholder_with_default(1, [])

    def body(i, *values):
        return (i + 1, *(f(x) for f, x in zip(functions, values, strict=True)))

    return tf.while_loop(lambda i, *_: i < count, body, [0, *xs])[1:]


INPUTS = {f"x{i}": array(TIES, "float32") for i in range(8)}


@cases(
    [
        (f"{group}_{place.__name__}", INPUTS, (functions, place))
        for group, functions in GROUPS.items()
        for place in (in_a_loop, in_a_conditional, in_a_loop_of_any_length)
    ],
    grad=True,
    numeric="there is no derivative at these points",
    variants=["known"],
)
def gradients_at_ties(tf, options, **inputs):
    functions, place = options
    return list(place(tf, functions(tf), [inputs[f"x{i}"] for i in range(8)]))
