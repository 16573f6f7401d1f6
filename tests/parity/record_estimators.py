"""Records what TensorFlow's Estimators do in the scenarios of estimator_stories/.

Run with an interpreter that has tensorflow-cpu 2.15, the last release with Estimators:
    python tests/parity/record_estimators.py [--store] [scenario ...]
Writes tests/parity/figures/estimator_stories.json; names print those only and store nothing,
or with --store put them beside those that are stored.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow.compat.v1 as tf
from estimator_stories import SCENARIOS
from session_stories import Story

tf.disable_v2_behavior()


def tell(name):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, tf.Graph().as_default():
        story = Story(folder)
        SCENARIOS[name](tf, story)
        return json.loads(json.dumps(story.events))


def main():
    asked = [each for each in sys.argv[1:] if each != "--store"]
    target = pathlib.Path(__file__).parent / "figures/estimator_stories.json"
    adds = "--store" in sys.argv
    stories = json.loads(target.read_text())["stories"] if adds else {}
    for name in asked or SCENARIOS:
        stories[name] = tell(name)
        if asked and not adds:
            for event in stories[name]:
                print(*event, sep=" | ")
    if adds or not asked:
        stories = {name: stories[name] for name in SCENARIOS if name in stories}
        content = {"origin": f"tensorflow {tf.__version__}, compat.v1", "stories": stories}
        target.write_text(json.dumps(content, indent=1) + "\n")
        print(f"{len(stories)} stories in {target}")


if __name__ == "__main__":
    main()
