"""What programs take from TensorFlow's python.util.all_util that has no public name."""

import re
import sys
from types import ModuleType
from typing import Any


def make_all(module_name: str, doc_string_modules: list[ModuleType] | None = None) -> list[str]:
    """The names that the documentation of a module announces with ``@@``."""
    modules = doc_string_modules or [sys.modules[module_name]]
    return sorted({n for m in modules for n in re.findall(r"@@(\w+)", m.__doc__ or "")})


def remove_undocumented(
    module_name: str,
    allowed_exception_list: list[str] | None = None,
    doc_string_modules: list[ModuleType] | None = None,
) -> None:
    """Deletes the names of a module that are neither announced nor allowed."""
    module: Any = sys.modules[module_name]
    kept = {*make_all(module_name, doc_string_modules), *(allowed_exception_list or ())}
    for name in list(vars(module)):
        if name not in kept and not name.startswith("_"):
            delattr(module, name)
