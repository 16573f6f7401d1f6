"""Rules that every pass keeps, and that the tables are what the documentation shows."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

import millrace as tf
from millrace.passes import pipeline
from millrace.passes.node import Program, Setting
from millrace.passes.partitions import split
from millrace.runtime.compilable import compilable
from tests.unit.passes import programs

ROOT = pathlib.Path(__file__).parents[3]
TASK = Setting(compilable=compilable)


def given_to_passes(
    make: Callable[[], Program],
) -> list[tuple[pipeline.Pass, Program]]:
    """Each pass with each program that it is given on the way of one, over a whole cluster."""
    found: list[tuple[pipeline.Pass, Program]] = []
    program = make().with_setting(programs.CLUSTER)
    for each in pipeline.CLUSTER:
        found.append((each, program))
        program = each(program)
    for partition in split(program).values():
        program = partition.program.with_setting(TASK)
        for each in pipeline.TASK:
            found.append((each, program))
            program = each(program)
    return found


@pytest.fixture(params=programs.PROGRAMS, ids=lambda make: make.__name__)
def made(request: pytest.FixtureRequest) -> list[tuple[pipeline.Pass, Program]]:
    with tf.Graph().as_default():
        return given_to_passes(request.param)


def test_no_pass_changes_what_it_is_given(made):
    for each, program in made:
        before, nodes = programs.text_of(program), list(program.nodes)
        each(program)
        assert programs.text_of(program) == before, each.__name__
        assert program.nodes == nodes


def test_a_pass_gives_the_same_result_twice_wherever_the_nodes_lie_in_memory(made):
    for each, program in made:
        wanted = programs.text_of(each(program))
        for seed in (1, 2):
            again = each(programs.elsewhere(program, seed))
            assert programs.text_of(again) == wanted, each.__name__


def test_a_pass_finds_nothing_to_do_in_its_own_result(made):
    for each, program in made:
        once = each(program)
        assert programs.text_of(each(once)) == programs.text_of(once), each.__name__


def test_between_them_the_programs_give_every_pass_something_to_do():
    idle = {*pipeline.CLUSTER, *pipeline.TASK}
    for make in programs.PROGRAMS:
        with tf.Graph().as_default():
            for each, program in given_to_passes(make):
                if each(program) is not program:
                    idle.discard(each)
    # It is for what a master of TensorFlow has cut: see test_constants.py.
    assert idle == {pipeline.bind_waiting_constants}


def test_the_tables_of_the_documentation_are_those_of_the_code():
    tool = [sys.executable, str(ROOT / "docs" / "tools" / "pass_tables.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
