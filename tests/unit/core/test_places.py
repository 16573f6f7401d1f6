"""Taking the values at given places of a list."""

import pytest

from millrace.core.places import taker


@pytest.mark.parametrize("places", [[], [0], [2], [1, 0], [2, 2, 1]])
def test_a_taker_takes_what_is_at_its_places_in_their_order(places):
    values = ["a", "b", "c"]
    assert list(taker(places)(values)) == [values[place] for place in places]
