import numpy as np
import pytest

from millrace.core.resource_handle import (
    ResourceHandle,
    handle_array,
    handle_of,
    handle_strings,
)


def test_both_host_forms_of_a_handle_give_it_back():
    handle = ResourceHandle("box", "queue")
    assert handle_of(handle_array(handle)) == handle
    assert handle_of(handle_strings(handle)) == handle
    assert handle_strings(handle).tolist() == [b"box", b"queue"]


def test_a_handle_without_a_container_is_in_the_default_one():
    assert ResourceHandle("", "q") == ResourceHandle("localhost", "q")
    assert len({ResourceHandle("", "q"), ResourceHandle("localhost", "q")}) == 1


def test_what_is_no_handle_is_refused():
    with pytest.raises(ValueError, match="handle of a resource"):
        handle_of(np.zeros(3))
