"""Records what TensorFlow's Estimators do in the scenarios of estimator_stories/.

Run with an interpreter that has tensorflow-cpu 2.15, the last release with Estimators:
    python tests/parity/record_estimators.py [scenario ...]
Writes tests/parity/figures/estimator_stories.json; names print those only and store nothing.
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
    asked = sys.argv[1:]
    stories = {}
    for name in asked or SCENARIOS:
        stories[name] = tell(name)
        if asked:
            for event in stories[name]:
                print(*event, sep=" | ")
    if not asked:
        target = pathlib.Path(__file__).parent / "figures/estimator_stories.json"
        content = {"origin": f"tensorflow {tf.__version__}, compat.v1", "stories": stories}
        target.write_text(json.dumps(content, indent=1) + "\n")
        print(f"{len(stories)} stories in {target}")


if __name__ == "__main__":
    main()
