"""Op types that apply gradients. (Their numbers are compared with TensorFlow's in tests/parity.)"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.compiler.xla import jax, jnp
from millrace.core import errors
from millrace.graph import registry
from millrace.ops.state import training_ops

FORMS = [
    definition.name
    for definition in registry.all_definitions()
    if "Apply" in definition.name and definition.kernel.__module__ == training_ops.__name__
]
SPARSE_FORMS = [name for name in FORMS if "Sparse" in name]


def variables_and_arguments(name: str, rows: int = 4) -> tuple[list[Any], dict[str, Any]]:
    """Variables for an op type's references or handles, and numbers for its other inputs."""
    variables: list[Any] = []
    arguments: dict[str, Any] = {}
    for arg in registry.lookup(name).signature.inputs:
        by_handle = arg.dtype is not None and arg.dtype.name == "resource"
        if arg.is_ref or by_handle:
            variable = tf.Variable(np.ones((rows, 2), np.float32), use_resource=by_handle)
            variables.append(variable)
            arguments[arg.name] = variable.handle if by_handle else variable._ref()
        elif arg.name == "global_step":
            arguments[arg.name] = tf.constant(1, tf.int64)
        elif arg.name == "lr_power":
            arguments[arg.name] = tf.constant(-0.5)
        elif arg.name not in ("grad", "delta", "indices"):
            arguments[arg.name] = tf.constant(0.5)
    return variables, arguments


@pytest.mark.parametrize("name", SPARSE_FORMS)
def test_a_sparse_update_is_the_dense_one_on_its_rows_in_order(name: str) -> None:
    rng = np.random.default_rng(7)
    gradient = rng.normal(size=(3, 2)).astype(np.float32)
    sparse, arguments = variables_and_arguments(name)
    update = registry.lookup(name).operation(grad=gradient, indices=[2, 0, 2], **arguments)
    dense_name = name.replace("Sparse", "")
    dense, dense_arguments = variables_and_arguments(dense_name)
    grad = tf.placeholder(tf.float32, [4, 2])
    key = "delta" if dense_name.endswith("GradientDescent") else "grad"
    dense_update = registry.lookup(dense_name).operation(**{key: grad}, **dense_arguments)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(update)
        found = session.run(sparse)
        expected = [np.ones((4, 2), np.float32) for _ in dense]
        for row, part in zip([2, 0, 2], gradient, strict=True):
            for variable, value in zip(dense, expected, strict=True):
                variable.load(value, session)
            session.run(dense_update, {grad: np.tile(part, (4, 1))})
            for value, changed in zip(expected, session.run(dense), strict=True):
                value[row] = changed[row]
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)


def test_a_row_may_repeat_more_often_than_the_table_has_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_ops, "_MAX_TABLE", 2)
    table = tf.Variable(np.zeros((5, 1), np.float32))
    accum = tf.Variable(np.zeros((5, 1), np.float32))
    indices = [0, 2, 4, 2, 2, 1, 0]
    gradient = np.arange(1, 8, dtype=np.float32).reshape(-1, 1)
    update = training_ops.SparseApplyMomentum(
        table._ref(), accum._ref(), 1.0, gradient, indices, 0.5
    )
    expected, velocity = np.zeros(5), np.zeros(5)
    for i, g in zip(indices, gradient[:, 0], strict=True):
        velocity[i] = velocity[i] * 0.5 + g
        expected[i] -= velocity[i]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(update)[:, 0], expected, rtol=1e-6)


def test_no_rows_change_nothing() -> None:
    table = tf.Variable(np.ones((3, 2), np.float32))
    accum = tf.Variable(np.ones((3, 2), np.float32))
    update = training_ops.SparseApplyAdagrad(
        table._ref(), accum._ref(), 1.0, np.zeros((0, 2), np.float32), np.zeros(0, np.int32)
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(update), np.ones((3, 2)))


def test_a_sparse_update_makes_nothing_of_the_size_of_the_table() -> None:
    rows, width, count = 20_000, 64, 32

    class Ref:
        def __init__(self, value: Any) -> None:
            self.value = value

        def read(self) -> Any:
            return self.value

        def write(self, value: Any) -> None:
            self.value = value

    def step(table: Any, accum: Any, gradient: Any, indices: Any) -> Any:
        refs = Ref(table), Ref(accum)
        source = SimpleNamespace(node=SimpleNamespace(type="Placeholder", inputs=[]), index=0)
        node = SimpleNamespace(attrs={"update_slots": True}, inputs=[source] * 5)
        training_ops._update_rows(
            training_ops._adagrad,
            [*refs, np.float32(0.1), gradient, indices],
            node,
            lambda *_: None,
        )
        return refs[0].value, refs[1].value

    shapes = [
        jax.ShapeDtypeStruct((rows, width), jnp.float32),
        jax.ShapeDtypeStruct((rows, width), jnp.float32),
        jax.ShapeDtypeStruct((count, width), jnp.float32),
        jax.ShapeDtypeStruct((count,), jnp.int32),
    ]
    program = jax.jit(step, donate_argnums=(0, 1)).lower(*shapes).compile()
    memory = program.memory_analysis()
    table_bytes = rows * width * 4
    assert memory.alias_size_in_bytes == 2 * table_bytes
    assert memory.temp_size_in_bytes < table_bytes / 4


def test_shapes_that_do_not_fit_are_refused(graph: tf.Graph) -> None:
    table = tf.Variable(np.ones((3, 2), np.float32))
    other = tf.Variable(np.ones((4, 2), np.float32))
    unknown = tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match="Dimension 0 in both shapes must be equal"):
        training_ops.ApplyAdagrad(table._ref(), other._ref(), 0.1, np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        training_ops.ApplyGradientDescent(table._ref(), [0.1], np.ones((3, 2), np.float32))
    with pytest.raises(ValueError, match="Dimension 1 in both shapes must be equal"):
        training_ops.SparseApplyProximalGradientDescent(
            table._ref(), 0.1, 0.0, 0.0, np.ones((1, 3), np.float32), [0]
        )
    dense = training_ops.ApplyGradientDescent(table._ref(), 0.1, unknown)
    sparse = training_ops.SparseApplyProximalGradientDescent(
        table._ref(), 0.1, 0.0, 0.0, unknown, [0]
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(errors.InvalidArgumentError, match="do not have the same shape"):
            session.run(dense, {unknown: np.ones((2, 2))})
        with pytest.raises(errors.InvalidArgumentError, match=r"grad must have the shape \[1,2\]"):
            session.run(sparse, {unknown: np.ones((2, 2))})
        np.testing.assert_array_equal(session.run(table), np.ones((3, 2)))


def test_an_uninitialized_slot_is_named() -> None:
    table = tf.Variable(np.ones((3, 2), np.float32), name="table")
    slot = tf.Variable(np.ones((3, 2), np.float32), name="slot")
    update = training_ops.ApplyAdagrad(table._ref(), slot._ref(), 0.1, np.ones((3, 2), np.float32))
    with tf.Session() as session:
        session.run(table.initializer)
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized value slot"):
            session.run(update)
