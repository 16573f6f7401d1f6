"""A register of a task: what becomes of calls that are not answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.core import errors
from millrace.training.sessions import task_register
from millrace.training.sessions.task_register import TaskRegister, Written


class Line:
    """A connection: the first one carries nothing, all others do."""

    made: list[Line]

    def __init__(self, address: str, security: Any) -> None:
        self.made.append(self)
        self.is_closed = False

    def register(self, question: bytes, seconds: float) -> bytes:
        assert not self.is_closed
        if len(self.made) == 1:
            raise errors.DeadlineExceededError(None, None, "too late")
        return json.dumps({"content": None, "version": 7, "done": True}).encode()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    made: list[Line] = []
    monkeypatch.setattr(Line, "made", made, raising=False)
    monkeypatch.setattr(task_register, "Connection", Line)
    return made


def test_after_a_call_without_an_answer_the_next_one_takes_another_connection(
    lines: list[Line],
) -> None:
    register = TaskRegister("host:1", "name", 1.0)
    with pytest.raises(errors.UnavailableError, match="too late"):
        register.read()
    assert register.read() == (None, 7)
    assert register.write(b"x", 7) == Written(True, 7)
    assert [line.is_closed for line in lines] == [True, False]
