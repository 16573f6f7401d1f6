"""Millrace against the figures of real TensorFlow, and against numeric differentiation.

One test per case and question. `pytest tests/parity -k "array/"` runs one family. The package is
imported when a test runs, not when tests are collected.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from parity_kit import figures as stored_figures
from parity_kit.comparison import differences, shape_differences
from parity_kit.deadline import within_deadline
from parity_kit.differentiation import numeric_differences
from parity_kit.execution import (
    Built,
    arrays_of,
    build,
    node_names,
    observe,
    observe_error,
    static_shape,
)
from parity_kit.registry import Case, Scenario, load_library
from parity_kit.replay import replay_case, replay_scenario
from parity_kit.scenario_runner import play

LIBRARY = load_library()
CASES = list(LIBRARY.cases.values())
SCENARIOS = list(LIBRARY.scenarios.values())


#: Whole models of ops that other families run on both tiers: on NumPy alone they take seconds.
ON_NUMPY = ("feature_column", "heads")


@pytest.fixture(autouse=True)
def _tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    item = getattr(request.node, "callspec", None)
    if item is not None and getattr(item.params.get("item"), "family", "") in ON_NUMPY:
        monkeypatch.setenv("MILLRACE_COMPILE", "never")


@functools.cache
def _family(family: str) -> dict[str, Any]:
    return stored_figures.load(family)


def _figures(item: Case | Scenario) -> dict[str, Any]:
    figures = _family(item.family).get(item.name)
    assert figures is not None, f"{item.id} has no figures: record them, see README.md"
    return dict(figures)


def _module() -> Any:
    return importlib.import_module("millrace")


def _stored(name: str, item: Case | Scenario) -> bool:
    """Whether this item's figures have a part (read while tests are collected)."""
    return bool(_family(item.family).get(item.name, {}).get(name))


def _each(items: list[Any]) -> Any:
    return pytest.mark.parametrize("item", [pytest.param(item, id=item.id) for item in items])


def _report(found: list[str]) -> None:
    assert not found, "\n" + "\n".join(found)


@_each([item for item in CASES if item.raises is None])
def test_values_gradients_and_shapes_are_tensorflows(item: Case) -> None:
    tf, figures = _module(), _figures(item)
    _inputs_are_those_recorded(item, figures)
    found = []
    shapes = {path: np.shape(value) for path, value in figures["outputs"].items()}
    for variant in item.variants:
        theirs = figures["shapes"][variant]
        if "error" in theirs:
            continue
        if variant == "unknown":
            built = build(tf, item, arrays_of(item), variant)
        else:
            built, values = observe(tf, item, variant, shapes)
            found += _value_differences(item, variant, figures, built, values)
        found += _static_shape_differences(tf, variant, figures, built)
    _report(found)


def _inputs_are_those_recorded(item: Case, figures: dict[str, Any]) -> None:
    for name, array in arrays_of(item).items():
        changed = differences(f"input {name}", figures["inputs"].get(name), array, 0.0, 0.0)
        assert not changed, f"{item.id} has changed since it was recorded; record it: {changed}"


def _value_differences(
    item: Case, variant: str, figures: dict[str, Any], built: Built, values: dict[str, Any]
) -> list[str]:
    found = []
    for section in ("outputs", "gradients", "second"):
        expected, ours = figures[section], values[section]
        for key in sorted({*expected, *ours}):
            label = f"{variant}: {section} {key}"
            if (key in expected) != (key in ours):
                which = "TensorFlow" if key in expected else "Millrace"
                found.append(f"{label}: only {which} has one")
                continue
            found += differences(label, expected[key], ours[key], item.rtol, item.atol)
    kinds = {n: kind for n, (kind, _) in built.gradients.items()}
    if kinds != figures["kinds"]["gradients"]:
        found.append(f"gradients are {kinds}, TensorFlow's are {figures['kinds']['gradients']}")
    return found


def _static_shape_differences(
    tf: Any, variant: str, figures: dict[str, Any], built: Built
) -> list[str]:
    found = []
    tensors = {path: leaf for path, leaf in built.outputs if isinstance(leaf, tf.Tensor)}
    for path, expected in figures["shapes"][variant].items():
        if path not in tensors:
            found.append(f"{variant}: output {path} is missing")
            continue
        value = figures["outputs"].get(path)
        actual = None if value is None else value.shape
        label = f"{variant}: output {path}"
        found += shape_differences(label, expected, static_shape(tensors[path]), actual)
    return found


@_each([item for item in CASES if _stored("names", item)])
def test_outputs_have_tensorflows_names_and_op_types(item: Case) -> None:
    """What one op makes has its very name; what several make has the name of their scope."""
    expected = _figures(item)["names"]
    ours = node_names(build(_module(), item, arrays_of(item), "known"))
    found = []
    for path, (name, op_type) in expected.items():
        if op_type in ("Merge", "Exit", "IdentityN"):
            continue  # Millrace builds If and While; custom gradients need no IdentityN there.
        mine, my_type = ours.get(path, ["nothing", ""])
        scope, separator, _ = name.partition("/")
        if separator and re.split("[/:]", mine)[0] != scope:
            found.append(f"output {path}: {mine} is not in TensorFlow's scope, {scope}/")
        if not separator and [mine, my_type] != [name, op_type]:
            found.append(f"output {path}: {mine}, a {my_type}; TensorFlow's is {name}, a {op_type}")
    _report(found)


@_each([item for item in CASES if _stored("numeric", item)])
def test_gradients_agree_with_numeric_differentiation(item: Case) -> None:
    figures = _figures(item)
    shapes = {path: np.shape(value) for path, value in figures["outputs"].items()}
    _report(numeric_differences(_module(), item, figures["numeric"], shapes))


@_each([item for item in CASES if item.raises is not None])
def test_errors_are_tensorflows(item: Case) -> None:
    expected = _figures(item)["error"]
    assert item.raises is not None
    stage, error = observe_error(_module(), item)
    names = [kind.__name__ for kind in type(error).__mro__]
    found = []
    if item.raises.error not in names:
        found.append(f"raised {type(error).__name__}, not {item.raises.error}: {error}")
    if stage != expected["stage"]:
        found.append(f"raised at {stage} time, TensorFlow raises at {expected['stage']} time")
    found += [
        f"{word!r} is not in: {error}" for word in item.raises.words if word not in str(error)
    ]
    if found:
        found.append(f"TensorFlow says: {expected['message']}")
    _report(found)


@_each(SCENARIOS)
def test_scenarios_go_as_in_tensorflow(item: Scenario) -> None:
    expected = _figures(item)["diary"]
    ours = within_deadline(lambda: play(_module(), item)).diary
    found = []
    if [e["kind"] for e in expected] != [e["kind"] for e in ours]:
        found.append(f"entries {[e['kind'] for e in ours]}: not those recorded; record it again")
    for number, (theirs, mine) in enumerate(zip(expected, ours, strict=False)):
        label = f"step {number}"
        if theirs["kind"] == "note" and theirs["note"] != mine.get("note"):
            found.append(f"{label}: {mine.get('note')!r}, TensorFlow's is {theirs['note']!r}")
        if theirs["kind"] != "values" or mine["kind"] != "values":
            continue
        if list(theirs["values"]) != list(mine["values"]):
            found.append(f"{label}: parts {list(mine['values'])}, not {list(theirs['values'])}")
            continue
        for path, value in theirs["values"].items():
            mine_value = mine["values"][path]
            found += differences(label + path, value, mine_value, item.rtol, item.atol)
    _report(found)


@_each([item for item in CASES if _stored("replay", item)])
def test_tensorflows_own_graph_gives_the_same_values(item: Case) -> None:
    _report(replay_case(_module(), item, _figures(item)))


@_each([item for item in SCENARIOS if _stored("graph", item)])
def test_tensorflows_own_graph_plays_the_same_scenario(item: Scenario) -> None:
    _report(within_deadline(lambda: replay_scenario(_module(), item, _figures(item))))


@pytest.mark.parametrize("family", LIBRARY.families())
def test_every_case_has_figures_and_every_figure_a_case(family: str) -> None:
    declared = {item.name for item in [*CASES, *SCENARIOS] if item.family == family}
    assert declared == set(_family(family)), "record the family again, see README.md"
