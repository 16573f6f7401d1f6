"""TPU programs run on CPUs: batch sizes, metrics and host calls of a TPUEstimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

tpu = tf.contrib.tpu


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
    value = features["x"] * weight
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions={"value": value})
    loss = tf.reduce_mean(tf.square(value - labels))
    optimizer = tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(0.1))
    called = params["called"]

    def metrics(labels: Any, value: Any) -> Any:
        return {"mae": tf.metrics.mean_absolute_error(labels, value)}

    def host_call(step: Any) -> Any:
        return tf.py_func(lambda s: called.append(int(s)) or np.int64(s), [step], tf.int64)

    return tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, tf.train.get_global_step()),
        eval_metrics=(metrics, [labels, value]),
        host_call=(host_call, [tf.train.get_global_step()]) if mode == "train" else None,
    )


class Called(list[Any]):
    """A list that copies of the parameters share."""

    def __deepcopy__(self, memo: Any) -> Called:
        return self


def input_fn(params: Any) -> Any:
    params["called"].append(("batch", params["batch_size"]))
    x = np.arange(1, 9, dtype=np.float32) / 8
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x)).batch(params["batch_size"])


def estimator(folder: Path, called: Called) -> Any:
    return tpu.TPUEstimator(
        model_fn,
        config=tpu.RunConfig(
            tpu_config=tpu.TPUConfig(iterations_per_loop=4), model_dir=str(folder)
        ),
        params={"called": called},
        use_tpu=False,
        train_batch_size=4,
        eval_batch_size=2,
        predict_batch_size=8,
    )


def test_a_tpu_program_trains_evaluates_and_predicts(tmp_path: Path) -> None:
    called = Called()
    model = estimator(tmp_path, called)
    model.train(input_fn)
    assert [each for each in called if isinstance(each, int)] in ([0, 1], [1, 2])
    weight = model.get_variable_value("weight")
    assert 0.1 < weight < 0.5
    result = model.evaluate(input_fn)
    assert result["global_step"] == 2
    assert result["mae"] == pytest.approx(np.mean(np.arange(1, 9) / 8) * (2 - weight))
    found = list(model.predict(input_fn))
    assert [float(each["value"]) for each in found[:2]] == pytest.approx([weight / 8, weight / 4])
    assert [each for each in called if isinstance(each, tuple)] == [
        ("batch", 4),
        ("batch", 2),
        ("batch", 8),
    ]


def test_what_a_tpu_program_may_not_say_is_refused() -> None:
    with pytest.raises(ValueError, match="`config` must be provided with type"):
        tpu.TPUEstimator(model_fn, config=tf.estimator.RunConfig())
    with pytest.raises(ValueError, match="are reserved keys"):
        tpu.TPUEstimator(model_fn, config=tpu.RunConfig(), params={"batch_size": 3})
    with pytest.raises(ValueError, match="iterations_per_loop must be positive"):
        tpu.TPUConfig(iterations_per_loop=0)
    with pytest.raises(ValueError, match="eval_metrics should have two elements"):
        tpu.TPUEstimatorSpec("eval", eval_metrics=(1, 2, 3))
    with pytest.raises(TypeError, match="should be callable"):
        tpu.TPUEstimatorSpec("eval", eval_metrics=(1, []))
    with pytest.raises(TypeError, match="only works with"):
        tpu.CrossShardOptimizer(3)


def test_a_tpu_configuration_has_targets_of_its_own() -> None:
    config = tpu.RunConfig(master="grpc://a:1")
    assert (config.master, config.evaluation_master) == ("grpc://a:1", "grpc://a:1")
    changed = config.replace(tpu_config=tpu.TPUConfig(num_shards=8), save_summary_steps=3)
    assert (changed.tpu_config.num_shards, changed.save_summary_steps) == (8, 3)
    assert config.tpu_config.num_shards is None
