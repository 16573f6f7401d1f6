"""Programs that are compiled before they are called, and stand for others that do the same."""

from __future__ import annotations

import threading
from typing import Any

import jax
import numpy as np
import pytest

from millrace.runtime.compile_ahead import Programs

ROW = jax.ShapeDtypeStruct((3,), np.dtype(np.float32))


def same(_: Any) -> Any:
    return ()


def double(a: Any, b: Any) -> Any:
    return a * 2


def test_the_same_program_is_compiled_once() -> None:
    programs = Programs()
    first, second = jax.jit(lambda a, b: a * 2), jax.jit(lambda a, b: a * 2)
    assert programs.compile(first, (ROW, ROW), same) is first
    assert programs.compile(second, (ROW, ROW), same) is first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda a, b: a * 2, lambda a, b: a * 3),
        # JAX leaves unused arguments out of a program: both are "twice the argument".
        (lambda a, b: a * 2, lambda a, b: b * 2),
        (lambda a, b: a + np.float32([1, 2, 3]), lambda a, b: a + np.float32([1, 2, 4])),
        (lambda a, b: (a, [b]), lambda a, b: ([a], b)),
    ],
)
def test_programs_that_differ_do_not_stand_for_each_other(one: Any, other: Any) -> None:
    programs = Programs()
    first, second = jax.jit(one), jax.jit(other)
    first_known = programs.compile(first, (ROW, ROW), jax.tree.structure)
    second_known = programs.compile(second, (ROW, ROW), jax.tree.structure)
    assert first_known is first
    assert second_known is second


def test_programs_that_donate_differently_do_not_stand_for_each_other() -> None:
    programs = Programs()
    first, second = jax.jit(double), jax.jit(lambda a, b: a * 2, donate_argnums=(0,))
    second.__wrapped__.__name__ = "double"
    programs.compile(first, (ROW, ROW), same)
    assert programs.compile(second, (ROW, ROW), same) is second


def test_what_the_notes_tell_apart_is_not_the_same() -> None:
    programs = Programs()
    first, second, third = (jax.jit(lambda a, b: a * 2) for _ in range(3))
    programs.compile(first, (ROW, ROW), lambda _: 1)
    assert programs.compile(second, (ROW, ROW), lambda _: 2) is second
    assert programs.compile(third, (ROW, ROW), lambda _: None) is third


def test_threads_that_ask_at_once_get_one_program() -> None:
    programs = Programs()
    found: list[Any] = []
    gate = threading.Barrier(4)

    def ask() -> None:
        program = jax.jit(lambda a, b: a * 2)
        gate.wait(60)
        found.append(programs.compile(program, (ROW, ROW), same))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({id(program) for program in found}) == 1


def test_a_program_that_cannot_be_compiled_keeps_nobody_waiting() -> None:
    programs = Programs()

    def fail(a: Any, b: Any) -> Any:
        raise ValueError("not this one")

    for _ in range(2):
        with pytest.raises(ValueError, match="not this one"):
            programs.compile(jax.jit(fail), (ROW, ROW), same)
