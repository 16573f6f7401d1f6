"""tf.app.run: flags, then main, then exit."""

import io
import logging as python_logging
import sys

import pytest
from absl import flags as absl_flags
from absl import logging as absl_logging

from millrace.platform import app, flags, logging


@pytest.fixture(autouse=True)
def fresh_program():
    """Nothing parsed; what absl's start does to the root logger is undone afterwards."""
    root = python_logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    absl_flags.FLAGS.unparse_flags()
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    absl_flags.FLAGS.unparse_flags()


@pytest.fixture
def name_flag():
    flags.DEFINE_string("zz_name", "default", "help")
    yield
    delattr(absl_flags.FLAGS, "zz_name")


def test_main_gets_what_is_left_of_the_command_line_and_its_result_is_the_exit_code(name_flag):
    seen = []

    def main(argv):
        seen.append((argv, flags.FLAGS.zz_name))
        return 3

    with pytest.raises(SystemExit) as exit_:
        app.run(main, argv=["program", "--zz_name=x", "--unknown=1", "word"])
    assert exit_.value.code == 3
    assert seen == [(["program", "--unknown=1", "word"], "x")]


def test_the_command_line_of_the_process_is_the_default(name_flag, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", "--zz_name=y"])
    seen = []
    with pytest.raises(SystemExit) as exit_:
        app.run(main=lambda argv: seen.append(flags.FLAGS.zz_name))
    assert not exit_.value.code
    assert seen == ["y"]


def test_the_main_of_the_program_is_the_default(monkeypatch):
    seen = []
    monkeypatch.setattr(sys.modules["__main__"], "main", seen.append, raising=False)
    with pytest.raises(SystemExit):
        app.run(argv=["program"])
    assert seen == [["program"]]


def test_a_program_without_main_is_told_so(monkeypatch):
    monkeypatch.delattr(sys.modules["__main__"], "main", raising=False)
    with pytest.raises(AttributeError, match="has no function named main"):
        app.run()


def test_a_flag_read_early_and_changed_keeps_its_value(name_flag, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program"])
    assert flags.FLAGS.zz_name == "default"
    flags.FLAGS.zz_name = "changed"
    seen = []
    with pytest.raises(SystemExit):
        app.run(main=lambda argv: seen.append(flags.FLAGS.zz_name))
    assert seen == ["changed"]


def test_log_lines_of_a_started_program_are_printed_once_in_our_format(monkeypatch):
    console = io.StringIO()
    monkeypatch.setattr(sys, "stderr", console)
    monkeypatch.setattr(python_logging.getLogger(), "handlers", [])
    monkeypatch.setattr(absl_logging.get_absl_handler().python_handler, "stream", console)
    absl_logging.use_absl_handler()  # what absl does when a program starts
    with pytest.raises(SystemExit):
        app.run(main=lambda argv: logging.warning("hello"), argv=["program"])
    assert console.getvalue() == "WARNING:millrace:hello\n"


def test_a_bad_flag_is_told_in_a_sentence(name_flag, capsys):
    flags.DEFINE_integer("zz_count", 1, "help")
    try:
        with pytest.raises(SystemExit) as exit_:
            app.run(main=lambda argv: None, argv=["program", "--zz_count=many"])
    finally:
        delattr(absl_flags.FLAGS, "zz_count")
    assert exit_.value.code == 1
    assert "flag --zz_count=many: invalid literal" in capsys.readouterr().err
