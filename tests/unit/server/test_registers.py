"""Registers of a task: compare-and-set, and what is refused."""

import base64
import json

import pytest

from millrace.core import errors
from millrace.server.registers import Registers


def test_a_content_replaces_the_version_that_was_read() -> None:
    registers = Registers(7 << 40)
    content, version, _ = registers.read("a")
    assert content is None
    assert registers.write("a", b"one", version)[2]
    assert registers.write("a", b"two", version) == (b"one", version + 1, False)
    assert registers.read("b")[0] is None


def test_a_server_that_starts_again_uses_no_version_twice() -> None:
    first, second = Registers(7 << 40), Registers(8 << 40)
    versions = [first.read("a")[1]]
    versions.append(first.write("a", b"one", versions[0])[1])
    for version in versions:
        assert not second.write("a", b"two", version)[2]


@pytest.mark.parametrize(
    "question",
    [
        b"",
        b"[]",
        b"{}",
        b'{"name": "a", "content": 5, "version": 0}',
        b'{"name": "a", "content": ""}',
    ],
)
def test_a_question_that_cannot_be_read_is_refused(question: bytes) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="cannot be read"):
        Registers(0).answer(question)


def test_a_client_cannot_fill_the_memory_of_a_task() -> None:
    registers = Registers(0)
    with pytest.raises(errors.InvalidArgumentError, match="4096 bytes"):
        registers.write("a", bytes(5000), 0)
    for i in range(256):
        registers.write(str(i), b"", 0)
    with pytest.raises(errors.ResourceExhaustedError, match="256 registers"):
        registers.write("more", b"", 0)
    assert registers.write("7", b"x", registers.read("7")[1])[2]


def test_an_answer_is_json() -> None:
    registers = Registers(0)
    content = base64.b64encode(b"\xff").decode()
    asked = json.dumps({"name": "a", "content": content, "version": 0}).encode()
    assert json.loads(registers.answer(asked)) == {"content": content, "version": 1, "done": True}
    assert json.loads(registers.answer(b'{"name": "a"}'))["content"] == content
