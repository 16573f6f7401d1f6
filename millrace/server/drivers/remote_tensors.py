"""Values that other tasks keep for this one, fetched with TensorFlow's `RecvTensor`.

Only for steps of TensorFlow's masters: Millrace's own tasks send what others need.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from millrace.core.dead import DEAD
from millrace.core.tensor_proto import make_ndarray
from millrace.rpc import service_messages
from millrace.rpc.service import Connection, Stub
from millrace.runtime.cancellation import Cancellation
from millrace.runtime.future import Future


class RemoteTensors:
    """Fetches values.

    Args:
      connect: The gRPC connection to the task at an address.
    """

    def __init__(self, connect: Callable[[str], Connection]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._stubs: dict[Connection, Stub] = {}

    def fetch(self, address: str, step: int, key: str, cancellation: Cancellation) -> Future:
        """What will have the value that the task at an address has, or will have, under a key."""
        future = Future(f"{key.split(';')[3]} of the task at {address}")

        def answered(
            response: service_messages.RecvTensorResponse, error: Exception | None
        ) -> None:
            if error is not None:
                future.set_error(error)
            elif response.is_dead:
                future.set_result(DEAD)
            else:
                try:
                    future.set_result(make_ndarray(response.tensor))
                except Exception as failure:
                    future.set_error(failure)

        request = service_messages.RecvTensorRequest(step_id=step, rendezvous_key=key)
        cancel = self._stub(address).begin("recv_tensor", request, answered)
        token = cancellation.register(cancel)
        if token is None:
            cancel()  # The step has ended meanwhile.
        future.add_callback(lambda _: cancellation.deregister(token))
        return future

    def _stub(self, address: str) -> Stub:
        connection = self._connect(address)
        with self._lock:
            stub = self._stubs.get(connection)
            if stub is None:
                # A connection that was closed and made again must not be kept.
                self._stubs = {c: s for c, s in self._stubs.items() if c.address != address}
                stub = self._stubs[connection] = connection.worker()
            return stub
