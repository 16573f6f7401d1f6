"""`tf.train.basic_train_loop`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from millrace.core import errors
from millrace.platform import logging
from millrace.training.sessions.supervisor import Supervisor
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock, Wait


def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    master: str = "",
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Calls a step function until the supervisor stops, in a new session after each restart.

    Args:
      supervisor: The Supervisor.
      train_step_fn: Called as ``train_step_fn(session, *args, **kwargs)``.
      args: Its positional arguments.
      kwargs: Its keyword arguments.
      master: The target.
      clock: The time.
    """
    wait: Wait | None = None
    while True:
        try:
            with supervisor.managed_session(master) as sess:
                while not supervisor.should_stop():
                    train_step_fn(sess, *(args or ()), **(kwargs or {}))
                    wait = None
            return
        except errors.RECOVERABLE as error:
            logging.warning("Training goes on in a new session after: %s", error)
            if wait is None:
                wait = Wait(None, clock=clock)
            else:
                wait.pause(functools.partial(_advice, error))


def _advice(error: Exception) -> str:
    return (
        f"for a session that works. The last one failed with {type(error).__name__}: {error} Check "
        "that every task of the cluster runs."
    )
