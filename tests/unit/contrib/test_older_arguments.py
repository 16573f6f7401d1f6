"""Names and arguments that contrib and Keras have for functions that other places have too."""

import inspect

import numpy as np
import pytest

import millrace as tf
from millrace.compat import tensorflow_tree

K = tf.keras.backend


def run(*fetches):
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        return session.run(fetches)


def test_backend_cross_entropies_are_per_element():
    probabilities = tf.constant([[0.2, 0.7], [0.9, 0.4]])
    target = tf.constant([[0.0, 1.0], [1.0, 0.0]])
    (found,) = run(K.binary_crossentropy(target, probabilities))
    wanted = -np.log([[0.8, 0.7], [0.9, 0.6]])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (K.arange, "start stop step dtype"),
        (K.one_hot, "indices num_classes"),
        (K.softmax, "x axis"),
        (K.tile, "x n"),
        (K.map_fn, "fn elems name dtype"),
        (tf.shape, "input name out_type"),
        (tf.rank, "input name"),
        (tf.ones, "shape dtype name"),
        (tf.zeros, "shape dtype name"),
        (tf.fill, "dims value name"),
        (tf.numpy_function, "func inp Tout name"),
        (tf.contrib.lookup.HashTable, "initializer default_value shared_name name"),
        (tf.contrib.framework.load_variable, "checkpoint_dir name"),
    ],
)
def test_arguments_are_those_of_1_15(function, arguments):
    assert inspect.getfullargspec(function).args == arguments.split() or (
        inspect.getfullargspec(function).args == ["self", *arguments.split()]
    )


def test_top_k_takes_a_name_in_fourth_place():
    assert tf.nn.top_k([1.0, 3.0, 2.0], 2, True, "best").values.op.name == "best"


def test_words_are_looked_up_by_the_older_functions():
    words = tf.constant(["b", "x"])
    numbers = tf.contrib.lookup.string_to_index(words, tf.constant(["a", "b"]))
    back = tf.contrib.lookup.index_to_string(tf.constant([0, 9], tf.int64), tf.constant(["a", "b"]))
    found, texts = run(numbers, back)
    assert found.tolist() == [1, -1]
    assert texts.tolist() == [b"a", b"UNK"]


def test_py_func_of_contrib_takes_structures():
    found = tf.contrib.framework.py_func(
        lambda pair, scale: {"sum": (pair[0] + pair[1]) * scale},
        args=[(tf.constant([1.0]), tf.constant([2.0]))],
        kwargs={"scale": tf.constant(3.0)},
        output_types={"sum": tf.float32},
        output_shapes={"sum": [1]},
    )
    assert found["sum"].shape == [1]
    assert run(found["sum"])[0].tolist() == [9.0]


def test_nest_maps_up_to_a_shallow_structure():
    nest = tf.contrib.framework.nest
    found = nest.map_structure_up_to(["x", "y"], lambda v, w: (v, w), [[1, 2], 3], [4, 5])
    assert found == [([1, 2], 4), (3, 5)]
    only_lists = nest.get_traverse_shallow_structure(
        lambda s: isinstance(s, list), [1, (2, 3), [4]]
    )
    assert only_lists == [False, False, [False]]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("contrib.slim.python.slim.nets.inception_v3", "inception_v3"),
        ("contrib.slim.python.slim.nets.vgg", "vgg_16"),
        ("contrib.slim.python.slim.data.dataset", "Dataset"),
        ("contrib.layers.python.layers.utils", "collect_named_outputs"),
        ("contrib.slim.python.slim.learning", "train_step"),
        ("python.ops.linalg.linear_operator_util", "shape_tensor"),
    ],
)
def test_modules_of_contribs_tree_are_ours(path, name):
    assert callable(getattr(tensorflow_tree.find(path), name))


def test_version_2_has_version_1s_functions_with_its_own_arguments():
    v2 = tf.compat.v2
    logits = tf.constant([[1.0, 2.0]])
    first, second = run(v2.nn.softmax(logits, -1), tf.nn.softmax(logits))
    assert first.tolist() == second.tolist()
    assert list(inspect.signature(v2.debugging.assert_less).parameters)[:3] == ["x", "y", "message"]
    with pytest.raises(AttributeError, match=r"nn\.max_pool"):
        v2.nn.max_pool  # noqa: B018
