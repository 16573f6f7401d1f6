"""Batch normalisation, plain and fused, and local response normalisation."""

import numpy as np
from parity_kit import case, cases, floats, positive

IMAGE = floats(2, 2, 3, 2)
LOOSE = {"rtol": 1e-4, "atol": 1e-5}
STATS = {"x": floats(4, 3), "m": floats(3), "v": positive(3), "o": floats(3), "s": positive(3)}


@case(inputs=STATS, grad=True)
def batch_normalization(tf, x, m, v, o, s):
    return tf.nn.batch_normalization(x, m, v, o, s, 1e-3)


@case(inputs={"x": floats(4, 3), "m": floats(3), "v": positive(3)}, grad=True)
def batch_normalization_without_scale_and_offset(tf, x, m, v):
    return [
        tf.nn.batch_normalization(x, m, v, None, None, 1e-3),
        tf.nn.batch_normalization(x, m, v, tf.ones([3], x.dtype), None, variance_epsilon=0.1),
    ]


@case(
    inputs={"x": IMAGE, "m": floats(2), "v": positive(2), "b": floats(2), "g": positive(2)},
    grad=True,
    **LOOSE,
)
def batch_norm_with_global_normalization(tf, x, m, v, b, g):
    return [
        tf.nn.batch_norm_with_global_normalization(x, m, v, b, g, 1e-3, True),
        tf.nn.batch_norm_with_global_normalization(x, m, v, b, g, 1e-3, False),
    ]


@case(inputs={"x": floats(4, 3), "b": floats(3), "g": positive(3)}, grad=True)
def batch_normalization_by_moments(tf, x, b, g):
    mean, variance = tf.nn.moments(x, [0])
    return tf.nn.batch_normalization(x, mean, variance, b, g, 1e-3)


FUSED = {"x": IMAGE, "s": positive(2), "o": floats(2)}


@cases(
    [
        ("fused_batch_norm_training", FUSED, {}),
        ("fused_batch_norm_epsilon", FUSED, {"epsilon": 0.1}),
    ],
    grad=True,
    **LOOSE,
)
def fused_batch_norm(tf, options, x, s, o):
    y, _, _ = tf.nn.fused_batch_norm(x, s, o, **options)
    return y


@case(inputs=FUSED, **LOOSE)
def fused_batch_norm_statistics(tf, x, s, o):
    return tf.nn.fused_batch_norm(x, s, o)


@case(inputs={**FUSED, "m": floats(2), "v": positive(2)}, grad=["x", "s", "o"], **LOOSE)
def fused_batch_norm_inference(tf, x, s, o, m, v):
    y, _, _ = tf.nn.fused_batch_norm(x, s, o, mean=m, variance=v, is_training=False)
    return y


@case(inputs={**FUSED, "m": floats(2), "v": positive(2)}, **LOOSE)
def fused_batch_norm_moving_average(tf, x, s, o, m, v):
    return tf.nn.fused_batch_norm(x, s, o, mean=m, variance=v, exponential_avg_factor=0.3)


@case(inputs=FUSED, grad=["x"], second_order=True, **LOOSE)
def fused_batch_norm_second_order(tf, x, s, o):
    return tf.nn.fused_batch_norm(x, s, o)[0]


@cases(
    [
        ("raw_FusedBatchNormV3", FUSED, "FusedBatchNormV3"),
        ("raw_FusedBatchNorm", FUSED, "FusedBatchNorm"),
    ],
    **LOOSE,
)
def raw_fused_batch_norm(tf, op, x, s, o):
    empty = tf.constant([], tf.float32)
    result = getattr(tf.raw_ops, op)(x=x, scale=s, offset=o, mean=empty, variance=empty)
    return [result.y, result.batch_mean, result.batch_variance]


@case(inputs=FUSED, raises=("ValueError",))
def fused_batch_norm_inference_without_mean(tf, x, s, o):
    return tf.nn.fused_batch_norm(x, s, o, is_training=False)


@cases(
    [
        ("lrn_default", {"x": floats(1, 2, 2, 6)}, {}),
        (
            "lrn_alexnet",
            {"x": floats(1, 2, 1, 7)},
            {"depth_radius": 2, "bias": 1.0, "alpha": 1e-1, "beta": 0.75},
        ),
        (
            "lrn_beta_half",
            {"x": floats(1, 1, 2, 5)},
            {"depth_radius": 1, "beta": 0.5, "alpha": 2.0},
        ),
    ],
    grad=True,
    **LOOSE,
)
def lrn(tf, options, x):
    return tf.nn.lrn(x, **options)


@case(inputs={"x": floats(1, 2, 2, 4)}, **LOOSE)
def local_response_normalization(tf, x):
    return tf.nn.local_response_normalization(x, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)


@case(inputs={"x": floats(2, 3, dtype=np.float64)}, grad=True)
def layer_normalization_by_hand(tf, x):
    mean, variance = tf.nn.moments(x, [1], keep_dims=True)
    return (x - mean) * tf.rsqrt(variance + 1e-6)
