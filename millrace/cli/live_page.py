"""The live page beside a job, and where it is to listen."""

from __future__ import annotations

import argparse

from millrace.observe.dashboard.page import Dashboard
from millrace.observe.dashboard.watcher import JobWatcher, reader_of
from millrace.observe.job_record import JobRecord
from millrace.rpc.security import Security

ANYWHERE = "127.0.0.1:0"


def add_page_argument(parser: argparse.ArgumentParser) -> None:
    """`--dashboard`, of `millrace launch`."""
    parser.add_argument(
        "--dashboard",
        nargs="?",
        const=ANYWHERE,
        metavar="HOST:PORT",
        help="show the job in a page of this machine; elsewhere with --dashboard=0.0.0.0:8265, "
        "which then asks for the job's token",
    )


def parse(where: str) -> tuple[str, int]:
    """The host and the port.

    Raises:
      ValueError: It is none.
    """
    host, _, port = where.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{where!r} is no place for a page; write 8265, or host:8265")
    return host or "127.0.0.1", int(port)


def open_page(watcher: JobWatcher, where: str) -> Dashboard:
    """Serves the page of a job.

    Raises:
      ValueError: It cannot listen there.
    """
    host, port = parse(where)
    token = Security.from_environment().token or ""
    try:
        return Dashboard(watcher, host, port, token)
    except OSError as error:
        raise ValueError(
            f"the page cannot be served at {host}:{port}: {error.strerror or error}"
        ) from None


class LivePage:
    """The page of a job that is launched here; starts nothing before `start`.

    Args:
      record: The job.
      where: ``HOST:PORT`` or a port.

    Raises:
      ValueError: That is no place.
    """

    def __init__(self, record: JobRecord, where: str) -> None:
        parse(where)
        self._record, self._where = record, where
        self._page: Dashboard | None = None
        #: Whether the job is over, and only this goes on.
        self.kept = False

    def start(self) -> None:
        """Serves it.

        Raises:
          ValueError: It cannot listen there.
        """
        self._record.save()
        self._page = open_page(JobWatcher(reader_of(self._record.path)), self._where)

    @property
    def url(self) -> str | None:
        """Where browsers find it."""
        return self._page.url if self._page else None

    @property
    def line(self) -> str:
        """What to tell people about it."""
        if self._page is None:
            return "page: starting"
        return f"page: {self._page.url}" + ("; Ctrl-C ends it" if self.kept else "")

    def stop(self) -> None:
        """Serves it no more."""
        if self._page is not None:
            self._page.close()
            self._page = None
