"""Python functions as operations; error classes and texts are those of TensorFlow 2.21."""

import gc

import numpy as np
import pytest

import millrace as tf
from millrace.ops.functions import py_func as module


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def test_a_function_gets_arrays_scalars_and_bytes(session):
    seen = []

    def remember(*arguments):
        seen.extend(arguments)
        return np.float32(0)

    inputs = [tf.constant(1.5), tf.constant(["a", "b"]), tf.constant("z"), tf.constant([[1, 2]])]
    session.run(tf.py_func(remember, inputs, tf.float32))
    number, texts, text, matrix = seen
    assert isinstance(number, np.float32) and number == 1.5
    assert texts.tolist() == [b"a", b"b"] and text == b"z"
    assert matrix.dtype == np.int32 and matrix.tolist() == [[1, 2]]


def test_a_function_may_change_its_arguments_and_keep_its_results(session):
    kept = np.zeros(2, np.float32)

    def change(x):
        x[0] = 9
        kept[:] = x
        return kept

    x = tf.placeholder(tf.float32, [2])
    fed = np.array([1.0, 2.0], np.float32)
    result = session.run(tf.py_func(change, [x], tf.float32), {x: fed})
    kept[:] = 0
    assert fed.tolist() == [1, 2] and result.tolist() == [9, 2]
    doubled = tf.py_func(change, [x * 2.0], tf.float32)
    assert session.run(doubled, {x: fed}).tolist() == [9, 4]


@pytest.mark.parametrize(
    ("returned", "types", "expected"),
    [
        ("hé", tf.string, "hé".encode()),
        (b"hey", tf.string, b"hey"),
        (np.array(["a", "bcd"]), tf.string, [b"a", b"bcd"]),
        (["a", "b"], [tf.string, tf.string], [b"a", b"b"]),
        ((1.0, True), [tf.float64, tf.bool], [1.0, True]),
        ([[1.0, 2.0]], [tf.float64], [[1.0, 2.0]]),
        (None, [], None),
    ],
)
def test_results_become_tensors(session, returned, types, expected):
    result = session.run(tf.py_func(lambda: returned, [], types))
    if isinstance(result, list):
        result = [np.asarray(value).tolist() for value in result]
    elif isinstance(result, np.ndarray):
        result = result.tolist()
    assert result == expected


@pytest.mark.parametrize(
    ("returned", "types", "message"),
    [
        (np.int64(3), tf.float32, r"0-th value returned by pyfunc_\d+ is int64, but expects float"),
        (3.5, tf.float32, r"is double, but expects float"),
        ((1.0, 2.0), tf.float64, r"pyfunc_\d+ returns 2 values, but expects to see 1 values."),
        (None, tf.float64, r"returns 0 values, but expects to see 1 values."),
    ],
)
def test_results_of_other_types_are_refused(session, returned, types, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        session.run(tf.py_func(lambda: returned, [], types))


def test_an_object_that_is_no_array_is_refused(session):
    with pytest.raises(tf.errors.InternalError, match="Unsupported object type object"):
        session.run(tf.py_func(object, [], tf.float64))


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("boom"), tf.errors.InvalidArgumentError),
        (TypeError("boom"), tf.errors.InvalidArgumentError),
        (StopIteration("boom"), tf.errors.OutOfRangeError),
        (MemoryError("boom"), tf.errors.ResourceExhaustedError),
        (NotImplementedError("boom"), tf.errors.UnimplementedError),
        (KeyError("boom"), tf.errors.UnknownError),
        (tf.errors.OutOfRangeError(None, None, "boom"), tf.errors.UnknownError),
    ],
)
def test_exceptions_become_errors_that_tell_where_they_came_from(session, raised, expected):
    def fail():
        raise raised

    with pytest.raises(expected) as caught:
        session.run(tf.py_func(fail, [], tf.float32))
    assert f"{type(raised).__name__}: " in caught.value.message
    assert "boom" in caught.value.message and "in fail" in caught.value.message


def test_a_stateful_function_is_called_in_every_step(session):
    calls = []
    count = tf.py_func(lambda: calls.append(1) or len(calls), [], tf.int64)
    assert [session.run(count) for _ in range(3)] == [1, 2, 3]
    assert count.op.type == "PyFunc"
    stateless = tf.py_func(lambda: 1, [], tf.int64, stateful=False)
    assert stateless.op.type == "PyFuncStateless"


def test_a_function_lives_as_long_as_its_graph(until):
    with tf.Graph().as_default():
        token = tf.py_func(lambda: 1, [], tf.int64).op.get_attr("token").decode()
        gc.collect()
        assert token in module._functions
    # A collector that another thread has begun does nothing more when it is called.
    until(lambda: gc.collect() is not None and token not in module._functions)


def test_a_token_that_nobody_registered_is_told(session):
    result = tf.raw_ops.PyFunc(input=[], token="pyfunc_of_another_process", Tout=[tf.int64])
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Could not find callback with key=pyfunc_of_another_process in the registry",
    ):
        session.run(result)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ValueError, match="Expected func to be callable"):
        tf.py_func(3, [], tf.float32)
