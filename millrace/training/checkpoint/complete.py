"""Which checkpoints of a folder are complete, whatever its ``checkpoint`` file says.

A training must never begin at step 0 over checkpoints that are there. When the ``checkpoint`` file
cannot be read, or the newest checkpoint lacks some of its files, the newest complete one is used.
Complete means that the index can be read, and that the data files are there and as long as it says;
the checksums of the data are checked when they are read.
"""

from __future__ import annotations

import os
import re

from millrace.core import errors
from millrace.data.delta_bundle import DeltaReader, open_bundle
from millrace.data.tensor_bundle import data_name
from millrace.platform import gfile

_INDEX = ".index"
_STEP = re.compile(r"-(\d+)$")
#: The part of one task, while a save is under way or after it was cut off.
_PART = re.compile(r"(_temp(_[0-9a-f]+)?/|\.)part-\d{5}-of-\d{5}$")


def is_complete(prefix: str) -> bool:
    """Whether all files of a V2 checkpoint, and of its base, are as long as their indexes say."""
    try:
        with open_bundle(prefix) as reader:
            base = reader.base if isinstance(reader, DeltaReader) else None
            ends = [0] * reader.num_shards
            for entry in reader.entries.values():
                if entry.slices:
                    continue  # Its parts have entries of their own.
                if not 0 <= entry.shard_id < len(ends):
                    return False
                ends[entry.shard_id] = max(ends[entry.shard_id], entry.offset + entry.size)
        has_all = all(
            gfile.stat(data_name(prefix, shard, len(ends))).length >= end
            for shard, end in enumerate(ends)
        )
        return has_all and (base is None or is_complete(base))
    except errors.OpError:
        return False


def complete_checkpoints(folder: str) -> list[str]:
    """The complete V2 checkpoints of a folder, oldest first: by their steps, else by their age."""
    found = []
    for index in gfile.glob(gfile.join(folder, f"*{_INDEX}")):
        prefix = index.removesuffix(_INDEX)
        if not _PART.search(prefix) and is_complete(prefix):
            step = _STEP.search(os.path.basename(prefix))
            age = gfile.stat(index).mtime_nsec
            found.append((int(step[1]) if step else -1, age, prefix))
    return [prefix for _, _, prefix in sorted(found)]


def has_checkpoint_files(folder: str) -> bool:
    """Whether a folder has files of checkpoints, complete or not."""
    return any(
        gfile.glob(gfile.join(folder, pattern))
        for pattern in (f"*{_INDEX}", "*.data-?????-of-?????")
    )
