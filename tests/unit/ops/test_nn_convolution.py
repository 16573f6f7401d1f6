"""Convolutions and poolings in graphs: layouts, names of arguments, op types, bad input."""

import numpy as np
import pytest

import millrace as tf
from millrace.compiler.xla import jax
from millrace.ops.nn import convolution_kernels
from millrace.ops.nn.windows import Window


def run(*fetches, **feed):
    with tf.Session() as session:
        return session.run(list(fetches))


def normal(*shape):
    return np.random.RandomState(len(shape)).randn(*shape).astype(np.float32)


def channels_first(x):
    return np.moveaxis(x, -1, 1)


@pytest.mark.parametrize("stride", [1, 2])
def test_images_with_channels_first_give_what_channels_last_give(stride):
    x, w = normal(2, 5, 6, 3), normal(3, 3, 3, 4)
    last, first = tf.constant(x), tf.constant(channels_first(x))
    filters = tf.constant(w)
    y = tf.nn.conv2d(last, filters, stride, "SAME")
    z = tf.nn.conv2d(first, filters, stride, "SAME", data_format="NCHW")
    assert z.shape == channels_first(np.zeros(y.shape.as_list())).shape
    a, b = tf.gradients(tf.square(y), [last, filters]), tf.gradients(tf.square(z), [first, filters])
    y, z, ax, aw, bx, bw = run(y, z, *a, *b)
    np.testing.assert_allclose(z, channels_first(y), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bx, channels_first(ax), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(bw, aw, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("function", ["max_pool", "avg_pool"])
def test_poolings_with_channels_first_give_what_channels_last_give(function):
    x = normal(2, 5, 6, 3)
    pool = getattr(tf.nn, function)
    last, first = tf.constant(x), tf.constant(channels_first(x))
    y = pool(last, 3, 2, "SAME")
    z = pool(first, [1, 1, 3, 3], [1, 1, 2, 2], "SAME", data_format="NCHW")
    a, b = tf.gradients(tf.square(y), last)[0], tf.gradients(tf.square(z), first)[0]
    y, z, a, b = run(y, z, a, b)
    np.testing.assert_allclose(z, channels_first(y), rtol=1e-5)
    np.testing.assert_allclose(b, channels_first(a), rtol=1e-4, atol=1e-5)


def test_depthwise_convolution_with_channels_first():
    x, w = normal(2, 5, 6, 3), normal(3, 3, 3, 2)
    last, first, filters = tf.constant(x), tf.constant(channels_first(x)), tf.constant(w)
    y = tf.nn.depthwise_conv2d(last, filters, [1, 2, 2, 1], "SAME")
    z = tf.nn.depthwise_conv2d(first, filters, [1, 1, 2, 2], "SAME", data_format="NCHW")
    a, b = tf.gradients(tf.square(y), [last, filters]), tf.gradients(tf.square(z), [first, filters])
    y, z, ax, aw, bx, bw = run(y, z, *a, *b)
    np.testing.assert_allclose(z, channels_first(y), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(bx, channels_first(ax), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(bw, aw, rtol=1e-4, atol=1e-3)


def test_filter_and_filters_are_the_same_argument():
    x, w = normal(1, 4, 4, 1), normal(2, 2, 1, 1)
    old = tf.nn.conv2d(x, filter=w, strides=1, padding="SAME")
    new = tf.nn.conv2d(x, filters=w, strides=1, padding="SAME")
    old, new = run(old, new)
    np.testing.assert_array_equal(old, new)
    with pytest.raises(ValueError, match="Cannot specify both 'filters' and 'filter'"):
        tf.nn.conv2d(x, w, 1, "SAME", filters=w)


def test_gradients_are_tensorflows_op_types():
    x, w = tf.placeholder(tf.float32, [1, 5, 5, 2]), tf.placeholder(tf.float32, [3, 3, 2, 4])
    y = tf.nn.max_pool(tf.nn.conv2d(x, w, 1, "SAME"), 2, 2, "VALID")
    by_x, by_w = tf.gradients(y, [x, w])
    assert (by_x.op.type, by_w.op.type) == ("Conv2DBackpropInput", "Conv2DBackpropFilter")
    assert by_x.op.inputs[2].op.type == "MaxPoolGrad"
    assert by_x.shape == x.shape and by_w.shape == w.shape
    v = tf.nn.avg_pool(tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"), 2, 2, "VALID")
    by_x, by_w = tf.gradients(v, [x, w])
    assert by_x.op.type == "DepthwiseConv2dNativeBackpropInput"
    assert by_w.op.type == "DepthwiseConv2dNativeBackpropFilter"
    assert by_x.op.inputs[2].op.type == "AvgPoolGrad"


def test_explicit_padding_is_zeros_around_the_image():
    x, w = normal(1, 4, 5, 2), normal(2, 3, 2, 3)
    padded = tf.nn.conv2d(x, w, 1, [[0, 0], [1, 0], [2, 1], [0, 0]])
    by_hand = tf.nn.conv2d(np.pad(x, ((0, 0), (1, 0), (2, 1), (0, 0))), w, 1, "VALID")
    padded, by_hand = run(padded, by_hand)
    np.testing.assert_allclose(padded, by_hand, rtol=1e-5)


def test_dilation_puts_zeros_between_the_elements_of_a_filter():
    x, w = normal(1, 7, 7, 1), normal(2, 2, 1, 1)
    wide = np.zeros((3, 3, 1, 1), np.float32)
    wide[::2, ::2] = w
    found = run(
        tf.nn.atrous_conv2d(x, w, 2, "SAME"),
        tf.nn.convolution(x, w, "SAME", dilation_rate=[2, 2]),
        tf.nn.conv2d(x, w, 1, "SAME", dilations=[1, 2, 2, 1]),
        tf.nn.conv2d(x, wide, 1, "SAME"),
    )
    for value in found[:-1]:
        np.testing.assert_allclose(value, found[-1], rtol=1e-4, atol=1e-5)


def test_a_transposed_convolution_is_the_gradient_of_one():
    x, w = normal(1, 3, 3, 2), normal(3, 3, 4, 2)
    image = tf.zeros([1, 6, 6, 4])
    (gradient,) = tf.gradients(tf.nn.conv2d(image, w, 2, "SAME"), image, [tf.constant(x)])
    transposed = tf.nn.conv2d_transpose(x, w, [1, 6, 6, 4], [1, 2, 2, 1])
    gradient, transposed = run(gradient, transposed)
    np.testing.assert_allclose(transposed, gradient, rtol=1e-5)


def test_transposed_convolutions_of_sequences_and_volumes_undo_the_shape_of_the_plain_ones():
    x = tf.placeholder(tf.float32, [2, 4, 3])
    y = tf.nn.conv1d_transpose(x, tf.zeros([3, 5, 3]), [2, 8, 5], 2)
    assert y.shape == (2, 8, 5)
    v = tf.nn.conv_transpose(
        tf.zeros([1, 2, 2, 2, 3]), tf.zeros([2, 2, 2, 5, 3]), [1, 4, 4, 4, 5], 2
    )
    assert v.op.type == "Conv3DBackpropInputV2" and v.shape == (1, 4, 4, 4, 5)
    with pytest.raises(ValueError, match="3, 4 or 5 dimensions"):
        tf.nn.conv_transpose(tf.zeros([2, 3]), tf.zeros([2, 3]), [2, 3], 1)


def test_separable_convolution_is_a_depthwise_one_and_a_mixing_of_channels():
    x, d, p = normal(1, 4, 4, 2), normal(3, 3, 2, 2), normal(1, 1, 4, 3)
    together = tf.nn.separable_conv2d(x, d, p, [1, 1, 1, 1], "SAME")
    apart = tf.nn.conv2d(tf.nn.depthwise_conv2d(x, d, [1, 1, 1, 1], "SAME"), p, 1, "VALID")
    together, apart = run(together, apart)
    np.testing.assert_allclose(together, apart, rtol=1e-5)


def test_dilated_pooling_takes_elements_apart_from_each_other():
    x = np.arange(25, dtype=np.float32).reshape(1, 5, 5, 1)
    (found,) = run(tf.nn.pool(x, [2, 2], "MAX", "VALID", dilation_rate=[2, 2]))
    np.testing.assert_array_equal(found[0, :, :, 0], x[0, 2:, 2:, 0])


def test_positions_of_maxima_count_within_the_image_or_the_batch():
    x = np.zeros((2, 2, 2, 1), np.float32)
    x[0, 1, 0], x[1, 0, 1] = 1, 1
    image, batch = run(
        tf.nn.max_pool_with_argmax(x, 2, 2, "VALID").argmax,
        tf.nn.max_pool_with_argmax(x, 2, 2, "VALID", include_batch_in_index=True).argmax,
    )
    assert image.ravel().tolist() == [2, 1] and batch.ravel().tolist() == [2, 5]


@pytest.mark.parametrize("ratio", [b"VALID", b"SAME"])
def test_windows_given_as_tensors_pool_as_attributes_do(ratio, graph):
    x = tf.constant(normal(1, 5, 5, 2))
    size, step = tf.constant([1, 3, 3, 1]), tf.constant([1, 2, 2, 1])
    fixed = tf.nn.max_pool(x, 3, 2, ratio.decode())
    given = tf.raw_ops.MaxPoolV2(input=x, ksize=size, strides=step, padding=ratio.decode())
    a, b = tf.gradients(fixed, x)[0], tf.gradients(given, x)[0]
    assert b.op.type == "MaxPoolGradV2" and given.shape == fixed.shape
    fixed, given, a, b = run(fixed, given, a, b)
    np.testing.assert_array_equal(fixed, given)
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x, w: tf.nn.conv2d(x, w, 1, None), TypeError, "padding"),
        (lambda x, w: tf.nn.conv2d(x, w, 1, "EXPLICIT"), ValueError, "must be a list"),
        (lambda x, w: tf.nn.conv2d(x, w, 1, [[0, 0], [1, 1]]), ValueError, "list of 4 pairs"),
        (lambda x, w: tf.nn.conv2d(x, w, [1, 2, 2], "SAME"), ValueError, "length 1, 2 or 4"),
        (lambda x, w: tf.nn.conv2d(x, w, 0, "SAME"), ValueError, "Stride must be > 0"),
        (lambda x, w: tf.nn.conv2d(x, w[:, :, :1], 1, "VALID"), None, None),
        (lambda x, w: tf.nn.conv2d(x[..., :1], w, 1, "SAME"), ValueError, "not a multiple"),
        (lambda x, w: tf.nn.conv2d(x[0], w, 1, "SAME"), ValueError, "must be rank 4"),
        (lambda x, w: tf.nn.conv2d(x[:, :1], w, 1, "VALID"), ValueError, "Negative dimension"),
        (lambda x, w: tf.nn.max_pool(x, 9, 1, "VALID"), ValueError, "Negative dimension"),
        (lambda x, w: tf.nn.pool(x, [2, 2], "MIN", "SAME"), ValueError, "'MAX' or 'AVG'"),
        (
            lambda x, w: tf.nn.pool(x, [2, 2], "MAX", "SAME", [2, 2], [2, 2]),
            ValueError,
            "not supported in conjunction",
        ),
        (
            lambda x, w: tf.nn.convolution(x, w, "SAME", strides=[2, 2], dilation_rate=[2, 2]),
            ValueError,
            "not supported in conjunction",
        ),
        (
            lambda x, w: tf.nn.depthwise_conv2d(x[..., :1], w, [1, 1, 1, 1], "SAME"),
            ValueError,
            "Dimensions must be equal, but are 1 and 2",
        ),
        (
            lambda x, w: tf.nn.separable_conv2d(x, w, w, [1, 1, 1, 1], "SAME"),
            ValueError,
            "pointwise_filter",
        ),
    ],
)
def test_bad_arguments_are_refused_while_the_graph_is_built(call, error, text):
    x, w = tf.placeholder(tf.float32, [1, 5, 5, 2]), tf.placeholder(tf.float32, [3, 3, 2, 4])
    if error is None:
        assert call(x, w).shape == (1, 3, 3, 4)  # two groups of one channel
        return
    with pytest.raises(error, match=text):
        call(x, w)


@pytest.mark.parametrize(
    ("shape", "text"),
    [((1, 4, 4, 3), "divisible by filter depth"), ((4, 4, 2), "must be 4-dimensional")],
)
def test_shapes_that_do_not_fit_while_running_name_the_op(shape, text):
    x = tf.placeholder(tf.float32)
    y = tf.nn.conv2d(x, tf.zeros([2, 2, 2, 1]), 1, "SAME", name="layer")
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=text) as found,
    ):
        session.run(y, {x: np.zeros(shape)})
    assert "layer" in str(found.value)


def test_a_gradient_that_does_not_fit_the_convolution_is_refused_while_running():
    grad = tf.placeholder(tf.float32)
    back = tf.nn.conv2d_backprop_input([1, 4, 4, 1], tf.zeros([2, 2, 1, 1]), grad, 2, "SAME")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="gives"):
        session.run(back, {grad: np.zeros((1, 3, 3, 1))})


def test_only_the_spatial_sizes_of_the_input_may_be_given():
    grad = tf.constant(normal(2, 2, 2, 3))
    w = tf.constant(normal(2, 2, 1, 3))
    short = tf.nn.conv2d_backprop_input([4, 4], w, grad, 2, "SAME")
    full = tf.nn.conv2d_backprop_input([2, 4, 4, 1], w, grad, 2, "SAME")
    assert short.shape == full.shape == (2, 4, 4, 1)
    short, full = run(short, full)
    np.testing.assert_array_equal(short, full)


def test_steps_through_batch_or_channels_are_refused_while_running():
    y = tf.nn.conv2d(tf.zeros([2, 4, 4, 1]), tf.zeros([2, 2, 1, 1]), [2, 1, 1, 1], "SAME")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="strides"):
        session.run(y)


@pytest.mark.parametrize(
    ("batch", "size", "stride", "dilation"), [(5, 9, 1, 1), (3, 40, 2, 1), (2, 12, 1, 2)]
)
@pytest.mark.parametrize("padding", [b"SAME", b"VALID"])
def test_a_filter_gradient_by_products_is_the_transposed_convolution(
    batch: int, size: int, stride: int, dilation: int, padding: bytes
) -> None:
    windows = [Window(3, stride, dilation, padding)] * 2
    draw = np.random.default_rng(1)
    x = draw.normal(size=(batch, size, size + 1, 4)).astype(np.float32)
    filters = np.zeros((3, 3, 4, 8), np.float32)
    outputs, transpose = jax.vjp(
        lambda f: convolution_kernels._convolve_as_given(x, f, windows, False), filters
    )
    grad = draw.normal(size=outputs.shape).astype(np.float32)
    assert convolution_kernels._is_sooner_by_products(grad, windows)
    found = convolution_kernels.gradient_by_filter(x, filters.shape, grad, windows, False)
    np.testing.assert_allclose(found, transpose(grad)[0], rtol=1e-4, atol=1e-4)
