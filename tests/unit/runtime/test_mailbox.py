"""Values that other tasks send: before their step, after it, and for nobody."""

import pytest

from millrace.core import errors
from millrace.runtime import mailbox as mailbox_module
from millrace.runtime.deferred import Deferred
from millrace.runtime.mailbox import Mailbox


@pytest.fixture
def mailbox():
    return Mailbox()


def outcome(deferred):
    assert isinstance(deferred, Deferred) and deferred.done
    return deferred.result()


def test_values_that_are_there_are_taken_at_once(mailbox):
    mailbox.deliver(1, 7, ["a"])
    mailbox.deliver(1, 8, ["b"])
    assert mailbox.take(1, 8, "b") == ["b"]
    assert mailbox.take(1, 7, "a") == ["a"]


def test_values_that_are_not_there_arrive_later(mailbox):
    waiting = mailbox.take(1, 7, "values from /job:ps")
    assert not waiting.done and waiting.waits_for == "values from /job:ps"
    mailbox.deliver(1, 8, ["other"])
    mailbox.deliver(2, 7, ["other step"])
    assert not waiting.done
    mailbox.deliver(1, 7, ["mine"])
    assert outcome(waiting) == ["mine"]


def test_the_end_of_a_step_ends_its_waits_with_the_cause(mailbox):
    waiting, other = mailbox.take(1, 7, ""), mailbox.take(2, 7, "")
    mailbox.end(1, errors.UnavailableError(None, None, "gone"))
    with pytest.raises(errors.UnavailableError, match="gone"):
        outcome(waiting)
    assert not other.done


def test_what_comes_after_the_end_is_dropped(mailbox):
    mailbox.end(1)
    mailbox.deliver(1, 7, ["late"])
    assert not mailbox._boxes
    with pytest.raises(errors.CancelledError):
        mailbox.take(1, 7, "")


def test_a_step_that_failed_before_it_began_knows_why(mailbox):
    mailbox.end(1, errors.AbortedError(None, None, "too late"))
    assert isinstance(mailbox.error_of(1), errors.AbortedError)
    assert mailbox.error_of(2) is None
    with pytest.raises(errors.AbortedError, match="too late"):
        mailbox.take(1, 7, "")


def test_the_first_cause_stays(mailbox):
    mailbox.end(1, errors.AbortedError(None, None, "first"))
    mailbox.end(1, errors.UnavailableError(None, None, "second"))
    assert "first" in mailbox.error_of(1).message


def test_steps_that_ended_are_remembered_within_bounds(mailbox, monkeypatch):
    monkeypatch.setattr(mailbox_module, "_MAX_ENDED", 10)
    for step in range(100):
        mailbox.take(step, 1, "")
        mailbox.end(step)
    assert len(mailbox._ended) == 10 and not mailbox._boxes


def test_what_a_lost_task_sent_for_steps_that_nobody_knows_is_dropped(mailbox):
    mailbox.deliver(1, 7, ["known"], "ps:1")
    mailbox.deliver(2, 7, ["unknown"], "ps:1")
    mailbox.deliver(3, 7, ["of another"], "ps:2")
    mailbox.forget_source("ps:1", {1})
    assert sorted(mailbox._boxes) == [1, 3]


def test_one_wait_can_be_given_up(mailbox):
    waiting, other = mailbox.take(1, 7, ""), mailbox.take(1, 8, "")
    mailbox.give_up(1, 7)
    with pytest.raises(errors.CancelledError):
        outcome(waiting)
    assert not other.done
    mailbox.give_up(1, 8)
    assert not mailbox._boxes
    mailbox.give_up(1, 8)
