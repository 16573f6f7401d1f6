"""Supervised and monitored sessions do what TensorFlow's do (session_stories/ has the stories)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import millrace as tf

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))

from session_stories import SCENARIOS, Story  # noqa: E402 - needs the path

STORED = json.loads((FOLDER / "figures/session_stories.json").read_text())


def test_every_story_is_recorded_from_tensorflow() -> None:
    assert STORED["origin"].startswith("tensorflow ")
    assert set(STORED["stories"]) == set(SCENARIOS)


def in_tensorflows_words(event: list[Any], wanted: list[Any]) -> list[Any]:
    """An event, with a text that says TensorFlow's words and more cut to TensorFlow's."""
    if event[0] in ("raised", "log") and event[:2] == wanted[:2] and wanted[2] in event[2]:
        return wanted
    return event


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_a_story_goes_as_in_tensorflow(name: str, tmp_path: Path) -> None:
    story = Story(str(tmp_path))
    with tf.Graph().as_default():
        SCENARIOS[name](tf, story)
    tf.summary.FileWriterCache.clear()
    wanted = STORED["stories"][name]
    told = json.loads(json.dumps(story.events))
    pairs = zip(told, wanted, strict=False)
    said = [in_tensorflows_words(event, other) for event, other in pairs]
    assert [*said, *told[len(said) :]] == wanted
