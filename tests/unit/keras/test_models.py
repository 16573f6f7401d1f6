"""Keras models: trained, saved, made again, and their layers in a graph of the program's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

keras = tf.keras


@pytest.fixture(autouse=True)
def _graph() -> Iterator[None]:
    with tf.Graph().as_default(), tf.Session():
        tf.set_random_seed(0)
        yield


def _data() -> tuple[Any, Any]:
    x = np.random.RandomState(0).randn(128, 6).astype(np.float32)
    return x, (x[:, 0] > 0).astype(np.int32)


def _model() -> Any:
    x = keras.Input((6,))
    hidden = keras.layers.Dense(16, activation="relu")(x)
    hidden = keras.layers.BatchNormalization()(hidden) * 2.0
    return keras.Model(x, keras.layers.Dense(2, activation="softmax")(hidden))


def test_fit_learns_and_evaluate_agrees_with_predict() -> None:
    x, y = _data()
    model = _model()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, epochs=25, batch_size=16, verbose=0, validation_split=0.25)
    assert history.history["loss"][-1] < history.history["loss"][0] / 2
    assert set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    _, accuracy = model.evaluate(x, y, verbose=0)
    assert accuracy == pytest.approx((model.predict(x).argmax(-1) == y).mean())


def test_weights_are_saved_and_loaded(tmp_path: Path) -> None:
    x, _ = _data()
    first = _model()
    before = first.predict(x)
    first.save_weights(str(tmp_path / "weights"))
    second = _model()
    assert not np.allclose(second.predict(x), before)
    second.load_weights(str(tmp_path / "weights"))
    np.testing.assert_allclose(second.predict(x), before, rtol=1e-6)
    with pytest.raises(NotImplementedError, match=r"leave out the ending \.h5"):
        first.save_weights(str(tmp_path / "weights.h5"))


def test_a_model_is_made_again_from_its_configuration() -> None:
    x = keras.Input((4,), name="x")
    shared = keras.layers.Dense(3, name="shared")
    joined = keras.layers.concatenate([shared(x), shared(keras.layers.Dense(4)(x))])
    model = keras.Model(x, joined)
    again = keras.models.clone_model(model)
    assert [layer.name for layer in again.layers] == [layer.name for layer in model.layers]
    again.set_weights(model.get_weights())
    data = np.random.RandomState(1).randn(3, 4).astype(np.float32)
    np.testing.assert_allclose(again.predict(data), model.predict(data), rtol=1e-6)


def test_a_model_inside_a_training_graph_of_tf_train() -> None:
    x, y = _data()
    images, labels = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.int32, [None])
    model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)])
    logits = model(images)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train = keras.optimizers.Adam(0.05).minimize(loss, tf.train.get_or_create_global_step())
    session = tf.get_default_session()
    session.run(tf.global_variables_initializer())
    first = session.run(loss, {images: x, labels: y})
    for _ in range(30):
        session.run(train, {images: x, labels: y})
    assert session.run(loss, {images: x, labels: y}) < first / 3
    assert session.run(tf.train.get_global_step()) == 30
    assert len(model.trainable_variables) == 4


def test_dropout_and_batch_normalization_follow_the_learning_phase() -> None:
    x = keras.Input((50,))
    model = keras.Model(x, keras.layers.Dropout(0.5)(x))
    ones = np.ones((1, 50), np.float32)
    np.testing.assert_array_equal(model.predict(ones), ones)
    trained = model(tf.constant(ones), training=True)
    assert 0 in tf.get_default_session().run(trained)


def test_callbacks_stop_save_and_write(tmp_path: Path) -> None:
    x, y = _data()
    model = keras.Sequential([keras.layers.Dense(2, activation="softmax", input_shape=(6,))])
    model.compile(keras.optimizers.SGD(0.0), "sparse_categorical_crossentropy")
    history = model.fit(
        x, y, epochs=10, verbose=0,
        callbacks=[
            keras.callbacks.EarlyStopping(monitor="loss", patience=2, min_delta=1e-3),
            keras.callbacks.ModelCheckpoint(str(tmp_path / "w-{epoch}")),
            keras.callbacks.TensorBoard(str(tmp_path / "logs")),
        ],
    )  # fmt: skip
    assert history.epoch == [0, 1, 2]
    assert tf.train.checkpoint_exists(str(tmp_path / "w-3"))
    assert list((tmp_path / "logs").iterdir())


def test_metrics_over_batches() -> None:
    labels = tf.placeholder(tf.float32, [None])
    scores = tf.placeholder(tf.float32, [None])
    precision, auc = keras.metrics.Precision(), keras.metrics.AUC()
    updates = [precision.update_state(labels, scores), auc.update_state(labels, scores)]
    values = [precision.result(), auc.result()]
    session = keras.backend.get_session()
    for y, p in (([1, 0], [0.9, 0.6]), ([1, 0], [0.8, 0.1])):
        session.run(updates, {labels: y, scores: p})
    found = session.run(values)
    assert found[0] == pytest.approx(2 / 3)
    assert found[1] == pytest.approx(1.0, abs=1e-3)


def test_errors_of_models() -> None:
    with pytest.raises(ValueError, match="Graph disconnected"):
        a, b = keras.Input((2,)), keras.Input((2,))
        keras.Model(a, keras.layers.add([a, b]))
    with pytest.raises(ValueError, match="Unknown loss function: nothing"):
        keras.losses.get("nothing")
    with pytest.raises(RuntimeError, match="needs to be compiled"):
        keras.Sequential([keras.layers.Dense(1)]).fit(np.ones((2, 2)), np.ones(2))
