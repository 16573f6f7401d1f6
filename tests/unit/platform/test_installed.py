"""JAX's questions about installed packages: quick answers, and the same as Python's."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from millrace.platform import installed

PLUGINS = {"group": "jax_plugins"}


def ask_as_jax():
    """What JAX would be told of the packages."""
    scope = {"__name__": "jax._src.somewhere", "metadata": importlib.metadata}
    return eval("list(metadata.distributions())", scope)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of the path, in which `package` describes a package."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))

    def package(name, points=""):
        described = tmp_path / f"{name.replace('-', '_')}-1.0.dist-info"
        described.mkdir()
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if points:
            (described / "entry_points.txt").write_text(points)

    return package


def test_where_no_plugin_is_installed_jax_is_told_so_at_once(folder):
    folder("other", "[console_scripts]\nother = other:main\n")
    with installed.quick_answers():
        assert ask_as_jax() == []
        assert list(importlib.metadata.entry_points(**PLUGINS)) == []


def test_a_plugin_that_is_installed_is_found(folder):
    folder("jax-rocm7-plugin", "[jax_plugins]\nrocm = jax_plugins.rocm\n")
    folder("other")
    with installed.quick_answers():
        assert {each.name for each in ask_as_jax()} == {"jax-rocm7-plugin", "other"}
        (found,) = importlib.metadata.entry_points(**PLUGINS)
        assert found.value == "jax_plugins.rocm"


def test_questions_of_others_are_answered_as_ever(folder):
    folder("other", "[console_scripts]\nother = other:main\n")
    with installed.quick_answers():
        assert [each.name for each in importlib.metadata.distributions()] == ["other"]
        (found,) = importlib.metadata.entry_points(group="console_scripts")
        assert found.name == "other"


def test_where_packages_come_from_elsewhere_too_python_answers(folder, monkeypatch):
    class Finder:
        def find_distributions(self, context=None):
            return ()

    folder("other")
    sys.meta_path.append(Finder())
    with installed.quick_answers():
        assert [each.name for each in ask_as_jax()] == ["other"]


def test_afterwards_all_is_as_before(folder):
    before = importlib.metadata.distributions, importlib.metadata.entry_points
    with installed.quick_answers():
        pass
    assert before == (importlib.metadata.distributions, importlib.metadata.entry_points)
