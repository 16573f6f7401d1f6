"""What programs take from TensorFlow 1.0's contrib.rnn.python.ops.core_rnn."""

from millrace.nn import static_bidirectional_rnn, static_rnn, static_state_saving_rnn
