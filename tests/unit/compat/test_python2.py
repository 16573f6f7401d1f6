"""Python 2 sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.compat import python2


def test_print_statements_and_old_names_are_translated() -> None:
    source = (
        'for i in xrange(2):\n    print "step: %d" % i\n'
        "d = {1: 2}\nfor k, v in d.iteritems():\n    print k"
    )
    assert python2.needs_translation(source)
    space: dict[str, object] = {}
    exec(python2.translate(source, "old.py"), space)
    assert space["v"] == 2


def test_a_source_that_parses_but_uses_names_of_python_2_is_translated() -> None:
    assert python2.needs_translation("for i in xrange(3): pass")
    assert not python2.needs_translation("for i in range(3): print(i)")


def test_what_is_no_python_at_all_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxError, match="invalid Python 2 syntax"):
        python2.translate("this is (not", "note.txt")


@pytest.mark.parametrize(
    "source",
    ["def f(:\n    pass\n", "x = (1\n", "f(a=1, 2)\n", "x = 08\n", "if x\n    pass\n", "a\0b"],
)
def test_a_mistake_in_python_3_is_not_taken_for_python_2(source: str) -> None:
    assert not python2.needs_translation(source)


def test_a_mistake_in_python_2_is_told_with_its_line() -> None:
    source = 'print "a"\nif x\n    pass\n'
    assert python2.needs_translation(source)
    with pytest.raises(SyntaxError, match="invalid Python 2 syntax") as found:
        python2.translate(source, "old.py")
    assert (found.value.filename, found.value.lineno, found.value.text) == ("old.py", 2, "if x\n")


def test_tabs_and_spaces_are_mixed_as_python_2_read_them() -> None:
    source = (
        "def f(n):\n    if n:\n\treturn 'eight'\n    text = '''a\n\tb'''\n    return text\n"
        "print f(1)\n"
    )
    space: dict[str, object] = {}
    exec(python2.translate(source, "old.py"), space)
    assert space["f"](1) == "eight"  # type: ignore[operator]
    assert space["f"](0) == "a\n\tb", "a tab in a string stays"  # type: ignore[operator]


def test_python_3_with_mixed_tabs_only_gets_other_spaces() -> None:
    source = "for i in range(2):\n        a = i\n\tb = [*range(a)]\n"
    assert python2.translate(source, "x.py") == source.replace("\t", " " * 8)


def test_a_user_without_a_home_can_translate(tmp_path: Path) -> None:
    program = "from millrace.compat import python2; print(python2.translate('print 1', 'p'))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"HOME": "/proc/none", "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "print(1)", done.stderr
    assert not list(tmp_path.iterdir())
