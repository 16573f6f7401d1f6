"""The fence around a folder of checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.platform import atomic_file
from millrace.training.checkpoint import fence
from millrace.training.checkpoint.fence import CheckpointGuard, DeposedError, Fence, Term

OLD, NEW = Term(6, "aa"), Term(7, "bb")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "model"


def commit(folder: Path, term: Term, text: str) -> None:
    Fence(str(folder)).commit(term, str(folder / "checkpoint"), text.encode())


def test_the_chief_of_the_latest_term_commits(folder: Path) -> None:
    place = Fence(str(folder))
    place.begin(OLD, "worker 0")
    commit(folder, OLD, "one")
    commit(folder, OLD, "two")
    assert (folder / "checkpoint").read_text() == "two"
    assert place.latest() == OLD


def test_the_chief_of_an_earlier_term_is_refused_and_leaves_nothing_behind(folder: Path) -> None:
    place = Fence(str(folder))
    place.begin(OLD, "worker 0")
    commit(folder, OLD, "old")
    place.begin(NEW, "worker 1")
    with pytest.raises(DeposedError, match=r"term 6, and term 7 has begun"):
        commit(folder, OLD, "late")
    commit(folder, NEW, "new")
    assert (folder / "checkpoint").read_text() == "new"
    assert not list(folder.glob("*.pending"))


def test_an_earlier_term_cannot_begin(folder: Path) -> None:
    place = Fence(str(folder))
    place.begin(NEW, "worker 1")
    with pytest.raises(DeposedError):
        place.begin(OLD, "worker 0")
    assert place.latest() == NEW


def test_of_two_terms_with_one_token_one_can_write(folder: Path) -> None:
    one, other = Term(7, "aa"), Term(7, "bb")
    place = Fence(str(folder))
    place.begin(one, "worker 0")
    place.begin(other, "worker 1")
    with pytest.raises(DeposedError):
        commit(folder, one, "one")
    commit(folder, other, "other")


def test_marks_of_old_terms_do_not_pile_up(folder: Path) -> None:
    for token in range(1, 12):
        Fence(str(folder)).begin(Term(token, "aa"), "worker 0")
    assert len(list(folder.glob("checkpoint.chief-*"))) == 2
    assert Fence(str(folder)).latest() == Term(11, "aa")


def test_a_folder_that_does_not_exist_has_no_term(folder: Path) -> None:
    assert Fence(str(folder)).latest() is None


class Stopping:
    """Runs something else in the middle of a commit, as if the writer had been stopped there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, meanwhile: Callable[[], None]):
        self._count, self._at, self._meanwhile = 0, at, meanwhile
        self._inside = False
        for owner, name in (
            (atomic_file.AtomicFile, "__init__"),
            (atomic_file.AtomicFile, "write"),
            (atomic_file.AtomicFile, "close"),
            (Fence, "latest"),
            (atomic_file.AtomicFile, "commit"),
            (fence, "sync_names"),
        ):
            self._interrupt(monkeypatch, owner, name)

    @property
    def happened(self) -> bool:
        return self._count > self._at

    def _interrupt(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def interrupted(*arguments: Any, **options: Any) -> Any:
            if not self._inside:
                self._inside = True
                if self._count == self._at:
                    self._meanwhile()
                self._count += 1
                self._inside = False
            return call(*arguments, **options)

        monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("at", range(7))
def test_wherever_an_old_chief_is_stopped_he_cannot_commit_after_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    Fence(str(folder)).begin(OLD, "worker 0")
    commit(folder, OLD, "before")
    seen: list[str] = []

    def meanwhile() -> None:
        Fence(str(folder)).begin(NEW, "worker 1")
        seen.append((folder / "checkpoint").read_text())
        commit(folder, NEW, "new")

    stopping = Stopping(monkeypatch, at, meanwhile)
    refused = False
    try:
        commit(folder, OLD, "old")
    except DeposedError:
        refused = True
    assert stopping.happened
    # Committed before the new term began, or not at all.
    assert seen == ["before" if refused else "old"]
    assert (folder / "checkpoint").read_text() == "new"


def save(folder: Path, session: Any, saver: Any, step: int) -> None:
    saver.save(session, str(folder / "model.ckpt"), global_step=step)


def test_a_guarded_saver_writes_for_the_chief_only(folder: Path) -> None:
    folder.mkdir()
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.get_variable("v", [], initializer=tf.zeros_initializer()).initializer)
        saver = tf.train.Saver()
        term: list[Term | None] = [OLD]
        saver.guard = CheckpointGuard(lambda: term[0], "worker 0")
        save(folder, session, saver, 1)
        Fence(str(folder)).begin(NEW, "worker 1")
        with pytest.raises(DeposedError, match="term 7"):
            save(folder, session, saver, 2)
        term[0] = None
        with pytest.raises(DeposedError, match="is not the chief"):
            save(folder, session, saver, 3)
        term[0] = Term(8, "aa")
        save(folder, session, saver, 4)
    assert tf.train.latest_checkpoint(str(folder)).endswith("-4")
    assert not (folder / "model.ckpt-3.index").exists()


def test_in_a_folder_behind_an_url_a_writer_looks_before_he_writes() -> None:
    place = Fence("memory://fenced")
    place.begin(NEW, "worker 1")
    place.commit(NEW, "memory://fenced/checkpoint", b"new")
    with pytest.raises(DeposedError):
        place.commit(OLD, "memory://fenced/checkpoint", b"old")
    with tf.gfile.GFile("memory://fenced/checkpoint") as file:
        assert file.read() == "new"
