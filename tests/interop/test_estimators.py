"""Models of Estimators go to a stock TensorFlow and come back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

ROWS = [("cat", [1.0, 2.0]), ("dog", [0.5, -1.0]), ("fish", [2.0, 0.0])]
SPEC = {"word": tf.FixedLenFeature([], tf.string), "x": tf.FixedLenFeature([2], tf.float32)}


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    lookup = tf.contrib.lookup.index_table_from_file(params["words"], num_oov_buckets=1)
    with tf.variable_scope("linear"):
        table = tf.get_variable("table", [4, 1], initializer=tf.constant_initializer(0.5))
        weights = tf.get_variable("weights", [2, 1], initializer=tf.ones_initializer())
    rows = tf.nn.embedding_lookup(table, lookup.lookup(features["word"]))
    value = rows + tf.matmul(features["x"], weights)
    if mode == tf.estimator.ModeKeys.PREDICT:
        export = tf.estimator.export
        names = tf.contrib.lookup.index_to_string_table_from_file(params["words"])
        best = names.lookup(tf.cast(value > 1, tf.int64))
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={"value": value},
            export_outputs={
                "serving_default": export.PredictOutput({"value": value}),
                "regression": export.RegressionOutput(value),
                "classification": export.ClassificationOutput(tf.sigmoid(value), best),
            },
        )
    loss = tf.reduce_mean(tf.square(value - 1.0))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def input_fn() -> Any:
    words, numbers = [word for word, _ in ROWS], [x for _, x in ROWS]
    return tf.data.Dataset.from_tensor_slices({"word": words, "x": numbers}).batch(3).repeat()


@pytest.fixture
def trained(tmp_path: Path) -> Any:
    (tmp_path / "words.txt").write_text("cat\ndog\nbird\n")
    model = tf.estimator.Estimator(
        model_fn, str(tmp_path / "model"), params={"words": str(tmp_path / "words.txt")}
    )
    model.train(input_fn, steps=4)
    return model


def test_tensorflow_serves_our_model_with_its_tables(
    run_tensorflow: Callable[..., Any], trained: Any, tmp_path: Path
) -> None:
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)
    folder = trained.export_saved_model(str(tmp_path / "export"), receive).decode()
    assert [each.name for each in (Path(folder) / "assets").iterdir()] == ["words.txt"]
    (tmp_path / "words.txt").unlink()  # the model has its own
    answers = run_tensorflow("estimators.py", "serve", json.dumps(folder), json.dumps(ROWS))
    (tmp_path / "words.txt").write_text("cat\ndog\nbird\n")
    wanted = [
        float(each["value"][0])
        for each in trained.predict(
            lambda: tf.data.Dataset.from_tensor_slices(
                {"word": [word for word, _ in ROWS], "x": [x for _, x in ROWS]}
            ).batch(3)
        )
    ]
    assert {key: each["method"].rpartition("/")[2] for key, each in answers.items()} == {
        "serving_default": "predict",
        "regression": "regress",
        "classification": "classify",
    }
    served = [row[0] for row in answers["serving_default"]["value"]]
    assert served == pytest.approx(wanted, rel=1e-6)
    assert [row[0] for row in answers["regression"]["outputs"]] == pytest.approx(wanted, rel=1e-6)
    classes = [row[0] for row in answers["classification"]["classes"]]
    assert classes == ["dog" if value > 1 else "cat" for value in wanted]


def test_a_training_goes_on_in_tensorflow_and_comes_back(
    run_tensorflow: Callable[..., Any], trained: Any, tmp_path: Path
) -> None:
    target = str(Path(trained.model_dir) / "model.ckpt")
    theirs = run_tensorflow(
        "estimators.py", "train", *map(json.dumps, (trained.latest_checkpoint(), target, ROWS))
    )
    assert theirs["step"] == 7
    # The same steps here: the same numbers.
    other = tf.estimator.Estimator(
        model_fn, str(tmp_path / "other"), params={"words": str(tmp_path / "words.txt")}
    )
    other.train(input_fn, steps=7)
    for name, value in theirs["values"].items():
        np.testing.assert_allclose(other.get_variable_value(name), value, rtol=1e-5)
    trained.train(input_fn, max_steps=10)
    other.train(input_fn, max_steps=10)
    assert sorted(trained.get_variable_names()) == sorted(theirs["values"])
    for name in theirs["values"]:
        ours = other.get_variable_value(name)
        np.testing.assert_allclose(trained.get_variable_value(name), ours, rtol=1e-5)


def test_tensorflow_serves_a_canned_model_of_feature_columns(
    run_tensorflow: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    (tmp_path / "words.txt").write_text("cat\ndog\nbird\n")
    fc = tf.feature_column
    word = fc.categorical_column_with_vocabulary_file(
        "word", str(tmp_path / "words.txt"), num_oov_buckets=1
    )
    buckets = fc.bucketized_column(fc.numeric_column("x", shape=2), [0.0, 1.0])
    # In a cross sparse features come before dense ones, so that this order is that of both.
    wide = [word, fc.crossed_column([buckets, "word"], 20)]
    deep = [fc.numeric_column("x", shape=2), fc.embedding_column(word, 2)]
    model = tf.estimator.DNNLinearCombinedClassifier(
        str(tmp_path / "model"),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[3],
        linear_optimizer=tf.train.FtrlOptimizer(0.5),
    )
    model.train(lambda: input_fn().map(lambda features: (features, [[1], [0], [1]])), steps=4)
    spec = fc.make_parse_example_spec(wide + deep)
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    folder = model.export_saved_model(str(tmp_path / "export"), receive).decode()
    answers = run_tensorflow("estimators.py", "serve", json.dumps(folder), json.dumps(ROWS))
    predictions = model.predict(input_fn)
    wanted = np.array([next(predictions)["probabilities"] for _ in ROWS])
    np.testing.assert_allclose(answers["predict"]["probabilities"], wanted, rtol=1e-5)
    np.testing.assert_allclose(answers["classification"]["scores"], wanted, rtol=1e-5)
    np.testing.assert_allclose(answers["regression"]["outputs"], wanted[:, 1:], rtol=1e-5)
    assert answers["classification"]["classes"] == [["0", "1"]] * len(ROWS)
