"""`tf.contrib.crf`. Re-exports only."""

from millrace.contrib.crf.crf import (
    crf_binary_score,
    crf_decode,
    crf_log_likelihood,
    crf_log_norm,
    crf_sequence_score,
    crf_unary_score,
    viterbi_decode,
)

__all__ = [
    "crf_binary_score",
    "crf_decode",
    "crf_log_likelihood",
    "crf_log_norm",
    "crf_sequence_score",
    "crf_unary_score",
    "viterbi_decode",
]
