"""Inputs of width 1 may be fed as vectors, as Keras allows."""

from __future__ import annotations

import numpy as np

import millrace as tf


def test_a_vector_feeds_an_input_of_one_column() -> None:
    with tf.Graph().as_default():
        ids = tf.keras.layers.Input([1], dtype="int32")
        value = tf.keras.layers.Input([1])
        row = tf.keras.layers.Flatten()(tf.keras.layers.Embedding(5, 2)(ids))
        joined = tf.keras.layers.Concatenate()([row, value])
        model = tf.keras.Model([ids, value], tf.keras.layers.Dense(1)(joined))
        model.compile("sgd", "mse")
        x = [np.array([0, 1, 2, 4]), np.array([0.5, 1.0, 2.0, 3.0])]
        history = model.fit(x, np.zeros(4), epochs=1, verbose=0)
        assert np.isfinite(history.history["loss"][0])
        np.testing.assert_allclose(
            model.predict(x), model.predict([each[:, None] for each in x]), rtol=1e-6
        )
