"""Hashes of strings whose values are part of saved models, as published by their authors.

* FarmHash's Fingerprint64 (Geoff Pike, 2014), whose values never change: hash buckets, feature
  crosses, lookup tables. Computed for a whole batch at once, in NumPy.
* MurmurHash64A (Austin Appleby) for `string_to_hash_bucket`.
* SipHash-2-4 (Aumasson and Bernstein, 2012) for the keyed `string_to_hash_bucket_strong`.

All take `bytes`; all arithmetic is modulo 2**64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)
_MURMUR = 0xC6A4A7935BD1E995
_MURMUR_SEED = 0xDECAFCAFFE


def _u(value: int) -> np.uint64:
    return np.uint64(value)


def _rotate(word: Words, shift: int) -> Words:
    return word >> _u(shift) | word << _u(64 - shift)


def _mix(word: Words) -> Words:
    return word ^ word >> _u(47)


def _hash_two(u: Words, v: Words, multiplier: Words) -> Words:
    a = _mix((u ^ v) * multiplier)
    return _mix((v ^ a) * multiplier) * multiplier


class _Batch:
    """Strings, one after the other in memory.

    Attributes:
      text: All of them.
      starts: Where each of them begins.
    """

    def __init__(self, text: bytes, starts: NDArray[np.int64]) -> None:
        self.text, self.starts = text, starts

    def numbers(self, offsets: NDArray[np.int64], size: int) -> Words:
        """The `size` bytes at each offset, as little-endian numbers."""
        places = len(self.text) - size + 1
        windows: NDArray[np.uint64] = np.ndarray(
            (max(places, 0),), f"<u{size}", self.text, strides=(1,)
        )
        return windows[offsets].astype(np.uint64)


def _at_start(strings: _Batch, offset: int, size: int = 8) -> Words:
    """Bytes that begin `offset` after the start of each string."""
    return strings.numbers(strings.starts + offset, size)


def _at_end(strings: _Batch, lengths: Words, offset: int, size: int = 8) -> Words:
    """Bytes that begin `offset` before the end of each string."""
    return strings.numbers(strings.starts + lengths.astype(np.int64) - offset, size)


def _length_0_to_16(strings: _Batch, lengths: Words) -> Words:
    result = np.full(len(lengths), _K2)
    _fill(result, strings, lengths, (lengths > 0) & (lengths < 4), _length_1_to_3)
    _fill(result, strings, lengths, (lengths >= 4) & (lengths < 8), _length_4_to_7)
    _fill(result, strings, lengths, lengths >= 8, _length_8_to_16)
    return result


def _length_1_to_3(strings: _Batch, lengths: Words) -> Words:
    a = _at_start(strings, 0, 1)
    b = strings.numbers(strings.starts + (lengths.astype(np.int64) >> 1), 1)
    c = _at_end(strings, lengths, 1, 1)
    return _mix((a + (b << _u(8))) * _K2 ^ (lengths + (c << _u(2))) * _K0) * _K2


def _length_4_to_7(strings: _Batch, lengths: Words) -> Words:
    multiplier = _K2 + lengths * _u(2)
    first, last = _at_start(strings, 0, 4), _at_end(strings, lengths, 4, 4)
    return _hash_two(lengths + (first << _u(3)), last, multiplier)


def _length_8_to_16(strings: _Batch, lengths: Words) -> Words:
    multiplier = _K2 + lengths * _u(2)
    a, b = _at_start(strings, 0) + _K2, _at_end(strings, lengths, 8)
    c = _rotate(b, 37) * multiplier + a
    return _hash_two(c, (_rotate(a, 25) + b) * multiplier, multiplier)


def _length_17_to_32(strings: _Batch, lengths: Words) -> Words:
    multiplier = _K2 + lengths * _u(2)
    a, b = _at_start(strings, 0) * _K1, _at_start(strings, 8)
    c, d = _at_end(strings, lengths, 8) * multiplier, _at_end(strings, lengths, 16) * _K2
    return _hash_two(
        _rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c, multiplier
    )


def _length_33_to_64(strings: _Batch, lengths: Words) -> Words:
    multiplier = _K2 + lengths * _u(2)
    a, b = _at_start(strings, 0) * _K2, _at_start(strings, 8)
    c, d = _at_end(strings, lengths, 8) * multiplier, _at_end(strings, lengths, 16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _hash_two(y, a + _rotate(b + _K2, 18) + c, multiplier)
    e, f = _at_start(strings, 16) * multiplier, _at_start(strings, 24)
    g = (y + _at_end(strings, lengths, 32)) * multiplier
    h = (z + _at_end(strings, lengths, 24)) * multiplier
    return _hash_two(
        _rotate(e + f, 43) + _rotate(g, 30) + h, e + _rotate(f + a, 18) + g, multiplier
    )


def _weak_hash(block: Words, a: Words, b: Words) -> tuple[Words, Words]:
    """Mixes 32 bytes (columns of `block`) into two words."""
    w, x, y, z = block
    a = a + w
    b = _rotate(b + a + z, 21)
    c = a
    a = a + x + y
    b = b + _rotate(a, 44)
    return a + z, b + c


def _long_of_one_length(strings: _Batch, length: int) -> Words:
    """Strings of one length above 64."""

    def words_at(start: int) -> Words:
        return np.stack([_at_start(strings, start + 8 * i) for i in range(8)])

    seed = _u(81)
    with_zeros = np.zeros(len(strings.starts), np.uint64)
    x, y = with_zeros + seed, with_zeros + (seed * _K1 + _u(113))
    z = _mix(y * _K2 + _u(113)) * _K2
    v, w = (with_zeros, with_zeros), (with_zeros, with_zeros)
    end = (length - 1) // 64 * 64
    block = words_at(0)
    x = x * _K2 + block[0]
    for start in range(0, end, 64):
        block = words_at(start)
        x = _rotate(x + y + v[0] + block[1], 37) * _K1
        y = _rotate(y + v[1] + block[6], 42) * _K1
        x = x ^ w[1]
        y = y + v[0] + block[5]
        z = _rotate(z + w[0], 33) * _K1
        v = _weak_hash(block[:4], v[1] * _K1, x + w[0])
        w = _weak_hash(block[4:], z + w[1], y + block[2])
        z, x = x, z
    multiplier = _K1 + ((z & _u(0xFF)) << _u(1))
    block = words_at(length - 64)
    w = (w[0] + _u((length - 1) & 63), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x = _rotate(x + y + v[0] + block[1], 37) * multiplier
    y = _rotate(y + v[1] + block[6], 42) * multiplier
    x = x ^ w[1] * _u(9)
    y = y + v[0] * _u(9) + block[5]
    z = _rotate(z + w[0], 33) * multiplier
    v = _weak_hash(block[:4], v[1] * multiplier, x + w[0])
    w = _weak_hash(block[4:], z + w[1], y + block[2])
    z, x = x, z
    return _hash_two(
        _hash_two(v[0], w[0], multiplier) + _mix(y) * _K0 + z,
        _hash_two(v[1], w[1], multiplier) + x,
        multiplier,
    )


def _longer_than_64(strings: _Batch, lengths: Words) -> Words:
    result = np.empty(len(lengths), np.uint64)
    for length in np.unique(lengths):
        members = np.flatnonzero(lengths == length)
        some = _Batch(strings.text, strings.starts[members])
        result[members] = _long_of_one_length(some, int(length))
    return result


def _fill(
    result: Words,
    strings: _Batch,
    lengths: Words,
    chosen: NDArray[np.bool_],
    function: Callable[[_Batch, Words], Words],
) -> None:
    """Puts the hashes that `function` gives for the chosen strings into `result`."""
    members = np.flatnonzero(chosen)
    if members.size:
        some = _Batch(strings.text, strings.starts[members])
        result[members] = function(some, lengths[members])


def fingerprint64(strings: Sequence[bytes]) -> Words:
    """FarmHash's Fingerprint64 of every string."""
    lengths = np.fromiter(map(len, strings), np.uint64, len(strings))
    ends = np.cumsum(lengths, dtype=np.int64)
    batch = _Batch(b"".join(strings), ends - lengths.astype(np.int64))
    result = np.empty(len(strings), np.uint64)
    with np.errstate(over="ignore"):
        _fill(result, batch, lengths, lengths <= 16, _length_0_to_16)
        _fill(result, batch, lengths, (lengths > 16) & (lengths <= 32), _length_17_to_32)
        _fill(result, batch, lengths, (lengths > 32) & (lengths <= 64), _length_33_to_64)
        _fill(result, batch, lengths, lengths > 64, _longer_than_64)
    return result


def concatenate64(first: Words, second: Words) -> Words:
    """A fingerprint of two fingerprints in order; used by feature crosses."""
    multiplier = _u(_MURMUR)
    with np.errstate(over="ignore"):
        result = first ^ multiplier ^ _mix(second * multiplier) * multiplier
        result = result * multiplier
        return _mix(_mix(result) * multiplier)


def murmur64(string: bytes, seed: int = _MURMUR_SEED) -> int:
    """MurmurHash64A."""
    whole = len(string) & ~7
    result = seed ^ len(string) * _MURMUR & _MASK
    for word in np.frombuffer(string[:whole], "<u8").tolist():
        word = word * _MURMUR & _MASK
        word = (word ^ word >> 47) * _MURMUR & _MASK
        result = (result ^ word) * _MURMUR & _MASK
    if len(string) > whole:
        result = (result ^ int.from_bytes(string[whole:], "little")) * _MURMUR & _MASK
    result = (result ^ result >> 47) * _MURMUR & _MASK
    return result ^ result >> 47


def _sip_rounds(v: list[int], count: int) -> None:
    def rotate(word: int, shift: int) -> int:
        return (word << shift | word >> 64 - shift) & _MASK

    a, b, c, d = v
    for _ in range(count):
        a = a + b & _MASK
        b = rotate(b, 13) ^ a
        a = rotate(a, 32)
        c = c + d & _MASK
        d = rotate(d, 16) ^ c
        a = a + d & _MASK
        d = rotate(d, 21) ^ a
        c = c + b & _MASK
        b = rotate(b, 17) ^ c
        c = rotate(c, 32)
    v[:] = a, b, c, d


def siphash(string: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4 with a key of two 64-bit numbers."""
    k0, k1 = key[0] & _MASK, key[1] & _MASK
    state = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    padding = -(len(string) + 1) % 8
    padded = string + b"\0" * padding + bytes([len(string) & 0xFF])
    for word in np.frombuffer(padded, "<u8").tolist():
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]
