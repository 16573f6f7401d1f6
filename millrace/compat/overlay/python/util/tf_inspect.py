"""What programs take from TensorFlow's python.util.tf_inspect that has no public name."""

from inspect import *
from inspect import FullArgSpec
from typing import Any, NamedTuple


class ArgSpec(NamedTuple):
    """What Python 2 told of a function."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def getargspec(obj: Any) -> ArgSpec:
    """The arguments of a function, as Python 2's `inspect` gave them."""
    found = getfullargspec(obj)
    return ArgSpec(found.args, found.varargs, found.varkw, found.defaults)
