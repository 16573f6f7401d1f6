"""Changes as messages: what goes in comes out, and what means nothing elsewhere is refused."""

import numpy as np
import pytest

from millrace.core.resource_handle import ResourceHandle, handle_array
from millrace.protocol.replication.view import Member, View
from millrace.protocol.step.applied_steps import (
    AppliedSteps,
    Effect,
    StepAttempt,
    Verdict,
)
from millrace.server.registers import Registers
from millrace.server.replication import changes


def no_variable(name: str) -> None:
    raise AssertionError(name)


def test_values_come_out_as_they_went_in() -> None:
    handle = handle_array(ResourceHandle("c", "table"))
    strings = np.array([b"a", b"\xff"], object)
    words, tensors = changes.pack([np.float32(3), strings, handle, b"word", np.arange(3)])
    found = changes.unpack(words, tensors, no_variable)
    assert found[0] == np.float32(3) and found[0].dtype == np.float32
    assert found[1].tolist() == [b"a", b"\xff"]
    assert found[2][()] == ResourceHandle("c", "table")
    assert found[3][()] == b"word"
    assert found[4].tolist() == [0, 1, 2]


def test_what_means_nothing_in_another_process_is_refused() -> None:
    with pytest.raises(changes.NotForwardable):
        changes.pack([object()])
    with pytest.raises(changes.NotForwardable):
        changes.pack([np.array([object()], object)])


def test_large_variables_are_sent_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PIECE_BYTES", 64)
    values = {("", "big"): np.arange(100, dtype=np.float32).reshape(4, 25), ("", "b"): np.ones(2)}
    pieces = list(changes.variables(values.items()))
    assert len(pieces) > 4
    found: dict[str, list[float]] = {"big": [0.0] * 100}
    for piece in pieces:
        for (_, name, whole), part in zip(changes.said(piece), piece.tensors, strict=True):
            if whole is None:
                found[name] = part.tolist()
            else:
                found[name][whole[1] : whole[1] + part.size] = part.tolist()
                assert whole[0] == [4, 25]
    assert found == {"big": list(range(100)), "b": [1.0, 1.0]}


def test_a_record_is_told_whole() -> None:
    record = AppliedSteps()
    effect = Effect("update", frozenset({"/w"}))
    attempt = StepAttempt(7, 3, 2, 1)
    record.follow(attempt, effect, [np.int64(4)])
    told = changes.record(record.as_state())
    again = AppliedSteps.from_state(changes.record_of(told, no_variable))
    running = again.begin(attempt._replace(attempt=2))
    assert running is not None
    assert running.claim(effect) is Verdict.REPLAY
    assert running.outputs(effect) == [4]


def test_an_effect_is_followed_although_a_later_attempt_has_begun() -> None:
    record = AppliedSteps()
    first, second = Effect("a"), Effect("b")
    record.follow(StepAttempt(1, 5, 5, 2), first, [])
    record.follow(StepAttempt(1, 5, 5, 1), second, [])  # claimed before the second attempt began
    running = record.begin(StepAttempt(1, 5, 5, 3))
    assert running is not None
    assert running.claim(first) is Verdict.REPLAY and running.claim(second) is Verdict.REPLAY


def test_a_view_survives_its_bytes_and_others_are_refused() -> None:
    view = View(3, Member("a:1", 7), Member("b:2", 9))
    assert View.decode(view.encode()) == view
    assert View.decode(view.followed_by(Member("b:2", 9)).encode()).standby is None
    for bad in (b"", b"{}", b"[1,2,3]", b'[1,["a"],null]'):
        with pytest.raises(ValueError, match="no view"):
            View.decode(bad)


def test_a_standby_has_the_registers_of_its_primary() -> None:
    primary, standby = Registers(1 << 40), Registers(2 << 40)
    primary.on_written = standby.follow
    _, version, _ = primary.read("lease")
    _, version, done = primary.write("lease", b"mine", version)
    assert done
    assert standby.read("lease") == (b"mine", version, True)
    assert standby.write("lease", b"next", version)[2]
