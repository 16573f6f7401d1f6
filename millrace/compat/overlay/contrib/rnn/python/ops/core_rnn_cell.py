"""What programs take from TensorFlow's contrib.rnn.python.ops.core_rnn_cell."""

from millrace.compat.overlay.python.ops.rnn_cell_impl import (
    _concat,
    _Linear,
    _linear,
    assert_like_rnncell,
)
