"""`TrainSpec` and `EvalSpec`: what `train_and_evaluate` is asked to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.exporter import Exporter


class _TrainSpec(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[Any, ...]
    saving_listeners: tuple[Any, ...]


class TrainSpec(_TrainSpec):
    """What is trained.

    Args:
      input_fn: Gives features and labels.
      max_steps: The global step to end at; None to train until the input ends.
      hooks: For every worker.
      saving_listeners: For the chief; told of each checkpoint.

    Raises:
      ValueError: `max_steps` is not positive.
      TypeError: Something has a wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> TrainSpec:
        _check_input_fn(input_fn)
        if max_steps is not None and max_steps <= 0:
            raise ValueError(f"Must specify max_steps > 0, given: {max_steps}")
        for listener in saving_listeners or ():
            if not isinstance(listener, tf.train.CheckpointSaverListener):
                raise TypeError(
                    "All saving_listeners must be `CheckpointSaverListener` instances, given: "
                    f"{listener}"
                )
        return super().__new__(
            cls, input_fn, max_steps, checked_hooks(hooks), tuple(saving_listeners or ())
        )


class _EvalSpec(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalSpec):
    """What is evaluated and exported.

    Args:
      input_fn: Gives features and labels.
      steps: How many batches; None for all.
      name: Tells several evaluations apart.
      hooks: For the evaluation.
      exporters: An Exporter, or several with different names.
      start_delay_secs: The longest wait before the first evaluation. It ends as soon as there is a
        checkpoint of a model that was trained.
      throttle_secs: The shortest time between two evaluations. The last checkpoint does not wait.

    Raises:
      ValueError: A number is too small, or names of exporters are not good.
      TypeError: Something has a wrong type.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Sequence[Any] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        _check_input_fn(input_fn)
        if steps is not None and steps <= 0:
            raise ValueError(f"Must specify steps > 0, given: {steps}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"`name` must be string, given: {name}")
        hooks = checked_hooks(hooks)
        exporters = _checked_exporters(exporters)
        for word, seconds in (
            ("start_delay_secs", start_delay_secs),
            ("throttle_secs", throttle_secs),
        ):
            if seconds < 0:
                raise ValueError(f"Must specify {word} >= 0, given: {seconds}")
        return super().__new__(
            cls, input_fn, steps, name, hooks, exporters, start_delay_secs, throttle_secs
        )


def _check_input_fn(input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(f"`input_fn` must be callable, given: {input_fn}")


def checked_hooks(hooks: Sequence[Any] | None) -> tuple[Any, ...]:
    """The hooks as a tuple.

    Raises:
      TypeError: One is none.
    """
    for hook in hooks or ():
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"All hooks must be `SessionRunHook` instances, given: {hook}")
    return tuple(hooks or ())


def _checked_exporters(exporters: Any) -> tuple[Any, ...]:
    if not exporters:
        return ()
    given = [exporters] if isinstance(exporters, Exporter) else exporters
    if not hasattr(given, "__iter__") or not all(isinstance(each, Exporter) for each in given):
        raise TypeError(
            "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found "
            f"{exporters}."
        )
    names = [each.name for each in given]
    for name in names:
        if not name:
            raise ValueError(
                "An Exporter cannot have a name that is `None` or empty. All exporter names: "
                f"{names}"
            )
        if not isinstance(name, str):
            raise ValueError(f"An Exporter must have a string name. Given: {type(name)}")
    if len(set(names)) != len(names):
        raise ValueError(
            "`exporters` must have unique names. Such a name cannot be `None`. All exporter names: "
            f"{names}"
        )
    return tuple(given)
