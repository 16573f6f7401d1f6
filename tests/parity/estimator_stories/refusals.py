"""Stories of what is refused."""

from __future__ import annotations

import os

from estimator_stories.models import X, Y, estimator, input_fn, linear_model, scenario


@scenario
def bad_calls(tf, story):
    model = estimator(tf, story)
    for arguments in (
        {"steps": 1, "max_steps": 1},
        {"steps": 0},
        {"max_steps": -1},
        {"hooks": [1], "steps": 1},
        {"saving_listeners": [1], "steps": 1},
    ):
        with story.raises():
            model.train(input_fn(tf), **arguments)
    for arguments in ({"steps": 0}, {"hooks": [1]}):
        with story.raises():
            model.evaluate(input_fn(tf), **arguments)
    with story.raises():
        next(model.predict(input_fn(tf), predict_keys="nothing"))
    with story.raises():
        model.export_saved_model(story.folder, None)
    never = estimator(tf, story, save_checkpoints_steps=None, save_checkpoints_secs=None)
    with story.raises():
        never.train(input_fn(tf), saving_listeners=[tf.train.CheckpointSaverListener()])


@scenario
def bad_model_functions(tf, story):
    good = linear_model(tf)

    def no_train_op(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features["x"]))

    def no_spec(features, labels, mode):
        return {}

    def no_labels(features, mode):
        return {}

    def loss_metric(features, labels, mode):
        loss = tf.reduce_mean(labels)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"loss": tf.metrics.mean(labels)}
        )

    def step_metric(features, labels, mode):
        loss = tf.reduce_mean(labels)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"global_step": tf.metrics.mean(labels)}
        )

    def vector_loss(features, labels, mode):
        return tf.estimator.EstimatorSpec(mode, loss=labels)

    def uneven(features, labels, mode):
        return tf.estimator.EstimatorSpec(
            mode, predictions={"a": features["x"], "b": features["x"][:1]}
        )

    def missing_feature(features, labels, mode):
        return features["nothing"]

    def model(function, **arguments):
        folder = os.path.join(story.folder, "m")
        return tf.estimator.Estimator(function, folder, **arguments)

    for function, act in (
        (no_train_op, "train"),
        (no_spec, "train"),
        (no_labels, "train"),
        (loss_metric, "evaluate"),
        (step_metric, "evaluate"),
        (vector_loss, "evaluate"),
        (missing_feature, "train"),
    ):
        with story.raises():
            getattr(model(function), act)(lambda: ({"x": tf.constant(X)}, tf.constant(Y)))
    with story.raises():
        next(model(uneven).predict(input_fn(tf)))
    for function, arguments in (
        (lambda labels: None, {}),
        (lambda features, other: None, {}),
        (lambda features: None, {"params": {"a": 1}}),
        (None, {}),
        (good, {"config": 3}),
        (good, {"warm_start_from": 3}),
        (good, {"config": tf.estimator.RunConfig(model_dir="elsewhere")}),
    ):
        with story.raises():
            model(function, **arguments)

    class Overrides(tf.estimator.Estimator):
        def train(self, *args):
            pass

        def _call_model_fn(self, *args):
            pass

    with story.raises():
        Overrides(good)


@scenario
def bad_input_functions(tf, story):
    model = estimator(tf, story)
    with story.raises():
        model.train(lambda: (1, 2, 3))
    with story.raises(text=False):
        model.train(lambda: ({"x": tf.constant(X)}, tf.constant(Y[:, 0][:3])), steps=1)


@scenario
def bad_specs(tf, story):
    train, evaluate = tf.estimator.TrainSpec, tf.estimator.EvalSpec
    give = input_fn(tf)

    def exporter(name):
        return tf.estimator.FinalExporter(name, lambda: None)

    for make in (
        lambda: train(1),
        lambda: train(give, max_steps=0),
        lambda: train(give, hooks=[1]),
        lambda: train(give, saving_listeners=[1]),
        lambda: evaluate(1),
        lambda: evaluate(give, steps=0),
        lambda: evaluate(give, name=1),
        lambda: evaluate(give, start_delay_secs=-1),
        lambda: evaluate(give, throttle_secs=-1),
        lambda: evaluate(give, exporters=[1]),
        lambda: evaluate(give, exporters=1),
        lambda: evaluate(give, exporters=exporter("")),
        lambda: evaluate(give, exporters=exporter(1)),
        lambda: evaluate(give, exporters=[exporter("a"), exporter("a")]),
        lambda: tf.estimator.LatestExporter("a", give, exports_to_keep=0),
        lambda: tf.estimator.BestExporter("a", give, compare_fn=None),
        lambda: tf.estimator.BestExporter("a", give, compare_fn=lambda a, b: 1),
        lambda: tf.estimator.BestExporter("a", give, exports_to_keep=-1),
        lambda: tf.estimator.train_and_evaluate(1, train(give), evaluate(give)),
        lambda: tf.estimator.train_and_evaluate(estimator(tf, story), 1, evaluate(give)),
        lambda: tf.estimator.train_and_evaluate(estimator(tf, story), train(give), None),
        lambda: tf.estimator.export.ServingInputReceiver(None, None),
        lambda: tf.estimator.export.ServingInputReceiver({1.5: tf.constant(1)}, tf.constant(1)),
        lambda: tf.estimator.export.ServingInputReceiver({"a": 1}, tf.constant(1)),
        lambda: tf.estimator.export.TensorServingInputReceiver(None, tf.constant(1)),
        lambda: tf.estimator.experimental.make_early_stopping_hook(1, give),
        lambda: tf.estimator.experimental.InMemoryEvaluatorHook(
            estimator(tf, story), give, every_n_iter=0
        ),
        lambda: tf.estimator.add_metrics(estimator(tf, story), lambda other: {}),
    ):
        with story.raises():
            make()
    receiver = tf.estimator.export.ServingInputReceiver(tf.constant(1), tf.constant(2))
    story.note("names", sorted(receiver.features), sorted(receiver.receiver_tensors))
