"""Optimizers' updates are one loop a variable, in place, with the numbers of the plain rule."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from millrace.compiler import one_pass
from millrace.compiler.xla import JOINING_LOOPS, JOINS_LOOPS, jax, jnp
from millrace.ops.state import training_ops
from millrace.ops.state.training_ops import _Algorithm

ALGORITHMS = {
    found.name: found for found in vars(training_ops).values() if isinstance(found, _Algorithm)
}
#: As many elements in different shapes: loops of different variables must not be mixed up.
SHAPES = [(60,), (6, 10), (1, 60), (60, 1), (2, 3), ()]


def hyperparameters(algorithm):
    given = {
        name: np.int64(3) if name == "global_step" else np.float32(0.3)
        for name in algorithm.inputs
        if name != algorithm.gradient
    }
    return given | dict.fromkeys(algorithm.flags, True)


def inputs(algorithm):
    random = np.random.default_rng(0)
    # Under a root, a slot is subtracted from the next.
    values = [
        [np.asarray(random.random(shape) + 1 + i**3, np.float32) for i in range(count)]
        for shape in SHAPES
        for count in [len(algorithm.variables)]
    ]
    gradients = [np.asarray(random.standard_normal(shape), np.float32) for shape in SHAPES]
    return values, gradients


def program(algorithm, active):
    hyper = hyperparameters(algorithm)

    def update(values, gradients):
        with one_pass.tracing(active):
            return [
                list(one_pass.apply(algorithm.rule, gradient, own, hyper))
                for own, gradient in zip(values, gradients, strict=True)
            ]

    options = JOINING_LOOPS if active else None
    return jax.jit(update, donate_argnums=0, compiler_options=options)


def check(algorithm):
    values, gradients = inputs(algorithm)
    wanted = program(algorithm, False)(jax.tree.map(jnp.array, values), gradients)
    compiled = program(algorithm, True).lower(values, gradients).compile()
    found = compiled(jax.tree.map(jnp.array, values), gradients)
    for mine, plain in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(mine, plain, rtol=1e-6, atol=1e-7)
    text = compiled.as_text()
    main = text[text.index("\nENTRY") :]
    assert main.count(" fusion(") <= len(SHAPES), main
    assert " copy(" not in main, main


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_update_is_one_loop_a_variable_and_copies_nothing(name):
    assert JOINS_LOOPS
    check(ALGORITHMS[name])


def test_the_same_with_the_compiler_as_users_have_it():
    # The tests' own settings (conftest.py) choose other parts of the compiler.
    names = ("Adam", "Adadelta")
    text = (
        "import runpy, sys; kit = runpy.run_path(sys.argv[1]); "
        f"[kit['check'](kit['ALGORITHMS'][name]) for name in {names}]"
    )
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    subprocess.run([sys.executable, "-c", text, __file__], check=True, env=environment)


def test_what_was_set_for_the_compiler_is_not_handed_on_to_other_processes():
    assert "multi_output_fusion" not in os.environ.get("XLA_FLAGS", "")


@pytest.mark.parametrize(
    "flags", ["--xla_disable_hlo_passes=dce", "--xla_backend_extra_options=xla_cpu_x=1"]
)
def test_what_the_user_says_of_the_compiler_holds(flags):
    text = (
        "from millrace.compiler.xla import JOINS_LOOPS; import os; print(JOINS_LOOPS, os.environ"
        "['XLA_FLAGS'])"
    )
    said = subprocess.run(
        [sys.executable, "-c", text],
        check=True,
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == ["False", flags]
