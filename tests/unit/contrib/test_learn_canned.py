"""`tf.contrib.learn`'s ready-made models; the figures are TensorFlow 1.15.5's for this code."""

import numpy as np
import pytest

import millrace as tf

learn, layers = tf.contrib.learn, tf.contrib.layers

_DRAWN = np.random.RandomState(0)
X = _DRAWN.randn(60, 4).astype(np.float32)
THREE = (X[:, 0] + X[:, 1] > 0).astype(np.int64) + (X[:, 2] > 1)
TWO = (X[:, 0] > 0).astype(np.int64)


def give(labels):
    def input_fn():
        words = tf.SparseTensor(
            [[i, 0] for i in range(60)], ["abc"[i % 3] for i in range(60)], [60, 1]
        )
        return {"x": tf.constant(X), "s": words}, tf.constant(labels)

    return input_fn


NUMBERS = layers.real_valued_column("x", dimension=4)
WORDS = layers.sparse_column_with_hash_bucket("s", 10)


def trained(estimator, labels):
    estimator.fit(input_fn=give(labels), steps=10)
    return estimator.evaluate(input_fn=give(labels), steps=1)


def test_a_linear_classifier_reports_what_tensorflows_does():
    classifier = learn.LinearClassifier([NUMBERS, WORDS])
    found = trained(classifier, TWO)
    wanted = {
        "accuracy": 0.91667,
        "accuracy/baseline_label_mean": 0.48333,
        "accuracy/threshold_0.500000_mean": 0.91667,
        "auc": 0.97442,
        "auc_precision_recall": 0.97063,
        "global_step": 10,
        "labels/actual_label_mean": 0.48333,
        "labels/prediction_mean": 0.48504,
        "loss": 0.3974,
        "precision/positive_threshold_0.500000_mean": 0.92857,
        "recall/positive_threshold_0.500000_mean": 0.89655,
    }
    assert found == pytest.approx(wanted, abs=1e-5)
    names = [name for name in classifier.get_variable_names() if "Ftrl" not in name]
    assert sorted(names) == [
        "global_step", "linear/bias_weight", "linear/s/weights", "linear/x/weight",
    ]  # fmt: skip


def test_three_classes_are_learned_as_by_tensorflow():
    found = trained(learn.LinearClassifier([NUMBERS, WORDS], n_classes=3), THREE)
    assert found == pytest.approx(
        {"accuracy": 0.91667, "global_step": 10, "loss": 0.45866}, abs=1e-5
    )


def test_a_deep_model_names_its_variables_and_learns():
    embedded = layers.embedding_column(WORDS, 3)
    classifier = learn.DNNClassifier([8, 4], [NUMBERS, embedded], n_classes=3)
    before = trained(classifier, THREE)["loss"]
    assert trained(classifier, THREE)["loss"] < before
    names = {name for name in classifier.get_variable_names() if "Adagrad" not in name}
    assert names == {
        "dnn/hiddenlayer_0/biases", "dnn/hiddenlayer_0/weights", "dnn/hiddenlayer_1/biases",
        "dnn/hiddenlayer_1/weights", "dnn/input_from_feature_columns/s_embedding/weights",
        "dnn/logits/biases", "dnn/logits/weights", "dnn/multi_class_head/dnn/learning_rate",
        "global_step",
    }  # fmt: skip


@pytest.mark.parametrize(("mended", "steps"), [(True, 10), (False, 12)])
def test_wide_and_deep_counts_steps_as_tensorflow_does(mended, steps):
    both = learn.DNNLinearCombinedClassifier(
        linear_feature_columns=[WORDS], dnn_feature_columns=[NUMBERS], dnn_hidden_units=[6],
        fix_global_step_increment_bug=mended,
    )  # fmt: skip
    assert trained(both, TWO)["global_step"] == steps


def test_arrays_are_enough():
    columns = learn.infer_real_valued_columns_from_input(X)
    classifier = learn.DNNClassifier([10], columns, n_classes=3)
    classifier.fit(x=X, y=THREE, steps=20)
    assert len(list(classifier.predict(X))) == 60
    assert np.shape(list(classifier.predict_proba(X[:3]))) == (3, 3)


def test_a_model_without_columns_is_refused():
    with pytest.raises(ValueError, match="Either linear_feature_columns or dnn_feature_columns"):
        learn.DNNLinearCombinedClassifier()


def test_what_is_not_built_is_refused_and_not_ignored() -> None:
    with pytest.raises(NotImplementedError, match="_joint_weight is not built"):
        tf.contrib.learn.LinearClassifier([], _joint_weight=True)
    with pytest.raises(NotImplementedError, match="embedding_lr_multipliers is not built"):
        tf.contrib.learn.DNNRegressor([4], [], embedding_lr_multipliers={"a": 2.0})
