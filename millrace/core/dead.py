"""The value of a tensor that was not made, because its branch was not taken."""

from __future__ import annotations


class _Dead:
    __slots__ = ()

    def __repr__(self) -> str:
        return "DEAD"


DEAD = _Dead()
