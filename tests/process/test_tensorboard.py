"""`millrace launch --tensorboard`, looked at in a real browser."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/mnist_async.py"
#: What the browser saw; docs/images/tensorboard.png is one of these.
SCREENSHOT = ROOT / ".cache/screenshots/tensorboard.png"
#: Every element of the page, also of those parts that are hidden in components.
ELEMENTS = """
const all = [];
const walk = (element) => {
  all.push(element);
  for (const child of element.children) walk(child);
  if (element.shadowRoot) for (const child of element.shadowRoot.children) walk(child);
};
walk(document.body);
"""


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that trains until it is interrupted."""
    launch = [sys.executable, "-m", "millrace", "launch", "--ps", "1", "--workers", "1", "--json"]
    launch += ["--logs", "logs", "--tensorboard", str(EXAMPLE), "--"]
    launch += ["--train_steps=1000000000", "--train_dir=train"]
    process = subprocess.Popen(
        launch, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield process
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130


def address_of_viewer(job: subprocess.Popen[str]) -> str:
    """Where TensorBoard is, once the job trains."""
    watchdog = threading.Timer(240, job.kill)
    watchdog.start()
    assert job.stdout is not None
    try:
        for line in job.stdout:
            facts = json.loads(line)
            if facts["tensorboard"] and (facts["global_step"] or 0) > 600:
                return str(facts["tensorboard"])
    finally:
        watchdog.cancel()
    raise AssertionError("the job ended")


def test_the_loss_curve_and_the_graph_of_a_running_job_are_shown(
    job: subprocess.Popen[str], browser: Any, until: Any, tmp_path: Path
) -> None:
    url = address_of_viewer(job)

    browser.get(f"{url}#scalars&tagFilter=%5Eloss%24")
    curve = (
        ELEMENTS + "return all.filter(e => e.tagName === 'path' && e.classList.contains('line'))"
        ".map(e => [e.getAttribute('d'), e.getBoundingClientRect().width])"
        ".map(([line, width]) => [(line || '').split(/[ML]/).length, width])"
        ".some(([points, width]) => points > 5 && width > 50)"
    )
    until(lambda: browser.execute_script(curve), "a curve")
    texts = ELEMENTS + "return all.map(e => e.textContent.trim())"
    until(lambda: "tag: loss" in browser.execute_script(texts), "the name of the curve")
    browser.save_screenshot(str(tmp_path / "loss.png"))

    browser.get("about:blank")
    browser.get(f"{url}#graphs")
    nodes = (
        ELEMENTS + "return all.filter(e => e.tagName === 'g' && e.classList.contains('node'))"
        ".map(e => e.getAttribute('data-name'))"
    )
    wanted = {"hidden", "logits", "gradients", "Adam", "accuracy"}
    until(lambda: wanted <= set(browser.execute_script(nodes)), "the graph")
    browser.save_screenshot(str(tmp_path / "graph.png"))

    _keep([tmp_path / "loss.png", tmp_path / "graph.png"])
    assert SCREENSHOT.stat().st_size > 10_000


def _keep(pictures: list[Path]) -> None:
    """One picture of several, below each other."""
    parts = [Image.open(path).convert("RGB") for path in pictures]
    whole = Image.new("RGB", (parts[0].width, sum(part.height for part in parts)))
    height = 0
    for part in parts:
        whole.paste(part, (0, height))
        height += part.height
    SCREENSHOT.parent.mkdir(parents=True, exist_ok=True)
    whole.save(SCREENSHOT)
