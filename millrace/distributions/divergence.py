"""`tf.distributions.kl_divergence`: formulas by the pair of classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import millrace as tf

_FORMULAS: dict[tuple[type, type], Callable[..., Any]] = {}


class RegisterKL:
    """Says that the decorated function is the divergence between two classes.

    Raises:
      TypeError: It is no function.
      ValueError: There is one already.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Callable[..., Any]) -> Callable[..., Any]:
        """Registers."""
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _FORMULAS:
            a, b = self._key
            raise ValueError(
                f"KL({a.__name__} || {b.__name__}) has already been registered to: "
                f"{_FORMULAS[self._key]}"
            )
        _FORMULAS[self._key] = kl_fn
        return kl_fn


def _formula(a: type, b: type) -> Callable[..., Any] | None:
    """That of the nearest pair of base classes."""
    best = None
    for i, over_a in enumerate(inspect.getmro(a)):
        for j, over_b in enumerate(inspect.getmro(b)):
            if (over_a, over_b) in _FORMULAS and (best is None or i + j < best[0]):
                best = (i + j, _FORMULAS[over_a, over_b])
    return best[1] if best else None


def kl_divergence(
    distribution_a: Any, distribution_b: Any, allow_nan_stats: bool = True, name: str | None = None
) -> Any:
    """How far `distribution_b` is from `distribution_a`, in nats.

    Raises:
      NotImplementedError: There is no formula for the pair.
    """
    formula = _formula(type(distribution_a), type(distribution_b))
    if formula is None:
        raise NotImplementedError(
            f"No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{type(distribution_a).__name__} and distribution_b type "
            f"{type(distribution_b).__name__}"
        )
    with tf.name_scope("KullbackLeibler"):
        found = formula(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return found
        fine = tf.logical_not(tf.reduce_any(tf.math.is_nan(found)))
        words = ["KL calculation between", distribution_a.name, "and", distribution_b.name]
        with tf.control_dependencies([tf.Assert(fine, [*words, "returned NaN values:", found])]):
            return tf.identity(found, name="checked_kl")


def cross_entropy(
    ref: Any, other: Any, allow_nan_stats: bool = True, name: str | None = None
) -> Any:
    """The entropy of `ref` and its divergence to `other`."""
    with tf.name_scope(name, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats=allow_nan_stats)
