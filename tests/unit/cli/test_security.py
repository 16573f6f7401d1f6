"""The flags that secure a job, without processes."""

import stat
from pathlib import Path

import pytest

from millrace.cli import main
from millrace.rpc.certificates import make_folder
from millrace.rpc.security import TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN, TOKEN_FILE

_TRAINER = "import tensorflow as tf  # reads TF_CONFIG"
_VARIABLES = (TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN, TOKEN_FILE)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder with a program, and an environment without keys."""
    for variable in _VARIABLES:
        monkeypatch.setenv(variable, "")  # what a flag sets is taken back after the test
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainer.py").write_text(_TRAINER)
    return tmp_path


def launch(*options: str) -> int:
    return main.main(["launch", "--hosts", "10.0.0.1,10.0.0.2", *options, "trainer.py"])


def test_commands_for_several_machines_say_that_a_door_is_needed(capsys):
    assert launch() == 0
    assert "refuse to start unauthenticated" in capsys.readouterr().out


def test_commands_for_several_machines_come_with_certificates(folder, capsys):
    assert launch("--tls", "--certificates", "keys") == 0
    assert f"{TLS_KEY}=keys/ps-0.key" in capsys.readouterr().out
    made = {path.name for path in (folder / "keys").iterdir()}
    assert {"authority.pem", "ps-0.pem", "worker-1.key", "client.pem", "client.key"} <= made


def test_keys_that_cannot_be_read_are_an_error_of_usage(capsys):
    assert launch("--tls-ca", "nowhere.pem") == 2
    assert "nowhere.pem" in capsys.readouterr().err


def test_a_token_is_not_put_into_the_list_of_processes(monkeypatch, capsys):
    monkeypatch.setenv(TOKEN, "a-token-that-nobody-guesses")
    assert launch("--ssh", "--ssh-command", "false") == 2
    told = capsys.readouterr()
    assert "--token-file" in told.err
    assert "nobody-guesses" not in told.out + told.err


def test_a_folder_of_certificates_is_for_its_owner_only(folder, capsys):
    keys = folder / "keys"
    assert main.main(["certificates", str(keys), "--hosts", "a.example,10.0.0.1"]) == 0
    assert f"export {TLS_KEY}={keys / 'task.key'}" in capsys.readouterr().out
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700
    for path in keys.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert not any(b"PRIVATE" in p.read_bytes() for p in keys.iterdir() if p.suffix != ".key")
    with pytest.raises(FileExistsError):
        make_folder(keys, ["task"], [])
