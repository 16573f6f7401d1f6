"""What programs take from TensorFlow's python.util.compat that has no public name."""

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
