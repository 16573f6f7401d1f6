"""TensorBoard beside a job: one process, on the folders into which the job writes event files.

The programs choose these folders, some of them while they run (`tempfile.mkdtemp()`). Every task
notes each that it opens in one file; here they become links in one folder, which TensorBoard reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

from millrace.data.event_file import FOLDERS_FILE
from millrace.platform.launcher import LAUNCHER

_GRACE_SECONDS = 5.0


class Viewer:
    """TensorBoard's process, and the folder that it shows."""

    def __init__(self, log_folder: Path, shown: Path | None = None) -> None:
        """Starts nothing yet.

        Args:
          log_folder: The job's folder of logs.
          shown: What to show, instead of the folders that the tasks note.
        """
        self._log = log_folder / "tensorboard.log"
        self._notes = log_folder.absolute() / FOLDERS_FILE
        self._given = shown is not None
        self._shown = shown if shown is not None else log_folder / "tensorboard"
        self._process: subprocess.Popen[bytes] | None = None
        self.url: str | None = None
        #: Whether the job is over, and only this goes on.
        self.kept = False
        self._stopped = False

    def start(self) -> None:
        """Starts TensorBoard on a free port."""
        self._shown.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "millrace.cli.tensorboard_process",
            "--logdir",
            str(self._shown),
        ]
        command += ["--port=0", "--reload_interval=2"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, LAUNCHER: str(os.getpid())},
                start_new_session=True,
            )

    def follow(self) -> None:
        """Shows the folders that are new, and finds out TensorBoard's address."""
        if not self._given:
            self._link_new_folders()
        if self.url is None and (match := re.search(r"http://\S+", self._said())):
            self.url = match[0]

    @property
    def line(self) -> str:
        """What to tell people about it."""
        if self.complaint is not None:
            return f"TensorBoard ended: {self.complaint}"
        if self._stopped:
            return "TensorBoard has ended"
        ends = "; Ctrl-C ends it" if self.kept else ""
        return f"TensorBoard: {self.url or 'starting'}{ends}"

    @property
    def complaint(self) -> str | None:
        """What TensorBoard said last, if it ended by itself."""
        if self._process is None or self._stopped or self._process.poll() is None:
            return None
        return (self._said().strip().splitlines() or ["it said nothing"])[-1]

    def stop(self) -> None:
        """Ends TensorBoard."""
        self._stopped = True
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
            return
        self._process.kill()
        self._process.wait()

    def _said(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _link_new_folders(self) -> None:
        noted = self._notes.read_text().splitlines() if self._notes.exists() else []
        linked = {link.readlink() for link in self._shown.iterdir() if link.is_symlink()}
        for folder in map(Path, dict.fromkeys(noted)):
            if folder not in linked and folder.is_dir():
                _free_name(self._shown, folder.name).symlink_to(folder)


def _free_name(folder: Path, name: str) -> Path:
    found, number = folder / name, 1
    while found.is_symlink() or found.exists():
        number += 1
        found = folder / f"{name}-{number}"
    return found
