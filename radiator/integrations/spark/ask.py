"""Requests of source and sink to the broker's /admin, over a connection that is made again, for a while, when it is
lost.
"""

import logging
import platform
import time
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from radiator.client import AddressError, Client, ConnectionLost, NoAnswer, Reconnect
from radiator.client.client import CONNECT_TIMEOUT_S
from radiator.client.password_file import from_file
from radiator.client.tls import NAME_CA, NAME_CERTIFICATE
from radiator.integrations.spark.connect import Connect
from radiator.integrations.spark.offsets import LogState, SourceLog
from radiator.integrations.spark.options import OptionError
from radiator.model.errors import ConfigError, RadiatorError, Refusal
from radiator.model.validation import log_name_mistake

ANSWER_MAX_S = 30.0  # a `checkout` of 100,000 messages takes seconds
NEVER = 999_999_999_999_999  # no partition reaches that offset
LOGS_AT_ONCE = 1000  # names that one answer lists
AWAITED_MAX, OFFSETS_MAX = 32, 2000  # logs, and their offsets, for which one request of 64 KiB has room
PASSING = frozenset(
    ["blocked", "memory", "connections", "too-many-transactions"]
)  # refusals after which another try may succeed


_log = logging.getLogger("radiator.spark")
_reached: set[tuple[str, ...]] = set()  # addresses of brokers to which this process has had a connection


def client_of(connect: Connect, **more: Any) -> Client:
    """Returns a Client with the password that its file has now, and with the TLS files; more: its other arguments.

    Raises ConnectionLost, Refusal, and OptionError if a file cannot be used on this machine, which need not be the one
    where the options were checked.
    """
    try:
        password = from_file(Path(connect.password_file)) if connect.password_file else None
        return Client(
            connect.addresses,
            user=connect.user or None,
            password=password,
            ca_file=connect.ca_file or None,
            certificate=connect.certificate_file or None,
            key=connect.key_file or None,
            **more,
        )
    except (AddressError, ConfigError) as wrong:
        raise OptionError(f"On the machine {platform.node()!r}: {_in_words_of_spark(wrong)}") from None
    except ConnectionLost as lost:
        raise ConnectionLost(_in_words_of_spark(lost)) from None


def _in_words_of_spark(error: RadiatorError) -> str:
    ours = {NAME_CA: "(the option caFile)", NAME_CERTIFICATE: "(the options certificateFile and keyFile)"}
    sentence = str(error)
    for theirs, option in ours.items():
        sentence = sentence.replace(theirs, option)
    return sentence


def connected(connect: Connect) -> Client:
    """Returns a connection of its own. Raises ConnectionLost or Refusal."""
    # there is time for two tries if the first gets no answer at all
    timeout_s = min(CONNECT_TIMEOUT_S, _patience_s(connect) / 2 / len(connect.addresses))
    client = client_of(connect, connect_timeout_s=timeout_s)
    _reached.add(connect.addresses)
    return client


def lasting(connect: Connect, window: int) -> Client:
    """Returns a connection that is tried again for a while, at first and when it is lost. window: receipts
    outstanding.
    """
    interval_s, tries = connect.retry_interval_s, Tries(connect)
    again = Reconnect(first_s=interval_s, most_s=interval_s, factor=1, timeout_s=connect.timeout_s)
    while True:
        try:
            if connect.addresses not in _reached:
                connected(connect).abandon()
            return client_of(connect, window=window, reconnect=again)
        except (ConnectionLost, Refusal) as why:
            if isinstance(why, ConnectionLost) and connect.addresses in _reached:
                raise  # the client has tried for as long as the broker may be away
            tries.failed(why)


def _patience_s(connect: Connect) -> float:
    return inf if connect.addresses in _reached else connect.unreached_s


class Tries:
    """Counts how often something was tried in vain since the last progress."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._vain = 0
        self._began_s = time.monotonic()

    def went_on(self) -> None:
        """Called when there was progress."""
        self._vain = 0

    def failed(self, why: RadiatorError) -> None:
        """Waits before the next try. Raises `why` if another try cannot do better, or ConnectionLost after the last
        one.
        """
        self._vain += 1
        if isinstance(why, Refusal) and why.code not in PASSING:
            raise why
        interval_s, patience_s = self._connect.retry_interval_s, _patience_s(self._connect)
        is_over = time.monotonic() - self._began_s + interval_s >= patience_s
        if is_over or self._vain > self._connect.retries:
            unreached = f", and given up after {patience_s:g} s, since it was never reached" if is_over else ""
            raise ConnectionLost(f"{why} It was tried {self._vain} times{unreached}.") from why
        if self._vain == 1:
            _log.warning("%s It is tried again.", why)
        time.sleep(interval_s)


class BrokerRequests:
    """Requests that survive a lost connection. There is none until the first request; pickled without it."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._client: Client | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_connect": self._connect, "_client": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def client(self) -> Client:
        """Returns the connection, made if there is none. Raises ConnectionLost or Refusal."""
        self._client = self._client or connected(self._connect)
        return self._client

    def close(self) -> None:
        """Closes without a DISCONNECT: nothing could be lost with the connection."""
        if self._client is not None:
            self._client.abandon()
            self._client = None

    def ask(self, request: Mapping[str, Any], timeout_s: float = ANSWER_MAX_S) -> dict[str, Any]:
        """Returns the broker's answer. Raises Refusal if it refuses, ConnectionLost when all tries have failed.

        A request must be safe to carry out twice: a lost connection does not show whether it was.
        """
        tries = Tries(self._connect)
        while True:
            try:
                return self.client().admin(dict(request), timeout_s)
            except (ConnectionLost, NoAnswer) as lost:
                self.close()
                tries.failed(lost)
            except Refusal as refused:
                if self._client is not None and self._client.is_open:
                    raise
                self.close()
                tries.failed(refused)

    # ---- logs

    def state(self, name: str, partitions: Iterable[int] = ()) -> LogState:
        """Returns what a log has. partitions: only these; none given: all. Raises RadiatorError if one does not
        exist.
        """
        answer = self.ask({"do": "describe", "log": name})
        found = answer["partitions"]
        first, following, size = found["first"], found["next"], found["bytes"]
        wanted = sorted(partitions) or range(len(first))
        if max(wanted) >= len(first):
            raise RadiatorError(
                f"/log/{name} has {len(first)} partitions, from 0 on: there is no partition {max(wanted)}."
            )
        kept = sum(following) - sum(first)
        return LogState(
            SourceLog(name, answer["incarnation"]),
            {partition: first[partition] for partition in wanted},
            {partition: following[partition] for partition in wanted},
            len(first),
            -(-sum(size) // kept) if kept else 0,
        )

    def find(self, name: str, partitions: Iterable[int] = ()) -> LogState | None:
        """Returns what `state` does, or None if there is no such log."""
        try:
            return self.state(name, partitions)
        except Refusal as refused:
            if refused.code != "no-such-destination":
                raise
            return None

    def logs(self) -> list[str]:
        """Returns the names of all logs but the broker's own."""
        names: list[str] = []
        request = {"do": "stats", "section": "logs", "limit": LOGS_AT_ONCE}
        while page := list(self.ask({**request, "after": names[-1]} if names else request)["logs"]):
            names += page
        return [name for name in names if not log_name_mistake(name)]

    def offsets_at(self, name: str, time_ms: int) -> list[int]:
        """Returns for each partition the offset of the first record accepted then or later; without one, the next
        offset.
        """
        offsets: list[int] = self.ask({"do": "offsets", "log": name, "time_ms": time_ms})["offsets"]
        return offsets

    def wait(self, states: Iterable[LogState], timeout_ms: int, more: int = 1) -> None:
        """Returns once a partition of one of these logs has that many records more than its state says, or the time is
        over.

        It does not wait for logs for which one request has no room.
        """
        names: list[str] = []
        known: list[int] = []
        for state in states:
            if names and (len(names) == AWAITED_MAX or len(known) + state.partitions > OFFSETS_MAX):
                break
            names.append(state.log.name)
            known += [
                state.next[partition] + more - 1 if partition in state.next else NEVER
                for partition in range(state.partitions)
            ]
        request = {"do": "await", "logs": names, "next": known, "timeout_ms": timeout_ms}
        self.ask(request, ANSWER_MAX_S + timeout_ms / 1000)

    # ---- checkouts

    def checkout(self, queue: str, group: str, most: int, max_bytes: int | None = None) -> tuple[SourceLog, int, int]:
        """Takes up to so many more; returns the log that they are in, the first number that is not acked, and the next
        one.
        """
        request = {"do": "checkout", "queue": queue, "group": group, "max_messages": most}
        answer = self.ask(request if max_bytes is None else {**request, "max_bytes": max_bytes})
        name = str(answer["log"]).removeprefix("/log/")
        return SourceLog(name, answer["incarnation"]), answer["first"], answer["next"]

    def checkout_ack(self, queue: str, group: str, before: int) -> None:
        """Acks all numbers before this one."""
        self.ask({"do": "checkout-ack", "queue": queue, "group": group, "before": before})

    def ready(self, queue: str, timeout_ms: int = 0) -> int:
        """Returns how many messages of a queue could be taken now; if none, it waits until there are some or the time
        is over.
        """
        request = {"do": "await", "queue": queue, "timeout_ms": timeout_ms}
        number: int = self.ask(request, ANSWER_MAX_S + timeout_ms / 1000)["ready"]
        return number

    # ---- prepared transactions

    def commit(self, prefix: str, prepared: list[str], app: str, version: int) -> bool:
        """Commits; returns whether this commit has carried them out, since that version may have been committed before.
        prefix: what comes before each of the names.
        """
        answer = self.ask({"do": "commit", "prefix": prefix, "prepared": prepared, "app": app, "version": version})
        return bool(answer["committed"])

    def version(self, app: str) -> int | None:
        """Returns the last version that was committed for the application."""
        last: int | None = self.ask({"do": "version", "app": app})["version"]
        return last

    def forget(self, app: str) -> None:
        """Has the broker forget the application: nothing more will be committed for it."""
        self.ask({"do": "version", "app": app, "forget": True})

    def abort(self, prefix: str, refuse_s: int) -> None:
        """Aborts all transactions whose names begin so and that are not committed; for `refuse_s` none can be prepared
        under such a name. Asked once: a lost connection raises ConnectionLost.
        """
        self.client().admin({"do": "abort", "prefix": prefix, "refuse_s": refuse_s}, ANSWER_MAX_S)
