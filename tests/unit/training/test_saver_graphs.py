"""The nodes of a Saver are those that TensorFlow makes, by name, type, inputs and device."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import millrace as tf


def _load() -> Any:
    path = Path(__file__).parent / "saver_graphs" / "programs.py"
    spec = importlib.util.spec_from_file_location("saver_graph_programs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


programs = _load()
RECORDED = json.loads(programs.RECORDED.read_text())


@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda p: p.__name__)
def test_the_nodes_of_a_saver_are_tensorflows(program: Any) -> None:
    found, wanted = programs.nodes(tf, program), RECORDED[program.__name__]
    assert list(found) == list(wanted)
    for name, node in wanted.items():
        assert found[name] == node, name
