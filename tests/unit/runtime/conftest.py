"""What tests of running plans share: an op that waits for as long as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.graph import registry
from millrace.graph.define import op
from millrace.runtime.future import Future

#: What the test op returns, by the name of its node.
_answers: dict[str, Any] = {}


@pytest.fixture
def blocking() -> Iterator[Callable[..., Any]]:
    """Makes a node that answers as told: a number, a Future, or an exception."""

    @op(
        "TestBlockingAnswer(x: float32) -> y: float32",
        shape=lambda c: c.shape(0),
        gradient=registry.NO_GRADIENT,
        blocking=True,
        stateful=True,
    )
    def TestBlockingAnswer(x: Any, *, node: Any, ctx: Any) -> Any:
        answer = _answers[node.name]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Future):
            ctx.cancellation.register(lambda: answer.set_error(ctx.cancellation.error))
        return answer

    def make(name: str, answer: Any, x: Any = 0.0) -> Any:
        _answers[name] = answer
        return TestBlockingAnswer(x, name=name)

    yield make
    _answers.clear()
    del registry._definitions["TestBlockingAnswer"]
