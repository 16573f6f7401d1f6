"""What programs take from TensorFlow's python.util.lazy_loader."""

import importlib
import types
from typing import Any


class LazyLoader(types.ModuleType):
    """A module that is imported when something of it is asked for."""

    def __init__(
        self, local_name: str, parent_module_globals: dict[str, Any], name: str, warning: Any = None
    ) -> None:
        """Takes the name under which the importing module keeps it, and its own."""
        super().__init__(name)
        self._local_name = local_name
        self._parent_module_globals = parent_module_globals

    def _load(self) -> types.ModuleType:
        module = importlib.import_module(self.__name__)
        self._parent_module_globals[self._local_name] = module
        self.__dict__.update(module.__dict__)
        return module

    def __getattr__(self, item: str) -> Any:
        return getattr(self._load(), item)

    def __dir__(self) -> list[str]:
        return dir(self._load())
