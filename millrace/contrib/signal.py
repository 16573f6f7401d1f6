"""`tf.contrib.signal`: as `tf.signal`, without the transforms that are in `tf.spectral`."""

from millrace.ops.math.short_time import (
    frame,
    hamming_window,
    hann_window,
    inverse_stft,
    linear_to_mel_weight_matrix,
    mfccs_from_log_mel_spectrograms,
    overlap_and_add,
    stft,
)

__all__ = [
    "frame",
    "hamming_window",
    "hann_window",
    "inverse_stft",
    "linear_to_mel_weight_matrix",
    "mfccs_from_log_mel_spectrograms",
    "overlap_and_add",
    "stft",
]
