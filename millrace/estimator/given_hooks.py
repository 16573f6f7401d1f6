"""Checks of the hooks and listeners that a program hands over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import millrace as tf


def check_hooks(hooks: Sequence[Any] | None) -> list[Any]:
    """The hooks as a new list.

    Raises:
      TypeError: One is none.
    """
    for hook in hooks or ():
        if not isinstance(hook, tf.train.SessionRunHook):
            raise TypeError(f"Hooks must be a SessionRunHook, given: {hook}")
    return list(hooks or ())


def check_listeners(listeners: Sequence[Any] | None) -> list[Any]:
    """The listeners as a new list.

    Raises:
      TypeError: One is none.
    """
    for listener in listeners or ():
        if not isinstance(listener, tf.train.CheckpointSaverListener):
            raise TypeError(
                f"saving_listeners must be a list of CheckpointSaverListener, given: {listener}"
            )
    return list(listeners or ())
