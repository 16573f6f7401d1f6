"""`tf.test.main`: runs the tests of a module, or its benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from absl.testing import absltest

from millrace.testing.benchmark import run_benchmarks

_BENCHMARK_FLAGS = ("--benchmark_filter=", "--benchmarks=")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the tests in ``__main__`` and exits.

    With ``--benchmark_filter=REGEX`` (``--benchmarks`` in older versions) runs the benchmarks
    that match instead.
    """
    arguments = list(sys.argv if argv is None else argv)
    for argument in arguments[1:]:
        for flag in _BENCHMARK_FLAGS:
            if argument.startswith(flag):
                run_benchmarks(argument.removeprefix(flag))
                sys.exit(0)
    absltest.main(argv=arguments)
