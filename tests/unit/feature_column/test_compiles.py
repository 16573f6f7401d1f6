"""A step with 26 columns of changing lengths waits for no compiler, and soon makes no programs."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import tiers

COLUMNS, BATCH, BUCKETS = 26, 8, 50
fc = tf.feature_column


@pytest.fixture(autouse=True)
def in_background(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MILLRACE_COMPILE", "background")
    # The first programs are made as soon as shapes come back, however quick the machine is.
    monkeypatch.setattr(tiers, "_FIRST_SHARE", 0.0)
    monkeypatch.setattr(tiers, "_SOON", 1e12)
    yield
    assert tiers.COMPILER.wait(60)


def batch(random: np.random.RandomState, ids):
    """Ids of each column: up to four a row, as many as chance wants."""
    feed = {}
    for column in ids:
        lengths = random.randint(0, 5, BATCH)
        rows = np.repeat(np.arange(BATCH), lengths)
        places = np.concatenate([np.arange(n) for n in lengths])
        where = np.stack([rows, places], 1).astype(np.int64).reshape(-1, 2)
        feed[column] = (where, random.randint(0, BUCKETS, len(rows)), (BATCH, 5))
    return feed


def test_columns_of_changing_lengths_soon_make_no_programs() -> None:
    with tf.Graph().as_default():
        ids = [tf.sparse_placeholder(tf.int64, [BATCH, None]) for _ in range(COLUMNS)]
        features = {f"c{i}": each for i, each in enumerate(ids)}
        columns = [fc.categorical_column_with_identity(name, BUCKETS) for name in features]
        deep = fc.input_layer(features, [fc.embedding_column(c, 2) for c in columns])
        logits = tf.layers.dense(deep, 1) + fc.linear_model(features, columns)
        labels = tf.constant(np.arange(BATCH).reshape(-1, 1) % 2, tf.float32)
        loss = tf.losses.sigmoid_cross_entropy(labels, logits)
        train = tf.train.AdagradOptimizer(0.1).minimize(loss)
        random = np.random.RandomState(0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            waits, before = tiers.COUNTS.waits, tiers.COUNTS.compiles
            for _ in range(12):
                session.run(train, batch(random, ids))
            assert tiers.COMPILER.wait(60)
            known = tiers.COUNTS.compiles
            assert known - before < COLUMNS
            for _ in range(12):
                session.run(train, batch(random, ids))
            assert tiers.COMPILER.wait(60)
        assert tiers.COUNTS.waits == waits
        assert tiers.COUNTS.compiles == known
