"""`tf.strings`: operations on strings."""

from millrace.ops.strings.conversion import as_string
from millrace.ops.strings.conversion import string_format as format
from millrace.ops.strings.conversion import string_to_number as to_number
from millrace.ops.strings.strings import (
    reduce_join,
    regex_full_match,
    regex_replace,
    split,
    substr,
    unsorted_segment_join,
)
from millrace.ops.strings.strings import string_join as join
from millrace.ops.strings.strings import string_length as length
from millrace.ops.strings.strings import string_lower as lower
from millrace.ops.strings.strings import string_strip as strip
from millrace.ops.strings.strings import string_to_hash_bucket as to_hash_bucket
from millrace.ops.strings.strings import string_to_hash_bucket_fast as to_hash_bucket_fast
from millrace.ops.strings.strings import string_to_hash_bucket_strong as to_hash_bucket_strong
from millrace.ops.strings.strings import string_upper as upper
from millrace.ops.strings.unicode import unicode_encode, unicode_transcode

__all__ = [
    "as_string",
    "format",
    "join",
    "length",
    "lower",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_encode",
    "unicode_transcode",
    "unsorted_segment_join",
    "upper",
]
