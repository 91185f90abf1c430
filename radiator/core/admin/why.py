"""Explains why nothing moves in a queue, or to the consumers of a log: a word, a sentence, and the numbers.

The first reason that fits is the verdict; the reasons are rows, in the order in which an operator should look.
"""

from collections.abc import Iterator
from typing import Protocol

from radiator.core.admin.logs import existing_log
from radiator.core.answers import in_order
from radiator.core.cluster.cluster import Cluster
from radiator.core.cluster.work_sharing import Share
from radiator.core.connections import WINDOW_HELP, Subscription
from radiator.core.crowd import CAN_TAKE, HELD, OUTBOX, STAND_BY, Crowd, listed, unacked_of, window_of
from radiator.core.kinds.log import MANY_PARTITIONS, readers_in, unread_of
from radiator.core.kinds.queue import of_queue as numbers_of
from radiator.core.logs.checkouts import Checkouts
from radiator.core.logs.log import Log
from radiator.core.logs.log_consumer import LogConsumer
from radiator.core.memory import Memory
from radiator.core.ports import AnsweringPort
from radiator.core.queues.bounds import held_fast, held_text
from radiator.core.queues.durable_queue import DurableQueue
from radiator.core.queues.key_numbers import active_keys, look_for_hot
from radiator.core.queues.queue import Queue
from radiator.core.queues.unsendable import of_unsendable
from radiator.core.request import Request
from radiator.core.routing.admission import Admission
from radiator.core.routing.destinations import Destinations
from radiator.core.routing.exchanges import TOPICS
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.stats import holders
from radiator.core.why_dead_letters import of_dead_letters
from radiator.core.why_keys import of_keys
from radiator.core.why_single import of_single, of_successor
from radiator.model.administration import ExplainLog, ExplainQueue
from radiator.model.answers import LogExplained, Pressure, QueueExplained
from radiator.model.commands import CLIENT
from radiator.model.errors import count_text
from radiator.model.limits import PATH_HOPS_MAX, STARVING_S, WHY_CONSUMERS, WHY_LOOKED_AT, WINDOW_FULL_S
from radiator.model.numbers import PAUSE, PauseRow
from radiator.model.settings import BLOCK, DEAD_LETTER, DROP_OLDEST

VERDICT_LOOKS = 40  # what one costs, in looks at a thing


class WhyPort(AnsweringPort, Protocol):
    """The parts that an explanation of a queue or a log needs."""

    @property
    def admission(self) -> Admission: ...

    @property
    def checkouts(self) -> Checkouts: ...

    @property
    def cluster(self) -> Cluster | None: ...

    @property
    def destinations(self) -> Destinations: ...

    @property
    def memory(self) -> Memory: ...


# ---- a queue --------------------------------------------------------------------------------------------------------


def queue(request: Request[WhyPort], command: ExplainQueue) -> None:
    """Explains a queue."""
    asked, parts = request.parts.destinations.existing_queue(command.queue), request.parts

    def explained() -> Iterator[QueueExplained | PauseRow]:
        verdict = sentence = ""
        for found in judged(parts, asked):
            if found is PAUSE:
                yield PAUSE
            else:
                verdict, sentence = found
        yield QueueExplained(
            verdict=verdict,
            sentence=sentence,
            numbers=numbers_of(asked, parts.checkouts.count(asked)),
            pressure=_pressure(parts),
            is_full=is_full(asked),
            next_due_ms=asked.next_due_ms or None,
            consumer_list=listed(asked.subscriptions),
        )

    request.answer_in_slices(explained)


def judged(state: WhyPort, asked: Queue) -> Iterator[tuple[str, str] | PauseRow]:
    """Yields PAUSEs, then the verdict and its sentence."""
    crowd = Crowd()
    yield from crowd.look([*asked.subscriptions])
    if asked.entries_out and not asked.ready_count:
        yield from crowd.look_at_holders(asked)
    yield from look_for_hot(asked, crowd.hot)
    yield of_queue(state, asked, crowd)


def judging_looks(asked: Queue) -> int:
    """Returns how much `judged` looks at."""
    out = 0 if asked.ready_count else min(len(asked.entries_out), WHY_LOOKED_AT)
    return VERDICT_LOOKS + len(asked.subscriptions) + out + (active_keys(asked) or 0)


def of_queue(state: WhyPort, asked: Queue, crowd: Crowd) -> tuple[str, str]:
    """Returns the verdict and its sentence. That it is full does not explain why nothing moves: it is added to the
    sentence.
    """
    if asked.name.startswith(OUTBOX_PREFIX):
        verdict, sentence = _of_outbox(state, asked)
    else:
        verdict, sentence = _of_ready(state, asked, crowd) if asked.ready_count else _of_none_ready(state, asked, crowd)
        sentence += of_single(asked) + _of_other_nodes(state, asked)
        sentence += of_unsendable(asked.unsendable, asked.head())
        if dead := of_dead_letters(state.destinations, asked):
            sentence += f" {dead}"
    if state.cluster is not None and (otherwise := state.cluster.agreement.sentences_of(asked.name)):
        sentence += f" {otherwise}"
    if asked.waiters and not asked.is_persistent and state.admission.memory_wait_list.is_tight and not is_full(asked):
        waiting = count_text(len(asked.waiters), "producer waits", "producers wait")
        sentence += f" {waiting} for room: {_of_memory(state)}"
    elif asked.waiters or is_full(asked):
        sentence += f" {_of_full(asked)}"
    elif verdict != "disk-tight" and state.admission.disk_wait_list.is_tight:
        sentence += f" The disk is nearly full too: nothing more is accepted anywhere.{_most_stored(state)}"
    return verdict, sentence


def _of_outbox(state: WhyPort, asked: Queue) -> tuple[str, str]:
    """Judges the copies that wait for another node."""
    name = asked.name.removeprefix(OUTBOX_PREFIX)
    many, cluster = asked.ledger.stored, state.cluster
    copies = count_text(many, "copy waits", "copies wait")
    peer = None if cluster is None else cluster.peers.get(name)
    if cluster is not None and cluster.copies is not None and cluster.copies.is_dropped(name):
        return "not-kept", (
            f"No copies are kept for node {name} until it is linked, as an operator has said; "
            f"{asked.ledger.dropped} were dropped. `radiator peer keep {name}` ends that."
        )
    if not many:
        return "empty", f"No copy waits for node {name}."
    if peer is None or peer.link is None:
        cause = "" if peer is None or not peer.cause else f" ({peer.cause})"
        return "not-linked", (
            f"{copies} for node {name}, which is not linked{cause}; `radiator peer drop {name} --force` discards them."
        )
    if asked.doubt_count:
        return "in-doubt", f"{copies} for node {name}; {asked.doubt_count} are offered to it, and not confirmed yet."
    return "not-taken", (
        f"{copies} for node {name}, which is linked and takes none now: its queues, disk or memory are full, it is "
        "being drained, or it lacks the fanout (`peer_lacks_fanout` in the log)."
    )


def _of_other_nodes(state: WhyPort, asked: Queue) -> str:
    """Returns what becomes of SENDs that lead to it and to a node whose outbox is full; "": there are none."""
    destinations = state.destinations
    full = [outbox for outbox in destinations.copies_to if outbox.waiters or is_full(outbox)]
    if not full:
        return ""
    fanouts = [
        f"/fanout/{name}"
        for name in sorted(destinations.declarations.cluster_fanouts)
        if asked.name in destinations.fanouts.all[name].children
    ]
    text = _of_copies(f"SENDs to {', '.join(fanouts)}", full) if fanouts else ""
    standing = destinations.topics.standing
    bound = destinations.exchanges.bound.get(asked, ())
    if standing is not None and any(name == TOPICS and key in standing.counts for name, key in bound):
        wanting = [outbox for outbox in full if standing.known.get(outbox.name.removeprefix(OUTBOX_PREFIX))]
        text += _of_copies("SENDs to topics with durable subscriptions both here and there", wanting)
    return text


def _of_copies(sends: str, full: list[DurableQueue]) -> str:
    """Returns what becomes of these SENDs at outboxes that are full."""
    text = ""
    for drops, becomes in ((False, "find no room for their copies"), (True, "drop the oldest copies")):
        outboxes = [outbox for outbox in full if drops == (_evicts(outbox) and not outbox.waiters)]
        if outboxes:
            names = ", ".join(outbox.name.removeprefix(OUTBOX_PREFIX) for outbox in outboxes)
            text += f" {sends} {becomes} for node {names}: `radiator why '{outboxes[0].name}'` says why."
    return text


def _most_stored(state: WhyPort) -> str:
    """Returns which queue takes most of the disk."""
    stored = max(state.destinations.queues.stored.values(), key=lambda queue: queue.ledger.stored_bytes, default=None)
    if stored is None or not stored.ledger.stored:
        return ""
    held = f"{count_text(stored.ledger.stored, 'message')} of {count_text(stored.ledger.stored_bytes, 'byte')}"
    return f" Of all queues {stored.name} holds most, {held}."


def _of_memory(state: WhyPort) -> str:
    """Returns who holds the memory that producers wait for."""
    return f"the broker's memory is nearly used up: large holders wait. The largest: {state.memory.holders_text()}."


def is_full(asked: Queue) -> bool:
    """Whether one more message, as large as those that it holds are on average, would be beyond its bounds."""
    ledger = asked.ledger
    return not asked.keeps_nothing and not asked.has_capacity(1, max(1, ledger.stored_bytes // max(1, ledger.stored)))


def _evicts(asked: Queue) -> bool:
    """Whether it makes room by dropping its oldest messages: what is unacked or delayed stays."""
    settings, (kept, kept_bytes) = asked.settings, held_fast(asked)
    return settings.overflow in (DROP_OLDEST, DEAD_LETTER) and not (
        (settings.max_messages is not None and kept >= settings.max_messages)
        or (settings.max_bytes is not None and kept_bytes >= settings.max_bytes)
    )


def _of_full(asked: Queue) -> str:
    """Returns what becomes of a SEND while it is full, or while producers wait for room in it."""
    settings = asked.settings
    bounds = {"max_messages": settings.max_messages, "max_bytes": settings.max_bytes}
    given = ", ".join(f"{name} {bound}" for name, bound in bounds.items() if bound is not None)
    held = f"{held_text(asked)} ({given})"
    many = count_text(len(asked.waiters), "producer waits", "producers wait")
    overflow = settings.overflow
    if overflow == BLOCK:
        text = f"{many} for room" if asked.waiters else "the next SEND waits for room"
    elif overflow not in (DROP_OLDEST, DEAD_LETTER):
        text = "SENDs are refused"
    elif not _evicts(asked):
        text = "SENDs are refused, since what it holds is unacked or delayed, which is not dropped"
    elif asked.waiters:
        text = f"{many} until its oldest messages are read back from the disk, to be dropped"
    elif overflow == DROP_OLDEST:
        text = "each SEND drops its oldest message"
    else:
        text = "each SEND makes its oldest message a dead letter"
    return f"It is full, with {held}: {text} (overflow {overflow})."


def _of_ready(state: WhyPort, asked: Queue, crowd: Crowd) -> tuple[str, str]:
    """Judges a queue in which messages are ready, and nobody takes them."""
    ready = count_text(asked.ready_count, "message is ready", "messages are ready")
    at, worst = crowd.at, crowd.worst
    if not at:
        share = state.cluster.shares.here(asked) if state.cluster is not None else None
        return ("no-consumer", f"{ready}, and nobody is subscribed.") if share is None else _of_shared(share, ready)
    if CAN_TAKE in at:
        if (held_back := of_keys(asked, ready, crowd.hot)) is not None:
            return held_back
        if asked.peek_head() is None:
            return "loading", f"{ready}, and being read back from the disk; a consumer has room for them."
        return "moving", f"{ready}, and a consumer has room: nothing holds it up here."
    if STAND_BY in at and (taking_over := of_successor(asked, ready)) is not None:
        return taking_over
    consumers = count_text(at.total(), "consumer")
    if OUTBOX in at and worst is None:
        return "outbox-full", f"{ready}, but the consumers do not read what they were already sent ({consumers})."
    if worst is None and HELD in at:
        return (
            "held",
            f"{ready}, but consumers are not ready, are being drained, or have lost their names to others "
            f"({consumers}).",
        )
    if worst is None:
        return "closing", f"{ready}, but each consumer's connection is being closed ({consumers})."
    holder = worst.connection.address
    return "window", (
        f"{ready}, but no consumer has room in its window: {count_text(len(asked.entries_out), 'message')} unacked "
        f"with {consumers}. {holder[0].upper()}{holder[1:]} has {unacked_of(worst)} of {window_of(worst)}"
        f"{_of_waiting(worst, state.context.now_s)}."
    )


def _of_waiting(one: Subscription, now_s: float) -> str:
    """Returns, for ack:client, that it may wait for more, to ack all at once; "": it does not."""
    full_s = one.full_for_s(now_s) if one.ack == CLIENT else 0.0
    return f", and has acked nothing for {full_s:.0f} s. {WINDOW_HELP[:-1]}" if full_s >= WINDOW_FULL_S else ""


def _of_none_ready(state: WhyPort, asked: Queue, crowd: Crowd) -> tuple[str, str]:
    """Judges a queue in which no message is ready."""
    numbers = numbers_of(asked)
    out, delayed, offered, storing = numbers.unacked, numbers.delayed, numbers.in_doubt, numbers.storing
    if out:
        holders = crowd.holders
        consumers = min(holders) if len(holders) == 1 else f"{len(holders)} connections"
        if out > WHY_LOOKED_AT:
            consumers += " (and perhaps others)"
        return (
            "unacked",
            f"No message is ready; {count_text(out, 'is', 'are')} with {consumers}, and not acked yet.",
        )
    if offered:
        return "in-doubt", (
            f"No message is ready; {count_text(offered, 'is', 'are')} offered to another node, which has not answered "
            "yet: `radiator peers` says which."
        )
    if storing:
        return "storing", f"No message is ready; {count_text(storing, 'is', 'are')} on the way to the disk."
    if asked.damaged:
        return "damaged", f"No message is ready; {asked.damaged} cannot be read: `radiator check` says why."
    if asked.has_due:
        return (
            "waking",
            f"No message is ready; of {count_text(delayed, 'delayed one')} those that are due move to their places.",
        )
    if delayed:
        seconds = max(0, asked.next_due_ms - state.context.now_ms) / 1000
        return (
            "delayed",
            f"No message is ready; {count_text(delayed, 'is', 'are')} delayed, the next for {seconds:.1f} s.",
        )
    if state.checkouts.count(asked):
        return "checked-out", f"No message is ready; {state.checkouts.described(asked)}"
    if state.admission.disk_wait_list.is_tight:
        return "disk-tight", (
            f"It is empty, and the disk is nearly full: producers wait until there is room.{_most_stored(state)}"
        )
    if state.admission.memory_wait_list.is_tight:
        return "memory-tight", f"It is empty, and {_of_memory(state)}"
    share = state.cluster.shares.here(asked) if state.cluster is not None else None
    if share is None:
        return "empty", f"It is empty: {_done_with(asked)}."
    givers = sorted((name, giver.ready) for name, giver in share.neighbours.all.items() if giver.ready)
    others = "No linked node says that it has some."
    if givers:
        offers = ", ".join(f"{count_text(ready, 'message')} at {name}" for name, ready in givers)
        others = f"Linked nodes say that they have some: {offers}."
    return "empty", f"It is empty here: {_done_with(asked)}. {others} `radiator why` at each node says what it has."


def _done_with(asked: Queue) -> str:
    """Returns what has become of all that came."""
    ledger = asked.ledger
    if not ledger.accepted:
        return "nothing has come to it yet"
    ways = {
        "acked or handed over": ledger.acked,
        "expired": ledger.expired,
        "dropped": ledger.dropped,
        "purged or moved": ledger.purged,
        "made dead letters": ledger.dead_lettered,
    }
    text = ", ".join(f"{count} {'was' if count == 1 else 'were'} {way}" for way, count in ways.items() if count)
    return f"of {count_text(ledger.accepted, 'message')} that came here, {text}"


def _of_shared(share: Share, ready: str) -> tuple[str, str]:
    """Judges a queue of scope cluster in which messages are ready, and which nobody is subscribed to here."""
    linked = [name for name, peer in share.around.peers.items() if peer.is_welcome]
    if not linked:
        return "no-consumer", f"{ready}, nobody is subscribed here, and no other node is linked."
    if not any(taker.path for taker in share.neighbours.all.values()):
        return "no-consumer", (
            f"{ready}, nobody is subscribed here, and none of the linked nodes ({', '.join(sorted(linked))}) has "
            "asked for messages."
        )
    if share.queue.ready_count <= share.queue.aside_count:
        return "set-aside", (
            f"{ready}, nobody is subscribed here, and no link can carry what is ready to another node: the log says "
            "why (`message_set_aside`). Only a consumer here can get it."
        )
    if share.staying:
        return "resting", (
            f"{ready}, and nobody is subscribed here; {share.staying} of the first have crossed {PATH_HOPS_MAX} links, "
            f"and move on only to nodes that have been asking for {STARVING_S:g} s; {_askers(share)}."
        )
    return "asked-elsewhere", (
        f"{ready}, and nobody is subscribed here; {_askers(share)}. `radiator why` there says more."
    )


def _askers(share: Share) -> str:
    """Returns which nodes wait for messages of it now, or, if none does, which have asked since they were linked."""
    takers = sorted(name for name, taker in share.neighbours.all.items() if taker.credit > 0)
    if takers:
        return f"node {', '.join(takers)} waits for messages"
    askers = sorted(name for name, taker in share.neighbours.all.items() if taker.path)
    return f"node {', '.join(askers)} asked for messages, and takes none now: its consumers have no room, or have left"


# ---- a log ----------------------------------------------------------------------------------------------------------


def log(request: Request[WhyPort], command: ExplainLog) -> None:
    """Explains a log."""
    asked = existing_log(request, command.log)

    def explained() -> Iterator[LogExplained | PauseRow]:
        unread: dict[str, int] = {}
        for name in in_order(asked.groups, limit=WHY_CONSUMERS):
            group = None if name is PAUSE else asked.groups.get(name)
            if group is not None and name is not PAUSE:
                unread[name] = unread_of(asked, group)
            if name is PAUSE or len(asked.partitions) >= MANY_PARTITIONS:
                yield PAUSE
        readers: set[LogConsumer] = set()
        for found in readers_in(asked):
            if found is PAUSE:
                yield PAUSE
            else:
                readers = found
        crowd = Crowd()
        yield from crowd.look([one.subscription for one in readers])
        verdict, sentence = of_log(asked, crowd, unread)
        yield LogExplained(
            verdict=verdict,
            sentence=sentence,
            records=asked.records,
            readers=len(readers),
            groups=len(asked.groups),
            unread=unread,
            pressure=_pressure(request.parts),
            consumer_list=listed(one.subscription for one in readers),
        )

    request.answer_in_slices(explained)


def of_log(asked: Log, crowd: Crowd, unread: dict[str, int]) -> tuple[str, str]:
    """Returns the verdict and its sentence."""
    records = count_text(asked.records, "record")
    most = max(unread, key=lambda name: unread[name], default=None)
    behind = (
        f" Group {most!r:.80} is {count_text(unread[most], 'record')} behind."
        if most is not None and unread[most]
        else ""
    )
    if not asked.records:
        return "empty", "It has no record."
    at, worst = crowd.at, crowd.worst
    if not at:
        return "no-consumer", f"It has {records}, and nobody reads it.{behind}"
    if most is not None and not behind and len(unread) == len(asked.groups) and len(asked.groups) >= at.total():
        return "done", f"It has {records}, and its groups have acked them all."
    if CAN_TAKE in at:
        return "moving", f"It has {records}, and a reader has room: nothing holds it up here.{behind}"
    if worst is not None:
        return "window", (
            f"It has {records}, but no reader has room in its window ({count_text(at.total(), 'reader')}): connection "
            f"{worst.connection.number} has {unacked_of(worst)} unacked, of {window_of(worst)}.{behind}"
        )
    return "outbox-full", (
        f"It has {records}, but the readers do not read what they were already sent "
        f"({count_text(at.total(), 'reader')}).{behind}"
    )


def _pressure(state: WhyPort) -> Pressure:
    """Returns how many producers wait for the disk and for memory, which all queues share."""
    admission = state.admission
    return Pressure(
        blocked_by_disk=len(admission.disk_wait_list.waiters),
        blocked_by_memory=len(admission.memory_wait_list.waiters),
        is_disk_tight=admission.disk_wait_list.is_tight,
        is_memory_tight=admission.memory_wait_list.is_tight,
        memory_holders=holders(state.memory),
    )
