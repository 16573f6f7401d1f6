"""Linear algebra and Fourier transforms, by LAPACK and pocketfft as NumPy and SciPy call them."""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.rules import Call, out_dtype, rule
from millrace.platform import lazy_import

_fft: Any = lazy_import.module("scipy.fft")
_linalg: Any = lazy_import.module("scipy.linalg")


def _each(x: Any, call: Any, *more: Any) -> list[Any]:
    """Applies `call` to each matrix of a stack; its results are stacked again."""
    batch = x.shape[:-2]
    flat = [a.reshape(-1, *a.shape[len(batch) :]) for a in (x, *more)]
    found = [call(*(a[i] for a in flat)) for i in range(len(flat[0]))]
    return [
        np.stack(parts).reshape((*batch, *parts[0].shape)) for parts in zip(*found, strict=True)
    ]


@rule("cholesky")
def _cholesky(eqn: Any) -> Call:
    symmetrize = eqn.params.get("symmetrize_input", False)

    def factor(x: Any) -> Any:
        if symmetrize:
            x = (x + np.conj(np.swapaxes(x, -1, -2))) / 2
        if not x.size:
            return np.array(x)
        try:
            return np.linalg.cholesky(x).astype(x.dtype, copy=False)
        except np.linalg.LinAlgError:
            return _each(x, _cholesky_or_nan)[0]

    return factor


def _cholesky_or_nan(x: Any) -> tuple[Any]:
    try:
        return (np.linalg.cholesky(x).astype(x.dtype, copy=False),)
    except np.linalg.LinAlgError:
        return (np.full_like(x, np.nan),)


@rule("lu")
def _lu(eqn: Any) -> Call:
    pivot_type, order_type = out_dtype(eqn, 1), out_dtype(eqn, 2)
    shapes = [var.aval.shape for var in eqn.outvars]

    def one(x: Any) -> tuple[Any, Any, Any]:
        packed, pivots = _linalg.lu_factor(x, check_finite=False)
        order = np.arange(x.shape[0])
        for i, j in enumerate(pivots):
            order[[i, j]] = order[[j, i]]
        return packed, pivots.astype(pivot_type), order.astype(order_type)

    def factor(x: Any) -> Any:
        if not x.size:
            return [np.zeros(s, v.aval.dtype) for s, v in zip(shapes, eqn.outvars, strict=True)]
        return _each(x, one)

    return factor


@rule("lu_pivots_to_permutation")
def _lu_pivots_to_permutation(eqn: Any) -> Call:
    size, dtype = eqn.params["permutation_size"], out_dtype(eqn)

    def permutation(pivots: Any) -> Any:
        flat = pivots.reshape(-1, pivots.shape[-1])
        orders = np.tile(np.arange(size), (len(flat), 1))
        for order, swaps in zip(orders, flat, strict=True):
            for i, j in enumerate(swaps):
                order[[i, j]] = order[[j, i]]
        return orders.reshape((*pivots.shape[:-1], size)).astype(dtype)

    return permutation


@rule("triangular_solve")
def _triangular_solve(eqn: Any) -> Call:
    p = eqn.params

    def one(a: Any, b: Any) -> tuple[Any]:
        if p["conjugate_a"]:
            a = np.conj(a)
        lower = p["lower"]
        if p["transpose_a"]:
            a, lower = a.T, not lower
        if p["left_side"]:
            x = _solve(a, b, lower, p["unit_diagonal"])
        else:
            x = _solve(a.T, b.T, not lower, p["unit_diagonal"]).T
        return (np.asarray(x, b.dtype),)

    def solve(a: Any, b: Any) -> Any:
        return _each(a, one, b)[0] if b.size else np.array(b)

    return solve


def _solve(a: Any, b: Any, lower: bool, unit: bool) -> Any:
    try:
        return _linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit, check_finite=False)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.inf)


@rule("eigh")
def _eigh(eqn: Any) -> Call:
    letter: Any = "L" if eqn.params["lower"] else "U"
    # JAX returns vectors first.
    return lambda x: list(reversed(np.linalg.eigh(x, letter)))


@rule("eig")
def _eig(eqn: Any) -> Call:
    left, right = eqn.params["compute_left_eigenvectors"], eqn.params["compute_right_eigenvectors"]
    dtype = out_dtype(eqn)

    def one(x: Any) -> tuple[Any, ...]:
        found = _linalg.eig(x, left=left, right=right, check_finite=False)
        found = found if isinstance(found, tuple) else (found,)
        return tuple(part.astype(dtype) for part in found)

    return lambda x: _each(x, one)


@rule("svd")
def _svd(eqn: Any) -> Call:
    full, vectors = eqn.params["full_matrices"], eqn.params["compute_uv"]

    def decompose(x: Any) -> Any:
        found = np.linalg.svd(x, full_matrices=full, compute_uv=vectors)
        return [found[1], found[0], found[2]] if vectors else [found]

    return decompose


@rule("qr")
def _qr(eqn: Any) -> Call:
    mode: Any = "complete" if eqn.params["full_matrices"] else "reduced"
    return lambda x: list(np.linalg.qr(x, mode))


@rule("geqrf")
def _geqrf(eqn: Any) -> Call:
    def one(x: Any) -> tuple[Any, Any]:
        (packed, tau), _ = _linalg.qr(x, mode="raw", check_finite=False)
        return np.asarray(packed, x.dtype), np.asarray(tau, x.dtype)

    def factor(x: Any) -> Any:
        if not x.size:
            return [np.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars]
        return _each(x, one)

    return factor


@rule("householder_product")
def _householder_product(eqn: Any) -> Call:
    def one(a: Any, tau: Any) -> tuple[Any]:
        name = "ungqr" if a.dtype.kind == "c" else "orgqr"
        (form,) = _linalg.get_lapack_funcs((name,), (a,))
        product, _, _ = form(a, tau)
        return (np.asarray(product, a.dtype),)

    return lambda a, tau: _each(a, one, tau)[0] if a.size else np.array(a)


@rule("tridiagonal_solve")
def _tridiagonal_solve(eqn: Any) -> Call:
    def solve(lower: Any, middle: Any, upper: Any, b: Any) -> Any:
        size = middle.shape[-1]
        matrix = np.zeros((*middle.shape, size), middle.dtype)
        at = np.arange(size)
        matrix[..., at, at] = middle
        matrix[..., at[1:], at[:-1]] = lower[..., 1:]
        matrix[..., at[:-1], at[1:]] = upper[..., :-1]
        return np.linalg.solve(matrix, b).astype(b.dtype, copy=False)

    return solve


@rule("schur")
def _schur(eqn: Any) -> Call:
    vectors = eqn.params["compute_schur_vectors"]

    def one(x: Any) -> tuple[Any, ...]:
        found = _linalg.schur(x, check_finite=False)
        return tuple(np.asarray(part, x.dtype) for part in (found if vectors else found[:1]))

    return lambda x: _each(x, one)


@rule("fft")
def _fourier_transform(eqn: Any) -> Call:
    kind = str(getattr(eqn.params["fft_type"], "name", eqn.params["fft_type"])).upper()
    lengths, dtype = eqn.params["fft_lengths"], out_dtype(eqn)
    axes = tuple(range(-len(lengths), 0))
    function = {
        "FFT": _fft.fftn,
        "IFFT": _fft.ifftn,
        "RFFT": _fft.rfftn,
        "IRFFT": _fft.irfftn,
    }[kind]

    def transform(x: Any) -> Any:
        if not np.size(x):
            return np.zeros(eqn.outvars[0].aval.shape, dtype)
        return function(x, s=lengths, axes=axes).astype(dtype, copy=False)

    return transform
