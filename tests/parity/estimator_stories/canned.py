"""Canned models: weights and metrics after 20 steps, predictions, names, signatures."""

from __future__ import annotations

import numpy as np

from estimator_stories.models import SCENARIOS

ROWS = 24
_random = np.random.RandomState(3)
FEATURES = {
    "x": _random.uniform(-1, 1, (ROWS, 2)).astype(np.float32),
    "age": _random.uniform(0, 80, (ROWS, 1)).astype(np.float32),
    "city": _random.choice(["oslo", "rome", "bonn", "cork"], (ROWS, 1)).astype(object),
    "tags": _random.randint(-1, 6, (ROWS, 3)).astype(np.int64),
    "weight": _random.uniform(0.5, 2.0, (ROWS, 1)).astype(np.float32),
}
SCORE = FEATURES["x"][:, :1] * 2 - FEATURES["x"][:, 1:] + FEATURES["age"] / 80
BINARY = (SCORE > 0.5).astype(np.int64)
CLASSES = np.digitize(SCORE, [0.0, 1.0]).astype(np.int64)
COUNTS = np.floor(np.abs(SCORE) * 2).astype(np.float32)
SEVERAL = np.concatenate([BINARY, 1 - BINARY, CLASSES // 2], 1)


def wide(tf):
    fc = tf.feature_column
    return [
        fc.bucketized_column(fc.numeric_column("age"), [20.0, 40.0, 60.0]),
        fc.categorical_column_with_vocabulary_list("city", ["oslo", "rome", "bonn"]),
        fc.crossed_column(["city", fc.categorical_column_with_identity("tags", 6)], 7),
    ]


def deep(tf):
    fc = tf.feature_column
    return [
        fc.numeric_column("x", shape=2),
        fc.numeric_column("age", normalizer_fn=lambda age: age / 40.0),
        fc.embedding_column(fc.categorical_column_with_identity("tags", 6), 2),
        fc.indicator_column(fc.categorical_column_with_hash_bucket("city", 3)),
    ]


def input_fn(tf, labels):
    def batches():
        data = tf.data.Dataset.from_tensor_slices((dict(FEATURES), labels))
        return data.batch(8).repeat()

    return batches


def _begin_hook(tf):
    """Lets every trained variable begin as a ramp, so that both libraries begin alike."""

    class Begin(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            for i, variable in enumerate(sorted(tf.trainable_variables(), key=lambda v: v.name)):
                shape = variable.shape.as_list()
                ramp = np.linspace(-0.4, 0.5 + i / 50, int(np.prod(shape)), dtype=np.float32)
                variable.load(np.roll(ramp, i).reshape(shape), session)

    return Begin()


def tell(tf, story, estimator, labels):
    """Trains 20 steps, and notes what came of it."""
    tf.logging.set_verbosity(tf.logging.ERROR)
    estimator.train(input_fn(tf, labels), steps=20, hooks=[_begin_hook(tf)])
    for name in sorted(estimator.get_variable_names()):
        value = np.asarray(estimator.get_variable_value(name), np.float64)
        story.events.append(["weights", name, list(value.shape), value.ravel().tolist()])
    metrics = estimator.evaluate(input_fn(tf, labels), steps=3)
    story.events.append(["metrics", {k: float(v) for k, v in sorted(metrics.items())}])
    predictions = estimator.predict(input_fn(tf, labels))
    for _, row in zip(range(2), predictions, strict=False):
        for key in sorted(row, key=str):
            value = np.asarray(row[key])
            plain = value.astype(str) if value.dtype == object else value
            story.events.append(["predicted", str(key), plain.ravel().tolist()])


def _settings(tf, story):
    return {
        "model_dir": f"{story.folder}/model",
        "config": tf.estimator.RunConfig(tf_random_seed=1, save_summary_steps=1000),
    }


#: Name, labels, and what makes the Estimator.
MODELS = {
    "linear_classifier": (
        BINARY,
        lambda tf, more: tf.estimator.LinearClassifier(wide(tf), **more),
    ),
    "linear_classifier_of_three": (
        CLASSES,
        lambda tf, more: tf.estimator.LinearClassifier(
            wide(tf), n_classes=3, weight_column="weight", sparse_combiner="mean", **more
        ),
    ),
    "linear_regressor": (
        SCORE,
        lambda tf, more: tf.estimator.LinearRegressor(
            wide(tf) + deep(tf)[:2], optimizer="Adam", **more
        ),
    ),
    "dnn_classifier": (
        BINARY,
        lambda tf, more: tf.estimator.DNNClassifier([5, 3], deep(tf), **more),
    ),
    "dnn_classifier_with_words": (
        np.array([["no"], ["yes"]], object)[BINARY[:, 0]],
        lambda tf, more: tf.estimator.DNNClassifier(
            [4],
            deep(tf),
            label_vocabulary=["no", "yes"],
            batch_norm=True,
            activation_fn=tf.nn.tanh,
            loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE,
            **more,
        ),
    ),
    "dnn_regressor": (
        np.concatenate([SCORE, COUNTS], 1),
        lambda tf, more: tf.estimator.DNNRegressor(
            [4],
            deep(tf),
            label_dimension=2,
            weight_column="weight",
            optimizer=lambda: tf.train.GradientDescentOptimizer(0.01),
            **more,
        ),
    ),
    "combined_classifier": (
        BINARY,
        lambda tf, more: tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=wide(tf),
            dnn_feature_columns=deep(tf),
            dnn_hidden_units=[5, 3],
            dnn_optimizer=tf.train.AdagradOptimizer(0.1),
            **more,
        ),
    ),
    "combined_regressor": (
        SCORE,
        lambda tf, more: tf.estimator.DNNLinearCombinedRegressor(
            linear_feature_columns=wide(tf),
            dnn_feature_columns=deep(tf),
            dnn_hidden_units=[4],
            **more,
        ),
    ),
    "baseline_classifier": (
        CLASSES,
        lambda tf, more: tf.estimator.BaselineClassifier(n_classes=3, **more),
    ),
    "baseline_regressor": (SCORE, lambda tf, more: tf.estimator.BaselineRegressor(**more)),
}


def _story(name, labels, make):
    def canned(tf, story):
        tell(tf, story, make(tf, _settings(tf, story)), labels)

    SCENARIOS[f"canned_{name}"] = canned


for _name, (_labels, _make) in MODELS.items():
    _story(_name, _labels, _make)
