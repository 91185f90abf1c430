"""The rights of users: the one table of what each command needs, and the Authorizer that judges by it.

A right is judged on the address that a command names, never on where that leads: what leads on (a binding, a
dead-letter queue, the children of a fanout) is judged by the command that declares it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

from radiator.core.routing.queue_settings import OUTBOX_PREFIX
from radiator.core.routing.trie import Trie
from radiator.model import administration as asked
from radiator.model import commands, overview
from radiator.model.addresses import ADDRESS_MAX_BYTES, EXCHANGE, KINDS, LOG, QUEUE, split
from radiator.model.addresses import ADMIN as ADMIN_ADDRESS
from radiator.model.administration import AdminCommand
from radiator.model.commands import Command, Send
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.getting import FindAsker, Get, SetWindow
from radiator.model.grounds import NoRight
from radiator.model.leases import Receive, Settle
from radiator.model.limits import PREFIX_MIN_BYTES, VERDICTS_KEPT
from radiator.model.more_keys import addresses_of
from radiator.model.principal import Principal, RecognisedBy, unix_principal
from radiator.model.rights import (
    ADMIN,
    APP,
    DECLARE,
    EVERYTHING,
    FREE,
    OPERATOR,
    READ,
    RIGHTS,
    SEE,
    WRITE,
    Rules,
    as_words,
    canonical,
    pattern_words,
    rule_contains,
)
from radiator.model.settings import AUDIT, JOURNAL
from radiator.model.users import User
from radiator.model.validation import FANOUT, LOG_PREFIX, mistake
from radiator.model.validation import QUEUE as QUEUE_CHECKS

ANONYMOUS = "anonymous"  # the user of clients without any proof, where there is one
ANYWHERE = ""
OWN_LOGS = (f"/{LOG}/{AUDIT}", f"/{LOG}/{JOURNAL}")  # about everything: of rules with wildcards only /# grants them
_NOTHING, _PASSWORD, _TOKEN = RecognisedBy.NOTHING, RecognisedBy.PASSWORD, RecognisedBy.TOKEN
_CERTIFICATE, _JWT = RecognisedBy.CERTIFICATE, RecognisedBy.JWT


class Need(NamedTuple):
    """A right on an address. is_pattern: on all that the address matches, by one rule. ANYWHERE: on any address."""

    right: str
    address: str
    is_pattern: bool = False


Needs = tuple[Need, ...]

_LEADING = {kind.leads_by for kind in KINDS.values()}
LEADS_BY = {key: check for checks in (QUEUE_CHECKS, FANOUT) for key, check in checks.items() if key in _LEADING}
"""For each setting that leads to queues and logs, the function that reads their names from its value."""


@dataclass(frozen=True, slots=True)
class Row:
    """The rights that one type of command needs. named: as clients write it; says: the needs in words, as
    docs/SECURITY.md has them. needs: returns those of one command; None: it needs nothing.
    """

    command: type
    named: str
    says: str
    needs: Callable[[Any], Needs] | None = None


# ---- what commands need ---------------------------------------------------------------------------------------------


def _of_client(right: str, address: str, is_pattern: bool = False) -> Needs:
    """Returns the needs of an address as a client wrote it. Raises Refusal for one of no known kind."""
    kind, _ = split(address)
    if kind in FREE or address == ADMIN_ADDRESS:
        return ()
    return (Need(right, canonical(address), is_pattern and kind in KINDS and KINDS[kind].has_patterns),)


def _of_sends(sends: Iterable[Send]) -> Needs:
    """`write` on every address that their keys make."""
    addresses = dict.fromkeys(address for send in sends for address in addresses_of(send))
    return tuple(need for address in addresses for need in _of_client(WRITE, address))


def _of(right: str, kind: str, name: str) -> Needs:
    """Returns the right on what has that name; on all its keys, if its kind has keys."""
    if name.startswith(OUTBOX_PREFIX):
        # copies for another node, of messages that no rule for queues is about
        return _everywhere(SEE if right == SEE else ADMIN)
    address, has_key = f"/{kind}/{name}", KINDS[kind].has_key
    return (Need(right, address if has_key else canonical(address), has_key),)


def _everywhere(right: str, kind: str = "") -> Needs:
    """Returns the right on all addresses of that kind, or on all."""
    return (Need(right, f"/{kind}/#" if kind else EVERYTHING, True),)


def _target(right: str, name: str) -> Need:
    """Returns the right on a queue by its name, on `/log/NAME`, or on `/exchange/NAME` with all its keys."""
    if name.startswith(EXCHANGE_PREFIX):
        return Need(right, name, True)
    if name.startswith(OUTBOX_PREFIX):
        return Need(ADMIN, EVERYTHING, True)
    return Need(right, canonical(name if name.startswith(LOG_PREFIX) else f"/{QUEUE}/{name}"))


def _write_anywhere(command: object) -> Needs:
    return (Need(WRITE, ANYWHERE),)


def _see_anywhere(command: object) -> Needs:
    return (Need(SEE, ANYWHERE),)


def _of_app(app: str) -> Needs:
    return (Need(WRITE, f"/{APP}/{app}"),)


def _of_journal(command: object) -> Needs:
    return _of(READ, LOG, JOURNAL)


def _of_section(command: asked.ReadSection) -> Needs:
    kind = next((name for name, kind in KINDS.items() if kind.section == command.section), "")
    return _everywhere(SEE, kind)


def _of_declare(command: asked.DeclareDestination) -> Needs:
    key = KINDS[command.kind].leads_by
    given = command.settings.get(key) if key else None
    try:
        names = () if given is None else LEADS_BY[key](given)
    except ValueError as error:
        raise mistake(key, str(error)) from None
    leads_to = (names,) if isinstance(names, str) else names
    right = SEE if command.passive else DECLARE
    needs = (*_of(right, command.kind, command.name), *(_target(WRITE, name) for name in leads_to))
    if key == "dead_letter":
        needs += _of_dead_letters(command.settings)
    alternate = command.settings.get("alternate")  # only exchanges have one
    if not isinstance(alternate, str):
        return needs
    return (*needs, *_of(READ, EXCHANGE, command.name), *_of(WRITE, EXCHANGE, alternate))


def _of_dead_letters(given: Mapping[str, Any]) -> Needs:
    """`write` on the exchange that gets them, with their key; without a key, with every key."""
    exchange, key = given.get("dead_letter_exchange"), given.get("dead_letter_key")
    if exchange is None:
        return ()
    try:
        name = QUEUE_CHECKS["dead_letter_exchange"](exchange)
    except ValueError as error:
        raise mistake("dead_letter_exchange", str(error)) from None
    place = f"/{EXCHANGE}/{name}" if name else f"/{QUEUE}"
    return (Need(WRITE, f"{place}/#", True),) if key is None else (Need(WRITE, f"{place}/{key}"),)


def needs_for(right: str, address: str) -> Needs:
    """Returns what the plainest command that takes that right on an address needs: for `read` a SUBSCRIBE, for `write`
    a SEND, for `declare` and `see` a request about it; for EVERYTHING, the right on everything. Raises Refusal for one
    of no known kind.
    """
    if address == EVERYTHING:
        return _everywhere(right)
    if address.startswith(f"/{APP}/"):
        return _of_app(address.removeprefix(f"/{APP}/"))
    if right in (READ, WRITE):
        return _of_client(right, address, right == READ)
    kind, name = split(canonical(address))
    if kind in FREE or address == ADMIN_ADDRESS:
        return ()
    if name == "#":
        return _everywhere(right, kind)
    return _of(right, kind, name.partition("/")[0] if KINDS[kind].has_key else name)


def _of_binding(command: asked.AddBinding | asked.RemoveBinding) -> Needs:
    # arguments in the key's place: messages of any key match them
    key = "#" if command.key.startswith("{") else command.key
    return (Need(READ, f"/{EXCHANGE}/{command.exchange}/{key}", True), _target(WRITE, command.target))


_LINKED = "nothing that a client can have: only linked nodes say it"
_SEE_SOMEWHERE = "`see` on something"
_WRITE_SOMEWHERE = "`write` on something"
_WRITE_APP = "`write` on `/app/ID`"
_READ_JOURNAL = f"`read` on `/{LOG}/{JOURNAL}`"
_ADMIN = "`admin`"

ROWS: tuple[Row, ...] = (
    Row(Send, "SEND", "`write` on the destination; with several keys on each", lambda c: _of_sends((c,))),
    Row(
        commands.PublishAll,
        "a publish over HTTP",
        "`write` on each destination",
        lambda c: _of_sends(c.sends),
    ),
    Row(
        commands.Subscribe,
        "SUBSCRIBE",
        "`read` on the destination; on a pattern by one rule that contains it",
        lambda c: _of_client(READ, c.destination, True),
    ),
    Row(Get, "`basic.get` of AMQP", "`read` on the queue", lambda c: _of_client(READ, c.destination)),
    Row(SetWindow, "`basic.qos` of AMQP", "nothing"),
    Row(FindAsker, "`queue.declare` of a key of direct reply-to", "nothing: its key cannot be guessed"),
    Row(
        commands.Unsubscribe,
        "UNSUBSCRIBE",
        "nothing; what ends a durable subscription: what its SUBSCRIBE needs",
    ),
    Row(commands.Ack, "ACK", "nothing"),
    Row(commands.Nack, "NACK", "nothing"),
    Row(commands.Begin, "BEGIN", "nothing"),
    Row(
        commands.Commit,
        "COMMIT",
        f"what its SENDs need; with `producer-id` {_WRITE_APP} too",
        lambda c: () if c.app is None else _of_app(c.app),
    ),
    Row(commands.Abort, "ABORT", "nothing"),
    Row(commands.Identify, "another login on a connection of HTTP", "nothing"),
    Row(commands.Renew, "`connection.update-secret` of AMQP", "nothing: it is a login"),
    Row(commands.Disconnect, "DISCONNECT", "nothing"),
    Row(commands.Administer, "SEND to `/admin`", "what the request in it needs"),
    Row(commands.Fail, "a broken frame", "nothing"),
    Row(commands.InvalidSend, "a SEND that is refused as it is read", "nothing"),
    Row(Receive, "`receive` over HTTP", "`read` on the queue", lambda c: _of_client(READ, c.destination)),
    Row(Settle, "`settle` over HTTP", "nothing: a lease is its user's"),
    Row(commands.Unheeded, "a header without a meaning", "nothing"),
    Row(commands.PeerMessage, "a word of a link", _LINKED, lambda c: _everywhere(ADMIN)),
    Row(asked.ReadStats, "`stats`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(
        asked.ReadSection,
        "`stats` of a section",
        "`see` on all of that kind; of `peers` and `users` on everything",
        _of_section,
    ),
    Row(asked.ReadReadiness, "`ready`", "nothing; the reasons: `see` on everything"),
    Row(asked.ReadConfiguration, "`configuration`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.ReadBounds, "`bounds`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(asked.ReadDisk, "`disk`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(asked.ReadLogLines, "`log`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.ListQueues, "`queues`", "`see` on all queues", lambda c: _everywhere(SEE, QUEUE)),
    Row(overview.ReadQueueTable, "`queue-table`", f"{_SEE_SOMEWHERE}; it has the queues that it is on", _see_anywhere),
    Row(overview.ReadHistory, "`history`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(overview.ReadQueueHistory, "`history` of a queue", "`see` on it", lambda c: _of(SEE, QUEUE, c.queue)),
    Row(
        overview.ReadAttention,
        "`attention`",
        f"{_SEE_SOMEWHERE}; it has the queues and logs that it is on, and on everything the rest, and the counts",
        _see_anywhere,
    ),
    Row(asked.ExplainQueue, "`why` of a queue", "`see` on it", lambda c: _of(SEE, QUEUE, c.queue)),
    Row(asked.ExplainLog, "`why` of a log", "`see` on it", lambda c: _of(SEE, LOG, c.log)),
    Row(asked.ExplainMessage, "`explain` of a message", _READ_JOURNAL, _of_journal),
    Row(asked.ExplainTrace, "`explain` of a trace", _READ_JOURNAL, _of_journal),
    Row(asked.ExplainCorrelation, "`explain` of a correlation-id", _READ_JOURNAL, _of_journal),
    Row(
        asked.DeclareDestination,
        "`declare`",
        "`declare` on it, `passive`: `see`; and `write` on its `dead_letter`, on its `dead_letter_exchange` with the "
        "`dead_letter_key` (without one: with every key), or on each of its `children`, or on its "
        "`alternate`, with `read` on itself then",
        _of_declare,
    ),
    Row(asked.DescribeDestination, "`describe`", "`see` on it", lambda c: _of(SEE, c.kind, c.name)),
    Row(asked.DeleteDestination, "`delete`", "`declare` on it", lambda c: _of(DECLARE, c.kind, c.name)),
    Row(asked.PurgeQueue, "`purge`", "`declare` on the queue", lambda c: _of(DECLARE, QUEUE, c.queue)),
    Row(
        asked.PeekQueue,
        "`peek`",
        "`see` and `read` on the queue",
        lambda c: _of(SEE, QUEUE, c.queue) + _of(READ, QUEUE, c.queue),
    ),
    Row(
        asked.MoveMessages,
        "`move`",
        "`read` on the queue that it takes from, `write` on the other",
        lambda c: _of(READ, QUEUE, c.source) + _of(WRITE, QUEUE, c.target),
    ),
    Row(
        asked.ReturnMessages,
        "`return`",
        "`read` on the queue, and `write` on each that gets a message: what is of others stays",
        lambda c: _of(READ, QUEUE, c.queue),
    ),
    Row(asked.AwaitQueue, "`await` of a queue", "`read` on it", lambda c: _of(READ, QUEUE, c.queue)),
    Row(asked.TakeCheckout, "`checkout`", "`read` on the queue", lambda c: _of(READ, QUEUE, c.queue)),
    Row(asked.AckCheckout, "`checkout-ack`", "`read` on the queue", lambda c: _of(READ, QUEUE, c.queue)),
    Row(asked.ReleaseCheckout, "`checkout-release`", "`read` on the queue", lambda c: _of(READ, QUEUE, c.queue)),
    Row(asked.ListConsumers, "`consumers`", "`see` on the queue", lambda c: _of(SEE, QUEUE, c.queue)),
    Row(asked.RegisterConsumer, "`consumer-register`", "`read` on the queue", lambda c: _of(READ, QUEUE, c.queue)),
    Row(asked.DrainConsumer, "`consumer-drain`", "`read` on the queue", lambda c: _of(READ, QUEUE, c.queue)),
    Row(asked.ReadScale, "`scale`", "`see` on the queue", lambda c: _of(SEE, QUEUE, c.queue)),
    Row(asked.ListConnections, "`connections`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(asked.DescribeConnection, "`connection`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(asked.CloseConnection, "`disconnect`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.ListUnacked, "`unacked`", "`see` on the queue", lambda c: _of(SEE, QUEUE, c.queue)),
    Row(asked.ExtendUnacked, "`extend-unacked`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(
        asked.AddBinding,
        "`bind`",
        "`read` on the exchange and its key, by one rule that contains it; `write` on the queue, log or other exchange",
        _of_binding,
    ),
    Row(asked.RemoveBinding, "`unbind`", "what `bind` needs", _of_binding),
    Row(asked.FindRoute, "`route`", "`see` on the exchange", lambda c: _of(SEE, EXCHANGE, c.exchange)),
    Row(asked.AskRight, "`may`", "`see` on everything; about oneself nothing", lambda c: _everywhere(SEE)),
    Row(asked.FindOffsets, "`offsets`", "`read` on the log", lambda c: _of(READ, LOG, c.log)),
    Row(asked.AwaitLog, "`await` of a log", "`read` on it", lambda c: _of(READ, LOG, c.log)),
    Row(
        asked.AwaitLogs,
        "`await` of several logs",
        "`read` on each",
        lambda c: tuple(need for name in c.logs for need in _of(READ, LOG, name)),
    ),
    Row(asked.ReadPosition, "`position`", "`read` on the log", lambda c: _of(READ, LOG, c.log)),
    Row(asked.SetPosition, "`position` with `offsets`", "`read` on the log", lambda c: _of(READ, LOG, c.log)),
    Row(asked.ForgetPosition, "`position` with `forget`", "`read` on the log", lambda c: _of(READ, LOG, c.log)),
    Row(asked.SetPrefetch, "`prefetch`", "nothing"),
    Row(asked.ExtendAckTimeout, "`extend`", "nothing"),
    Row(asked.CommitPrepared, "`commit`", _WRITE_APP, lambda c: _of_app(c.app)),
    Row(asked.AbortPrepared, "`abort` of names", _WRITE_SOMEWHERE, _write_anywhere),
    Row(
        asked.AbortPrefix,
        "`abort` of a `prefix`",
        f"{_WRITE_SOMEWHERE}; where it has less than {PREFIX_MIN_BYTES} bytes, {_ADMIN}",
        lambda c: _write_anywhere(c) if len(c.prefix.encode()) >= PREFIX_MIN_BYTES else _everywhere(ADMIN),
    ),
    Row(asked.ListPrepared, "`prepared`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(
        asked.ReadAppVersion,
        "`version`",
        f"{_WRITE_APP}; with `forget` {_ADMIN}",
        lambda c: _everywhere(ADMIN) if c.forget else _of_app(c.app),
    ),
    Row(asked.ListPeers, "`peers`", "`see` on everything", lambda c: _everywhere(SEE)),
    Row(asked.ReleasePeer, "`peer-release`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.DropCopies, "`peer-drop`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.KeepCopies, "`peer-keep`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.DrainNode, "`drain`", _ADMIN, lambda c: _everywhere(ADMIN)),
    Row(asked.ReloadConfiguration, "`reload`", _ADMIN, lambda c: _everywhere(ADMIN)),
)
"""A row for each type of command, and of request to /admin; no other place says what one needs."""

COMMANDS: tuple[type, ...] = (*get_args(Command), *get_args(AdminCommand))


def needs_of(rows: tuple[Row, ...]) -> dict[type, Callable[[Any], Needs] | None]:
    """Returns the needs by type of command. Raises AssertionError where one has no row, or two."""
    needs = {row.command: row.needs for row in rows}
    without = [command.__name__ for command in COMMANDS if command not in needs]
    assert not without, f"it is not said which rights these commands need: {', '.join(without)}"
    assert len(needs) == len(rows), "a type of command has two rows"
    return needs


NEEDS = needs_of(ROWS)


# ---- who has which rights -------------------------------------------------------------------------------------------


class Granted:
    """The rights that the rules of one user grant. may_all: every right on everything. written: addresses on which they
    were found to grant `write`: most commands are a SEND to where one went before.
    """

    __slots__ = ("may_all", "name", "rules", "tries", "written")

    def __init__(self, name: str, rules: Rules) -> None:
        self.name = name
        self.rules = {right: rules.of(right) for right in RIGHTS}
        self.may_all = all(EVERYTHING in given for given in self.rules.values())
        self.written: set[str] = set()
        self.tries: dict[str, Trie[bool]] = {right: Trie() for right in RIGHTS}
        for right, given in self.rules.items():
            for rule in given:
                self.tries[right].add(pattern_words(rule), True)

    def may(self, need: Need) -> bool:
        """Whether a rule grants it. Costs some steps for each word of the rules, whatever the address is."""
        if need.address == ANYWHERE:
            return bool(self.rules[need.right])
        if need.address in OWN_LOGS:
            return not {need.address, EVERYTHING}.isdisjoint(self.rules[need.right])
        if need.is_pattern:
            return any(rule_contains(rule, need.address) for rule in self.rules[need.right])
        return bool(self.tries[need.right].matching(as_words(need.address)))


EVERY_RIGHT = Granted("", Rules(role=OPERATOR))


def granting(granted: Granted, need: Need) -> Iterator[str | None]:
    """Yields the rules of that right that grant the need alone, in order, and None in place of each other one."""
    for rule in granted.rules[need.right]:
        alone: dict[str, Any] = {need.right: (rule,)}
        yield rule if Granted(granted.name, Rules(**alone)).may(need) else None


class Rights:
    """The Authorizer by users (core/authorization.py): what no rule grants is refused, as `forbidden`.

    own_uid: the user id of the broker's process. Whoever has it on a unix socket, root, and linked nodes may do
    everything. verdicts: those so far, at most VERDICTS_KEPT.
    """

    __slots__ = ("anonymous", "granted", "operators", "users", "verdicts")

    def __init__(self, users: Mapping[str, User], own_uid: int) -> None:
        self.users = users
        self.granted = {name: Granted(name, user.rules) for name, user in users.items()}
        self.anonymous = self.granted.get(ANONYMOUS)
        self.operators = {unix_principal(uid, 0).name for uid in (0, own_uid)}
        self.verdicts: dict[tuple[Granted, Need], bool] = {}

    def check(self, principal: Principal, command: Command | AdminCommand) -> None:
        by = principal.recognised_by
        if by is _PASSWORD or by is _TOKEN or by is _CERTIFICATE or by is _JWT:
            granted = self.granted.get(principal.name)
        elif by is _NOTHING:
            granted = self.anonymous
        else:
            granted = self.granted_to_other(principal)
        if granted is None:
            raise Refusal(FORBIDDEN, f"This broker has no user {principal.name:.80}.")
        if granted.may_all or (
            type(command) is Send and command.destination in granted.written and not command.more_keys
        ):
            return
        needs = NEEDS[type(command)]
        if needs is None:
            return
        for need in needs(command):
            if not self.may(granted, need):
                raise refusal_of(granted.name, need)

    def may(self, granted: Granted, need: Need) -> bool:
        """Returns the verdict, which is kept for the next time."""
        may = self.verdicts.get((granted, need))
        if may is None:
            may = granted.may(need)
            if len(need.address) > ADDRESS_MAX_BYTES:  # no address is that long: the command is refused for it later
                return may
            if len(self.verdicts) >= VERDICTS_KEPT:
                self.verdicts.clear()
                for one in self.granted.values():
                    one.written.clear()
            self.verdicts[granted, need] = may
            if may and need.right == WRITE and not need.is_pattern:
                granted.written.add(need.address)
        return may

    def granted_to_other(self, principal: Principal) -> Granted | None:
        """Returns what is granted to a linked node, or to a process of this machine; None: nothing."""
        by, name = principal.recognised_by, principal.name
        if by is RecognisedBy.LINK_PROOF:
            return EVERY_RIGHT
        if by is not RecognisedBy.PEER_CREDENTIALS:
            return None
        if name in self.operators:
            return EVERY_RIGHT
        user = self.users.get(name)
        if user is None or user.unix is None or user.uid not in (None, principal.uid):
            return None
        return self.granted[name]


def rights_of(users: Mapping[str, User], own_uid: int) -> Rights | None:
    """None where there are no users: every principal may do everything then."""
    return Rights(users, own_uid) if users else None


def refusal_of(name: str, need: Need) -> Refusal:
    """Returns the refusal of a user who lacks what a command needs."""
    if need.address in (ANYWHERE, EVERYTHING):
        what = f"the right `{need.right}` on {need.address or 'something'}"
        return Refusal(FORBIDDEN, f"The user {name} may not do that: it needs {what}.")
    return Refusal.on(NoRight(name, need.right, need.address, need.is_pattern))
