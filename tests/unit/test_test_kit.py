"""What the tests themselves stand on: the flags that tests/conftest.py gives to XLA."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def kit(request):
    conftest = Path(__file__).parents[1] / "conftest.py"
    return request.config.pluginmanager.get_plugin(str(conftest))


def test_a_flag_that_this_jaxlib_does_not_have_is_left_out_also_if_its_bytes_have_the_name(kit):
    good = "--xla_backend_optimization_level=0"
    # Both names begin others, so they stand in the library; XLA would end the process at either.
    assert kit._known(("--xla_cpu=1", good, "--xla_backend=true")) == good


def test_no_flag_at_all_may_be_left(kit):
    assert kit._known(("--xla_cpu=1",)) == ""
