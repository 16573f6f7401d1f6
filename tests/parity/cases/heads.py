"""Heads of both generations: losses, metrics, predictions, signatures, errors.

Recorded from TensorFlow 2.15 (README.md says how).
"""

import numpy as np
from parity_kit import scenario

LOGITS = np.array(
    [[-1.0, 0.5, 2.0], [0.3, -0.2, 0.1], [1.5, 0.4, -0.6], [-0.3, 0.9, 0.2]], np.float32
)
WEIGHTS = np.array([[0.5], [2.0], [1.0], [1.5]], np.float32)
BINARY = np.array([[1], [0], [1], [1]])
CLASSES = np.array([[2], [0], [1], [1]])
SEVERAL = np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 0]])
NUMBERS = np.array([[0.5], [1.0], [2.0], [0.0]], np.float32)


def _classic(tf):
    """The first generation's functions."""
    if "millrace" in tf.__name__:
        from millrace.compat.overlay.python.estimator.canned import head
    else:
        from tensorflow_estimator.python.estimator.canned import head
    return head


#: Name, how many logits, labels, and the head.
CLASSIC = {
    "binary": (1, BINARY, lambda h, tf: h._binary_logistic_head_with_sigmoid_cross_entropy_loss()),
    "binary_weighted": (1, BINARY, lambda h, tf:
        h._binary_logistic_head_with_sigmoid_cross_entropy_loss(
            weight_column="w", thresholds=[0.3, 0.6], name="click")),
    "binary_mean": (1, BINARY, lambda h, tf:
        h._binary_logistic_head_with_sigmoid_cross_entropy_loss(
            loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE)),
    "binary_words": (1, np.array(["no", "yes"], object)[BINARY], lambda h, tf:
        h._binary_logistic_head_with_sigmoid_cross_entropy_loss(label_vocabulary=["no", "yes"])),
    "binary_own_loss": (1, BINARY, lambda h, tf:
        h._binary_logistic_head_with_sigmoid_cross_entropy_loss(
            loss_fn=lambda labels, logits: tf.square(labels - logits))),
    "multi_class": (3, CLASSES, lambda h, tf:
        h._multi_class_head_with_softmax_cross_entropy_loss(3, weight_column="w")),
    "multi_class_words": (3, np.array(["a", "b", "c"], object)[CLASSES], lambda h, tf:
        h._multi_class_head_with_softmax_cross_entropy_loss(
            3, label_vocabulary=["a", "b", "c"], name="kind")),
    "regression": (1, NUMBERS, lambda h, tf: h._regression_head(weight_column="w")),
    "regression_of_three": (3, LOGITS * 2, lambda h, tf: h._regression_head(
        label_dimension=3, inverse_link_fn=tf.exp, name="three")),
}  # fmt: skip
SECOND = {
    "binary": (1, BINARY, lambda e: e.BinaryClassHead(weight_column="w", thresholds=[0.6])),
    "multi_class": (3, CLASSES, lambda e: e.MultiClassHead(3, loss_reduction="sum")),
    "multi_label": (3, SEVERAL, lambda e: e.MultiLabelHead(
        3, weight_column="w", thresholds=[0.4], classes_for_class_based_metrics=[0, 2])),
    "regression": (3, LOGITS * 2, lambda e: e.RegressionHead(3, weight_column="w", name="n")),
    "poisson": (1, NUMBERS, lambda e: e.PoissonRegressionHead()),
    "logistic": (1, NUMBERS / 2, lambda e: e.LogisticRegressionHead()),
}  # fmt: skip


def _features(tf):
    return {"w": tf.constant(WEIGHTS)}


def _labels(tf, labels):
    return tf.constant(labels) if isinstance(labels, np.ndarray) else labels


def _tell(run, tf, head, logits, labels, **training):
    """What a head makes of logits in each mode."""
    modes = tf.estimator.ModeKeys
    spec = head.create_estimator_spec(_features(tf), modes.PREDICT, logits)
    run.note(sorted(spec.export_outputs))
    run.note({k: type(v).__name__ for k, v in sorted(spec.export_outputs.items())})
    keys = sorted(spec.predictions, key=str)
    run.note([str(key) for key in keys])
    evaluated = head.create_estimator_spec(_features(tf), modes.EVAL, logits, labels)
    names = sorted(evaluated.eval_metric_ops)
    run.note(names)
    tf.train.get_or_create_global_step()
    weight = tf.get_variable("scale", initializer=1.0)
    trained = head.create_estimator_spec(
        _features(tf), modes.TRAIN, logits * weight, labels, **training
    )
    run.initialize()
    run.value(tf.local_variables_initializer())
    run([spec.predictions[key] for key in keys])
    run(evaluated.loss)
    run.value([evaluated.eval_metric_ops[name][1] for name in names])
    run([evaluated.eval_metric_ops[name][0] for name in names])
    run.value(trained.train_op)
    run([weight, trained.loss])


_REPLAY = "nothing here that other families do not replay"

for _name, (_width, _labels_of, _make) in CLASSIC.items():

    @scenario(name=f"classic_{_name}", replay=_REPLAY)
    def classic(run, tf, width=_width, labels=_labels_of, make=_make):
        head = make(_classic(tf), tf)
        run.note(head.logits_dimension)
        logits = tf.constant(LOGITS[:, :width])
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        _tell(run, tf, head, logits, tf.constant(labels), optimizer=optimizer)


def _step(tf):
    def train_op_fn(loss):
        return tf.train.GradientDescentOptimizer(0.1).minimize(
            loss, global_step=tf.train.get_global_step()
        )

    return train_op_fn


for _name, (_width, _labels_of, _make) in SECOND.items():

    @scenario(name=f"head_{_name}", replay=_REPLAY)
    def second(run, tf, width=_width, labels=_labels_of, make=_make):
        logits = tf.constant(LOGITS[:, :width])
        _tell(run, tf, make(tf.estimator), logits, tf.constant(labels), train_op_fn=_step(tf))


@scenario(replay=_REPLAY)
def head_of_sparse_labels(run, tf):
    head = tf.estimator.MultiLabelHead(3, label_vocabulary=["a", "b", "c"])
    labels = tf.SparseTensor([[0, 0], [0, 1], [2, 0], [3, 0]], ["a", "c", "b", "b"], [4, 2])
    _tell(run, tf, head, tf.constant(LOGITS), labels, train_op_fn=_step(tf))


@scenario(replay=_REPLAY)
def several_heads(run, tf):
    e = tf.estimator
    head = e.MultiHead(
        [e.BinaryClassHead(name="click"), e.RegressionHead(label_dimension=2, name="price")],
        head_weights=[1.0, 0.5],
    )
    labels = {"click": tf.constant(BINARY), "price": tf.constant(LOGITS[:, 1:] * 2)}
    _tell(run, tf, head, tf.constant(LOGITS), labels, train_op_fn=_step(tf))


#: What is wrong, the error, words of its message.
MISTAKES = [
    ("no_labels", "ValueError", "You must provide a labels Tensor",
     lambda h, tf: h._regression_head().create_loss({}, "train", tf.zeros([4, 1]), None)),
    ("width_of_labels", "ValueError", "Mismatched label shape",
     lambda h, tf: h._regression_head().create_loss(
         {}, "train", tf.zeros([4, 1]), tf.zeros([4, 2]))),
    ("sparse_labels", "ValueError", "SparseTensor labels are not supported",
     lambda h, tf: h._regression_head().create_loss(
         {}, "train", tf.zeros([4, 1]), tf.SparseTensor([[0, 0]], [1.0], [4, 1]))),
    ("float_classes", "ValueError", "Labels dtype should be integer",
     lambda h, tf: h._multi_class_head_with_softmax_cross_entropy_loss(3).create_loss(
         {}, "train", tf.zeros([4, 3]), tf.zeros([4, 1]))),
    ("two_classes", "ValueError", "n_classes must be > 2",
     lambda h, tf: h._multi_class_head_with_softmax_cross_entropy_loss(2)),
    ("thresholds", "ValueError", "thresholds not in (0, 1)",
     lambda h, tf: h._binary_logistic_head_with_sigmoid_cross_entropy_loss(thresholds=[1.5])),
    ("reduction", "ValueError", "Invalid loss_reduction",
     lambda h, tf: h._regression_head(loss_reduction="none")),
    ("label_dimension", "ValueError", "Invalid label_dimension",
     lambda h, tf: h._regression_head(label_dimension=0)),
    ("loss_fn", "ValueError", "loss_fn must contain argument: logits",
     lambda h, tf: h._regression_head(loss_fn=lambda labels: labels)),
    ("width_of_logits", "ValueError", "logits shape must be",
     lambda h, tf: h._regression_head().create_estimator_spec({}, "infer", tf.zeros([4, 2]))),
    ("no_optimizer", "ValueError", "train_op_fn and optimizer cannot both be None",
     lambda h, tf: h._regression_head().create_estimator_spec(
         {}, "train", tf.zeros([4, 1]), tf.zeros([4, 1]))),
    ("weight_column", "TypeError", "Weight column must be either a string or",
     lambda h, tf: h._regression_head(weight_column=3).create_loss(
         {}, "train", tf.zeros([4, 1]), tf.zeros([4, 1]))),
    ("nameless_heads", "ValueError", "All given heads must have name specified",
     lambda h, tf: tf.estimator.MultiHead([tf.estimator.RegressionHead()])),
]  # fmt: skip

for _name, _error, _words, _call in MISTAKES:

    @scenario(name=f"error_{_name}")
    def mistake(run, tf, error=_error, words=_words, call=_call):
        run.raises(error, lambda: call(_classic(tf), tf), words)
