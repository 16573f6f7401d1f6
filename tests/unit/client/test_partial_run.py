"""Steps whose feeds and fetches come in parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf


class Chain:
    """(a + b) -> total, total * c -> product."""

    def __init__(self) -> None:
        self.a = tf.placeholder(tf.float32, [], name="a")
        self.b = tf.placeholder(tf.float32, [], name="b")
        self.c = tf.placeholder(tf.float32, [], name="c")
        self.total = tf.add(self.a, self.b, name="total")
        self.product = tf.multiply(self.total, self.c, name="product")
        self.session = tf.Session()

    def setup(self) -> str:
        return self.session.partial_run_setup([self.total, self.product], [self.a, self.b, self.c])


@pytest.fixture
def chain() -> Iterator[Chain]:
    with tf.Graph().as_default():
        made = Chain()
        yield made
        made.session.close()


def test_a_later_feed_may_depend_on_an_earlier_fetch(chain: Chain) -> None:
    handle = chain.setup()
    total = chain.session.partial_run(handle, chain.total, {chain.a: 1, chain.b: 2})
    assert total == 3.0
    assert chain.session.partial_run(handle, chain.product, {chain.c: total * 2}) == 18.0


def test_feeds_may_come_without_fetches(chain: Chain) -> None:
    handle = chain.setup()
    assert chain.session.partial_run(handle, [], {chain.a: 1}) == []
    assert chain.session.partial_run(handle, {"t": chain.total}, {chain.b: 1}) == {"t": 2.0}


def test_several_partial_runs_go_on_side_by_side(chain: Chain) -> None:
    first, second = chain.setup(), chain.setup()
    assert first != second
    assert chain.session.partial_run(first, chain.total, {chain.a: 1, chain.b: 1}) == 2.0
    assert chain.session.partial_run(second, chain.total, {chain.a: 5, chain.b: 5}) == 10.0
    assert chain.session.partial_run(first, chain.product, {chain.c: 2}) == 4.0
    assert chain.session.partial_run(second, chain.product, {chain.c: 2}) == 20.0


def test_nothing_runs_twice(chain: Chain) -> None:
    v = tf.Variable(0.0)
    with tf.control_dependencies([chain.total]):
        count = tf.assign_add(v, 1.0)
    session = chain.session
    session.run(v.initializer)
    handle = session.partial_run_setup([count, chain.product], [chain.a, chain.b, chain.c])
    session.partial_run(handle, count, {chain.a: 1, chain.b: 1})
    session.partial_run(handle, chain.product, {chain.c: 1})
    assert session.run(v) == 1.0


def test_operations_can_be_fetched_too(chain: Chain) -> None:
    handle = chain.session.partial_run_setup(
        [chain.total.op, chain.product], [chain.a, chain.b, chain.c]
    )
    assert chain.session.partial_run(handle, chain.total.op, {chain.a: 1, chain.b: 2}) is None
    assert chain.session.partial_run(handle, chain.product, {chain.c: 5}) == 15.0


def refused(call: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        call()
    assert message in str(caught.value)


def test_a_fetch_whose_feeds_are_missing_is_refused_and_can_be_tried_again(chain: Chain) -> None:
    handle, session = chain.setup(), chain.session
    refused(
        lambda: session.partial_run(handle, chain.product, {chain.a: 1, chain.b: 2}),
        "not fed yet, among c:0",
    )
    assert session.partial_run(handle, chain.product, {chain.c: 2}) == 6.0


def test_a_fed_tensor_can_be_fetched_once_it_is_fed(chain: Chain) -> None:
    handle = chain.session.partial_run_setup([chain.a, chain.total], [chain.a, chain.b])
    refused(lambda: chain.session.partial_run(handle, chain.a), "not fed yet, among a:0, b:0")
    assert chain.session.partial_run(handle, chain.a, {chain.a: 4}) == 4.0


def test_what_was_not_set_up_or_is_done_is_refused(chain: Chain) -> None:
    session = chain.session
    handle = session.partial_run_setup([chain.total], [chain.a, chain.b])
    refused(
        lambda: session.partial_run(handle, chain.product, {chain.a: 1}),
        "The fetch product:0 was not specified in partial_run_setup.",
    )
    refused(
        lambda: session.partial_run(handle, chain.total, {chain.c: 1}),
        "The feed c:0 was not specified in partial_run_setup.",
    )
    session.partial_run(handle, [], {chain.a: 1})
    refused(
        lambda: session.partial_run(handle, [], {chain.a: 1}), "The feed a:0 has already been fed."
    )
    session.partial_run(handle, chain.total, {chain.b: 1})
    refused(lambda: session.partial_run(handle, chain.total), "is no handle of a partial run")
    refused(lambda: session.partial_run("zz", chain.total), "is no handle of a partial run")
    refused(
        lambda: session.partial_run_setup([], [chain.a]),
        "Must specify at least one target to fetch or execute.",
    )


def test_a_failing_op_ends_the_partial_run(chain: Chain) -> None:
    session = chain.session
    checked = tf.check_numerics(chain.total, "bad total")
    handle = session.partial_run_setup([checked, chain.product], [chain.a, chain.b, chain.c])
    for feeds in ({chain.a: np.inf, chain.b: 1}, None):
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad total"):
            session.partial_run(handle, checked, feeds)
    assert session.run(chain.total, {chain.a: 1, chain.b: 1}) == 2.0
