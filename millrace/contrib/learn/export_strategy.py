"""Export strategies: what an Experiment writes after an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from millrace.estimator.exporter import LatestExporter
from millrace.platform.function_arguments import accepted


class ExportStrategy(NamedTuple):
    """A name, and a function that exports an Estimator."""

    name: str
    export_fn: Callable[..., Any]

    def export(self, estimator: Any, export_path: str, **about: Any) -> Any:
        """Calls the function with what it takes of the evaluation."""
        return self.export_fn(estimator, export_path, **accepted(self.export_fn, **about))


def make_export_strategy(
    serving_input_fn: Callable[[], Any],
    default_output_alternative_key: str | None = None,
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    exports_to_keep: int | None = 5,
    strip_default_attrs: bool | None = None,
) -> ExportStrategy:
    """A strategy that writes SavedModels.

    Args:
      serving_input_fn: Returns a ServingInputReceiver.
      default_output_alternative_key: Not used: a model's own default is taken.
      assets_extra: Files to put beside the model.
      as_text: Whether graphs are written as text.
      exports_to_keep: How many models are kept; None for all.
      strip_default_attrs: Not used: they are left out.
    """
    exporter = LatestExporter("Servo", serving_input_fn, assets_extra, as_text, exports_to_keep)

    def export_fn(estimator: Any, export_dir_base: str, checkpoint_path: str | None = None) -> Any:
        core = getattr(estimator, "_core", estimator)
        return exporter.export(core, export_dir_base, checkpoint_path or "", {}, False)

    return ExportStrategy("Servo", export_fn)
