"""The arithmetic of windows, convolutions and poolings, against loops and against JAX."""

import itertools

import numpy as np
import pytest

from millrace.compiler.xla import jax, jnp, lax
from millrace.ops.nn import convolution_kernels, pooling_kernels
from millrace.ops.nn.windows import Window, check_explicit_paddings, per_axis, windows


def normal(*shape):
    return jnp.asarray(np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32))


# -- Windows -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "length", "count", "pads"),
    [
        (Window(3, 1, 1, b"SAME"), 5, 5, (1, 1)),
        (Window(2, 1, 1, b"SAME"), 5, 5, (0, 1)),
        (Window(3, 2, 1, b"SAME"), 6, 3, (0, 1)),
        (Window(1, 3, 1, b"SAME"), 7, 3, (0, 0)),
        (Window(3, 1, 2, b"SAME"), 5, 5, (2, 2)),
        (Window(3, 2, 1, b"VALID"), 6, 2, (0, 0)),
        (Window(2, 2, 2, b"VALID"), 6, 2, (0, 0)),
        (Window(3, 1, 1, b"EXPLICIT", (2, 0)), 4, 4, (2, 0)),
        (Window(3, 2, 1, b"SAME"), 0, 0, (0, 0)),
    ],
)
def test_a_window_knows_how_often_it_fits_and_what_is_padded(window, length, count, pads):
    assert window.output_size(length) == count
    if length:
        assert window.pads(length) == pads


def test_a_window_of_an_unknown_length_has_an_unknown_count():
    assert Window(3).output_size(None) is None


def test_a_window_that_does_not_fit_once_says_by_how_much():
    with pytest.raises(ValueError, match="caused by subtracting 5 from 4"):
        Window(3, dilation=2).output_size(4)


@pytest.mark.parametrize(
    ("value", "layout", "expected"),
    [
        (2, b"NHWC", [1, 2, 2, 1]),
        ([2], b"NCHW", [1, 1, 2, 2]),
        ([2, 3], b"NHWC", [1, 2, 3, 1]),
        ([2, 3], b"NCHW", [1, 1, 2, 3]),
        ([1, 2, 3, 1], b"NHWC", [1, 2, 3, 1]),
        (None, b"NHWC", [1, 1, 1, 1]),
    ],
)
def test_strides_are_spelled_out_for_every_axis(value, layout, expected):
    assert per_axis(value, "strides", 2, layout) == expected


def test_strides_of_another_length_are_refused():
    with pytest.raises(ValueError, match="strides should be of length 1, 2 or 4"):
        per_axis([1, 2, 2], "strides", 2, b"NHWC")


def test_strides_and_dilations_must_be_positive():
    with pytest.raises(ValueError, match="Stride must be > 0, but got 0"):
        windows([3], [1], [1, 0, 1], b"SAME")
    with pytest.raises(ValueError, match="Dilation rate must be > 0"):
        windows([3], [1], [1, 1, 1], b"SAME", [1, -1, 1])


@pytest.mark.parametrize(
    ("padding", "explicit", "text"),
    [
        (b"SAME", [1], "must be empty"),
        (b"EXPLICIT", [0, 0, 1, 1], "must contain 8 values"),
        (b"EXPLICIT", [0, 0, -1, 1, 1, 1, 0, 0], "nonnegative"),
        (b"EXPLICIT", [1, 0, 1, 1, 1, 1, 0, 0], "batch or depth"),
    ],
)
def test_explicit_paddings_that_make_no_sense_are_refused(padding, explicit, text):
    with pytest.raises(ValueError, match=text):
        check_explicit_paddings(padding, explicit, 4, b"NHWC")


# -- Convolutions --------------------------------------------------------------------------

CONVOLUTIONS = [
    # batch, length, window, stride, dilation, padding, channels first
    (7, 9, 3, 1, 1, b"SAME", False),
    (7, 9, 3, 2, 1, b"SAME", True),
    (6, 10, 3, 2, 1, b"VALID", False),
    (5, 11, 3, 1, 2, b"VALID", False),
    (5, 11, 2, 1, 2, b"SAME", True),
    (4, 9, 2, 3, 1, b"VALID", False),
    (4, 9, 1, 2, 1, b"SAME", False),
    (3, 6, 4, 1, 1, b"EXPLICIT", False),
    (1, 5, 5, 1, 1, b"VALID", False),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_gradients_of_convolutions_in_parts_are_those_of_jax(case, monkeypatch):
    # So small that a few images make several parts, with a rest.
    monkeypatch.setattr(convolution_kernels, "FILTER_GRADIENT_TERMS", 60)
    batch, length, size, stride, dilation, padding, first = case
    steps = [
        Window(size, stride, dilation, padding, (1, 2)),
        Window(size, stride, dilation, padding, (0, 1)),
    ]
    x = normal(batch, 3, length, length) if first else normal(batch, length, length, 3)
    filters = normal(size, size, 3, 4)
    y, pull_back = jax.vjp(
        lambda x, w: convolution_kernels.convolve(x, w, steps, first), x, filters
    )
    grad = normal(*y.shape)
    by_input, by_filter = pull_back(grad)
    np.testing.assert_allclose(
        convolution_kernels.gradient_by_input(x.shape, filters, grad, steps, first),
        by_input,
        atol=1e-3,
    )
    np.testing.assert_allclose(
        convolution_kernels.gradient_by_filter(x, filters.shape, grad, steps, first),
        by_filter,
        atol=1e-3,
    )


SHARED_BY_ALL_CORES = [
    # height, width, window, dilations, stride, padding
    (6, 9, (3, 2), (1, 1), 1, b"SAME"),
    (7, 6, (2, 3), (2, 1), 1, b"VALID"),
    (5, 8, (3, 3), (1, 2), 1, b"EXPLICIT"),
    (7, 7, (3, 3), (1, 1), 2, b"VALID"),
]


@pytest.mark.parametrize("case", SHARED_BY_ALL_CORES, ids=str)
def test_a_batch_laid_into_the_width_gives_what_the_images_give_one_by_one(case, monkeypatch):
    monkeypatch.setattr(convolution_kernels, "WORTH_ALL_CORES", 0)
    monkeypatch.setattr(convolution_kernels, "WORTH_A_COPY", 0)
    monkeypatch.setattr(convolution_kernels, "FILTER_GRADIENT_TERMS", 60)
    height, width, sizes, dilations, stride, padding = case
    steps = [
        Window(sizes[0], stride, dilations[0], padding, (1, 2)),
        Window(sizes[1], stride, dilations[1], padding, (0, 3)),
    ]
    x, filters = normal(5, height, width, 8), normal(*sizes, 8, 17)
    plain = convolution_kernels._convolve_as_given
    y, pull_back = jax.vjp(lambda x, w: plain(x, w, steps, False), x, filters)
    grad = normal(*y.shape)
    by_input, by_filter = pull_back(grad)
    shared = convolution_kernels._worth_all_cores(x, filters, steps)
    assert shared == (stride == 1)
    for found, expected in [
        (convolution_kernels.convolve(x, filters, steps, False), y),
        (convolution_kernels.gradient_by_input(x.shape, filters, grad, steps, False), by_input),
        (
            convolution_kernels.gradient_by_filter(x, filters.shape, grad, steps, False),
            by_filter,
        ),
    ]:
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("stride", "first"), [(1, False), (2, False), (2, True)])
def test_gradients_of_convolutions_of_volumes_are_those_of_jax(stride, first):
    steps = [Window(2, stride, 1, b"SAME")] * 3
    x = normal(3, 2, 5, 6, 4) if first else normal(3, 5, 6, 4, 2)
    filters = normal(2, 2, 2, 2, 3)
    y, pull_back = jax.vjp(
        lambda x, w: convolution_kernels.convolve(x, w, steps, first), x, filters
    )
    grad = normal(*y.shape)
    by_input, by_filter = pull_back(grad)
    np.testing.assert_allclose(
        convolution_kernels.gradient_by_input(x.shape, filters, grad, steps, first),
        by_input,
        atol=1e-3,
    )
    np.testing.assert_allclose(
        convolution_kernels.gradient_by_filter(x, filters.shape, grad, steps, first),
        by_filter,
        atol=1e-3,
    )


def test_grouped_convolutions_have_gradients():
    steps = [Window(2, 1, 1, b"SAME")] * 2
    x, filters = normal(2, 4, 4, 4), normal(2, 2, 2, 6)
    y, pull_back = jax.vjp(
        lambda x, w: convolution_kernels.convolve(x, w, steps, False), x, filters
    )
    by_input, by_filter = pull_back(jnp.ones_like(y))
    ones = jnp.ones_like(y)
    np.testing.assert_allclose(
        convolution_kernels.gradient_by_input(x.shape, filters, ones, steps, False),
        by_input,
        atol=1e-4,
    )
    np.testing.assert_allclose(
        convolution_kernels.gradient_by_filter(x, filters.shape, ones, steps, False),
        by_filter,
        atol=1e-4,
    )


def test_an_empty_batch_gives_a_filter_gradient_of_zeros():
    steps = [Window(2, 1, 1, b"SAME")] * 2
    grad = convolution_kernels.gradient_by_filter(
        jnp.zeros((0, 3, 3, 1)), (2, 2, 1, 2), jnp.zeros((0, 3, 3, 2)), steps, False
    )
    assert grad.shape == (2, 2, 1, 2) and not np.any(grad)


@pytest.mark.parametrize(
    ("stride", "dilation", "padding", "multiplier"),
    [(1, 1, b"SAME", 1), (2, 1, b"SAME", 2), (2, 1, b"VALID", 1), (1, 2, b"VALID", 3)],
)
def test_depthwise_convolutions_are_grouped_ones(stride, dilation, padding, multiplier):
    steps = [Window(3, stride, dilation, padding), Window(2, stride, dilation, padding)]
    x, filters = normal(2, 7, 8, 3), normal(3, 2, 3, multiplier)

    def grouped(x, filters):
        flat = jnp.reshape(filters, (3, 2, 1, 3 * multiplier))
        return lax.conv_general_dilated(
            x,
            flat,
            (stride, stride),
            padding.decode(),
            rhs_dilation=(dilation, dilation),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=3,
        )

    y, pull_back = jax.vjp(grouped, x, filters)
    grad = normal(*y.shape)
    by_input, by_filter = pull_back(grad)
    near = {"atol": 1e-4}
    np.testing.assert_allclose(convolution_kernels.depthwise(x, filters, steps), y, **near)
    np.testing.assert_allclose(
        convolution_kernels.depthwise_gradient_by_input(x.shape, filters, grad, steps),
        by_input,
        **near,
    )
    np.testing.assert_allclose(
        convolution_kernels.depthwise_gradient_by_filter(x, filters.shape, grad, steps),
        by_filter,
        **near,
    )


# -- Poolings ------------------------------------------------------------------------------


def reference(x, steps, grad, upstream):
    """All results of pooling by plain loops: maxima, averages and what flows back."""
    pads = [w.pads(n) for w, n in zip(steps, x.shape, strict=True)]
    counts = pooling_kernels.output_shape(x.shape, steps)
    maxima, averages = np.zeros(counts), np.zeros(counts)
    positions, second = np.zeros(counts, np.int64), np.zeros(counts)
    by_maximum, by_average = np.zeros(x.shape), np.zeros(x.shape)
    for place in np.ndindex(*counts):
        cells = []
        for offset in itertools.product(*(range(w.size) for w in steps)):
            cell = tuple(
                p * w.stride - pad[0] + i
                for p, w, pad, i in zip(place, steps, pads, offset, strict=True)
            )
            if all(0 <= c < n for c, n in zip(cell, x.shape, strict=True)):
                cells.append(cell)
        values = [x[cell] for cell in cells]
        first = cells[int(np.argmax(values))]
        maxima[place], averages[place] = max(values), np.mean(values)
        positions[place] = np.ravel_multi_index(first, x.shape)
        second[place] = upstream[first]
        by_maximum[first] += grad[place]
        for cell in cells:
            by_average[cell] += grad[place] / len(cells)
    return maxima, averages, positions, second, by_maximum, by_average


POOLINGS = [
    # shape, window, strides, padding
    ((2, 6, 4, 2), (2, 2), (2, 2), b"SAME"),
    ((2, 5, 4, 2), (2, 2), (2, 2), b"SAME"),
    ((2, 5, 4, 2), (2, 2), (2, 2), b"VALID"),
    ((2, 5, 6, 2), (3, 3), (2, 2), b"SAME"),
    ((2, 7, 6, 1), (3, 2), (2, 1), b"VALID"),
    ((2, 5, 6, 2), (2, 3), (1, 1), b"SAME"),
    ((1, 7, 7, 1), (2, 1), (3, 2), b"VALID"),
    ((1, 7, 8, 1), (2, 1), (3, 2), b"SAME"),
    ((1, 5, 5, 1), (5, 5), (5, 5), b"VALID"),
    ((1, 6, 6, 1), (3, 3), (2, 2), b"EXPLICIT"),
]


@pytest.mark.parametrize("case", POOLINGS, ids=str)
def test_poolings_are_what_loops_compute(case):
    shape, sizes, strides, padding = case
    steps = [
        Window(1),
        Window(sizes[0], strides[0], 1, padding, (1, 2)),
        Window(sizes[1], strides[1], 1, padding, (0, 1)),
        Window(1),
    ]
    random = np.random.RandomState(3)
    # Few different values: there are ties in most windows.
    x = random.randint(0, 4, shape).astype(np.float32)
    grad = random.randn(*pooling_kernels.output_shape(shape, steps)).astype(np.float32)
    upstream = random.randn(*shape).astype(np.float32)
    maxima, averages, positions, second, by_maximum, by_average = reference(
        x, steps, grad, upstream
    )
    found = pooling_kernels.max_pool(jnp.asarray(x), steps)
    np.testing.assert_array_equal(found, maxima)
    near = {"atol": 1e-5}
    np.testing.assert_allclose(
        pooling_kernels.max_pool_gradient(x, found, grad, steps), by_maximum, **near
    )
    np.testing.assert_allclose(
        pooling_kernels.max_pool_gradient_gradient(x, found, upstream, steps), second, **near
    )
    np.testing.assert_array_equal(
        pooling_kernels.max_pool_positions(jnp.asarray(x), found, steps, True), positions
    )
    np.testing.assert_allclose(
        pooling_kernels.average_pool(jnp.asarray(x), steps), averages, **near
    )
    np.testing.assert_allclose(
        pooling_kernels.average_pool_gradient(shape, jnp.asarray(grad), steps), by_average, **near
    )


def test_a_window_too_large_to_unroll_pools_as_well():
    steps = [Window(1), Window(9, 1, 1, b"SAME"), Window(9, 1, 1, b"SAME"), Window(1)]
    x = np.random.RandomState(0).randint(0, 9, (1, 10, 10, 1)).astype(np.float32)
    grad = np.ones((1, 10, 10, 1), np.float32)
    maxima, averages, _, _, by_maximum, by_average = reference(x, steps, grad, x)
    found = pooling_kernels.max_pool(jnp.asarray(x), steps)
    np.testing.assert_array_equal(found, maxima)
    np.testing.assert_allclose(
        pooling_kernels.max_pool_gradient(x, found, grad, steps), by_maximum, atol=1e-4
    )
    np.testing.assert_allclose(
        pooling_kernels.average_pool(jnp.asarray(x), steps), averages, atol=1e-5
    )
    np.testing.assert_allclose(
        pooling_kernels.average_pool_gradient(x.shape, jnp.asarray(grad), steps),
        by_average,
        atol=1e-5,
    )


def test_integers_have_a_least_value_to_pad_with():
    steps = [Window(1), Window(2, 2, 1, b"SAME"), Window(1)]
    x = jnp.asarray([[[-5], [-7], [-9]]], jnp.int32)
    assert pooling_kernels.max_pool(x, steps).tolist() == [[[-5], [-9]]]


def test_a_gradient_of_another_shape_than_the_pooling_is_refused():
    steps = [Window(1), Window(2, 2), Window(1)]
    with pytest.raises(ValueError, match="gives"):
        pooling_kernels.average_pool_gradient((1, 4, 1), jnp.ones((1, 3, 1)), steps)
