"""Convolutions by oneDNN: the same numbers, and only where it was tried."""

from __future__ import annotations

import platform

import jaxlib
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from millrace.compiler import onednn
from millrace.compiler.xla import jax, jnp
from millrace.ops.nn import convolution_kernels
from millrace.ops.nn.windows import Window


@pytest.fixture
def compilation_cache_setting():
    """Turns JAX's compilation cache, which this test suite uses, on or off; puts it back."""
    before = jax.config.jax_enable_compilation_cache

    def turn(on):
        jax.config.update("jax_enable_compilation_cache", on)
        compilation_cache.reset_cache()  # JAX asks for the setting once, until this.

    yield turn
    turn(before)


@pytest.fixture
def reachable(compilation_cache_setting, monkeypatch):
    """oneDNN for convolutions of any size."""
    compilation_cache_setting(False)
    monkeypatch.setattr(onednn, "LEAST_WORK", 0)


def normal(*shape):
    return jnp.asarray(np.random.RandomState(len(shape)).randn(*shape), jnp.float32)


CASES = [
    # window, strides, dilations, padding, channels, and how many of the three go to oneDNN: a
    # gradient with strides or with an unused margin does not always
    ((3, 3), (1, 1), (1, 1), b"SAME", 9, 3),
    ((3, 2), (1, 1), (1, 1), b"VALID", 3, 3),
    ((2, 3), (1, 1), (2, 1), b"SAME", 9, 3),
    ((3, 3), (2, 1), (1, 1), b"SAME", 3, 2),
    ((3, 3), (2, 3), (1, 1), b"VALID", 9, 1),
    ((2, 2), (1, 1), (1, 2), b"EXPLICIT", 3, 2),
    ((1, 1), (1, 1), (1, 1), b"VALID", 9, 3),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_convolution_and_its_gradients_are_those_of_xla(case, reachable, monkeypatch):
    monkeypatch.setattr(convolution_kernels, "FILTER_GRADIENT_TERMS", 100)
    size, strides, dilations, padding, channels, count = case
    pads = ((1, 2), (0, 1))
    steps = [Window(size[i], strides[i], dilations[i], padding, pads[i]) for i in range(2)]
    x, filters = normal(5, 8, 9, channels), normal(*size, channels, 18)

    def forward(x, filters, grad):
        return convolution_kernels.convolve(x, filters, steps, False)

    def by_input(x, filters, grad):
        return convolution_kernels.gradient_by_input(x.shape, filters, grad, steps, False)

    def by_filter(x, filters, grad):
        return convolution_kernels.gradient_by_filter(x, filters.shape, grad, steps, False)

    grad = normal(*jax.eval_shape(forward, x, filters, None).shape)
    asked = 0
    for function in (forward, by_input, by_filter):
        lowered = jax.jit(function).lower(x, filters, grad)
        asked += onednn.TARGET in lowered.as_text()
        # What is not float32 does not go to oneDNN.
        exact = jax.jit(function)(*(a.astype(jnp.float64) for a in (x, filters, grad)))
        found = lowered.compile()(x, filters, grad)
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-4)
    assert asked == count


def test_a_large_convolution_goes_to_onednn_and_a_small_one_does_not(monkeypatch):
    monkeypatch.setattr(onednn, "unreachable_because", lambda: None)
    step = [(2, 2), (2, 2)], (1, 1), (1, 1)
    filters = jax.ShapeDtypeStruct((5, 5, 32, 64), jnp.float32)
    for batch, expected in ((100, True), (1, False)):
        x = jax.ShapeDtypeStruct((batch, 14, 14, 32), jnp.float32)
        assert onednn.takes(x, filters, *step) is expected


@pytest.mark.parametrize(
    ("shape", "dtype", "before"),
    [
        ((0, 14, 14, 32), jnp.float32, 2),  # nothing
        ((4, 14, 14, 64), jnp.float32, 2),  # groups
        ((4, 14, 14, 32), jnp.float64, 2),  # another type
        ((4, 14, 14, 32), jnp.float32, -1),  # a margin cut off
        ((4, 2, 14, 32), jnp.float32, 0),  # no window fits
    ],
)
def test_what_onednn_cannot_do_is_not_asked_of_it(shape, dtype, before, monkeypatch):
    monkeypatch.setattr(onednn, "unreachable_because", lambda: None)
    monkeypatch.setattr(onednn, "LEAST_WORK", 0)
    x = jax.ShapeDtypeStruct(shape, dtype)
    filters = jax.ShapeDtypeStruct((5, 5, 32, 64), dtype)
    pads = [(before, 0), (before, 0)]
    assert not onednn.takes(x, filters, pads, (1, 1), (1, 1))


def test_a_program_that_jax_would_write_to_its_cache_does_without_onednn(compilation_cache_setting):
    assert jax.config.jax_compilation_cache_dir
    compilation_cache_setting(True)
    assert "compilation cache" in onednn.unreachable_because()


def test_where_onednn_was_not_tried_it_is_not_used(reachable, monkeypatch):
    assert onednn.unreachable_because() is None
    with monkeypatch.context() as context:
        context.setattr(platform, "machine", lambda: "aarch64")
        assert "aarch64" in onednn.unreachable_because()
    with monkeypatch.context() as context:
        context.setattr(jaxlib, "__version__", "0.99")
        assert "0.99" in onednn.unreachable_because()
    with monkeypatch.context() as context:
        context.setattr(onednn, "_has_wide_registers", lambda: False)
        assert "AVX2" in onednn.unreachable_because()
    monkeypatch.setenv("MILLRACE_ONEDNN", "0")
    assert "MILLRACE_ONEDNN" in onednn.unreachable_because()
    step = [Window(3, 1, 1, b"SAME")] * 2
    program = jax.jit(lambda x, w: convolution_kernels.convolve(x, w, step, False))
    assert onednn.TARGET not in program.lower(normal(5, 8, 8, 4), normal(3, 3, 4, 4)).as_text()
