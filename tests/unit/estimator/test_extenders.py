"""Estimators and optimizers with something added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    value = tf.identity(features["x"] * 2)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"value": value})
    step = tf.train.get_global_step()
    loss = tf.reduce_mean(value)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.assign_add(step, 1))


def input_fn() -> Any:
    return tf.data.Dataset.from_tensor_slices({"x": [1.0, 2.0], "id": ["a", "b"]}).batch(2)


def test_features_are_forwarded_to_predictions(tmp_path: Path) -> None:
    model = tf.contrib.estimator.forward_features(
        tf.estimator.Estimator(model_fn, str(tmp_path)), "id"
    )
    found = list(model.predict(input_fn))
    assert [(each["id"], float(each["value"])) for each in found] == [(b"a", 2.0), (b"b", 4.0)]
    with pytest.raises(KeyError, match="not in features"):
        wrong = tf.contrib.estimator.forward_features(
            tf.estimator.Estimator(model_fn, str(tmp_path)), "nothing"
        )
        next(wrong.predict(input_fn))


def test_gradients_are_clipped_by_their_common_norm() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable([0.0, 0.0])
        inner = tf.train.GradientDescentOptimizer(1.0)
        optimizer = tf.contrib.estimator.clip_gradients_by_norm(inner, 1.0)
        train = optimizer.minimize(tf.reduce_sum(variable * [3.0, 4.0]))
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert np.allclose(session.run(variable), [-0.6, -0.8])


def test_pandas_input_is_optional() -> None:
    try:
        import pandas  # noqa: F401
    except ImportError:
        with pytest.raises(TypeError, match="without pandas installed; pip install"):
            tf.estimator.inputs.pandas_input_fn(None, shuffle=False)
