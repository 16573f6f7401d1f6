"""EstimatorSpec and ExportOutputs check what a model_fn gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millrace as tf

TRAIN, EVAL, PREDICT = (
    tf.estimator.ModeKeys.TRAIN,
    tf.estimator.ModeKeys.EVAL,
    tf.estimator.ModeKeys.PREDICT,
)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as g:
        yield g


def spec(mode: str, **fields: Any) -> Any:
    return tf.estimator.EstimatorSpec(mode, **fields)


@pytest.mark.parametrize(
    ("mode", "fields", "error", "sentence"),
    [
        (TRAIN, {"loss": 1}, ValueError, "Missing train_op"),
        (TRAIN, {"train_op": 1}, ValueError, "Missing loss"),
        (EVAL, {}, ValueError, "Missing loss"),
        (PREDICT, {}, ValueError, "Missing predictions"),
        (EVAL, {"loss": [1, 2]}, ValueError, "Loss must be scalar"),
    ],
)
def test_what_a_mode_needs_is_asked_for(
    mode: str, fields: Any, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        spec(mode, **{name: tf.constant(value) for name, value in fields.items()})


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"loss": 1.0}, "loss must be Tensor"),
        ({"train_op": "x"}, "train_op must be Operation or Tensor"),
        ({"predictions": {"a": 1}}, r"predictions\[a\] must be Tensor"),
        ({"training_hooks": [1]}, "All hooks must be SessionRunHook instances"),
        ({"scaffold": 1}, "scaffold must be tf.train.Scaffold"),
        ({"eval_metric_ops": [1]}, "eval_metric_ops must be a dict"),
        ({"eval_metric_ops": {"a": 1}}, r"\(metric_value, update_op\) tuples"),
    ],
)
def test_types_are_checked(fields: Any, sentence: str) -> None:
    good = {"loss": tf.constant(1.0), "train_op": tf.no_op()}
    with pytest.raises(TypeError, match=sentence):
        spec(TRAIN, **{**good, **fields})


@pytest.mark.parametrize("field", ["loss", "train_op", "predictions"])
def test_tensors_of_another_graph_are_refused(field: str) -> None:
    with tf.Graph().as_default():
        stranger = tf.constant(1.0)
    good = {"loss": tf.constant(1.0), "train_op": tf.no_op()}
    with pytest.raises(ValueError, match="must be from the default graph"):
        spec(TRAIN, **{**good, field: stranger})


def test_a_loss_of_one_element_becomes_a_scalar() -> None:
    assert spec(EVAL, loss=tf.constant([[1.0]])).loss.shape.as_list() == []


def test_a_field_is_replaced_and_checked_again() -> None:
    first = spec(EVAL, loss=tf.constant(1.0))
    second = first._replace(loss=tf.constant([2.0]))
    assert second.loss.shape.as_list() == [] and second.scaffold is first.scaffold
    with pytest.raises(ValueError, match="mode of EstimatorSpec cannot be changed"):
        first._replace(mode=TRAIN)


def test_keras_metrics_become_pairs_and_local_variables() -> None:
    mean = tf.keras.metrics.Mean()
    with pytest.raises(ValueError, match="Please call update_state"):
        spec(EVAL, loss=tf.constant(1.0), eval_metric_ops={"m": mean})
    mean(tf.constant([1.0, 3.0]))
    value, update = spec(EVAL, loss=tf.constant(1.0), eval_metric_ops={"m": mean}).eval_metric_ops[
        "m"
    ]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        session.run(update)
        assert session.run(value) == 2.0


def test_predictions_are_the_default_signature() -> None:
    outputs = spec(PREDICT, predictions={"a": tf.constant([1.0])}).export_outputs
    assert set(outputs) == {"serving_default"}
    assert set(outputs["serving_default"].outputs) == {"a"}


def test_one_signature_is_also_the_default_and_of_several_one_must_be() -> None:
    value = tf.constant([1.0])
    predict = tf.estimator.export.PredictOutput(value)
    outputs = spec(PREDICT, predictions=value, export_outputs={"a": predict}).export_outputs
    assert outputs == {"a": predict, "serving_default": predict}
    with pytest.raises(ValueError, match="none of them are specified as the default"):
        spec(PREDICT, predictions=value, export_outputs={"a": predict, "b": predict})
    with pytest.raises(TypeError, match="must be ExportOutput objects"):
        spec(PREDICT, predictions=value, export_outputs={"a": value})


def test_outputs_become_signatures_of_their_kind() -> None:
    export = tf.estimator.export
    text, number = tf.constant(["a"]), tf.constant([1.0])
    examples = {"examples": tf.placeholder(tf.string, [None])}
    classify = export.ClassificationOutput(number, text).as_signature_def(examples)
    assert classify.method_name == "tensorflow/serving/classify"
    assert set(classify.outputs) == {"classes", "scores"} and set(classify.inputs) == {"inputs"}
    regress = export.RegressionOutput(number).as_signature_def(examples)
    assert regress.method_name == "tensorflow/serving/regress"
    predict = export.PredictOutput({("a", "b"): number}).as_signature_def({"x": number})
    assert set(predict.outputs) == {"a/b"}
    evaluate = export.EvalOutput(number, {"p": number}, {"m": (number, tf.no_op())})
    assert set(evaluate.as_signature_def({"x": number}).outputs) == {
        "loss",
        "predictions/p",
        "metrics/m/value",
        "metrics/m/update_op",
    }
    with pytest.raises(ValueError, match="can only accept a single tensor input of type tf.string"):
        export.RegressionOutput(number).as_signature_def({"x": number})


def test_outputs_of_a_wrong_type_are_refused() -> None:
    export = tf.estimator.export
    for make, sentence in (
        (lambda: export.ClassificationOutput(), "empty arguments"),
        (lambda: export.ClassificationOutput(tf.constant([1])), "scores must be a float32 Tensor"),
        (lambda: export.ClassificationOutput(classes=tf.constant([1])), "must be a string Tensor"),
        (lambda: export.RegressionOutput(tf.constant(["a"])), "must be a float32 Tensor"),
        (lambda: export.PredictOutput({1: tf.constant(1)}), "output key must be a string"),
        (lambda: export.PredictOutput(1), "Prediction output value must be a Tensor"),
    ):
        with pytest.raises(ValueError, match=sentence):
            make()
