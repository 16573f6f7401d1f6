"""The programs in examples/, run as their README says, with fewer steps."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MILLRACE = [sys.executable, "-m", "millrace"]


@pytest.fixture(autouse=True)
def as_users_run_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled in the background, as by default: the other tests wait for the compiler."""
    monkeypatch.delenv("MILLRACE_COMPILE", raising=False)


def run(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [*MILLRACE, *arguments], cwd=folder, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("hello_cluster.py", "Hello from task 0, and from task 1!"),
        ("towers.py", "largest error of a weight: 0.00"),
        ("model_parallel.py", "step 300: loss 0."),
    ],
)
def test_a_program_of_one_process(tmp_path: Path, name: str, told: str) -> None:
    assert told in run(tmp_path, "run", str(EXAMPLES / name))


def test_an_estimator_trains_evaluates_and_exports(tmp_path: Path) -> None:
    flags = ["--train_steps=24", "--checkpoint_steps=16", "--filters=2", "--model_dir=model"]
    done = subprocess.run(
        [*MILLRACE, "run", str(EXAMPLES / "estimator_cnn.py"), *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "Saving dict for global step 24: accuracy = 0." in done.stderr
    (model,) = (tmp_path / "model/export/digits").iterdir()
    assert {path.name for path in model.iterdir()} == {"saved_model.pb", "variables"}


@pytest.mark.parametrize(
    ("name", "flags", "told"),
    [
        ("wide_and_deep.py", ["--people=400"], "accuracy_baseline"),
        ("deepfm.py", ["--rows=400"], "auc_precision_recall"),
    ],
)
def test_models_of_feature_columns(tmp_path: Path, name: str, flags: list[str], told: str) -> None:
    steps = ["--train_steps=10", "--batch_size=16", "--eval_rows=64", "--model_dir=model"]
    done = subprocess.run(
        [*MILLRACE, "run", str(EXAMPLES / name), *steps, *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "Saving dict for global step 10: " in done.stderr
    assert told in done.stderr


def test_words_are_decoded_after_training(tmp_path: Path) -> None:
    told = run(tmp_path, "run", str(EXAMPLES / "seq2seq.py"), "--train_steps=100", "--units=16")
    losses = [float(line.split()[-1]) for line in told.splitlines() if line.startswith("step")]
    assert losses and losses[-1] < 2.2
    assert "sorted words: 0." in told


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_click_log_is_learned_from_a_table(tmp_path: Path, form: str) -> None:
    flags = [f"--format={form}", "--train_steps=400"]
    told = run(tmp_path, "run", str(EXAMPLES / "recommendation.py"), *flags)
    assert "accuracy of the last batches: 0.9" in told


@pytest.mark.parametrize(
    ("name", "ps", "log", "steps", "told"),
    [
        ("mnist_sync.py", 1, "worker-1", 20, "worker 1 is done"),
        ("mnist_cnn.py", 1, "worker-1", 4, "worker 1 is done"),
        ("slim_cnn.py", 1, "worker-0", 20, "worker 0 is done: loss"),
        ("partitioned_embedding.py", 2, "worker-0", 40, "worker 0 is done"),
        ("recommendation.py", 1, "worker-1", 40, "accuracy of the last batches"),
        ("encoder_pretraining.py", 2, "worker-1", 20, "worker 1 is done"),
        ("client.py", 1, "client-1", 400, "client 1: y = 0.1"),
    ],
)
def test_a_job(tmp_path: Path, name: str, ps: int, log: str, steps: int, told: str) -> None:
    options = ["--ps", str(ps), "--workers", "2", "--logs", "logs"]
    run(tmp_path, "launch", *options, str(EXAMPLES / name), "--", f"--train_steps={steps}")
    assert told in (tmp_path / "logs" / f"{log}.log").read_text()


def test_a_job_can_be_measured_while_it_trains(tmp_path: Path) -> None:
    options = ["--ps", "2", "--workers", "2", "--logs", "logs", str(EXAMPLES / "mnist_async.py")]
    flags = ["--train_steps=1000000", "--train_dir=train"]
    with subprocess.Popen(
        [*MILLRACE, "launch", *options, "--", *flags], cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as job:
        try:
            # The first checkpoint may be from before the first step.
            evaluate = ["run", str(EXAMPLES / "evaluate.py"), "--train_dir=train", "--count=2"]
            told = run(tmp_path, *evaluate, "--timeout=240")
            assert job.poll() is None
        finally:
            job.send_signal(signal.SIGINT)
            job.wait(120)
    assert "test accuracy 0.9" in told.splitlines()[-1], told
