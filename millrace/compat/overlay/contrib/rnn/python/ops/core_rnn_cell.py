"""What programs take from TensorFlow's contrib.rnn.python.ops.core_rnn_cell that has no public name."""

from millrace.compat.overlay.python.ops.rnn_cell_impl import (
    _Linear,
    _concat,
    _linear,
    assert_like_rnncell,
)
