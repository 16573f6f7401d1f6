"""Which checkpoints there are: the ``checkpoint`` file of a folder, and a checkpoint's files.

The ``checkpoint`` file is a CheckpointState message as text: the newest checkpoint, and those
that are kept. It is replaced at one stroke, after the checkpoint that it names is complete.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.protobuf import text_format

from millrace.core import errors
from millrace.core.config import SaverDef
from millrace.data.messages import declare
from millrace.data.tensor_bundle import index_name
from millrace.platform import gfile, logging
from millrace.platform.atomic_file import write_atomically
from millrace.platform.filesystems import split_scheme
from millrace.training.checkpoint import complete

CheckpointState: Any = declare(
    "tensorflow/python/training/checkpoint_state.proto",
    "tensorflow",
    {
        "CheckpointState": """
            string model_checkpoint_path = 1
            repeated string all_model_checkpoint_paths = 2
            repeated double all_model_checkpoint_timestamps = 3
            double last_preserved_timestamp = 4
        """
    },
)["CheckpointState"]

#: How long `checkpoints_iterator` waits before it looks again.
_POLL_SECONDS = 1.0


# -- The state file ------------------------------------------------------------------------


def _state_name(save_dir: str, latest_filename: str | None) -> str:
    return gfile.join(save_dir, latest_filename or "checkpoint")


def _relative_to(save_dir: str, path: str) -> str:
    """`path` as seen from a folder that is not absolute itself."""
    if os.path.isabs(path) or split_scheme(path)[0] != split_scheme(save_dir)[0]:
        return path
    return os.path.relpath(path, save_dir or ".")


def generate_checkpoint_state_proto(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: list[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> Any:
    """A CheckpointState.

    Args:
      save_dir: The folder that the ``checkpoint`` file is in.
      model_checkpoint_path: The newest checkpoint.
      all_model_checkpoint_paths: Those that are kept, oldest first.
      all_model_checkpoint_timestamps: When each of them was saved, in seconds since 1970.
      last_preserved_timestamp: When the last one that is kept for good was saved.

    Raises:
      ValueError: There are as many timestamps as there are not checkpoints.
    """
    paths = list(all_model_checkpoint_paths or ())
    if not paths or paths[-1] != model_checkpoint_path:
        logging.info(
            "%s is not in all_model_checkpoint_paths. Manually adding it.", model_checkpoint_path
        )
        paths.append(model_checkpoint_path)
    if all_model_checkpoint_timestamps and len(all_model_checkpoint_timestamps) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{paths} and timestamps {list(all_model_checkpoint_timestamps)})"
        )
    if not os.path.isabs(save_dir):
        # A folder that is moved, with the programs that work in it, stays whole.
        model_checkpoint_path = _relative_to(save_dir, model_checkpoint_path)
        paths = [_relative_to(save_dir, path) for path in paths]
    return CheckpointState(
        model_checkpoint_path=model_checkpoint_path,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: list[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
    save_relative_paths: bool = False,
    *,
    write: Callable[[str, bytes], None] = write_atomically,
) -> None:
    """Replaces the ``checkpoint`` file of a folder.

    Args:
      save_dir: The folder.
      model_checkpoint_path: The newest checkpoint.
      all_model_checkpoint_paths: Those that are kept, oldest first.
      latest_filename: Another name for the file.
      all_model_checkpoint_timestamps: When each of them was saved, in seconds since 1970.
      last_preserved_timestamp: When the last one that is kept for good was saved.
      save_relative_paths: Whether to write absolute paths relative to the folder.
      write: Replaces the content of the file, at one stroke.

    Raises:
      RuntimeError: The checkpoint has the name of the file.
    """
    name = _state_name(save_dir, latest_filename)
    if save_relative_paths:

        def relative(path: str) -> str:
            return os.path.relpath(path, save_dir) if os.path.isabs(path) else path

        model_checkpoint_path = relative(model_checkpoint_path)
        all_model_checkpoint_paths = [relative(p) for p in all_model_checkpoint_paths or ()]
    state = generate_checkpoint_state_proto(
        save_dir,
        model_checkpoint_path,
        all_model_checkpoint_paths=all_model_checkpoint_paths,
        all_model_checkpoint_timestamps=all_model_checkpoint_timestamps,
        last_preserved_timestamp=last_preserved_timestamp,
    )
    if name == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state.  "
            "Please use a different save path."
        )
    write(name, text_format.MessageToString(state).encode())


def get_checkpoint_state(checkpoint_dir: Any, latest_filename: str | None = None) -> Any:
    """The CheckpointState of a folder, with paths that can be opened; None if it has none.

    When the file cannot be read and the folder has complete checkpoints, these are the state: a
    training that took the folder for an empty one would write over them.

    Raises:
      ValueError: The file names no checkpoint, and there is none.
      DataLossError: The file cannot be read, and the checkpoints in the folder are not complete.
    """
    folder = os.fspath(checkpoint_dir)
    name = _state_name(folder, latest_filename)
    try:
        if not gfile.exists(name):
            return None
        with gfile.GFile(name, "rb") as file:
            content = file.read()
        state = CheckpointState()
        text_format.Merge(content, state)
    except (errors.OpError, text_format.ParseError, UnicodeDecodeError) as error:
        reason = f"{type(error).__name__}: {str(error) or 'it is no text'}"
        logging.warning("%s", reason)
        found = _state_without_file(folder, name, reason)
        if found is None:
            logging.warning("%s: Checkpoint ignored", name)
        return found
    if not state.model_checkpoint_path:
        found = _state_without_file(folder, name, "it names no checkpoint")
        if found is None:
            raise ValueError(f"Invalid checkpoint state loaded from {folder}")
        return found
    state.model_checkpoint_path = _seen_from(folder, state.model_checkpoint_path)
    for i, path in enumerate(state.all_model_checkpoint_paths):
        state.all_model_checkpoint_paths[i] = _seen_from(folder, path)
    return state


def _state_without_file(folder: str, name: str, reason: str) -> Any:
    """The state that a folder's complete checkpoints make up; None if it has no checkpoint files.

    Raises:
      DataLossError: It has files of checkpoints, of which none is complete.
    """
    paths = complete.complete_checkpoints(folder)
    if paths:
        logging.warning(
            "%s cannot be used (%s). The newest complete checkpoint of the folder is taken "
            "instead: %s. The next save writes the file again.",
            name,
            reason,
            paths[-1],
        )
        return CheckpointState(model_checkpoint_path=paths[-1], all_model_checkpoint_paths=paths)
    if complete.has_checkpoint_files(folder):
        raise errors.DataLossError(
            None,
            None,
            f"{name} cannot be used ({reason}), and no checkpoint in {folder} is complete. A "
            "training that began again would write over them. Restore the file or the checkpoints "
            "from a copy, or move them away to begin at step 0.",
        )
    return None


def _seen_from(folder: str, path: str) -> str:
    return path if split_scheme(path)[0] else gfile.join(folder, path)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The newest checkpoint of a folder, for `Saver.restore`; None if there is none.

    Args:
      checkpoint_dir: The folder.
      latest_filename: Another name for the ``checkpoint`` file.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    path: str = state.model_checkpoint_path
    if checkpoint_exists(path):
        return path
    logging.error("Couldn't match files for checkpoint %s", path)
    others = complete.complete_checkpoints(os.fspath(checkpoint_dir))
    if not others:
        return None
    logging.warning("The newest complete checkpoint of the folder is taken: %s", others[-1])
    return others[-1]


def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Each checkpoint of a folder as it becomes the newest, for ever or until a timeout.

    Args:
      checkpoint_dir: The folder.
      min_interval_secs: How far apart they are yielded at least.
      timeout: How long to wait for the next one, in seconds; for ever when None.
      timeout_fn: Called after each checkpoint and each timeout; the end is reached when it
        returns True. Without it, a timeout is the end.
    """
    path: str | None = None
    while True:
        new = _wait_for_another(checkpoint_dir, path, timeout)
        if new is not None:
            path = new
            start = time.monotonic()
            yield path
            rest = start + min_interval_secs - time.monotonic()
            if rest > 0:
                time.sleep(rest)
        elif timeout_fn is None:
            return
        if timeout_fn is not None and timeout_fn():
            return


def _wait_for_another(checkpoint_dir: Any, last: str | None, timeout: float | None) -> str | None:
    """The newest checkpoint once it is another than `last`; None after the timeout."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        path = latest_checkpoint(checkpoint_dir)
        if path is not None and path != last:
            return path
        pause = _POLL_SECONDS
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            pause = min(pause, left)
        time.sleep(pause)


# -- The files of a checkpoint -------------------------------------------------------------


def checkpoint_exists(checkpoint_prefix: Any) -> bool:
    """Whether there is a checkpoint of either format; a sharded V1 one is named by its pattern."""
    prefix = os.fsdecode(checkpoint_prefix)
    return bool(gfile.glob(index_name(prefix)) or gfile.glob(prefix))


def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str]) -> list[float]:
    """When the checkpoints were last changed, in seconds since 1970; of those that exist."""
    times = []
    for prefix in checkpoint_prefixes:
        found = gfile.glob(index_name(prefix)) or gfile.glob(prefix)
        if found:
            times.append(gfile.stat(found[0]).mtime_nsec / 1e9)
    return times


def remove_checkpoint(
    checkpoint_prefix: str,
    checkpoint_format_version: int = SaverDef.V2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Deletes a checkpoint's files.

    Args:
      checkpoint_prefix: The checkpoint.
      checkpoint_format_version: The format that it has.
      meta_graph_suffix: How the name of its MetaGraphDef ends.
    """
    _delete(meta_graph_filename(checkpoint_prefix, meta_graph_suffix))
    if checkpoint_format_version == SaverDef.V2:
        # The index first: without it there is no checkpoint, so that none is ever half there.
        _delete(index_name(checkpoint_prefix))
        _delete(f"{checkpoint_prefix}.data-?????-of-?????")
    else:
        _delete(checkpoint_prefix)


def _delete(pattern: str) -> None:
    for name in gfile.glob(pattern):
        try:
            gfile.remove(name)
        except errors.NotFoundError:
            logging.warning("'%s' was deleted by somebody else at the same time", name)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """The name of the file with the graph of a checkpoint; shards have one together."""
    return re.sub(r"-[\d?]+-of-\d+$", "", checkpoint_filename) + f".{meta_graph_suffix}"
