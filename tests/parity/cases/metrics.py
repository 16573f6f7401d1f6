"""tf.metrics: two batches each, value and update."""

import numpy as np
from parity_kit import scenario

LABELS = ([1, 0, 2, 1], [2, 2, 0, 1])
PREDICTED = ([1, 1, 2, 0], [2, 0, 0, 1])
TRUTH = ([1, 0, 1, 1], [0, 0, 1, 0])
SCORES = ([0.9, 0.4, 0.35, 0.8], [0.1, 0.7, 0.6, 0.2])
REALS = ([1.0, 2.0, 3.0, 4.0], [0.5, -1.0, 2.0, 8.0])
GUESSES = ([1.5, 2.0, 2.0, 5.0], [0.0, -1.0, 3.0, 6.0])
WEIGHTS = ([1.0, 0.0, 2.0, 0.5], [1.0, 1.0, 0.0, 3.0])

METRICS = {
    "accuracy": (LABELS, PREDICTED, lambda tf, a, b, w: tf.metrics.accuracy(a, b, w)),
    "precision": (TRUTH, TRUTH[::-1], lambda tf, a, b, w: tf.metrics.precision(a, b, w)),
    "recall": (TRUTH, TRUTH[::-1], lambda tf, a, b, w: tf.metrics.recall(a, b, w)),
    "true_positives": (TRUTH, TRUTH[::-1], lambda tf, a, b, w: tf.metrics.true_positives(a, b, w)),
    "true_negatives": (TRUTH, TRUTH[::-1], lambda tf, a, b, w: tf.metrics.true_negatives(a, b, w)),
    "false_positives": (
        TRUTH,
        TRUTH[::-1],
        lambda tf, a, b, w: tf.metrics.false_positives(a, b, w),
    ),
    "false_negatives": (
        TRUTH,
        TRUTH[::-1],
        lambda tf, a, b, w: tf.metrics.false_negatives(a, b, w),
    ),
    "mean": (REALS, GUESSES, lambda tf, a, b, w: tf.metrics.mean(a, w)),
    "mean_absolute_error": (
        REALS,
        GUESSES,
        lambda tf, a, b, w: tf.metrics.mean_absolute_error(a, b, w),
    ),
    "mean_squared_error": (
        REALS,
        GUESSES,
        lambda tf, a, b, w: tf.metrics.mean_squared_error(a, b, w),
    ),
    "root_mean_squared_error": (
        REALS,
        GUESSES,
        lambda tf, a, b, w: tf.metrics.root_mean_squared_error(a, b, w),
    ),
    "mean_relative_error": (
        REALS,
        GUESSES,
        lambda tf, a, b, w: tf.metrics.mean_relative_error(a, b, tf.abs(a), w),
    ),
    "percentage_below": (
        REALS,
        GUESSES,
        lambda tf, a, b, w: tf.metrics.percentage_below(a, 2.5, w),
    ),
    "mean_per_class_accuracy": (
        LABELS,
        PREDICTED,
        lambda tf, a, b, w: tf.metrics.mean_per_class_accuracy(a, b, 3, w),
    ),
    "mean_iou": (LABELS, PREDICTED, lambda tf, a, b, w: tf.metrics.mean_iou(a, b, 3, w)),
    "auc": (TRUTH, SCORES, lambda tf, a, b, w: tf.metrics.auc(a, b, w)),
    "auc_pr": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.auc(
            a, b, w, num_thresholds=20, curve="PR", summation_method="careful_interpolation"
        ),
    ),
    "precision_at_thresholds": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.precision_at_thresholds(a, b, [0.3, 0.7], w),
    ),
    "recall_at_thresholds": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.recall_at_thresholds(a, b, [0.3, 0.7], w),
    ),
    "sensitivity_at_specificity": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.sensitivity_at_specificity(a, b, 0.6, w, num_thresholds=20),
    ),
    "specificity_at_sensitivity": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.specificity_at_sensitivity(a, b, 0.6, w, num_thresholds=20),
    ),
    "true_positives_at_thresholds": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.true_positives_at_thresholds(a, b, [0.3, 0.7], w),
    ),
    "false_negatives_at_thresholds": (
        TRUTH,
        SCORES,
        lambda tf, a, b, w: tf.metrics.false_negatives_at_thresholds(a, b, [0.3, 0.7], w),
    ),
}


def _two_batches(run, tf, left, right, make, weighted):
    whole = isinstance(left[0][0], int)
    a = tf.placeholder(tf.int64 if whole else tf.float32, [4])
    b = tf.placeholder(tf.int64 if isinstance(right[0][0], int) else tf.float32, [4])
    w = tf.placeholder(tf.float32, [4]) if weighted else None
    value, update = make(tf, a, b, w)
    run.note([v.op.name for v in tf.local_variables()])
    run.initialize()
    run(value)
    for batch in range(2):
        feed = {a: left[batch], b: right[batch]}
        if weighted:
            feed[w] = WEIGHTS[batch]
        run(update, feed)
        run(value)


for _name, (_left, _right, _make) in METRICS.items():

    @scenario(name=_name)
    def metric(run, tf, left=_left, right=_right, make=_make):
        _two_batches(run, tf, left, right, make, False)

    @scenario(name=f"{_name}_weighted")
    def metric_weighted(run, tf, left=_left, right=_right, make=_make):
        _two_batches(run, tf, left, right, make, True)


@scenario
def mean_tensor(run, tf):
    x = tf.placeholder(tf.float32, [2, 2])
    value, update = tf.metrics.mean_tensor(x)
    run.initialize()
    run(update, {x: [[1.0, 2.0], [3.0, 4.0]]})
    run(update, {x: [[3.0, 0.0], [0.0, 0.0]]})
    run(value)


@scenario
def mean_cosine_distance(run, tf):
    a, b = tf.placeholder(tf.float32, [2, 2]), tf.placeholder(tf.float32, [2, 2])
    value, update = tf.metrics.mean_cosine_distance(a, b, 1)
    run.initialize()
    run(update, {a: [[1.0, 0.0], [0.6, 0.8]], b: [[0.0, 1.0], [0.6, 0.8]]})
    run(value)


@scenario
def at_k(run, tf):
    labels = tf.constant([[2], [0], [3]], tf.int64)
    scores = tf.constant([[0.1, 0.5, 0.4, 0.0], [0.2, 0.3, 0.4, 0.1], [0.1, 0.2, 0.3, 0.4]])
    made = [
        tf.metrics.recall_at_k(labels, scores, 2),
        tf.metrics.precision_at_k(labels, scores, 2),
        tf.metrics.average_precision_at_k(labels, scores, 2),
    ]
    run.initialize()
    run([update for _, update in made])
    run([value for value, _ in made])


@scenario
def accuracy_of_strings_and_bools(run, tf):
    words = tf.metrics.accuracy(tf.constant(["a", "b"]), tf.constant(["a", "c"]))
    flags = tf.metrics.accuracy(tf.constant([True, False]), tf.constant([True, True]))
    run.initialize()
    run([words[1], flags[1]])
    run([words[0], flags[0]])


@scenario
def metric_collections(run, tf):
    tf.metrics.mean([1.0], metrics_collections=["m"], updates_collections=["u"], name="named")
    run.note(
        [
            len(tf.get_collection("m")),
            len(tf.get_collection("u")),
            tf.get_collection("m")[0].op.name,
        ]
    )
    run.note([v.name for v in tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)])


@scenario
def metric_reset_by_local_initializer(run, tf):
    x = tf.placeholder(tf.float32, [None])
    value, update = tf.metrics.mean(x)
    reset = tf.local_variables_initializer()
    run.value(reset)
    run(update, {x: [1.0, 3.0]})
    run.value(reset)
    run(value)
    run(update, {x: np.array([10.0], np.float32)})


@scenario
def weights_are_checked(run, tf):
    run.raises("ValueError", lambda: tf.metrics.mean(tf.zeros([2, 3]), weights=tf.zeros([4])))
    run.raises("ValueError", lambda: tf.metrics.accuracy(tf.zeros([2]), tf.zeros([3])))
