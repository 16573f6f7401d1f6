"""`tf.keras`: layers and models as graph programs use them. Modules load when asked for."""

import importlib
from typing import Any

#: Names of this package that are not modules, and the module of each.
_ELSEWHERE = {
    "Input": "engine.input_layer",
    "Model": "engine.training",
    "Sequential": "engine.sequential",
}
_MODULES = frozenset(
    "activations backend callbacks constraints datasets estimator experimental initializers "
    "layers losses metrics models optimizers preprocessing regularizers utils".split()
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        importlib.import_module(f"{__name__}.layers")
        return getattr(importlib.import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_MODULES, *_ELSEWHERE})
