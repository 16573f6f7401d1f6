"""The op types that are, read and change variables, as nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import millrace as tf
from millrace.core import errors
from millrace.ops.state import variable_ops, variable_slices

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


class Table:
    """A 3×2 variable in one of its two forms, with a session in which it has a value."""

    def __init__(self, by_handle: bool) -> None:
        self.prefix = "Resource" if by_handle else ""
        self.by_handle = by_handle
        make = variable_ops.VarHandleOp if by_handle else variable_ops.VariableV2
        self.ref = make(shape=[3, 2], dtype=tf.float32, name="table")
        assign = variable_ops.AssignVariableOp if by_handle else variable_ops.Assign
        self.session = tf.Session()
        self.session.run(assign.operation(self.ref, ROWS))

    def read(self) -> np.ndarray:
        if not self.by_handle:
            return self.session.run(self.ref)
        return self.session.run(variable_ops.ReadVariableOp(self.ref, dtype=tf.float32))

    def change(self, name: str, *args: object, feed: object = None) -> np.ndarray:
        op = getattr(variable_slices, self.prefix + name)
        self.session.run(op.operation(self.ref, *args), feed)
        return self.read()


@pytest.fixture(params=[False, True], ids=["reference", "handle"])
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    made = Table(request.param)
    yield made
    made.session.close()


def test_a_value_read_earlier_does_not_change_with_the_variable(table: Table) -> None:
    before = table.read()
    table.change("ScatterAdd", [0, 1, 2], np.ones((3, 2), np.float32))
    np.testing.assert_array_equal(before, ROWS)
    np.testing.assert_array_equal(table.read(), ROWS + 1)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("Update", [[5, 6], [2, 3], [3, 4]]),
        ("Add", [[6, 9], [2, 3], [7, 9]]),
        ("Sub", [[-6, -7], [2, 3], [1, 1]]),
        ("Mul", [[0, 12], [2, 3], [12, 20]]),
        ("Div", [[0, 1 / 12], [2, 3], [4 / 3, 5 / 4]]),
        ("Min", [[0, 1], [2, 3], [3, 4]]),
        ("Max", [[5, 6], [2, 3], [4, 5]]),
    ],
)
def test_rows_that_repeat_are_combined_one_after_the_other(
    table: Table, kind: str, expected: list[list[float]]
) -> None:
    rows = table.change(f"Scatter{kind}", [0, 2, 0], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["Update", "Add", "Sub", "Mul", "Div", "Min", "Max"])
def test_a_row_out_of_range_is_named_and_writes_nothing(table: Table, kind: str) -> None:
    indices = tf.placeholder(tf.int32)
    op = getattr(variable_slices, f"{table.prefix}Scatter{kind}")
    change = op.operation(table.ref, indices, np.float32(7))
    for bad in (3, -1, 1 << 20):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            table.session.run(change, {indices: [[1, bad]]})
        assert f"indices[0,1] = {bad} is not in [0, 3)" in str(caught.value)
    np.testing.assert_array_equal(table.read()[[0, 2]], ROWS[[0, 2]])


def test_a_scalar_is_scattered_to_every_row(table: Table) -> None:
    rows = table.change("ScatterAdd", [0, 2], np.float32(10))
    np.testing.assert_array_equal(rows, ROWS + [[10], [0], [10]])


def test_updates_of_another_shape_fail_the_step(table: Table) -> None:
    updates = tf.placeholder(tf.float32)
    with pytest.raises(errors.InvalidArgumentError, match=r"got updates.shape \[2\]"):
        table.change("ScatterAdd", [0, 1], updates, feed={updates: [1.0, 2.0]})
    with pytest.raises(ValueError, match="Shapes must be equal rank, but are 1 and 2"):
        table.change("ScatterAdd", [0, 1], [1.0, 2.0])


def test_elements_are_scattered_by_coordinates(table: Table) -> None:
    rows = table.change("ScatterNdUpdate", [[0, 1], [2, 0]], [-1.0, -2.0])
    np.testing.assert_array_equal(rows, [[0, -1], [2, 3], [-2, 5]])
    rows = table.change("ScatterNdAdd", [[0, 1], [0, 1]], [1.0, 2.0])
    np.testing.assert_array_equal(rows, [[0, 2], [2, 3], [-2, 5]])
    rows = table.change("ScatterNdSub", [[1]], [[2.0, 2.0]])
    np.testing.assert_array_equal(rows, [[0, 2], [0, 1], [-2, 5]])


def test_coordinates_out_of_range_are_named_and_write_nothing(table: Table) -> None:
    indices = tf.placeholder(tf.int64)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        table.change("ScatterNdUpdate", indices, [9.0, 9.0], feed={indices: [[-1, 0], [2, 2]]})
    assert "indices[0] = [-1, 0] does not index into shape [3,2]" in str(caught.value)
    np.testing.assert_array_equal(table.read(), ROWS)


def test_a_strided_slice_is_replaced_and_its_value_broadcast(table: Table) -> None:
    rows = table.change("StridedSliceAssign", [0, 1], [3, 2], [2, 1], [[7.0]])
    np.testing.assert_array_equal(rows, [[0, 7], [2, 3], [4, 7]])
    with pytest.raises(errors.InvalidArgumentError, match=r"Cannot broadcast input shape \[3\]"):
        table.change("StridedSliceAssign", [0], [1], [1], [1.0, 2.0, 3.0])


def test_a_value_of_another_shape_is_not_assigned() -> None:
    table = Table(by_handle=False)
    value = tf.placeholder(tf.float32)
    with pytest.raises(errors.InvalidArgumentError) as caught:
        table.session.run(variable_ops.Assign(table.ref, value), {value: [1.0, 2.0]})
    assert (
        "Assign requires shapes of both tensors to match. lhs shape= [3,2] rhs shape= [2]"
        in str(caught.value)
    )
    np.testing.assert_array_equal(table.read(), ROWS)


def test_an_unvalidated_assignment_may_change_the_shape() -> None:
    variable = variable_ops.VariableV2(shape=tf.TensorShape(None), dtype=tf.float32)
    with tf.Session() as session:
        for value in ([1.0], [[1.0, 2.0]], 3.0):
            session.run(variable_ops.Assign(variable, value, validate_shape=False).op)
            np.testing.assert_array_equal(session.run(variable), value)


def test_an_addition_of_another_shape_fails_the_step(table: Table) -> None:
    delta = tf.placeholder(tf.float32)
    ops = (variable_ops.AssignAdd, variable_ops.AssignAddVariableOp)
    with pytest.raises(errors.InvalidArgumentError, match="must be the same size"):
        table.session.run(
            ops[table.by_handle].operation(table.ref, delta), {delta: [[1.0, 2.0], [3.0, 4.0]]}
        )


def test_strings_live_in_variables_on_the_host() -> None:
    reference = variable_ops.VariableV2(shape=[2], dtype=tf.string)
    handle = variable_ops.VarHandleOp(shape=[2], dtype=tf.string)
    with tf.Session() as session:
        assigned = variable_ops.Assign(reference, ["a", "b"])
        session.run(variable_ops.AssignVariableOp(handle, ["c", "d"]))
        assert session.run(assigned).tolist() == [b"a", b"b"]
        changed = variable_slices.ScatterUpdate(reference, [1], ["z"])
        read = variable_ops.ReadVariableOp(handle, dtype=tf.string)
        assert [v.tolist() for v in session.run([changed, read])] == [[b"a", b"z"], [b"c", b"d"]]
        assert session.run(reference).tolist() == [b"a", b"z"]
        assert session.run(variable_ops.VariableShape(handle)).tolist() == [2]


def test_rows_are_gathered_through_a_handle_and_bad_ones_named() -> None:
    table = Table(by_handle=True)
    indices = tf.placeholder(tf.int32)
    gathered = variable_slices.ResourceGather(table.ref, indices, dtype=tf.float32)
    np.testing.assert_array_equal(
        table.session.run(gathered, {indices: [[2, 0]]}), [[[4, 5], [0, 1]]]
    )
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[1\] = -1 is not in \[0, 3\)"):
        table.session.run(gathered, {indices: [0, -1]})
    elements = variable_slices.ResourceGatherNd(table.ref, indices, dtype=tf.float32)
    assert table.session.run(elements, {indices: [[2, 1], [0, 0]]}).tolist() == [5, 0]
    with pytest.raises(errors.InvalidArgumentError, match=r"indices\[0\] = \[3, 0\]"):
        table.session.run(elements, {indices: [[3, 0]]})


def test_a_handle_tells_shape_and_type_while_the_graph_is_built() -> None:
    handle = variable_ops.VarHandleOp(shape=[3, None], dtype=tf.float32)
    assert variable_ops.ReadVariableOp(handle, dtype=tf.float32).shape.as_list() == [3, None]
    assert variable_slices.ResourceGather(handle, [1], dtype=tf.float32).shape.as_list() == [
        1,
        None,
    ]
    with pytest.raises(ValueError, match="wrong dtype. Expected float32 got int32"):
        variable_ops.ReadVariableOp(handle, dtype=tf.int32)
    with pytest.raises(ValueError, match="Shapes must be equal rank, but are 2 and 1"):
        variable_ops.AssignVariableOp(handle, [1.0, 2.0])


def test_counting_stops_at_the_limit_with_out_of_range() -> None:
    counter = variable_ops.VariableV2(shape=[], dtype=tf.int64)
    with tf.Session() as session:
        session.run(variable_ops.Assign(counter, 0).op)
        count = variable_ops.CountUpTo(counter, limit=2)
        assert [session.run(count), session.run(count)] == [0, 1]
        with pytest.raises(errors.OutOfRangeError, match="Reached limit of 2"):
            session.run(count)
        assert session.run(counter) == 2


def test_a_variable_tells_whether_it_is_initialized() -> None:
    reference = variable_ops.VariableV2(shape=[], dtype=tf.float32)
    handle = variable_ops.VarHandleOp(shape=[], dtype=tf.float32)
    questions = [
        variable_ops.IsVariableInitialized(reference),
        variable_ops.VarIsInitializedOp(handle),
    ]
    with tf.Session() as session:
        assert session.run(questions) == [False, False]
        session.run(variable_ops.AssignVariableOp(handle, 1.0))
        assert session.run(questions) == [False, True]
        session.run(variable_ops.Assign(reference, 1.0).op)
        assert session.run(questions) == [True, True]
        session.run(variable_ops.DestroyResourceOp(handle))
        assert session.run(questions) == [True, False]
        with pytest.raises(errors.NotFoundError):
            session.run(variable_ops.DestroyResourceOp(handle, ignore_lookup_error=False))


def test_a_temporary_variable_gives_its_value_up() -> None:
    variable = variable_ops.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="sum")
    total = variable_ops.AssignAdd(variable_ops.Assign(variable, [1.0, 2.0]), [3.0, 3.0])
    value = variable_ops.DestroyTemporaryVariable(total, var_name="sum")
    with tf.Session() as session:
        assert session.run(value).tolist() == [4, 5]
        assert not session.run(variable_ops.IsVariableInitialized(variable))
        assert session.run(value).tolist() == [4, 5]


def test_reading_before_initialization_names_the_variable() -> None:
    variable = variable_ops.VariableV2(shape=[], dtype=tf.float32, name="weights")
    with (
        tf.Session() as session,
        pytest.raises(errors.FailedPreconditionError, match="uninitialized value weights"),
    ):
        session.run(variable_ops.AssignAdd(variable, 1.0))
