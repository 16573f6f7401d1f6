"""tf.logging: messages through one Python logger named `millrace`.

Lines look as TensorFlow 1's do (`INFO:millrace:text` on standard error) and the level is
Python's default, WARN, until `set_verbosity` is called; both are what TensorFlow 1.15 does.
If the root logger is configured, the messages go there instead, once. This module never
configures any logger but its own.
"""

import logging
import sys
import threading
from collections import Counter
from logging import DEBUG, ERROR, FATAL, INFO, WARN
from typing import Any, TextIO

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "TaskLevelStatusMessage",
    "debug",
    "error",
    "fatal",
    "flush",
    "get_logger",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]

_logger = logging.getLogger("millrace")
# How often each calling line has asked log_first_n or log_every_n; guarded by the lock.
_calls_by_line: Counter[tuple[str, int]] = Counter()
_calls_lock = threading.Lock()


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


class _ConsoleHandler(logging.StreamHandler[TextIO]):
    """Writes to the console of the moment, unless the root logger already takes the messages.

    The stream and the root logger are looked at when a message arrives, not when the handler is
    made: a program that calls logging.basicConfig() after importing us must not see each line
    twice, and one that redirects sys.stderr expects our lines there.
    """

    def __init__(self) -> None:
        # Not super().__init__, which assigns the stream that is a property here.
        logging.Handler.__init__(self)
        self.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        self.addFilter(lambda record: not _root_takes_messages())

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stdout if _is_interactive() else sys.stderr


def _root_takes_messages() -> bool:
    """Whether the program gave the root logger a handler; absl's, added by app.run, is not one."""
    return any(not type(h).__module__.startswith("absl.") for h in logging.getLogger().handlers)


def leave_to_console(record: logging.LogRecord) -> bool:
    """A filter for absl's handler: drops the records that this module prints itself."""
    return record.name != _logger.name or _root_takes_messages()


_logger.addHandler(_ConsoleHandler())
if _is_interactive():
    _logger.setLevel(INFO)


def get_logger() -> logging.Logger:
    """Returns the logger that all of Millrace writes to."""
    return _logger


def _log(level: int, msg: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    # Two frames up: past this function and the public one, to the line that logs.
    kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 2
    _logger.log(level, msg, *args, **kwargs)


def log(level: int, msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at `level`."""
    _log(level, msg, args, kwargs)


def debug(msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at level DEBUG."""
    _log(DEBUG, msg, args, kwargs)


def info(msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at level INFO."""
    _log(INFO, msg, args, kwargs)


def warning(msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at level WARN."""
    _log(WARN, msg, args, kwargs)


def warn(msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at level WARN."""
    _log(WARN, msg, args, kwargs)


def error(msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at level ERROR."""
    _log(ERROR, msg, args, kwargs)


def fatal(msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at level FATAL. The program goes on, as it does in TensorFlow."""
    _log(FATAL, msg, args, kwargs)


def vlog(level: int, msg: object, *args: Any, **kwargs: Any) -> None:
    """Logs `msg % args` at the numeric `level`."""
    _log(level, msg, args, kwargs)


def TaskLevelStatusMessage(msg: object) -> None:
    """Logs `msg` at level ERROR."""
    _log(ERROR, msg, (), {})


def log_if(level: int, msg: object, condition: object, *args: Any) -> None:
    """Logs `msg % args` at `level` if `condition` is true."""
    if condition:
        _log(level, msg, args, {})


def log_first_n(level: int, msg: object, n: int, *args: Any) -> None:
    """Logs `msg % args` at `level` the first `n` times that this line of code is reached."""
    if _count_of_calling_line() < n:
        _log(level, msg, args, {})


def log_every_n(level: int, msg: object, n: int, *args: Any) -> None:
    """Logs `msg % args` at `level` on the 1st, (n+1)th, (2n+1)th … time this line is reached."""
    if _count_of_calling_line() % n == 0:
        _log(level, msg, args, {})


def _count_of_calling_line() -> int:
    """Returns how often the line that called our caller has been here before."""
    frame = sys._getframe(2)
    line = (frame.f_code.co_filename, frame.f_lineno)
    with _calls_lock:
        _calls_by_line[line] += 1
        return _calls_by_line[line] - 1


def get_verbosity() -> int:
    """Returns the lowest level that is printed."""
    return _logger.getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Sets the lowest level that is printed, for example `tf.logging.INFO`."""
    _logger.setLevel(v)


def flush() -> None:
    """Hands on to the operating system what the handlers hold back."""
    for handler in (*_logger.handlers, *logging.getLogger().handlers):
        handler.flush()
