"""Which life of a task counts."""

from millrace.protocol.membership import Membership, Verdict


def test_a_task_is_new_once_and_known_from_then_on():
    members = Membership()
    assert members.met("a:1", 7) is Verdict.NEW
    assert members.met("a:1", 7) is Verdict.KNOWN
    assert members.met("b:1", 7) is Verdict.NEW


def test_a_lost_task_may_return_in_the_same_life():
    members = Membership()
    members.met("a:1", 7)
    members.lost("a:1")
    assert members.met("a:1", 7) is Verdict.RETURNED
    assert members.met("a:1", 7) is Verdict.KNOWN


def test_a_life_that_another_followed_is_refused_for_good():
    members = Membership()
    members.met("a:1", 7)
    assert members.met("a:1", 8) is Verdict.RESTARTED
    assert members.is_over("a:1", 7) and not members.is_over("a:1", 8)
    assert members.met("a:1", 7) is Verdict.REFUSED
    members.lost("a:1")
    assert members.met("a:1", 7) is Verdict.REFUSED
    assert members.met("a:1", 8) is Verdict.RETURNED


def test_losing_somebody_unknown_means_nothing():
    members = Membership()
    members.lost("a:1")
    assert members.met("a:1", 7) is Verdict.NEW


def test_old_lives_are_remembered_within_bounds():
    members = Membership()
    for life in range(5000):
        members.met("a:1", life)
    assert len(members._over) == 4096
    assert members.met("a:1", 4000) is Verdict.REFUSED
