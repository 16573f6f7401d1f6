"""Estimators do what TensorFlow's do (estimator_stories/ has the stories)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import millrace as tf

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from estimator_stories import SCENARIOS  # noqa: E402 - needs the path
from session_stories import Story  # noqa: E402

STORED = json.loads((FOLDER / "figures/estimator_stories.json").read_text())


def test_every_story_is_recorded_from_tensorflow() -> None:
    assert STORED["origin"].startswith("tensorflow 2.15")
    assert set(STORED["stories"]) == set(SCENARIOS)


def matches(event: Any, wanted: Any) -> bool:
    """Whether an event is TensorFlow's: numbers nearly, texts may say more."""
    if isinstance(wanted, list) and isinstance(event, list):
        if wanted[:1] in (["raised"], ["log"]) and event[:2] == wanted[:2]:
            return wanted[2] in event[2]
        return len(event) == len(wanted) and all(map(matches, event, wanted))
    if isinstance(wanted, dict) and isinstance(event, dict):
        return set(event) == set(wanted) and all(matches(event[k], wanted[k]) for k in wanted)
    if isinstance(wanted, float) and isinstance(event, float):
        return event == pytest.approx(wanted, rel=1e-5, abs=2e-4)
    return bool(event == wanted)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_story_goes_as_in_tensorflow(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name.startswith("canned_"):  # 20 steps of a whole model do not pay for a program
        monkeypatch.setenv("MILLRACE_COMPILE", "never")
    story = Story(str(tmp_path))
    with tf.Graph().as_default():
        SCENARIOS[name](tf, story)
    tf.summary.FileWriterCache.clear()
    wanted = STORED["stories"][name]
    told = json.loads(json.dumps(story.events))
    first = next(
        (i for i, (a, b) in enumerate(zip(told, wanted, strict=False)) if not matches(a, b)),
        min(len(told), len(wanted)),
    )
    assert (told[first : first + 3], len(told)) == (wanted[first : first + 3], len(wanted)) or (
        first == len(told) == len(wanted)
    )
