"""The examples of docs/supervised-sessions.md work."""

import re
from pathlib import Path

import millrace as tf

PAGE = Path(__file__).resolve().parents[3] / "docs" / "supervised-sessions.md"


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 3
    names: dict[str, object] = {}
    with tf.Graph().as_default():
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)
    # The page says so: a second run goes on where the first ended.
    again = blocks[0].replace("last_step=25", "last_step=50")
    with tf.Graph().as_default():
        exec(compile(again.replace("model.ckpt-25", "model.ckpt-50"), str(PAGE), "exec"), {})
    tf.summary.FileWriterCache.clear()
