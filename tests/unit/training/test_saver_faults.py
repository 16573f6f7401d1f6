"""A save that is killed, or that the disk refuses, at every operation: nothing is lost."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.platform import filesystems
from millrace.platform.filesystems import LocalFiles
from millrace.training.checkpoint.fence import CheckpointGuard, Term

#: What a save does to the disk; each may be the last thing that a process does.
CHANGES = frozenset(
    "open_for_writing make_directory make_directories remove_file remove_tree rename copy_file "
    "sync_file sync_directory link".split()
)


class FaultyFiles:
    """The local disk, until its `limit`-th change; from then on (or just once) it fails.

    A process that was killed makes no more changes: neither does one whose every change fails, so
    what is on the disk is the same. A write that fails has written the first half.
    """

    def __init__(self, limit: int, number: int, once: bool) -> None:
        self._files = LocalFiles()
        self._limit = limit
        self._number = number
        self._once = once
        self.count = 0

    def fails(self) -> bool:
        self.count += 1
        return self.count == self._limit or (self.count > self._limit and not self._once)

    def error(self) -> OSError:
        return OSError(self._number, os.strerror(self._number))

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)
        if name not in CHANGES:
            return method

        def change(*args: Any, **keywords: Any) -> Any:
            if self.fails():
                raise self.error()
            made = method(*args, **keywords)
            return FaultyStream(made, self) if name == "open_for_writing" else made

        return change


def _nothing(*args: Any) -> None:
    pass


class FaultyStream:
    """A file that is written to; closing it always works, as the end of a process closes it."""

    def __init__(self, stream: Any, files: FaultyFiles) -> None:
        self._stream = stream
        self._files = files

    def write(self, content: Any) -> int:
        if self._files.fails():
            self._stream.write(memoryview(content)[: len(content) // 2])
            self._stream.flush()
            raise self._files.error()
        return self._stream.write(content)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Model:
    """Two variables on two devices that always hold the same number, and a Saver."""

    def __init__(self, sharded: bool) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.variables = [tf.Variable(np.zeros(100, np.float32), name="a")]
            with tf.device("/cpu:0"):
                self.variables.append(tf.Variable(np.zeros(3, np.float32), name="b"))
            self.saver = tf.train.Saver(sharded=sharded, max_to_keep=2)
        self.sess = tf.Session(graph=self.graph)

    def set(self, number: float) -> None:
        for variable in self.variables:
            variable.load(np.full(variable.shape.as_list(), number, np.float32), self.sess)

    def newest(self, folder: Path) -> float:
        """The number in what a new run finds in a folder; all of it must be readable."""
        path = tf.train.latest_checkpoint(str(folder))
        assert path is not None, sorted(p.name for p in folder.iterdir())
        self.set(-1)
        self.saver.restore(self.sess, path)
        (found,) = {float(n) for v in self.sess.run(self.variables) for n in v}
        return found

    def newest_moved(self, template: Path, folder: Path) -> float:
        """The same, where the state file's paths are those of a folder that this is a copy of."""
        state = folder / "checkpoint"
        state.write_text(state.read_text().replace(str(template), str(folder)))
        return self.newest(folder)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bringing files to the disk counts as an operation, but takes no time."""
    monkeypatch.delenv("MILLRACE_FSYNC", raising=False)
    for name in ("sync_file", "sync_directory"):
        monkeypatch.setattr(LocalFiles, name, _nothing)


@pytest.fixture(params=[False, True], ids=["whole", "sharded"])
def model(request: pytest.FixtureRequest) -> Any:
    made = Model(request.param)
    yield made
    made.sess.close()


def operations_until_success(
    model: Model,
    template: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    step: int | None,
    number: int = errno.EIO,
    once: bool = False,
) -> Any:
    """Saves the number 3 into a copy of `template`, failing at each operation in turn.

    Yields:
      The error or None after each attempt, with the disk as it was left.
    """
    for limit in range(1, 200):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        model.saver.recover_last_checkpoints([str(folder / name) for name in ("m-1", "m-2")])
        model.set(3)
        faulty = FaultyFiles(limit, number, once)
        error: Any = None
        with monkeypatch.context() as patch:
            patch.setattr(filesystems, "_LOCAL", faulty)
            try:
                model.saver.save(
                    model.sess, str(folder / "m"), global_step=step, write_meta_graph=False
                )
            except tf.errors.OpError as raised:
                error = raised
        yield error
        if faulty.count < limit:
            return
    raise AssertionError("200 operations are too many")


def test_a_save_that_is_killed_leaves_the_one_before_it(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    for step in (1, 2):
        model.set(step)
        model.saver.save(model.sess, str(tmp_path / "t" / "m"), global_step=step)
    folder = tmp_path / "f"
    found, outcomes = [], []
    for error in operations_until_success(model, tmp_path / "t", folder, monkeypatch, step=3):
        found.append(model.newest_moved(tmp_path / "t", folder))
        outcomes.append(error)
        # A run that goes on from there can save.
        model.set(4)
        model.saver.save(model.sess, str(folder / "m"), global_step=4, write_meta_graph=False)
        assert model.newest(folder) == 4
    assert len(outcomes) > 15 and outcomes[-1] is None and outcomes[0] is not None
    assert found == sorted(found) and set(found) == {2.0, 3.0}


def test_an_elected_chiefs_save_that_is_killed_leaves_the_one_before_it(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chief dies at each operation of his first save; the next one goes on."""
    (tmp_path / "t").mkdir()
    for step in (1, 2):
        model.set(step)
        model.saver.save(model.sess, str(tmp_path / "t" / "m"), global_step=step)
    folder = tmp_path / "f"
    tokens = itertools.count(1)

    def elect() -> None:
        term = Term(next(tokens), "aa")
        model.saver.guard = CheckpointGuard(lambda: term, "worker")

    elect()
    found, outcomes = [], []
    for error in operations_until_success(model, tmp_path / "t", folder, monkeypatch, step=3):
        found.append(model.newest_moved(tmp_path / "t", folder))
        outcomes.append(error)
        elect()
        model.set(4)
        model.saver.save(model.sess, str(folder / "m"), global_step=4, write_meta_graph=False)
        assert model.newest(folder) == 4
        assert not list(folder.glob("*.pending"))
        elect()
    assert len(outcomes) > 15 and outcomes[-1] is None and outcomes[0] is not None
    assert found == sorted(found) and set(found) == {2.0, 3.0}


def test_a_save_over_another_that_is_killed_leaves_one_of_the_two(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    model.set(2)
    folder = tmp_path / "f"
    model.saver.save(model.sess, str(tmp_path / "t" / "m"), write_meta_graph=False)
    found, outcomes = [], []
    for error in operations_until_success(model, tmp_path / "t", folder, monkeypatch, step=None):
        found.append(model.newest_moved(tmp_path / "t", folder))
        outcomes.append(error)
        model.set(4)
        model.saver.save(model.sess, str(folder / "m"), write_meta_graph=False)
        assert model.newest(folder) == 4
    assert len(outcomes) > 20 and outcomes[-1] is None and outcomes[0] is not None
    assert found == sorted(found) and set(found) == {2.0, 3.0}
    shards = 2 if model.saver.saver_def.sharded else 1
    data = [f"m.data-{i:05d}-of-{shards:05d}" for i in range(shards)]
    assert sorted(p.name for p in folder.iterdir()) == ["checkpoint", *data, "m.index"]


def test_a_full_disk_is_an_error_with_its_name_and_leaves_no_rubbish(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    for step in (1, 2):
        model.set(step)
        model.saver.save(
            model.sess, str(tmp_path / "t" / "m"), global_step=step, write_meta_graph=False
        )
    folder = tmp_path / "f"
    state = (tmp_path / "t" / "checkpoint").read_bytes()
    failed = 0
    for error in operations_until_success(
        model, tmp_path / "t", folder, monkeypatch, step=3, number=errno.ENOSPC, once=True
    ):
        names = {p.name for p in folder.iterdir()}
        assert not any("tempstate" in name for name in names if not name.endswith("_temp"))
        if error is None:
            continue
        failed += 1
        assert isinstance(error, tf.errors.ResourceExhaustedError)
        assert str(folder) in error.message and "No space left on device" in error.message
        if (folder / "checkpoint").read_bytes() != state:
            # Only to make it last failed: the save is complete.
            assert model.newest(folder) == 3
        assert {"m-1.index", "m-2.index"} <= names
    assert failed > 10


def test_a_folder_that_may_not_be_written_to_is_named(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.set(1)
    monkeypatch.setattr(filesystems, "_LOCAL", FaultyFiles(1, errno.EACCES, once=False))
    with pytest.raises(tf.errors.PermissionDeniedError, match=rf"{tmp_path}/m.*Permission denied"):
        model.saver.save(model.sess, str(tmp_path / "m"))
