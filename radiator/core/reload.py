"""Reloads config.toml: the running broker becomes what a start with that file would make of it.

First all that exists is compared with the file, a slice a turn; what a start would refuse is refused here. Then either
nothing changes, or everything does in one turn, except that new destinations and bindings are made, and bindings that
are gone removed, in slices after it. No message is lost: what is above a lowered bound stays until it is consumed.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Any

from radiator.core.connections import Subscription, TopicSubscription
from radiator.core.parts import Parts
from radiator.core.ports import Requester
from radiator.core.queues.queue import Queue
from radiator.core.queues.target import Target
from radiator.core.routing.destinations import by_queue
from radiator.core.routing.exchange import ties_of
from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.model.answers import ConfigurationReloaded
from radiator.model.audit import DONE, REFUSED
from radiator.model.checks import shown
from radiator.model.commands import Reread
from radiator.model.errors import Refusal, StoreError
from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.limits import (
    BATCH_BYTES,
    JUDGED_LOOKS,
    MISTAKES_SHOWN,
    REFUSED_LOOKS,
    RELOAD_AT_ONCE,
    RELOAD_LOOKS,
    Limits,
)
from radiator.model.numbers import Rows
from radiator.model.replies import Scope
from radiator.model.settings import Binding, Config, Declarations, QueueSettings
from radiator.model.validation import LOG_PREFIX, as_json, check_dead_letter

_CODE = "configuration"
_FIXED = ("persistent", "scope", "partition_key", "max_priority")  # what no queue changes while the broker runs
_fixed = attrgetter(*_FIXED)


class Reload:
    """One reload, from the request or signal to its end. A background task, from `read` on.

    asker: None for a signal. ended: called at the end. is_trial: it only reports what would change.
    """

    __slots__ = ("asker", "ended", "is_done", "is_trial", "parts", "steps", "users_changed")

    def __init__(
        self, parts: Parts, ended: Callable[[], None], asker: Requester | None = None, is_trial: bool = False
    ) -> None:
        self.parts = parts
        self.ended = ended
        self.asker = asker
        self.is_trial = is_trial
        self.is_done = False
        self.users_changed = False
        self.steps: Iterator[int] = iter(())

    def read(self, read: Reread) -> None:
        """Called when the file has been read, and judged by itself."""
        if read.config is None:
            self.refuse(read.mistakes)
        else:
            self.steps = self.go(read, read.config)
            self.parts.background.append(self)

    @property
    def can_go_on(self) -> bool:
        return not self.is_done and self.parts.context.open.size < BATCH_BYTES

    def step(self) -> None:
        left = RELOAD_LOOKS
        for cost in self.steps:
            left -= cost
            if left <= 0 or self.parts.context.open.size >= BATCH_BYTES:
                return

    def go(self, read: Reread, config: Config) -> Iterator[int]:
        """Yields what each step costs; 1: about a microsecond."""
        judge = _Judge(self.parts, config)
        yield from judge.all()
        if not judge.mistakes and not self.is_trial:
            judge.those_made_since()
        if judge.mistakes:
            self.refuse(judge.mistakes)
        elif self.is_trial:
            self.end()
            self.answer(read, is_applied=False)
        else:
            self.apply(config, judge)
            if self.users_changed:
                yield from self.judge_connections()
            yield RELOAD_LOOKS
            yield from self.make(config.declarations, judge)
            self.end()
            self.note_applied(read)
            self.answer(read, is_applied=True)

    # ---- all at once ------------------------------------------------------------------------------------------------

    def apply(self, config: Config, judge: "_Judge") -> None:
        """Puts in force what was read, for all that exists."""
        parts, destinations, new = self.parts, self.parts.destinations, config.declarations
        old = destinations.declarations
        for kind in parts.kinds.values():
            kind.use(old, new)
        self.use_limits(config.limits, config.disk_free_min)
        destinations.declared_bindings = by_queue(judge.kept)
        # other parts hold this object, so it is changed in place
        for field in fields(Declarations):
            setattr(old, field.name, getattr(new, field.name))
        self.use_next(judge, RELOAD_AT_ONCE)
        for outbox in destinations.queues.outboxes.values():
            outbox.settings.dedup_window_s = judge.outbox_window_s
        self.users_changed = parts.authorization.use(config.users)
        parts.context.turn.applied = True

    def use_limits(self, limits: Limits, disk_free_min: int) -> None:
        """Puts these limits in force, for all parts that hold `limits`."""
        parts = self.parts
        for one in fields(Limits):
            setattr(parts.limits, one.name, getattr(limits, one.name))
        parts.memory.bound(limits)
        windows, readers = parts.destinations.windows, parts.destinations.readers
        windows.bound(limits.max_memory_bytes)
        readers.out_max = windows.out_max
        parts.disk.free_min = disk_free_min
        parts.disk.judge()

    def use_next(self, judge: "_Judge", count: int) -> None:
        """Gives the next `count` queues their new settings."""
        for _ in range(min(count, len(judge.settings))):
            queue, settings = judge.settings.popitem()
            if not queue.is_gone:
                self.parts.destinations.queues.use(queue, settings)
                if self.parts.cluster is not None:
                    self.parts.cluster.agreement.changed(queue)

    # ---- in slices, behind that -------------------------------------------------------------------------------------

    def judge_connections(self) -> Iterator[int]:
        """Ends what no right allows any more: connections whose user is gone, and subscriptions. Commands are judged
        again as they are carried out, also those that have waited, and those in an open transaction.
        """
        parts, authorization = self.parts, self.parts.authorization
        for connection in [*parts.connections.values()]:
            yield JUDGED_LOOKS
            if connection.is_closing:
                continue
            try:
                authorization.check_present(connection)
                parts.clients.ends_at(connection.number, authorization.check_login(connection))
            except Refusal as refusal:
                connection.refuse_on(parts.context, refusal)
                yield REFUSED_LOOKS
                continue
            subscriptions: list[Subscription | TopicSubscription] = [
                *connection.queue_subscriptions.values(),
                *connection.topic_subscriptions.values(),
            ]
            for subscription in subscriptions:
                yield JUDGED_LOOKS
                if connection.is_closing:
                    break
                try:
                    authorization.check_subscription(connection, subscription)
                except Refusal as refusal:
                    parts.subscriptions.end(connection, subscription.name)
                    connection.refuse_on(parts.context, refusal, scope=Scope.CHANNEL)
                    yield REFUSED_LOOKS
        yield from parts.leases.judge()
        yield from parts.repetitions.judge()

    def make(self, new: Declarations, judge: "_Judge") -> Iterator[int]:
        """Removes the bindings that are no longer declared, and makes what is new."""
        destinations, exchanges = self.parts.destinations, self.parts.destinations.exchanges
        for queue in [*destinations.queues.all.values()]:
            queue.is_declared = queue.name in new.queues
            yield 1
        while judge.settings:
            self.use_next(judge, 1)
            yield _USED
        for binding in judge.unbound:
            target = _there(self.parts, binding.queue)
            if binding.queue.startswith(EXCHANGE_PREFIX):
                to = binding.queue.removeprefix(EXCHANGE_PREFIX)
                exchanges.undeclare_lead(binding.exchange, binding.key, to)
            elif target is not None and binding.exchange in exchanges.all:
                exchanges.undeclare_binding(binding.exchange, binding.key, target)
            yield _BINDING
        while exchanges.undeclared:
            exchange = exchanges.undeclared[0]
            for tie in [*ties_of(exchange)]:
                exchanges.untie(tie)
                yield _BINDING
            del exchanges.all[exchange.name], exchanges.undeclared[0]
        for name in (*(LOG_PREFIX + log for log in new.logs), *new.queues):
            yield 1 if _there(self.parts, name) is not None else _MADE
            destinations.make_declared(name)
        for binding in judge.bound:
            destinations.make_declared(binding.queue)
            destinations.bind_as_declared(binding)
            yield _BINDING
        destinations.declared_bindings = judge.bindings

    # ---- what is said of it -----------------------------------------------------------------------------------------

    def end(self) -> None:
        self.is_done = True
        self.ended()
        self.parts.context.turn.reread_over = True

    def refuse(self, mistakes: list[str]) -> None:
        """Refuses the reload: nothing has changed."""
        self.end()
        more = len(mistakes) - MISTAKES_SHOWN
        sentences = [*mistakes[:MISTAKES_SHOWN], *([f"And {more} more."] if more > 0 else [])]
        if self.asker is not None:
            self.asker.refuse(Refusal(_CODE, "\n".join(sentences)))
        else:
            self.parts.audit.reloaded(REFUSED)
        if not self.is_trial:
            for sentence in sentences:
                self.parts.context.note("warning", "reload_refused", sentence=sentence)

    def answer(self, read: Reread, is_applied: bool) -> None:
        asker = self.asker
        if asker is None:
            self.parts.audit.reloaded(DONE)
        else:
            asker.answer_synced(
                lambda: ConfigurationReloaded(is_applied, Rows(iter(read.changes)), [*read.useless, *read.warnings]),
                in_slices=True,
            )

    def note_applied(self, read: Reread) -> None:
        """Logs each setting that has changed, and how many there are."""
        context = self.parts.context
        for change in read.changes:
            context.note("info", "setting_changed", **{key: _text(value) for key, value in change.items()})
        for sentence in read.useless:
            context.note("warning", "no_effect", sentence=sentence)
        waiting = sum(change["takes_effect"] != "now" for change in read.changes)
        context.note("info", "reloaded", changed=len(read.changes) - waiting, wait_for_restart=waiting)


class Reloading:
    """At most one reload at a time."""

    __slots__ = ("current", "parts")

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.current: Reload | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether a reload was asked for and is not over."""
        return self.current is not None

    def begin(self, asker: Requester, is_trial: bool) -> None:
        """Has the file read. is_trial: only reports what would change."""
        self.current = Reload(self.parts, self.ended, asker, is_trial)
        self.parts.context.turn.reread = True

    def read(self, read: Reread) -> None:
        """Called when the file has been read: for the request that asked for it, or else for a signal."""
        if self.current is None:
            self.current = Reload(self.parts, self.ended)
        self.current.read(read)

    def ended(self) -> None:
        """Called when the reload is over: another may be asked for."""
        self.current = None


_QUEUE, _USED, _BINDING, _MADE = 5, 3, 8, 40  # what it costs to look at one, change one, bind or unbind one, make one


class _Judge:
    """The changes that a configuration would make. mistakes: what a start with it would refuse, and what a running
    broker cannot change. settings: the new ones of each queue whose settings change. bindings: all of config.toml, by
    queue. bound: those that are new; unbound: those that are gone; kept: those that stay.
    """

    def __init__(self, parts: Parts, config: Config) -> None:
        self.parts = parts
        self.new = config.declarations
        self.users = config.users
        self.mistakes: list[str] = []
        self.seen: set[Queue] = set()
        self.settings: dict[Queue, QueueSettings] = {}
        self.bindings = by_queue(())
        self.bound: list[Binding] = []
        self.unbound: list[Binding] = []
        self.kept: list[Binding] = []
        self.outbox_window_s = 0.0

    def all(self) -> Iterator[int]:
        destinations, old = self.parts.destinations, self.parts.destinations.declarations
        for queue in destinations.queues.everything():
            self.queue(queue)
            yield _QUEUE + len(self.new.queue_patterns)
        for queue in [*self.seen]:
            self.dead_letter(queue)
            yield 2
        self.others()
        yield 1
        before, after = dict.fromkeys(old.bindings), dict.fromkeys(self.new.bindings)
        self.bindings = by_queue(after)
        for binding in after:
            (self.kept if binding in before else self.bound).append(binding)
            yield 1
        for binding in before:
            if binding not in after:
                self.unbound.append(binding)
            yield 1

    def those_made_since(self) -> None:
        """Judges the queues that were made since `all` looked at them."""
        for queue in self.parts.destinations.queues.everything():
            if queue not in self.seen:
                self.queue(queue)
                self.dead_letter(queue)
        self.others()

    def queue(self, queue: Queue) -> None:
        self.seen.add(queue)
        if queue.is_gone:
            return
        try:
            settings = self.parts.destinations.queues.settings_by(queue, self.new)
        except StoreError as unfit:
            self.mistakes.append(str(unfit))
            return
        if queue.name.startswith(OUTBOX_PREFIX):
            self.outbox_window_s = settings.dedup_window_s
        elif _fixed(settings) == _fixed(queue.settings):
            if settings != queue.settings:
                self.settings[queue] = settings
        elif queue.is_persistent or queue.name in self.new.queues:
            here, there = as_json(queue.settings), as_json(settings)
            key = next(key for key in _FIXED if here[key] != there[key])
            has, would_have = ("none" if one[key] is None else shown(one[key]) for one in (here, there))
            self.mistakes.append(
                f"{queue.address} has {key} = {has}, and would have {would_have}: that needs a restart. "
                "Leave it as it is until then, or delete the queue first."
            )
        # a memory queue that is no longer declared stays as it is until it ends, as it would at a restart

    def dead_letter(self, queue: Queue) -> None:
        """Checks a queue's dead-letter settings: other queues may be declared otherwise now, and some wait for a
        restart.
        """
        settings = self.settings.get(queue, queue.settings)
        if settings.dead_letter is None or queue.is_gone:
            return
        try:
            check_dead_letter(queue.name, settings, self.settings_of)
        except Refusal as refusal:
            self.mistakes.append(f"Of {queue.address}: {refusal}")

    def settings_of(self, name: str) -> QueueSettings:
        found = self.parts.destinations.queues.find(name)
        return self.new.queue_settings(name) if found is None else self.settings.get(found, found.settings)

    def others(self) -> None:
        if self.parts.authorization.users and not self.users:
            self.mistakes.append(
                "The file has no user, and the running broker has some: from then on everybody could do everything. "
                "That needs a restart."
            )
        # in the order of a start
        for kind in reversed([*self.parts.kinds.values()]):
            self.mistakes.extend(kind.contradictions(self.new))


def _there(parts: Parts, name: str) -> Target | None:
    """Returns the queue of that name, or the log of `/log/NAME`, if there is one."""
    if name.startswith(LOG_PREFIX):
        return parts.destinations.logs.all.get(name.removeprefix(LOG_PREFIX))
    return parts.destinations.queues.all.get(name)


def _text(value: Any) -> str:
    """Returns a value about as config.toml has it."""
    return str(value).lower() if isinstance(value, bool) else "none" if value is None else str(value)
