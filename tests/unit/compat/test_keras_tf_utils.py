"""What libraries take from tensorflow.python.keras.utils.tf_utils."""

from __future__ import annotations

import millrace as tf
from millrace.compat.overlay.python.keras.utils import tf_utils


def test_a_registered_type_counts_as_a_symbolic_tensor() -> None:
    class Coercible:
        pass

    with tf.Graph().as_default():
        assert tf_utils.is_symbolic_tensor(tf.zeros([]))
    assert not tf_utils.is_symbolic_tensor(Coercible())
    tf_utils.register_symbolic_tensor_type(Coercible)
    try:
        assert tf_utils.is_symbolic_tensor(Coercible())
    finally:
        tf_utils._registered_types.remove(Coercible)
