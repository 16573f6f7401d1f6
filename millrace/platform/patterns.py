r"""The file patterns of tf.gfile.Glob and tf.train.match_filenames_once.

`*` is any run of characters in one path component, `?` one character, `[abc]`, `[a-z]` and
`[^abc]` (or `[!abc]`) one of a set or not, and `\` takes the next character as it is. Unlike a
shell's, a pattern that begins with `*` matches names that begin with a dot.
"""

import re

_MAGIC = re.compile(r"[*?\[\\]")
# A set: an optional ^ or !, then at least one member, where \ protects the next character.
_SET = re.compile(r"\[([\^!]?)((?:\\.|[^\\\]])(?:\\.|[^\\\]])*)\]", re.DOTALL)
_MEMBER = re.compile(r"\\(.)|(-)|(.)", re.DOTALL)


def has_magic(pattern: str) -> bool:
    """Returns whether a pattern can match anything but itself."""
    return _MAGIC.search(pattern) is not None


def translate(component: str) -> re.Pattern[str]:
    """Returns the regular expression for one component (the part between two slashes)."""
    expression = ""
    i = 0
    while i < len(component):
        char = component[i]
        members = _SET.match(component, i)
        if char == "*":
            expression += ".*"
        elif char == "?":
            expression += "."
        elif char == "\\" and i + 1 < len(component):
            i += 1
            expression += re.escape(component[i])
        elif members:
            negation = "^" if members[1] else ""
            expression += f"[{negation}{_MEMBER.sub(_translate_member, members[2])}]"
            i = members.end() - 1
        else:
            expression += re.escape(char)
        i += 1
    return re.compile(expression, re.DOTALL)


def _translate_member(member: re.Match[str]) -> str:
    escaped, dash, plain = member.groups()
    return dash or re.escape(escaped or plain)
