"""`tf.contrib.layers`' columns: what old programs build of them."""

import numpy as np
import pytest

import millrace as tf

layers = tf.contrib.layers


@pytest.fixture(autouse=True)
def graph(monkeypatch):
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    with tf.Graph().as_default():
        yield


def features():
    return {
        "age": tf.constant([[20.0], [50.0]]),
        "job": tf.SparseTensor([[0, 0], [1, 0]], ["smith", "cook"], [2, 1]),
        "city": tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["oslo", "rome", "oslo"], [2, 2]),
    }


def run(output):
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        return session.run(output)


def test_dense_columns_go_side_by_side_in_the_old_order():
    age = layers.real_valued_column("age")
    city = layers.sparse_column_with_keys("city", ["oslo", "rome"])
    columns = [
        age,
        layers.one_hot_column(city),
        layers.embedding_column(city, 2, initializer=tf.ones_initializer()),
        layers.bucketized_column(age, [30.0, 30.0, 60.0]),
    ]
    output = layers.input_from_feature_columns(features(), columns)
    assert [v.name for v in tf.model_variables()] == [
        "input_from_feature_columns/city_embedding/weights:0"
    ]
    # buckets, embedding, one-hot, number
    expected = [[1, 0, 0, 1, 1, 1, 0, 20.0], [0, 1, 0, 1, 1, 1, 1, 50.0]]
    np.testing.assert_array_equal(run(output), expected)


def test_a_linear_model_has_weights_for_each_column_and_a_bias():
    job = layers.sparse_column_with_hash_bucket("job", 10)
    city = layers.sparse_column_with_hash_bucket("city", 10, combiner="mean")
    columns = [job, city, layers.crossed_column([job, city], 20), layers.real_valued_column("age")]
    output, variables, bias = layers.weighted_sum_from_feature_columns(features(), columns, 1)
    assert bias.name == "weighted_sum_from_feature_columns/bias_weight:0"
    assert variables[city][0].name == "weighted_sum_from_feature_columns/city/weights:0"
    assert variables[columns[2]][0].shape.as_list() == [20, 1]
    gradients = tf.gradients(output, [variables[city][0], variables[columns[3]][0]])
    of_city, of_age = run([tf.convert_to_tensor(g) for g in gradients])
    assert of_city.sum() == pytest.approx(2.0), "two cities of a row count half each"
    assert of_age.tolist() == [[70.0]]


def test_columns_say_how_examples_are_parsed():
    columns = [layers.real_valued_column("age"), layers.sparse_column_with_keys("city", ["a"])]
    assert sorted(layers.create_feature_spec_for_parsing(columns)) == ["age", "city"]
    inferred = layers.infer_real_valued_columns({"x": tf.zeros([4, 3])})
    assert [(c.name, c.shape) for c in inferred] == [("x", (3,))]


def test_ids_are_no_input():
    with pytest.raises(ValueError, match="use embedding_column or one_hot_column"):
        layers.input_from_feature_columns(
            features(), [layers.sparse_column_with_keys("city", ["a"])]
        )
