"""The smaller parts of `tf.test`: comparing graphs, benchmarks, stubs, the environment."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import millrace as tf
from millrace.testing import benchmark
from millrace.testing import main as main_module


def graph_def(*names: str, value: float = 1.0) -> tf.GraphDef:
    with tf.Graph().as_default() as graph:
        for name in names:
            tf.constant(value, name=name)
    return graph.as_graph_def()


def test_graphs_are_equal_whatever_the_order_of_their_nodes() -> None:
    other = graph_def("b", "a")
    other.versions.producer = 1
    tf.test.assert_equal_graph_def(graph_def("a", "b"), other)


def test_a_difference_between_graphs_is_named() -> None:
    with pytest.raises(AssertionError, match='Did not find expected node \'.*name: "b"'):
        tf.test.assert_equal_graph_def(graph_def("a"), graph_def("a", "b"))
    with pytest.raises(AssertionError, match='Found unexpected node \'.*name: "b"'):
        tf.test.assert_equal_graph_def(graph_def("a", "b"), graph_def("a"))
    with pytest.raises(AssertionError, match="Node named 'a' is"):
        tf.test.assert_equal_graph_def(graph_def("a"), graph_def("a", value=2.0))
    with pytest.raises(TypeError, match="Expected tf.GraphDef for expected, got Graph"):
        tf.test.assert_equal_graph_def(graph_def("a"), tf.Graph())


def test_stubs_are_put_back_in_reverse_order() -> None:
    target = SimpleNamespace(a=1)
    with tf.test.StubOutForTesting() as stubs:
        stubs.Set(target, "a", 2)
        stubs.SmartSet(target, "a", 3)
        stubs.Set(math, "pi", 3)
        assert (target.a, math.pi) == (3, 3)
        with pytest.raises(AttributeError, match="no attribute 'missing'"):
            stubs.SmartSet(target, "missing", 1)
    assert (target.a, math.pi) == (1, pytest.approx(3.14159, abs=1e-4))


def test_an_inherited_attribute_is_uncovered_again() -> None:
    class Base:
        a = 1

    class Derived(Base):
        pass

    stubs = tf.test.StubOutForTesting()
    stubs.Set(Derived, "a", 2)
    stubs.CleanUp()
    assert "a" not in vars(Derived)


def test_a_benchmark_reports_the_median_time_of_a_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TEST_REPORT_FILE_PREFIX", str(tmp_path / "report_"))
    monkeypatch.setattr(benchmark, "_classes", [])

    class Sums(tf.test.Benchmark):
        def benchmark_sum(self) -> None:
            with tf.Graph().as_default(), tf.Session() as session:
                total = tf.reduce_sum(tf.placeholder_with_default([1.0, 2.0], [2]))
                result = self.run_op_benchmark(
                    session, total, min_iters=3, store_trace=True, extras={"note": 1}, mbs=8
                )
                assert result["iters"] == 3

        def helper(self) -> None:
            raise AssertionError("is no benchmark")

    with pytest.raises(SystemExit):
        main_module.main(["program", "--benchmark_filter=Sums"])
    printed = capsys.readouterr().out
    entry = json.loads(printed.split("entry ", 1)[1])
    assert entry["name"] == "Sums.benchmark_sum"
    assert entry["wall_time"] > 0
    assert entry["throughput"] == pytest.approx(8 / entry["wall_time"])
    assert entry["extras"]["note"] == 1
    assert "traceEvents" in entry["extras"]["full_trace_chrome_format"]
    assert json.loads((tmp_path / "report_Sums.benchmark_sum").read_text()) == entry
    assert benchmark.run_benchmarks("Nothing") == 0


def test_the_environment_of_tests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not tf.test.is_gpu_available()
    assert tf.test.gpu_device_name() == ""
    assert not tf.test.is_built_with_cuda()
    assert tf.test.is_built_with_xla()
    folder = tf.test.get_temp_dir()
    assert Path(folder).is_dir() and tf.test.get_temp_dir() == folder
    monkeypatch.setenv("TEST_TMPDIR", str(tmp_path / "given"))
    assert tf.test.get_temp_dir() == str(tmp_path / "given")
    monkeypatch.setenv("TEST_SRCDIR", "/sources")
    assert tf.test.test_src_dir_path("a/b") == "/sources/a/b"
