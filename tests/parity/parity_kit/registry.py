"""The case library's table: every case and scenario, by family and name.

A family is a file in `cases/`. Registering is the only side effect of importing such a file.
Invariant: (family, name) is unique; a case never touches the module under test before it is run.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parity_kit.inputs import Input, generator

CASES_FOLDER = Path(__file__).resolve().parent.parent / "cases"


@dataclass(frozen=True)
class Raises:
    """An expected error: its class's name, and words that its message has to contain."""

    error: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """One pure function of fed inputs.

    Attributes:
        run: `run(tf, **placeholders)` returns a tensor, SparseTensor, IndexedSlices, or a nest.
        grad: inputs whose gradients are recorded and compared.
        second_order: also differentiate the gradients, with respect to the same inputs.
        numeric: True, or the reason why numeric differentiation says nothing here.
        replay: True, or the reason why TensorFlow's own graph is not run on the other module.
        variants: the static-shape variants that are built: "known", "partial", "unknown".
        raises: the expected error; nothing but the error is compared then.
    """

    family: str
    name: str
    run: Callable[..., Any]
    inputs: dict[str, Input]
    grad: tuple[str, ...] = ()
    second_order: bool = False
    numeric: bool | str = True
    replay: bool | str = True
    rtol: float | None = None
    atol: float | None = None
    variants: tuple[str, ...] = ("known", "partial", "unknown")
    raises: Raises | None = None

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"


@dataclass(frozen=True)
class Scenario:
    """A story of several steps in one session: `play(run, tf)`, with `run` a Runner."""

    family: str
    name: str
    play: Callable[..., Any]
    replay: bool | str = True
    rtol: float | None = None
    atol: float | None = None

    @property
    def id(self) -> str:
        return f"{self.family}/{self.name}"


@dataclass
class Library:
    """All that has been registered so far."""

    cases: dict[str, Case] = field(default_factory=dict)
    scenarios: dict[str, Scenario] = field(default_factory=dict)

    def families(self) -> list[str]:
        items = [*self.cases.values(), *self.scenarios.values()]
        return sorted({item.family for item in items})


LIBRARY = Library()


def _family_of(function: Callable[..., Any]) -> str:
    return function.__module__.rpartition(".")[2]


def _claim(item: Case | Scenario) -> None:
    if item.id in LIBRARY.cases or item.id in LIBRARY.scenarios:
        raise ValueError(f"two cases are called {item.id!r}: rename one")


def case(
    name: str | None = None,
    inputs: dict[str, Input] | None = None,
    *,
    grad: bool | Sequence[str] = False,
    second_order: bool = False,
    numeric: bool | str = True,
    replay: bool | str = True,
    rtol: float | None = None,
    atol: float | None = None,
    variants: Sequence[str] | None = None,
    raises: str | tuple[str, ...] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as a case of its file's family.

    Args:
        name: the case's name; the function's own if not given. Loops give one.
        inputs: recipe by parameter name.
        grad: True for every floating or complex input, or the names.
        second_order: also record the gradients of the gradients.
        numeric: a sentence instead of True says why numeric differentiation is left out.
        replay: a sentence instead of True says why TensorFlow's graph is not replayed.
        rtol: relative tolerance instead of the dtype's.
        atol: absolute tolerance instead of the dtype's.
        variants: static-shape variants, if not all three make sense.
        raises: an error class's name, or a tuple of it and words of its message.
    """
    recipes = dict(inputs or {})

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        expected = None
        if raises is not None:
            parts = (raises,) if isinstance(raises, str) else raises
            expected = Raises(parts[0], tuple(parts[1:]))
        if grad is True:
            wanted = tuple(n for n, r in recipes.items() if _differentiable(r))
        else:
            wanted = tuple(grad or ())
        item = Case(
            family=_family_of(function),
            name=name or function.__name__,
            run=function,
            inputs=recipes,
            grad=wanted,
            second_order=second_order,
            numeric=numeric,
            replay=replay,
            rtol=rtol,
            atol=atol,
            variants=tuple(
                variants or (("known", "partial", "unknown") if recipes else ("known",))
            ),
            raises=expected,
        )
        _claim(item)
        LIBRARY.cases[item.id] = item
        return function

    return register


def cases(
    table: Iterable[tuple[Any, ...]], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register one case per row `(name, inputs, *arguments)` of a table.

    The decorated function receives the row's arguments after `tf`, before the placeholders:
    `f(tf, *arguments, **placeholders)`.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for row in table:
            row_name, recipes, *arguments = row

            def bound(tf: Any, *, _arguments: Any = tuple(arguments), **placeholders: Any) -> Any:
                return function(tf, *_arguments, **placeholders)

            bound.__module__ = function.__module__
            case(row_name, recipes, **options)(bound)
        return function

    return register


def scenario(
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    replay: bool | str = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> Any:
    """Register the decorated function `f(run, tf)` as a scenario of its file's family."""

    def register(play: Callable[..., Any]) -> Callable[..., Any]:
        item = Scenario(_family_of(play), name or play.__name__, play, replay, rtol, atol)
        _claim(item)
        LIBRARY.scenarios[item.id] = item
        return play

    return register if function is None else register(function)


def _differentiable(recipe: Input) -> bool:
    array = recipe.make(generator("probe"))
    return array.dtype.kind in "fc" or array.dtype.name == "bfloat16"


def load_library(families: Iterable[str] | None = None) -> Library:
    """Import the case files (all, or those of the named families) and return what they declare."""
    wanted = None if families is None else set(families)
    for path in sorted(CASES_FOLDER.glob("*.py")):
        module_name = f"parity_cases.{path.stem}"
        if module_name in sys.modules or (wanted is not None and path.stem not in wanted):
            continue
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    return LIBRARY
