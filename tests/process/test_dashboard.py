"""The live page, looked at in a real browser: a launched job of two tasks, and one of 64."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import millrace as tf
from millrace.observe.dashboard.page import Dashboard
from millrace.observe.dashboard.watcher import JobWatcher
from millrace.observe.job_record import JobRecord, TaskRecord
from millrace.platform.ports import HeldPorts

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/mnist_async.py"
#: What the browser saw; docs/images/dashboard.png is one of these.
SCREENSHOTS = ROOT / ".cache/screenshots"
TASKS = 64


def shown(browser: Any, selector: str) -> str:
    script = "const e = document.querySelector(arguments[0]); return e.innerText ?? e.textContent"
    return str(browser.execute_script(script, selector))


def has_steps(browser: Any) -> bool:
    """Whether the page's title tells a global step above 0."""
    return browser.title.partition(" ")[0].replace(",", "").strip("0").isdigit()


def look_like(browser: Any, width: int, theme: str) -> None:
    """As in a window of this width, for somebody who prefers light or dark."""
    metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    preferred = [{"name": "prefers-color-scheme", "value": theme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": preferred})


def assert_nothing_sticks_out(browser: Any) -> None:
    """No part of the page is wider than the window, and no name in it is cut."""
    wide = browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide == 0
    cut = browser.execute_script(
        "return [...document.querySelectorAll('td.task, th, .figures b')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent)"
    )
    assert cut == []


def screenshots(browser: Any, name: str) -> None:
    """Both widths in both themes, each looked at, the pictures kept."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    grounds = {}
    for width in (1280, 400):
        for theme in ("light", "dark"):
            look_like(browser, width, theme)
            assert_nothing_sticks_out(browser)
            grounds[theme] = browser.execute_script(
                "return getComputedStyle(document.documentElement).backgroundColor"
            )
            height = browser.execute_script("return document.documentElement.scrollHeight")
            metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.save_screenshot(str(SCREENSHOTS / f"{name}-{width}-{theme}.png"))
    assert grounds["light"] != grounds["dark"]
    look_like(browser, 1280, "light")


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A job that trains until it is interrupted."""
    launch = [sys.executable, "-m", "millrace", "launch", "--ps", "1", "--workers", "1", "--json"]
    launch += ["--max-restarts", "1", "--logs", "logs", "--dashboard", str(EXAMPLE), "--"]
    launch += ["--train_steps=1000000000", "--train_dir=train"]
    process = subprocess.Popen(
        launch, cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield process
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 130


def test_a_job_of_two_tasks_is_shown_while_it_trains_and_a_task_dies(
    launched: subprocess.Popen[str], browser: Any, until: Any, tmp_path: Path
) -> None:
    assert launched.stdout is not None
    facts = json.loads(launched.stdout.readline())
    threading.Thread(target=launched.stdout.read, daemon=True).start()
    look_like(browser, 1280, "light")
    browser.get(facts["dashboard"])
    until(lambda: "loss" in shown(browser, "#scalars"), "the loss")
    until(lambda: "saved" in shown(browser, "#events"), "a checkpoint")
    until(lambda: has_steps(browser), "the global step")
    assert shown(browser, "#state") == "running" and "2 of 2 tasks up" in shown(browser, "#facts")
    assert "hidden/weights" in shown(browser, "#servers")
    until(lambda: "B/s" in shown(browser, "#matrix .cell"), "bytes between worker and ps")
    until(lambda: "gradients" in shown(browser, "#placement"), "where the graph is")
    until(
        lambda: browser.execute_script("return document.querySelectorAll('#rates .curve').length"),
        "steps per second over time",
    )
    screenshots(browser, "dashboard-2")

    # Hover: the curve tells its values, a cell what it is about.
    plot = browser.find_element(By.CSS_SELECTOR, "#scalars .plot")
    ActionChains(browser).move_to_element(plot).perform()
    until(lambda: " at " in shown(browser, "#scalars .plot svg g"), "a value under the cursor")
    cell = browser.find_element(By.CSS_SELECTOR, "#matrix .cell")
    ActionChains(browser).move_to_element(cell).perform()
    assert "worker:0 → ps:0" in until(lambda: shown(browser, "#tip"), "what the cell is")
    # Click: waiting instead of bytes, order by CPU, the log of a task, and away with it.
    browser.find_element(By.CSS_SELECTOR, "[data-shows=waits]").click()
    assert shown(browser, "#matrix .cell").endswith("%")
    browser.find_element(By.CSS_SELECTOR, "th[data-sort=cpu]").click()
    assert browser.find_element(By.CSS_SELECTOR, "th[aria-sort=descending]").text == "CPU"
    browser.execute_script("document.querySelectorAll('tbody tr')[0].scrollIntoView()")
    rows = browser.find_elements(By.CSS_SELECTOR, "tbody tr")
    next(row for row in rows if row.text.startswith("worker:0")).click()
    until(lambda: "INFO:millrace" in shown(browser, "#log pre"), "the log")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    assert not browser.find_element(By.ID, "log").is_displayed()

    worker = json.loads((tmp_path / "logs/job.json").read_text())["tasks"]["worker-0"]["pid"]
    os.kill(worker, signal.SIGKILL)
    until(lambda: "restarted" in shown(browser, "#events"), "the restart")
    until(lambda: "new incarnation" in shown(browser, "#events"), "that it is up again")
    assert not [each for each in browser.get_log("browser") if each["level"] == "SEVERE"]


@pytest.fixture
def many(tmp_path: Path) -> Iterator[JobRecord]:
    """Real servers of a cluster of 64 tasks, and workers that train."""
    with HeldPorts(TASKS) as held:
        spec = {"ps": held.addresses[:4], "worker": held.addresses[4:]}
        servers = {
            (job, i): tf.train.Server(spec, job, i)
            for job, places in spec.items()
            for i in range(len(places))
        }
        over = threading.Event()
        threads = [
            threading.Thread(target=train, args=(servers["worker", i], i, over)) for i in range(3)
        ]
        for thread in threads:
            thread.start()
        tasks = {
            f"{job}-{i}": TaskRecord(places[i], log=str(tmp_path / "log"), state="running")
            for job, places in spec.items()
            for i in range(len(places))
        }
        yield JobRecord("wide", str(tmp_path), "local", ["train.py"], tasks=tasks, last_step=10**7)
        over.set()
        for thread in threads:
            thread.join()
        for server in servers.values():
            server.stop()


def train(server: Any, index: int, over: threading.Event) -> None:
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(ps_tasks=4)):
            weights = [tf.get_variable(f"layer_{i}/w", [64, 64]) for i in range(8)]
            step = tf.train.get_or_create_global_step()
        with tf.device(f"/job:worker/task:{index}"):
            loss = tf.add_n([tf.reduce_sum(w * w) for w in weights])
        update = tf.train.GradientDescentOptimizer(1e-3).minimize(loss, global_step=step)
        filters = ["/job:ps", f"/job:worker/task:{index}"]
        with tf.Session(server.target, config=tf.ConfigProto(device_filters=filters)) as sess:
            if index == 0:
                sess.run(tf.global_variables_initializer())
            while not over.is_set():
                if index and sess.run(tf.report_uninitialized_variables()).size:
                    over.wait(0.1)
                    continue
                break
            while not over.wait(0.05):
                sess.run(update)


def test_a_job_of_64_tasks_fits(many: JobRecord, browser: Any, until: Any) -> None:
    page = Dashboard(JobWatcher(lambda: many))
    try:
        look_like(browser, 1280, "light")
        browser.get(page.url)
        until(lambda: "64 of 64 tasks up" in shown(browser, "#facts"), "that all are up")
        rows = "return [...document.querySelectorAll('tbody tr')].map(r => r.cells[0].textContent)"
        wanted = [name.replace("-", ":") for name in many.tasks]
        assert sorted(browser.execute_script(rows)) == sorted(wanted)
        cells = "return document.querySelectorAll('#matrix .cell').length"
        until(lambda: browser.execute_script(cells) == 60 * 4, "60 workers by 4 ps")
        until(lambda: has_steps(browser), "the global step")
        screenshots(browser, "dashboard-64")
    finally:
        page.close()


def test_another_machine_is_asked_for_the_token(many: JobRecord, browser: Any, until: Any) -> None:
    page = Dashboard(JobWatcher(lambda: many), "0.0.0.0", 0, "the token")
    try:
        browser.get(page.url.replace("0.0.0.0", "127.0.0.1"))
        until(lambda: "private" in shown(browser, "#door"), "the question for the token")
        assert not browser.find_element(By.ID, "main").is_displayed()
        browser.find_element(By.ID, "token").send_keys("a guess", Keys.ENTER)
        until(lambda: "not the job" in shown(browser, "#refused"), "the refusal")
        browser.find_element(By.ID, "token").clear()
        browser.find_element(By.ID, "token").send_keys("the token", Keys.ENTER)
        until(lambda: browser.find_element(By.ID, "main").is_displayed(), "the job")
    finally:
        page.close()
