"""Evaluating the newest checkpoint and exporting it, as often as there is a new one."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import millrace as tf
from millrace.estimator.specs import EvalSpec
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock

#: Seconds between warnings that there is nothing to evaluate.
_WARNING_PERIOD = 600


class EvalStatus:
    """What became of an evaluation."""

    EVALUATED = "evaluated"
    MISSING_CHECKPOINT = "missing checkpoint"
    NO_NEW_CHECKPOINT = "no new checkpoint"


class EvalResult(NamedTuple):
    """The metrics of a checkpoint, or why there are none."""

    status: str
    metrics: dict[str, Any] | None = None
    checkpoint_path: str | None = None

    @property
    def global_step(self) -> int:
        """The step of the checkpoint; 0 if none was evaluated."""
        return int((self.metrics or {}).get(tf.GraphKeys.GLOBAL_STEP, 0))


class ContinuousEvalListener:
    """Is asked before and after each evaluation whether to go on; a base class."""

    def before_eval(self) -> bool:
        """Whether to evaluate."""
        return True

    def after_eval(self, eval_result: EvalResult) -> bool:
        """Whether to evaluate again."""
        return True


class Evaluator:
    """Evaluates and exports each checkpoint once."""

    def __init__(
        self,
        estimator: Any,
        eval_spec: EvalSpec,
        max_training_steps: int | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Makes an evaluator.

        Args:
          estimator: The Estimator.
          eval_spec: What is evaluated and exported.
          max_training_steps: The step at which training ends; None if it is not known.
          clock: The time.
        """
        self._estimator = estimator
        self._eval_spec = eval_spec
        self._max_training_steps = max_training_steps
        self._clock = clock
        #: The checkpoint that was evaluated last.
        self.previous_checkpoint: str | None = None
        self._next_warning = 0.0
        self._is_final_export_triggered = False

    @property
    def is_final_export_triggered(self) -> bool:
        """Whether the model of the last step was exported."""
        return self._is_final_export_triggered

    def evaluate_and_export(self) -> tuple[EvalResult, list[Any]]:
        """Evaluates the newest checkpoint, if it is new; what exporters gave comes with it."""
        newest = self._estimator.latest_checkpoint()
        if not newest:
            self._warn(
                "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready."
            )
            return EvalResult(EvalStatus.MISSING_CHECKPOINT), []
        if newest == self.previous_checkpoint:
            self._warn(
                "No new checkpoint ready for evaluation. Skip the current evaluation pass as "
                "evaluation results are expected to be same for the same checkpoint."
            )
            return EvalResult(EvalStatus.NO_NEW_CHECKPOINT), []
        spec = self._eval_spec
        metrics = self._estimator.evaluate(
            input_fn=spec.input_fn,
            steps=spec.steps,
            name=spec.name,
            checkpoint_path=newest,
            hooks=spec.hooks,
        )
        result = EvalResult(EvalStatus.EVALUATED, _checked(metrics), newest)
        is_last = bool(self._max_training_steps) and result.global_step >= (
            self._max_training_steps or 0
        )
        exported = self._export(result, is_last)
        if is_last:
            tf.logging.debug("Calling exporter with the `is_the_final_export=True`.")
            self._is_final_export_triggered = True
        self._next_warning = 0.0
        self.previous_checkpoint = newest
        return result, exported

    def _export(self, result: EvalResult, is_last: bool) -> list[Any]:
        base = os.path.join(os.fsdecode(self._estimator.model_dir), "export")
        return [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(base, exporter.name),
                checkpoint_path=result.checkpoint_path,
                eval_result=result.metrics,
                is_the_final_export=is_last,
            )
            for exporter in self._eval_spec.exporters
        ]

    def _warn(self, message: str) -> None:
        if self._clock.now() >= self._next_warning:
            tf.logging.warning(message)
            self._next_warning = self._clock.now() + _WARNING_PERIOD


def _checked(metrics: Any) -> dict[str, Any]:
    """What a subclass's `evaluate` returned, if it can be used."""
    if not metrics:
        raise ValueError("Internal error: `Estimator.evaluate` should never return empty metrics.")
    if not isinstance(metrics, dict):
        raise TypeError(f"`Estimator.evaluate` should return dict. Given {type(metrics)}.")
    if tf.GraphKeys.GLOBAL_STEP not in metrics:
        raise ValueError(
            "Internal error: `Estimator.evaluate` result should have `global_step` in result. "
            f"Given {metrics}"
        )
    return metrics
