"""The table of primitives: how to make, of an equation's parameters, a call on NumPy arrays.

A rule is asked once for each equation, when a jaxpr is made ready; what it returns is called in
every run. It must not change its arguments: they may be views of variables, or of each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Arrays in, one array out (or a sequence of them where the primitive has several results).
Call = Callable[..., Any]
#: Makes the call of one equation of a jaxpr.
Rule = Callable[[Any], Call]

RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule of the primitives `names`."""

    def register(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise KeyError(f"Two rules for the primitive {name}")
            RULES[name] = function
        return function

    return register


def plain(name: str, call: Call) -> None:
    """Registers a call that needs none of the primitive's parameters."""
    rule(name)(lambda eqn: call)


def has_rule(name: str) -> bool:
    """Whether a primitive can be evaluated."""
    return name in RULES


def out_dtype(eqn: Any, place: int = 0) -> Any:
    """The NumPy type of one of an equation's results."""
    return eqn.outvars[place].aval.dtype
