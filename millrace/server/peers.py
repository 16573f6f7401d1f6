"""The other tasks: one channel to each, made when it is first needed.

Tasks meet over gRPC and agree there on what carries their messages: nothing (two servers in one
process), a plain socket (the fast plane), or a gRPC stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from millrace.core import errors
from millrace.core.value import JsonObject
from millrace.platform import logging
from millrace.protocol.doubt import Doubt
from millrace.protocol.membership import Membership, Verdict
from millrace.rpc import in_process, shared_memory
from millrace.rpc.channel import Channel, Traffic
from millrace.rpc.grpc_channel import GrpcChannel
from millrace.rpc.listener import TICKET_BYTES, SocketListener, dial
from millrace.rpc.message import Kind, Message
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from millrace.rpc.socket_channel import SocketChannel
from millrace.rpc.tls_socket import StreamSocket
from millrace.server.drivers.time_limit import within

#: What the address of a process begins with that follows the one that serves its task.
STANDBY = "standby:"
#: Says where tasks are that are not at the addresses that they are called by, as JSON.
PLACES = "MILLRACE_PLACES"
#: How often a task that is dialled may be elsewhere.
_MAX_HOPS = 3
PLAIN = "grpc"
FAST = "grpc+fast"
PROTOCOLS = (PLAIN, FAST)
#: How long a task may take to answer a greeting, and to open a channel then.
_MEET_SECONDS, _DIAL_SECONDS = 60.0, 10.0
_MAX_TICKETS = 1024
_MAX_CONNECTIONS = 1024
#: A greeting is a name, an address and a few numbers.
_MAX_GREETING_BYTES = 4096


class Identity(NamedTuple):
    """Who a task is.

    Attributes:
      task: Its name, ``/job:ps/replica:0/task:0``.
      address: Where its gRPC server is, ``host:port``.
      incarnation: A number that no two starts of it share.
    """

    task: str
    address: str
    incarnation: int


class _Ticket(NamedTuple):
    """Whom a ticket was given, and the process with which memory can be shared."""

    identity: Identity
    process: int | None


OnMessage = Callable[[Channel, Message], None]
OnLost = Callable[[str, errors.OpError], None]


class Peers:
    """The channels of one server."""

    _of_this_process: ClassVar[weakref.WeakValueDictionary[str, Peers]] = (
        weakref.WeakValueDictionary()
    )

    def __init__(
        self,
        me: Identity,
        protocol: str,
        on_message: OnMessage,
        on_lost: OnLost,
        security: Security | None = None,
        listens_at: str = "",
        place: str = "",
    ) -> None:
        self.me = me
        #: Where this process listens, which need not be where its task is called.
        self._place = place or me.address
        #: Where tasks are that are not at the addresses that they are called by.
        self._places: dict[str, str] = places_from(os.environ)
        #: Where the task of this process is, if this is not the process that serves it.
        self.refers_to: Callable[[], str] = str
        self._security = security or Security()
        self._protocol = protocol
        self._tell = on_message
        self._on_lost = on_lost
        # Sessions that are collected as garbage come here too, whatever is held: see Worker.
        self._lock = threading.RLock()
        #: The channel to send on, by address.
        self._channels: dict[str, Channel] = {}
        #: All that are open: when two tasks dial each other at once there are two between them.
        self._open: set[Channel] = set()
        #: The same by address, so that a watch over a thousand tasks looks at each channel once.
        self._open_to: dict[str, list[Channel]] = {}
        self._dialing: dict[str, threading.Lock] = {}
        self._connections: dict[str, Connection] = {}
        self._tickets: OrderedDict[bytes, _Ticket] = OrderedDict()
        self._listener: SocketListener | None = None
        self._probe: shared_memory.Probe | None = None
        self._members = Membership()
        #: Guarded by the lock, except for asking whether there is any.
        self._doubt: Doubt[Channel, Message] = Doubt()
        #: Whether this process was stopped for long since `awake` was last called.
        self.was_paused: Callable[[], bool] = lambda: False
        self.awake: Callable[[], None] = lambda: None
        self._closed = False
        if protocol == FAST:
            host = listens_at or me.address.rpartition(":")[0]
            self._probe = shared_memory.Probe() if shared_memory.IS_SUPPORTED else None
            self._listener = SocketListener(
                _bindable(host), self._accept_socket, self._security.server_context()
            )
            Peers._of_this_process[self._place] = self

    # -- Sending ---------------------------------------------------------------------------

    def post(self, address: str, message: Message) -> None:
        """Sends a message to the task at an address.

        Raises:
          UnavailableError: The task cannot be reached.
        """
        found = self._channels.get(address)
        if found is None or not found.is_open:
            found = self._dialled(address)
        found.send(message)

    def channel(self, address: str) -> Channel:
        """The channel to an address; dials if there is none."""
        found = self._channels.get(address)
        if found is None or not found.is_open:
            return self._dialled(address)
        return found

    def _dialled(self, address: str) -> Channel:
        """A channel where none was; another thread may have dialled meanwhile."""
        with self._lock:
            if self._closed:
                raise self._stopped_error()
            dialing = self._dialing.setdefault(address, threading.Lock())
        with dialing:
            found = self._channels.get(address)
            if found is not None and found.is_open:
                return found
            try:
                return self._dial(address)
            finally:
                with self._lock:
                    self._dialing.pop(address, None)

    def _stopped_error(self) -> errors.OpError:
        return errors.UnavailableError(None, None, f"The server of {self.me.task} has stopped.")

    def connection(self, address: str) -> Connection:
        """The gRPC connection to an address."""
        with self._lock:
            if self._closed:
                raise self._stopped_error()
            found = self._connections.get(address)
            if found is None:
                found = self._connections[address] = Connection(self.place(address), self._security)
                if len(self._connections) > _MAX_CONNECTIONS:
                    # Its users hold it; it closes when the last one lets go.
                    self._connections.pop(next(iter(self._connections)))
            return found

    def renew(self, address: str) -> None:
        """Lets the next call of an address go over a new connection.

        One that carried nothing for a while, because the network was cut or the machine is another
        one now, is tried by the system at intervals that double: it may take as long again until
        it works, or is known to be broken. Calls that are under way go on.
        """
        with self._lock:
            self._connections.pop(address, None)

    def place(self, address: str) -> str:
        """Where the task is that is called by an address."""
        return self._places.get(address, address).removeprefix(STANDBY)

    def moved(self, address: str, place: str, incarnation: int) -> None:
        """A task is elsewhere from now on: what is open to an earlier incarnation is closed."""
        with self._lock:
            if self._places.get(address, address) != place:
                self._places[address] = place
                self._connections.pop(address, None)
            before = [c for c in self._open_to.get(address, ()) if c.incarnation != incarnation]
        for channel in before:
            channel.abort(f"The task at {address} is at {place} from now on")

    @property
    def places(self) -> dict[str, str]:
        """Where tasks are that are not at the addresses that they are called by."""
        with self._lock:
            return dict(self._places)

    def _dial(self, address: str, hops: int = _MAX_HOPS) -> Channel:
        here = Peers._of_this_process.get(self.place(address))
        if here is not None and self._protocol == FAST and not here._closed:
            mine, theirs = in_process.connect(
                (self, self.me.task, self.me.incarnation),
                (here, here.me.task, here.me.incarnation),
            )
            here._add(self.me.address, theirs)
            self._add(address, mine)
            theirs.start()
            mine.start()
            return mine
        connection = self.connection(address)
        greeting = {**self.me._asdict(), "protocol": self._protocol, **self._offer()}
        with within(_MEET_SECONDS, f"The task at {address}", "answer a greeting"):
            answer = _read_greeting(
                connection.meet(json.dumps(greeting).encode(), timeout=_MEET_SECONDS)
            )
        elsewhere = str(answer.details.get("elsewhere", ""))
        if elsewhere and hops:
            self.moved(address, elsewhere, 0)
            return self._dial(address, hops - 1)
        them, ticket = answer.identity, bytes.fromhex(answer.details["ticket"])
        port = answer.details.get("fast_port")
        channel: Channel
        if self._protocol == FAST and port:
            host = self.place(address).rpartition(":")[0].strip("[]")
            try:
                proof, context = self._security.proof(ticket), self._security.client_context()
                process = shared_memory.can_share(answer.details.get("memory"))
                name = "" if process is None else str(answer.details.get("local_name", ""))
                raw = dial((host, int(port)), proof, _DIAL_SECONDS, context, name)
            except OSError as error:
                raise errors.UnavailableError(
                    None, None, f"{them.task} at {host}:{port} does not answer: {error}"
                ) from error
            channel = fast = SocketChannel(raw, self, them.task, them.incarnation, process)
            self._add(address, channel)
            fast.start()
        else:
            channel = stream = GrpcChannel(self, them.task, them.incarnation)
            self._add(address, channel)
            connection.open_stream(ticket, stream)
        return channel

    def _add(self, address: str, channel: Channel) -> None:
        """Keeps a channel, which must not read yet.

        Raises:
          UnavailableError: This server has stopped meanwhile.
          AbortedError: The other task was replaced by another.
        """
        channel.address = address
        with self._lock:
            closed = self._closed
            verdict = self._members.met(address, channel.incarnation)
            welcome = not closed and verdict is not Verdict.REFUSED
            before = list(self._open_to.get(address, ()))
            if welcome:
                self._channels[address] = channel
                self._open.add(channel)
                self._open_to.setdefault(address, []).append(channel)
        if not welcome:
            refusal = self._stopped_error() if closed else _replaced_error(address)
            channel.close(refusal.message)
            raise refusal
        if verdict is Verdict.RESTARTED:
            for old in before:
                if old.incarnation != channel.incarnation:
                    old.abort("The other task was restarted")
        elif verdict is Verdict.RETURNED:
            logging.info("%s is connected with %s again.", channel.peer, self.me.task)

    # -- Being met -------------------------------------------------------------------------

    def meet(self, greeting: bytes) -> bytes:
        """Answers a greeting: who I am, and how to open a channel."""
        them = _read_greeting(greeting)
        with self._lock:
            if self._members.is_over(them.identity.address, them.identity.incarnation):
                raise _replaced_error(them.identity.address)
        ticket = secrets.token_bytes(TICKET_BYTES)
        answer = {**self.me._asdict(), "ticket": ticket.hex()}
        elsewhere = self.refers_to()
        if elsewhere and not them.identity.address.startswith(STANDBY):
            answer["elsewhere"] = elsewhere
        process = None
        if self._listener is not None and them.details.get("protocol") == FAST:
            answer["fast_port"] = self._listener.port
            process = shared_memory.can_share(them.details.get("memory"))
            if process is not None:  # Who cannot be read is not asked to read.
                answer.update(self._offer(), local_name=self._listener.local_name)
        with self._lock:
            place = self._security.place_of(self._security.proof(ticket))
            self._tickets[place] = _Ticket(them.identity, process)
            while len(self._tickets) > _MAX_TICKETS:
                self._tickets.popitem(last=False)
        return json.dumps(answer).encode()

    def accept_stream(self, ticket: bytes) -> GrpcChannel | None:
        """A channel for a gRPC stream that begins with a ticket, or None to refuse it."""
        used = self._use_ticket(self._security.proof(ticket))
        if used is None:
            return None
        them = used.identity
        channel = GrpcChannel(self, them.task, them.incarnation)
        try:
            self._add(them.address, channel)
        except (errors.UnavailableError, errors.AbortedError):
            return None
        return channel

    def _accept_socket(self, proof: bytes, connection: StreamSocket) -> bool:
        used = self._use_ticket(proof)
        if used is None:
            return False
        them = used.identity
        channel = SocketChannel(connection, self, them.task, them.incarnation, used.process)
        self._add(them.address, channel)
        try:
            channel.start()
        except RuntimeError as error:  # Nobody would read it.
            channel.close(f"No thread can be started ({error})")
            return False
        return True

    def _offer(self) -> JsonObject:
        return {} if self._probe is None else {"memory": self._probe.offer()}

    def _use_ticket(self, proof: bytes) -> _Ticket | None:
        place = self._security.place_of(proof)
        with self._lock:
            return None if self._closed else self._tickets.pop(place, None)

    # -- What channels tell ----------------------------------------------------------------

    def on_message(self, channel: Channel, message: Message) -> None:
        """Passes a message on, or keeps it back until its sender is believed."""
        if self.was_paused():
            self.doubt()
        if message.kind is Kind.PING:
            with contextlib.suppress(errors.UnavailableError):  # Who asked is gone meanwhile.
                channel.send(Message(Kind.PONG, message.step, message.key))
        elif self._doubt.doubted:
            self._believe(channel, message)
        else:
            self._tell(channel, message)

    def _believe(self, channel: Channel, message: Message) -> None:
        """Passes a message on if its channel is believed, and what was kept back before."""
        believed = [message]
        with self._lock:
            if message.kind is Kind.PONG:
                believed = self._doubt.answered(channel, message.key)
            elif self._doubt.keeps(channel, message, message.step, message.kind is Kind.CANCEL):
                believed = []
        for each in believed:
            self._tell(channel, each)

    def doubt(self) -> None:
        """Believes no channel until the other side has answered a ping on it.

        For a process that was stopped: a task that declared it lost has closed the channel,
        but what was sent before may still lie there, and is about steps that are over.
        """
        with self._lock:
            if not self.was_paused():
                return
            doubted = [c for c in self._open if not c.in_process]
            number = self._doubt.begin(doubted)
            self.awake()
        logging.warning(
            "%s was not running for a while: it asks %d others whether they still wait for it.",
            self.me.task,
            len(doubted),
        )
        for channel in doubted:
            with contextlib.suppress(errors.UnavailableError):
                channel.send(Message(Kind.PING, key=number))

    def lose(self, address: str, reason: str) -> None:
        """Gives a task up: nothing that it sends any more arrives, nor what was sent to it."""
        self.renew(address)
        for channel in self.channels(address):
            channel.abort(reason)

    def channels(self, address: str) -> list[Channel]:
        """The open channels to an address, if it is in another process."""
        with self._lock:
            found = self._open_to.get(address, ())
            return [c for c in found if c.is_open and not c.in_process]

    def probe(self, address: str, timeout: float) -> bool:
        """Whether a connection to an address can be made."""
        with contextlib.suppress(errors.OpError):
            return self.connection(address).is_reachable(timeout)
        return False

    def on_close(self, channel: Channel, error: errors.OpError) -> None:
        """Forgets a channel and tells that its task is lost."""
        address = channel.address
        with self._lock:
            self._open.discard(channel)
            left = [c for c in self._open_to.pop(address, ()) if c is not channel]
            if left:
                self._open_to[address] = left
            self._doubt.closed(channel)
            self._members.lost(address)
            if self._channels.get(address) is channel:
                del self._channels[address]
                for other in left:
                    if other.is_open:
                        self._channels[address] = other
            closed = self._closed
        if not closed:
            self._on_lost(address, error)

    def has_channel(self, address: str) -> bool:
        """Whether the task at an address is connected with this one."""
        found = self._channels.get(address)
        return found is not None and found.is_open

    def traffic(self) -> dict[str, Traffic]:
        """What went over the channels that are open, by the name of the other task."""
        found: dict[str, Traffic] = {}
        with self._lock:
            channels = list(self._open)
        for channel in channels:
            found.setdefault(channel.peer, Traffic()).add(channel.traffic)
        return found

    def close(self) -> None:
        """Closes all channels."""
        with self._lock:
            self._closed = True
            channels = list(self._open)
            connections = list(self._connections.values())
            self._channels.clear()
            self._connections.clear()
        if Peers._of_this_process.get(self._place) is self:
            del Peers._of_this_process[self._place]
        if self._listener is not None:
            self._listener.close()
        if self._probe is not None:
            self._probe.close()
        for channel in channels:
            channel.close(f"The server of {self.me.task} has stopped")
        for connection in connections:
            with contextlib.suppress(Exception):
                connection.close()


def places_from(environment: Mapping[str, str]) -> dict[str, str]:
    """Where the environment says that tasks are."""
    found = environment.get(PLACES)
    return {str(a): str(p) for a, p in json.loads(found).items()} if found else {}


def _replaced_error(address: str) -> errors.OpError:
    return errors.AbortedError(
        None,
        None,
        f"The task at {address} was started again meanwhile: the process that has its place now "
        "is another one, and this one is refused.",
    )


class _Greeting(NamedTuple):
    identity: Identity
    details: dict[str, Any]


def _read_greeting(data: bytes) -> _Greeting:
    try:
        if len(data) > _MAX_GREETING_BYTES:
            raise ValueError(f"it has {len(data)} bytes")
        details = json.loads(data)
        identity = Identity(
            str(details["task"]), str(details["address"]), int(details["incarnation"])
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise errors.InvalidArgumentError(
            None, None, f"This is no greeting of a Millrace task: {type(error).__name__} {error}"
        ) from None
    return _Greeting(identity, details)


def _bindable(host: str) -> str:
    """An address of this machine for a name in a ClusterSpec."""
    host = host.strip("[]")
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise errors.UnknownError(
            None, None, f"The host {host!r} of this task's address cannot be found: {error}"
        ) from error
