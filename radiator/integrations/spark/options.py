"""The options of `format("radiator")`: text in, checked values out. Names are compared without regard to case.

An option that means the same as one of Spark's source for Kafka has the same name. All mistakes are reported at once.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from radiator.client.address import DEFAULT_ADDRESS, Address, AddressError
from radiator.integrations.spark.connect import Connect
from radiator.integrations.spark.unknown import why_unknown
from radiator.integrations.spark.value_schema import given_text
from radiator.model.errors import RadiatorError
from radiator.model.limits import SIZE_MAX

EARLIEST, LATEST = "earliest", "latest"
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1  # in JSON, as Kafka's
LOG, CHECKOUT = "log", "checkout"
FAILFAST, PERMISSIVE = "FAILFAST", "PERMISSIVE"  # as Spark's own readers call them
EXACTLY_ONCE, AT_LEAST_ONCE = "exactlyOnce", "atLeastOnce"
PARTITIONS_MAX = 100_000  # tasks of one batch
# of one micro-batch of logs by default: the sink commits at most 2,000 x 5,000 rows, or 8 GiB, at once
DEFAULT_ROWS, DEFAULT_BYTES = 1_000_000, 1024**3
ROWS_MAX = 2**31 - 1  # what Spark itself can bound a batch to
NAME_MAX_BYTES = 255  # of a group, and of a dedup-id: docs/PROTOCOL.md
APP_MAX_BYTES = 160  # of an application that writes: a dedup-id begins with it
PATTERN_MAX_BYTES = 1024
NAMES_SHOWN = 8  # of logs, in the description of a source
UNREACHED_MAX_S = 6.0  # how long a broker that was never reached is tried by default
TRIGGER_DELAY = "15m"  # Kafka's default
PATH_MAX = 4096  # bytes
DESTINATION_MAX_BYTES = 1024  # an address has a prefix, a name and perhaps a key of 255 bytes each

_TLS = ["caFile", "certificateFile", "keyFile"]
_CONNECT = ["url", "user", "passwordFile", *_TLS, "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"]
_COLUMNS = ["includeHeaders", "valueSchema", "valueSchemaMode"]
_READ = [
    "mode",
    "subscribe",
    "subscribePattern",
    "assign",
    "group",
    *_COLUMNS,
    "failOnDataLoss",
    "minPartitions",
    "batchRows",
]
_START = ["startingOffsets", "startingTimestamp"]
_END = ["endingOffsets", "endingTimestamp"]
_TRIGGER = ["maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "pollTimeoutMs"]
_PREPARED = ("/queue/", "/amq/queue/", "/fanout/", "/exchange/", "/log/")
_SENT = (*_PREPARED, "/topic/")
_WRITE = ["destination", "delivery", "dedupColumn", "txnAppId", "receiptWindow"]
BATCH_READ = [*_CONNECT, *_READ, *_START, *_END]
STREAM_READ = [*_CONNECT, *_READ, *_START, *_TRIGGER]
BATCH_WRITE = [*_CONNECT, *_WRITE, "txnVersion"]
STREAM_WRITE = [*_CONNECT, *_WRITE, "checkpointLocation", "queryName"]  # Spark passes on the last two, its own
_DELAY_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_ALL = {name.lower(): name for name in [*BATCH_READ, *STREAM_READ, *BATCH_WRITE, *STREAM_WRITE]}


class OptionError(RadiatorError):
    """Options are wrong: one sentence for each mistake."""


Places = str | int | Mapping[str, Mapping[int, int]]
"""Where to begin or end: EARLIEST or LATEST, a time in ms, or offsets by log and partition."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """partitions: by the names of logs; empty: all partitions. In mode CHECKOUT it has one name, of a queue; with a
    pattern, none.

    max_rows, max_bytes: of one micro-batch; None: no bound. min_rows: what a micro-batch waits for, until max_delay_s
    after the last one. min_partitions: how many tasks a batch has at least.

    value_schema: the JSON text of the schema that bodies are read by; None: they are bytes. keeps_misfits: a body that
    does not fit it is passed on as bytes.
    """

    connect: Connect
    mode: str
    partitions: Mapping[str, Collection[int]]
    pattern: str | None
    group: str
    starting: Places
    ending: Places
    include_headers: bool
    fail_on_data_loss: bool
    min_partitions: int
    batch_rows: int
    max_rows: int | None
    max_bytes: int | None
    min_rows: int
    max_delay_s: float
    poll_timeout_ms: int
    value_schema: str | None = None
    keeps_misfits: bool = False

    def __str__(self) -> str:
        """Returns what is read, as the progress of a query shows it."""
        if self.pattern is not None:
            what = f"logs that match {self.pattern!r}"
        elif self.mode == CHECKOUT:
            what = f"/queue/{next(iter(self.partitions))} by checkout of group {self.group}"
        else:
            names = [
                f"/log/{name}" + (f" (partitions {', '.join(map(str, sorted(numbers)))})" if numbers else "")
                for name, numbers in sorted(self.partitions.items())
            ]
            more = [f"{len(names) - NAMES_SHOWN} more"] if len(names) > NAMES_SHOWN else []
            what = ", ".join(names[:NAMES_SHOWN] + more)
        return f"{what} at {self.connect}"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """destination, dedup_column, app: None if not given. version: of a batch, for `app`."""

    connect: Connect
    destination: str | None
    delivery: str
    dedup_column: str | None
    app: str | None
    version: int | None
    receipt_window: int


def source_options(given: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """Raises OptionError."""
    what = "a stream that is read" if is_stream else "a batch that is read"
    options = _Given(given, STREAM_READ if is_stream else BATCH_READ, what)
    mode = options.choice("mode", (LOG, CHECKOUT), LOG)
    pattern = options.pattern()
    partitions = options.subscribed(mode)
    read = SourceOptions(
        connect=options.connect(),
        mode=mode,
        partitions=partitions,
        pattern=pattern,
        group=options.text("group") or "",
        starting=options.places(_START, LATEST if is_stream else EARLIEST, (EARLIEST, LATEST), partitions, pattern),
        ending=options.places(_END, LATEST, (LATEST,), partitions, pattern),
        include_headers=options.flag("includeHeaders", False),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        min_partitions=options.whole("minPartitions", 1, 1, PARTITIONS_MAX),
        batch_rows=options.whole("batchRows", 10_000, 1, 1_000_000),
        max_rows=options.bound("maxOffsetsPerTrigger", ROWS_MAX),
        max_bytes=options.bound("maxBytesPerTrigger", SIZE_MAX),
        min_rows=options.whole("minOffsetsPerTrigger", 1, 1, ROWS_MAX),
        max_delay_s=options.delay_s("maxTriggerDelay", TRIGGER_DELAY),
        poll_timeout_ms=options.whole("pollTimeoutMs", 500, 0, 60_000),
        value_schema=options.value_schema(),
        keeps_misfits=options.keeps_misfits(),
    )
    if mode == LOG and is_stream and read.max_rows is None and read.max_bytes is None:
        read = replace(read, max_rows=DEFAULT_ROWS, max_bytes=DEFAULT_BYTES)
    options.check_trigger(read)
    if mode == CHECKOUT:
        options.check_checkout(read, is_stream)
    elif "group" in options:
        options.wrong("The option group is for mode checkout only: Spark keeps a log's offsets in its own checkpoint.")
    options.finish()
    return read


def sink_options(given: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    """Raises OptionError."""
    what = "a stream that is written" if is_stream else "a batch that is written"
    options = _Given(given, STREAM_WRITE if is_stream else BATCH_WRITE, what)
    sink = SinkOptions(
        connect=options.connect(),
        destination=options.text("destination", DESTINATION_MAX_BYTES),
        delivery=options.choice("delivery", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE),
        dedup_column=options.text("dedupColumn"),
        app=options.text("txnAppId", APP_MAX_BYTES),
        version=options.bound("txnVersion", SIZE_MAX, 0),
        receipt_window=options.whole("receiptWindow", 500, 1, 100_000),
    )
    options.check_destination(sink)
    if not is_stream and (sink.app is None) != (sink.version is None):
        options.wrong(
            "The options txnAppId and txnVersion belong together: the broker takes a batch of an application once for "
            "each version, and none that is not higher than the last."
        )
    options.finish()
    return sink


def column_options(given: Mapping[str, str]) -> tuple[bool, str | None, bool]:
    """Returns only the options that decide which columns there are: include_headers, value_schema and keeps_misfits of
    SourceOptions. Raises OptionError.
    """
    names = [name.lower() for name in _COLUMNS]
    options = _Given({name: value for name, value in given.items() if name.lower() in names}, _COLUMNS, "reading")
    found = options.flag("includeHeaders", False), options.value_schema(), options.keeps_misfits()
    options.finish()
    return found


def connect_options(given: Mapping[str, str], what: str) -> Connect:
    """Returns only the options that say where the broker is. Raises OptionError."""
    options = _Given(given, _CONNECT, what)
    connect = options.connect()
    options.finish()
    return connect


class _Given:
    """The options as Spark gives them; `wrong` notes a mistake, `finish` raises all that were noted."""

    def __init__(self, given: Mapping[str, str], allowed: Collection[str], what: str) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self._mistakes: list[str] = []
        lower = {name.lower() for name in allowed}
        for name in self._given.keys() - lower:
            self.wrong(why_unknown(name, allowed, _ALL, what))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def wrong(self, sentence: str) -> None:
        self._mistakes.append(sentence)

    def finish(self) -> None:
        if self._mistakes:
            raise OptionError("\n".join(sorted(self._mistakes)))

    def value(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def text(self, name: str, most: int = NAME_MAX_BYTES) -> str | None:
        value = self.value(name)
        if value is not None and not 1 <= len(value.encode()) <= most:
            self.wrong(f"The option {name} has {len(value.encode())} bytes: it must have 1 to {most}.")
        return value

    def choice(self, name: str, values: tuple[str, ...], default: str) -> str:
        value = self.value(name)
        for one in values:
            if value is not None and value.lower() == one.lower():
                return one
        if value is not None:
            self.wrong(f"The option {name} is {value!r}: it must be {' or '.join(values)}.")
        return default

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), "true" if default else "false") == "true"

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        value = self.value(name)
        if value is None:
            return default
        number = _number(value)
        if number is None or not least <= number <= most:
            self.wrong(f"The option {name} is {value!r}: it must be a whole number from {least} to {most}.")
            return default
        return number

    def bound(self, name: str, most: int, least: int = 1) -> int | None:
        return self.whole(name, least, least, most) if name in self else None

    def connect(self) -> Connect:
        addresses = tuple(one.strip() for one in (self.value("url") or DEFAULT_ADDRESS).split(","))
        parsed: list[Address] = []
        for address in addresses:
            try:
                parsed.append(Address.parse(address))
            except AddressError as wrong:
                self.wrong(f"The option url: {wrong}")
        self._check_login(parsed)
        self._check_tls(parsed)
        retries = self.whole("fetchOffset.numRetries", 100, 0, 1_000_000)
        interval_s = self.whole("fetchOffset.retryIntervalMs", 300, 1, 600_000) / 1000
        is_set = "fetchOffset.numRetries" in self or "fetchOffset.retryIntervalMs" in self
        unreached_s = inf if is_set else UNREACHED_MAX_S
        names = ("user", "passwordFile", *_TLS)
        return Connect(
            addresses, retries, interval_s, unreached_s, *(self.text(name, PATH_MAX) or "" for name in names)
        )

    def _check_login(self, addresses: list[Address]) -> None:
        for one in addresses:
            if one.login or one.passcode:
                self.wrong(
                    f"The option url has a login for {one}, which is in the query's plan for others to read: give "
                    "the options user and passwordFile instead."
                )
        if ("user" in self) != ("passwordFile" in self):
            self.wrong(
                "The options user and passwordFile belong together: the name of a user of the broker, and a file whose "
                "first line is the user's password, or token."
            )

    def _check_tls(self, addresses: list[Address]) -> None:
        for name in _TLS:
            if name in self and not any(one.is_tls for one in addresses):
                self.wrong(f"The option {name} has no meaning without TLS: write stomps://HOST:PORT in url.")
        if "keyFile" in self and "certificateFile" not in self:
            self.wrong("The option keyFile has no meaning without certificateFile, whose key it is.")

    def value_schema(self) -> str | None:
        value = self.value("valueSchema")
        try:
            return None if value is None else given_text(value)
        except ValueError as wrong:
            self.wrong(f"The option valueSchema {wrong}.")
            return None

    def keeps_misfits(self) -> bool:
        if "valueSchemaMode" in self and "valueSchema" not in self:
            self.wrong("The option valueSchemaMode has no meaning without valueSchema.")
        return self.choice("valueSchemaMode", (FAILFAST, PERMISSIVE), FAILFAST) == PERMISSIVE

    def pattern(self) -> str | None:
        pattern = self.text("subscribePattern", PATTERN_MAX_BYTES)
        if pattern is None:
            return None
        pattern = pattern.removeprefix("/log/")
        try:
            matching(pattern, [""])
        except ValueError as wrong:
            self.wrong(
                f"The option subscribePattern is {pattern!r}, which is not a regular expression of RE2 "
                f"(docs/SPARK.md): {wrong}."
            )
            return ""
        return pattern

    def subscribed(self, mode: str) -> dict[str, frozenset[int]]:
        subscribe, assign = self.value("subscribe"), self.value("assign")
        what = "log" if mode == LOG else "queue"
        if [subscribe, assign, self.value("subscribePattern")].count(None) != 2:
            self.wrong(
                f"Which {what} is to be read? Give the option subscribe (names, with commas between), "
                'or else the option assign (JSON: {"NAME": [PARTITION, ...]}), or subscribePattern.'
            )
            return {}
        if subscribe is None and assign is None:
            return {}
        if subscribe is not None:
            names = [_bare(one, f"/{what}/") for one in subscribe.split(",")]
            if not all(names) or len(names) != len(set(names)):
                self.wrong(f"The option subscribe is {subscribe!r}: it must be different names, with commas between.")
            return {name: frozenset() for name in names}
        found = self.object("assign", '{"NAME": [PARTITION, ...]}') or {}
        for name, numbers in found.items():
            if not (isinstance(numbers, list) and numbers and all(type(one) is int and one >= 0 for one in numbers)):
                self.wrong(f"The option assign says {numbers!r} of {name!r}: it must be a list such as [0, 1].")
                return {}
        return {_bare(name, f"/{what}/"): frozenset(numbers) for name, numbers in found.items()}

    def object(self, name: str, wanted: str) -> dict[str, Any] | None:
        value = self.value(name) or ""
        try:
            found = json.loads(value)
        except ValueError:
            found = None
        if isinstance(found, dict) and found:
            return found
        self.wrong(f"The option {name} is {value!r}: it must be JSON such as {wanted}.")
        return None

    def delay_s(self, name: str, default: str) -> float:
        value = self.value(name) or default
        found = re.fullmatch(r"([0-9]{1,9}) ?([a-z]*)", value.strip().lower())
        unit = _DELAY_S.get(found[2] or "ms") if found else None
        if found is None or unit is None:
            self.wrong(
                f"The option {name} is {value!r}: it must be a whole number of {', '.join(_DELAY_S)}, such as 30s."
            )
            return 0.0
        return int(found[1]) * unit

    def places(
        self,
        names: list[str],
        default: str,
        words: tuple[str, ...],
        partitions: Mapping[str, Collection[int]],
        pattern: str | None,
    ) -> Places:
        """Returns where to begin or end. names: the option for offsets and the one for a time."""
        offsets, time = names
        if time in self:
            if offsets in self:
                self.wrong(f"The options {offsets} and {time} cannot both be given.")
            return self.whole(time, 0, 0, SIZE_MAX)
        value = (self.value(offsets) or default).strip()
        if value.lower() in words:
            return value.lower()
        if not value.startswith("{"):
            wanted = " or ".join(words)
            self.wrong(
                f'The option {offsets} is {value!r}: it must be {wanted}, or JSON such as {{"LOG": {{"0": 5}}}}.'
            )
            return default
        least = EARLIEST_OFFSET if EARLIEST in words else LATEST_OFFSET
        found = self.object(offsets, '{"LOG": {"0": 5}}') or {}
        places: dict[str, dict[int, int]] = {}
        for log, by_partition in found.items():
            kept = _partitions(by_partition, least)
            if kept is None:
                earliest = ", -2 for the earliest" if least == EARLIEST_OFFSET else ""
                self.wrong(
                    f"The option {offsets} says {by_partition!r} of {log!r}: it must be offsets by partition, such as "
                    f'{{"0": 5}}{earliest}, -1 for the latest.'
                )
            else:
                places[_bare(log, "/log/")] = kept
        for log in places.keys() - (partitions.keys() if pattern is None else matching(pattern, places)):
            self.wrong(f"The option {offsets} speaks of {log!r}, which is not read.")
        return places

    def check_destination(self, sink: SinkOptions) -> None:
        """Checks what the address alone shows; the broker judges the rest."""
        address, allowed = sink.destination, _PREPARED if sink.delivery == EXACTLY_ONCE else _SENT
        if address is not None and "/" in address[:1] and not address.startswith(allowed):
            wanted = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
            self.wrong(f"The option destination is {address!r}: with delivery {sink.delivery} it begins with {wanted}.")

    def check_trigger(self, read: SourceOptions) -> None:
        if read.max_rows is not None and read.min_rows > read.max_rows:
            self.wrong(
                f"The option minOffsetsPerTrigger is {read.min_rows}: it must be at most {read.max_rows}, which is "
                "maxOffsetsPerTrigger."
            )
        if "maxTriggerDelay" in self and "minOffsetsPerTrigger" not in self:
            self.wrong("The option maxTriggerDelay has no meaning without minOffsetsPerTrigger.")

    def check_checkout(self, read: SourceOptions, is_stream: bool) -> None:
        if not is_stream:
            self.wrong(
                "A queue is read by checkout in a stream only, since a batch could not say when it is done with; "
                "trigger(availableNow=True) ends when all that was there has been read."
            )
        if not read.group:
            self.wrong("The mode checkout needs the option group: in whose name messages are taken from the queue.")
        elif "/" in read.group:
            self.wrong(f"The option group is {read.group!r}: there may be no / in it.")
        if len(read.partitions) > 1 or "assign" in self or "subscribePattern" in self:
            self.wrong("The mode checkout reads one queue: give its name as the option subscribe.")
        for name in _START:
            if name in self:
                self.wrong(f"The option {name} has no meaning in mode checkout: a group begins where it is.")
        if "minOffsetsPerTrigger" in self:
            self.wrong(
                "The option minOffsetsPerTrigger has no meaning in mode checkout: what waits for a batch is still the "
                "queue's. Use a processingTime trigger."
            )


def matching(pattern: str, names: Iterable[str]) -> set[str]:
    """Returns the names that the pattern matches as a whole. Raises ValueError if it is not a regular expression.

    RE2 is used, whose time is linear in the pattern and the name, so that no pattern takes for ever.
    """
    several = pa.array(list(names), pa.string())
    pc.match_substring_regex(several, pattern)  # by itself: it may not end the group around it
    found = several.filter(pc.match_substring_regex(several, rf"\A(?:{pattern})\z"))
    return set(found.to_pylist())


def _bare(name: str, prefix: str) -> str:
    return name.strip().removeprefix(prefix)


def _number(text: str) -> int | None:
    stripped = text.strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= 19 else None


def _partitions(found: object, least: int) -> dict[int, int] | None:
    if not isinstance(found, dict) or not found:
        return None
    kept: dict[int, int] = {}
    for partition, offset in found.items():
        number = _number(partition)
        if number is None or type(offset) is not int or not least <= offset <= SIZE_MAX:
            return None
        kept[number] = offset
    return kept
