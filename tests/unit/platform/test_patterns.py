import pytest

from millrace.platform import patterns


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a*", "abc", True),
        ("a*", "a", True),
        ("*", ".hidden", True),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[a-c]x", "bx", True),
        ("[a-c]x", "dx", False),
        ("[^a-c]x", "dx", True),
        ("[!a-c]x", "ax", False),
        (r"[\]]", "]", True),
        (r"[\d]", "d", True),
        (r"[\d]", "1", False),
        ("[^^]", "^", False),
        ("[", "[", True),
        ("[]", "[]", True),
        (r"\*", "*", True),
        (r"\*", "a", False),
        ("a.b", "axb", False),
        ("a+b", "a+b", True),
    ],
)
def test_a_component_matches(pattern, name, matches):
    assert bool(patterns.translate(pattern).fullmatch(name)) is matches


def test_only_wildcards_sets_and_escapes_are_magic():
    assert all(patterns.has_magic(each) for each in ("*", "a?", "[x]", "a\\b"))
    assert not any(patterns.has_magic(each) for each in ("", "a.b", "{a,b}", "a/b", "]"))
