"""Record the figures: run every case under real TensorFlow and store what it answers.

Needs an environment with `tensorflow-cpu`; nothing of Millrace is imported. See README.md.
A case that TensorFlow does not run as declared is an error of the case: it is printed, and the
exit code is 1.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# `tf.layers` and `tf.keras` are those of Keras 2; Keras 3 has no graphs.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
# The figures are to come from TensorFlow's plain kernels, summed in one order.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import tensorflow
from parity_kit import figures
from parity_kit.comparison import differences
from parity_kit.differentiation import numeric_differences
from parity_kit.execution import (
    Built,
    arrays_of,
    build,
    is_symbolic,
    node_names,
    observe,
    observe_error,
    static_shape,
)
from parity_kit.registry import Case, Scenario, load_library
from parity_kit.replay import replay_case, replay_of_case, replay_scenario, serialized
from parity_kit.scenario_runner import play

# `tf.contrib` is in TensorFlow 1 only, and there not under `compat.v1`.
tf: Any = tensorflow if tensorflow.__version__[:2] == "1." else tensorflow.compat.v1
tf.logging.set_verbosity(tf.logging.FATAL)
tf.disable_v2_behavior()


#: Families of what later releases no longer have: they are recorded with 2.15.
OF_TENSORFLOW_2_15 = ("feature_column", "heads")


class BadCase(Exception):
    """A case does not do under TensorFlow what it says."""


def record_case(case: Case) -> dict[str, Any]:
    """A case's figures."""
    if case.raises is not None:
        return _record_error(case)
    built, values = observe(tf, case, "known")
    record: dict[str, Any] = {
        "inputs": {name: array for name, array in arrays_of(case).items()},
        **values,
        "kinds": {
            "gradients": {name: kind for name, (kind, _) in built.gradients.items()},
            "second": {name: kind for name, (kind, _) in built.second.items()},
        },
        "shapes": {"known": _shapes(built)},
        "names": node_names(built),
        "ops": sorted({op.type for op in built.graph.get_operations()}),
        "numeric": "",
    }
    _record_variants(case, record)
    if case.grad and case.numeric is True:
        record["numeric"] = _precision_of_numeric_check(case)
    if case.replay is True and any(is_symbolic(leaf) for _, leaf in built.outputs):
        record["replay"] = replay_of_case(built, case)
        _must_agree("its own graph, replayed", replay_case(tf, case, record))
    return record


def _record_error(case: Case) -> dict[str, Any]:
    assert case.raises is not None
    stage, error = observe_error(tf, case)
    if case.raises.error not in [kind.__name__ for kind in type(error).__mro__]:
        raise BadCase(f"declared {case.raises.error}, got {type(error).__name__}: {essence(error)}")
    missing = [word for word in case.raises.words if word not in str(error)]
    if missing:
        raise BadCase(f"{missing} not in the message: {essence(error)}")
    return {"error": {"stage": stage, "class": type(error).__name__, "message": essence(error)}}


def essence(error: BaseException) -> str:
    """What an error says, without the stack of the machine on which it was recorded."""
    text = str(error)
    if "\nNode: " in text:
        text = text.partition("\nNode: ")[2].partition("\n")[2]
    return text.partition("\n\t [[")[0].partition("\n\nOriginal stack")[0][:400]


def _record_variants(case: Case, record: dict[str, Any]) -> None:
    for variant in case.variants:
        if variant == "known":
            continue
        try:
            if variant == "partial":
                built, again = observe(tf, case, variant)
            else:
                built, again = build(tf, case, arrays_of(case), variant), None
        except Exception as error:
            record["shapes"][variant] = {"error": type(error).__name__}
            continue
        record["shapes"][variant] = _shapes(built)
        for section, part in (again or {}).items():
            for key, value in part.items():
                expected = record[section][key]
                found = differences(f"{section}{key}", expected, value, case.rtol, case.atol)
                _must_agree(f"the {variant} variant", found)


def _precision_of_numeric_check(case: Case) -> str:
    """The precision in which TensorFlow's own gradients pass the numeric check."""
    # A function that computes in float32 whatever it is given gets float32's step and tolerance.
    for precision in ("float64", "float32"):
        try:
            found = numeric_differences(tf, case, precision, None)
        except Exception as error:
            found = [essence(error)]
        if not found:
            return precision
    raise BadCase("numeric differentiation disagrees:\n  " + "\n  ".join(found))


def _must_agree(what: str, found: list[str]) -> None:
    if found:
        raise BadCase(f"{what} disagrees:\n  " + "\n  ".join(found))


def _shapes(built: Built) -> dict[str, Any]:
    return {p: static_shape(leaf) for p, leaf in built.outputs if isinstance(leaf, tf.Tensor)}


def record_scenario(scenario: Scenario) -> dict[str, Any]:
    """A scenario's figures."""
    runner = play(tf, scenario)
    record: dict[str, Any] = {
        "diary": runner.diary,
        "ops": sorted({op.type for op in runner.graph.get_operations()}),
    }
    steps = [e for e in runner.diary if e["kind"] in ("values", "unrecorded", "error")]
    if scenario.replay is True and steps:
        record["graph"] = serialized(runner.graph)
        _must_agree("its own graph, replayed", replay_scenario(tf, scenario, record))
    return record


def _origin(family: str, count: int) -> dict[str, Any]:
    return {
        "program": f"{tf.__name__}, v2 behaviour disabled",
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "python": sys.version.split()[0],
        "date": datetime.date.today().isoformat(),
        "command": f"python tests/parity/record.py {family}",
        "environment": {"TF_ENABLE_ONEDNN_OPTS": os.environ["TF_ENABLE_ONEDNN_OPTS"]},
        "cases": count,
    }


def main() -> int:
    """Record the families named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", help="families to record (default: all)")
    parser.add_argument("--only", default="", help="try cases whose name has this; store nothing")
    parser.add_argument("--verbose", action="store_true", help="print tracebacks")
    options = parser.parse_args()
    library = load_library(options.families or None)
    items: list[Case | Scenario] = [*library.cases.values(), *library.scenarios.values()]
    failures = 0
    for family in library.families():
        if options.families and family not in options.families:
            continue
        if family in OF_TENSORFLOW_2_15 and not tf.__version__.startswith("2.15."):
            print(f"{family}: passed over, it is recorded with TensorFlow 2.15")
            continue
        began = time.monotonic()
        records: dict[str, Any] = {}
        for item in items:
            if item.family != family or options.only not in item.name:
                continue
            try:
                if isinstance(item, Case):
                    records[item.name] = record_case(item)
                else:
                    records[item.name] = record_scenario(item)
            except Exception as error:
                failures += 1
                print(f"FAILED {item.id}: {type(error).__name__}: {essence(error)}")
                if options.verbose:
                    traceback.print_exc()
            if options.only and item.name in records:
                print(item.id, summary(records[item.name]))
        if not options.only:
            path = figures.save(family, records, _origin(family, len(records)))
            size = path.stat().st_size / 1024
            seconds = time.monotonic() - began
            print(f"{family}: {len(records)} recorded, {size:.0f} KiB, {seconds:.0f} s", flush=True)
    if failures:
        print(f"{failures} cases FAILED", file=sys.stderr)
    return 1 if failures else 0


def summary(record: dict[str, Any]) -> str:
    """A record in a few lines, for a person who is writing the case."""
    left_out = ("replay", "inputs", "graph")
    return "".join(f"\n  {k}: {v}" for k, v in record.items() if k not in left_out)


if __name__ == "__main__":
    sys.exit(main())
