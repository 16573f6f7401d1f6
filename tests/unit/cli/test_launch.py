"""What `millrace launch` refuses, before it starts anything, and what it prints."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from millrace.cli import main

TRAINER = 'import tensorflow as tf\nflags.DEFINE_string("ps_hosts", "", "")\n'


def told(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code, and the one sentence."""
    try:
        code = main.main(["launch", *argv])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return code, said.err


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["--nonsense", "t.py"], "--nonsense"),
        (["--workers", "many", "t.py"], "invalid int value: 'many'"),
        (["--workers", "0", "t.py"], "at least one worker"),
        (["--ps", "-1", "t.py"], "--ps -1: a job has no parameter servers, or more"),
        (["--max-restarts", "-1", "t.py"], "--max-restarts -1: say 0 or more"),
        (["--name", "a/b", "t.py"], "--name a/b: letters"),
        (["--hosts", "a", "--port", "70000", "t.py"], "--port 70000: ports are"),
        (["--ssh", "t.py"], "--ssh needs the machines: --hosts a,b,c"),
        (["--hosts", "a,,b", "t.py"], "--hosts a,,b has an empty name in it"),
        (["--cluster-via", "smoke", "t.py"], "invalid choice: 'smoke'"),
        ([], "the following arguments are required: script"),
        (["none.py"], "there is no file none.py"),
        (["--logs", "t.py/logs", "t.py"], "Not a directory: 't.py/logs'"),
        (["plain.py"], "plain.py is no TensorFlow program: it imports neither tensorflow nor"),
        (["--elect=consul://a:1/b", "t.py"], "Cannot hold an election at 'consul://a:1/b'"),
        (["mute.py"], "mute.py does not say how it learns its cluster"),
    ],
)
def test_a_bad_command_line_is_one_sentence_and_exit_code_2(
    argv: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(TRAINER)
    Path("plain.py").write_text("print('no TF here')\n")
    Path("mute.py").write_text("import tensorflow as tf\n")
    code, said = told(argv, capsys)
    assert code == 2
    assert said.startswith("millrace launch: ")
    assert sentence in said


def test_the_commands_for_several_machines_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(TRAINER)
    assert main.main(["launch", "--hosts", "a,me@b", "t.py", "--", "--lr=0.1"]) == 0
    first, *lines = capsys.readouterr().out.splitlines()[1:]
    assert "docs/security.md" in first
    assert [line for line in lines if line.startswith("#")] == [
        "# ps-0 on a",
        "# worker-0 on a",
        "# worker-1 on me@b",
    ]
    assert lines[5].endswith(
        '{"cluster": {"ps": ["a:2222"], "worker": ["a:2223", "b:2222"]}, '
        '"task": {"type": "worker", "index": 1}}\' '
        "millrace task --cluster-via flags t.py -- --lr=0.1"
    )


def test_a_client_of_servers_on_several_machines_runs_on_one_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text('import tensorflow as tf\nps_hosts = ["x:1"]\n')
    assert main.main(["launch", "--hosts", "a,b", "--workers", "2", "t.py"]) == 0
    said = capsys.readouterr().out
    assert "# client-0 on a\n" in said
    assert "# client-1 on b\n" in said


@pytest.mark.parametrize(
    ("words", "address"),
    [
        (["--elect"], "builtin"),
        (["--workers", "2", "--elect", "--port", "3000"], "builtin"),
        (["--elect=etcd://a:2379/job?lease=2"], "'etcd://a:2379/job?lease=2'"),
    ],
)
def test_workers_that_elect_are_told_where_and_the_next_word_is_not_it(
    words: list[str],
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(TRAINER)
    assert main.main(["launch", "--hosts", "a,b", *words, "t.py", "--elect"]) == 0
    lines = capsys.readouterr().out.splitlines()
    commands = {line.split()[1]: lines[i + 1] for i, line in enumerate(lines) if line[0] == "#"}
    assert f"MILLRACE_ELECT={address} " in commands["worker-1"]
    assert "MILLRACE_ELECT" not in commands["ps-0"]
    assert commands["worker-1"].endswith("t.py -- --elect")


def test_a_metrics_port_that_is_taken_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.py").write_text(TRAINER)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = told(["--metrics-port", str(port), "t.py"], capsys)
    assert code == 2
    assert f"ps-0 cannot serve metrics at port {port} (Address already in use)" in said
