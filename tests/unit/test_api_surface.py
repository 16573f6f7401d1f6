"""The public namespace has every name that it promises, and facades define nothing."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import Any

import pytest

import millrace as tf

_NAMES = [
    line
    for line in (Path(__file__).parent / "api_names.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
_PACKAGE = Path(tf.__file__).parent
#: Files at the top of the package that are programs, not namespaces.
_PROGRAMS = {"__main__"}
_FACADES = sorted(path.stem for path in _PACKAGE.glob("*.py") if path.stem not in _PROGRAMS)


def resolve(name: str, root: Any = tf) -> Any:
    found = root
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", _NAMES)
def test_a_promised_name_resolves(name: str) -> None:
    resolve(name)


def test_the_list_is_sorted_and_long() -> None:
    assert sorted(set(_NAMES)) == _NAMES
    assert len(_NAMES) > 1000


def test_compat_v1_is_the_same_namespace() -> None:
    assert tf.compat.v1.Session is tf.Session
    assert tf.compat.v1.compat.v1.nn is tf.nn
    assert set(dir(tf)) <= set(dir(tf.compat.v1))
    module = importlib.import_module("millrace.compat.v1")
    assert module.train is tf.train
    with pytest.raises(AttributeError, match="millrace.compat.v1.*no_such_name"):
        _ = tf.compat.v1.no_such_name


def test_compat_v2_has_what_means_the_same() -> None:
    assert tf.compat.v2.VariableAggregation is tf.VariableAggregation
    assert callable(tf.compat.v2.nn.safe_embedding_lookup_sparse)
    with pytest.raises(AttributeError, match="TensorFlow 1's interface"):
        _ = tf.compat.v2.summary


def test_versions_say_whose_interface_and_whose_program_it_is() -> None:
    assert tf.VERSION == tf.version.VERSION == "1.15.0"
    assert tf.__version__ == tf.VERSION
    assert tf.GIT_VERSION == tf.__git_version__ == f"millrace-{tf.version.MILLRACE}"


@pytest.mark.parametrize("name", _FACADES)
def test_a_facade_only_re_exports(name: str) -> None:
    """Functions and classes belong into the folders; a namespace is a list of imports."""
    tree = ast.parse((_PACKAGE / f"{name}.py").read_text())
    defined = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    # Except one whose names are made from a table when they are asked for.
    assert not defined or "__getattr__" in defined


@pytest.mark.parametrize("name", _FACADES)
def test_the_names_that_a_facade_lists_exist(name: str) -> None:
    module = tf if name == "__init__" else importlib.import_module(f"millrace.{name}")
    for listed in getattr(module, "__all__", ()):
        assert hasattr(module, listed), f"millrace.{name} lists {listed}"


def test_switches_to_what_is_not_there_say_so() -> None:
    tf.disable_v2_behavior()
    tf.disable_eager_execution()
    assert not tf.executing_eagerly()
    for switch in (tf.enable_v2_behavior, tf.enable_eager_execution, tf.enable_tensor_equality):
        with pytest.raises(tf.errors.UnimplementedError, match="as TensorFlow 1 does"):
            switch()
    with pytest.raises(tf.errors.NotFoundError, match="loads no C"):
        tf.load_op_library("ops.so")
