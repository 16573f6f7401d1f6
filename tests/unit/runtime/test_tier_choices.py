"""A standby computes on the tiers that its primary has noted."""

from __future__ import annotations

from millrace.runtime.tier_choices import HOST, PROGRAM, TierChoices


def test_what_one_task_notes_another_plays_back_in_order() -> None:
    made = TierChoices()
    assert not made.is_played
    for tier in (PROGRAM, HOST, PROGRAM):
        made.note(tier)
    played = TierChoices("".join(made.noted))
    assert played.is_played
    assert [played.next() for _ in range(3)] == [PROGRAM, HOST, PROGRAM]


def test_past_the_end_of_what_was_noted_is_the_host() -> None:
    assert TierChoices("").next() == HOST
