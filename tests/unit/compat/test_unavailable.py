"""What is below tensorflow.python.autograph can be imported, and says on use that it is missing."""

from __future__ import annotations

import pytest

import millrace as tf
from millrace.compat import tensorflow_tree


def test_a_name_of_an_unavailable_part_can_be_a_base_class() -> None:
    transformer = tensorflow_tree.find("python.autograph.pyct.transformer")
    assert transformer is not None

    class Own(transformer.Base):  # type: ignore[name-defined,misc]
        pass

    with pytest.raises(NotImplementedError, match=r"python.autograph.pyct.transformer.Base is not"):
        Own()


def test_a_call_of_an_unavailable_function_says_what_to_use_instead() -> None:
    package = tensorflow_tree.find("python.autograph.pyct")
    assert package is not None
    with pytest.raises(NotImplementedError, match="tf.while_loop"):
        package.parser.parse_entity(len, future_features=())


def test_other_parts_of_the_tree_are_still_missing_at_once() -> None:
    assert tensorflow_tree.find("python.nonsense.pyct") is None


def test_libraries_can_derive_composite_tensors() -> None:
    module = tensorflow_tree.find("python.framework.composite_tensor")
    assert module is not None

    class Pair(module.CompositeTensor):  # type: ignore[name-defined,misc]
        _type_spec = tf.TensorSpec([2])

    with tf.Graph().as_default():
        sparse = tf.SparseTensor([[0]], [1.0], [2])
    assert isinstance(Pair(), module.CompositeTensor)
    assert isinstance(sparse, module.CompositeTensor)
    assert not isinstance(sparse.values, module.CompositeTensor)
