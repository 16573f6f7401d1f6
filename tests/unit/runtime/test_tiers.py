"""Which tier runs a stage: at once on NumPy, by XLA once a program is there and quicker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.runtime import compiled_stage, split_stage, tiers
from millrace.runtime.variable_state import writable


@pytest.fixture(autouse=True)
def in_background(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MILLRACE_COMPILE", "background")
    monkeypatch.setattr(tiers, "EXPERIENCE", tiers.Experience())
    yield
    assert tiers.COMPILER.wait(60)


def ended() -> None:
    """Waits until the compiler has nothing more to do."""
    assert tiers.COMPILER.wait(60)


def test_the_first_step_does_not_wait_for_a_compiler() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    total = tf.reduce_sum(tf.nn.softmax(x) * x)
    waits, compiles = tiers.COUNTS.waits, tiers.COUNTS.compiles
    with tf.Session() as sess:
        sess.run(total, {x: np.ones([2, 3])})
        assert sess._backend.xla_calls == 0
    assert tiers.COUNTS.waits == waits
    assert tiers.COUNTS.compiles == compiles


def test_shapes_that_come_back_get_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_FIRST_SHARE", 0.0)
    monkeypatch.setattr(tiers, "_SOON", 1e12)
    monkeypatch.setattr(tiers, "_TOLERANCE", float("inf"))
    x = tf.placeholder(tf.float32, [None, 3])
    total = tf.reduce_sum(tf.nn.softmax(x) * x)
    value = np.arange(6.0).reshape(2, 3)
    with tf.Session() as sess:
        first = sess.run(total, {x: value})
        sess.run(total, {x: value})
        ended()
        calls = sess._backend.xla_calls
        assert sess.run(total, {x: value}) == pytest.approx(first, rel=1e-6)
        assert sess._backend.xla_calls == calls + 1


def test_compiles_do_not_grow_with_the_number_of_shapes() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.Variable(tf.ones([3, 2]))
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    before, waits = tiers.COUNTS.compiles, tiers.COUNTS.waits
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for length in range(1, 60):
            sess.run(train, {x: np.ones([length, 3])})
        ended()
        assert tiers.COUNTS.compiles - before <= 1
        assert tiers.COUNTS.waits == waits


def test_variables_go_from_one_tier_to_the_other_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_FIRST_SHARE", 0.0)
    monkeypatch.setattr(tiers, "_SOON", 1e12)
    monkeypatch.setattr(tiers, "_TOLERANCE", float("inf"))
    x = tf.placeholder(tf.float32, [None])
    v = tf.Variable(0.0)
    add = tf.assign_add(v, tf.reduce_sum(x))
    with tf.Session() as sess:
        sess.run(v.initializer)
        for turn in range(1, 4):
            sess.run(add.op, {x: [1.0]})
            sess.run(add.op, {x: [1.0, 1.0]})
            ended()
            assert sess.run(v) == 3.0 * turn
        assert sess._backend.xla_calls > 0


def test_a_program_that_is_slower_than_numpy_is_not_used() -> None:
    shape = tiers.Shape()
    shape.program = object()
    shape.note_host_run(0.001)
    for seconds in (9.0, *[0.003, 0.002] * 5):
        assert shape.program is not None
        shape.note_program_run(seconds)
    assert shape.program is None
    assert "2000 us" in shape.reason


def test_a_program_that_is_many_times_slower_is_given_up_soon() -> None:
    shape = tiers.Shape()
    shape.program = object()
    shape.note_host_run(0.001)
    for seconds in (9.0, 0.008, 0.009, 0.008):
        assert shape.program is not None
        shape.note_program_run(seconds)
    assert shape.program is None


def test_programs_that_saved_nothing_make_the_next_ones_come_later() -> None:
    experience = tiers.Experience()
    for _ in range(3):
        experience.note_saving(-2.0)
    assert experience.saved < 0.3
    experience.note_compile(100, 10.0)
    assert experience.expected_seconds(100) > 2.0


def test_two_ways_are_compared_by_turns() -> None:
    turns = tiers.Turns()
    ways = []
    while turns.better is None:
        ways.append(turns.next)
        turns.note(ways[-1], 5.0 if len(ways) < 3 else (0.002, 0.001)[ways[-1]])
    assert turns.better == 1
    assert ways[:4] == [0, 1, 0, 1]
    assert len(ways) == 20


def test_parts_that_make_a_stage_no_quicker_are_given_up() -> None:
    ids = tf.placeholder(tf.int64, [None])
    w = tf.Variable(np.ones([8, 8], np.float32))
    bag = tf.unsorted_segment_sum(tf.gather(w, ids), ids % 4, 4)
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(bag, w)), w)))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with pytest.MonkeyPatch.context() as patch, tf.Session() as sess:
        patch.setattr(compiled_stage, "FIRST_SAMPLE", 1)
        patch.setattr(tiers.EXPERIENCE, "expected_seconds", lambda nodes: 0.0)
        patch.setattr(tiers, "_TOLERANCE", float("inf"))
        patch.setattr(tiers.Turns, "note", lambda self, way, seconds: setattr(self, "better", 0))
        for limit in ("_LEAST_SECONDS", "_LEAST_SHARE"):
            patch.setattr(split_stage, limit, 0.0)
        sess.run(tf.global_variables_initializer())
        for n in range(1, 20):
            sess.run(train, {ids: np.arange(n) % 8})
            ended()
        runs = tiers.COUNTS.program_runs
        for n in range(20, 30):
            sess.run(train, {ids: np.arange(n) % 8})
        assert tiers.COUNTS.program_runs == runs


def test_host_nodes_that_only_compute_are_part_of_the_line() -> None:
    text = tf.placeholder(tf.string, [None])
    ids = tf.string_to_hash_bucket_fast(text, 10)
    table = tf.Variable(np.arange(20, dtype=np.float32).reshape(10, 2))
    distinct, places = tf.unique(ids)
    rows = tf.gather(tf.gather(table, distinct), places)
    loss = tf.reduce_sum(tf.square(rows))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        seen = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        for _ in range(3):
            sess.run([train, loss], {text: [b"a", b"b", b"a"]}, options, seen)
        nodes = [n.node_name for d in seen.step_stats.dev_stats for n in d.node_stats]
        assert [name for name in nodes if name.startswith("stage")] == ["stage_0"]


def test_compiling_waits_until_numpy_has_cost_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_SECONDS", 1.0)
    monkeypatch.setattr(tiers.EXPERIENCE, "seconds_per_node", 0.0)
    monkeypatch.setattr(tiers, "_FIRST_SHARE", 0.1)
    programs = tiers.Programs(5)
    shape = programs.shape("a")
    shape.note_host_run(0.06)
    assert not programs.wants_program(shape), "it has not come back"
    shape.note_host_run(0.05)
    assert programs.wants_program(shape)
    assert not programs.wants_program(shape), "once is enough"
    programs.add(shape, object(), 2.0)
    other = programs.shape("b")
    other.note_host_run(9.0)
    other.note_host_run(1.0)
    other.note_host_run(1.0)
    assert not programs.wants_program(other), "the second must have cost twice as much"
    other.note_host_run(1.0)
    assert programs.wants_program(other)


def test_what_only_first_runs_cost_makes_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers.EXPERIENCE, "expected_seconds", lambda nodes: 10.0)
    monkeypatch.setattr(tiers.EXPERIENCE, "saved", 1.0)
    whole, part = tiers.Programs(5), tiers.Programs(5, is_part=True)
    for programs, stands_for in ((whole, 1), (part, 16)):
        shape = programs.shape("a")
        shape.note_host_run(50.0, stands_for=stands_for)
        for _ in range(20):
            shape.note_host_run(0.01, stands_for=stands_for)
            assert not programs.wants_program(shape)


def test_a_sampled_run_stands_for_those_since_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiers.EXPERIENCE, "expected_seconds", lambda nodes: 1.0)
    monkeypatch.setattr(tiers.EXPERIENCE, "saved", 1.0)
    programs = tiers.Programs(5, is_part=True)
    shape = programs.shape("a")
    wanted = []
    for stands_for in (16, 32, 64):
        shape.note_host_run(0.01, stands_for=stands_for)
        wanted.append(programs.wants_program(shape))
    assert wanted == [False, False, True]
    assert shape.cost == pytest.approx(1.12)


def test_the_programs_used_last_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "MAX_PROGRAMS", 2)
    programs = tiers.Programs(1)
    shapes = [programs.shape(i) for i in range(3)]
    for shape in shapes[:2]:
        programs.add(shape, object(), 0.1)
    programs.shape(0)  # used again
    programs.add(shapes[2], object(), 0.1)
    assert [shape.program is not None for shape in shapes] == [True, False, True]


def test_never_means_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", "never")
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as sess:
        for _ in range(50):
            sess.run(x * 2.0, {x: [1.0, 2.0]})
        assert sess._backend.xla_calls == 0


def test_an_unknown_mode_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_COMPILE", "sometimes")
    with pytest.raises(ValueError, match="sometimes.*background, now, never"):
        tiers.mode()


def test_a_trace_says_which_tier_ran_and_why() -> None:
    x = tf.placeholder(tf.float32, [2])
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as sess:
        sess.run(x * 2.0, {x: [1.0, 2.0]}, options=options, run_metadata=metadata)
    labels = [n.timeline_label for d in metadata.step_stats.dev_stats for n in d.node_stats]
    assert any("= NumPy(" in label and "these shapes are new" in label for label in labels)


def test_random_numbers_are_the_same_on_both_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    tf.set_random_seed(5)
    drawn = [
        tf.random_normal([4], seed=1),
        tf.random_uniform([4], seed=2),
        tf.truncated_normal([4], seed=3),
        tf.random_uniform([4], 0, 9, tf.int32, seed=4),
        tf.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a + tf.random_uniform([], seed=6)), (0, 0.0)
        )[1],
    ]
    found = []
    for mode in ("now", "never"):
        monkeypatch.setenv("MILLRACE_COMPILE", mode)
        with tf.Session() as sess:
            found.append(sess.run(drawn))
    for by_xla, by_numpy in zip(*found, strict=True):
        np.testing.assert_allclose(by_numpy, by_xla, rtol=1e-6, atol=5e-7)


def test_an_array_is_written_in_place_unless_somebody_looks() -> None:
    table = np.zeros((4, 2), np.float32)
    address = table.ctypes.data
    assert writable(table).ctypes.data == address
    view = table[1:]
    assert writable(table).ctypes.data != address
    assert view.shape == (3, 2)


def test_what_keeps_its_shape_is_compiled_though_other_parts_change() -> None:
    ids = tf.placeholder(tf.int64, [None])
    segments = tf.placeholder(tf.int64, [None])
    table = tf.Variable(np.linspace(-1, 1, 80, dtype=np.float32).reshape(20, 4))
    rows = tf.unsorted_segment_sum(tf.gather(table, ids), segments, 3)
    w = tf.Variable(np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2))
    hidden = tf.nn.relu(tf.matmul(tf.tanh(rows), w) + 0.1)
    loss = tf.reduce_mean(tf.square(hidden - 1.0))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    random = np.random.RandomState(3)
    batches = [
        {ids: random.randint(0, 20, n), segments: np.sort(random.randint(0, 3, n))}
        for n in range(1, 40)
    ]

    def losses(mode: str, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        monkeypatch.setenv("MILLRACE_COMPILE", mode)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            found = [sess.run([train, loss], batch)[1] for batch in batches[:20]]
            ended()  # so that the others find the programs
            return found + [sess.run([train, loss], batch)[1] for batch in batches[20:]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_stage, "FIRST_SAMPLE", 1)
        patch.setattr(tiers.EXPERIENCE, "expected_seconds", lambda nodes: 0.0)
        patch.setattr(tiers, "_TOLERANCE", float("inf"))
        for limit in ("_LEAST_SECONDS", "_LEAST_SHARE"):
            patch.setattr(split_stage, limit, 0.0)  # Such small parts are not worth a program.
        compiles, runs = tiers.COUNTS.compiles, tiers.COUNTS.program_runs
        found = losses("background", patch)
        ended()
        assert tiers.COUNTS.compiles - compiles <= 4
        assert tiers.COUNTS.program_runs > runs
        np.testing.assert_allclose(found, losses("never", patch), rtol=1e-5)


def test_a_compile_that_lasts_does_not_hold_up_the_next():
    compiler = tiers.BackgroundCompiler(long_seconds=0.0)
    second_is_done, third_is_done = threading.Event(), threading.Event()
    ended = []

    def first():
        ended.append(second_is_done.wait(60) and third_is_done.wait(60))

    for job in (first, second_is_done.set, third_is_done.set):
        compiler.submit(job)
    assert compiler.wait(60)
    assert ended == [True]


def test_parts_that_take_no_time_are_not_cut_off() -> None:
    ids = tf.placeholder(tf.int64, [None])
    table = tf.Variable(np.ones([20, 4], np.float32))
    fixed: Any = tf.reduce_sum(tf.gather(table, ids), 0)
    for _ in range(8):
        fixed = tf.tanh(fixed) + 0.1
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MILLRACE_COMPILE", "background")
        patch.setattr(split_stage, "_LEAST_SECONDS", 1.0)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            ended()
            compiles = tiers.COUNTS.compiles
            for n in range(1, 30):
                sess.run(fixed, {ids: np.arange(n) % 20})
        ended()
        assert tiers.COUNTS.compiles == compiles
