"""Stories of trainings, evaluations, predictions and exports."""

from __future__ import annotations

import os

import numpy as np

from estimator_stories.models import (
    X,
    Y,
    estimator,
    events,
    files,
    input_fn,
    linear_model,
    rounded,
    scenario,
)

_LINES = (
    r"^(Using default|Calling|Done calling|Create Ch|Graph was|Restoring|Running|Done running|"
    r"Saving|Skipping|Loss for|Could not|Evaluation|Training with|Start train|Skip the|"
    r"Performing|Loading best|Signatures|Warm|Input graph|Export includes)"
)


@scenario
def train_evaluate_predict(tf, story):
    model = estimator(tf, story)
    with story.logs(tf, _LINES):
        story.note("self", model.train(input_fn(tf, 4), steps=7) is model)
        model.train(input_fn(tf, 2), max_steps=9)
        model.train(input_fn(tf), max_steps=9)
        result = model.evaluate(input_fn(tf), steps=2, name="two")
        story.note("result", rounded(result), sorted(type(v).__name__ for v in result.values()))
        whole = model.evaluate(input_fn(tf))
        story.note("whole", rounded(whole))
    found = list(model.predict(lambda: tf.data.Dataset.from_tensor_slices({"x": X}).batch(4)))
    story.note("predictions", len(found), rounded(found[-1]))
    batches = model.predict(input_fn(tf), predict_keys="value", yield_single_examples=False)
    story.note("batches", [rounded(batch) for batch in batches])
    story.note("variables", sorted(model.get_variable_names()))
    story.note("weights", rounded(model.get_variable_value("linear/weights")))
    story.note("latest", os.path.basename(model.latest_checkpoint()))
    story.note("dirs", [model.eval_dir()[-4:], model.eval_dir("a")[-6:]])
    story.note("files", files(model.model_dir))
    story.note("training's events", events(tf, model.model_dir))
    story.note("evaluation's events", events(tf, model.eval_dir("two")))


@scenario
def an_input_that_ends_ends_the_training(tf, story):
    model = estimator(tf, story, save_checkpoints_steps=None, save_checkpoints_secs=None)
    with story.logs(tf, _LINES):
        model.train(input_fn(tf, 2))
        model.train(lambda: tf.data.Dataset.from_tensor_slices(({"x": X[:0]}, Y[:0])).batch(2))
    story.note("files", files(model.model_dir))


@scenario
def without_a_checkpoint(tf, story):
    model = estimator(tf, story)
    with story.logs(tf, _LINES):
        story.note("fresh", rounded(model.evaluate(input_fn(tf))))
        story.note("fresh", rounded(next(model.predict(input_fn(tf)))))
    story.note("none", model.latest_checkpoint())
    for act in (
        model.get_variable_names,
        lambda: model.get_variable_value("w"),
        lambda: model.export_saved_model(story.folder, lambda: None),
    ):
        try:
            act()
        except ValueError as error:
            story.note("refused", str(error)[:27])


@scenario
def arrays_as_input(tf, story):
    inputs = tf.estimator.inputs
    model = estimator(tf, story)
    model.train(inputs.numpy_input_fn({"x": X}, Y, batch_size=4, num_epochs=3, shuffle=False))
    story.note("weights", rounded(model.get_variable_value("linear/weights")))
    story.note("step", rounded(model.get_variable_value("global_step")))
    evaluate = inputs.numpy_input_fn({"x": X}, Y, batch_size=3, shuffle=False)
    story.note("result", rounded(model.evaluate(evaluate)))
    predict = inputs.numpy_input_fn({"x": X}, batch_size=4, shuffle=False)
    story.note("predictions", [rounded(each["value"]) for each in model.predict(predict)])
    story.note("tags", events(tf, model.model_dir)[0])
    shuffled = inputs.numpy_input_fn({"x": X}, Y, batch_size=4, num_epochs=2, shuffle=True)
    story.note("all come", rounded(model.evaluate(shuffled)))
    for arguments in (
        {"x": {"x": X}, "y": Y},
        {"x": {}, "shuffle": False},
        {"x": 3, "shuffle": False},
        {"x": X[:0], "shuffle": False},
        {"x": X, "y": {}, "shuffle": False},
        {"x": {"a": X}, "y": {"a": Y}, "shuffle": False},
        {"x": X, "y": Y[:3], "shuffle": False},
    ):
        with story.raises(), tf.Graph().as_default():
            inputs.numpy_input_fn(**arguments)()


@scenario
def train_and_evaluate_locally(tf, story):
    parse = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"x": tf.FixedLenFeature([3], tf.float32)}
    )
    model = estimator(tf, story)
    heard = []

    class Listener(tf.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            heard.append(int(global_step_value))

    with story.logs(tf, _LINES):
        metrics, exported = tf.estimator.train_and_evaluate(
            model,
            tf.estimator.TrainSpec(input_fn(tf, 9), max_steps=8, saving_listeners=[Listener()]),
            tf.estimator.EvalSpec(
                input_fn(tf),
                steps=None,
                exporters=[
                    tf.estimator.LatestExporter("latest", parse, exports_to_keep=1),
                    tf.estimator.FinalExporter("final", parse),
                    tf.estimator.BestExporter("best", parse, exports_to_keep=1),
                ],
                throttle_secs=0,
            ),
        )
    story.note("metrics", rounded(metrics))
    story.note("exported", [type(each).__name__ for each in exported])
    story.note("heard", heard)
    story.note("files", files(model.model_dir))
    story.note("events", events(tf, model.eval_dir()))


@scenario
def throttled_evaluations(tf, story):
    model = estimator(tf, story, save_checkpoints_steps=2)
    with story.logs(tf, r"^(Skip the|Saving dict)"):
        tf.estimator.train_and_evaluate(
            model,
            tf.estimator.TrainSpec(input_fn(tf, 9), max_steps=7),
            tf.estimator.EvalSpec(input_fn(tf), steps=1, throttle_secs=1000),
        )


@scenario
def exported_signatures(tf, story):
    model = estimator(tf, story)
    model.train(input_fn(tf, 3))
    extra = os.path.join(story.folder, "note.txt")
    with open(extra, "w") as file:
        file.write("x")
    parse = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"x": tf.FixedLenFeature([3], tf.float32)}
    )
    with tf.Graph().as_default():
        raw = tf.estimator.export.build_raw_serving_input_receiver_fn(
            {"x": tf.placeholder(tf.float32, [None, 3], name="x")}
        )
    supervised = tf.Graph()
    with supervised.as_default():
        both = tf.estimator.experimental.build_raw_supervised_input_receiver_fn(
            {"x": tf.placeholder(tf.float32, [None, 3], name="x")},
            tf.placeholder(tf.float32, [None, 1], name="y"),
        )
    with story.logs(tf, r"^(Signatures|Export includes)"):
        parsed = model.export_saved_model(
            os.path.join(story.folder, "a"), parse, assets_extra={"sub/note.txt": extra}
        )
        plain = model.export_savedmodel(os.path.join(story.folder, "b"), raw)
        modes = model.experimental_export_all_saved_models(
            os.path.join(story.folder, "c"),
            {"infer": raw, "train": both, "eval": both},
        )
    for folder in (parsed, plain, modes):
        story.note("type", type(folder).__name__, files(folder.decode()))
        tags = [["serve"]] if folder is not modes else [["serve"], ["train"], ["eval"]]
        for tag in tags:
            with tf.Session(graph=tf.Graph()) as session:
                graph = tf.saved_model.loader.load(session, tag, folder.decode())
                for key, signature in sorted(graph.signature_def.items()):
                    if key.startswith("__"):
                        continue
                    story.note(
                        tag[0],
                        key,
                        signature.method_name,
                        sorted((k, v.name, v.dtype) for k, v in signature.inputs.items()),
                        sorted((k, v.dtype) for k, v in signature.outputs.items()),
                    )
                if tag == ["serve"] and folder is not parsed:
                    wanted = graph.signature_def["serving_default"]
                    fetched = session.run(
                        wanted.outputs["value"].name, {wanted.inputs["x"].name: X[:2]}
                    )
                    story.note("served", rounded(fetched))


@scenario
def warm_start(tf, story):
    first = estimator(tf, story, "first")
    first.train(input_fn(tf, 3))
    folder = os.path.join(story.folder, "second")
    with story.logs(tf, r"^Warm"):
        second = tf.estimator.Estimator(
            linear_model(tf), folder, params={"rate": 0.3}, warm_start_from=first.model_dir
        )
        story.note("as trained", rounded(second.evaluate(input_fn(tf))))
        second.train(input_fn(tf), steps=1)
        third = tf.estimator.Estimator(
            linear_model(tf),
            os.path.join(story.folder, "third"),
            params={"rate": 0.3},
            warm_start_from=tf.estimator.WarmStartSettings(first.model_dir, ".*bias.*"),
        )
        third.train(input_fn(tf), steps=1)
    for model in (second, third):
        story.note("weights", rounded(model.get_variable_value("linear/weights")))
        story.note("bias", rounded(model.get_variable_value("linear/bias")))


@scenario
def hooks_in_order(tf, story):
    def hook(name):
        class Told(tf.train.SessionRunHook):
            def begin(self):
                story.note(name, "begin")

            def end(self, session):
                story.note(name, "end")

        return Told()

    def model_fn(features, labels, mode, params):
        spec = linear_model(tf)(features, labels, mode, params)
        return spec._replace(
            training_hooks=[hook("training")],
            training_chief_hooks=[hook("chief")],
            evaluation_hooks=[hook("evaluation")],
            prediction_hooks=[hook("prediction")],
        )

    model = estimator(tf, story, model_fn=model_fn)
    model.train(input_fn(tf), hooks=[hook("given")], steps=1)
    model.evaluate(input_fn(tf), hooks=[hook("given")])
    list(model.predict(input_fn(tf), hooks=[hook("given")]))


@scenario
def evaluation_in_memory_and_early_stopping(tf, story):
    experimental = tf.estimator.experimental
    model = estimator(tf, story)
    with story.logs(tf, r"^(Saving dict|At step|No )"):
        model.train(
            input_fn(tf, 9),
            hooks=[
                experimental.InMemoryEvaluatorHook(model, input_fn(tf), every_n_iter=3),
                experimental.stop_if_lower_hook(
                    model, "loss", 1.0, run_every_secs=None, run_every_steps=1
                ),
            ],
        )
    story.note("step", rounded(model.get_variable_value("global_step")))
    story.note("variables", sorted(model.get_variable_names()))
    story.note("events", events(tf, model.eval_dir()))


@scenario
def more_metrics(tf, story):
    model = tf.estimator.add_metrics(
        estimator(tf, story), lambda labels, features: {"labels": tf.metrics.mean(labels)}
    )
    story.note("result", rounded(model.evaluate(input_fn(tf))))


@scenario
def functions_that_take_what_they_name(tf, story):
    def input_with_all(mode, params, config):
        story.note("input", mode, params["rate"], config.tf_random_seed)
        return input_fn(tf)()

    def model_fn(features, mode, labels, config, params):
        story.note("model", sorted(features), labels is None, mode, config.task_type)
        return linear_model(tf)(features, labels, mode, params)

    class Callable:
        def __call__(self, features, labels, mode, params):
            return linear_model(tf)(features, labels, mode, params)

    model = estimator(tf, story, model_fn=model_fn, tf_random_seed=7)
    model.train(input_with_all, steps=1)
    list(model.predict(input_with_all))
    other = estimator(tf, story, "other", model_fn=Callable())
    story.note("object", rounded(other.evaluate(input_fn(tf))))


@scenario
def seeds_repeat(tf, story):
    def model_fn(features, labels, mode):
        noise = tf.random_uniform([])
        loss = tf.reduce_mean(features["x"]) * 0 + noise
        step = tf.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.assign_add(step, 1))

    results = [
        tf.estimator.Estimator(
            model_fn,
            os.path.join(story.folder, str(i)),
            tf.estimator.RunConfig(tf_random_seed=seed),
        ).evaluate(input_fn(tf), steps=1)["loss"]
        for i, seed in enumerate([5, 5, 6])
    ]
    story.note("same", bool(results[0] == results[1]), "other", bool(results[0] != results[2]))
    story.note("value", rounded(np.array(results)))
