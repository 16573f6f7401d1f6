"""Attention of queries over values: dot products, or an added score."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.keras.engine.base_layer import Layer


class _Attention(Layer):
    """Inputs are [query, value] or [query, value, key]."""

    def __init__(self, causal: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.causal = causal
        self.supports_masking = True

    def _scores(self, query: Any, key: Any) -> Any:
        raise NotImplementedError

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """The weighted values for each query."""
        if not isinstance(inputs, list | tuple) or len(inputs) not in (2, 3):
            raise ValueError(
                f"{type(self).__name__} layer accepts inputs list of length 2 or 3, namely "
                "[query, value] or [query, value, key]."
            )
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        scores = self._scores(query, key)
        value_mask = mask[1] if mask else None
        if value_mask is not None:
            scores -= 1e9 * tf.cast(tf.logical_not(tf.expand_dims(value_mask, 1)), scores.dtype)
        if self.causal:
            ones = tf.ones_like(scores[:1])
            scores -= 1e9 * (1.0 - tf.matrix_band_part(ones, -1, 0))
        result = tf.matmul(tf.nn.softmax(scores), value)
        if mask and mask[0] is not None:
            result *= tf.cast(tf.expand_dims(mask[0], -1), result.dtype)
        return result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """The query's."""
        return mask[0] if mask else None

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "causal": self.causal}


class Attention(_Attention):
    """Scores are dot products (Luong)."""

    def __init__(self, use_scale: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        """Makes the scale, if asked."""
        self.scale = (
            self.add_weight("scale", shape=(), initializer="ones") if self.use_scale else None
        )
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        scores = tf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "use_scale": self.use_scale}


class AdditiveAttention(_Attention):
    """Scores are sums through tanh (Bahdanau)."""

    def __init__(self, use_scale: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        """Makes the scale, if asked."""
        depth = tf.TensorShape(input_shape[0]).as_list()[-1]
        self.scale = (
            self.add_weight("scale", shape=[depth], initializer="glorot_uniform")
            if self.use_scale
            else None
        )
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        mixed = tf.tanh(tf.expand_dims(query, 2) + tf.expand_dims(key, 1))
        return tf.reduce_sum(mixed if self.scale is None else mixed * self.scale, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """The arguments that it was made with."""
        return {**super().get_config(), "use_scale": self.use_scale}
