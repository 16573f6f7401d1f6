"""Workers of TensorFlow and of Millrace in one synchronous training run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROGRAM = Path(__file__).parent / "programs" / "synchronous_worker.py"
_SECONDS = 240
_ROUNDS = 60


def test_a_chief_of_tensorflow_and_a_worker_of_millrace_make_rounds_together(
    tensorflow_python: str, cluster: Any
) -> None:
    started = [
        subprocess.Popen(
            [python, str(_PROGRAM), module, json.dumps(cluster.addresses), str(task), str(_ROUNDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **{k: v for k, v in os.environ.items() if k != "XLA_FLAGS"},
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "CUDA_VISIBLE_DEVICES": "",
            },
        )
        for task, (python, module) in enumerate(
            [(tensorflow_python, "tensorflow"), (sys.executable, "millrace")]
        )
    ]
    results = []
    try:
        for process in started:
            said, errors = process.communicate(timeout=_SECONDS)
            if process.returncode:
                pytest.fail(f"A worker ended with {process.returncode}:\n{errors}", pytrace=False)
            results.append(json.loads(said.splitlines()[-1]))
    finally:
        for process in started:
            process.kill()
            process.wait()
    # Both took part in the rounds.
    assert all(_ROUNDS / 4 < result["batches"] <= 2 * _ROUNDS for result in results), results
    assert all(result["loss"] < 1.0 for result in results), results
