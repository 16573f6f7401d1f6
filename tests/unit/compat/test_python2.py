"""Python 2 sources."""

from __future__ import annotations

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
    with pytest.raises(SyntaxError, match="neither Python 3 nor Python 2"):
        python2.translate("this is (not", "note.txt")


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
