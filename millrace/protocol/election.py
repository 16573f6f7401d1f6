"""Election of the chief: a lease in a shared register, kept by nothing but compare-and-set.

The register holds one `Record`: who has the lease, under which *token*, and how often it was
renewed. A candidate reads it again and again. The holder replaces it by the next renewal; anybody
else who has seen the same record for as long as the lease lasts, by his own clock, replaces it by
one of his own, with a greater token. A write names the version that was read, so of two writers one
is refused.

Invariants:

* Of two terms the later one has the greater token: what is written under a smaller one can be
  refused for good (`millrace.training.checkpoint.fence`).
* A holder trusts his lease for a part of its time only, counted from before the write was sent;
  others wait for all of it, counted from after they saw the record. So clocks need not agree,
  only to run about equally fast, and two candidates never hold the lease at one moment.
* A register that forgets (its task restarted) is one that still holds what was last seen there.
  The driver of a candidate then tells it the greatest token that is known from elsewhere
  (`heard_of`), since it may have missed a term.

There is no clock, thread or socket here: time is an argument, and what to do is the result.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

#: The part of a lease that its holder makes use of; the rest is for clocks that run differently.
_TRUSTED = 0.9
#: A holder renews after this part of the lease, and others look as often.
_RENEWED = 0.25
#: Others look this often within a lease.
_LOOKED = 0.1


class Record(NamedTuple):
    """What the register holds.

    Attributes:
      holder: The candidate's name; no other candidate ever has the same.
      token: The number of the term.
      renewal: How often the lease was renewed in this term; every write changes it.
      seconds: How long the lease lasts after each renewal.
      released: Whether the holder gave the lease up.
    """

    holder: str
    token: int
    renewal: int
    seconds: float
    released: bool = False

    def encode(self) -> bytes:
        """The record as bytes that people can read."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, content: bytes) -> Record:
        """The record that `encode` made bytes of.

        Raises:
          ValueError: It did not.
        """
        try:
            fields: Any = json.loads(content)
            return cls(
                str(fields["holder"]),
                int(fields["token"]),
                int(fields["renewal"]),
                float(fields["seconds"]),
                bool(fields.get("released", False)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"The place of the election holds something else than a lease: {content[:80]!r}. "
                "Give each job a path of its own."
            ) from error


class Reading(NamedTuple):
    """The content of the register, None if there is none, and its version."""

    record: Record | None
    version: int


class Write(NamedTuple):
    """An instruction: replace the content, if the register still has this version."""

    record: Record
    version: int


class Sleep(NamedTuple):
    """An instruction: read again after some seconds."""

    seconds: float


class Candidate:
    """One who would be chief.

    Each time: hand `on_reading` what the register holds, do what it returns, and tell the outcome
    of a write to `on_written` or `on_refused`. A write whose outcome is not known is told to
    nobody: the next reading shows it.

    Args:
      name: A name that no other candidate has, nor an earlier start of this one.
      seconds: How long the lease lasts.
      now: The time.
      head_start: Seconds for which a lease that nobody ever had is left to others.
    """

    def __init__(self, name: str, seconds: float, now: float, head_start: float = 0.0) -> None:
        if not seconds > 0:
            raise ValueError(f"A lease lasts for more than {seconds} seconds.")
        self.name = name
        self._seconds = seconds
        self._may_begin = now + head_start
        #: The last record that was read or written, and when it was first known.
        self._known: Record | None = None
        self._known_since = now
        #: Whether the register ever showed a lease of another one that was not given up.
        self.has_seen_chief = False
        #: The greatest token that was ever heard of.
        self._highest = 0
        #: What this candidate wrote last, if that is the newest record: his lease.
        self._lease: Record | None = None
        #: Until when he trusts it, and when he renews it.
        self._trusted_until = float("-inf")
        self._renew_at = float("-inf")

    def token(self, now: float) -> int | None:
        """The token of the term of which this candidate is chief now; None if he is not."""
        if self._lease is None or self._lease.released or now >= self._trusted_until:
            return None
        return self._lease.token

    @property
    def holder(self) -> str | None:
        """Who had the lease when the register was last read; None if nobody."""
        return None if self._known is None or self._known.released else self._known.holder

    def heard_of(self, token: int) -> None:
        """Makes sure that a term of this candidate gets a greater token."""
        self._highest = max(self._highest, token)

    def on_reading(self, reading: Reading, now: float) -> Write | Sleep:
        """What to do now that the register was read."""
        record = reading.record
        if record is None:
            if self._known is None:
                return self._begin(reading, now)
            record = self._known  # the register forgot
        elif record != self._known:
            self._learn(record, now)
            self.has_seen_chief |= record.holder != self.name and not record.released
        # What the register forgot after a pause of ours may not have been the last: no longer ours.
        is_known = reading.record is not None or self.token(now) is not None
        # A token that is not the greatest was written by one who had not heard of a later term.
        is_latest = record.token >= self._highest
        if record.holder == self.name and not record.released and is_known and is_latest:
            return self._keep(record, reading, now)
        self._lease = None
        left = record.seconds - (now - self._known_since)
        if record.released or left <= 0 or not is_latest:
            return self._take(reading)
        return Sleep(min(left, _LOOKED * self._seconds))

    def release(self, reading: Reading) -> Write | None:
        """What to write so that others need not wait; None if this candidate has no lease."""
        record = reading.record
        if record is None or record.holder != self.name or record.released:
            return None
        return Write(record._replace(renewal=record.renewal + 1, released=True), reading.version)

    def on_written(self, record: Record, sent_at: float) -> None:
        """The register took a write, which was sent at this time."""
        self._learn(record, sent_at)
        self._lease = record
        self._trusted_until = sent_at + _TRUSTED * record.seconds
        self._renew_at = sent_at + _RENEWED * record.seconds

    def on_refused(self) -> None:
        """The register did not take a write: somebody else was faster."""

    def _begin(self, reading: Reading, now: float) -> Write | Sleep:
        left = self._may_begin - now
        return Sleep(min(left, _LOOKED * self._seconds)) if left > 0 else self._take(reading)

    def _take(self, reading: Reading) -> Write:
        return Write(Record(self.name, self._highest + 1, 0, self._seconds), reading.version)

    def _keep(self, record: Record, reading: Reading, now: float) -> Write | Sleep:
        """Renews what is ours; also after a pause: nobody took it in the meantime."""
        if self._lease == record and reading.record is not None and now < self._renew_at:
            return Sleep(self._renew_at - now)
        return Write(
            record._replace(renewal=record.renewal + 1, seconds=self._seconds), reading.version
        )

    def _learn(self, record: Record, now: float) -> None:
        self._known = record
        self._known_since = now
        self.heard_of(record.token)
