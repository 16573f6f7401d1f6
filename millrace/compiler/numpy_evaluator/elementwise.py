"""Element by element: arithmetic, comparisons, bits, conversions, special functions.

XLA's results are followed where NumPy's differ: integers divide towards zero and by zero without
an error, shifts by more than a number's bits give zero, floats that no integer can hold saturate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.rules import Call, out_dtype, plain, rule
from millrace.platform import lazy_import

#: Loaded when a special function is first called.
_scipy: Any = lazy_import.module("scipy.special")

_PLAIN: dict[str, Call] = {
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "max": np.maximum,
    "min": np.minimum,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sqrt": np.sqrt,
    "cbrt": np.cbrt,
    "square": np.square,
    "one_minus_square": lambda x: 1 - np.square(x),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "eq": np.equal,
    "ne": np.not_equal,
    "is_finite": np.isfinite,
    "nextafter": np.nextafter,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conj,
}
for _name, _call in _PLAIN.items():
    plain(_name, _call)


for _name, _ufunc in (
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
):
    plain(_name, _ufunc)


def _total_order(x: Any) -> Any:
    """Integers that are ordered as floats are, with -0 before 0 and NaN at the ends."""
    x = np.asarray(x)
    if x.dtype.kind not in "fV":
        return x
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


plain("lt_to", lambda x, y: np.less(_total_order(x), _total_order(y)))
plain("le_to", lambda x, y: np.less_equal(_total_order(x), _total_order(y)))
plain("eq_to", lambda x, y: np.equal(_total_order(x), _total_order(y)))


def _polynomial(x: Any, *coefficients: Any) -> Any:
    """Horner's rule; the coefficients are ordered from the constant term up."""
    total = np.broadcast_to(coefficients[-1], np.shape(x))
    for coefficient in reversed(coefficients[:-1]):
        total = total * x + coefficient
    return total


plain("polynomial", _polynomial)


def is_integer(dtype: Any) -> bool:
    """Whether a NumPy type is one of whole numbers."""
    return np.dtype(dtype).kind in "iu"


@rule("div")
def _div(eqn: Any) -> Call:
    return _integer_quotient if is_integer(out_dtype(eqn)) else np.divide


def _integer_quotient(x: Any, y: Any) -> Any:
    zero = y == 0
    divisor = np.where(zero, y.dtype.type(1), y)
    quotient = x // divisor
    if np.dtype(y.dtype).kind == "i":
        # Floor division rounds down where the signs differ and something is left over.
        quotient = quotient + ((quotient < 0) & (quotient * divisor != x)).astype(quotient.dtype)
    return np.where(zero, _all_ones(quotient.dtype), quotient) if np.any(zero) else quotient


def _all_ones(dtype: Any) -> Any:
    return np.dtype(dtype).type(-1) if np.dtype(dtype).kind == "i" else np.iinfo(dtype).max


@rule("rem")
def _rem(eqn: Any) -> Call:
    if not is_integer(out_dtype(eqn)):
        return np.fmod

    def remainder(x: Any, y: Any) -> Any:
        zero = y == 0
        return np.where(zero, x, np.fmod(x, np.where(zero, y.dtype.type(1), y)))

    return remainder


@rule("sign")
def _sign(eqn: Any) -> Call:
    if np.dtype(out_dtype(eqn)).kind != "c":
        return np.sign

    def sign(x: Any) -> Any:
        size = np.abs(x)
        return np.where(size == 0, x, x / np.where(size == 0, 1, size)).astype(x.dtype)

    return sign


@rule("round")
def _round(eqn: Any) -> Call:
    if int(eqn.params["rounding_method"]) == 1:
        return np.rint

    def away_from_zero(x: Any) -> Any:
        whole = np.trunc(x)
        return np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole).astype(x.dtype)

    return away_from_zero


@rule("pow")
def _pow(eqn: Any) -> Call:
    dtype = out_dtype(eqn)
    return lambda x, y: np.power(x, np.asarray(y).astype(dtype, copy=False))


@rule("integer_pow")
def _integer_pow(eqn: Any) -> Call:
    exponent = eqn.params["y"]
    dtype = np.dtype(out_dtype(eqn))
    if exponent == 2:
        return np.square
    if exponent == -1 and dtype.kind in "fcV":
        return lambda x: dtype.type(1) / x
    if exponent < 0 or dtype.kind not in "iu":
        return lambda x: np.power(x, dtype.type(exponent))
    return lambda x: np.power(x, exponent).astype(dtype, copy=False)


def logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    if x.dtype in (np.float32, np.float64):
        return _scipy.expit(x)
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    return _scipy.expit(x.astype(np.float32)).astype(x.dtype)


plain("logistic", logistic)
plain("rsqrt", lambda x: x.dtype.type(1) / np.sqrt(x))


@rule("shift_left")
def _shift_left(eqn: Any) -> Call:
    return _shift(eqn, np.left_shift)


@rule("shift_right_logical")
def _shift_right_logical(eqn: Any) -> Call:
    dtype = np.dtype(out_dtype(eqn))
    if dtype.kind == "u":
        return _shift(eqn, np.right_shift)
    unsigned, bits = np.dtype(f"u{dtype.itemsize}"), dtype.itemsize * 8

    def shift(x: Any, y: Any) -> Any:
        places = np.asarray(y).astype(unsigned)
        moved = np.right_shift(np.asarray(x).view(unsigned), np.minimum(places, bits - 1))
        return np.where(places >= bits, unsigned.type(0), moved).view(dtype)

    return shift


@rule("shift_right_arithmetic")
def _shift_right_arithmetic(eqn: Any) -> Call:
    last = np.dtype(out_dtype(eqn)).itemsize * 8 - 1
    return lambda x, y: np.right_shift(x, np.minimum(y, y.dtype.type(last)))


def _shift(eqn: Any, ufunc: Any) -> Call:
    dtype = np.dtype(out_dtype(eqn))
    bits = dtype.itemsize * 8

    def shift(x: Any, y: Any) -> Any:
        moved = ufunc(x, np.minimum(y, y.dtype.type(bits - 1)))
        beyond = y >= bits
        return np.where(beyond, dtype.type(0), moved) if np.any(beyond) else moved

    return shift


@rule("population_count")
def _population_count(eqn: Any) -> Call:
    dtype = out_dtype(eqn)
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    return lambda x: np.bitwise_count(np.asarray(x).view(unsigned)).astype(dtype)


@rule("clz")
def _clz(eqn: Any) -> Call:
    dtype = np.dtype(out_dtype(eqn))
    bits = dtype.itemsize * 8
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def leading_zeros(x: Any) -> Any:
        rest = np.array(x).view(unsigned)
        count = np.zeros(rest.shape, np.int64)
        for _ in range(bits):
            count += rest != 0
            rest = rest >> unsigned.type(1)
        return (bits - count).astype(dtype)

    return leading_zeros


@rule("mulhi")
def _mulhi(eqn: Any) -> Call:
    dtype = np.dtype(out_dtype(eqn))
    bits = dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}{dtype.itemsize * 2}")
        return lambda x, y: ((x.astype(wide) * y.astype(wide)) >> wide.type(bits)).astype(dtype)
    return lambda x, y: ((x.astype(object) * y.astype(object)) >> bits).astype(dtype)


@rule("complex")
def _complex(eqn: Any) -> Call:
    dtype = out_dtype(eqn)

    def join(real: Any, imaginary: Any) -> Any:
        result = np.empty(np.shape(real), dtype)
        result.real, result.imag = real, imaginary
        return result

    return join


@rule("convert_element_type")
def _convert(eqn: Any) -> Call:
    new = np.dtype(out_dtype(eqn))
    old = np.dtype(eqn.invars[0].aval.dtype)
    if new == old:
        return lambda x: x
    if is_integer(new) and old.kind in "fV":
        return lambda x: to_integer(x, new)
    if old.kind == "c" and new.kind not in "cb":
        return lambda x: np.real(x).astype(new)
    if new.kind == "b":
        return lambda x: np.not_equal(x, old.type(0))
    return lambda x: np.asarray(x).astype(new)


def to_integer(x: Any, dtype: np.dtype[Any]) -> Any:
    """Floats as integers: towards zero, saturated at the ends, zero for what is no number."""
    x = np.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        x = x.astype(np.float32)
    bounds = np.iinfo(dtype)
    result = x.astype(dtype)
    low, high = x.dtype.type(bounds.min), x.dtype.type(bounds.max)
    if not np.all((x >= low) & (x < high)):
        result = np.where(x >= high, dtype.type(bounds.max), result)
        result = np.where(x < low, dtype.type(bounds.min), result)
        result = np.where(np.isnan(x), dtype.type(0), result)
    return result


@rule("bitcast_convert_type")
def _bitcast(eqn: Any) -> Call:
    new = np.dtype(out_dtype(eqn))
    shape = eqn.outvars[0].aval.shape
    return lambda x: np.ascontiguousarray(x).reshape(-1).view(new).reshape(shape)


@rule("reduce_precision")
def _reduce_precision(eqn: Any) -> Call:
    exponent, mantissa = eqn.params["exponent_bits"], eqn.params["mantissa_bits"]
    dtype = np.dtype(out_dtype(eqn))
    names = {(8, 7): "bfloat16", (5, 10): "float16", (8, 23): "float32", (11, 52): "float64"}
    name = names.get((exponent, mantissa))
    if name is None:
        raise NotImplementedError(f"reduce_precision to {exponent} and {mantissa} bits")
    short = np.dtype(name)
    return lambda x: np.asarray(x).astype(short).astype(dtype)


@rule("select_n")
def _select(eqn: Any) -> Call:
    if len(eqn.invars) == 3:

        def choose(which: Any, first: Any, second: Any) -> Any:
            if which.ndim == 0:
                return second if which else first
            return np.where(which, second, first)

        return choose
    return lambda which, *cases: np.choose(np.broadcast_to(which, np.shape(cases[0])), cases)


plain("clamp", lambda low, x, high: np.minimum(np.maximum(x, low), high))


def _special(name: str, function: Any) -> None:
    @rule(name)
    def make(eqn: Any) -> Call:
        dtype = np.dtype(out_dtype(eqn))
        if dtype in (np.float32, np.float64):
            return lambda *xs: np.asarray(function(*xs)).astype(dtype, copy=False)
        return lambda *xs: np.asarray(function(*(x.astype(np.float32) for x in xs))).astype(dtype)


def _digamma(x: Any) -> Any:
    # At zero and the negative integers XLA says NaN.
    found = _scipy.digamma(x)
    return np.where((x <= 0) & (x == np.floor(x)), np.nan, found)


def _incomplete_gamma(function: Any) -> Call:
    def call(a: Any, x: Any) -> Any:
        return np.where((x < 0) | (a <= 0), np.nan, function(a, x))

    return call


for _name, _function in (
    ("erf", lambda x: _scipy.erf(x)),
    ("erfc", lambda x: _scipy.erfc(x)),
    ("erf_inv", lambda x: _scipy.erfinv(x)),
    ("lgamma", lambda x: _scipy.gammaln(x)),
    ("digamma", _digamma),
    ("igamma", _incomplete_gamma(lambda a, x: _scipy.gammainc(a, x))),
    ("igammac", _incomplete_gamma(lambda a, x: _scipy.gammaincc(a, x))),
    ("regularized_incomplete_beta", lambda a, b, x: _scipy.betainc(a, b, x)),
    ("zeta", lambda x, q: _scipy.zeta(x, q)),
    ("polygamma", lambda n, x: _scipy.polygamma(n.astype(np.int64), x)),
    ("bessel_i0e", lambda x: _scipy.i0e(x)),
    ("bessel_i1e", lambda x: _scipy.i1e(x)),
):
    _special(_name, _function)
