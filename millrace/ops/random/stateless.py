"""Stateless random ops: the numbers are a function of the seed that is passed in.

The forms that TensorFlow 1 builds take a seed of two integers; those of TensorFlow 2 take a
Philox key and counter that an op makes from such a seed. Both draw the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core import dtypes
from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, from_input
from millrace.graph.tensor import Tensor
from millrace.ops.array import shape as array_shape
from millrace.ops.math import arithmetic
from millrace.ops.random import philox
from millrace.ops.random.random import (
    bounded_normal,
    check_range,
    class_type,
    draw_classes,
    gamma,
    poisson,
    shape_tensor,
    sizes_of,
)

__all__: list[str] = []

_FLOATS = "{float16, bfloat16, float32, float64} = float32"
_SEED = "T: index = int32; Tseed: index = int64"
#: The key under which a seed is scrambled, so that similar seeds give unlike streams.
_SCRAMBLE = (np.uint32(0x3EC8F720), np.uint32(0x02461E29))
_PHILOX_ALGORITHMS = (1, 3)  # "philox", and "auto_select", which is Philox on a CPU


def _halves(word: Any) -> tuple[Any, Any]:
    wide = jnp.asarray(word).astype(np.uint64)
    return wide.astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)


def _scrambled(seed: Any) -> tuple[Any, Any, Any, Any]:
    if np.shape(seed) != (2,):
        raise ValueError(f"seed must have shape [2], not {list(np.shape(seed))}")
    return philox.block(_SCRAMBLE, (*_halves(seed[0]), *_halves(seed[1])))


def _from_seed(seed: Any) -> philox.Generator:
    words = _scrambled(seed)
    return philox.Generator(words[:2], jnp.zeros((), np.uint64), words[2:])


def _from_key(key: Any, counter: Any, alg: Any) -> philox.Generator:
    if int(alg) not in _PHILOX_ALGORITHMS:
        raise NotImplementedError(
            f"Random algorithm {int(alg)} is not there; use 1 (philox) or 3 (auto_select)"
        )
    return philox.Generator(_halves(key[0]), jnp.asarray(counter[0]), _halves(counter[1]))


def _jax_key(generator: philox.Generator) -> Any:
    return philox.make_key((*generator.key, *generator.high, jnp.zeros((), np.uint32)))


def _key_counter_shapes(c: ShapeContext) -> list[TensorShape]:
    seed = c.shape("seed").with_rank(1)
    seed[0].assert_is_compatible_with(2)
    return [TensorShape([1]), TensorShape([2])]


@op(
    "StatelessRandomGetKeyCounter(seed: Tseed) -> (key: uint64, counter: uint64) "
    "where Tseed: index = int64",
    shape=_key_counter_shapes,
    gradient=NO_GRADIENT,
)
def StatelessRandomGetKeyCounter(seed: Any) -> Any:
    """A seed of two integers as a Philox key and counter."""
    w0, w1, w2, w3 = (word.astype(np.uint64) for word in _scrambled(seed))
    key = (w0 | w1 << np.uint64(32)).reshape(1)
    return key, jnp.stack([jnp.zeros((), np.uint64), w2 | w3 << np.uint64(32)])


@op(
    "StatelessRandomGetAlg() -> alg: int32",
    shape=lambda c: TensorShape([]),
    gradient=NO_GRADIENT,
    stateful=True,
)
def StatelessRandomGetAlg(*, xp: Any) -> Any:
    """The algorithm that "auto_select" stands for."""
    return np.int32(_PHILOX_ALGORITHMS[0])


# -- Uniform and normal, in both forms --------------------------------------------------------


@op(
    "StatelessRandomUniform(shape: T, seed: Tseed) -> output: dtype where "
    f"dtype: {_FLOATS}; {_SEED}",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomUniform(shape: Any, seed: Any, *, dtype: Any) -> Any:
    """Uniform floats in [0, 1)."""
    return philox.uniform(_from_seed(seed), sizes_of(shape), dtype.as_numpy_dtype)


@op(
    "StatelessRandomNormal(shape: T, seed: Tseed) -> output: dtype where "
    f"dtype: {_FLOATS}; {_SEED}",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomNormal(shape: Any, seed: Any, *, dtype: Any) -> Any:
    """Normal floats."""
    return philox.normal(_from_seed(seed), sizes_of(shape), dtype.as_numpy_dtype)


@op(
    "StatelessTruncatedNormal(shape: T, seed: Tseed) -> output: dtype where "
    f"dtype: {_FLOATS}; {_SEED}",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessTruncatedNormal(shape: Any, seed: Any, *, dtype: Any) -> Any:
    """Normal floats within 2 deviations."""
    return philox.truncated_normal(_from_seed(seed), sizes_of(shape), dtype.as_numpy_dtype)


@op(
    "StatelessRandomUniformFullInt(shape: T, seed: Tseed) -> output: dtype where "
    "dtype: {int32, int64, uint32, uint64} = uint64; T: index = int32; "
    "Tseed: {int32, int64, uint32, uint64} = int64",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomUniformFullInt(shape: Any, seed: Any, *, dtype: Any) -> Any:
    """Integers over the whole range of the type."""
    return philox.full_integers(_from_seed(seed), sizes_of(shape), dtype.as_numpy_dtype)


@op(
    "StatelessRandomUniformInt(shape: T, seed: Tseed, minval: dtype, maxval: dtype) -> "
    "output: dtype where dtype: index; T: index; Tseed: index = int64",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomUniformInt(
    shape: Any, seed: Any, minval: Any, maxval: Any, *, check: Any
) -> Any:
    """Integers in [minval, maxval)."""
    check_range(check, minval, maxval)
    minval, maxval = jnp.asarray(minval), jnp.asarray(maxval)
    return philox.integers(_from_seed(seed), sizes_of(shape), minval, maxval)


_V2 = "(shape: Tshape, key: uint64, counter: uint64, alg: int32) -> output: dtype where "


@op(
    f"StatelessRandomUniformV2{_V2} dtype: {_FLOATS}; Tshape: index = int32",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape", "alg"),
)
def StatelessRandomUniformV2(shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any) -> Any:
    """Uniform floats in [0, 1)."""
    return philox.uniform(_from_key(key, counter, alg), sizes_of(shape), dtype.as_numpy_dtype)


@op(
    f"StatelessRandomNormalV2{_V2} dtype: {_FLOATS}; Tshape: index = int32",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape", "alg"),
)
def StatelessRandomNormalV2(shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any) -> Any:
    """Normal floats."""
    return philox.normal(_from_key(key, counter, alg), sizes_of(shape), dtype.as_numpy_dtype)


@op(
    f"StatelessTruncatedNormalV2{_V2} dtype: {_FLOATS}; Tshape: index = int32",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape", "alg"),
)
def StatelessTruncatedNormalV2(shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any) -> Any:
    """Normal floats within 2 deviations."""
    generator = _from_key(key, counter, alg)
    return philox.truncated_normal(generator, sizes_of(shape), dtype.as_numpy_dtype)


@op(
    f"StatelessRandomUniformFullIntV2{_V2} dtype: {{int32, int64, uint32, uint64}} = uint64; "
    "Tshape: index = int32",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape", "alg"),
)
def StatelessRandomUniformFullIntV2(
    shape: Any, key: Any, counter: Any, alg: Any, *, dtype: Any
) -> Any:
    """Integers over the whole range of the type."""
    generator = _from_key(key, counter, alg)
    return philox.full_integers(generator, sizes_of(shape), dtype.as_numpy_dtype)


@op(
    "StatelessRandomUniformIntV2(shape: Tshape, key: uint64, counter: uint64, alg: int32, "
    "minval: dtype, maxval: dtype) -> output: dtype where "
    "dtype: {int32, int64, uint32, uint64}; Tshape: index = int32",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape", "alg"),
)
def StatelessRandomUniformIntV2(
    shape: Any, key: Any, counter: Any, alg: Any, minval: Any, maxval: Any, *, check: Any
) -> Any:
    """Integers in [minval, maxval)."""
    check_range(check, minval, maxval)
    minval, maxval = jnp.asarray(minval), jnp.asarray(maxval)
    return philox.integers(_from_key(key, counter, alg), sizes_of(shape), minval, maxval)


# -- Other distributions ---------------------------------------------------------------------


def _multinomial_shape(c: ShapeContext) -> TensorShape:
    logits = c.shape("logits").with_rank(2)
    count = c.value("num_samples")
    return TensorShape([logits[0], None if count is None else int(count)])


@op(
    "StatelessMultinomial(logits: T, num_samples: int32, seed: Tseed) -> output: output_dtype "
    "where T: real; Tseed: index = int64; output_dtype: index = int64",
    shape=_multinomial_shape,
    gradient=NO_GRADIENT,
    static=("num_samples",),
)
def StatelessMultinomial(logits: Any, num_samples: Any, seed: Any, *, output_dtype: Any) -> Any:
    """Classes drawn with probabilities proportional to ``exp(logits)``."""
    kind = output_dtype.as_numpy_dtype
    return draw_classes(_from_seed(seed), logits, int(num_samples), kind)


@op(
    "StatelessRandomGammaV2(shape: T, seed: Tseed, alpha: dtype) -> output: dtype where "
    "dtype: {float16, float32, float64}; T: index; Tseed: index = int64",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomGammaV2(shape: Any, seed: Any, alpha: Any) -> Any:
    """Samples of Gamma(alpha, 1)."""
    return _gamma(_from_seed(seed), shape, alpha)


@op(
    "StatelessRandomGammaV3(shape: shape_dtype, key: uint64, counter: uint64, alg: int32, "
    "alpha: dtype) -> output: dtype where dtype: {float16, float32, float64}; "
    "shape_dtype: index = int32",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape", "alg"),
)
def StatelessRandomGammaV3(shape: Any, key: Any, counter: Any, alg: Any, alpha: Any) -> Any:
    """Samples of Gamma(alpha, 1)."""
    return _gamma(_from_key(key, counter, alg), shape, alpha)


def _leading(shape: Any, parameter_rank: int, name: str) -> tuple[int, ...]:
    """The sizes before those of a parameter that ends the shape."""
    sizes = sizes_of(shape)
    if len(sizes) < parameter_rank:
        raise ValueError(f"Shape passed in must end with broadcasted shape of {name}.")
    return sizes[: len(sizes) - parameter_rank]


def _gamma(generator: philox.Generator, shape: Any, alpha: Any) -> Any:
    sizes = sizes_of(shape)
    leading = _leading(shape, np.ndim(alpha), "alpha")
    wide = jnp.broadcast_to(jnp.asarray(alpha), sizes[len(leading) :])
    return gamma(_jax_key(generator), leading, wide)


@op(
    "StatelessRandomPoisson(shape: T, seed: Tseed, lam: Rtype) -> output: dtype where "
    "Rtype: {float16, float32, float64, int32, int64}; "
    "dtype: {float16, float32, float64, int32, int64}; T: index; Tseed: index = int64",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomPoisson(shape: Any, seed: Any, lam: Any, *, dtype: Any) -> Any:
    """Samples of Poisson(lam)."""
    sizes = sizes_of(shape)
    leading = _leading(shape, np.ndim(lam), "lam")
    wide = jnp.broadcast_to(jnp.asarray(lam), sizes[len(leading) :])
    return poisson(_jax_key(_from_seed(seed)), leading, wide, dtype.as_numpy_dtype)


@op(
    "StatelessRandomBinomial(shape: S, seed: Tseed, counts: T, probs: T) -> output: dtype where "
    "S: index; Tseed: index = int64; T: {float16, float32, float64, int32, int64} = float64; "
    "dtype: {float16, float32, float64, int32, int64} = int64",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessRandomBinomial(shape: Any, seed: Any, counts: Any, probs: Any, *, dtype: Any) -> Any:
    """Samples of Binomial(counts, probs)."""
    counts, probs = (jnp.asarray(p).astype(np.float64) for p in (counts, probs))
    key = philox.threefry_key(_jax_key(_from_seed(seed)))
    drawn = jax.random.binomial(key, counts, probs, sizes_of(shape), np.float64)
    return drawn.astype(dtype.as_numpy_dtype)


@op(
    "StatelessParameterizedTruncatedNormal(shape: S, seed: Tseed, means: dtype, stddevs: dtype, "
    "minvals: dtype, maxvals: dtype) -> output: dtype where S: index; Tseed: index = int64; "
    "dtype: {float16, float32, float64}",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
)
def StatelessParameterizedTruncatedNormal(
    shape: Any, seed: Any, means: Any, stddevs: Any, minvals: Any, maxvals: Any, *, dtype: Any
) -> Any:
    """Normal floats between bounds."""
    key = _jax_key(_from_seed(seed))
    kind = dtype.as_numpy_dtype
    return bounded_normal(key, sizes_of(shape), means, stddevs, minvals, maxvals, kind)


# -- Public functions ------------------------------------------------------------------------


def _key_and_counter(seed: Any) -> tuple[Tensor, Tensor]:
    return StatelessRandomGetKeyCounter(seed)


_AUTO_SELECT = 3


def stateless_random_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Values uniform in [minval, maxval), decided by `seed` (two integers).

    Raises:
      ValueError: Another type, or an integer type with one bound only.
    """
    kind = dtypes.as_dtype(dtype).base_dtype
    accepted = (
        dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32,
        dtypes.int64, dtypes.uint32, dtypes.uint64,
    )  # fmt: skip
    if kind not in accepted:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind!r}. Accepted dtypes are {accepted}."
        )
    if kind.is_integer:
        if (minval is None) != (maxval is None):
            raise ValueError(
                f"For integer `dtype` argument {kind!r}, argument `minval` and `maxval` must be "
                f"both None or not None. Got `minval`={minval} and `maxval`={maxval}."
            )
        if minval is not None and kind in (dtypes.uint32, dtypes.uint64):
            raise ValueError(
                f"Argument `dtype` got invalid value {kind!r} when argument `minval` is not None. "
                "Please don't use unsigned integers in this case."
            )
    elif maxval is None:
        maxval = 1
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as scope:
        sizes = shape_tensor(shape)
        if kind.is_integer and minval is None:
            key, counter = _key_and_counter(seed)
            return StatelessRandomUniformFullIntV2(
                sizes, key, counter, _AUTO_SELECT, dtype=kind, name=scope
            )
        minval = convert_to_tensor(minval, kind, name="min")
        maxval = convert_to_tensor(maxval, kind, name="max")
        key, counter = _key_and_counter(seed)
        if kind.is_integer:
            return StatelessRandomUniformIntV2(
                sizes, key, counter, _AUTO_SELECT, minval, maxval, name=scope
            )
        unit = StatelessRandomUniformV2(sizes, key, counter, _AUTO_SELECT, dtype=kind)
        return arithmetic.add(unit * (maxval - minval), minval, name=scope)


def stateless_random_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Values with a normal distribution, decided by `seed` (two integers)."""
    with name_scope(name, "stateless_random_normal", [shape, seed, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        mean = convert_to_tensor(mean, dtype, name="mean")
        stddev = convert_to_tensor(stddev, dtype, name="stddev")
        key, counter = _key_and_counter(seed)
        unit = StatelessRandomNormalV2(sizes, key, counter, _AUTO_SELECT, dtype=dtype)
        return arithmetic.add(unit * stddev, mean, name=scope)


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Values with a normal distribution within 2 deviations, decided by `seed`."""
    with name_scope(name, "stateless_truncated_normal", [shape, seed, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        mean = convert_to_tensor(mean, dtype, name="mean")
        stddev = convert_to_tensor(stddev, dtype, name="stddev")
        key, counter = _key_and_counter(seed)
        unit = StatelessTruncatedNormalV2(sizes, key, counter, _AUTO_SELECT, dtype=dtype)
        return arithmetic.add(unit * stddev, mean, name=scope)


def stateless_multinomial(
    logits: Any,
    num_samples: Any,
    seed: Any,
    output_dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Classes drawn from rows of unnormalised log-probabilities, decided by `seed`."""
    with name_scope(name, "stateless_multinomial", [logits, seed]):
        logits = convert_to_tensor(logits, name="logits")
        kind = class_type(output_dtype)
        return StatelessMultinomial(logits, num_samples, seed, output_dtype=kind)


def stateless_categorical(
    logits: Any,
    num_samples: Any,
    seed: Any,
    dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Classes drawn from rows of unnormalised log-probabilities, decided by `seed`."""
    with name_scope(name, "stateless_categorical", [logits, seed]):
        logits = convert_to_tensor(logits, name="logits")
        return StatelessMultinomial(logits, num_samples, seed, output_dtype=class_type(dtype))


def stateless_random_gamma(
    shape: Any,
    seed: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Samples of Gamma(alpha, beta), decided by `seed`; `shape` ends with that of alpha."""
    with name_scope(name, "stateless_random_gamma", [shape, seed, alpha, beta]):
        sizes = shape_tensor(shape)
        alpha = convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, dtype, name="beta")
        together = array_shape.broadcast_dynamic_shape(
            array_shape.shape(alpha), array_shape.shape(beta)
        )
        alpha = array_shape.broadcast_to(alpha, together)
        key, counter = _key_and_counter(seed)
        samples = StatelessRandomGammaV3(sizes, key, counter, _AUTO_SELECT, alpha)
        least = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        return arithmetic.maximum(least, samples / beta)


def stateless_random_poisson(
    shape: Any, seed: Any, lam: Any, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Samples of Poisson(lam), decided by `seed`; `shape` ends with that of `lam`."""
    with name_scope(name, "stateless_random_poisson", [shape, seed, lam]):
        sizes = shape_tensor(shape)
        return StatelessRandomPoisson(sizes, seed, lam, dtype=dtype)


def stateless_random_binomial(
    shape: Any,
    seed: Any,
    counts: Any,
    probs: Any,
    output_dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Samples of Binomial(counts, probs), decided by `seed`."""
    with name_scope(name, "stateless_random_binomial", [shape, seed, counts, probs]):
        sizes = shape_tensor(shape)
        probs = convert_to_tensor(probs, dtype_hint=dtypes.float32, name="probs")
        counts = convert_to_tensor(counts, dtype_hint=probs.dtype, name="counts")
        return StatelessRandomBinomial(sizes, seed, counts, probs, dtype=output_dtype)


def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:
    """Values with a normal distribution between bounds, decided by `seed`."""
    inputs = [shape, means, stddevs, minvals, maxvals]
    with name_scope(name, "stateless_parameterized_truncated_normal", inputs):
        sizes = shape_tensor(shape)
        parameters = [
            convert_to_tensor(value, name=label)
            for value, label in zip(
                inputs[1:], ("means", "stddevs", "minvals", "maxvals"), strict=True
            )
        ]
        return StatelessParameterizedTruncatedNormal(sizes, seed, *parameters)
