"""Requests for what needs attention: a look at everything, shared by all who ask, and the part that the asker may see.

docs/OPERATING.md has the table of what does, with the reasons.
"""

from collections.abc import Iterator
from heapq import merge
from typing import Protocol

from radiator.core.admin.readiness import ReadinessPort, reasons_of
from radiator.core.admin.why import WhyPort, is_full, judged, judging_looks
from radiator.core.answers import AwaitedRow
from radiator.core.authorization import Authorization
from radiator.core.cluster.peer import UP
from radiator.core.dead_letters import TARGETS_MAX
from radiator.core.kinds.log import unread_of
from radiator.core.overview.attention import (
    BLOCKED,
    CERTIFICATE,
    DAMAGED,
    DEAD_LETTERS,
    DOES_NOT_ADD_UP,
    FULL,
    GROUP_STILL,
    NEEDS,
    NO_CONSUMER,
    NOT_LINKED,
    RANKS,
    STILL_S,
    UNACKED,
    Seen,
)
from radiator.core.overview.looks import Pace
from radiator.core.overview.overview import Overview
from radiator.core.queues.queue import Queue
from radiator.core.request import Request
from radiator.core.routing.admission import Admission
from radiator.core.sight import Sight
from radiator.model.addresses import LOG, QUEUE
from radiator.model.errors import count_text
from radiator.model.limits import ATTENTION_EVERY_S, ATTENTION_GROUPS_MAX, ATTENTION_ITEMS
from radiator.model.numbers import PAUSE, PauseRow, Rows
from radiator.model.overview import Attention, NeedsAttention, ReadAttention
from radiator.model.settings import DROP_OLDEST

REST_S = 0.004  # delays the next look by that for each verdict that the last has taken, of some 15 µs
CERTIFICATE_S = 30 * 86_400  # a certificate that ends within this time needs attention
BROKER, PEER = "broker", "peer"
_REASONS = ("disk", "memory", "store", "draining")  # the other reasons of readiness have items of their own


class AttentionPort(WhyPort, ReadinessPort, Protocol):
    """The parts of the broker that are looked at."""

    @property
    def admission(self) -> Admission: ...

    @property
    def authorization(self) -> Authorization: ...

    @property
    def overview(self) -> Overview: ...


def attention(request: Request[AttentionPort], command: ReadAttention) -> None:
    """Answers with the worst that the last look has seen, as far as the asker may see it."""
    parts = request.parts

    def answered() -> Iterator[Attention | AwaitedRow]:
        for seen in ask(parts):
            if isinstance(seen, AwaitedRow):
                yield seen
                continue
            sight = Sight(parts.authorization, request.connection)
            age_ms = round(parts.overview.attention.age_s() * 1000)
            counts = dict(seen.counts) if sight.is_everything else None
            yield Attention(Rows(_items(parts, seen, sight)), counts, age_ms)

    request.answer_in_slices(answered)


def ask(parts: AttentionPort) -> Iterator[Seen | AwaitedRow]:
    """Yields what was seen last, perhaps after a wait. The more there was to judge, the later the next look: 10,000
    queues that need attention are looked at every 45 s.
    """
    last = parts.overview.attention
    again_s = ATTENTION_EVERY_S + (last.found.judged * REST_S if last.found is not None else 0.0)
    yield from last.ask(lambda: look(parts), again_s, again_s + ATTENTION_EVERY_S)


def _items(parts: AttentionPort, seen: Seen, sight: Sight) -> Iterator[NeedsAttention | PauseRow]:
    """Yields the first that the asker may see."""
    left, pace = ATTENTION_ITEMS, Pace()
    of_queues = ((RANKS[verdict], NeedsAttention(QUEUE, name, verdict, "")) for name, verdict in seen.queues.items())
    others = ((RANKS[item.verdict], item) for item in seen.others)
    for _, item in merge(others, of_queues, key=lambda one: one[0]):
        if pace.is_over(2):
            yield PAUSE
        if not sight.is_everything and not sight.of(item.kind, item.name):
            continue
        if not item.sentence:  # of a queue
            if item.name not in seen.sentences:
                yield from _find_sentence(parts, seen, item.name)
            item.sentence = seen.sentences.get(item.name, "")
        if item.sentence:
            yield item
            left -= 1
        if not left:
            return


# ---- a look ---------------------------------------------------------------------------------------------------------


def look(parts: AttentionPort) -> Iterator[Seen | PauseRow]:
    """Looks at everything. Yields PAUSEs, then what was seen."""
    seen = Seen()
    seen.others += _of_broker(parts)
    yield from _look_at_logs(parts, seen)
    seen.others.sort(key=lambda item: RANKS[item.verdict])
    yield from _look_at_queues(parts, seen)
    for name in [*seen.queues][:ATTENTION_ITEMS]:
        yield from _find_sentence(parts, seen, name)
    seen.counts.update(item.verdict for item in seen.others)
    yield seen


def _of_broker(parts: AttentionPort) -> Iterator[NeedsAttention]:
    """Yields what needs attention of the broker as a whole, its certificates, and the other nodes."""
    for reason in reasons_of(parts):
        if reason.reason in _REASONS:
            yield NeedsAttention(BROKER, reason.reason, reason.reason, reason.sentence)
    waiting = len(parts.blocking.connections)
    if waiting:
        many = count_text(waiting, "connection waits", "connections wait")
        yield NeedsAttention(BROKER, "connections", BLOCKED, f"{many} for room, and nothing more is read from them.")
    for address, left_s in sorted(parts.certificates_left_s.items()):
        if left_s < CERTIFICATE_S:
            of = f"of {address}" if address else "of [tls]"
            when = f"{left_s // 86_400} days" if left_s >= 2 * 86_400 else f"{left_s // 3600} hours"
            what = f"expires in {when}" if left_s >= 0 else "has expired: clients refuse it"
            text = f"The certificate {of} {what}. Renew it."
            yield NeedsAttention(CERTIFICATE, address or "[tls]", CERTIFICATE, text)
    cluster = parts.cluster
    for name in sorted(cluster.node.peers) if cluster is not None and cluster.node is not None else ():
        assert cluster is not None
        peer = cluster.peers[name]
        if peer.state != UP:
            because = f": {peer.cause}" if peer.cause else "."
            yield NeedsAttention(PEER, name, NOT_LINKED, f"The node {name} is not linked ({peer.state}){because}")


def _look_at_logs(parts: AttentionPort, seen: Seen) -> Iterator[PauseRow]:
    """Looks at the logs, and at the groups of those of clients. standing: where each group that is behind was seen
    first, and when.
    """
    pace, now_s = Pace(), parts.context.now_s
    before = parts.overview.standing
    standing: dict[tuple[str, str], tuple[int, float]] = {}
    for log in [*parts.destinations.logs.all.values()]:
        name = log.bare_name
        if log.damaged:
            many = count_text(log.damaged, "record")
            text = f"{many} cannot be read: `radiator check` says why."
            seen.others.append(NeedsAttention(LOG, name, DAMAGED, text))
        if log.is_reserved or log.is_gone:
            continue
        still: list[tuple[int, str, float]] = []
        for group in [*log.groups.values()]:
            if pace.is_over(len(log.partitions)):
                yield PAUSE
            unread = unread_of(log, group)
            if unread and len(standing) < ATTENTION_GROUPS_MAX:
                at = sum(group.positions)
                known = before.get((name, group.name))
                since = known if known is not None and known[0] == at else (at, now_s)
                standing[name, group.name] = since
                if now_s - since[1] >= STILL_S:
                    still.append((unread, group.name, now_s - since[1]))
        if still:
            seen.others.append(NeedsAttention(LOG, name, GROUP_STILL, _of_groups(still)))
        if pace.is_over():
            yield PAUSE
    parts.overview.standing = standing


def _of_groups(still: list[tuple[int, str, float]]) -> str:
    """Returns a sentence about the groups of a log that are behind and do not move: it names the one furthest
    behind.
    """
    unread, group, for_s = max(still)
    others = f" The same is true of {count_text(len(still) - 1, 'other group')}." if len(still) > 1 else ""
    lag = count_text(unread, "record")
    return f"Group {group!r:.80} is {lag} behind, and has acked nothing for {for_s:.0f} s.{others}"


def _look_at_queues(parts: AttentionPort, seen: Seen) -> Iterator[PauseRow]:
    """Looks at all queues, and puts those that need attention in order."""
    pace, queues = Pace(), parts.destinations.queues.everything()
    dead: set[str] = set()
    for queue in queues:
        if queue.settings.dead_letter is not None:
            dead.add(queue.settings.dead_letter)
        elif queue.settings.dead_letter_exchange is not None and pace.is_over(_add_dead(parts, queue, dead)):
            yield PAUSE
        if pace.is_over():
            yield PAUSE
    found: list[tuple[int, int, str, str]] = []
    for queue in queues:
        if pace.is_over(4):
            yield PAUSE
        if queue.is_gone or not (queue.ledger.stored or queue.waiters or queue.damaged or _is_wrong(queue)):
            continue
        verdict = _plain(queue, queue.name in dead)
        if not verdict and not queue.ledger.stored:
            continue
        if not verdict:
            seen.judged += 1
            if pace.is_over(judging_looks(queue)):
                yield PAUSE
            for one in judged(parts, queue):
                if one is PAUSE:
                    yield PAUSE
                else:
                    verdict = one[0]
        if _needs(parts, queue, verdict):
            found.append((RANKS[verdict], -queue.ledger.stored, queue.name, verdict))
    for begin in range(0, len(found), _SORTED_AT_ONCE):
        found[begin : begin + _SORTED_AT_ONCE] = sorted(found[begin : begin + _SORTED_AT_ONCE])
        yield PAUSE
    runs = [found[begin : begin + _SORTED_AT_ONCE] for begin in range(0, len(found), _SORTED_AT_ONCE)]
    for _, _, name, verdict in merge(*runs):
        seen.queues[name] = verdict
        seen.counts[verdict] += 1
        if pace.is_over(3):
            yield PAUSE


def _add_dead(parts: AttentionPort, queue: Queue, dead: set[str]) -> int:
    """Adds the queues in which the dead letters of this one end, which it gives to an exchange. A queue that passes
    them on, to be tried again, is not one of these. Returns how much that looks at.
    """
    exchange, key = queue.settings.dead_letter_exchange or "", queue.settings.dead_letter_key
    targets, cost = ([], 0) if key is None else parts.destinations.dead_letter_targets(exchange, key)
    dead.update(one.name for one in targets[:TARGETS_MAX] if not one.settings.has_dead_letters)
    return 4 + len(targets) + cost


_SORTED_AT_ONCE = 500


def _is_wrong(queue: Queue) -> bool:
    return not queue.ledger.adds_up()


def _plain(queue: Queue, is_dead: bool) -> str:
    """Returns the verdict that needs attention whatever its consumers do; "": there is none."""
    if _is_wrong(queue):
        return DOES_NOT_ADD_UP
    if queue.damaged:
        return DAMAGED
    if queue.waiters or (queue.settings.overflow != DROP_OLDEST and is_full(queue)):
        return FULL
    return DEAD_LETTERS if is_dead and queue.ledger.stored else ""


def _needs(parts: AttentionPort, queue: Queue, verdict: str) -> bool:
    """Whether a queue with that verdict needs attention."""
    after_s = NEEDS.get(verdict)
    if after_s is None or (verdict == UNACKED and queue.timeouts is not None):
        return False
    if verdict == NO_CONSUMER and not queue.ledger.acked:
        return True  # nobody has ever taken anything from it
    return not after_s or parts.overview.history.counters.still_for_s(queue, parts.context.now_s) >= after_s


def _find_sentence(parts: AttentionPort, seen: Seen, name: str) -> Iterator[PauseRow]:
    """Finds the sentence about a queue that was seen, as it stands now; none if it is gone."""
    queue, verdict = parts.destinations.queues.find(name), seen.queues[name]
    if queue is None:
        return
    sentence = _plain_sentence(queue, verdict)
    if not sentence:
        for one in judged(parts, queue):
            if one is PAUSE:
                yield PAUSE
            else:
                sentence = one[1]
    seen.sentences[name] = sentence


def _plain_sentence(queue: Queue, verdict: str) -> str:
    """Returns the sentence of a verdict that `why` does not have."""
    if verdict == DOES_NOT_ADD_UP:
        return "Its ledger does not add up: that is a bug in Radiator, or damage. `radiator check` says more."
    if verdict == DAMAGED:
        return f"{count_text(queue.damaged, 'message')} cannot be read: `radiator check` says why."
    if verdict == DEAD_LETTERS:
        many = count_text(queue.ledger.stored, "dead letter of another queue is", "dead letters of other queues are")
        shows, returns = f"`radiator peek {queue.name}` shows why", f"`radiator return {queue.name}` sends them back"
        return f"{many} here: {shows}, and {returns}."
    return ""
