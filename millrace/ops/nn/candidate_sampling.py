"""Candidate samplers: classes drawn at random, to train against instead of all classes.

Sampling runs on the host: drawing without replacement takes a number of tries that nobody
knows beforehand, and the expected counts depend on it. The numbers are TensorFlow's, draw by
draw: the same seeds give the same classes. The losses built from them are in `sampled_losses`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from millrace.core.tensor_shape import TensorShape
from millrace.graph.define import op
from millrace.graph.random_seed import get_seed
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.tensor import Tensor
from millrace.ops.random import philox
from millrace.platform import gfile, limits

__all__ = [
    "all_candidate_sampler",
    "compute_accidental_hits",
    "fixed_unigram_candidate_sampler",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "uniform_candidate_sampler",
]

#: Blocks of random words that TensorFlow sets aside for each candidate.
_BLOCKS_PER_CANDIDATE = 512


#: What one takes: random words, itself, its place among those seen, its expected count.
_CANDIDATE_BYTES = 256


class _Words:
    """The random words of one execution of a node, drawn one after the other."""

    def __init__(self, node: Any, ctx: Any, num_sampled: int) -> None:
        counter = ctx.random_counters([node])[0]
        seed, seed2 = node.attrs["seed"], node.attrs["seed2"]
        words = [
            np.asarray(w, np.uint32) for w in philox.key_words(node.name, seed, seed2, counter)
        ]
        with np.errstate(over="ignore"):
            self._generator = philox.generator_from_words(
                words, num_sampled * _BLOCKS_PER_CANDIDATE
            )
        self._words = self._stream(max(num_sampled, 32))

    def _stream(self, blocks: int) -> Iterator[int]:
        first = 0
        while True:
            index = np.arange(first, first + blocks, dtype=np.uint64)
            with np.errstate(over="ignore"):
                rows = np.stack(philox.blocks(self._generator, index), axis=1)
            yield from rows.reshape(-1).tolist()
            first += blocks

    def word(self) -> int:
        """32 random bits."""
        return next(self._words)

    def below(self, limit: int) -> int:
        """A number in [0, limit), without the slight bias that a remainder has."""
        excess = (0xFFFFFFFF % limit + 1) % limit
        while True:
            word = self.word()
            if word >= excess:
                return word % limit

    def below_long(self, limit: int) -> int:
        """As `below`, from 64 bits."""
        excess = (0xFFFFFFFFFFFFFFFF % limit + 1) % limit
        while True:
            word = self.word() | self.word() << 32
            if word >= excess:
                return word % limit

    def unit(self) -> np.float32:
        """A float32 in [0, 1)."""
        return np.float32((self.word() & 0x7FFFFF) / (1 << 23))

    def unit_double(self) -> float:
        """A float64 in [0, 1)."""
        high = self.word() & 0xFFFFF
        return (high << 32 | self.word()) / (1 << 52)


# -- Distributions -----------------------------------------------------------------------


class _Distribution(Protocol):
    """Over the classes 0 to ``size - 1``."""

    size: int

    def draw(self, words: _Words) -> int:
        """A class."""

    def probability(self, classes: np.ndarray) -> np.ndarray:
        """The probability of each of `classes`."""


class _Uniform:
    def __init__(self, size: int) -> None:
        self.size = size

    def draw(self, words: _Words) -> int:
        return words.below_long(self.size)

    def probability(self, classes: np.ndarray) -> np.ndarray:
        return np.full(classes.shape, 1.0 / self.size)


class _LogUniform:
    """``log((k + 2) / (k + 1)) / log(size + 1)``: Zipf's law, for classes sorted by frequency."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._log_size = math.log1p(size)

    def draw(self, words: _Words) -> int:
        value = int(math.exp(words.unit_double() * self._log_size)) - 1
        # Rounding may give `size` itself.
        return value % self.size

    def probability(self, classes: np.ndarray) -> np.ndarray:
        return np.log((classes + 2.0) / (classes + 1.0)) / self._log_size


class _LearnedUnigram:
    """Proportional to how often a class was a true class so far (plus 1)."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._weights = np.ones(size, np.int64)
        self._sums: np.ndarray | None = None

    def _cumulative(self) -> np.ndarray:
        if self._sums is None:
            self._sums = np.cumsum(self._weights)
        return self._sums

    def draw(self, words: _Words) -> int:
        sums = self._cumulative()
        return int(np.searchsorted(sums, words.below(int(sums[-1])), side="right"))

    def probability(self, classes: np.ndarray) -> np.ndarray:
        return self._weights[classes] / self._cumulative()[-1]

    def learn(self, classes: np.ndarray) -> None:
        np.add.at(self._weights, classes.reshape(-1), 1)
        self._sums = None


class _FixedUnigram:
    """Proportional to given weights; drawn by Walker's alias method."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.size = len(weights)
        self._weights = np.asarray(weights, np.float32)
        self._total = float(np.sum(self._weights, dtype=np.float64))
        self._own = [np.float32(w * self.size / self._total) for w in self._weights]
        self._other = list(range(self.size))
        low = [i for i, p in enumerate(self._own) if p < 1]
        high = [i for i, p in enumerate(self._own) if p >= 1]
        while low and high:
            small, large = low.pop(), high.pop()
            self._other[small] = large
            self._own[large] = np.float32(self._own[large] - (np.float32(1) - self._own[small]))
            (low if self._own[large] < 1 else high).append(large)
        for i in low + high:
            self._own[i] = np.float32(1)

    def draw(self, words: _Words) -> int:
        chance = words.unit()
        place = words.below(self.size)
        return place if chance < self._own[place] else self._other[place]

    def probability(self, classes: np.ndarray) -> np.ndarray:
        return self._weights[classes].astype(np.float64) / self._total


def _expected(probability: np.ndarray, count: int, tries: int) -> np.ndarray:
    """How often a class is expected among `count` candidates that took `tries` draws."""
    if tries == count:
        return (probability * count).astype(np.float32)
    with np.errstate(divide="ignore"):
        return (-np.expm1(tries * np.log1p(-probability))).astype(np.float32)


def _sample(
    distribution: _Distribution, true_classes: np.ndarray, node: Any, ctx: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    count, unique = node.attrs["num_sampled"], node.attrs["unique"]
    _check_true_classes(true_classes, node.attrs["num_true"])
    if unique and count > distribution.size:
        raise ValueError(
            f"Sampler's range is too small: {count} different candidates of {distribution.size} "
            "classes"
        )
    limits.check_array(count, _CANDIDATE_BYTES, "the candidates")
    words = _Words(node, ctx, count)
    candidates: list[int] = []
    seen: set[int] = set()
    tries = 0
    while len(candidates) < count:
        tries += 1
        candidate = distribution.draw(words)
        if unique:
            if candidate in seen:
                continue
            seen.add(candidate)
        candidates.append(candidate)
    sampled = np.array(candidates, np.int64)
    return (
        sampled,
        _expected(distribution.probability(true_classes), count, tries),
        _expected(distribution.probability(sampled), count, tries),
    )


def _check_true_classes(true_classes: np.ndarray, num_true: int) -> None:
    if true_classes.ndim != 2:
        raise ValueError(f"true_classes must be a matrix, got shape {true_classes.shape}")
    if true_classes.shape[1] != num_true:
        raise ValueError(
            "true_classes must have num_true columns, "
            f"expected: {true_classes.shape[1]} was: {num_true}"
        )


# -- Op types ----------------------------------------------------------------------------


def _sampler_shapes(c: ShapeContext) -> list[TensorShape]:
    shape = c.shape("true_classes")
    if shape.ndims not in (None, 2):
        raise ValueError(f"Shape must be rank 2 but is rank {shape.ndims}")
    rows = shape.sizes[0] if shape.sizes else None
    sampled = TensorShape([c.attr("num_sampled")])
    return [sampled, TensorShape([rows, c.attr("num_true")]), sampled]


_OUTPUTS = (
    "(sampled_candidates: int64, true_expected_count: float32, sampled_expected_count: float32)"
)
_COUNTS = "num_true: int >= 1; num_sampled: int >= 1; unique: bool"
_SEEDS = "seed: int = 0; seed2: int = 0"
_KIND: dict[str, Any] = {
    "shape": _sampler_shapes,
    "gradient": NO_GRADIENT,
    "host": True,
    "stateful": True,
}


@op(
    f"UniformCandidateSampler(true_classes: int64) -> {_OUTPUTS} where {_COUNTS}; "
    f"range_max: int >= 1; {_SEEDS}",
    **_KIND,
)
def UniformCandidateSampler(true_classes: Any, *, range_max: int, node: Any, ctx: Any) -> Any:
    """Every class is as likely as any other."""
    return _sample(_Uniform(range_max), true_classes, node, ctx)


@op(
    f"LogUniformCandidateSampler(true_classes: int64) -> {_OUTPUTS} where {_COUNTS}; "
    f"range_max: int >= 1; {_SEEDS}",
    **_KIND,
)
def LogUniformCandidateSampler(true_classes: Any, *, range_max: int, node: Any, ctx: Any) -> Any:
    """Low class numbers are likelier, by Zipf's law."""
    return _sample(_LogUniform(range_max), true_classes, node, ctx)


@op(
    f"LearnedUnigramCandidateSampler(true_classes: int64) -> {_OUTPUTS} where {_COUNTS}; "
    f"range_max: int >= 1; {_SEEDS}",
    **_KIND,
)
def LearnedUnigramCandidateSampler(
    true_classes: Any, *, range_max: int, node: Any, ctx: Any
) -> Any:
    """Classes are as likely as they were among the true classes so far."""
    return _sample_and_learn(true_classes, range_max, node, ctx)


@op(
    f"ThreadUnsafeUnigramCandidateSampler(true_classes: int64) -> {_OUTPUTS} where {_COUNTS}; "
    f"range_max: int >= 1; {_SEEDS}",
    **_KIND,
)
def ThreadUnsafeUnigramCandidateSampler(
    true_classes: Any, *, range_max: int, node: Any, ctx: Any
) -> Any:
    """LearnedUnigramCandidateSampler under an older name."""
    return _sample_and_learn(true_classes, range_max, node, ctx)


def _sample_and_learn(true_classes: np.ndarray, range_max: int, node: Any, ctx: Any) -> Any:
    learned = ctx.session.state_of(node, lambda: _LearnedUnigram(range_max))
    _check_classes(true_classes, range_max)
    result = _sample(learned, true_classes, node, ctx)
    learned.learn(true_classes)
    return result


def _check_classes(classes: np.ndarray, size: int) -> None:
    if classes.size and (classes.min() < 0 or classes.max() >= size):
        wrong = classes[(classes < 0) | (classes >= size)].flat[0]
        raise ValueError(f"true_classes holds {wrong}, which is not in [0, {size})")


@op(
    f"FixedUnigramCandidateSampler(true_classes: int64) -> {_OUTPUTS} where {_COUNTS}; "
    'range_max: int >= 1; vocab_file: string = ""; distortion: float = 1.0; '
    "num_reserved_ids: int = 0; num_shards: int >= 1 = 1; shard: int >= 0 = 0; "
    f"unigrams: list(float) = []; {_SEEDS}",
    **_KIND,
)
def FixedUnigramCandidateSampler(true_classes: Any, *, range_max: int, node: Any, ctx: Any) -> Any:
    """Classes are as likely as a file or a list says."""
    fixed = ctx.session.state_of(node, lambda: _FixedUnigram(_weights(node.attrs, range_max)))
    _check_classes(true_classes, range_max)
    return _sample(fixed, true_classes, node, ctx)


def _weights(attrs: dict[str, Any], range_max: int) -> list[float]:
    path, unigrams = attrs["vocab_file"].decode(), attrs["unigrams"]
    if bool(path) == bool(unigrams):
        raise ValueError("Must provide either vocab_file or unigrams, and not both.")
    if path:
        with gfile.GFile(path, "r") as file:
            counts = [float(row[-1]) for row in csv.reader(file) if row]
    else:
        counts = list(unigrams)
    reserved = attrs["num_reserved_ids"]
    every = [0.0] * reserved + [
        float(np.float32(c) ** np.float32(attrs["distortion"])) for c in counts
    ]
    weights = [
        w if i < reserved or i % attrs["num_shards"] == attrs["shard"] else 0.0
        for i, w in enumerate(every)
    ]
    if len(weights) != range_max:
        raise ValueError(f"range is {range_max} must be equal to weights size  {len(weights)}")
    return weights


@op(
    f"AllCandidateSampler(true_classes: int64) -> {_OUTPUTS} where {_COUNTS}; {_SEEDS}",
    **_KIND,
)
def AllCandidateSampler(true_classes: Any, *, num_true: int, num_sampled: int, unique: bool) -> Any:
    """All classes, each once; for tests of what uses samplers."""
    _check_true_classes(true_classes, num_true)
    limits.check_array(num_sampled, _CANDIDATE_BYTES, "the candidates")
    return (
        np.arange(num_sampled, dtype=np.int64),
        np.ones(true_classes.shape, np.float32),
        np.ones(num_sampled, np.float32),
    )


@op(
    "ComputeAccidentalHits(true_classes: int64, sampled_candidates: int64) -> (indices: int32, "
    f"ids: int64, weights: float32) where num_true: int; {_SEEDS}",
    shape=lambda c: [TensorShape([None])] * 3,
    gradient=NO_GRADIENT,
    host=True,
)
def ComputeAccidentalHits(true_classes: Any, sampled_candidates: Any, *, num_true: int) -> Any:
    """Which candidates are true classes of which example."""
    _check_true_classes(true_classes, num_true)
    position = {int(candidate): i for i, candidate in enumerate(sampled_candidates)}
    hits = [
        (row, position[int(label)])
        for row, labels in enumerate(true_classes)
        for label in labels
        if int(label) in position
    ]
    return (
        np.array([row for row, _ in hits], np.int32),
        np.array([place for _, place in hits], np.int64),
        np.full(len(hits), -np.finfo(np.float32).max, np.float32),
    )


# -- Public functions --------------------------------------------------------------------

Samples = tuple[Tensor, Tensor, Tensor]


def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Draws classes that are all equally likely.

    Args:
      true_classes: ``[batch, num_true]`` of int64: the right classes of each example.
      num_true: How many right classes an example has.
      num_sampled: How many candidates to draw, for the whole batch.
      unique: Whether they all differ.
      range_max: The number of classes.
      seed: The op seed.
      name: The node's name.

    Returns:
      The candidates, and how often the true classes and the candidates were to be expected.
    """
    return _build(
        UniformCandidateSampler, true_classes, num_true, num_sampled, unique, seed, name,
        range_max=range_max,
    )  # fmt: skip


def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Draws classes by Zipf's law: for classes numbered by falling frequency.

    The arguments are those of `uniform_candidate_sampler`.
    """
    return _build(
        LogUniformCandidateSampler, true_classes, num_true, num_sampled, unique, seed, name,
        range_max=range_max,
    )  # fmt: skip


def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Draws classes as often as they have been true classes in this session.

    The arguments are those of `uniform_candidate_sampler`.
    """
    return _build(
        LearnedUnigramCandidateSampler, true_classes, num_true, num_sampled, unique, seed, name,
        range_max=range_max,
    )  # fmt: skip


def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Draws classes with given frequencies.

    Args:
      true_classes: As for `uniform_candidate_sampler`, as the next four.
      num_true: How many right classes an example has.
      num_sampled: How many candidates to draw.
      unique: Whether they all differ.
      range_max: The number of classes, reserved ones too.
      vocab_file: A CSV file whose last column holds the frequencies, a class a line.
      distortion: Frequencies are raised to this power.
      num_reserved_ids: That many classes come first and are never drawn.
      num_shards: Only every num_shards-th class is drawn ...
      shard: ... beginning with this one.
      unigrams: The frequencies, instead of a file.
      seed: The op seed.
      name: The node's name.
    """
    return _build(
        FixedUnigramCandidateSampler, true_classes, num_true, num_sampled, unique, seed, name,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
    )  # fmt: skip


def all_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Gives all classes, to try out what uses samplers; see `uniform_candidate_sampler`."""
    return _build(AllCandidateSampler, true_classes, num_true, num_sampled, unique, seed, name)


def _build(
    kind: Any,
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None,
    name: str | None,
    **attrs: Any,
) -> Samples:
    first, second = get_seed(seed)
    return kind(
        true_classes,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        seed=first,
        seed2=second,
        name=name,
        **attrs,
    )


def compute_accidental_hits(
    true_classes: Any,
    sampled_candidates: Any,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> Samples:
    """Finds candidates that are true classes of an example.

    Args:
      true_classes: ``[batch, num_true]`` of int64.
      sampled_candidates: What a sampler drew.
      num_true: How many right classes an example has.
      seed: The op seed; of no effect.
      name: The node's name.

    Returns:
      For each hit the number of the example, the place of the candidate, and the lowest float.
    """
    first, second = get_seed(seed)
    return ComputeAccidentalHits(
        true_classes, sampled_candidates, num_true=num_true, seed=first, seed2=second, name=name
    )
