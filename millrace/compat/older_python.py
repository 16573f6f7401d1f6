"""What programs of TensorFlow 1's time expect of Python 3, and its releases since no longer have.

Only `millrace run` asks for it, as for `numpy1`.
"""

from __future__ import annotations

import collections
import collections.abc
import fractions
import inspect
import math
import time
from typing import Any, NamedTuple


class ArgSpec(NamedTuple):
    """What `inspect.getargspec` told of a function."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(func: Any) -> ArgSpec:
    """Names and defaults of a function's arguments, without those that have to be named."""
    found = inspect.getfullargspec(func)
    return ArgSpec(found.args, found.varargs, found.varkw, found.defaults)


def install() -> None:
    """Brings the old names back, in this process."""
    wanted: list[tuple[Any, str, Any]] = [
        (collections, name, getattr(collections.abc, name)) for name in collections.abc.__all__
    ]
    wanted += [
        (inspect, "getargspec", getargspec),
        (inspect, "ArgSpec", ArgSpec),
        (time, "clock", time.process_time),
        (fractions, "gcd", math.gcd),
    ]
    for module, name, value in wanted:
        if name not in vars(module):
            setattr(module, name, value)
