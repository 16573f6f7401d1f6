"""A small model, its input, and looks into what a run leaves behind."""

from __future__ import annotations

import os

import numpy as np

SCENARIOS = {}

X = (np.arange(30, dtype=np.float32).reshape(10, 3) - 12) / 10
Y = X @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.25


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def linear_model(tf):
    """A model function with a metric, a summary and, for serving, three kinds of signatures."""

    def model_fn(features, labels, mode, params):
        with tf.variable_scope("linear"):
            weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
            bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
            value = tf.matmul(features["x"], weights) + bias
        if mode == tf.estimator.ModeKeys.PREDICT:
            classes = tf.where(
                value[:, 0] > 0,
                tf.fill([tf.shape(value)[0]], "yes"),
                tf.fill([tf.shape(value)[0]], "no"),
            )
            export = tf.estimator.export
            return tf.estimator.EstimatorSpec(
                mode,
                predictions={"value": value, "x": features["x"]},
                export_outputs={
                    "serving_default": export.PredictOutput({"value": value}),
                    "regress": export.RegressionOutput(value[:, 0]),
                    "classify": export.ClassificationOutput(
                        scores=tf.sigmoid(value), classes=tf.reshape(classes, [-1, 1])
                    ),
                },
            )
        loss = tf.reduce_mean(tf.square(value - labels))
        tf.summary.scalar("half_loss", loss / 2)
        step = tf.train.get_global_step()
        train_op = tf.train.AdagradOptimizer(params["rate"]).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=train_op,
            eval_metric_ops={"mae": tf.metrics.mean_absolute_error(labels, value)},
        )

    return model_fn


def estimator(tf, story, name="model", model_fn=None, **settings):
    config = tf.estimator.RunConfig(
        **{
            "save_checkpoints_steps": 5,
            "save_summary_steps": 4,
            "log_step_count_steps": 4,
            **settings,
        }
    )
    folder = os.path.join(story.folder, name)
    return tf.estimator.Estimator(
        model_fn or linear_model(tf), folder, config, params={"rate": 0.3}
    )


def input_fn(tf, epochs=1, batch=4):
    return lambda: tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).repeat(epochs).batch(batch)


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [rounded(each) for each in value]
    if isinstance(value, bytes):
        return value.decode()
    array = np.asarray(value)
    return np.round(array.astype(np.float64), 4).tolist() if array.dtype.kind in "fiub" else value


def files(folder):
    """The files of a folder; those whose names differ from run to run by their kind."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(place, name), folder)
            if "tfevents" in name:
                path = os.path.join(os.path.dirname(path), "EVENTS")
            parts = [
                "TIME" if part.isdigit() and len(part) == 10 else part for part in path.split("/")
            ]
            found.append("/".join(parts))
    return sorted(found)


def events(tf, folder):
    """Steps and tags of the summaries in a folder, without the measured speed."""
    told = []
    for name in sorted(os.listdir(folder)):
        if "tfevents" not in name:
            continue
        for event in tf.train.summary_iterator(os.path.join(folder, name)):
            tags = [value.tag for value in event.summary.value if value.tag != "global_step/sec"]
            if tags:
                told.append([event.step, sorted(tags)])
    return sorted(told)
