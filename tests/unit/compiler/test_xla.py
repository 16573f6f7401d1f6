"""How programs are compiled: quickly, where this XLA can and nobody says otherwise."""

from __future__ import annotations

import pytest

from millrace.compiler import private, xla


@pytest.fixture
def quickly(monkeypatch):
    """What programs would be compiled with, given flags of the user and a jaxlib's version."""

    def found(flags="", version="0.10.2", **more):
        monkeypatch.setenv("XLA_FLAGS", flags)
        monkeypatch.setattr(private.jaxlib, "__version__", version)
        monkeypatch.setattr(xla, "_QUICKLY", {**xla._QUICKLY, **more})
        return set(xla._compiled_quickly.__wrapped__())

    return found


def test_programs_are_compiled_with_the_emitters_that_take_less_time(quickly):
    wanted = {"xla_cpu_use_fusion_emitters", "xla_cpu_parallel_codegen_split_count"}
    assert quickly() == wanted


def test_what_the_user_says_of_the_compiler_holds(quickly):
    found = quickly("--xla_cpu_use_fusion_emitters=true")
    assert found == {"xla_cpu_parallel_codegen_split_count"}


def test_options_that_a_later_compiler_does_not_know_are_left_out(quickly):
    found = quickly(version="7.0.0", xla_cpu_option_of_yesterday=True)
    assert "xla_cpu_option_of_yesterday" not in found
    assert "xla_cpu_parallel_codegen_split_count" in found


def test_a_program_compiled_quickly_computes_and_takes_over_what_is_donated():
    add = xla.compiled(lambda x, y: x + y, donate_argnums=(0,))
    before = xla.jnp.ones([3])
    assert add(before, 2.0).tolist() == [3.0, 3.0, 3.0]
    assert before.is_deleted()


def test_programs_that_write_in_place_have_the_emitters_whose_loops_are_quicker(monkeypatch):
    monkeypatch.setattr(xla, "_compiled_quickly", lambda: {xla._EMITTERS: False, "other": 1})
    asked = []
    monkeypatch.setattr(xla.jax, "jit", lambda function, **said: asked.append(said))
    xla.compiled(abs)
    xla.compiled(abs, donate_argnums=(0,))
    assert [said["compiler_options"] for said in asked] == [
        {xla._EMITTERS: False, "other": 1},
        {"other": 1},
    ]
