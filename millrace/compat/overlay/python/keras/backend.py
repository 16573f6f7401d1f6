"""What programs take from TensorFlow's python.keras.backend that has no public name."""

from millrace.keras.backend import get_graph, rnn
from millrace.keras.engine.state import (
    learning_phase_scope,
    reset_uids,
    track_variable,
    unique_object_name,
)
