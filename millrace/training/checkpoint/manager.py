"""`tf.train.CheckpointManager`: a folder with the newest few checkpoints of a Checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from millrace.graph.defaults import get_default_session
from millrace.platform import gfile
from millrace.training.checkpoint.checkpoint import Checkpoint
from millrace.training.checkpoint.state import (
    checkpoint_exists,
    get_checkpoint_state,
    remove_checkpoint,
    update_checkpoint_state,
)
from millrace.training.sessions.waiting import SYSTEM_CLOCK, Clock


class CheckpointManager:
    """Saves a Checkpoint under numbered names, and deletes old ones."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Looks into the folder, and goes on with what is there.

        Args:
          checkpoint: What to save.
          directory: The folder.
          max_to_keep: How many checkpoints to keep; None for all.
          keep_checkpoint_every_n_hours: One in so many hours is never deleted.
          checkpoint_name: What names begin with.
          step_counter: A variable that counts steps, for `checkpoint_interval`.
          checkpoint_interval: Steps that must lie between two checkpoints.
          init_fn: Called by `restore_or_initialize` when there is no checkpoint.
          last_checkpoint_step: The step of the newest checkpoint, for `checkpoint_interval`.
          clock: The time.

        Raises:
          ValueError: `max_to_keep` is not positive, or there is an interval but no counter.
        """
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(
                f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}."
            )
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError(
                "`step_counter` should be passed if `checkpoint_interval` is not None."
            )
        self._checkpoint = checkpoint
        self._directory: str = os.fspath(directory)
        self._max_to_keep = max_to_keep
        self._keep_seconds = (
            None if keep_checkpoint_every_n_hours is None else keep_checkpoint_every_n_hours * 3600
        )
        self._prefix = gfile.join(self._directory, checkpoint_name)
        self._step_counter = step_counter
        self._checkpoint_interval = checkpoint_interval
        self._last_checkpoint_step = last_checkpoint_step
        self._init_fn = init_fn
        self._clock = clock
        #: When each checkpoint that may be deleted was written, oldest first.
        self._times: dict[str, float] = {}
        self._latest: str | None = None
        self._last_preserved = clock.wall()
        self._recover()

    def _recover(self) -> None:
        state = get_checkpoint_state(self._directory)
        if state is None:
            return
        self._latest = state.model_checkpoint_path
        if state.last_preserved_timestamp:
            self._last_preserved = state.last_preserved_timestamp
        times = list(state.all_model_checkpoint_timestamps)
        paths = list(state.all_model_checkpoint_paths)
        if len(times) != len(paths):
            times = [self._clock.wall()] * len(paths)
        for path, time in zip(paths, times, strict=True):
            if checkpoint_exists(path):
                self._times[path] = time

    @property
    def directory(self) -> str:
        """The folder."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """What is saved."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """Steps that must lie between two checkpoints."""
        return self._checkpoint_interval

    @property
    def checkpoints(self) -> list[str]:
        """The checkpoints that are kept, oldest first; without those that are never deleted."""
        return list(self._times)

    @property
    def latest_checkpoint(self) -> str | None:
        """The newest checkpoint, or None."""
        return self._latest

    def save(
        self, checkpoint_number: Any = None, check_interval: bool = True, options: Any = None
    ) -> str | None:
        """Writes a checkpoint in the default session, and deletes what is too old.

        Args:
          checkpoint_number: The number in its name; one more than the last by default.
          check_interval: Whether to do nothing if the last one is fewer steps old than
            `checkpoint_interval`.
          options: CheckpointOptions.

        Returns:
          What to hand to `Checkpoint.restore`; None if nothing was written.
        """
        session = get_default_session()
        if session is None:
            raise ValueError(
                "CheckpointManager.save needs a session: call it inside `with "
                "session.as_default():`."
            )
        if self._checkpoint_interval is not None:
            step = int(session.run(self._step_counter))
            last = self._last_checkpoint_step
            if check_interval and last is not None and step - last < self._checkpoint_interval:
                return None
            self._last_checkpoint_step = step
        number = self._checkpoint._next_number(session)
        if checkpoint_number is not None:
            is_in_graph = hasattr(checkpoint_number, "graph")
            number = int(session.run(checkpoint_number) if is_in_graph else checkpoint_number)
        path = self._checkpoint.write(f"{self._prefix}-{number}", session, options)
        self._latest = path
        self._times.pop(path, None)
        self._times[path] = self._clock.wall()
        # The state names what will stay before anything is deleted: it never names what is gone.
        old = self._take_old()
        update_checkpoint_state(
            self._directory,
            path,
            list(self._times),
            all_model_checkpoint_timestamps=list(self._times.values()),
            last_preserved_timestamp=self._last_preserved,
            save_relative_paths=True,
        )
        for each in old:
            remove_checkpoint(each)
        return path

    def _take_old(self) -> list[str]:
        """Forgets those that are too many; those among them that are to be deleted."""
        old: list[str] = []
        while self._max_to_keep is not None and len(self._times) > self._max_to_keep:
            path = next(iter(self._times))
            time = self._times.pop(path)
            if self._keep_seconds is not None and time - self._keep_seconds >= self._last_preserved:
                self._last_preserved = time
            else:
                old.append(path)
        return old

    def restore_or_initialize(self) -> str | None:
        """Restores the newest checkpoint in the default session, or calls `init_fn`.

        Returns:
          The checkpoint; None if there is none.
        """
        if self._latest is not None:
            self._checkpoint.restore(self._latest).initialize_or_restore()
            if self._checkpoint_interval is not None:
                session: Any = get_default_session()
                self._last_checkpoint_step = int(session.run(self._step_counter))
            return self._latest
        if self._init_fn is not None:
            self._init_fn()
        return None
