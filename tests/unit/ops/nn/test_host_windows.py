"""Convolutions and poolings on NumPy give what those of XLA give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from millrace.compiler.xla import jnp
from millrace.ops.nn import convolution_kernels, host_windows, pooling_kernels
from millrace.ops.nn.windows import Window

#: (shape of the data, shape of the filters, windows, whether channels come first)
_CONVOLUTIONS: dict[str, tuple[Any, Any, Any, bool]] = {
    "plain": ((2, 7, 6, 3), (3, 2, 3, 4), [Window(3), Window(2)], False),
    "one by one": ((2, 5, 4, 3), (1, 1, 3, 4), [Window(1), Window(1)], False),
    "padded": ((2, 7, 6, 3), (3, 3, 3, 4), [Window(3, padding=b"SAME")] * 2, False),
    "stepping": ((2, 9, 7, 3), (3, 3, 3, 2), [Window(3, 2, padding=b"SAME")] * 2, False),
    "leaving a rest": ((2, 8, 8, 3), (3, 3, 3, 2), [Window(3, 2)] * 2, False),
    "dilated": ((2, 9, 8, 3), (3, 2, 3, 4), [Window(3, 1, 2), Window(2, 1, 3)], False),
    "explicit": ((1, 5, 5, 2), (2, 2, 2, 3), [Window(2, 1, 1, b"EXPLICIT", (2, 1))] * 2, False),
    "in groups": ((2, 6, 6, 4), (3, 3, 2, 6), [Window(3, padding=b"SAME")] * 2, False),
    "channels first": ((2, 3, 7, 6), (3, 2, 3, 4), [Window(3), Window(2)], True),
    "sentences": ((4, 9, 5, 1), (3, 5, 1, 6), [Window(3), Window(5)], False),
    "volumes": ((2, 4, 5, 6, 2), (2, 3, 2, 2, 3), [Window(2), Window(3), Window(2)], False),
    "nothing": ((0, 5, 5, 2), (2, 2, 2, 3), [Window(2), Window(2)], False),
}


@pytest.mark.parametrize("name", _CONVOLUTIONS)
@pytest.mark.parametrize("columns", [1 << 19, 8], ids=["at once", "in parts"])
def test_a_convolution_and_its_gradients_are_those_of_xla(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_windows, "_COLUMNS", columns)
    shape, filter_shape, windows, first = _CONVOLUTIONS[name]
    random = np.random.RandomState(0)
    x = random.randn(*shape).astype(np.float32)
    filters = random.randn(*filter_shape).astype(np.float32)
    expected = convolution_kernels._convolve_as_given(
        jnp.asarray(x), jnp.asarray(filters), windows, first
    )
    found = host_windows.convolve(x, filters, windows, first)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    grad = random.randn(*expected.shape).astype(np.float32)
    np.testing.assert_allclose(
        host_windows.gradient_by_input(shape, filters, grad, windows, first),
        convolution_kernels.gradient_by_input(
            shape, jnp.asarray(filters), jnp.asarray(grad), windows, first
        ),
        rtol=1e-5,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        host_windows.gradient_by_filter(x, filter_shape, grad, windows, first),
        convolution_kernels.gradient_by_filter(
            jnp.asarray(x), filter_shape, jnp.asarray(grad), windows, first
        ),
        rtol=1e-4,
        atol=1e-4,
    )


_ONE = Window(1)


@pytest.mark.parametrize(
    "windows",
    [
        [_ONE, Window(2, 2), Window(2, 2), _ONE],
        [_ONE, Window(3, 2, padding=b"SAME"), Window(2, 1), _ONE],
        [_ONE, Window(3, 1, padding=b"SAME"), Window(3, 3, padding=b"SAME"), _ONE],
    ],
    ids=["side by side", "overlapping", "padded"],
)
def test_poolings_and_their_gradients_are_those_of_xla(windows: list[Window]) -> None:
    random = np.random.RandomState(0)
    # Whole numbers, so that windows have several maxima.
    x = random.randint(0, 3, [2, 7, 6, 3]).astype(np.float32)
    for pool in (pooling_kernels.max_pool, pooling_kernels.average_pool):
        np.testing.assert_allclose(pool(x, windows), pool(jnp.asarray(x), windows), rtol=1e-6)
    maxima = pooling_kernels.max_pool(x, windows)
    grad = random.randn(*maxima.shape).astype(np.float32)
    on_xla = [jnp.asarray(v) for v in (x, maxima, grad)]
    np.testing.assert_allclose(
        pooling_kernels.max_pool_gradient(x, maxima, grad, windows),
        pooling_kernels.max_pool_gradient(*on_xla, windows),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        pooling_kernels.average_pool_gradient(x.shape, grad, windows),
        pooling_kernels.average_pool_gradient(x.shape, on_xla[2], windows),
        atol=1e-6,
    )
