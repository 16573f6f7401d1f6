"""What programs take from TensorFlow's python.util.tf_export that has no public name."""

from typing import Any


class tf_export:  # noqa: N801 - TensorFlow's name
    """Marks a symbol as public. Programs that mark their own lose nothing without it."""

    def __init__(self, *args: str, **keywords: Any) -> None:
        """Takes the public names."""
        self._names = args

    def __call__(self, func: Any) -> Any:
        """The symbol itself."""
        return func

    def export_constant(self, module_name: str, name: str) -> None:
        """Marks a constant."""


keras_export = estimator_export = tf_export
