"""One sentence about a name of TensorFlow's that Millrace lacks, with what to use in its place.

What replaces what is a table, replacements.txt, written by people who know. Beside it only two
things are said: that the very same name is in another namespace, and that a name of the same
namespace differs by a slip of the keyboard. When nothing is known, nothing is guessed.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import types
from importlib import resources
from typing import Any

#: Where TensorFlow's functions are, when a program looks for them somewhere else.
_NAMESPACES = (
    "",
    *(
        "train nn math io image losses metrics initializers summary strings linalg sparse gfile "
        "logging errors test lookup saved_model nest layers data data.experimental contrib.layers "
        "contrib.rnn contrib.framework contrib.training contrib.seq2seq contrib.opt"
    ).split(),
)
#: Shorter names mean different things in different places.
_TELLING = 5
#: A slip of the keyboard: `AdamOptimiser`, but not `less` for `layers`.
_SLIP = 0.8


@functools.cache
def table() -> dict[str, str]:
    """Public names without ``tf.``: what is missing, and what replaces it."""
    text = resources.files("millrace.compat").joinpath("replacements.txt").read_text()
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    pairs = (line.split(" = ") for line in lines)
    return {missing: replacement for missing, replacement in pairs}


def public_name(path: str) -> str:
    """``tf.train.X`` for ``tensorflow.train.X``, ``millrace.train.X`` and ``tf.train.X``."""
    first, _, rest = path.partition(".")
    return f"tf.{rest}" if first in ("tensorflow", "millrace", "tf") else path


def describe_missing(path: str) -> str:
    """The sentence.

    Args:
      path: The name with its namespace, which begins with ``tensorflow``, ``millrace`` or ``tf``.
    """
    shown = public_name(path)
    found = _replacement(shown.removeprefix("tf.").removeprefix("compat.v1."))
    return f"{shown} is not in Millrace" + (f"; {found}" if found else "")


def _replacement(name: str) -> str:
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        replacement = table().get(".".join(parts[:count]))
        if replacement is None:
            continue
        below = ".".join([replacement, *parts[count:]])
        for candidate in (below, replacement):
            if candidate != name and resolve(candidate) is not None:
                return f"what there is for it: tf.{candidate}"
    *_, last = parts
    if len(last) >= _TELLING:
        for namespace in _NAMESPACES:
            candidate = f"{namespace}.{last}".lstrip(".")
            if candidate != name and resolve(candidate) is not None:
                return f"there is tf.{candidate}"
    owner = ".".join(parts[:-1])
    place = resolve(owner) if owner else importlib.import_module("millrace")
    names = [each for each in dir(place) if not each.startswith("_")] if place else []
    near = difflib.get_close_matches(last, names, n=1, cutoff=_SLIP)
    return f"did you mean tf.{'.'.join([*parts[:-1], near[0]])}?" if near else ""


def resolve(name: str) -> Any:
    """What a public name without ``tf.`` stands for, None if Millrace lacks it."""
    found: Any = importlib.import_module("millrace")
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            if not isinstance(found, types.ModuleType) or not hasattr(found, "__path__"):
                return None
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ImportError:
                return None
    return found
