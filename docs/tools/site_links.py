"""Hooks of the site: links out of `docs/` work in a clone; here they are names of files."""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?!decisions|images|how-to|reference)([\w./-]+)\)")


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    """The page, whose links lead to pages only."""
    depth = page.file.src_uri.count("/")

    def replaced(match: re.Match[str]) -> str:
        outside = match[0].count("../") > depth
        return f"`{match[2]}`" if outside else match[0]

    return _OUTSIDE.sub(replaced, markdown)
