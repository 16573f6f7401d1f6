"""tf.logging. Lines and levels are those of TensorFlow, with the logger's name changed."""

import contextlib
import io
import logging as python_logging
import sys
import threading

import pytest

from millrace.platform import logging


@contextlib.contextmanager
def console():
    """Standard error of a program whose root logger has no handlers.

    Not a fixture: pytest puts its own handlers on the root logger after the fixtures have run.
    """
    stream = io.StringIO()
    level = logging.get_logger().level
    mine = threading.get_ident()

    def is_mine(record):
        """Threads of earlier tests may have something to say, too."""
        return record.thread == mine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setattr(python_logging.getLogger(), "handlers", [])
        logging.get_logger().addFilter(is_mine)
        try:
            yield stream
        finally:
            logging.get_logger().removeFilter(is_mine)
            logging.get_logger().setLevel(level)


def test_lines_have_level_logger_and_text():
    with console() as printed:
        logging.set_verbosity(logging.DEBUG)
        logging.debug("d %d", 1)
        logging.info("i")
        logging.warn("w %s", "x")
        logging.warning("w2")
        logging.error("e")
        logging.fatal("f")
        logging.log(logging.INFO, "l %s", "y")
        logging.vlog(logging.INFO, "v")
        logging.TaskLevelStatusMessage("t")
        assert printed.getvalue().splitlines() == [
            "DEBUG:millrace:d 1",
            "INFO:millrace:i",
            "WARNING:millrace:w x",
            "WARNING:millrace:w2",
            "ERROR:millrace:e",
            "CRITICAL:millrace:f",
            "INFO:millrace:l y",
            "INFO:millrace:v",
            "ERROR:millrace:t",
        ]


def test_a_fresh_program_prints_warnings_and_no_info():
    with console() as printed:
        logging.get_logger().setLevel(python_logging.NOTSET)
        assert logging.get_verbosity() == logging.WARN
        logging.info("unseen")
        logging.warning("seen")
        assert printed.getvalue() == "WARNING:millrace:seen\n"


def test_set_verbosity_takes_the_constants_and_is_read_back():
    with console() as printed:
        for level in (logging.DEBUG, logging.INFO, logging.WARN, logging.ERROR, logging.FATAL):
            logging.set_verbosity(level)
            assert logging.get_verbosity() == level
        logging.error("unseen")
        assert printed.getvalue() == ""


def test_the_constants_are_found_by_name_in_the_module():
    names = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
    assert [logging.__dict__[name] for name in names] == [10, 20, 30, 40, 50]


def test_log_first_n_counts_each_line_of_code_by_itself():
    with console() as printed:
        for _ in range(5):
            logging.log_first_n(logging.ERROR, "a %d", 2, 7)
            logging.log_first_n(logging.ERROR, "b", 1)
        assert printed.getvalue().splitlines() == [
            "ERROR:millrace:a 7",
            "ERROR:millrace:b",
            "ERROR:millrace:a 7",
        ]


def test_log_every_n_prints_the_first_and_then_each_nth():
    with console() as printed:
        for i in range(7):
            logging.log_every_n(logging.ERROR, "%d", 3, i)
        assert printed.getvalue().splitlines() == [f"ERROR:millrace:{i}" for i in (0, 3, 6)]


def test_log_if_prints_when_the_condition_holds():
    with console() as printed:
        logging.log_if(logging.ERROR, "yes %s", True, "x")
        logging.log_if(logging.ERROR, "no", False)
        assert printed.getvalue() == "ERROR:millrace:yes x\n"


def test_a_record_names_the_line_that_logged():
    with console():
        records = []

        class Keeper(python_logging.Handler):
            def emit(self, record):
                records.append(record)

        keeper = Keeper()
        logging.get_logger().addHandler(keeper)
        try:
            logging.error("x")
            logging.log_if(logging.ERROR, "x", True)
            logging.log_first_n(logging.ERROR, "x", 1)
            logging.TaskLevelStatusMessage("x")
        finally:
            logging.get_logger().removeHandler(keeper)
        assert {record.filename for record in records} == {"test_logging.py"}
        lines = [record.lineno for record in records]
        assert lines == list(range(lines[0], lines[0] + 4))


def test_a_configured_root_logger_gets_the_message_once_and_the_console_not():
    with console() as printed:
        elsewhere = io.StringIO()
        python_logging.getLogger().addHandler(python_logging.StreamHandler(elsewhere))
        logging.error("once")
        assert elsewhere.getvalue() == "once\n"
        assert printed.getvalue() == ""


def test_flush_returns():
    with console() as printed:
        logging.error("x")
        logging.flush()
        assert printed.getvalue() == "ERROR:millrace:x\n"
