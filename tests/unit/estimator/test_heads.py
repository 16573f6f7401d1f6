"""What libraries do with heads, and how canned models are put together."""

import numpy as np
import pytest

import millrace as tf
from millrace.compat.overlay.python.estimator.canned import head as heads

fc = tf.feature_column


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    with tf.Graph().as_default() as graph:
        yield graph


class Hinge(heads._Head):
    """A head as libraries write them."""

    name = "hinge"
    logits_dimension = 1

    def create_loss(self, features, mode, logits, labels):
        each = tf.nn.relu(1.0 - logits * (2.0 * tf.to_float(labels) - 1.0))
        return heads.LossSpec(tf.reduce_sum(each), each, 1.0, labels)

    def create_estimator_spec(
        self, features, mode, logits, labels=None, optimizer=None, train_op_fn=None, **_
    ):
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"score": logits})
        loss = self.create_loss(features, mode, logits, labels).training_loss
        step = tf.train.get_global_step()
        train_op = optimizer.minimize(loss, global_step=step) if optimizer else None
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def batches():
    x = np.array([[-1.0], [-0.5], [0.5], [1.0]], np.float32)
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, (x > 0).astype(np.int64)))
    return data.batch(4).repeat()


def test_a_head_of_a_library_trains_a_canned_model(tmp_path):
    model = tf.estimator.DNNEstimator(Hinge(), [4], [fc.numeric_column("x")], str(tmp_path))
    model.train(batches, steps=30)
    predicted = model.predict(batches)
    scores = [next(predicted)["score"][0] for _ in range(4)]
    assert scores[0] < scores[3]


def test_contribs_heads_go_together(tmp_path):
    head = tf.contrib.estimator.multi_head(
        [
            tf.contrib.estimator.binary_classification_head(name="click"),
            tf.contrib.estimator.regression_head(name="price"),
        ]
    )

    def pairs():
        return batches().map(lambda f, y: (f, {"click": y, "price": tf.to_float(y) * 2.0}))

    model = tf.estimator.LinearEstimator(head, [fc.numeric_column("x")], str(tmp_path))
    model.train(pairs, steps=20)
    metrics = model.evaluate(pairs, steps=1)
    assert metrics["accuracy/click"] == 1.0
    assert {"loss/click", "loss/price", "average_loss/price"} <= set(metrics)
    prediction = next(model.predict(pairs))
    assert ("click", "probabilities") in prediction


def test_labels_out_of_range_fail_the_step():
    head = heads._binary_logistic_head_with_sigmoid_cross_entropy_loss()
    labels = tf.placeholder(tf.int64, [2, 1])
    loss = head.create_loss({}, "train", tf.zeros([2, 1]), labels).training_loss
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as raised:
        session.run(loss, {labels: [[0], [3]]})
    assert "Labels must <= n_classes - 1" in str(raised.value)


def test_an_unknown_optimizer_names_the_known_ones():
    with pytest.raises(ValueError, match=r"Unsupported optimizer name: Adamm.*Adagrad"):
        from millrace.estimator.canned.optimizers import get_optimizer_instance

        get_optimizer_instance("Adamm", 0.1)


def test_a_combined_model_needs_columns():
    with pytest.raises(ValueError, match="Either linear_feature_columns or dnn_feature_columns"):
        tf.estimator.DNNLinearCombinedClassifier()


def test_a_label_is_no_feature():
    columns = [fc.numeric_column("x")]
    spec = tf.estimator.classifier_parse_example_spec(columns, "y", weight_column="w")
    assert sorted(spec) == ["w", "x", "y"]
    with pytest.raises(ValueError, match="label should not be used as feature"):
        tf.estimator.classifier_parse_example_spec(columns, "x")


def test_large_tables_are_cut_over_parameter_servers(graph):
    class Config:
        num_ps_replicas = 2

    from millrace.estimator.canned.dnn import _dnn_model_fn

    tf.train.get_or_create_global_step()
    column = fc.embedding_column(fc.categorical_column_with_identity("id", 1 << 20), 64)
    _dnn_model_fn(
        {"id": tf.constant([[1], [2]])},
        tf.constant([[0.0], [1.0]]),
        "train",
        heads._regression_head(),
        [8],
        (column,),
        config=Config(),
    )
    place = "dnn/input_from_feature_columns/input_layer/id_embedding/embedding_weights"
    names = [v.name for v in tf.trainable_variables()]
    assert [f"{place}/part_0:0", f"{place}/part_1:0"] == names[:2]
