"""The `millrace` command."""

import runpy
import sys

import pytest

from millrace.cli import info, main, version
from millrace.client import local
from millrace.platform.version import MILLRACE


def test_version_is_printed_by_option_and_by_command(capsys):
    with pytest.raises(SystemExit) as exit_:
        main.main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"millrace {MILLRACE}\n"
    assert main.main(["version"]) == 0
    assert capsys.readouterr().out == f"{MILLRACE}\n"


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as exit_:
        main.main(["--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    for name, command in main.COMMANDS.items():
        assert name in text
        assert command.SUMMARY in text


def test_no_command_prints_the_help(capsys):
    assert main.main([]) == 0
    assert "usage: millrace" in capsys.readouterr().out


def test_an_unknown_command_is_one_sentence_and_exit_code_2(capsys):
    assert main.main(["frobnicate", "--x"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "millrace: `frobnicate` is not a command; there are: run, check, launch, task, "
        "manifest, server, status, logs, stop, consistency, move, checkpoint, doctor, "
        "dashboard, plan, certificates, import-hook, info, version.\n"
    )


def test_a_misspelt_command_is_told_the_nearest(capsys):
    assert main.main(["verson"]) == 2
    assert capsys.readouterr().err == (
        "millrace: `verson` is not a command; did you mean `version`?\n"
    )


@pytest.mark.parametrize("argv", [["--nonsense"], ["version", "--nonsense"], ["version", "extra"]])
def test_a_bad_argument_is_one_sentence_and_exit_code_2(argv, capsys):
    with pytest.raises(SystemExit) as exit_:
        main.main(argv)
    assert exit_.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert argv[-1] in told
    assert "--help" in told


def test_a_command_explains_itself(capsys):
    with pytest.raises(SystemExit) as exit_:
        main.main(["info", "--help"])
    assert exit_.value.code == 0
    assert "usage: millrace info" in capsys.readouterr().out


def test_a_command_gets_its_own_arguments_and_its_result_is_the_exit_code(monkeypatch):
    class Greet:
        SUMMARY = "greet"
        names: list = []  # noqa: RUF012

        @staticmethod
        def add_arguments(parser):
            parser.add_argument("name")
            parser.add_argument("--loud", action="store_true")

        @staticmethod
        def run(arguments):
            Greet.names.append((arguments.name, arguments.loud))
            return 5

    monkeypatch.setitem(main.COMMANDS, "greet", Greet)
    assert main.main(["greet", "--loud", "Ada"]) == 5
    assert Greet.names == [("Ada", True)]


def test_info_prints_versions_and_devices(capsys):
    assert main.main(["info"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["millrace"] == MILLRACE
    assert lines["python"] == ".".join(map(str, sys.version_info[:3]))
    assert lines["jax"][0].isdigit()
    assert lines["device"].startswith("/job:localhost/replica:0/task:0/device:")


def test_info_does_not_depend_on_the_sign_of_a_hash(capsys, monkeypatch):
    monkeypatch.setattr(local, "hash", lambda value: -5, raising=False)
    assert main.main(["info"]) == 0
    assert "device" in capsys.readouterr().out


def test_info_says_which_package_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(info, "_PACKAGES", ("no-such-package",))
    assert main.main(["info"]) == 0
    assert "no-such-package not installed" in capsys.readouterr().out


def test_python_m_millrace_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["millrace", "version"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_module("millrace", run_name="__main__")
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"{MILLRACE}\n"


def test_every_command_says_what_it_does_in_a_line():
    assert version.SUMMARY and "\n" not in version.SUMMARY
    assert info.SUMMARY and "\n" not in info.SUMMARY
