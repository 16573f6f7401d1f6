"""Sessions whose chief is elected, in one process, with a campaign that is decided by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.training.checkpoint.fence import DeposedError, Fence, Term
from millrace.training.election import session as elected
from millrace.training.election.session import address_for
from millrace.training.sessions import monitored_session


class DecidedCampaign:
    """A campaign whose outcome the test decides."""

    name = "worker 0"
    holder = "worker 0"

    def __init__(self) -> None:
        self.now: Term | None = Term(1, "aa")
        self.has_seen_chief = False
        self.stopped = False
        self.heard: list[Term | None] = []

    def term(self) -> Term | None:
        return self.now

    settle = term

    def heard_of(self, term: Term | None) -> None:
        self.heard.append(term)

    def sleep(self, seconds: float) -> None:
        self.now = Term(9, "aa")
        raise DeposedError("elected in the meantime")

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def campaign(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecidedCampaign]:
    campaign = DecidedCampaign()
    monkeypatch.setattr(monitored_session, "start_campaign", lambda *_: campaign)
    yield campaign
    assert campaign.stopped


class Listening(tf.train.SessionRunHook):
    """Notes what it is called for."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def begin(self) -> None:
        self.heard.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.heard.append("session")

    def before_run(self, run_context: Any) -> None:
        self.heard.append("before")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.heard.append("after")

    def end(self, session: Any) -> None:
        self.heard.append("end")


def training(folder: Path, **options: Any) -> tuple[Any, Any]:
    """A training operation, and a session that elects its chief."""
    step = tf.train.get_or_create_global_step()
    train = tf.assign_add(step, 1)
    return train, tf.train.MonitoredTrainingSession(
        is_chief="elect",
        checkpoint_dir=str(folder),
        save_checkpoint_steps=2,
        save_summaries_steps=None,
        log_step_count_steps=None,
        **options,
    )


def saved(folder: Path) -> int:
    path = tf.train.latest_checkpoint(str(folder))
    return -1 if path is None else int(path.rpartition("-")[2])


def test_a_hook_of_the_chief_works_while_its_worker_is_chief(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    hook = Listening()
    train, session = training(tmp_path, chief_only_hooks=[hook])
    with session:
        session.run(train)
        assert hook.heard == ["begin", "session", "before", "after"]
        campaign.now = None
        session.run(train)
        assert hook.heard[4:] == []
        campaign.now = Term(3, "aa")
        session.run(train)
        assert hook.heard[4:] == ["session", "before", "after"]
    assert hook.heard[-1] == "end"


def test_a_lease_that_lapsed_and_is_renewed_does_not_begin_a_new_term(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    hook = Listening()
    train, session = training(tmp_path, chief_only_hooks=[hook])
    with session:
        session.run(train)
        campaign.now = None
        session.run(train)
        campaign.now = Term(1, "aa")
        session.run(train)
    assert hook.heard.count("session") == 1


def test_a_worker_that_is_not_chief_at_the_end_writes_nothing(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    hook = Listening()
    train, session = training(tmp_path, chief_only_hooks=[hook])
    with session:
        session.run(train)
        campaign.now = None
    assert "end" not in hook.heard
    assert saved(tmp_path) == 0


def test_only_the_chief_saves_and_opens_an_event_file(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    train, session = training(tmp_path)
    with session:
        for _ in range(4):
            session.run(train)
        assert saved(tmp_path) == 4
        campaign.now = None
        for _ in range(4):
            session.run(train)
        assert saved(tmp_path) == 4
        campaign.now = Term(2, "aa")
        session.run(train)
        assert saved(tmp_path) in (8, 9)
    assert Fence(str(tmp_path)).latest() == Term(2, "aa")


def test_a_chief_whom_the_folder_refuses_goes_on_as_a_worker(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    train, session = training(tmp_path)
    with session:
        session.run(train)
        Fence(str(tmp_path)).begin(Term(5, "bb"), "worker 1")
        for _ in range(4):
            session.run(train)
        assert saved(tmp_path) == 0
        assert Term(5, "bb") in campaign.heard
        campaign.now = Term(6, "aa")
        session.run(train)
        assert saved(tmp_path) >= 5


def test_a_worker_that_waits_for_the_chief_and_is_elected_makes_the_model(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    campaign.now = None
    train, session = training(tmp_path)
    with session:
        assert session.run(train) == 1
        assert campaign.now == Term(9, "aa")


def test_a_hook_that_the_program_has_for_checkpoints_is_the_chiefs(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    campaign.now = Term(1, "aa")
    own = tf.train.CheckpointSaverHook(str(tmp_path / "own"), save_steps=1)
    train, session = training(tmp_path, hooks=[own])
    with session:
        session.run(train)
        campaign.now = None
        session.run(train)
        session.run(train)
    assert saved(tmp_path / "own") == 1


def test_a_training_that_fails_ends_its_campaign(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    train, session = training(tmp_path)
    with pytest.raises(ZeroDivisionError), session:
        session.run(train)
        raise ZeroDivisionError


def test_a_session_that_cannot_be_made_ends_its_campaign(
    graph: Any, campaign: DecidedCampaign, tmp_path: Path
) -> None:
    class Refusing(tf.train.SessionRunHook):
        def after_create_session(self, session: Any, coord: Any) -> None:
            raise errors.InternalError(None, None, "no")

    with pytest.raises(errors.InternalError):
        training(tmp_path, hooks=[Refusing()])


def test_without_a_cluster_the_environment_elects_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_ELECT", "etcd://a:1/job?lease=2")
    assert address_for(True, "") is None
    assert address_for(False, "grpc://a:2222") == ("etcd", "a:1", "/job", 2.0)
    assert address_for("elect", "") == ("etcd", "a:1", "/job", 2.0)
    assert address_for("builtin", "") == ("builtin", "", "/millrace/chief", 3.0)
    monkeypatch.delenv("MILLRACE_ELECT")
    assert address_for(True, "grpc://a:2222") is None
    assert address_for("elect", "grpc://a:2222") == ("builtin", "", "/millrace/chief", 3.0)
    with pytest.raises(ValueError, match="Cannot hold an election at 'yes'"):
        address_for("yes", "")


def test_a_local_session_that_elects_is_its_own_chief(graph: Any, tmp_path: Path) -> None:
    train, session = training(tmp_path)
    with session:
        session.run(train)
    assert saved(tmp_path) == 1
    assert elected.VARIABLE == "MILLRACE_ELECT"
