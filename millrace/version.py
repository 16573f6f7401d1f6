"""`tf.version`."""

from millrace.graph.graph import (
    GRAPH_DEF_VERSION,
    GRAPH_DEF_VERSION_MIN_CONSUMER,
    GRAPH_DEF_VERSION_MIN_PRODUCER,
)
from millrace.platform.version import COMPILER_VERSION, GIT_VERSION, MILLRACE
from millrace.platform.version import TENSORFLOW_VERSION as VERSION

__all__ = [
    "COMPILER_VERSION",
    "GIT_VERSION",
    "GRAPH_DEF_VERSION",
    "GRAPH_DEF_VERSION_MIN_CONSUMER",
    "GRAPH_DEF_VERSION_MIN_PRODUCER",
    "MILLRACE",
    "VERSION",
]
