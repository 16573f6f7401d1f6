"""`tf.compat`: text functions, and the namespaces `tf.compat.v1` and `tf.compat.v2`.

Programs that say ``import tensorflow`` are served from this folder too.
"""

from millrace.compat import v1, v2
from millrace.core.tensor_shape import dimension_at_index, dimension_value
from millrace.core.text import (
    as_bytes,
    as_str,
    as_str_any,
    as_text,
    bytes_or_text_types,
    complex_types,
    integral_types,
    path_to_str,
    real_types,
)
from millrace.graph.behavior import forward_compatibility_horizon, forward_compatible

__all__ = [
    "as_bytes",
    "as_str",
    "as_str_any",
    "as_text",
    "bytes_or_text_types",
    "complex_types",
    "dimension_at_index",
    "dimension_value",
    "forward_compatibility_horizon",
    "forward_compatible",
    "integral_types",
    "path_to_str",
    "real_types",
    "v1",
    "v2",
]
