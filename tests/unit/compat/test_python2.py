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
