"""`millrace task`: what it tells the program, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from millrace.cli.task import flags_of
from millrace.launchers.place import Place

CLUSTER = {"ps": ["localhost:1"], "worker": ["localhost:2"]}


def task(folder, source: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    (folder / "t.py").write_text(source)
    return subprocess.run(
        [sys.executable, "-m", "millrace", "task", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def test_a_program_is_told_its_place_and_its_exit_code_is_the_tasks(tmp_path) -> None:
    place = json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 0}})
    source = (
        "import sys, os, json\n# takes --ps_hosts\n"
        "print(sys.argv[1:], os.environ['TF_CONFIG'][-31:])\nsys.exit(7)\n"
    )
    done = task(tmp_path, source, "t.py", "--", "--lr=1", TF_CONFIG=place)
    assert done.returncode == 7, done.stderr
    assert done.stdout.strip() == (
        "['--lr=1', '--ps_hosts=localhost:1', '--worker_hosts=localhost:2', '--job_name=worker', "
        '\'--task_index=0\'] {"type": "worker", "index": 0}}'
    )
    assert done.stderr == ""


def test_a_place_that_cannot_be_found_is_one_sentence(tmp_path) -> None:
    done = task(tmp_path, "", "t.py", TF_CONFIG="")
    assert done.returncode == 2
    assert done.stderr.startswith("millrace task: nothing here says which task this is")
    unknown = json.dumps({"cluster": {"ps": ["no.invalid:1"]}, "task": {"type": "ps", "index": 0}})
    done = task(tmp_path, "", "--wait-for-names", "0", "t.py", TF_CONFIG=unknown)
    assert done.returncode == 2
    assert "the name no.invalid does not resolve on" in done.stderr


def test_flags_are_spelled_as_the_program_spells_them() -> None:
    place = Place(CLUSTER, "ps", 0, "")
    assert flags_of(place, "task_id")[-2:] == ["--job_name=ps", "--task_id=0"]
