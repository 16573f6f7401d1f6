"""Data that programs train on: files and their formats, and `tf.data`.

The modules here work on files and arrays; they neither build graph nodes nor import jax.
`pipeline` is what runs behind `tf.data`. The public names of `tf.data` are those of
`data.datasets` and `data.experimental`, which are loaded when they are first asked for: the formats
here are below the ops, `tf.data` is above them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.data import experimental as experimental
    from millrace.data.datasets import *  # noqa: F403
else:
    import importlib

    _MODULES = ("datasets", "experimental")
    #: `data.datasets.__all__`; a test compares.
    _PUBLIC = (
        "AUTOTUNE INFINITE_CARDINALITY UNKNOWN_CARDINALITY Dataset DatasetSpec "
        "FixedLengthRecordDataset Iterator Options TFRecordDataset TextLineDataset "
        "ThreadingOptions get_output_classes get_output_shapes get_output_types "
        "make_initializable_iterator make_one_shot_iterator"
    ).split()

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"millrace.data.{name}")
        if name in _PUBLIC:
            return getattr(importlib.import_module("millrace.data.datasets"), name)
        raise AttributeError(f"module 'millrace.data' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_PUBLIC})
