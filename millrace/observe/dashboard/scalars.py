"""The scalars that a job's event files hold, as they come.

Each file is read from where it was left. A record that is not whole yet is read the next time; one
that is damaged ends its file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorboard.compat.proto import event_pb2
from tensorboard.util import tensor_util

from millrace.core import errors
from millrace.data.tfrecord import RecordReader
from millrace.observe.dashboard.series import Series

_MOST_TAGS = 200
_MOST_RECORDS = 20_000
_PATTERN = "events.out.tfevents.*"


class ScalarFiles:
    """The scalars of some folders of event files."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], Series] = {}
        self._readers: dict[Path, RecordReader] = {}

    def follow(self, folders: Iterable[str]) -> None:
        """Reads what is new."""
        known = list(dict.fromkeys(folders))
        for folder in known:
            run = _run_name(folder, known)
            for path in sorted(Path(folder).glob(_PATTERN)):
                self._read(path, run)

    def points(self) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """(step, value) by (run, tag)."""
        return {key: series.points() for key, series in self._series.items()}

    def close(self) -> None:
        """Lets go of the files."""
        for reader in self._readers.values():
            reader.close()
        self._readers.clear()

    def _read(self, path: Path, run: str) -> None:
        try:
            if path not in self._readers:
                self._readers[path] = RecordReader(path)
            for record in self._readers[path].read_many(_MOST_RECORDS):
                self._note(event_pb2.Event.FromString(record), run)
        except (errors.OpError, OSError, DecodeError):
            return  # it is gone, or its last record is not all written yet

    def _note(self, event: event_pb2.Event, run: str) -> None:
        for value in event.summary.value:
            number: float | None = None
            if value.HasField("simple_value"):
                number = value.simple_value
            elif value.HasField("tensor") and value.metadata.plugin_data.plugin_name == "scalars":
                number = float(tensor_util.make_ndarray(value.tensor))
            key = run, value.tag
            if number is None or (key not in self._series and len(self._series) >= _MOST_TAGS):
                continue
            self._series.setdefault(key, Series()).add(float(event.step), number)


def _run_name(folder: str, folders: list[str]) -> str:
    """What a folder is called among the others: the end of its path that they do not share."""
    parents = {str(Path(each).parent) for each in folders}
    if len(folders) == 1:
        return ""
    shared = os.path.commonpath(parents)
    return str(Path(folder).relative_to(shared)) if folder.startswith(shared) else folder
