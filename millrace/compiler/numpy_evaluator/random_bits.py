"""Random keys and bits. An array of keys has one opaque element for each key's words."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from millrace.compiler.numpy_evaluator.program import Evaluated, evaluated
from millrace.compiler.numpy_evaluator.rules import Call, plain, rule
from millrace.compiler.xla import jax


def stored_type(dtype: Any) -> Any:
    """The NumPy type of an array's elements: of keys, as many bytes as they have words."""
    if isinstance(dtype, np.dtype):
        return dtype
    return np.dtype((np.void, 4 * int(np.prod(dtype._impl.key_shape))))


def wrapped(words: Any, impl: Any) -> Any:
    """Words, in extra axes at the end, as an array of keys."""
    rank = np.ndim(words) - len(impl.key_shape)
    count = int(np.prod(impl.key_shape))
    flat = np.ascontiguousarray(words, np.uint32).reshape((*np.shape(words)[:rank], count))
    return flat.view(np.dtype((np.void, 4 * count)))[..., 0]


def words_of(keys: Any, impl: Any) -> Any:
    """The words of an array of keys, in extra axes at the end."""
    flat = np.ascontiguousarray(keys).reshape(-1, 1).view(np.uint32)
    return flat.reshape((*np.shape(keys), *impl.key_shape))


@rule("random_wrap")
def _random_wrap(eqn: Any) -> Call:
    impl = eqn.params["impl"]
    return lambda words: wrapped(words, impl)


@rule("random_unwrap")
def _random_unwrap(eqn: Any) -> Call:
    impl = eqn.invars[0].aval.dtype._impl
    return lambda keys: words_of(keys, impl)


plain("random_clone", lambda keys: keys)


def _form(shape: tuple[int, ...], dtype: Any = np.uint32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


@functools.lru_cache(maxsize=256)
def _traced(function: Any, key_shape: tuple[int, ...], more: tuple[Any, ...]) -> Evaluated:
    words = _form(key_shape)
    return evaluated(jax.make_jaxpr(lambda key, *xs: function(key, *xs))(words, *more))


def _per_key(keys: Any, impl: Any, call: Any) -> Any:
    """Applies `call` to each key's words; the results are stacked."""
    flat = words_of(keys, impl).reshape(-1, *impl.key_shape)
    found = np.stack([np.asarray(call(words)) for words in flat])
    return found.reshape((*np.shape(keys), *found.shape[1:]))


@rule("random_bits")
def _random_bits(eqn: Any) -> Call:
    impl = eqn.invars[0].aval.dtype._impl
    width, shape = eqn.params["bit_width"], eqn.params["shape"]
    draw = _traced(functools.partial(_draw, impl.random_bits, width, shape), impl.key_shape, ())
    return lambda keys: _per_key(keys, impl, lambda words: draw(words)[0])


def _draw(function: Any, width: int, shape: tuple[int, ...], key: Any) -> Any:
    return function(key, width, shape)


@rule("random_fold_in")
def _random_fold_in(eqn: Any) -> Call:
    impl = eqn.invars[0].aval.dtype._impl
    fold = _traced(impl.fold_in, impl.key_shape, (_form(()),))

    def call(keys: Any, data: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(keys), np.shape(data))
        flat = words_of(np.broadcast_to(keys, shape), impl).reshape(-1, *impl.key_shape)
        numbers = np.broadcast_to(data, shape).reshape(-1).astype(np.uint32)
        found = [fold(k, n)[0] for k, n in zip(flat, numbers, strict=True)]
        return wrapped(np.stack(found).reshape((*shape, *impl.key_shape)), impl)

    return call


@rule("random_split")
def _random_split(eqn: Any) -> Call:
    impl = eqn.invars[0].aval.dtype._impl
    shape = eqn.params["shape"]
    split = _traced(functools.partial(_divide, impl.split, shape), impl.key_shape, ())
    return lambda keys: wrapped(_per_key(keys, impl, lambda words: split(words)[0]), impl)


def _divide(function: Any, shape: tuple[int, ...], key: Any) -> Any:
    return function(key, shape)


@rule("random_seed")
def _random_seed(eqn: Any) -> Call:
    impl = eqn.params["impl"]
    seed = functools.lru_cache(maxsize=8)(
        lambda kind: evaluated(jax.make_jaxpr(impl.seed)(_form((), kind)))
    )

    def call(seeds: Any) -> Any:
        seeds = np.asarray(seeds)
        found = [seed(seeds.dtype)(value)[0] for value in seeds.reshape(-1)]
        return wrapped(np.stack(found).reshape((*seeds.shape, *impl.key_shape)), impl)

    return call


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


@rule("threefry2x32")
def _threefry2x32(eqn: Any) -> Call:
    def rotated(x: Any, places: int) -> Any:
        return (x << np.uint32(places)) | (x >> np.uint32(32 - places))

    def call(key0: Any, key1: Any, x0: Any, x1: Any) -> Any:
        keys = (key0, key1, key0 ^ key1 ^ np.uint32(0x1BD11BDA))
        with np.errstate(over="ignore"):
            a, b = x0 + keys[0], x1 + keys[1]
            for group in range(5):
                for places in _ROTATIONS[group % 2]:
                    a = a + b
                    b = rotated(b, places) ^ a
                a = a + keys[(group + 1) % 3]
                b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
        return [a, b]

    return call


@rule("iota_2x32_shape")
def _iota_2x32_shape(eqn: Any) -> Call:
    shape = eqn.params["shape"]
    numbers = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64).reshape(shape)
    high, low = (numbers >> np.uint64(32)).astype(np.uint32), numbers.astype(np.uint32)
    return lambda: [high, low]
