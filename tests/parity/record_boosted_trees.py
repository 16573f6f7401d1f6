"""Records boosted trees of TensorFlow 1.15: run with a Python that has tensorflow 1.15.5.

python tests/parity/record_boosted_trees.py tests/parity/figures/boosted_trees.json
"""

import json
import sys

import numpy as np

#: Kind of model, batch size, batches per layer, other arguments.
CASES = {
    "regressor": ("Regressor", 60, 1, {"n_trees": 3, "max_depth": 3}),
    "regressor_of_three_batches": (
        "Regressor", 20, 3,
        {"n_trees": 4, "max_depth": 2, "l2_regularization": 0.1, "l1_regularization": 0.01,
         "learning_rate": 0.5},
    ),
    "classifier": ("Classifier", 60, 1, {"n_trees": 3, "max_depth": 3}),
    "centered_classifier": (
        "Classifier", 60, 1, {"n_trees": 3, "max_depth": 2, "center_bias": True},
    ),
    "centered_regressor": (
        "Regressor", 30, 2,
        {"n_trees": 2, "max_depth": 3, "center_bias": True, "min_node_weight": 0.05},
    ),
    "pruned_before": (
        "Regressor", 60, 1,
        {"n_trees": 3, "max_depth": 4, "tree_complexity": 0.2, "pruning_mode": "pre"},
    ),
    "pruned_after": (
        "Regressor", 60, 1,
        {"n_trees": 3, "max_depth": 4, "tree_complexity": 0.2, "pruning_mode": "post"},
    ),
}  # fmt: skip


def data():
    """Sixty examples with two numbers and a word."""
    draw = np.random.RandomState(3)
    a = draw.uniform(0, 10, 60).astype("float32")
    b = draw.uniform(-1, 1, 60).astype("float32")
    c = draw.choice(["x", "y", "z"], 60)
    y = (a + 3 * b + (c == "y") * 4 + draw.normal(0, 0.5, 60)).astype("float32")
    return {"a": a, "b": b, "c": c}, y


def columns(tf):
    """Their columns."""
    fc = tf.feature_column
    words = fc.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
    return [
        fc.bucketized_column(fc.numeric_column("a"), [2.0, 4.0, 6.0, 8.0]),
        fc.bucketized_column(fc.numeric_column("b"), [-0.5, 0.0, 0.5]),
        fc.indicator_column(words),
    ]


def train(tf, case, model_dir=None):
    """A trained model, and what gives the data as one batch."""
    kind, batch, batches, options = CASES[case]
    features, labels = data()
    if kind == "Classifier":
        labels = (labels > 6).astype("int64")

    def batches_of(size):
        return tf.data.Dataset.from_tensor_slices((features, labels)).batch(size)

    made = getattr(tf.estimator, "BoostedTrees" + kind)(
        columns(tf), batches, model_dir=model_dir, **options
    )
    made.train(lambda: batches_of(batch).repeat(), steps=400)
    return made, lambda: batches_of(60)


def figures(tf, case, model_dir=None):
    """Metrics, predictions and the saved trees."""
    made, whole = train(tf, case, model_dir)
    key = "logistic" if CASES[case][0] == "Classifier" else "predictions"
    reader = tf.train.load_checkpoint(made.model_dir)
    names = sorted(reader.get_variable_to_shape_map())
    return {
        "metrics": {name: float(value) for name, value in made.evaluate(whole).items()},
        "predictions": [float(each[key][0]) for each in made.predict(whole)],
        "names": names,
        "trees": reader.get_tensor("boosted_trees:0_serialized").hex(),
    }


if __name__ == "__main__":
    import tensorflow

    recorded = {case: figures(tensorflow, case) for case in CASES}
    with open(sys.argv[1], "w") as file:
        json.dump({"tensorflow": tensorflow.__version__, "cases": recorded}, file, indent=1)
        file.write("\n")
