"""What a task does when its training has ended well: those that served it may go."""

from __future__ import annotations

from millrace.server.server import find_running


def leave_at_exit(master: str) -> None:
    """Lets the other jobs' tasks know, when this process ends, that it needs them no more.

    Not before: the program may have another session, to evaluate what was learned.

    Args:
      master: The target of the session that ended; nothing happens unless it is a server of this
        process.
    """
    server = find_running(master)
    if server is not None:
        server.leave_at_exit()
