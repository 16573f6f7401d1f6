"""Convolutions, pooling, and their named gradient kernels."""

import numpy as np
from parity_kit import array, case, cases, floats

IMAGE = floats(2, 4, 5, 2)
FILTER = floats(2, 3, 2, 3)
STRIDES = {"1": [1, 1, 1, 1], "2": [1, 2, 2, 1], "21": [1, 2, 1, 1]}
TOL = {"rtol": 1e-4, "atol": 1e-5}


@cases(
    [
        (f"conv2d_{p.lower()}_stride_{n}", {"x": IMAGE, "w": FILTER}, s, p)
        for p in ("SAME", "VALID")
        for n, s in STRIDES.items()
    ],
    grad=True,
    **TOL,
)
def conv2d(tf, strides, padding, x, w):
    return tf.nn.conv2d(x, w, strides, padding)


@cases(
    [
        ("conv2d_second_order_same", {"x": floats(1, 3, 3, 1), "w": floats(2, 2, 1, 2)}, "SAME"),
        ("conv2d_second_order_valid", {"x": floats(1, 3, 3, 1), "w": floats(2, 2, 1, 2)}, "VALID"),
    ],
    grad=True,
    second_order=True,
    **TOL,
)
def conv2d_second_order(tf, padding, x, w):
    return tf.nn.conv2d(x, w, [1, 1, 1, 1], padding)


@cases(
    [
        (
            "conv2d_1x1",
            {"x": IMAGE, "w": floats(1, 1, 2, 3)},
            {"strides": [1, 1, 1, 1], "padding": "SAME"},
        ),
        ("conv2d_int_stride", {"x": IMAGE, "w": FILTER}, {"strides": 2, "padding": "SAME"}),
        ("conv2d_two_strides", {"x": IMAGE, "w": FILTER}, {"strides": [1, 2], "padding": "VALID"}),
        (
            "conv2d_explicit",
            {"x": IMAGE, "w": FILTER},
            {"strides": 1, "padding": [[0, 0], [1, 0], [2, 1], [0, 0]]},
        ),
        (
            "conv2d_stride_larger_than_filter",
            {"x": IMAGE, "w": floats(1, 1, 2, 1)},
            {"strides": [1, 3, 3, 1], "padding": "VALID"},
        ),
        (
            "conv2d_float64",
            {"x": floats(1, 3, 3, 1, dtype=np.float64), "w": floats(2, 2, 1, 1, dtype=np.float64)},
            {"strides": 1, "padding": "SAME"},
        ),
    ],
    grad=True,
    **TOL,
)
def conv2d_options(tf, options, x, w):
    return tf.nn.conv2d(x, w, **options)


@case(inputs={"x": IMAGE, "w": floats(2, 2, 2, 1)}, **TOL)
def conv2d_dilated(tf, x, w):
    # TensorFlow has no CPU gradient for it.
    return tf.nn.conv2d(x, w, 1, "VALID", dilations=[1, 2, 2, 1])


@case(inputs={"x": floats(1, 3, 3, 4), "w": floats(2, 2, 2, 4)}, **TOL)
def conv2d_grouped(tf, x, w):
    return tf.nn.conv2d(x, w, 1, "SAME")


@case(inputs={"x": floats(0, 3, 3, 2), "w": FILTER}, **TOL)
def conv2d_empty_batch(tf, x, w):
    return tf.nn.conv2d(x, w, 1, "SAME")


@case(
    inputs={"x": IMAGE, "w": floats(2, 2, 3, 1)},
    raises=("ValueError", "Depth of input (2) is not a multiple of input depth of filter (3)"),
)
def conv2d_depth_mismatch(tf, x, w):
    return tf.nn.conv2d(x, w, 1, "SAME")


@case(
    inputs={"x": floats(1, 2, 2, 1), "w": floats(3, 3, 1, 1)},
    raises=("ValueError", "Negative dimension size"),
)
def conv2d_filter_larger_than_image(tf, x, w):
    return tf.nn.conv2d(x, w, 1, "VALID")


@case(inputs={"x": IMAGE, "w": FILTER}, raises=("ValueError",))
def conv2d_unknown_padding(tf, x, w):
    return tf.nn.conv2d(x, w, 1, "BOTH")


@case(inputs={"x": floats(4, 5, 2), "w": FILTER}, raises=("ValueError",))
def conv2d_of_rank_3(tf, x, w):
    return tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME")


@cases(
    [
        (f"conv2d_backprop_input_{p.lower()}_{n}", {"w": FILTER, "x": IMAGE}, s, p)
        for p in ("SAME", "VALID")
        for n, s in STRIDES.items()
    ],
    grad=["w"],
    **TOL,
)
def conv2d_backprop_input(tf, strides, padding, w, x):
    y = tf.nn.conv2d(x, w, strides, padding)
    return tf.nn.conv2d_backprop_input(tf.shape(x), w, y, strides, padding)


@cases(
    [
        (f"conv2d_backprop_filter_{p.lower()}_{n}", {"w": FILTER, "x": IMAGE}, s, p)
        for p in ("SAME", "VALID")
        for n, s in STRIDES.items()
    ],
    grad=["x"],
    **TOL,
)
def conv2d_backprop_filter(tf, strides, padding, w, x):
    y = tf.nn.conv2d(x, w, strides, padding)
    return tf.nn.conv2d_backprop_filter(x, tf.shape(w), y, strides, padding)


@cases(
    [
        (
            "conv2d_transpose_same",
            {"x": floats(1, 2, 3, 2), "w": floats(3, 2, 4, 2)},
            [1, 4, 6, 4],
            2,
            "SAME",
        ),
        (
            "conv2d_transpose_valid",
            {"x": floats(1, 2, 2, 2), "w": floats(2, 2, 1, 2)},
            [1, 3, 3, 1],
            1,
            "VALID",
        ),
        (
            "conv2d_transpose_odd",
            {"x": floats(1, 2, 2, 1), "w": floats(3, 3, 1, 1)},
            [1, 3, 3, 1],
            2,
            "SAME",
        ),
    ],
    grad=True,
    **TOL,
)
def conv2d_transpose(tf, shape, stride, padding, x, w):
    return tf.nn.conv2d_transpose(x, w, shape, [1, stride, stride, 1], padding)


@case(inputs={"x": floats(2, 2, 2, 1), "w": floats(2, 2, 1, 1)}, grad=True, **TOL)
def conv2d_transpose_of_unknown_batch(tf, x, w):
    return tf.nn.conv2d_transpose(x, w, tf.stack([tf.shape(x)[0], 4, 4, 1]), [1, 2, 2, 1], "SAME")


@cases(
    [
        (
            "depthwise_same",
            {"x": IMAGE, "w": floats(2, 2, 2, 2)},
            {"strides": [1, 1, 1, 1], "padding": "SAME"},
        ),
        (
            "depthwise_valid_stride",
            {"x": IMAGE, "w": floats(2, 2, 2, 1)},
            {"strides": [1, 2, 2, 1], "padding": "VALID"},
        ),
        (
            "depthwise_rate",
            {"x": IMAGE, "w": floats(2, 2, 2, 1)},
            {"strides": [1, 1, 1, 1], "padding": "SAME", "rate": [2, 2]},
        ),
    ],
    grad=True,
    **TOL,
)
def depthwise_conv2d(tf, options, x, w):
    return tf.nn.depthwise_conv2d(x, w, **options)


@case(inputs={"x": IMAGE, "w": floats(2, 2, 2, 2)}, grad=True, **TOL)
def depthwise_conv2d_native(tf, x, w):
    return tf.nn.depthwise_conv2d_native(x, w, [1, 1, 1, 1], "SAME")


@case(inputs={"x": IMAGE, "d": floats(2, 2, 2, 2), "p": floats(1, 1, 4, 3)}, grad=True, **TOL)
def separable_conv2d(tf, x, d, p):
    return tf.nn.separable_conv2d(x, d, p, [1, 1, 1, 1], "SAME")


@cases(
    [
        ("conv1d_same", {"x": floats(2, 5, 2), "w": floats(3, 2, 2)}, 1, "SAME"),
        ("conv1d_valid_stride", {"x": floats(2, 5, 2), "w": floats(2, 2, 3)}, 2, "VALID"),
    ],
    grad=True,
    **TOL,
)
def conv1d(tf, stride, padding, x, w):
    return tf.nn.conv1d(x, w, stride, padding)


@cases(
    [
        (
            "conv3d_same",
            {"x": floats(1, 2, 3, 2, 1), "w": floats(2, 2, 1, 1, 2)},
            [1, 1, 1, 1, 1],
            "SAME",
        ),
        (
            "conv3d_valid_stride",
            {"x": floats(1, 3, 3, 3, 1), "w": floats(2, 2, 2, 1, 1)},
            [1, 2, 1, 1, 1],
            "VALID",
        ),
    ],
    grad=True,
    **TOL,
)
def conv3d(tf, strides, padding, x, w):
    return tf.nn.conv3d(x, w, strides, padding)


@case(inputs={"x": floats(1, 2, 2, 2, 1), "w": floats(2, 2, 2, 1, 1)}, grad=True, **TOL)
def conv3d_transpose(tf, x, w):
    return tf.nn.conv3d_transpose(x, w, [1, 4, 4, 4, 1], [1, 2, 2, 2, 1], "SAME")


@cases(
    [
        ("atrous_conv2d_valid", {"x": floats(1, 5, 5, 1), "w": floats(2, 2, 1, 2)}, 2, "VALID"),
        ("atrous_conv2d_same", {"x": floats(1, 5, 5, 1), "w": floats(2, 2, 1, 1)}, 2, "SAME"),
    ],
    grad=True,
    variants=["known"],
    **TOL,
)
def atrous_conv2d(tf, rate, padding, x, w):
    return tf.nn.atrous_conv2d(x, w, rate, padding)


@cases(
    [
        ("convolution_2d", {"x": IMAGE, "w": FILTER}, {"padding": "SAME", "strides": [2, 1]}),
        (
            "convolution_dilated",
            {"x": IMAGE, "w": floats(2, 2, 2, 1)},
            {"padding": "VALID", "dilation_rate": [2, 1]},
        ),
        ("convolution_1d", {"x": floats(2, 5, 1), "w": floats(2, 1, 2)}, {"padding": "VALID"}),
    ],
    grad=True,
    **TOL,
)
def convolution(tf, options, x, w):
    return tf.nn.convolution(x, w, **options)


# --- pooling

POOLS = {
    "2x2": ([1, 2, 2, 1], [1, 2, 2, 1]),
    "overlapping": ([1, 3, 3, 1], [1, 2, 2, 1]),
    "stride_1": ([1, 2, 3, 1], [1, 1, 1, 1]),
}


@cases(
    [
        (f"{f}_{p.lower()}_{n}", {"x": floats(2, 5, 4, 2)}, f, k, s, p)
        for f in ("max_pool", "avg_pool")
        for p in ("SAME", "VALID")
        for n, (k, s) in POOLS.items()
    ],
    grad=True,
    second_order=True,
)
def pools(tf, function, ksize, strides, padding, x):
    return getattr(tf.nn, function)(x, ksize, strides, padding)


@cases(
    [(f"{f}_scalar_arguments", {"x": floats(1, 4, 4, 1)}, f) for f in ("max_pool", "avg_pool")],
    grad=True,
)
def pools_scalar_arguments(tf, function, x):
    return getattr(tf.nn, function)(x, 2, 2, "VALID")


@cases(
    [
        (f"{f}_float64", {"x": floats(1, 3, 3, 1, dtype=np.float64)}, f)
        for f in ("max_pool", "avg_pool")
    ],
    grad=True,
)
def pools_double(tf, function, x):
    return getattr(tf.nn, function)(x, 2, 1, "SAME")


@cases(
    [
        ("max_pool_over_depth", {"x": floats(1, 2, 2, 4)}, [1, 1, 1, 2], [1, 1, 1, 2]),
    ]
)
def max_pool_depthwise(tf, ksize, strides, x):
    return tf.nn.max_pool(x, ksize, strides, "SAME")


@case(inputs={"x": array([[[[1.0], [1.0]], [[0.0], [1.0]]]])}, grad=True, numeric="ties")
def max_pool_of_ties_prefers_the_first(tf, x):
    return tf.nn.max_pool(x, 2, 2, "VALID")


@case(inputs={"x": floats(1, 2, 2, 1)}, raises=("ValueError", "Negative dimension size"))
def max_pool_window_larger_than_image(tf, x):
    return tf.nn.max_pool(x, 3, 1, "VALID")


@cases(
    [(f"{f}_3d", {"x": floats(1, 4, 2, 3, 1)}, f) for f in ("max_pool3d", "avg_pool3d")],
    grad=True,
)
def pools_3d(tf, function, x):
    return getattr(tf.nn, function)(x, [1, 2, 2, 2, 1], [1, 2, 1, 1, 1], "SAME")


@cases([(f"{f}_1d", {"x": floats(2, 5, 2)}, f) for f in ("max_pool1d", "avg_pool1d")], grad=True)
def pools_1d(tf, function, x):
    return getattr(tf.nn, function)(x, 2, 2, "VALID")


@cases(
    [
        ("pool_max", {"x": floats(1, 5, 5, 1)}, "MAX", {}),
        ("pool_avg_dilated", {"x": floats(1, 5, 5, 1)}, "AVG", {"dilations": [2, 2]}),
    ],
    grad=True,
)
def pool(tf, kind, options, x):
    return tf.nn.pool(x, [2, 2], kind, "VALID", **options)


@case(inputs={"x": floats(1, 4, 4, 2)}, grad=True)
def max_pool_with_argmax(tf, x):
    return tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")


@case(inputs={"x": floats(1, 4, 4, 1), "w": floats(2, 2, 1)}, grad=True)
def dilation2d(tf, x, w):
    return tf.nn.dilation2d(x, w, [1, 1, 1, 1], [1, 1, 1, 1], "SAME")


@case(inputs={"x": floats(1, 4, 4, 1), "w": floats(2, 2, 1)}, grad=True)
def erosion2d(tf, x, w):
    return tf.nn.erosion2d(x, w, [1, 1, 1, 1], [1, 1, 1, 1], "VALID")


@cases(
    [
        ("lenet_block", {"x": floats(2, 6, 6, 1), "w": floats(3, 3, 1, 2), "b": floats(2)}),
    ],
    grad=True,
    **TOL,
)
def conv_relu_pool(tf, x, w, b):
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))
    p = tf.nn.max_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    return tf.reshape(p, [-1, 18])


@case(inputs={"x": floats(1, 3, 3, 1), "dy": floats(1, 2, 2, 1)}, **TOL)
def raw_max_pool_grad(tf, x, dy):
    y = tf.nn.max_pool(x, 2, 1, "VALID")
    return tf.raw_ops.MaxPoolGrad(
        orig_input=x,
        orig_output=y,
        grad=dy,
        ksize=[1, 2, 2, 1],
        strides=[1, 1, 1, 1],
        padding="VALID",
    )


@case(inputs={"dy": floats(1, 2, 2, 1)}, **TOL)
def raw_avg_pool_grad(tf, dy):
    return tf.raw_ops.AvgPoolGrad(
        orig_input_shape=[1, 4, 4, 1],
        grad=dy,
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="SAME",
    )
