"""What JAX traces gives the same numbers on NumPy as when XLA runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from millrace.compiler.numpy_evaluator import evaluated
from millrace.compiler.xla import jax, jnp, lax

_RANDOM = np.random.default_rng(7)


def _floats(*shape: int) -> Any:
    return _RANDOM.standard_normal(shape).astype(np.float32)


def _positive(*shape: int) -> Any:
    return (np.abs(_floats(*shape)) + 0.1).astype(np.float32)


def _ints(*shape: int, low: int = -50, high: int = 50, dtype: Any = np.int32) -> Any:
    return _RANDOM.integers(low, high, shape).astype(dtype)


def _square(size: int) -> Any:
    x = _floats(3, size, size)
    return (x @ np.swapaxes(x, 1, 2) + size * np.eye(size)).astype(np.float32)


def _compare(function: Callable[..., Any], *arguments: Any, tolerance: float = 2e-5) -> None:
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    ready = evaluated(jax.make_jaxpr(function)(*arguments))
    assert not ready.missing
    with np.errstate(all="ignore"):
        found = ready(*(np.asarray(a) for a in jax.tree.leaves(arguments)))
    assert len(found) == len(wanted)
    for mine, xla in zip(found, wanted, strict=True):
        assert np.shape(mine) == xla.shape
        assert np.asarray(mine).dtype == xla.dtype
        np.testing.assert_allclose(
            np.asarray(mine).astype(np.complex128 if xla.dtype.kind == "c" else np.float64),
            np.asarray(xla).astype(np.complex128 if xla.dtype.kind == "c" else np.float64),
            rtol=tolerance,
            atol=tolerance,
        )


_UNARY: dict[str, Callable[[Any], Any]] = {
    name: getattr(jnp, name)
    for name in (
        "negative abs sign floor ceil exp exp2 expm1 sin cos tan arctan sinh cosh tanh arcsinh "
        "cbrt square round isfinite isnan"
    ).split()
} | {
    "logistic": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "gelu": jax.nn.gelu,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "bessel_i0e": lax.bessel_i0e,
    "bessel_i1e": lax.bessel_i1e,
    "cubed": lambda x: x**3,
    "inverse": lambda x: x**-2,
    "away": lambda x: lax.round(x * 2, lax.RoundingMethod.AWAY_FROM_ZERO),
    "to_int": lambda x: (x * 1e10).astype(jnp.int32),
    "to_uint8": lambda x: (x * 300).astype(jnp.uint8),
    "to_half": lambda x: x.astype(jnp.bfloat16),
    "half_sum": lambda x: x.astype(jnp.bfloat16).sum(),
    "reduced": lambda x: lax.reduce_precision(x, 8, 7),
    "bits": lambda x: lax.bitcast_convert_type(x, jnp.int32),
    "complex": lambda x: (lax.complex(x, x * 2) ** 2).conj(),
    "relu": jax.nn.relu,
    "relu_gradient": jax.grad(lambda x: jax.nn.relu(x).sum()),
    "softmax_gradient": jax.grad(lambda x: (jax.nn.log_softmax(x) ** 2).sum()),
}


@pytest.mark.parametrize("name", _UNARY)
def test_functions_of_one_array(name: str) -> None:
    _compare(_UNARY[name], _floats(4, 5), tolerance=1e-4)


_OF_POSITIVE: dict[str, Callable[[Any], Any]] = {
    "log": jnp.log,
    "log1p": jnp.log1p,
    "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt,
    "lgamma": lax.lgamma,
    "digamma": lax.digamma,
    "igamma": lambda x: lax.igamma(x, x + 1),
    "igammac": lambda x: lax.igammac(x, x + 1),
    "zeta": lambda x: lax.zeta(x + 1.5, x + 1),
    "polygamma": lambda x: lax.polygamma(jnp.ones_like(x), x),
    "betainc": lambda x: lax.betainc(x, x + 1, 1 / (1 + x)),
    "erf_inv": lambda x: lax.erf_inv(1 / (1 + x)),
    "arccosh": lambda x: jnp.arccosh(1 + x),
    "arcsin": lambda x: jnp.arcsin(1 / (1 + x)),
    "arctanh": lambda x: jnp.arctanh(1 / (1 + x)),
    "power": lambda x: x ** (x + 0.5),
}


@pytest.mark.parametrize("name", _OF_POSITIVE)
def test_functions_of_positive_numbers(name: str) -> None:
    _compare(_OF_POSITIVE[name], _positive(4, 5), tolerance=2e-4)


_OF_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "quotient": lax.div,
    "remainder": lax.rem,
    "shift_left": lambda x, y: lax.shift_left(x, jnp.abs(y)),
    "shift_right": lambda x, y: lax.shift_right_logical(x, jnp.abs(y)),
    "shift_arithmetic": lambda x, y: lax.shift_right_arithmetic(x, jnp.abs(y)),
    "and": jnp.bitwise_and,
    "or": jnp.bitwise_or,
    "xor": jnp.bitwise_xor,
    "not": lambda x, y: ~x,
    "count": lambda x, y: lax.population_count(x),
    "leading_zeros": lambda x, y: lax.clz(x),
    "cube": lambda x, y: x**3,
    "floor_divide": lambda x, y: x // jnp.where(y == 0, 1, y),
}


@pytest.mark.parametrize("name", _OF_INTEGERS)
def test_functions_of_whole_numbers(name: str) -> None:
    _compare(_OF_INTEGERS[name], _ints(40), _ints(40, low=-40, high=40))


_OF_SHAPES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "reshape": (lambda x: x.reshape(6, 4).T, (_floats(2, 3, 4),)),
    "broadcast": (lambda x: jnp.broadcast_to(x[:, None], (3, 2, 4)), (_floats(3, 4),)),
    "flip": (lambda x: jnp.flip(x, (0, 2)), (_floats(2, 3, 4),)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), (_floats(2, 3), _floats(2, 1))),
    "split": (lambda x: jnp.split(x, [1, 3], 1), (_floats(2, 5),)),
    "slice": (lambda x: x[1:, ::2], (_floats(3, 7),)),
    "pad": (lambda x: lax.pad(x, np.float32(9), ((1, 2, 1), (-1, 3, 0))), (_floats(3, 4),)),
    "cut": (lambda x: lax.pad(x, np.float32(9), ((-2, -1, 2), (0, -2, 1))), (_floats(4, 4),)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 9), (2, 2)), (_floats(4, 5), 1)),
    "update_slice": (
        lambda x, y, i: lax.dynamic_update_slice(x, y, (i, -3)),
        (_floats(4, 5), _floats(2, 2), 3),
    ),
    "iota": (lambda x: x + lax.broadcasted_iota(jnp.float32, x.shape, 1), (_floats(2, 3),)),
    "tile": (lambda x: jnp.tile(x, (2, 3)), (_floats(2, 3),)),
    "sort": (lambda x: jnp.sort(x, 0), (_floats(5, 3),)),
    "argsort": (lambda x: jnp.argsort(x), (_ints(4, 20, low=0, high=5),)),
    "two_keys": (
        lambda x, y, z: lax.sort((x, y, z), num_keys=2),
        (_ints(30, low=0, high=4), _ints(30, low=0, high=4), _floats(30)),
    ),
    "top_k": (lambda x: lax.top_k(x, 3), (_ints(4, 9, low=0, high=4),)),
    "select": (lambda x, y: jnp.where(x > y, x, y), (_floats(3, 4), _floats(3, 4))),
    "clip": (lambda x: jnp.clip(x, -0.3, 0.4), (_floats(3, 4),)),
    "one_hot": (lambda x: jax.nn.one_hot(x, 5), (_ints(7, low=0, high=6),)),
}


@pytest.mark.parametrize("name", _OF_SHAPES)
def test_shapes_and_order(name: str) -> None:
    function, arguments = _OF_SHAPES[name]
    _compare(function, *arguments)


_BOTH = (np.float32(0), np.float32(1))
_REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum((0, 2)),
    "mean": lambda x: x.mean(1),
    "max": lambda x: x.max(0),
    "min": lambda x: x.min((1, 2)),
    "prod": lambda x: x.prod(2),
    "all": lambda x: (x > 0).all(0),
    "any": lambda x: (x > 0).any(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(-1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "cummax": lambda x: lax.cummax(x, 1, reverse=True),
    "cumlogsumexp": lambda x: lax.cumlogsumexp(x, 1),
    "logsumexp": lambda x: jax.nn.logsumexp(x, 1),
    "empty_max": lambda x: jnp.max(x[:0], 0, initial=-1.0),
    "own": lambda x: lax.reduce((x, x), _BOTH, lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,)),
}


@pytest.mark.parametrize("name", _REDUCTIONS)
def test_reductions(name: str) -> None:
    _compare(_REDUCTIONS[name], _floats(3, 4, 5))


_LAYOUT = ("NHWC", "HWIO", "NHWC")


def _convolution(**options: Any) -> Callable[..., Any]:
    options = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": _LAYOUT} | options
    return lambda x, w: lax.conv_general_dilated(x, w, **options)


_CONVOLUTIONS: dict[str, tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]] = {
    "same": ({}, (2, 7, 6, 3), (3, 3, 3, 4)),
    "valid_strided": ({"padding": "VALID", "window_strides": (2, 3)}, (2, 9, 8, 3), (3, 2, 3, 4)),
    "dilated": ({"rhs_dilation": (2, 2)}, (2, 9, 8, 2), (3, 3, 2, 3)),
    "transposed": (
        {"lhs_dilation": (2, 2), "padding": ((2, 1), (1, 1))},
        (2, 4, 4, 3),
        (3, 3, 3, 2),
    ),
    "grouped": ({"feature_group_count": 2}, (2, 5, 5, 4), (3, 3, 2, 6)),
    "depthwise": ({"feature_group_count": 4}, (2, 5, 5, 4), (3, 3, 1, 8)),
    "channels_first": (
        {"dimension_numbers": ("NCHW", "OIHW", "NCHW")},
        (2, 3, 6, 5),
        (4, 3, 3, 3),
    ),
}


@pytest.mark.parametrize("name", _CONVOLUTIONS)
def test_convolutions_and_their_gradients(name: str) -> None:
    options, image, kernel = _CONVOLUTIONS[name]
    function = _convolution(**options)
    x, w = _floats(*image), _floats(*kernel)
    _compare(function, x, w, tolerance=1e-4)
    _compare(jax.grad(lambda x, w: (function(x, w) ** 2).sum(), (0, 1)), x, w, tolerance=1e-3)


def test_products_of_matrices() -> None:
    _compare(lambda x, y: x @ y, _floats(3, 4), _floats(4, 5))
    _compare(jnp.matmul, _floats(2, 3, 4), _floats(2, 4, 5))
    _compare(lambda x, y: jnp.einsum("abc,dcb->ad", x, y), _floats(2, 3, 4), _floats(5, 4, 3))
    _compare(lambda x, y: jnp.einsum("abc,bcd->bad", x, y), _floats(2, 3, 4), _floats(3, 4, 6))
    _compare(jnp.dot, _ints(3, 4), _ints(4))


_INDEXED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows": (lambda x, i: x[i], (_floats(6, 3), _ints(2, 4, low=-6, high=6))),
    "columns": (lambda x, i: x[:, i], (_floats(6, 3), _ints(5, low=0, high=3))),
    "middle": (lambda x, i: jnp.take(x, i, 1), (_floats(2, 5, 3), _ints(2, 2, low=0, high=5))),
    "filled": (
        lambda x, i: jnp.take(x, i, 0, mode="fill"),
        (_floats(6, 3), _ints(9, low=-3, high=12)),
    ),
    "clipped": (
        lambda x, i: jnp.take(x, i, 0, mode="clip"),
        (_floats(6, 3), _ints(9, low=-3, high=12)),
    ),
    "points": (
        lambda x, i, j: x[i, :, j],
        (_floats(4, 3, 5), _ints(6, low=0, high=4), _ints(6, low=0, high=5)),
    ),
    "along": (
        lambda x, i: jnp.take_along_axis(x, i, 1),
        (_floats(4, 5), _ints(4, 3, low=0, high=5)),
    ),
    "batched": (
        lambda x, i: jax.vmap(lambda a, b: a[b])(x, i),
        (_floats(4, 5, 2), _ints(4, 3, low=0, high=5)),
    ),
    "set": (lambda x, v: x.at[1::2].set(v), (_floats(6, 3), _floats(3, 3))),
    "add": (
        lambda x, i, v: x.at[i].add(v),
        (_floats(6, 3), _ints(9, low=0, high=9), _floats(9, 3)),
    ),
    "add_points": (
        lambda x, i, v: x.at[i, i].add(v),
        (_floats(6, 6), _ints(9, low=0, high=9), _floats(9)),
    ),
    "multiply": (
        lambda x, i, v: x.at[i].multiply(v),
        (_floats(6, 3), _ints(9, low=0, high=6), _floats(9, 3)),
    ),
    "minimum": (
        lambda x, i, v: x.at[:, i].min(v),
        (_floats(3, 6), _ints(9, low=0, high=6), _floats(3, 9)),
    ),
    "maximum": (
        lambda x, i, v: x.at[i].max(v),
        (_ints(6), _ints(9, low=0, high=6), _ints(9)),
    ),
    "segments": (
        lambda x, i: jax.ops.segment_sum(x, i, 4),
        (_floats(9, 3), np.sort(_ints(9, low=0, high=5))),
    ),
    "gradient": (
        lambda x, i: jax.grad(lambda x: (x[i] ** 2).sum())(x),
        (_floats(6, 3), _ints(9, low=0, high=6)),
    ),
    "batched_gradient": (
        lambda x, i: jax.grad(lambda x: (jnp.take_along_axis(x, i, 1) ** 2).sum())(x),
        (_floats(4, 5), _ints(4, 7, low=0, high=5)),
    ),
}


@pytest.mark.parametrize("name", _INDEXED)
def test_gathers_and_scatters(name: str) -> None:
    function, arguments = _INDEXED[name]
    _compare(function, *arguments)


def _pool(kind: str, padding: str) -> Callable[[Any], Any]:
    start, join = {"max": (-jnp.inf, lax.max), "sum": (0.0, lax.add), "min": (jnp.inf, lax.min)}[
        kind
    ]
    return lambda x: lax.reduce_window(x, start, join, (1, 3, 2, 1), (1, 2, 2, 1), padding)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("kind", ["max", "sum", "min"])
def test_pooling_and_its_gradient(kind: str, padding: str) -> None:
    x = _floats(2, 7, 6, 3)
    pool = _pool(kind, padding)
    _compare(pool, x)
    _compare(jax.grad(lambda x: (pool(x) ** 2).sum()), x, tolerance=1e-4)


def test_loops_and_branches() -> None:
    _compare(
        lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, x)),
        _floats(3),
    )
    _compare(lambda x: lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(3), x), _floats(4, 3))
    _compare(
        lambda x: lax.scan(lambda c, a: (c + a, c * a), jnp.zeros(3), x, reverse=True),
        _floats(4, 3),
    )
    _compare(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), _floats(4))
    _compare(lambda i: lax.switch(i, [lambda: 1.0, lambda: 2.0, lambda: 3.0]), 7)
    _compare(jax.grad(lambda x: lax.scan(lambda c, a: (jnp.tanh(c + a), c), 0.0, x)[0]), _floats(6))
    _compare(lambda x: jax.checkpoint(jnp.sin)(x), _floats(3))


def test_linear_algebra() -> None:
    a, b = _square(4), _floats(3, 4, 2)
    _compare(jnp.linalg.cholesky, a, tolerance=1e-4)
    _compare(jnp.linalg.solve, a, b, tolerance=1e-3)
    _compare(jnp.linalg.inv, a, tolerance=1e-3)
    _compare(jnp.linalg.det, a, tolerance=1e-3)
    _compare(jnp.linalg.slogdet, a, tolerance=1e-3)
    _compare(lambda a: jnp.linalg.eigh(a)[0], a, tolerance=1e-3)
    _compare(lambda a: jnp.linalg.svd(a, compute_uv=False), a, tolerance=1e-3)
    _compare(lambda a: jnp.abs(jnp.linalg.qr(a)[1]), a, tolerance=1e-3)
    _compare(
        lambda a, b: lax.linalg.triangular_solve(
            a, b, left_side=True, lower=True, transpose_a=True
        ),
        a,
        b,
        tolerance=1e-3,
    )


def test_fourier_transforms() -> None:
    _compare(jnp.fft.fft, _floats(3, 8), tolerance=1e-4)
    _compare(jnp.fft.rfft2, _floats(2, 6, 8), tolerance=1e-4)
    _compare(lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), _floats(3, 8), tolerance=1e-4)
    _compare(jnp.fft.ifft, _floats(3, 8).astype(np.complex64), tolerance=1e-4)


def test_random_numbers_are_the_same() -> None:
    def draw(seed: Any) -> Any:
        key = jax.random.key(seed)
        first, second = jax.random.split(key)
        key = jax.random.fold_in(first, 3)
        return jax.random.normal(key, (5,)), jax.random.randint(second, (4,), 0, 100)

    _compare(draw, 11, tolerance=1e-5)


def test_a_primitive_without_a_rule_is_listed_and_run_by_jax() -> None:
    function = lambda x: lax.linalg.hessenberg(x)  # noqa: E731
    ready = evaluated(jax.make_jaxpr(function)(_square(3)[0]))
    assert ready.missing == {"hessenberg"}
    np.testing.assert_allclose(ready(_square(3)[0] * 0)[0], np.zeros((3, 3)))
