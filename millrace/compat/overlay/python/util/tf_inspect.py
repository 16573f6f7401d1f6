"""What programs take from TensorFlow's python.util.tf_inspect that has no public name."""

import inspect
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


def getfullargspec(obj: Any) -> FullArgSpec:  # type: ignore[no-redef]
    """The arguments of a function, without annotations: TensorFlow 1's functions have none."""
    stated = inspect.unwrap(obj, stop=lambda each: hasattr(each, "__signature__"))
    return inspect.getfullargspec(stated)._replace(annotations={})
