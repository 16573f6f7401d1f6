"""The batch script, and what is said without a Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.cli.main import main
from millrace.launchers import slurm
from millrace.launchers.slurm import Batch, SlurmError


def test_the_script_asks_for_all_tasks_and_lets_each_find_its_place() -> None:
    batch = Batch(
        "mnist",
        2,
        4,
        ["python", "-m", "millrace", "task", "--ps", "2", "t.py", "--", "--name=a b"],
        Path("/logs"),
        "1:00:00",
        ["--partition=gpu"],
        {"MILLRACE_TOKEN_FILE": "/logs/token"},
    )
    assert slurm.script_of(batch).splitlines() == [
        "#!/bin/bash",
        "#SBATCH --job-name=mnist",
        "#SBATCH --output=/logs/slurm.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --requeue",
        "#SBATCH --time=1:00:00",
        "#SBATCH --signal=TERM@60",
        "#SBATCH --partition=gpu",
        "#SBATCH --ntasks=6",
        "",
        "export MILLRACE_GRACE_SECONDS=50",
        "export MILLRACE_TOKEN_FILE=/logs/token",
        "srun --kill-on-bad-exit=1 --output=/logs/task-%t.log python -m millrace task --ps 2 t.py "
        "-- '--name=a b'",
    ]


def test_without_slurm_one_sentence_says_so(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("import tensorflow")
    assert main(["launch", "--on", "slurm", "t.py"]) == 2
    said = capsys.readouterr().err
    assert said == (
        "millrace launch: there is no sbatch on this machine; run this on a login node of Slurm\n"
    )
    with pytest.raises(SlurmError, match="there is no scancel"):
        slurm.cancel("1")


def test_the_script_is_printed_and_nothing_is_made_with_dry_run(
    tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text("import tensorflow")
    assert main(["launch", "--on", "slurm", "--dry-run", "--ps", "1", "t.py", "--", "--x=1"]) == 0
    script = capsys.readouterr().out
    assert "#SBATCH --ntasks=3" in script and "t.py -- --x=1" in script
    assert [path.name for path in tmp_path.iterdir()] == ["t.py"]


def test_a_job_that_its_limit_ended_is_told_apart(monkeypatch) -> None:
    states = iter(
        [
            {"JobState": "PENDING", "Reason": "Resources"},
            {"JobState": "RUNNING"},
            {"JobState": "TIMEOUT", "ExitCode": "0:15"},
        ]
    )
    monkeypatch.setattr(slurm, "describe", lambda identifier: next(states))
    monkeypatch.setattr(slurm, "_POLL_SECONDS", 0.0)
    told: list[str] = []
    code, why = slurm.follow("1", told.append)
    assert (code, told) == (143, ["pending (Resources)", "running", "timeout"])
    assert "say a longer --time" in why


def test_ps_and_workers_that_want_different_nodes_are_a_heterogeneous_job() -> None:
    options = ["--partition=all", "ps:--mem=64G", "worker:--gres=gpu:1"]
    batch = slurm.Batch("mnist", 2, 4, ["millrace", "task"], Path("/logs"), "", options)
    lines = slurm.script_of(batch).splitlines()
    assert lines[5:11] == [
        "#SBATCH --partition=all",
        "#SBATCH --ntasks=2",
        "#SBATCH --mem=64G",
        "#SBATCH hetjob",
        "#SBATCH --ntasks=4",
        "#SBATCH --gres=gpu:1",
    ]
    assert lines[-1].startswith("srun --kill-on-bad-exit=1 --het-group=0,1 sh -c ")
