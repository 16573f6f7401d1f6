"""What a session needs of what runs its steps: this process, or a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor

#: What `Backend.prepare` returns; opaque to the session.
PreparedRun = Any


class Backend(Protocol):
    """Runs steps of one graph."""

    def prepare(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> PreparedRun:
        """Makes ready to compute `fetches` and run `targets` from `feeds`."""

    def run(
        self, prepared: PreparedRun, values: Sequence[Any], options: Any, run_metadata: Any
    ) -> list[Any]:
        """Runs once; the values of the fetches."""

    def repeated_step(self, prepared: PreparedRun) -> Any:
        """What has a step repeated by itself (`run`, `end`); None where that cannot be."""

    def partial_run_setup(
        self, fetches: Sequence[Tensor], targets: Sequence[Operation], feeds: Sequence[Tensor]
    ) -> Any:
        """Starts a step whose feeds arrive in parts."""

    def partial_run(
        self,
        run: Any,
        fetches: Sequence[Tensor],
        targets: Sequence[Operation],
        values: dict[Tensor, Any],
    ) -> list[Any]:
        """Gives more feeds and waits for some of the fetches."""

    def drop_tensor(self, handle: str) -> None:
        """Forgets a tensor that the session keeps between steps."""

    def list_devices(self) -> list[Any]:
        """The devices."""

    def reset(self, containers: list[str] | None) -> None:
        """Drops resource containers."""

    def close(self) -> None:
        """Ends the session."""

    def close_soon(self) -> None:
        """Ends the session, for a finalizer.

        It may be called anywhere in any thread, also while that holds a lock, and so takes none
        that another session or a server has.
        """
