"""Private interfaces of JAX: in one module, each with a public way, told when they are off."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.compiler import private
from millrace.compiler.xla import jax, jnp
from millrace.platform import logging

PACKAGE = Path(private.__file__).parents[1]


def test_the_installed_release_is_known():
    """When this fails: add it to `private.RELEASES`, and see whether this folder passes."""
    assert private.release() in private.RELEASES


def test_no_other_module_imports_private_parts_of_jax():
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == Path(private.__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [f"{path.name}: {n}" for n in names if n.startswith(("jax._", "jaxlib."))]
    assert found == []


@pytest.fixture
def unknown(monkeypatch):
    """A release that nobody has tried."""
    monkeypatch.setattr(private.jaxlib, "__version__", "0.99.1")


def test_an_unknown_release_goes_the_public_way(unknown):
    assert not any(private.knows(name) for name in private.INTERFACES)
    assert private._array_class() is jax.Array
    assert isinstance(jnp.zeros(2), private._array_class())
    assert private.client_exists()  # so nobody changes the number of its threads
    assert private.disabled_passes() is None
    assert private.arguments_used(jax.jit(lambda x: x).lower(1.0)) is None


def test_what_is_off_is_told_once(unknown, monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda text, *rest: told.append(text % rest))
    private.tell_once.cache_clear()
    private.tell_once()
    private.tell_once()
    assert len(told) == 1
    assert "0.99.1" in told[0] and "they are XLA's own" in told[0]


def test_a_known_release_says_nothing(monkeypatch):
    told = []
    monkeypatch.setattr(logging, "warning", lambda *text: told.append(text))
    private.tell_once.cache_clear()
    private.tell_once()
    assert told == []


PROGRAM = """
import millrace as tf
from millrace.compiler import xla, onednn
x = tf.ones([2, 8, 8, 3])
w = tf.Variable(tf.ones([3, 3, 3, 4]))
loss = tf.reduce_mean(tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"))
train = tf.train.AdamOptimizer(0.5).minimize(loss)
noise = tf.random_uniform([3], seed=7)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    sess.run(train)
    print(xla.JOINS_LOOPS, onednn.unreachable_because() is None, *sess.run(noise).round(4),
          sess.run(loss).round(3))
"""


def test_without_any_private_interface_programs_give_the_same():
    def said(word):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "MILLRACE_PRIVATE_JAX": word},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    public = said("off")
    assert public[:2] == ["False", "False"]
    assert public[2:] == said("on")[2:]
