"""What all unit tests share: a graph of each test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millrace as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    """The default graph while the test runs."""
    with tf.Graph().as_default() as made:
        yield made
