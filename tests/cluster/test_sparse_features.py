"""Sparse features whose tables are on parameter servers: as exact, in few programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.passes import pipeline
from millrace.passes.few_unique import few_unique
from millrace.passes.node import Program
from tests.cluster.test_partitioned_tables import minimize_clipped, setter, table

ROWS, BATCH = 400, 20
FULL = 8


def features(seed: int, varied: bool = True) -> Any:
    """Examples with some ids each, of which some occur in many."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, FULL, BATCH) if varied else np.full(BATCH, FULL // 2)
    indices = [(i, j) for i in range(BATCH) for j in range(lengths[i])]
    frequent = random.integers(0, 5, len(indices))
    ids = random.integers(0, ROWS, len(indices))
    ids = np.where(random.random(len(indices)) < 0.3, frequent, ids)
    return tf.SparseTensorValue(indices, ids, (BATCH, FULL))


def minimize(optimizer: Any, loss: Any) -> Any:
    return optimizer.minimize(loss)


CASES: dict[str, Any] = {
    "sum": ("sum", "div", tf.train.AdagradOptimizer, minimize, {}),
    "mean": ("mean", "mod", tf.train.AdamOptimizer, minimize, {"resource": True}),
    "sqrtn": ("sqrtn", "div", tf.train.GradientDescentOptimizer, minimize, {}),
    "descent_resource": (
        "mean",
        "mod",
        tf.train.GradientDescentOptimizer,
        minimize,
        {"resource": True},
    ),
    "clipped": ("mean", "div", tf.train.AdagradOptimizer, minimize_clipped, {}),
    "weighted": ("mean", "div", tf.train.AdagradOptimizer, minimize, {"weighted": True}),
    "max_norm": ("sum", "mod", tf.train.AdagradOptimizer, minimize, {"max_norm": 0.5}),
    "one_part": ("mean", "div", tf.train.AdagradOptimizer, minimize, {"parts": 1}),
}


class Model:
    def __init__(self, case: str) -> None:
        combiner, strategy, optimizer, train, options = CASES[case]
        self.ids = tf.sparse_placeholder(tf.int64)
        self.weights = tf.sparse_placeholder(tf.float32) if options.get("weighted") else None
        rows = tf.nn.embedding_lookup_sparse(
            table(options.get("parts", 2), options.get("resource", False), ROWS),
            self.ids,
            self.weights,
            partition_strategy=strategy,
            combiner=combiner,
            max_norm=options.get("max_norm"),
        )
        self.loss = tf.reduce_sum(tf.square(rows - 0.5) * tf.constant([1.0, 2.0, 3.0, 4.0]))
        self.step = train(optimizer(0.1), self.loss)

    def feed(self, seed: int, varied: bool = True) -> Any:
        value = features(seed, varied)
        if self.weights is None:
            return {self.ids: value}
        weights = np.linspace(0.5, 2, len(value.values), dtype=np.float32)
        return {self.ids: value, self.weights: value._replace(values=weights)}


@pytest.mark.parametrize("case", CASES)
def test_training_is_as_with_the_distinct_ids_alone(
    case: str, make_cluster: Any, monkeypatch: pytest.MonkeyPatch, without_pass: Any
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    seen = []

    def trained() -> list[Any]:
        with tf.Graph().as_default(), tf.device(setter(cluster)):
            model = Model(case)
            with tf.Session(cluster.target("worker")) as sess:
                sess.run(tf.global_variables_initializer())
                losses = [sess.run([model.loss, model.step], model.feed(i))[0] for i in range(2)]
                return [*losses, *sess.run(tf.global_variables())]

    def noted(program: Program) -> Program:
        seen.extend(node for node in program.nodes if node.type == "_FewUnique")
        return program

    monkeypatch.setattr(pipeline, "CLUSTER", (*pipeline.CLUSTER, noted))
    found = trained()
    assert bool(seen) == (case not in ("weighted", "max_norm"))
    without_pass(few_unique)
    for value, exact in zip(found, trained(), strict=True):
        np.testing.assert_allclose(value, exact, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("varied", [False, True], ids=["as_many", "others"])
def test_the_number_of_ids_may_differ_in_every_step_without_compiling_again(
    make_cluster: Any, compiled: list[str], varied: bool
) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.device(setter(cluster)):
        model = Model("sum")
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        for i in range(5):
            sess.run(model.step, model.feed(i, varied))
        before = len(compiled)
        assert before > 0
        for i in range(5, 40):
            sess.run(model.step, model.feed(i, varied))
        assert len(compiled) - before <= 30


def test_distinct_ids_that_are_seen_are_as_they_are(make_cluster: Any) -> None:
    cluster = make_cluster({"ps": 2, "worker": 1})
    with tf.device(setter(cluster)):
        model = Model("sum")
        graph = tf.get_default_graph()
        distinct = next(op for op in graph.get_operations() if op.type == "Unique").outputs[0]
        looked_up = next(op for op in graph.get_operations() if op.type.startswith("SparseSegm"))
    with tf.Session(cluster.target("worker")) as sess:
        sess.run(tf.global_variables_initializer())
        value = features(0)
        count = len(np.unique(value.values))
        for fetch in (distinct, tf.size(distinct), looked_up.inputs[0]):
            found, _, _ = sess.run([fetch, model.loss, model.step], {model.ids: value})
            assert found == count if found.ndim == 0 else len(found) == count
