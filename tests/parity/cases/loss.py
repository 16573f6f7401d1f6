"""Cross-entropies and tf.losses."""

import numpy as np
from parity_kit import array, case, cases, floats, positive, scenario

LOGITS = floats(3, 4)
LABELS = floats(3, 4, low=0.0, high=1.0)
CLASSES = array([1, 3, 0])
PAIR = {"a": floats(3, 2), "b": floats(3, 2)}


@case(inputs={"x": LOGITS, "z": LABELS}, grad=["x"])
def sigmoid_cross_entropy(tf, x, z):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x)


@case(inputs={"x": LOGITS, "z": LABELS}, grad=True, second_order=True)
def sigmoid_cross_entropy_second_order(tf, x, z):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x)


@case(
    inputs={"x": array([1000.0, -1000.0, 0.0]), "z": array([0.0, 1.0, 0.5])},
    grad=["x"],
    numeric="saturated",
)
def sigmoid_cross_entropy_extremes(tf, x, z):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x)


@case(
    inputs={"x": LOGITS, "z": floats(3, 1)},
    raises=("ValueError", "must have the same shape"),
)
def sigmoid_cross_entropy_mismatch(tf, x, z):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x)


@case(inputs={"x": LOGITS, "z": LABELS, "w": positive()}, grad=["x"])
def weighted_cross_entropy(tf, x, z, w):
    return tf.nn.weighted_cross_entropy_with_logits(labels=z, logits=x, pos_weight=w)


def _distribution(tf, z, axis=-1):
    # The gradient by the logits is softmax - labels only where the labels add up to one.
    return z / tf.reduce_sum(z, axis, keepdims=True)


@cases(
    [
        ("softmax_cross_entropy", {"x": LOGITS, "z": positive(3, 4)}, {}),
        ("softmax_cross_entropy_dim", {"x": LOGITS, "z": positive(3, 4)}, {"dim": 0}),
        ("softmax_cross_entropy_3d", {"x": floats(2, 2, 3), "z": positive(2, 2, 3)}, {}),
    ],
    grad=["x"],
)
def softmax_cross_entropy(tf, options, x, z):
    labels = _distribution(tf, z, options.get("dim", -1))
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=x, **options)


V2 = {"x": LOGITS, "z": positive(3, 4)}


@cases(
    [
        ("softmax_cross_entropy_v2", V2, {}),
        ("softmax_cross_entropy_v2_axis", V2, {"axis": 0}),
    ],
    grad=True,
)
def softmax_cross_entropy_v2(tf, options, x, z):
    labels = _distribution(tf, z, options.get("axis", -1))
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=x, **options)


@case(inputs=V2, grad=["x"], second_order=True)
def softmax_cross_entropy_v2_second_order(tf, x, z):
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=_distribution(tf, z), logits=x)


@case(inputs={"x": LOGITS, "z": array([[0.1, 0.2, 0.3, 0.4]])}, grad=["x"])
def softmax_cross_entropy_broadcast_labels(tf, x, z):
    return tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=tf.tile(z, [3, 1])).loss


@case(inputs={"x": LOGITS, "z": floats(3, 3)}, raises=("ValueError",))
def softmax_cross_entropy_mismatch(tf, x, z):
    return tf.nn.softmax_cross_entropy_with_logits(labels=z, logits=x)


@case(inputs={"x": LOGITS}, raises=("ValueError", "Both `labels` and `logits` must be provided"))
def softmax_cross_entropy_without_labels(tf, x):
    return tf.nn.softmax_cross_entropy_with_logits(logits=x)


@cases(
    [
        ("sparse_softmax_cross_entropy", {"x": LOGITS, "c": CLASSES}),
        ("sparse_softmax_cross_entropy_int64", {"x": LOGITS, "c": array([0, 0, 2], np.int64)}),
        ("sparse_softmax_cross_entropy_3d", {"x": floats(2, 2, 3), "c": array([[0, 2], [1, 1]])}),
        ("sparse_softmax_cross_entropy_vector", {"x": floats(3), "c": array(2)}),
        (
            "sparse_softmax_cross_entropy_float64",
            {"x": floats(3, 4, dtype=np.float64), "c": CLASSES},
        ),
    ],
    grad=["x"],
)
def sparse_softmax_cross_entropy(tf, x, c):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=c, logits=x)


@case(inputs={"x": LOGITS, "c": CLASSES}, grad=["x"], second_order=True)
def sparse_softmax_cross_entropy_second_order(tf, x, c):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=c, logits=x)


@case(inputs={"x": LOGITS, "c": CLASSES})
def sparse_softmax_cross_entropy_both_outputs(tf, x, c):
    return tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=c)


@case(
    inputs={"x": LOGITS, "c": array([1, 4, 0])}, raises=("InvalidArgumentError", "label value of 4")
)
def sparse_softmax_cross_entropy_label_out_of_range(tf, x, c):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=c, logits=x)


@case(inputs={"x": LOGITS, "c": array([[1], [2], [3]])}, raises=("ValueError", "labels.shape"))
def sparse_softmax_cross_entropy_rank_mismatch(tf, x, c):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=c, logits=x)


@case(inputs={"x": LOGITS, "t": positive(3, 4)}, grad=["x"])
def log_poisson_loss(tf, x, t):
    return [
        tf.nn.log_poisson_loss(t, x),
        tf.nn.log_poisson_loss(t, x, compute_full_loss=True),
    ]


# --- tf.losses

REDUCTIONS = (
    "NONE",
    "SUM",
    "MEAN",
    "SUM_OVER_BATCH_SIZE",
    "SUM_OVER_NONZERO_WEIGHTS",
    "SUM_BY_NONZERO_WEIGHTS",
)
PAIRWISE = (
    "absolute_difference",
    "mean_squared_error",
    "huber_loss",
    "mean_pairwise_squared_error",
)


@cases([(f"losses_{n}", PAIR, n) for n in PAIRWISE], grad=["b"])
def losses(tf, function, a, b):
    return getattr(tf.losses, function)(a, b)


@cases(
    [
        (f"losses_weighted_{n}", {"a": floats(3, 2), "b": floats(3, 2), "w": array(w)}, n)
        for n, w in [
            ("scalar", 0.5),
            ("column", [[1.0], [0.0], [2.0]]),
            ("full", [[1.0, 0.0], [0.0, 0.0], [2.0, 1.0]]),
            ("zero", 0.0),
        ]
    ],
    grad=["b"],
)
def losses_weighted(tf, _, a, b, w):
    return [
        tf.losses.mean_squared_error(a, b, weights=w),
        tf.losses.absolute_difference(a, b, weights=w),
    ]


@cases([(f"losses_reduction_{r}", PAIR, r) for r in REDUCTIONS], grad=["b"])
def losses_reductions(tf, reduction, a, b):
    weights = tf.constant([[1.0], [0.0], [2.0]], dtype=tf.float32)
    return tf.losses.mean_squared_error(
        a, b, weights=weights, reduction=getattr(tf.losses.Reduction, reduction)
    )


@case(inputs=PAIR, raises=("ValueError",))
def losses_weights_of_wrong_shape(tf, a, b):
    return tf.losses.mean_squared_error(a, b, weights=[1.0, 2.0])


@case(inputs={"a": floats(3, 2), "b": floats(2, 3)}, raises=("ValueError",))
def losses_shape_mismatch(tf, a, b):
    return tf.losses.mean_squared_error(a, b)


@case(
    inputs={"p": floats(3, 2, low=0.1, high=0.9), "z": array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])},
    grad=["p"],
)
def losses_log_loss(tf, p, z):
    return tf.losses.log_loss(z, p)


@case(inputs={"p": floats(3, 2), "z": array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])}, grad=["p"])
def losses_hinge(tf, p, z):
    return tf.losses.hinge_loss(z, p)


@case(inputs=PAIR, grad=["b"])
def losses_huber_delta(tf, a, b):
    return tf.losses.huber_loss(a, b, delta=0.4)


@case(inputs=PAIR, grad=["b"])
def losses_cosine_distance(tf, a, b):
    return [
        tf.losses.cosine_distance(tf.nn.l2_normalize(a, 1), tf.nn.l2_normalize(b, 1), axis=1),
        tf.losses.cosine_distance(a, b, dim=1),
    ]


@cases(
    [
        ("losses_sigmoid", {"x": LOGITS}, {}),
        ("losses_sigmoid_smoothed", {"x": LOGITS}, {"label_smoothing": 0.2}),
        ("losses_sigmoid_weights", {"x": LOGITS}, {"weights": [[1.0], [0.5], [0.0]]}),
    ],
    grad=True,
)
def losses_sigmoid_cross_entropy(tf, options, x):
    labels = tf.one_hot([1, 0, 3], 4, dtype=tf.int32)
    return tf.losses.sigmoid_cross_entropy(labels, x, **options)


@cases(
    [
        ("losses_softmax", {"x": LOGITS}, {}),
        ("losses_softmax_smoothed", {"x": LOGITS}, {"label_smoothing": 0.1}),
        ("losses_softmax_weights", {"x": LOGITS}, {"weights": [1.0, 0.0, 2.0]}),
    ],
    grad=True,
)
def losses_softmax_cross_entropy(tf, options, x):
    labels = tf.one_hot([1, 0, 3], 4)
    return tf.losses.softmax_cross_entropy(labels, x, **options)


@cases(
    [
        ("losses_sparse_softmax", {"x": LOGITS, "c": CLASSES}, {}),
        (
            "losses_sparse_softmax_weights",
            {"x": LOGITS, "c": CLASSES},
            {"weights": [1.0, 0.0, 2.0]},
        ),
        ("losses_sparse_softmax_column", {"x": LOGITS, "c": array([[1], [3], [0]])}, {}),
    ],
    grad=["x"],
)
def losses_sparse_softmax_cross_entropy(tf, options, x, c):
    return tf.losses.sparse_softmax_cross_entropy(c, x, **options)


@case(inputs={"l": floats(3, 2)}, grad=True)
def losses_compute_weighted(tf, l):  # noqa: E741
    return [
        tf.losses.compute_weighted_loss(l),
        tf.losses.compute_weighted_loss(l, weights=[[2.0], [0.0], [1.0]]),
        tf.losses.compute_weighted_loss(l, reduction=tf.losses.Reduction.NONE),
    ]


@scenario
def losses_collect_into_a_total(run, tf):
    x = tf.constant([1.0, 2.0])
    tf.losses.mean_squared_error(x, [0.0, 0.0])
    tf.losses.absolute_difference(x, [0.0, 0.0])
    tf.losses.add_loss(tf.constant(3.0))
    with tf.variable_scope("v", regularizer=lambda w: tf.reduce_sum(w) * 0.5):
        tf.get_variable("w", initializer=tf.constant([4.0]))
    run.note([len(tf.losses.get_losses()), len(tf.losses.get_regularization_losses())])
    run.initialize()
    run(
        [
            tf.losses.get_total_loss(),
            tf.losses.get_total_loss(add_regularization_losses=False),
            tf.losses.get_regularization_loss(),
        ]
    )


# --- connectionist temporal classification


@cases(
    [
        ("ctc_loss", {"x": floats(5, 2, 4)}, {}),
        ("ctc_loss_merge", {"x": floats(5, 2, 4)}, {"ctc_merge_repeated": False}),
    ],
    grad=True,
    variants=["known"],
    rtol=1e-4,
    atol=1e-5,
)
def ctc_loss(tf, options, x):
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 2, 1], tf.int32), [2, 2])
    return tf.nn.ctc_loss(labels, x, [5, 4], **options)


@case(inputs={"x": floats(4, 2, 3)}, variants=["known"])
def ctc_greedy_decoder(tf, x):
    decoded, log_probability = tf.nn.ctc_greedy_decoder(x, [4, 3])
    return [decoded[0], log_probability]
