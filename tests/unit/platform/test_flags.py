"""tf.flags: absl with TensorFlow 1's habits."""

import sys

import pytest
from absl import flags as absl_flags

from millrace.platform import app, flags


@pytest.fixture
def define(monkeypatch):
    """Calls a DEFINE_ function and takes the flag away after the test; nothing is parsed yet."""
    names = []
    absl_flags.FLAGS.unparse_flags()

    def define(kind, name, *args, **kwargs):
        names.append(name)
        getattr(flags, f"DEFINE_{kind}")(name, *args, **kwargs)

    yield define
    for name in names:
        delattr(absl_flags.FLAGS, name)
    absl_flags.FLAGS.unparse_flags()


def command_line(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["program", *arguments])


def test_reading_a_flag_parses_the_command_line(define, monkeypatch):
    define("string", "zz_name", "default", "help")
    define("integer", "zz_count", 3, "help")
    define("float", "zz_rate", 0.5, "help")
    define("boolean", "zz_on", False, "help")
    define("bool", "zz_off", True, "help")
    define("enum", "zz_kind", "a", ["a", "b"], "help")
    define("list", "zz_hosts", [], "help")
    command_line(
        monkeypatch,
        "--zz_name=x",
        "--zz_count",
        "7",
        "--zz_rate=1e-3",
        "--zz_on",
        "--nozz_off",
        "--zz_kind=b",
        "--zz_hosts=h:1,h:2",
    )
    read = flags.FLAGS
    assert (read.zz_name, read.zz_count, read.zz_rate) == ("x", 7, 1e-3)
    assert (read.zz_on, read.zz_off, read.zz_kind) == (True, False, "b")
    assert read.zz_hosts == ["h:1", "h:2"]


def test_flags_have_their_default_when_the_command_line_is_silent(define, monkeypatch):
    define("string", "zz_name", None, "help")
    define("multi_integer", "zz_sizes", [1, 2], "help")
    command_line(monkeypatch)
    assert flags.FLAGS.zz_name is None
    assert flags.FLAGS.zz_sizes == [1, 2]


def test_an_unknown_flag_does_not_disturb_early_reading(define, monkeypatch):
    define("string", "zz_name", "d", "help")
    command_line(monkeypatch, "--unknown=1", "--zz_name=x", "rest", "-q")
    assert flags.FLAGS.zz_name == "x"


def test_a_bad_value_is_an_error_that_names_the_flag(define, monkeypatch):
    define("integer", "zz_count", 3, "help")
    command_line(monkeypatch, "--zz_count=many")
    with pytest.raises(flags.IllegalFlagValueError, match="zz_count"):
        _ = flags.FLAGS.zz_count


def test_an_undefined_flag_is_an_attribute_error():
    with pytest.raises(AttributeError, match="zz_no_such_flag"):
        _ = flags.FLAGS.zz_no_such_flag


def test_the_old_keyword_names_are_understood(define, monkeypatch):
    command_line(monkeypatch)
    flags.DEFINE_string(flag_name="zz_old", default_value="v", docstring="d")
    try:
        assert flags.FLAGS.zz_old == "v"
        assert flags.FLAGS["zz_old"].help == "d"
    finally:
        delattr(absl_flags.FLAGS, "zz_old")


def test_a_flag_may_be_assigned_and_listed(define, monkeypatch):
    define("string", "zz_name", "d", "help")
    command_line(monkeypatch)
    flags.FLAGS.zz_name = "set"
    assert flags.FLAGS.zz_name == "set"
    assert "zz_name" in flags.FLAGS
    assert "zz_name" in list(flags.FLAGS)
    assert flags.FLAGS.flag_values_dict()["zz_name"] == "set"


def test_defining_a_flag_twice_is_an_error_unless_absl_had_it(define):
    values = absl_flags.FlagValues()
    flags.DEFINE_string("name", "d", "help", flag_values=values)
    with pytest.raises(flags.DuplicateFlagError):
        flags.DEFINE_integer("name", 3, "help", flag_values=values)


def test_a_program_may_define_a_flag_that_absl_has():
    original = absl_flags.FLAGS["log_dir"]
    try:
        flags.DEFINE_string("log_dir", "/my/logs", "help")
        assert absl_flags.FLAGS["log_dir"].default == "/my/logs"
    finally:
        delattr(absl_flags.FLAGS, "log_dir")
        absl_flags.FLAGS["log_dir"] = original


def test_a_flag_belongs_to_the_module_that_defined_it(define):
    define("string", "zz_name", "d", "help")
    assert "flags" not in (absl_flags.FLAGS.find_module_defining_flag("zz_name") or "").split(".")


def test_repeated_flags_are_not_doubled_by_a_second_parse(define, monkeypatch):
    define("multi_string", "zz_host", None, "help")
    command_line(monkeypatch, "--zz_host=a", "--zz_host=b")
    assert flags.FLAGS.zz_host == ["a", "b"]
    flags.parse(sys.argv)
    assert flags.FLAGS.zz_host == ["a", "b"]


def test_parse_returns_what_it_does_not_know(define):
    define("string", "zz_name", "d", "help")
    rest = flags.parse(["program", "--zz_name=x", "--other=1", "word"])
    assert rest == ["program", "--other=1", "word"]


def test_app_has_the_flags():
    assert app.flags is flags
