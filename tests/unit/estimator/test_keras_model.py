"""model_to_estimator: Keras models trained by an Estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(16, 2)
Y = (X @ np.array([[1.0], [2.0]], np.float32) > 0).astype(np.float32)


def compiled(**options: Any) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Dense(4, activation="relu", input_shape=(2,), name="hidden"),
            layers.BatchNormalization(name="norm"),
            layers.Dense(1, activation="sigmoid", name="out"),
        ]
    )
    model.compile(
        tf.keras.optimizers.SGD(0.3), "binary_crossentropy", metrics=["accuracy"], **options
    )
    return model


def input_fn() -> Any:
    return tf.data.Dataset.from_tensor_slices(({"hidden_input": X}, Y)).batch(8).repeat(6)


def test_a_model_is_trained_evaluated_and_asked(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.keras.backend.set_session(session)
        tf.set_random_seed(1)
        model = compiled()
        before = model.get_weights()[0]
        estimator = tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    tf.keras.backend.set_session(None)
    first = estimator.evaluate(input_fn)
    estimator.train(input_fn)
    assert not np.allclose(estimator.get_variable_value("hidden/kernel"), before)
    # The averages of the normalization were updated, from what the model began with.
    assert abs(estimator.get_variable_value("norm/moving_mean")).max() > 0
    result = estimator.evaluate(input_fn)
    assert set(result) == {"accuracy", "loss", "global_step"} and result["global_step"] == 12
    assert result["loss"] < first["loss"]
    found = list(estimator.predict(input_fn))
    assert len(found) == 96 and found[0]["out"].shape == (1,)


def test_what_cannot_be_an_estimator_is_refused(tmp_path: Path) -> None:
    make = tf.estimator.model_to_estimator
    with pytest.raises(ValueError, match="needs to be provided"):
        make()
    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
        with pytest.raises(ValueError, match="has not been compiled yet"):
            make(model, model_dir=str(tmp_path))
