"""The error tree: TensorFlow's classes, codes and texts."""

import pickle
import traceback

import pytest

from millrace.core import errors

# Class -> code, from TensorFlow 2.21.
CODES = {
    "CancelledError": 1,
    "UnknownError": 2,
    "InvalidArgumentError": 3,
    "DeadlineExceededError": 4,
    "NotFoundError": 5,
    "AlreadyExistsError": 6,
    "PermissionDeniedError": 7,
    "ResourceExhaustedError": 8,
    "FailedPreconditionError": 9,
    "AbortedError": 10,
    "OutOfRangeError": 11,
    "UnimplementedError": 12,
    "InternalError": 13,
    "UnavailableError": 14,
    "DataLossError": 15,
    "UnauthenticatedError": 16,
}


class FakeOp:
    def __init__(self, name, frames, original=None):
        self.name = name
        self.traceback = frames
        self._original_op = original


def frame(filename, lineno, name, line):
    return traceback.FrameSummary(filename, lineno, name, lookup_line=False, line=line)


@pytest.mark.parametrize(("name", "code"), CODES.items())
def test_each_class_has_its_code_and_its_constant(name, code):
    cls = getattr(errors, name)
    error = cls("a node", None, "what happened")
    assert issubclass(cls, errors.OpError)
    assert (error.error_code, error.message, error.op, error.node_def) == (
        (code, "what happened", None, "a node")
    )
    assert str(error) == "what happened"
    assert repr(error) == f"{name}('what happened')"
    constant = "".join("_" + c if c.isupper() else c for c in name.removesuffix("Error"))[1:]
    assert getattr(errors, constant.upper()) == code
    assert errors.exception_type_from_error_code(code) is cls
    assert errors.error_code_from_exception_type(cls) == code
    assert cls.__name__ in errors.__doc__


def test_there_is_no_other_class_in_the_tree():
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {c.__name__ for c in classes if errors.OpError in c.__bases__} == set(CODES)


def test_sessions_rebuild_after_aborted_and_unavailable_only():
    assert (errors.AbortedError, errors.UnavailableError) == errors.RECOVERABLE


@pytest.mark.parametrize("code", [0, 17, -1])
def test_a_number_that_is_no_error_code_has_no_class(code):
    with pytest.raises(KeyError):
        errors.exception_type_from_error_code(code)


def test_a_subclass_has_the_code_of_its_base_and_strangers_are_unknown():
    class Mine(errors.AbortedError):
        pass

    assert errors.error_code_from_exception_type(Mine) == errors.ABORTED
    assert errors.error_code_from_exception_type(ValueError) == errors.UNKNOWN


def test_a_status_from_elsewhere_becomes_its_error():
    error = errors.error_from_code(errors.NOT_FOUND, "no such file")
    assert type(error) is errors.NotFoundError
    assert str(error) == "no such file"
    strange = errors.error_from_code(77, "odd")
    assert type(strange) is errors.UnknownError
    assert str(strange) == "odd (status code 77)"


def test_the_text_says_where_the_op_was_built():
    op = FakeOp("MatMul", [frame("net.py", 7, "build", "y = tf.matmul(x, w)")])
    assert str(errors.InvalidArgumentError(None, op, "bad shape")) == (
        "bad shape\n"
        "\n"
        "Original stack trace for 'MatMul':\n"
        '  File "net.py", line 7, in build\n'
        "    y = tf.matmul(x, w)\n"
    )


def test_frames_may_be_plain_tuples_and_may_be_missing():
    op = FakeOp("a", [("net.py", 7, "build", "y = x")])
    assert 'File "net.py", line 7, in build' in str(errors.AbortedError(None, op, "m"))
    op.traceback = None
    assert str(errors.AbortedError(None, op, "m")) == "m\n\nOriginal stack trace for 'a':\n"


def test_the_text_of_a_gradient_op_names_the_forward_op_and_elides_shared_frames():
    shared = [frame("main.py", i, "main", f"line{i}()") for i in range(5)]
    forward = FakeOp("MatMul", shared + [frame("net.py", 7, "build", "y = x")])
    gradient = FakeOp("grad", shared + [frame("main.py", 9, "main", "minimize(y)")], forward)
    text = str(errors.InvalidArgumentError(None, gradient, "bad"))
    head, tail = text.split("\n...which was originally created as op 'MatMul', defined at:\n")
    assert head.count("File") == 6
    assert tail == (
        '  File "main.py", line 0, in main\n'
        "    line0()\n"
        "[elided 3 identical lines from previous traceback]\n"
        '  File "main.py", line 4, in main\n'
        "    line4()\n"
        '  File "net.py", line 7, in build\n'
        "    y = x\n"
    )


def test_an_error_survives_pickling_without_its_op():
    error = errors.AbortedError(None, FakeOp("a", [lambda: 0]), "gone", {"key": b"value"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is errors.AbortedError
    assert (again.message, again.error_code, again.op) == ("gone", 10, None)
    assert again.experimental_payloads == {"key": b"value"}
    base = pickle.loads(pickle.dumps(errors.OpError(None, None, "m", 5)))
    assert (type(base), base.error_code) == (errors.OpError, 5)


def test_errors_of_graph_construction_are_python_errors():
    assert issubclass(errors.OperatorNotAllowedInGraphError, TypeError)
    assert issubclass(errors.InaccessibleTensorError, ValueError)
