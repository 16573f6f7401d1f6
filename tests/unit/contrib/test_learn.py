"""tf.contrib.learn on top of tf.estimator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

learn = tf.contrib.learn
X = np.linspace(-1, 1, 16, dtype=np.float32).reshape(16, 1)
Y = 3 * X + 1


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    value = tf.layers.dense(features, 1)
    if mode == learn.ModeKeys.INFER:
        return learn.ModelFnOps(mode, predictions={"value": value})
    loss = tf.losses.mean_squared_error(labels, value)
    train = tf.contrib.layers.optimize_loss(
        loss, tf.train.get_global_step(), params["rate"], "SGD", summaries=[]
    )
    return learn.ModelFnOps(mode, predictions={"value": value}, loss=loss, train_op=train)


def tuple_fn(features: Any, labels: Any) -> Any:
    value = tf.layers.dense(features, 1)
    loss = tf.losses.mean_squared_error(labels, value)
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    return value, loss, optimizer.minimize(loss, tf.train.get_global_step())


def estimator(folder: Path) -> Any:
    return learn.Estimator(model_fn, str(folder), params={"rate": 0.5})


def test_arrays_are_fitted_evaluated_and_predicted(tmp_path: Path) -> None:
    model = estimator(tmp_path)
    model.fit(X, Y, steps=60)
    metrics = {
        "mae": learn.MetricSpec(tf.metrics.mean_absolute_error, prediction_key="value"),
        ("mse", "value"): tf.metrics.mean_squared_error,
    }
    result = model.evaluate(X, Y, metrics=metrics)
    assert result["mae"] < 0.1 and result["mse"] < 0.02 and result["global_step"] == 60
    whole = model.predict(X, as_iterable=False)["value"]
    assert np.allclose(whole, Y, atol=0.2)
    assert len(list(model.predict(X, outputs=["value"]))) == 16
    assert {"dense/bias", "dense/kernel", "global_step"} <= set(model.get_variable_names())


def test_a_model_function_may_return_a_tuple(tmp_path: Path) -> None:
    model = learn.SKCompat(learn.Estimator(tuple_fn, str(tmp_path)))
    model.fit(X, Y, batch_size=16, steps=20)
    assert model.score(X, Y)["loss"] < 0.5
    with pytest.raises(ValueError, match="Either x or input_fn"):
        learn.Estimator(tuple_fn, str(tmp_path)).fit(steps=1)


def input_fn() -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8).repeat(4)


def test_an_experiment_runs_what_falls_to_its_task(tmp_path: Path) -> None:
    def experiment_fn(run_config: Any, hparams: Any) -> Any:
        return learn.Experiment(
            learn.Estimator(model_fn, config=run_config, params=hparams),
            input_fn,
            input_fn,
            train_steps=5,
            eval_steps=2,
        )

    result, exported = learn.learn_runner.run(
        experiment_fn,
        run_config=learn.RunConfig(model_dir=str(tmp_path)),
        hparams={"rate": 0.5},
    )
    assert result["global_step"] == 5 and exported == []
    with pytest.raises(ValueError, match="non-existent task dance"):
        learn.learn_runner.run(
            experiment_fn, run_config=learn.RunConfig(model_dir="m"), schedule="dance", hparams={}
        )
    with pytest.raises(ValueError, match="Must specify an output directory"):
        learn.learn_runner.run(experiment_fn)


def test_a_cluster_needs_no_chief(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"ps": ["a:1"], "worker": ["b:1", "c:1"]}
    for index, is_chief in ((0, True), (1, False)):
        place = {"cluster": cluster, "task": {"type": "worker", "index": index}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(place))
        config = learn.RunConfig()
        assert (config.is_chief, config.num_worker_replicas) == (is_chief, 2)
        assert config.master == f"grpc://{cluster['worker'][index]}"
    with pytest.raises(ValueError, match="is no task of the cluster"):
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "x"}}))
        learn.RunConfig()


def test_columns_are_inferred_from_arrays_and_input_functions() -> None:
    (column,) = learn.infer_real_valued_columns_from_input(np.zeros([4, 3], np.float32))
    assert (column.key, column.shape) == ("", (3,))
    (column,) = learn.infer_real_valued_columns_from_input_fn(
        lambda: ({"x": tf.zeros([4, 2])}, tf.zeros([4]))
    )
    assert (column.key, column.shape) == ("x", (2,))
