"""Looking into checkpoints without a graph: `list_variables`, `load_variable` and others."""

from __future__ import annotations

import os
from typing import Any

from millrace.data.checkpoint_reader import CheckpointReader
from millrace.platform import gfile
from millrace.training.checkpoint.state import latest_checkpoint


def NewCheckpointReader(filepattern: Any) -> CheckpointReader:
    """A reader of the checkpoint with this name."""
    return CheckpointReader(filepattern)


def checkpoint_filename(ckpt_dir_or_file: Any) -> str | None:
    """The newest checkpoint of a folder, or the one that is named."""
    path = os.fsdecode(ckpt_dir_or_file)
    return latest_checkpoint(path) if gfile.isdir(path) else path


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """A reader of a checkpoint, or of the newest one in a folder.

    Raises:
      ValueError: The folder has no checkpoint.
    """
    filename = checkpoint_filename(ckpt_dir_or_file)
    if filename is None:
        raise ValueError(
            "Couldn't find 'checkpoint' file or checkpoints in given directory "
            f"{os.fsdecode(ckpt_dir_or_file)}"
        )
    return CheckpointReader(filename)


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """The value of a variable in a checkpoint, or in the newest one of a folder."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """Names and shapes of all variables in a checkpoint, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())
