"""`tf.test.Benchmark`: timing steps of a session, with the results in one line each."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from typing import Any

import numpy as np

from millrace.client.timeline import Timeline
from millrace.core.config import ConfigProto, RunMetadata, RunOptions

_REPORT_PREFIX_VARIABLE = "TEST_REPORT_FILE_PREFIX"
_classes: list[type[Benchmark]] = []


class Benchmark:
    """Base class of benchmarks: methods whose names begin with ``benchmark``."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        _classes.append(cls)

    def evaluate(self, tensors: Any) -> Any:
        """The values of tensors in the default session."""
        return tensors.eval() if hasattr(tensors, "eval") else [t.eval() for t in tensors]

    def _get_name(self, overwrite_name: str | None) -> str:
        if overwrite_name:
            return f"{type(self).__name__}.{overwrite_name}"
        frame: Any = sys._getframe(1)
        while frame is not None:
            caller = frame.f_locals.get("self")
            if caller is self and frame.f_code.co_name.startswith("benchmark"):
                return f"{type(self).__name__}.{frame.f_code.co_name}"
            frame = frame.f_back
        return type(self).__name__

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: dict[str, Any] | None = None,
        name: str | None = None,
        metrics: Any = None,
    ) -> None:
        """Prints a result, and writes it where TEST_REPORT_FILE_PREFIX says.

        Args:
          iters: How many repetitions it is the result of.
          cpu_time: Seconds of processor time a repetition.
          wall_time: Seconds a repetition.
          throughput: Megabytes a second.
          extras: Further values by name.
          name: Name of the result; the calling method by default.
          metrics: Further values, as a list of dicts.
        """
        entry: dict[str, Any] = {"name": self._get_name(name)}
        for key, value in (
            ("iters", iters),
            ("cpu_time", cpu_time),
            ("wall_time", wall_time),
            ("throughput", throughput),
            ("extras", extras),
            ("metrics", metrics),
        ):
            if value is not None:
                entry[key] = value
        text = json.dumps(entry, default=float)
        print(f"entry {text}", flush=True)
        prefix = os.environ.get(_REPORT_PREFIX_VARIABLE)
        if prefix:
            path = f"{prefix}{entry['name'].replace('/', '__')}"
            with open(path, "w") as file:
                file.write(text)

    def run_op_benchmark(
        self,
        sess: Any,
        op_or_tensor: Any,
        feed_dict: Any = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: dict[str, Any] | None = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Times a fetch in a session and reports the median.

        Args:
          sess: The session.
          op_or_tensor: What to fetch; a tensor's value is not transferred.
          feed_dict: Feeds.
          burn_iters: Repetitions before the clock starts.
          min_iters: Repetitions that count.
          store_trace: Whether the report has a Chrome trace of one step.
          store_memory_usage: Unused; TensorFlow has it.
          name: Name of the result.
          extras: Further values for the report.
          mbs: Megabytes that a step moves, for the throughput.

        Returns:
          What was reported.
        """
        target = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(target, feed_dict=feed_dict)
        durations = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(target, feed_dict=feed_dict)
            durations.append(time.perf_counter() - start)
        details = dict(extras or {})
        if store_trace:
            metadata = RunMetadata()
            options = RunOptions(trace_level=RunOptions.FULL_TRACE)
            sess.run(target, feed_dict=feed_dict, options=options, run_metadata=metadata)
            trace = Timeline(metadata.step_stats).generate_chrome_trace_format()
            details["full_trace_chrome_format"] = trace
        median = float(np.median(durations)) if durations else -1.0
        throughput = mbs / median if median > 0 else 0.0
        result: dict[str, Any] = {
            "name": self._get_name(name),
            "iters": min_iters,
            "wall_time": median,
            "extras": details,
            "throughput": throughput,
        }
        details["wall_time_mean"] = float(np.mean(durations)) if durations else -1.0
        details["wall_time_stdev"] = float(np.std(durations)) if durations else 0.0
        self.report_benchmark(
            iters=min_iters,
            wall_time=median,
            throughput=throughput,
            extras=details,
            name=name,
        )
        return result


def benchmark_config() -> Any:
    """A ConfigProto for benchmarks: nothing that varies from run to run."""
    return ConfigProto()


def run_benchmarks(pattern: str) -> int:
    """Runs the benchmarks whose ``Class.method`` matches a regular expression; how many."""
    count = 0
    for cls in _classes:
        for attribute in sorted(dir(cls)):
            full = f"{cls.__module__}.{cls.__name__}.{attribute}"
            if attribute.startswith("benchmark") and (
                pattern in ("all", ".") or re.search(pattern, full)
            ):
                getattr(cls(), attribute)()
                count += 1
    return count
