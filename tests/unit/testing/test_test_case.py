"""`tf.test.TestCase`: sessions, seeds, threads, and assertions that can fail."""

from __future__ import annotations

import collections
import sys
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf


def outcome(body: Callable[[Any], Any]) -> unittest.TestResult:
    """Runs a function as the one test of a `tf.test.TestCase`."""

    class OneTest(tf.test.TestCase):
        def test_body(self) -> None:
            body(self)

    result = unittest.TestResult()
    OneTest("test_body").run(result)
    return result


def passes(body: Callable[[Any], Any]) -> None:
    result = outcome(body)
    problems = [text for _, text in (*result.failures, *result.errors)]
    assert not problems, problems[0]
    assert result.testsRun == 1


def fails(body: Callable[[Any], Any], *words: str) -> None:
    result = outcome(body)
    assert not result.errors, result.errors[0][1]
    assert len(result.failures) == 1
    for word in words:
        assert word in result.failures[0][1]


# -- What a test starts with -----------------------------------------------------------------


def test_each_test_begins_with_an_empty_graph_and_the_same_seed() -> None:
    draws = []

    def body(case: Any) -> None:
        case.assertEqual(tf.get_default_graph().get_operations(), [])
        with case.session() as session:
            draws.append((session.run(tf.random_uniform([])), np.random.rand()))

    passes(body)
    passes(body)
    assert draws[0] == draws[1]


def test_a_default_graph_left_behind_by_a_failure_is_forgotten() -> None:
    left = tf.Graph().as_default()
    left.__enter__()
    passes(lambda case: case.assertEqual(tf.get_default_graph().version, 0))


def test_the_temporary_folder_goes_with_the_test() -> None:
    folders = []

    def body(case: Any) -> None:
        folder = Path(case.get_temp_dir())
        assert folder.is_dir() and case.get_temp_dir() == str(folder)
        folders.append(folder)

    passes(body)
    passes(body)
    assert folders[0] != folders[1]
    assert not any(folder.exists() for folder in folders)


# -- Sessions --------------------------------------------------------------------------------


def test_a_cached_session_keeps_its_variables_and_a_session_does_not() -> None:
    def body(case: Any) -> None:
        v = tf.Variable(1.0)
        for make in (case.cached_session, case.test_session):
            with make() as session:
                session.run(v.initializer)
            with make() as again:
                assert again is session
                assert again.run(v) == 1.0
        with case.session() as fresh:
            assert fresh is not session
            with case.assertRaisesOpError("uninitialized value"):
                fresh.run(v)

    passes(body)


def test_a_cached_session_refuses_other_arguments() -> None:
    def body(case: Any) -> None:
        with case.cached_session():
            pass
        with pytest.raises(ValueError, match="The graph used to get the cached session"):
            case.cached_session(graph=tf.Graph()).__enter__()
        config = tf.ConfigProto(operation_timeout_in_ms=5)
        with pytest.raises(ValueError, match="The config used to get the cached session"):
            case.cached_session(config=config).__enter__()

    passes(body)


def test_a_session_is_the_default_and_is_closed() -> None:
    def body(case: Any) -> None:
        graph = tf.Graph()
        with case.session(graph=graph) as session:
            assert tf.get_default_session() is session
            assert tf.get_default_graph() is graph
            assert tf.constant(3).eval() == 3
        with pytest.raises(RuntimeError, match="closed Session"):
            session.run("Const:0")

    passes(body)


def test_use_gpu_false_puts_operations_on_the_cpu() -> None:
    def body(case: Any) -> None:
        with case.session(use_gpu=False):
            case.assertDeviceEqual(tf.constant(1).device, "/cpu:0")
        with case.session():
            assert tf.constant(1).device == ""
            with tf.device("/gpu:7"):  # Placement is soft.
                assert tf.constant(1.0).eval() == 1.0

    passes(body)


def test_evaluate_takes_structures_and_makes_a_session() -> None:
    def body(case: Any) -> None:
        assert case.evaluate({"a": tf.constant(1), "b": [tf.constant(2)]}) == {"a": 1, "b": [2]}
        with case.session() as session:
            v = tf.Variable(4.0)
            session.run(v.initializer)
            assert case.evaluate(v) == 4.0

    passes(body)


# -- Threads and streams ---------------------------------------------------------------------


def test_an_error_in_a_checked_thread_fails_the_test() -> None:
    def boom() -> None:
        raise RuntimeError("in the thread")

    def body(case: Any) -> None:
        thread = case.checkedThread(boom)
        thread.start()
        thread.join()

    fails(body, "in the thread")


def test_a_checked_thread_must_be_joined() -> None:
    def body(case: Any) -> None:
        case.checkedThread(lambda: None).start()

    fails(body, "A checked thread was not joined.")


def test_checked_threads_get_their_arguments() -> None:
    seen: list[Any] = []

    def body(case: Any) -> None:
        done = threading.Event()
        thread = case.checkedThread(lambda a, b: (seen.append((a, b)), done.set()), (1,), {"b": 2})
        thread.start()
        done.wait(60)
        thread.join()
        assert not thread.is_alive()

    passes(body)
    assert seen == [(1, 2)]


def test_writes_to_a_stream_can_be_captured(capfd: pytest.CaptureFixture[str]) -> None:
    def body(case: Any) -> None:
        with case.captureWritesToStream(sys.__stderr__) as captured:
            print("inside", file=sys.__stderr__)
        assert captured.contents() == "inside\n"

    passes(body)
    assert "inside" not in capfd.readouterr().err


# -- Arrays ----------------------------------------------------------------------------------


def test_equal_arrays_lists_tensors_and_strings_pass() -> None:
    def body(case: Any) -> None:
        case.assertAllEqual([1, 2], np.array([1, 2]))
        case.assertAllEqual([np.nan, 1.0], [np.nan, 1.0])
        case.assertAllEqual(tf.constant([1, 2]), [1, 2])
        case.assertAllEqual(["a", "b"], np.array([b"a", b"b"], object))
        case.assertNotAllEqual([1, 2], [1, 3])
        case.assertNotAllEqual([1, 2], [1, 2, 3])

    passes(body)


def test_unequal_arrays_fail_and_say_where() -> None:
    fails(lambda case: case.assertAllEqual([[1, 2]], [[1, 3]]), "1 of 2 elements", "[0, 1]")
    fails(lambda case: case.assertAllEqual([1], [1, 1]), "Shape mismatch: expected (1,), got (2,)")
    fails(lambda case: case.assertAllEqual([1.0], [np.nan]))
    fails(lambda case: case.assertNotAllEqual([1], [1]), "equal at all elements")
    fails(lambda case: case.assertAllEqual([1], [2], msg="my words"), "my words")


Point = collections.namedtuple("Point", "x y")


def test_close_structures_pass_and_others_fail() -> None:
    def body(case: Any) -> None:
        case.assertAllClose(1.0, 1.0 + 1e-7)
        case.assertAllClose([1.0, [2.0, 3.0]], [1.0, [2.0, 3.0]])
        case.assertAllClose({"a": [1.0], "b": Point(1, 2)}, {"a": [1.0], "b": Point(1, 2)})
        case.assertAllClose([np.nan, np.inf], [np.nan, np.inf])
        case.assertAllClose(tf.constant(2.0), tf.constant(1.0) * 2.0)
        case.assertNotAllClose(1.0, 1.1)

    passes(body)
    fails(lambda case: case.assertAllClose(1.0, 1.1), "not close")
    fails(lambda case: case.assertAllClose({"a": 1.0}, {"b": 1.0}), "Keys differ")
    fails(lambda case: case.assertAllClose({"a": {"b": 1.0}}, {"a": {"b": 2.0}}), "at [a][b]")
    fails(lambda case: case.assertAllClose({"a": 1.0}, [1.0]), "non-dict")
    fails(lambda case: case.assertAllClose([[1.0], 2.0], [[1.0], 2.0, 3.0]), "Lengths differ")
    fails(lambda case: case.assertAllClose([1.0], [np.nan]))


def test_the_tolerance_follows_the_type() -> None:
    def near(dtype: Any, off: float) -> Callable[[Any], None]:
        pair = np.array([1.0], dtype), np.array([1.0 + off], dtype)
        return lambda case: case.assertAllCloseAccordingToType(*pair)

    passes(near(np.float16, 9e-4))
    fails(near(np.float32, 9e-4))
    passes(near(tf.bfloat16.as_numpy_dtype, 8e-3))
    fails(near(np.float64, 1e-5))


def test_numbers_near_each_other_pass() -> None:
    def body(case: Any) -> None:
        case.assertNear(1.0, 1.05, 0.1)
        case.assertArrayNear([1.0, 2.0], [1.05, 2.0], 0.1)
        case.assertNDArrayNear(np.ones((2, 2)), np.ones((2, 2)) + 0.01, 0.1)

    passes(body)
    fails(lambda case: case.assertNear(1.0, 1.2, 0.1))
    fails(lambda case: case.assertArrayNear([1.0], [1.0, 2.0], 0.1))
    fails(lambda case: case.assertArrayNear([1.0], [2.0], 0.1))
    fails(lambda case: case.assertNDArrayNear(np.ones(2), np.zeros(2), 0.1))


def test_ranges_and_sets() -> None:
    def body(case: Any) -> None:
        case.assertAllGreater([2, 3], 1)
        case.assertAllLess(tf.constant([2, 3]), 4)
        case.assertAllGreaterEqual([2, 3], 2)
        case.assertAllLessEqual([2, 3], 3)
        case.assertAllInRange([1, 2], 1, 2)
        case.assertAllInSet([1, 1, 2], [1, 2, 3])

    passes(body)
    fails(lambda case: case.assertAllGreater([1, 2], 1), "not greater than 1")
    fails(lambda case: case.assertAllLess([1, 2], 2))
    fails(lambda case: case.assertAllInRange([1, 2], 1, 2, open_upper_bound=True), "[1, 2)")
    fails(lambda case: case.assertAllInRange([1, 2], 1, 2, open_lower_bound=True))
    fails(lambda case: case.assertAllInSet([1, 9], [1]), "[9]")


def test_shapes_and_types() -> None:
    def body(case: Any) -> None:
        case.assertShapeEqual(np.zeros((2, 3)), tf.zeros([2, 3]))
        case.assertDTypeEqual(tf.zeros([1]), tf.float32)
        case.assertDTypeEqual(np.zeros(1, np.int32), np.int32)

    passes(body)
    fails(lambda case: case.assertShapeEqual(np.zeros((2, 3)), tf.zeros([3, 2])))
    fails(lambda case: case.assertDTypeEqual(tf.zeros([1]), tf.int32))


# -- Messages, errors, devices ---------------------------------------------------------------


def test_messages_equal_their_text() -> None:
    message = tf.NodeDef(name="a", op="NoOp")

    def body(case: Any) -> None:
        case.assertProtoEquals("name: 'a' op: 'NoOp'", message)
        case.assertProtoEquals(message, tf.NodeDef(name="a", op="NoOp"))
        tf.no_op(name="n")
        case.assertProtoEqualsVersion(
            "node { name: 'n' op: 'NoOp' }", tf.get_default_graph().as_graph_def()
        )

    passes(body)
    fails(lambda case: case.assertProtoEquals("name: 'b'", message), 'name: "a"')
    fails(lambda case: case.assertProtoEquals(tf.GraphDef(), message), "Can't compare")


def test_op_errors_are_matched_by_message_and_op_name() -> None:
    def failing(case: Any, pattern: Any) -> None:
        x = tf.placeholder(tf.float32, [2], name="the_input")
        with case.session() as session, case.assertRaisesOpError(pattern):
            session.run(tf.check_numerics(x, "was bad"), {x: [1.0, np.inf]})

    passes(lambda case: failing(case, "was bad"))
    passes(lambda case: failing(case, "CheckNumerics"))
    passes(lambda case: failing(case, lambda e: isinstance(e, tf.errors.InvalidArgumentError)))
    fails(lambda case: failing(case, "something else"), "did not match")

    def quiet(case: Any) -> None:
        with case.assertRaisesOpError("x"):
            pass

    fails(quiet, "not raised")


def test_devices_are_compared_by_meaning() -> None:
    passes(
        lambda case: case.assertDeviceEqual(
            "/cpu:0", tf.DeviceSpec(device_type="CPU", device_index=0)
        )
    )
    fails(lambda case: case.assertDeviceEqual("/cpu:0", "/cpu:1"), "are not equal")


def test_the_old_names_are_there() -> None:
    def body(case: Any) -> None:
        case.assertItemsEqual([1, 2], [2, 1])
        case.assertStartsWith("words", "wo")

    passes(body)
    fails(lambda case: case.assertStartsWith("words", "x"), "does not start with")
