"""Files that are complete or not there, and when the disk hears of them."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import pytest

from millrace.platform.atomic_file import PIECE_BYTES, AtomicFile
from millrace.platform.filesystems import LocalFiles


@pytest.mark.parametrize("size", [1 << 20, PIECE_BYTES, 3 * PIECE_BYTES + 1])
def test_the_disk_begins_while_the_file_is_still_written(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MILLRACE_FSYNC", raising=False)
    begun: list[tuple[int, int]] = []

    def note(self: LocalFiles, stream: BinaryIO, offset: int, size: int) -> None:
        begun.append((offset, offset + size))

    monkeypatch.setattr(LocalFiles, "start_sync", note)
    # The disk itself is not the matter here.
    monkeypatch.setattr(LocalFiles, "sync_file", lambda self, stream: stream.flush())
    content = memoryview(bytes(3 * PIECE_BYTES + 5))
    file = AtomicFile(str(tmp_path / "f"))
    for start in range(0, len(content), size):
        file.write(content[start : start + size])
    assert not (tmp_path / "f").exists()
    file.commit()
    assert (tmp_path / "f").stat().st_size == len(content)
    ends = [0, *(end for _, end in begun)]
    assert [start for start, _ in begun] == ends[:-1]  # no byte twice, none left out
    assert len(content) - ends[-1] < PIECE_BYTES
    assert all(end - start >= PIECE_BYTES for start, end in begun)
