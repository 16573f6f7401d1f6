"""Taking the values at given positions of a list."""

import pytest

from millrace.core.positions import taker


@pytest.mark.parametrize("positions", [[], [0], [2], [1, 0], [2, 2, 1]])
def test_a_taker_takes_what_is_at_its_places_in_their_order(positions):
    values = ["a", "b", "c"]
    assert list(taker(positions)(values)) == [values[position] for position in positions]
