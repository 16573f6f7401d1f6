"""Random ops: each execution of a node draws new numbers from the node's own stream.

A node's stream is decided by its seeds (see `graph.random_seed`); nodes with the same seeds draw
the same numbers, and a node without seeds draws others in every session.
"""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from millrace.compiler.xla import jax, jnp
from millrace.core import dtypes, pieces
from millrace.core.tensor_shape import Dimension, TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import name_scope
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.random_seed import get_seed, set_random_seed
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext, broadcast, from_input, unchanged
from millrace.graph.tensor import Tensor
from millrace.ops.array import join
from millrace.ops.array import shape as array_shape
from millrace.ops.array import slicing as array_slicing
from millrace.ops.control_flow import assertion, control_flow
from millrace.ops.math import arithmetic, reduction
from millrace.ops.random import philox

__all__ = [
    "get_seed",
    "multinomial",
    "random_crop",
    "random_gamma",
    "random_normal",
    "random_poisson",
    "random_shuffle",
    "random_uniform",
    "set_random_seed",
    "truncated_normal",
]

_FLOATS = "{float16, bfloat16, float32, float64}"

#: Op types that are cheap to run by themselves, because sizes share compiled programs.
SHARES_PROGRAMS = frozenset(
    ("RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal")
)


def sizes_of(shape: Any) -> tuple[int, ...]:
    """The sizes that a shape input denotes.

    Raises:
      ValueError: It is not a vector, or a size is negative.
    """
    if np.ndim(shape) != 1:
        raise ValueError(f"shape must be a vector of {{int32,int64}}, got shape {np.shape(shape)}")
    sizes = tuple(int(size) for size in shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"Dimension {min(sizes)} must be >= 0")
    return sizes


def output_count(sizes: tuple[int, ...]) -> int:
    """How many elements a shape has."""
    return int(np.prod(sizes, dtype=np.int64))


# -- Op types ------------------------------------------------------------------------------

# Kernels that take `xp` run on NumPy too; which of the two it is, the random key tells: inside a
# program a shape is an array of NumPy all the same.


@op(
    "RandomUniform(shape: T) -> output: dtype where seed: int = 0; seed2: int = 0; "
    f"dtype: {_FLOATS}; T: index",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def RandomUniform(shape: Any, *, dtype: Any, rng: Any, xp: Any) -> Any:
    """Uniform floats in [0, 1)."""
    sizes = sizes_of(shape)
    generator = philox.generator_of(rng, output_count(sizes))
    return philox.uniform(generator, sizes, dtype.as_numpy_dtype)


@op(
    "RandomStandardNormal(shape: T) -> output: dtype where seed: int = 0; seed2: int = 0; "
    f"dtype: {_FLOATS}; T: index",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def RandomStandardNormal(shape: Any, *, dtype: Any, rng: Any, xp: Any) -> Any:
    """Normal floats with mean 0 and standard deviation 1."""
    sizes = sizes_of(shape)
    generator = philox.generator_of(rng, output_count(sizes))
    return philox.normal(generator, sizes, dtype.as_numpy_dtype)


@op(
    "TruncatedNormal(shape: T) -> output: dtype where seed: int = 0; seed2: int = 0; "
    f"dtype: {_FLOATS}; T: index",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def TruncatedNormal(shape: Any, *, dtype: Any, rng: Any, xp: Any) -> Any:
    """Normal floats, those beyond 2 standard deviations drawn again."""
    sizes = sizes_of(shape)
    generator = philox.generator_of(rng, output_count(sizes))
    return philox.truncated_normal(generator, sizes, dtype.as_numpy_dtype)


def _uniform_int_shape(c: ShapeContext) -> TensorShape:
    c.shape("minval").assert_has_rank(0)
    c.shape("maxval").assert_has_rank(0)
    return c.value_as_shape("shape")


def check_range(check: Any, minval: Any, maxval: Any) -> None:
    """Fails the step unless ``minval < maxval``."""
    check(
        minval < maxval,
        lambda low, high: f"Need minval < maxval, got {low} >= {high}",
        minval,
        maxval,
    )


@op(
    "RandomUniformInt(shape: T, minval: Tout, maxval: Tout) -> output: Tout where "
    "seed: int = 0; seed2: int = 0; Tout: index; T: index",
    shape=_uniform_int_shape,
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def RandomUniformInt(shape: Any, minval: Any, maxval: Any, *, rng: Any, check: Any, xp: Any) -> Any:
    """Integers in [minval, maxval)."""
    sizes = sizes_of(shape)
    check_range(check, minval, maxval)
    if not isinstance(rng, philox.HostKey):
        minval, maxval = jnp.asarray(minval), jnp.asarray(maxval)
    generator = philox.generator_of(rng, output_count(sizes))
    return philox.integers(generator, sizes, minval, maxval)


@op(
    "ParameterizedTruncatedNormal(shape: T, means: dtype, stdevs: dtype, minvals: dtype, "
    "maxvals: dtype) -> output: dtype where seed: int = 0; seed2: int = 0; "
    f"dtype: {_FLOATS}; T: index",
    shape=from_input("shape"),
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def ParameterizedTruncatedNormal(
    shape: Any, means: Any, stdevs: Any, minvals: Any, maxvals: Any, *, dtype: Any, rng: Any
) -> Any:
    """Normal floats between bounds; parameters are scalars or one for each row."""
    sizes = sizes_of(shape)
    column = (-1,) + (1,) * (len(sizes) - 1)
    mean, deviation, low, high = (
        jnp.reshape(p, column) if np.ndim(p) == 1 and np.size(p) > 1 else jnp.reshape(p, ())
        for p in (means, stdevs, minvals, maxvals)
    )
    return bounded_normal(rng, sizes, mean, deviation, low, high, dtype.as_numpy_dtype)


def bounded_normal(
    rng: Any, sizes: tuple[int, ...], mean: Any, deviation: Any, low: Any, high: Any, dtype: Any
) -> Any:
    """Normal floats between `low` and `high`, by inversion."""
    mean, deviation, low, high = (
        jnp.asarray(p).astype(np.float64) for p in (mean, deviation, low, high)
    )
    unit = jax.random.truncated_normal(
        rng, (low - mean) / deviation, (high - mean) / deviation, sizes, np.float64
    )
    return (unit * deviation + mean).astype(dtype)


@op(
    "RandomShuffle(value: T) -> output: T where seed: int = 0; seed2: int = 0; T: type",
    shape=unchanged,
    gradient=NO_GRADIENT,
    host=True,
    stateful=True,
)
def RandomShuffle(value: Any, *, seed: int, seed2: int, node: Any, ctx: Any) -> Any:
    """The slices along the first dimension in random order.

    A host kernel: it serves strings, and Fisher and Yates' exchanges follow one another.
    """
    if value.ndim == 0 or value.shape[0] <= 1:
        return value
    count = value.shape[0]
    draws = -(-(count - 1) // 4)
    counter = ctx.random_counters([node])[0]
    words = [np.asarray(w, np.uint32) for w in philox.key_words(node.name, seed, seed2, counter)]
    with np.errstate(over="ignore"):
        generator = philox.generator_from_words(words, draws)
        rows = np.stack(philox.blocks(generator, np.arange(draws, dtype=np.uint64)), axis=1)
    left = np.arange(count, 1, -1, dtype=np.int64)
    jumps = rows.reshape(-1)[: count - 1].astype(np.int64) % left
    order = array("q", np.arange(count, dtype=np.int64).tobytes())
    for part in pieces.slices(count - 1):
        for i, jump in enumerate(jumps[part].tolist(), part.start):
            order[i], order[i + jump] = order[i + jump], order[i]
    return value[np.frombuffer(order, np.int64)]


def _multinomial_shape(c: ShapeContext) -> TensorShape:
    logits = c.shape("logits").with_rank(2)
    c.shape("num_samples").assert_has_rank(0)
    count = c.value("num_samples")
    return TensorShape([logits[0], None if count is None else int(count)])


@op(
    "Multinomial(logits: T, num_samples: int32) -> output: output_dtype where seed: int = 0; "
    "seed2: int = 0; T: real; output_dtype: index = int64",
    shape=_multinomial_shape,
    gradient=NO_GRADIENT,
    static=("num_samples",),
    stateful=True,
)
def Multinomial(logits: Any, num_samples: Any, *, output_dtype: Any, rng: Any, xp: Any) -> Any:
    """Classes drawn with probabilities proportional to ``exp(logits)``."""
    # A draw takes a double, which is two words, and rows begin at whole blocks.
    outputs = np.shape(logits)[0] * -(-int(num_samples) // 4) * 4 * 2
    generator = philox.generator_of(rng, outputs)
    return draw_classes(generator, logits, int(num_samples), output_dtype.as_numpy_dtype)


def draw_classes(generator: philox.Generator, logits: Any, count: int, dtype: Any) -> Any:
    """`count` classes for each row of logits."""
    if np.ndim(logits) != 2:
        raise ValueError(f"logits should be a matrix, got shape {list(np.shape(logits))}")
    if count < 0:
        raise ValueError(f"num_samples should be nonnegative, got {count}")
    rows, classes = np.shape(logits)
    if not classes and rows:
        raise ValueError("num_classes should be positive, got 0")
    drawn = philox.uniform(generator, (rows, count), np.float64)
    on_host = isinstance(drawn, np.ndarray) and isinstance(logits, np.ndarray)
    xp = np if on_host else jnp
    scores = xp.asarray(logits).astype(np.float64)
    scores = xp.where(xp.isfinite(scores), scores, -np.inf)
    weights = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    sums = xp.cumsum(weights, axis=1)
    wanted = drawn * sums[:, -1:]
    return xp.sum(sums[:, None, :] <= wanted[:, :, None], axis=-1).astype(dtype)


def shape_then_parameter(which: str) -> Any:
    """Shape rule: the value of ``shape``, then the shape of a parameter."""

    def rule(c: ShapeContext) -> TensorShape:
        return c.value_as_shape("shape").concatenate(c.shape(which))

    return rule


@op(
    "RandomGamma(shape: S, alpha: T) -> output: T where seed: int = 0; seed2: int = 0; "
    "S: index; T: {float16, float32, float64}",
    shape=shape_then_parameter("alpha"),
    static=("shape",),
    stateful=True,
)
def RandomGamma(shape: Any, alpha: Any, *, rng: Any) -> Any:
    """Samples of Gamma(alpha, 1)."""
    return gamma(rng, sizes_of(shape), alpha)


@RandomGamma.gradient
def _(op: Operation, grad: Tensor) -> Any:
    """Samples move with alpha (implicit reparameterization), the shape has no gradient."""
    alpha = op.inputs[1]
    moved = grad * RandomGammaGrad(alpha, op.outputs[0])
    sizes = join.concat([[-1], array_shape.shape(alpha)], 0)
    return None, reduction.reduce_sum(array_shape.reshape(moved, sizes), 0)


@op(
    "RandomGammaGrad(alpha: T, sample: T) -> output: T where T: {float32, float64}",
    shape=broadcast,
    gradient=NO_GRADIENT,
)
def RandomGammaGrad(alpha: Any, sample: Any) -> Any:
    """How a sample of Gamma(alpha, 1) moves with alpha."""
    alpha, sample = jnp.broadcast_arrays(alpha, sample)
    return jax.lax.random_gamma_grad(alpha, sample)


def gamma(rng: Any, sizes: tuple[int, ...], alpha: Any) -> Any:
    """Samples of Gamma(alpha, 1), in the type of alpha."""
    alpha = jnp.asarray(alpha)
    precise = alpha.astype(np.float32) if alpha.dtype.itemsize == 2 else alpha
    samples = jax.random.gamma(philox.threefry_key(rng), precise, (*sizes, *alpha.shape))
    return samples.astype(alpha.dtype)


@op(
    "RandomPoissonV2(shape: S, rate: R) -> output: dtype where seed: int = 0; seed2: int = 0; "
    "S: index; R: {float16, float32, float64, int32, int64} = float64; "
    "dtype: {float16, float32, float64, int32, int64} = int64",
    shape=shape_then_parameter("rate"),
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def RandomPoissonV2(shape: Any, rate: Any, *, dtype: Any, rng: Any) -> Any:
    """Samples of Poisson(rate)."""
    return poisson(rng, sizes_of(shape), rate, dtype.as_numpy_dtype)


@op(
    "RandomPoisson(shape: S, rate: dtype) -> output: dtype where seed: int = 0; seed2: int = 0; "
    "S: index; dtype: {float16, float32, float64}",
    shape=shape_then_parameter("rate"),
    gradient=NO_GRADIENT,
    static=("shape",),
    stateful=True,
)
def RandomPoisson(shape: Any, rate: Any, *, dtype: Any, rng: Any) -> Any:
    """Samples of Poisson(rate), in the type of the rate."""
    return poisson(rng, sizes_of(shape), rate, dtype.as_numpy_dtype)


def poisson(rng: Any, sizes: tuple[int, ...], rate: Any, dtype: Any) -> Any:
    """Samples of Poisson(rate); NaN where the rate is negative, infinite or NaN."""
    rate = jnp.asarray(rate).astype(np.float64)
    valid = jnp.isfinite(rate) & (rate >= 0)
    drawn = jax.random.poisson(
        philox.threefry_key(rng), jnp.where(valid, rate, 0.0), (*sizes, *rate.shape), np.int64
    )
    invalid = np.nan if jnp.issubdtype(dtype, jnp.floating) else 0
    return jnp.where(valid, drawn.astype(dtype), jnp.asarray(invalid, dtype))


# -- Public functions ----------------------------------------------------------------------


def shape_tensor(shape: Any) -> Tensor:
    """A shape argument as an integer vector (int32 when it is empty)."""
    dtype = None
    if isinstance(shape, tuple | list):
        if not shape:
            dtype = dtypes.int32
        shape = [size.value if isinstance(size, Dimension) else size for size in shape]
    return convert_to_tensor(shape, dtype, name="shape")


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Random values, uniform in [minval, maxval).

    Args:
      shape: The shape of the result.
      minval: The least value.
      maxval: The bound above; 1 for floats when None.
      dtype: float16, bfloat16, float32, float64, int32 or int64.
      seed: The op's seed; see `set_random_seed`.
      name: The operation's name.

    Raises:
      ValueError: Another type, or an integer type without `maxval`.
    """
    kind = dtypes.as_dtype(dtype).base_dtype
    accepted = (
        dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64,
    )  # fmt: skip
    if kind not in accepted:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind!r}. Accepted dtypes are {accepted}."
        )
    if maxval is None:
        if kind.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {kind!r}")
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        sizes = shape_tensor(shape)
        from_zero = isinstance(minval, int) and minval == 0
        to_one = isinstance(maxval, int) and maxval == 1
        if not (from_zero and to_one) or kind.is_integer:
            minval = convert_to_tensor(minval, kind, name="min")
            maxval = convert_to_tensor(maxval, kind, name="max")
        seed1, seed2 = get_seed(seed)
        if kind.is_integer:
            return RandomUniformInt(sizes, minval, maxval, seed=seed1, seed2=seed2, name=scope)
        unit = RandomUniform(sizes, dtype=kind, seed=seed1, seed2=seed2)
        if not from_zero:
            return arithmetic.add(unit * (maxval - minval), minval, name=scope)
        return unit if to_one else arithmetic.multiply(unit, maxval)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Random values with a normal distribution."""
    with name_scope(name, "random_normal", [shape, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        mean = convert_to_tensor(mean, dtype, name="mean")
        stddev = convert_to_tensor(stddev, dtype, name="stddev")
        seed1, seed2 = get_seed(seed)
        unit = RandomStandardNormal(sizes, dtype=dtype, seed=seed1, seed2=seed2)
        return arithmetic.add(unit * stddev, mean, name=scope)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Random values with a normal distribution, none further than 2 deviations from the mean."""
    with name_scope(name, "truncated_normal", [shape, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        mean = convert_to_tensor(mean, dtype, name="mean")
        stddev = convert_to_tensor(stddev, dtype, name="stddev")
        seed1, seed2 = get_seed(seed)
        unit = TruncatedNormal(sizes, dtype=dtype, seed=seed1, seed2=seed2)
        return arithmetic.add(unit * stddev, mean, name=scope)


def parameterized_truncated_normal(
    shape: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Random values with a normal distribution, between bounds."""
    inputs = [shape, means, stddevs, minvals, maxvals]
    with name_scope(name, "parameterized_truncated_normal", inputs):
        sizes = shape_tensor(shape)
        parameters = [
            convert_to_tensor(value, dtype, name=label)
            for value, label in zip(
                inputs[1:], ("means", "stddevs", "minvals", "maxvals"), strict=True
            )
        ]
        seed1, seed2 = get_seed(seed)
        return ParameterizedTruncatedNormal(sizes, *parameters, seed=seed1, seed2=seed2)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The slices of `value` along its first dimension in random order."""
    seed1, seed2 = get_seed(seed)
    return RandomShuffle(value, seed=seed1, seed2=seed2, name=name)


def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A slice of shape `size` at a random offset.

    Raises:
      InvalidArgumentError: When run: `value` is smaller than `size`.
    """
    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert_to_tensor(value, name="value")
        size = convert_to_tensor(size, dtypes.int32, name="size")
        shape = array_shape.shape(value)
        check = assertion.Assert(
            reduction.reduce_all(shape >= size),
            ["Need value.shape >= size, got ", shape, size],
            summarize=1000,
        )
        shape = control_flow.with_dependencies([check], shape)
        limit = shape - size + 1
        offset = random_uniform(
            array_shape.shape(shape), dtype=size.dtype, maxval=size.dtype.max, seed=seed
        )
        return array_slicing.slice(value, offset % limit, size, name=scope)


def _classes(logits: Any, num_samples: Any, dtype: Any, seed: int | None) -> Tensor:
    logits = convert_to_tensor(logits, name="logits")
    kind = class_type(dtype)
    seed1, seed2 = get_seed(seed)
    return Multinomial(logits, num_samples, seed=seed1, seed2=seed2, output_dtype=kind)


def class_type(dtype: Any) -> dtypes.DType:
    """The type of drawn classes.

    Raises:
      ValueError: Neither int32 nor int64.
    """
    kind = dtypes.as_dtype(dtype).base_dtype if dtype else dtypes.int64
    accepted = (dtypes.int32, dtypes.int64)
    if kind not in accepted:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind!r}. Accepted dtypes are {accepted}."
        )
    return kind


def multinomial(
    logits: Any,
    num_samples: Any,
    seed: int | None = None,
    name: str | None = None,
    output_dtype: Any = None,
) -> Tensor:
    """Classes drawn from rows of unnormalised log-probabilities."""
    with name_scope(name, "multinomial", [logits]):
        return _classes(logits, num_samples, output_dtype, seed)


def categorical(
    logits: Any,
    num_samples: Any,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Classes drawn from rows of unnormalised log-probabilities."""
    with name_scope(name, "categorical", [logits]):
        return _classes(logits, num_samples, dtype, seed)


def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`shape` samples of each Gamma distribution with shape `alpha` and inverse scale `beta`."""
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        sizes = convert_to_tensor(shape, dtypes.int32, name="shape")
        alpha = convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert_to_tensor(1 if beta is None else beta, dtype, name="beta")
        together = array_shape.broadcast_dynamic_shape(
            array_shape.shape(alpha), array_shape.shape(beta)
        )
        alpha = array_shape.broadcast_to(alpha, together)
        seed1, seed2 = get_seed(seed)
        least = np.finfo(alpha.dtype.as_numpy_dtype).tiny
        samples = RandomGamma(sizes, alpha, seed=seed1, seed2=seed2)
        return arithmetic.maximum(least, samples / beta)


def random_poisson(
    lam: Any,
    shape: Any,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`shape` samples of each Poisson distribution with rate `lam`."""
    with name_scope(name, "random_poisson", [lam, shape]):
        sizes = convert_to_tensor(shape, dtypes.int32, name="shape")
        seed1, seed2 = get_seed(seed)
        return RandomPoissonV2(sizes, lam, dtype=dtype, seed=seed1, seed2=seed2)
