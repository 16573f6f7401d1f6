"""Philox 4x32-10, the counter-based generator behind every random op.

The algorithm is Salmon, Moraes, Dror and Shaw's ("Parallel random numbers: as easy as 1, 2, 3",
SC 2011), and words become floats, normals and integers in the way and order in which TensorFlow's
CPU kernels do it: a seeded op draws the numbers that it draws there. Measured against JAX's own
generators it is also the fastest on a CPU, because each element is computed by itself: nothing is
interleaved or concatenated, so XLA fuses it into what uses it.

A node's random key is a `jax.random` key of the implementation `PHILOX`: `jax.random` functions
accept it, and the kernels of TensorFlow's distributions read its words.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from millrace.compiler import private
from millrace.compiler.xla import jax, jnp, lax
from millrace.ops.random import host_draws

#: The round constants of the paper.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
#: TensorFlow sets this many counters aside for one output of an op, so that executions of the
#: op, and outputs that need a varying number of draws, never share any.
RESERVED = 256
#: So many numbers are drawn without a compiled program.
_ON_NUMPY = 1 << 18
#: Set apart the streams that are not TensorFlow's.
_UNSEEDED_STREAM = 0x6D696C6C
_FOLD_STREAM = 0x72616365


class Generator(NamedTuple):
    """A position in a stream of 128-bit blocks.

    Attributes:
      key: Two 32-bit words.
      start: The low 64 bits of the first block's counter.
      high: The two high words of the counter.
    """

    key: tuple[Any, Any]
    start: Any
    high: tuple[Any, Any]


def block(key: tuple[Any, Any], counter: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
    """The four words that Philox gives for a key and a counter (NumPy or JAX arrays)."""
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for i in range(_ROUNDS):
        if i:
            with np.errstate(over="ignore"):  # NumPy warns of scalars only
                k0, k1 = k0 + np.uint32(_WEYL[0]), k1 + np.uint32(_WEYL[1])
        high0, low0 = _wide_product(c0, _MULTIPLIERS[0])
        high1, low1 = _wide_product(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return c0, c1, c2, c3


def _wide_product(word: Any, multiplier: int) -> tuple[Any, Any]:
    product = word.astype(np.uint64) * np.uint64(multiplier)
    return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)


def blocks(generator: Generator, index: Any) -> tuple[Any, Any, Any, Any]:
    """The words of the blocks at positions `index` (uint64) after the generator's start."""
    counter = index + generator.start
    low, high = counter.astype(np.uint32), (counter >> np.uint64(32)).astype(np.uint32)
    return block(generator.key, (low, high, *generator.high))


# -- Words of single elements ---------------------------------------------------------------


def _elements(count: int, per_block: int) -> tuple[Any, Any]:
    """For elements 0 .. count: the index of its block, and its place in it."""
    index = lax.iota(np.uint64 if count >= 1 << 32 else np.uint32, count)
    shift = {4: 2, 2: 1}[per_block]
    place = (index & index.dtype.type(per_block - 1)).astype(np.uint32)
    return (index >> index.dtype.type(shift)).astype(np.uint64), place


def words32(generator: Generator, count: int) -> Any:
    """`count` 32-bit words."""
    index, place = _elements(count, 4)
    w0, w1, w2, w3 = blocks(generator, index)
    odd = (place & np.uint32(1)) == 1
    return jnp.where(place < np.uint32(2), jnp.where(odd, w1, w0), jnp.where(odd, w3, w2))


def word_pairs(generator: Generator, count: int) -> tuple[Any, Any]:
    """`count` pairs of 32-bit words."""
    index, place = _elements(count, 2)
    w0, w1, w2, w3 = blocks(generator, index)
    first = place == 0
    return jnp.where(first, w0, w2), jnp.where(first, w1, w3)


def words64(generator: Generator, count: int) -> Any:
    """`count` 64-bit words."""
    low, high = word_pairs(generator, count)
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


# -- Distributions -------------------------------------------------------------------------


def _unit_float32(word: Any) -> Any:
    """A float in [0, 1) from the low 23 bits."""
    bits = (word & np.uint32(0x7FFFFF)) | np.uint32(0x3F800000)
    return lax.bitcast_convert_type(bits, np.float32) - np.float32(1)


def _unit_float64(first: Any, second: Any) -> Any:
    """A float in [0, 1) from 52 bits, the high 20 of them in the first word."""
    high = (first & np.uint32(0xFFFFF)).astype(np.uint64) << np.uint64(32)
    bits = high | second.astype(np.uint64) | np.uint64(0x3FF << 52)
    return lax.bitcast_convert_type(bits, np.float64) - np.float64(1)


def _unit_float16(word: Any, dtype: Any) -> Any:
    if dtype == np.float16:
        bits = (word & np.uint32(0x3FF)) | np.uint32(15 << 10)
    else:
        bits = (word & np.uint32(0x7F)) | np.uint32(127 << 7)
    return lax.bitcast_convert_type(bits.astype(np.uint16), dtype) - jnp.ones((), dtype)


Flat = Callable[[Generator, int, Any], Any]
HostDraw = Callable[[host_draws.Source, int, Any], Any]


def _source(generator: Generator) -> host_draws.Source:
    """The same stream, for draws on NumPy."""
    k0, k1, c2, c3 = (int(word) for word in (*generator.key, *generator.high))
    return host_draws.Source((k0, k1), int(generator.start), (c2, c3))


def _shaped(
    flat: Flat, host_draw: HostDraw, generator: Generator, shape: tuple[int, ...], dtype: Any
) -> Any:
    """Draws of a shape: traced into the program at hand, or made now.

    Many that are made now come in portions, from programs that all of a few sizes share: a copy
    of the generator for every initializer of a model would take longer to compile than to draw.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if any(isinstance(word, jax.core.Tracer) for word in jax.tree.leaves(generator)):
        return flat(generator, count, dtype).reshape(shape)
    kind = np.dtype(dtype)
    if count <= _ON_NUMPY:
        return host_draw(_source(generator), count, kind).reshape(shape)
    per_block = 2 if kind.itemsize == 8 else 4
    result = np.empty(count, kind)
    for begin, portion in _portions(count):
        # Elements take their words from blocks by their position, so a portion is a later start.
        skipped = begin * RESERVED // 4 if flat is _truncated_normal else begin // per_block
        later = generator._replace(start=generator.start + np.uint64(skipped))
        drawn = np.asarray(_drawn_now(later, flat=flat, count=portion, dtype=kind))
        result[begin : begin + portion] = drawn[: count - begin]
    return result.reshape(shape)


@functools.partial(jax.jit, static_argnames=("flat", "count", "dtype"))
def _drawn_now(generator: Generator, *, flat: Flat, count: int, dtype: Any) -> Any:
    return flat(generator, count, dtype)


def _portions(count: int) -> Iterator[tuple[int, int]]:
    """(begin, size) of portions that cover `count` elements."""
    begin = 0
    while begin < count:
        left = count - begin
        size = 1 << 12 if left <= 1 << 12 else 1 << 16 if left <= 1 << 19 else 1 << 20
        yield begin, size
        begin += size


def uniform(generator: Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Uniform floats in [0, 1)."""
    return _shaped(_uniform, host_draws.uniform, generator, shape, dtype)


def _uniform(generator: Generator, count: int, dtype: Any) -> Any:
    if dtype == np.float64:
        return _unit_float64(*word_pairs(generator, count))
    if dtype == np.float32:
        return _unit_float32(words32(generator, count))
    return _unit_float16(words32(generator, count), dtype)


def full_integers(generator: Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Integers over the whole range of a type."""
    return _shaped(_full_integers, host_draws.full_integers, generator, shape, dtype)


def _full_integers(generator: Generator, count: int, dtype: Any) -> Any:
    draw = words64 if np.dtype(dtype).itemsize == 8 else words32
    return draw(generator, count).astype(dtype)


def integers(generator: Generator, shape: tuple[int, ...], low: Any, high: Any) -> Any:
    """Integers in [low, high), in the type of `low`."""
    unsigned = np.dtype(f"uint{low.dtype.itemsize * 8}")
    words = full_integers(generator, shape, unsigned)
    width = high.astype(unsigned) - low.astype(unsigned)
    # An empty range is reported by the caller; here it must only not divide by zero.
    maximum = np.maximum if isinstance(width, np.ndarray | np.generic) else jnp.maximum
    width = maximum(width, unsigned.type(1))
    return low + (words % width).astype(low.dtype)


def _sine_of_turn(turn: Any, quarter: Any) -> Any:
    """sin(2 pi turn + quarter * pi / 2) for `turn` in [0, 1), in float32.

    A polynomial after an exact reduction to an eighth of a turn: unlike `jnp.sin` it is
    vectorised on a CPU, which makes normals three times as fast.
    """
    f = np.float32
    quadrant = jnp.floor(turn * f(4) + f(0.5))
    x = (turn - quadrant * f(0.25)) * f(2 * np.pi)
    quadrant = quadrant.astype(np.int32) + quarter.astype(np.int32)
    z = x * x
    sine = x + x * z * (f(-1 / 6) + z * (f(1 / 120) + z * f(-1 / 5040)))
    cosine = f(1) + z * (f(-0.5) + z * (f(1 / 24) + z * (f(-1 / 720) + z * f(1 / 40320))))
    value = jnp.where(quadrant & 1 == 1, cosine, sine)
    return jnp.where(quadrant & 2 == 2, -value, value)


def _box_muller_float32(first: Any, second: Any, odd: Any) -> Any:
    """One of the two normals that Box and Muller's transform makes of two words."""
    radius = jnp.maximum(_unit_float32(first), np.float32(1e-7))
    radius = jnp.sqrt(np.float32(-2) * jnp.log(radius))
    return radius * _sine_of_turn(_unit_float32(second), odd)


def _box_muller_float64(words: tuple[Any, Any, Any, Any], odd: Any) -> Any:
    radius = jnp.maximum(_unit_float64(words[0], words[1]), 1e-7)
    radius = jnp.sqrt(-2.0 * jnp.log(radius))
    angle = _unit_float64(words[2], words[3]) * (2 * np.pi)
    return radius * jnp.where(odd == 1, jnp.cos(angle), jnp.sin(angle))


def normal(generator: Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normal floats with mean 0 and standard deviation 1."""
    return _shaped(_normal, host_draws.normal, generator, shape, dtype)


def _normal(generator: Generator, count: int, dtype: Any) -> Any:
    if dtype == np.float64:
        index, place = _elements(count, 2)
        return _box_muller_float64(blocks(generator, index), place)
    index, place = _elements(count, 4)
    w0, w1, w2, w3 = blocks(generator, index)
    first_pair = place < np.uint32(2)
    flat = _box_muller_float32(
        jnp.where(first_pair, w0, w2), jnp.where(first_pair, w1, w3), place & np.uint32(1)
    )
    return flat.astype(dtype)


def truncated_normal(generator: Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    """Normal floats of which those beyond 2 are drawn again.

    Outputs come in groups, each of which draws from a stream of its own until all of its places
    are filled. Here each group has as many candidates as are ever needed (one group in 10**9
    would ask for more; its last places are 0 then).
    """
    return _shaped(_truncated_normal, _host_truncated_normal, generator, shape, dtype)


def _host_truncated_normal(source: host_draws.Source, count: int, dtype: Any) -> Any:
    per_group = 2 if dtype == np.float64 else 4
    return host_draws.truncated_normal(source, count, dtype, per_group, per_group * RESERVED // 4)


def _truncated_normal(generator: Generator, count: int, dtype: Any) -> Any:
    is_double = dtype == np.float64
    per_group, candidates = (2, 10) if is_double else (4, 12)
    groups = -(-count // per_group)
    group = lax.broadcasted_iota(np.uint64, (groups, candidates), 0)
    candidate = lax.broadcasted_iota(np.uint32, (groups, candidates), 1)
    index = group * np.uint64(per_group * RESERVED // 4)
    index += (candidate // np.uint32(per_group)).astype(np.uint64)
    words = blocks(generator, index)
    odd = candidate & np.uint32(1)
    if is_double:
        values = _box_muller_float64(words, odd)
    else:
        first = (candidate & np.uint32(2)) == 0
        values = _box_muller_float32(
            jnp.where(first, words[0], words[2]), jnp.where(first, words[1], words[3]), odd
        )
    accepted = jnp.abs(values) < 2
    earlier = np.triu(np.ones((candidates, candidates), np.float32), 1)
    rank = jnp.where(accepted, accepted.astype(np.float32) @ earlier, np.float32(-1))
    places = np.arange(per_group, dtype=np.float32)
    chosen = rank[:, None, :] == places[:, None]
    flat = jnp.sum(jnp.where(chosen, values[:, None, :], 0), axis=-1, dtype=values.dtype)
    return flat.reshape(-1)[:count].astype(dtype)


# -- Keys ----------------------------------------------------------------------------------

# Words of a key: the two words of Philox's key, the high words of its counter, and how often
# the op ran before.
_KEY_WORDS = 5


def key_words(name: str, seed: int, seed2: int, counter: Any) -> tuple[Any, Any, Any, Any, Any]:
    """The words of the key of one execution of a node.

    Args:
      name: The node's name; nodes without seeds draw from a stream of their own.
      seed: Its attribute.
      seed2: Its attribute.
      counter: uint32 (salt, count): a random number of the session and how often the node ran.
    """
    salt, count = counter[0], counter[1]
    if seed or seed2:
        words = [
            np.uint32(value >> shift & 0xFFFFFFFF) for value in (seed, seed2) for shift in (0, 32)
        ]
        return words[0], words[1], words[2], words[3], count
    return (
        salt,
        np.uint32(zlib.crc32(name.encode())),
        count,
        np.uint32(_UNSEEDED_STREAM),
        np.uint32(0),
    )


def make_key(words: tuple[Any, ...]) -> Any:
    """A `jax.random` key of the given words."""
    return jax.random.wrap_key_data(jnp.stack([jnp.asarray(w) for w in words]), impl=PHILOX)


class HostKey(NamedTuple):
    """A key whose words are there to be looked at: for kernels that run on NumPy."""

    words: Any


def host_key(words: tuple[Any, ...]) -> HostKey:
    """A key of the given words, outside of a program."""
    return HostKey(np.array(words, np.uint32))


def key_of_words(words: Any) -> Any:
    """A `jax.random` key of an array of words."""
    return jax.random.wrap_key_data(words, impl=PHILOX)


def fold_in(key: Any, data: Any) -> Any:
    """A key that `key` and a number make, inside a program or outside."""
    if not isinstance(key, HostKey):
        return jax.random.fold_in(key, data)
    k0, k1, k2, k3, k4 = key.words
    counter = (np.uint32(data), k4 ^ np.uint32(_FOLD_STREAM), k2, k3)
    return HostKey(np.array([*block((k0, k1), counter), 0], np.uint32))


def generator_of(rng: Any, outputs: int) -> Generator:
    """The generator for an op's execution that makes `outputs` numbers."""
    if isinstance(rng, HostKey):
        return generator_from_words(rng.words, outputs * RESERVED)
    words: Any = jax.random.key_data(rng)
    if not isinstance(words, jax.core.Tracer):
        words = np.asarray(words)
    return generator_from_words(words, outputs * RESERVED)


def generator_from_words(words: Any, reserved: int) -> Generator:
    """The generator of a key, whose earlier executions used `reserved` blocks each."""
    start = words[4].astype(np.uint64) * np.uint64(reserved)
    return Generator((words[0], words[1]), start, (words[2], words[3]))


def threefry_key(rng: Any) -> Any:
    """A key of JAX's own default generator, drawn from `rng`, where JAX insists on one."""
    bits = jax.random.bits(rng, (2,), np.uint32)
    return jax.random.wrap_key_data(bits, impl="threefry2x32")


def _seed(seed: Any) -> Any:
    bits = jnp.asarray(seed).astype(np.uint64)
    low, high = bits.astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    zero = jnp.zeros((), np.uint32)
    return jnp.stack([low, high, zero, zero, zero])


def _derive(key: Any, index: Any, stream: int) -> Any:
    words = block((key[0], key[1]), (index, key[4] ^ np.uint32(stream), key[2] + index * 0, key[3]))
    return jnp.stack(jnp.broadcast_arrays(*words, jnp.zeros_like(words[0])), axis=-1)


def _fold_in(key: Any, data: Any) -> Any:
    return _derive(key, jnp.asarray(data).astype(np.uint32), _FOLD_STREAM)


def _split(key: Any, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape, dtype=np.int64))
    keys = _derive(key, lax.iota(np.uint32, count), _FOLD_STREAM ^ 0xFFFFFFFF)
    return keys.reshape((*shape, _KEY_WORDS))


def _random_bits(key: Any, bit_width: int, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape, dtype=np.int64))
    generator = Generator(
        (key[0], key[1]), key[4].astype(np.uint64) << np.uint64(32), (key[2], key[3])
    )
    words = words64(generator, count) if bit_width == 64 else words32(generator, count)
    return words.astype(np.dtype(f"uint{bit_width}")).reshape(shape)


PHILOX: Any = private.define_prng_impl(
    key_shape=(_KEY_WORDS,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="philox4x32",
    tag="philox",
)
