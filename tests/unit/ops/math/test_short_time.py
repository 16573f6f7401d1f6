"""Frames of signals and their spectra; the figures are TensorFlow 2.21's."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf

SIGNAL = np.sin(np.arange(100) * 0.3).astype(np.float32).reshape(2, 50)


def _run(tensor: object) -> np.ndarray:
    with tf.Session() as sess:
        return sess.run(tensor)


def test_windows_are_periodic_for_even_lengths() -> None:
    found = _run(tf.signal.hann_window(8))
    np.testing.assert_allclose(found[:4], [0.0, 0.14644665, 0.5, 0.85355335], atol=1e-6)
    found = _run(tf.signal.hamming_window(9))
    np.testing.assert_allclose(found[:3], [0.08, 0.2147309, 0.54], atol=1e-6)


def test_frames_overlap_and_the_last_may_be_filled_up() -> None:
    assert _run(tf.signal.frame([1, 2, 3, 4, 5], 3, 2)).tolist() == [[1, 2, 3], [3, 4, 5]]
    padded = _run(tf.signal.frame([1, 2, 3, 4], 3, 2, pad_end=True, pad_value=9))
    assert padded.tolist() == [[1, 2, 3], [3, 4, 9]]


def test_short_time_transforms_and_back() -> None:
    spectra = tf.signal.stft(SIGNAL, 16, 4)
    found = _run(tf.abs(spectra))
    np.testing.assert_allclose(found[1, 2, :3], [4.399882, 3.939172, 1.303713], rtol=1e-5)
    back = _run(tf.signal.inverse_stft(spectra, 16, 4))
    np.testing.assert_allclose(back[0, 20:23], [-0.4191232, 0.0252208, 0.467312], atol=1e-5)


def test_mel_and_cosines() -> None:
    matrix = _run(tf.signal.linear_to_mel_weight_matrix(5, 17, 8000, 100.0, 3000.0))
    np.testing.assert_allclose(matrix[3], [0.0, 0.670064, 0.329936, 0.0, 0.0], atol=1e-5)
    found = _run(tf.signal.dct(SIGNAL))
    np.testing.assert_allclose(found[0, :3], [10.992847, 2.342734, 13.323387], rtol=1e-5)
    found = _run(tf.signal.dct(SIGNAL, type=3, norm="ortho"))
    np.testing.assert_allclose(found[0, :3], [0.6228066, 0.8867957, 0.599016], rtol=1e-5)
    found = _run(tf.signal.idct(tf.signal.dct(SIGNAL, norm="ortho"), norm="ortho"))
    np.testing.assert_allclose(found, SIGNAL, atol=1e-5)
    found = _run(tf.signal.mfccs_from_log_mel_spectrograms(SIGNAL))
    np.testing.assert_allclose(found[1, :2], [-0.4408846, -0.4542204], rtol=1e-5)


def test_an_edge_above_half_the_sample_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="Nyquist"):
        tf.signal.linear_to_mel_weight_matrix(5, 17, 8000, 100.0, 5000.0)
