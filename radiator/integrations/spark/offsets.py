"""Offsets as Spark keeps them in its checkpoint, and the ranges between two of them. Pure.

Spark's offset is JSON: {"LOG@INCARNATION": {"PARTITION": OFFSET, ...}, ...}. The incarnation is a text that no other
log of that name has had: offsets of a log that was deleted and created again are never taken for offsets of this one.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, NamedTuple

from radiator.model.errors import RadiatorError

Json = dict[str, dict[str, int]]


class DataLoss(RadiatorError):
    """Records that Spark should read do not exist, or no longer do."""


class SourceLog(NamedTuple):
    """One log, until it is deleted."""

    name: str
    incarnation: str


Offsets = dict[SourceLog, dict[int, int]]
"""By log and partition: the first offset that is not read yet."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The extent of a log: the first offset that is kept, and the next that will be appended, by partition."""

    log: SourceLog
    first: dict[int, int]
    next: dict[int, int]
    partitions: int = 1  # of the log, including those that are not read
    record_bytes: int = 0  # of one record on average, 0: unknown


@dataclass(frozen=True, slots=True)
class Range:
    """The records of a partition from `first` on, `end` not included."""

    log: SourceLog
    partition: int
    first: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets it spans."""
        return self.end - self.first

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.end - 1} of /log/{self.log.name}, partition {self.partition}"


def to_json(offsets: Offsets) -> Json:
    """Returns the offsets as Spark stores them."""
    return {
        f"{log.name}@{log.incarnation}": {str(partition): offset for partition, offset in sorted(by_partition.items())}
        for log, by_partition in sorted(offsets.items())
    }


def from_json(found: Mapping[str, Any]) -> Offsets:
    """Raises RadiatorError for anything that `to_json` does not make: a checkpoint of another source."""
    offsets: Offsets = {}
    for key, by_partition in found.items():
        name, at, incarnation = key.rpartition("@")
        if not at or not isinstance(by_partition, dict):
            raise RadiatorError(f"The checkpoint's offset {dict(found)!r} is not Radiator's: use another checkpoint.")
        offsets[SourceLog(name, incarnation)] = {
            int(partition): int(offset) for partition, offset in by_partition.items()
        }
    return offsets


def ranges(start: Offsets, end: Offsets, states: Mapping[SourceLog, LogState]) -> list[Range]:
    """Returns the ranges between the two; in a partition that `start` does not know, from the first record kept
    (`states`).
    """
    found = []
    for log, by_partition in sorted(end.items()):
        state = states.get(log)
        for partition, last in sorted(by_partition.items()):
            kept = state.first.get(partition, 0) if state is not None else 0
            first = start.get(log, {}).get(partition, min(kept, last))
            if first < last:
                found.append(Range(log, partition, first, last))
    return found


def split(whole: list[Range], at_least: int) -> list[Range]:
    """Returns the same records in at least so many ranges of about the same length, as far as there are records."""
    total = sum(one.count for one in whole)
    if not total or len(whole) >= at_least:
        return list(whole)
    parts = []
    for one in whole:
        pieces = min(one.count, max(1, -(-one.count * at_least // total)))
        bounds = [one.first + one.count * number // pieces for number in range(pieces + 1)]
        parts += [replace(one, first=first, end=end) for first, end in zip(bounds, bounds[1:], strict=False)]
    return parts


def limited(start: Offsets, latest: Offsets, most: int) -> Offsets:
    """`latest`, reduced so that at most `most` records lie between: each partition gets its share.

    `latest` must have no partition that `start` lacks.
    """
    lags = [
        (log, partition, last - start[log][partition])
        for log, by_partition in sorted(latest.items())
        for partition, last in sorted(by_partition.items())
    ]
    total = sum(lag for _, _, lag in lags)
    if total <= most:
        return latest
    shares = [lag * most // total for _, _, lag in lags]
    left = most - sum(shares)  # less than one for each partition
    # the largest remainders get one more each; equal ones in the order of their names
    by_remainder = sorted(range(len(lags)), key=lambda index: (-(lags[index][2] * most % total), index))
    for index in by_remainder[:left]:
        shares[index] += 1
    end: Offsets = {}
    for (log, partition, _), share in zip_longest(lags, shares):
        end.setdefault(log, {})[partition] = start[log][partition] + share
    return end


def at_most(latest: Offsets, target: Offsets, start: Offsets) -> Offsets:
    """`latest`, but nothing beyond `target`, and no partition that `target` does not know."""
    return {
        log: {
            partition: max(min(last, target.get(log, {}).get(partition, 0)), start[log][partition])
            for partition, last in by_partition.items()
        }
        for log, by_partition in latest.items()
    }


def unread(start: Offsets, states: Mapping[str, LogState]) -> Offsets:
    """Returns the part of `start` about logs and partitions that are no longer read. states: of all that are read, by
    name.
    """
    left: Offsets = {}
    for log, by_partition in start.items():
        state = states.get(log.name)
        if state is None:
            left[log] = dict(by_partition)
        elif state.log == log and by_partition.keys() - state.first.keys():
            left[log] = {partition: by_partition[partition] for partition in by_partition.keys() - state.first.keys()}
    return left


def without(start: Offsets, gone: Collection[str]) -> tuple[Offsets, list[str]]:
    """`start` without the logs of these names, which no longer exist; and a sentence for each of them."""
    losses = [
        f"/log/{log.name} is not there any more: whether it had records from "
        + ", ".join(f"{first} (partition {partition})" for partition, first in sorted(by_partition.items()))
        + " on, which Spark has not read, is not known."
        for log, by_partition in sorted(start.items())
        if log.name in gone
    ]
    return {log: by_partition for log, by_partition in start.items() if log.name not in gone}, losses


def lags(start: Offsets, latest: Offsets) -> list[int]:
    """Returns how many records each partition of `latest` has beyond `start`."""
    return [
        last - start.get(log, {}).get(partition, last)
        for log, by_partition in sorted(latest.items())
        for partition, last in sorted(by_partition.items())
    ]


def report(end: Offsets, latest: Offsets, source: str) -> dict[str, Any]:
    """`latest` as the progress of a query shows it, with what is read, and how far `end` is behind, which a source in
    Python cannot report elsewhere. Metrics are named as Kafka's.
    """
    behind = lags(end, latest) or [0]
    metrics = {
        "source": source,
        "offsetsBehindLatest": sum(behind),
        "minOffsetsBehindLatest": min(behind),
        "maxOffsetsBehindLatest": max(behind),
        "avgOffsetsBehindLatest": round(sum(behind) / len(behind), 1),
    }
    return {**to_json(latest), "radiator": metrics}


def joined(one: Offsets, other: Offsets) -> Offsets:
    """Returns the partitions of both, which have none in common."""
    return {log: {**one.get(log, {}), **other.get(log, {})} for log in (*one, *other)}


def begin(start: Offsets, states: Mapping[str, LogState]) -> tuple[Offsets, list[str]]:
    """Returns where to go on: `start`, moved past records that those logs no longer have; and a sentence for each such
    loss.

    A log or partition that `start` lacks is read from the first record that is kept; one that is no longer read keeps
    its offset. states: by name.
    """
    known = {log.name: log for log in start}
    going: Offsets = {}
    losses = []
    for name, state in states.items():
        before = known.get(name)
        if before is not None and before != state.log:
            losses.append(
                f"/log/{name} is another log than the one that the checkpoint speaks of: it was deleted and made "
                f"again, or this is another broker (incarnation {state.log.incarnation}, not {before.incarnation})."
            )
        was = start.get(state.log, {})
        going[state.log] = {}
        for partition, first in state.first.items():
            at, following = was.get(partition, first), state.next[partition]
            if at < first:
                losses.append(
                    f"Of /log/{name}, partition {partition}, the offsets {at} to {first - 1} have gone before Spark "
                    "has read them."
                )
            elif at > following:
                losses.append(
                    f"/log/{name}, partition {partition}, ends before offset {following}, but offset {at - 1} has been "
                    "read: it is a restored backup, or another broker's."
                )
            going[state.log][partition] = min(max(at, first), following)
    return joined(going, unread(start, states)), losses


def still_there(whole: list[Range], states: Mapping[SourceLog, LogState]) -> tuple[list[Range], list[str]]:
    """Returns the part of these ranges that their logs still have; and a sentence for each range that they do not have
    whole.
    """
    kept, losses = [], []
    for one in whole:
        state = states.get(one.log)
        first = state.first.get(one.partition, one.end) if state is not None else one.end
        following = state.next.get(one.partition, one.first) if state is not None else one.first
        there = replace(one, first=max(one.first, first), end=min(one.end, following))
        if there != one:
            losses.append(f"Not all of {one} (incarnation {one.log.incarnation}) is there any more.")
        if there.first < there.end:
            kept.append(there)
    return kept, losses


def beyond(start: Offsets, states: Mapping[SourceLog, LogState]) -> list[str]:
    """Returns a sentence for each partition that is to be read from an offset after its end."""
    return [
        f"/log/{log.name}, partition {partition}, ends before offset {states[log].next[partition]}: it cannot be read "
        f"from {first} on."
        for log, by_partition in sorted(start.items())
        for partition, first in sorted(by_partition.items())
        if first > states[log].next[partition]
    ]


def check_losses(losses: list[str], is_failure: bool) -> list[str]:
    """Raises DataLoss with these sentences if is_failure, else returns them."""
    if losses and is_failure:
        raise DataLoss("\n".join([*losses, "To go on with what is there, set the option failOnDataLoss to false."]))
    return losses
