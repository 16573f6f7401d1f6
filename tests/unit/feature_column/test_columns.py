"""What libraries do with feature columns: subclass both generations, write them, look inside."""

import numpy as np
import pytest

import millrace as tf
from millrace.compat.overlay.python.feature_column import feature_column as first
from millrace.compat.overlay.python.feature_column import feature_column_lib as second

fc = tf.feature_column


def run(output):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(output)


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


class Doubled(first._DenseColumn):
    """A column of the first generation, as libraries write them."""

    def __init__(self, key):
        self.key = key

    @property
    def name(self):
        return f"{self.key}_doubled"

    @property
    def _parse_example_spec(self):
        return {self.key: tf.FixedLenFeature([1], tf.float32)}

    def _transform_feature(self, inputs):
        return inputs.get(self.key) * 2.0

    @property
    def _variable_shape(self):
        return tf.TensorShape([1])

    def _get_dense_tensor(self, inputs, weight_collections=None, trainable=None):
        return inputs.get(self)


class Parity(first._CategoricalColumn):
    """Whether a number is odd, in the first generation."""

    name = "parity"
    _parse_example_spec = {"x": tf.VarLenFeature(tf.int64)}  # noqa: RUF012
    _num_buckets = 2

    def _transform_feature(self, inputs):
        x = inputs.get("x")
        return tf.SparseTensor([[0, 0], [1, 0]], tf.reshape(x % 2, [-1]), [2, 1])

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        return first._CategoricalColumn.IdWeightPair(inputs.get(self), None)


class Hashed(second.HashedCategoricalColumn):
    """A library's version of one of ours, which changes a hook of the first generation."""

    def _get_sparse_tensors(self, inputs, weight_collections=None, trainable=None):
        pair = super()._get_sparse_tensors(inputs, weight_collections, trainable)
        zeros = tf.zeros_like(pair.id_tensor.values)
        ids = tf.SparseTensor(pair.id_tensor.indices, zeros, pair.id_tensor.dense_shape)
        return first._CategoricalColumn.IdWeightPair(ids, None)


def test_a_dense_column_of_the_first_generation_is_an_input():
    output = fc.input_layer({"x": tf.constant([1.0, 2.0])}, [Doubled("x")])
    np.testing.assert_array_equal(run(output), [[2.0], [4.0]])
    assert fc.make_parse_example_spec([Doubled("x")])["x"].shape == [1]


def test_our_columns_take_ids_of_the_first_generation():
    features = {"x": tf.constant([[3], [4]], tf.int64)}
    columns = [
        fc.indicator_column(Parity()),
        fc.embedding_column(Parity(), 1, initializer=tf.ones_initializer()),
    ]
    np.testing.assert_array_equal(
        run(fc.input_layer(features, columns)), [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
    )
    assert not columns[0]._is_v2_column


def test_a_subclass_of_ours_may_change_a_hook_of_the_first_generation():
    column = fc.indicator_column(Hashed("x", 3, tf.string))
    output = run(fc.input_layer({"x": tf.constant([["a"], ["b"]])}, [column]))
    np.testing.assert_array_equal(output, [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])


def test_columns_are_tuples_that_can_be_keys_and_be_changed():
    column = fc.numeric_column("a", shape=2)
    assert column == fc.numeric_column("a", shape=2)
    assert {column: 1}[fc.numeric_column("a", shape=[2])] == 1
    assert column._replace(key="b").name == "b"
    assert isinstance(fc.embedding_column(Parity(), 2), first._EmbeddingColumn)
    assert isinstance(column, second.DenseColumn)


def test_a_vocabulary_file_counts_its_lines(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("red\ngreen\nblue\n")
    column = fc.categorical_column_with_vocabulary_file("c", str(path), num_oov_buckets=1)
    assert column.num_buckets == 4
    features = {"c": tf.constant([["green"], ["unknown"]])}
    output = run(fc.input_layer(features, [fc.indicator_column(column)]))
    np.testing.assert_array_equal(output, [[0, 1, 0, 0], [0, 0, 0, 1]])


def test_an_embedding_begins_as_the_table_of_a_checkpoint(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("table", initializer=[[1.0], [2.0], [3.0]])
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    column = fc.embedding_column(
        fc.categorical_column_with_identity("x", 3),
        1,
        ckpt_to_load_from=path,
        tensor_name_in_ckpt="table",
    )
    output = run(fc.input_layer({"x": tf.constant([[2], [0]])}, [column]))
    np.testing.assert_array_equal(output, [[3.0], [1.0]])


def test_layers_of_columns_are_made_again_from_their_configuration():
    columns = [
        fc.embedding_column(fc.crossed_column(["a", "b"], 5), 2),
        fc.indicator_column(fc.categorical_column_with_vocabulary_list("a", ["x", "y"])),
        fc.bucketized_column(fc.numeric_column("n"), [1.0, 2.0]),
    ]
    layer = tf.keras.layers.DenseFeatures(columns)
    again = tf.keras.layers.DenseFeatures.from_config(layer.get_config())
    assert [c.name for c in again._feature_columns] == [c.name for c in layer._feature_columns]
    assert again._feature_columns[-1] == layer._feature_columns[-1]


def test_sequences_get_their_context():
    context, steps = tf.constant([[1.0], [2.0]]), tf.zeros([2, 3, 1])
    joined = tf.contrib.feature_column.concatenate_context_input(context, steps)
    np.testing.assert_array_equal(run(joined)[:, :, 1], [[1.0] * 3, [2.0] * 3])


def test_sequence_columns_go_side_by_side():
    features = {
        "clicks": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [0, 2, 1], [2, 2]),
        "price": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 2.0, 3.0], [2, 2]),
    }
    columns = [
        fc.indicator_column(fc.sequence_categorical_column_with_identity("clicks", 3)),
        fc.sequence_numeric_column("price"),
    ]
    steps, lengths = run(tf.contrib.feature_column.sequence_input_layer(features, columns))
    np.testing.assert_array_equal(lengths, [2, 1])
    np.testing.assert_array_equal(steps[0], [[1, 0, 0, 1], [0, 0, 1, 2]])


def test_a_missing_feature_says_which_there_are():
    with pytest.raises(ValueError, match="Feature x is not in features dictionary.*It has: y"):
        fc.input_layer({"y": tf.zeros([1, 1])}, [fc.numeric_column("x")])


def test_shared_embeddings_belong_to_dense_features():
    ids = [fc.categorical_column_with_identity(key, 3) for key in "ab"]
    columns = fc.shared_embeddings(ids, 2)
    features = {"a": tf.constant([[1]]), "b": tf.constant([[1]])}
    output = run(tf.keras.layers.DenseFeatures(columns)(features))
    np.testing.assert_array_equal(output[:, :2], output[:, 2:])
    assert [v.name for v in tf.trainable_variables()] == ["a_b_shared_embedding:0"]
    with pytest.raises(ValueError, match="SharedEmbeddingColumns are not supported"):
        fc.input_layer(features, columns)
