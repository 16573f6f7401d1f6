"""Which round a chief closes after a fault."""

from __future__ import annotations

from millrace.protocol.rounds import oldest_round, round_to_close


def test_the_round_that_the_first_task_has_taken_is_closed_again() -> None:
    # One accumulator is at 8: round 7 was taken there, the others may not have applied it.
    assert round_to_close([7, 8, 7], began_at=3) == 7


def test_no_round_from_before_the_accumulators_were_emptied_is_closed() -> None:
    assert round_to_close([3, 3], began_at=3) == 3


def test_the_round_before_the_one_being_closed_is_remembered() -> None:
    assert [oldest_round(closing) for closing in (0, 1, 7)] == [0, 0, 6]
