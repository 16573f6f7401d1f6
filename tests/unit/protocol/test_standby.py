"""A standby applies changes in order, and serves once, with all that it has received."""

from __future__ import annotations

import pytest

from millrace.protocol.replication import events
from millrace.protocol.replication.instructions import Acknowledge, Apply, StartOver
from millrace.protocol.replication.standby import Phase, Standby
from millrace.protocol.replication.view import Member, View

ME, PRIMARY = Member("b:1", 2), Member("a:1", 1)


@pytest.fixture
def standby() -> Standby:
    found = Standby(ME)
    assert found.on(events.SnapshotReceived(5)) == [Acknowledge(5)]
    return found


def test_a_change_is_acknowledged_and_applied_once(standby: Standby) -> None:
    assert standby.on(events.ChangeReceived(6)) == [Acknowledge(6), Apply(6)]
    assert standby.on(events.ChangeReceived(6)) == [Acknowledge(6)]


def test_a_gap_makes_it_start_over(standby: Standby) -> None:
    (told,) = standby.on(events.ChangeReceived(7))
    assert isinstance(told, StartOver) and "change 7 came after 5" in told.reason
    assert standby.phase is Phase.OVER
    assert standby.on(events.ChangeReceived(6)) == []


def test_changes_before_a_snapshot_and_a_second_snapshot_are_ignored(standby: Standby) -> None:
    assert Standby(ME).on(events.ChangeReceived(1)) == []
    assert standby.on(events.SnapshotReceived(9)) == []
    assert standby.received == 5


def test_nothing_is_acknowledged_once_the_primary_is_given_up(standby: Standby) -> None:
    standby.on(events.PrimaryLost())
    assert standby.on(events.ChangeReceived(6)) == []


def test_a_view_survives_its_bytes_and_other_bytes_are_refused() -> None:
    view = View(3, PRIMARY).followed_by(ME, PRIMARY)
    assert View.decode(view.encode()) == View(4, ME, PRIMARY)
    for wrong in (b"", b"[1]", b'[1, ["a"], null]', b"[1, 2, null]"):
        with pytest.raises(ValueError, match="no view of a task's replicas"):
            View.decode(wrong)
