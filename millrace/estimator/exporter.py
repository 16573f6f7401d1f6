"""Exporters: which evaluated models are written as SavedModels, and which are kept."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from typing import Any

import millrace as tf
from millrace.estimator.estimator_spec import LOSS_METRIC_KEY
from millrace.platform.function_arguments import fn_args


class Exporter(abc.ABC):
    """Is asked after each evaluation of `train_and_evaluate`; a base class."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The folder of its models, below ``export`` in the model's."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports the model, or not.

        Args:
          estimator: The Estimator.
          export_path: The exporter's folder.
          checkpoint_path: The checkpoint that was evaluated.
          eval_result: The metrics.
          is_the_final_export: Whether training has come to its last step.

        Returns:
          The folder of the model, or None.
        """


class _SavedModelExporter(Exporter):
    """Exports each time."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Any,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text

    @property
    def name(self) -> str:
        """The exporter's name."""
        return self._name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Writes a SavedModel; see Exporter."""
        return estimator.export_saved_model(
            export_path,
            self._serving_input_receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )


class LatestExporter(_SavedModelExporter):
    """Exports after each evaluation, and keeps the newest models."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """Makes an exporter.

        Args:
          name: Its folder's name.
          serving_input_receiver_fn: Returns a ServingInputReceiver.
          assets_extra: Files to put beside the model.
          as_text: Whether graphs are written as text.
          exports_to_keep: How many models are kept; None for all.

        Raises:
          ValueError: `exports_to_keep` is not positive.
        """
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        self._exports_to_keep = exports_to_keep
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be positive number")

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Writes a SavedModel and removes old ones; see Exporter."""
        result = super().export(
            estimator, export_path, checkpoint_path, eval_result, is_the_final_export
        )
        _remove_old(export_path, self._exports_to_keep)
        return result


class FinalExporter(_SavedModelExporter):
    """Exports once, at the end of the training."""

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Writes a SavedModel if it is the last one; see Exporter."""
        if not is_the_final_export:
            return None
        tf.logging.info("Performing the final export in the end of training.")
        return super().export(
            estimator, export_path, checkpoint_path, eval_result, is_the_final_export
        )


def _loss_smaller(
    best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]
) -> bool:
    """Whether the loss is smaller than the best one so far."""
    for word, result in (("best", best_eval_result), ("current", current_eval_result)):
        if not result or LOSS_METRIC_KEY not in result:
            raise ValueError(f"{word}_eval_result cannot be empty or no loss is found in it.")
    return bool(best_eval_result[LOSS_METRIC_KEY] > current_eval_result[LOSS_METRIC_KEY])


class BestExporter(_SavedModelExporter):
    """Exports models that are better than all before."""

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., bool] = _loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        """Makes an exporter.

        Args:
          name: Its folder's name.
          serving_input_receiver_fn: Returns a ServingInputReceiver.
          event_file_pattern: Event files below the model's folder, whose best result a restarted
            job has to beat; None for none.
          compare_fn: Takes ``best_eval_result`` and ``current_eval_result``, tells whether the
            second is better.
          assets_extra: Files to put beside the model.
          as_text: Whether graphs are written as text.
          exports_to_keep: How many models are kept; None for all.

        Raises:
          ValueError: `compare_fn` takes other arguments, or `exports_to_keep` is not positive.
        """
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if compare_fn is None:
            raise ValueError("`compare_fn` must not be None.")
        args = set(fn_args(compare_fn))
        for wanted in ("best_eval_result", "current_eval_result"):
            if wanted not in args:
                raise ValueError(f"compare_fn ({compare_fn}) must include {wanted} argument.")
        unknown = sorted(args - {"best_eval_result", "current_eval_result"})
        if unknown:
            raise ValueError(
                f"compare_fn ({compare_fn}) has following not expected args: {unknown}"
            )
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(
                f"`exports_to_keep`, if provided, must be a positive number. Got {exports_to_keep}"
            )
        self._compare_fn = compare_fn
        self._event_file_pattern = event_file_pattern
        self._exports_to_keep = exports_to_keep
        #: The folder whose event files were read, and the best result so far.
        self._model_dir: Any = None
        self._best_eval_result: Mapping[str, Any] | None = None
        self._has_exported = False

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Writes a SavedModel if it is the best so far; see Exporter."""
        if self._model_dir != estimator.model_dir and self._event_file_pattern:
            tf.logging.info("Loading best metric from event files.")
            self._model_dir = estimator.model_dir
            self._best_eval_result = self._best_of_events(
                os.path.join(self._model_dir, self._event_file_pattern)
            )
        if (
            self._best_eval_result is not None
            and self._has_exported
            and not self._compare_fn(
                best_eval_result=self._best_eval_result, current_eval_result=eval_result
            )
        ):
            return None
        tf.logging.info("Performing best model export.")
        self._best_eval_result = eval_result
        result = super().export(
            estimator, export_path, checkpoint_path, eval_result, is_the_final_export
        )
        _remove_old(export_path, self._exports_to_keep)
        self._has_exported = True
        return result

    def _best_of_events(self, pattern: str) -> dict[str, float] | None:
        best: dict[str, float] | None = None
        for file in tf.gfile.Glob(pattern):
            for event in tf.train.summary_iterator(file):
                values = {
                    value.tag: value.simple_value
                    for value in event.summary.value
                    if value.HasField("simple_value")
                }
                if values and (
                    best is None
                    or self._compare_fn(best_eval_result=best, current_eval_result=values)
                ):
                    best = values
        return best


def _remove_old(folder: str, keep: int | None) -> None:
    """Removes all but the newest models of a folder; other folders in it stay."""
    if keep is None:
        return
    names = [name.rstrip("/") for name in tf.gfile.ListDirectory(folder)]
    models = sorted((name for name in names if len(name) == 10 and name.isdigit()), key=int)
    for name in models[:-keep]:
        path = os.path.join(folder, name)
        try:
            tf.gfile.DeleteRecursively(path)
        except tf.errors.NotFoundError as error:
            tf.logging.warning("Can not delete %s recursively: %s", path, error)
