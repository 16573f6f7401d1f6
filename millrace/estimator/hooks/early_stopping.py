"""Early stopping: hooks that end a training on all workers when evaluations say so.

The chief decides and sets the variable ``signal_early_stopping/STOP``; workers fetch it.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator
from typing import Any

import millrace as tf
from millrace.estimator.estimator import Estimator
from millrace.ops.state.variable_changes import assign


def make_early_stopping_hook(
    estimator: Any,
    should_stop_fn: Callable[[], bool],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """A hook that ends the training when a function says so.

    Args:
      estimator: The Estimator that is trained.
      should_stop_fn: Takes nothing; asked by the chief only.
      run_every_secs: Seconds between questions.
      run_every_steps: Steps between questions; not with `run_every_secs`.

    Raises:
      TypeError: `estimator` is none, or the function cannot be called.
      ValueError: Both periods are given.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}"
        )
    if run_every_secs is not None and run_every_steps is not None:
        raise ValueError("Only one of `run_every_secs` and `run_every_steps` must be set.")
    if estimator.config.is_chief:
        return _StopOnPredicateHook(should_stop_fn, run_every_secs, run_every_steps)
    return _CheckForStoppingHook()


def stop_if_higher_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """A hook that ends the training when a metric is above `threshold`.

    Args:
      estimator: The Estimator that is trained.
      metric_name: The metric.
      threshold: What it must pass.
      eval_dir: Where evaluations write; the estimator's `eval_dir()` when None.
      min_steps: Evaluations of earlier steps do not count.
      run_every_secs: Seconds between looks.
      run_every_steps: Steps between looks.
    """
    return _threshold_hook(
        estimator, metric_name, threshold, True, eval_dir, min_steps, run_every_secs,
        run_every_steps,
    )  # fmt: skip


def stop_if_lower_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """A hook that ends the training when a metric is below `threshold`.

    See `stop_if_higher_hook`.
    """
    return _threshold_hook(
        estimator, metric_name, threshold, False, eval_dir, min_steps, run_every_secs,
        run_every_steps,
    )  # fmt: skip


def stop_if_no_increase_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """A hook that ends the training when a metric has not grown for some steps.

    See `stop_if_higher_hook`.
    """
    return _improvement_hook(
        estimator, metric_name, max_steps_without_increase, True, eval_dir, min_steps,
        run_every_secs, run_every_steps,
    )  # fmt: skip


def stop_if_no_decrease_hook(
    estimator: Any,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> Any:
    """A hook that ends the training when a metric has not fallen for some steps.

    See `stop_if_higher_hook`.
    """
    return _improvement_hook(
        estimator, metric_name, max_steps_without_decrease, False, eval_dir, min_steps,
        run_every_secs, run_every_steps,
    )  # fmt: skip


def read_eval_metrics(eval_dir: str) -> dict[int, dict[str, float]]:
    """The metrics in the event files of a folder, by global step, in its order."""
    found: dict[int, dict[str, float]] = {}
    for event in _events(eval_dir):
        values = {v.tag: v.simple_value for v in event.summary.value if v.HasField("simple_value")}
        if values:
            found.setdefault(event.step, {}).update(values)
    return dict(sorted(found.items()))


def _events(eval_dir: str) -> Iterator[Any]:
    if not tf.gfile.Exists(eval_dir):
        return
    for file in tf.gfile.Glob(os.path.join(eval_dir, "events.out.tfevents.*")):
        try:
            yield from tf.train.summary_iterator(file)
        except tf.errors.DataLossError as error:
            tf.logging.warning(
                "Skipping rest of the file due to encountering data corruption error; file path: "
                "%s; original error raised by `tf.train.summary_iterator`: %s",
                file,
                error,
            )


def _threshold_hook(
    estimator: Any,
    metric_name: str,
    threshold: float,
    higher_is_better: bool,
    eval_dir: str | None,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> Any:
    folder = eval_dir or estimator.eval_dir()
    is_better = operator.gt if higher_is_better else operator.lt

    def should_stop() -> bool:
        for step, metrics in read_eval_metrics(folder).items():
            if step >= min_steps and is_better(metrics[metric_name], threshold):
                tf.logging.info(
                    'At step %s, metric "%s" has value %s which is %s the configured threshold '
                    "(%s) for early stopping.",
                    step,
                    metric_name,
                    metrics[metric_name],
                    "greater than" if higher_is_better else "less than",
                    threshold,
                )
                return True
        return False

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _improvement_hook(
    estimator: Any,
    metric_name: str,
    max_steps: int,
    higher_is_better: bool,
    eval_dir: str | None,
    min_steps: int,
    run_every_secs: float | None,
    run_every_steps: int | None,
) -> Any:
    folder = eval_dir or estimator.eval_dir()
    is_better = operator.gt if higher_is_better else operator.lt

    def should_stop() -> bool:
        best: tuple[float, int] | None = None
        for step, metrics in read_eval_metrics(folder).items():
            if step < min_steps:
                continue
            value = metrics[metric_name]
            if best is None or is_better(value, best[0]):
                best = value, step
            if step - best[1] >= max_steps:
                tf.logging.info(
                    'No %s in metric "%s" for %s steps, which is greater than or equal to max '
                    "steps (%s) configured for early stopping.",
                    "increase" if higher_is_better else "decrease",
                    metric_name,
                    step - best[1],
                    max_steps,
                )
                return True
        return False

    return make_early_stopping_hook(estimator, should_stop, run_every_secs, run_every_steps)


def _stop_variable() -> Any:
    with tf.variable_scope("signal_early_stopping", reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            "STOP",
            shape=[],
            dtype=tf.bool,
            initializer=tf.constant_initializer(False),
            collections=[tf.GraphKeys.GLOBAL_VARIABLES],
            trainable=False,
        )


class _StopOnPredicateHook(tf.train.SessionRunHook):
    """The chief's: asks, and tells the workers."""

    def __init__(
        self,
        should_stop_fn: Callable[[], bool],
        run_every_secs: float | None = 60,
        run_every_steps: int | None = None,
    ) -> None:
        if not callable(should_stop_fn):
            raise TypeError("`should_stop_fn` must be callable.")
        self._should_stop_fn = should_stop_fn
        self._timer = tf.train.SecondOrStepTimer(run_every_secs, run_every_steps)

    def begin(self) -> None:
        self._global_step = tf.train.get_global_step()
        self._stop_op = assign(_stop_variable(), True)

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_values.results
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop_fn():
            tf.logging.info("Requesting early stopping at global step %d", step)
            run_context.session.run(self._stop_op)
            run_context.request_stop()


class _CheckForStoppingHook(tf.train.SessionRunHook):
    """A worker's: ends when the chief has said so."""

    def begin(self) -> None:
        self._stop_variable = _stop_variable()

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._stop_variable)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results:
            tf.logging.info("Early stopping requested, suspending run.")
            run_context.request_stop()
