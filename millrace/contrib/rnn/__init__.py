"""``tf.contrib.rnn``: cells and loops, those that moved to ``tf.nn`` too. Re-exports only."""

from millrace.contrib.rnn.cells import (
    EmbeddingWrapper,
    InputProjectionWrapper,
    LayerNormBasicLSTMCell,
    LSTMBlockCell,
    LSTMBlockFusedCell,
    OutputProjectionWrapper,
)
from millrace.contrib.rnn.cells import Linear as _Linear
from millrace.contrib.rnn.loops import (
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    static_bidirectional_rnn,
    transpose_batch_time,
)
from millrace.contrib.rnn.more_cells import (
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    ConvLSTMCell,
    GRUBlockCell,
    GRUBlockCellV2,
    IntersectionRNNCell,
    NASCell,
    PhasedLSTMCell,
    SRUCell,
    UGRNNCell,
)
from millrace.contrib.rnn.wrappers import (
    AttentionCellWrapper,
    FusedRNNCellAdaptor,
    HighwayWrapper,
    TimeReversedFusedRNN,
)
from millrace.ops.nn.rnn import static_rnn
from millrace.ops.nn.rnn_cells import (
    BasicLSTMCell,
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
    RNNCell,
)

__all__ = [
    "AttentionCellWrapper",
    "BasicLSTMCell",
    "BasicRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "FusedRNNCellAdaptor",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GRUCell",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormBasicLSTMCell",
    "MultiRNNCell",
    "NASCell",
    "OutputProjectionWrapper",
    "PhasedLSTMCell",
    "RNNCell",
    "ResidualWrapper",
    "SRUCell",
    "TimeReversedFusedRNN",
    "UGRNNCell",
    "_Linear",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "transpose_batch_time",
]
