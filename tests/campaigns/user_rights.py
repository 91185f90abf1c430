"""T25b: users whose rules change by reloads, on simulated time: a command is refused exactly where no rule grants it.

Proves, for the core: SENDs, SUBSCRIBEs, requests to /admin and the end of durable subscriptions are `forbidden` exactly
where a second judge says so, which knows rules as they are written and tries all small names; behind a reload who may
not read gets nothing any more, and who is no user any more has no connection.

It cannot see logins, nor links (tests/core/test_rights.py has each row of the table).
"""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from radiator.core.connections import Connection
from radiator.core.rights import Rights
from radiator.model.commands import Open, Reread, Unsubscribe
from radiator.model.principal import Principal, RecognisedBy, unix_principal
from radiator.model.replies import Refuse, Scope
from radiator.model.rights import Rules
from radiator.model.settings import Config, Declarations, QueueSettings
from radiator.model.users import Token, User
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import send, subscribe, unsubscribe

NAMES = ("ann", "bob", "eve")
OPERATOR = 9
STEPS = 60
RIGHTS = ("read", "write", "declare", "see")
WORDS = ("a", "b", "*", "#")
PATTERNS = [".".join(words) for count in (1, 2) for words in product(WORDS, repeat=count)]
LITERAL = [pattern for pattern in PATTERNS if "*" not in pattern and "#" not in pattern]
NAMED = [".".join(words) for count in (1, 2, 3) for words in product(("a", "b", "z"), repeat=count)]
EXCHANGE = "/exchange/amq.topic/"
KINDS = ("/queue/", "/topic/", EXCHANGE)
OF_JOURNAL = ("/#", "/log/journal")  # the rules that are for it
RULES = ["/#", *OF_JOURNAL, "/log/*", "/log/#", *(kind + pattern for kind in KINDS for pattern in PATTERNS)]
Given = dict[str, tuple[str, ...]]  # by right


def declared() -> Declarations:
    return Declarations(create_topics=True, queues={name: QueueSettings() for name in LITERAL})


# ---- the second judge -----------------------------------------------------------------------------------------------


def takes(pattern: list[str], name: list[str]) -> bool:
    """Whether these words are matched, read from the left."""
    if not pattern:
        return not name
    if pattern[0] == "#":
        return takes(pattern[1:], name) or (bool(name) and takes(pattern, name[1:]))
    return bool(name) and pattern[0] in ("*", name[0]) and takes(pattern[1:], name[1:])


@cache
def all_of(pattern: str) -> frozenset[str]:
    """The addresses, among small ones, that a pattern of them matches."""
    kind = next((kind for kind in KINDS if pattern.startswith(kind)), "")
    words = pattern.removeprefix(kind).split(".")
    kinds = KINDS if pattern == "/#" else (kind,)
    return frozenset(one + name for one in kinds for name in NAMED if pattern == "/#" or takes(words, name.split(".")))


def may(given: Given | None, right: str, address: str) -> bool:
    """Whether one of the rules is for all that the address matches."""
    if given is None:
        return False
    if address in OF_JOURNAL[1:]:
        return any(rule in OF_JOURNAL for rule in given[right])
    address = address.replace("/amq/queue/", "/queue/")
    return any(all_of(address) <= all_of(rule) for rule in given[right])


# ---- a history ------------------------------------------------------------------------------------------------------


class History:
    """One random history, to its end or the first mistake. given: the rules of each user; mistakes: in sentences.

    tokens: of each user; token_of: what each connection has logged in with. subscribed: what each connection's
    subscriptions are to, by their ids.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.mistakes: list[str] = []
        self.forbidden = self.allowed = self.reloads = self.number = 0
        self.given: dict[str, Given] = {name: self.some_rules() for name in NAMES}
        self.tokens = dict.fromkeys(NAMES, "0" * 64)
        self.token_of: dict[int, str] = {}
        self.node = Node(declared(), authorizer=Rights(self.users(), 1000))
        self.subscribed: dict[int, dict[bytes, str]] = {}
        self.join(OPERATOR, unix_principal(0, 0))
        for number, name in enumerate(NAMES, 1):
            self.log_in(number, name)
        for _ in range(STEPS):
            if not self.mistakes:
                self.step()

    def log_in(self, number: int, name: str) -> None:
        """With the token of now."""
        self.token_of[number] = self.tokens[name]
        self.join(number, Principal(name, RecognisedBy.TOKEN, proof=self.tokens[name]))

    def join(self, number: int, principal: Principal) -> None:
        self.node.inbox[number], self.node.delivers[number] = [], 0
        self.subscribed[number] = {}
        self.node.turn([Open(number, closes_at=Scope.CONNECTION, principal=principal)])

    def some_rules(self) -> Given:
        """A few for each right."""
        return {right: tuple(self.chance.sample(RULES, self.chance.randrange(4))) for right in RIGHTS}

    def users(self) -> dict[str, User]:
        """There is always one."""
        given = {**self.given, "keeper": {}}
        tokens = {name: (Token(token),) for name, token in self.tokens.items()}
        return {name: User(name=name, rules=Rules(**one), tokens=tokens.get(name, ())) for name, one in given.items()}

    # ---- steps ------------------------------------------------------------------------------------------------------

    def step(self) -> None:
        kinds: dict[Callable[[int], None], float] = {
            self.send: 6, self.subscribe: 6, self.unsubscribe: 1, self.end_durable: 2, self.ask: 8, self.reload: 1.5,
        }  # fmt: skip
        (kind,) = self.chance.choices([*kinds], [*kinds.values()])
        connection = self.chance.randrange(1, len(NAMES) + 1)
        if kind == self.reload or connection in self.node.broker.connections:
            kind(connection)

    def address(self, kind: str, names: list[str]) -> str:
        if kind == "/queue/" and self.chance.random() < 0.3:
            kind = "/amq/queue/"
        return kind + self.chance.choice(names)

    def judged(self, connection: int, what: str, is_forbidden: bool, is_right: bool) -> None:
        """Compares what has come of it with what a second judge says."""
        if is_forbidden:
            self.forbidden += 1
        else:
            self.allowed += 1
        if is_forbidden is is_right:
            name = NAMES[connection - 1]
            verb = "forbidden to" if is_forbidden else "allowed to"
            self.mistakes.append(f"{what} was {verb} {name}, who has {self.given.get(name)}")

    def is_forbidden(self, connection: int) -> bool:
        """Whether a refusal of that kind has come; what else came is looked at too."""
        self.look_at_deliveries()
        return any(isinstance(one, Refuse) and one.code == "forbidden" for one in self.node.take(connection))

    def send(self, connection: int) -> None:
        address = self.address(self.chance.choice(KINDS), LITERAL)
        self.node.say(send(connection, address))
        is_right = self.may(connection, "write", address)
        self.judged(connection, f"a SEND to {address}", self.is_forbidden(connection), is_right)

    def may(self, connection: int, right: str, address: str) -> bool:
        return may(self.given.get(NAMES[connection - 1]), right, address)

    def subscribe(self, connection: int) -> None:
        kind = self.chance.choice(KINDS)
        address = self.address(kind, LITERAL if kind == "/queue/" else PATTERNS)
        self.number += 1
        name, durable = b"%d" % self.number, kind != "/queue/" and self.chance.random() < 0.3
        name = b"d" if durable else name
        if name in self.subscribed[connection]:
            return
        self.node.say(subscribe(connection, address, name=name, durable=durable))
        live = self.node.broker.connections[connection]
        is_there = name in live.queue_subscriptions or name in live.topic_subscriptions
        if is_there:
            self.subscribed[connection][name] = address
        is_right = self.may(connection, "read", address)
        self.judged(connection, f"a SUBSCRIBE to {address}", self.is_forbidden(connection), is_right)
        if is_there and not is_right:
            self.mistakes.append(f"there is a subscription to {address}, which may not be")

    def unsubscribe(self, connection: int) -> None:
        for name in [*self.subscribed[connection]][:1]:
            del self.subscribed[connection][name]
            self.node.say(unsubscribe(connection, name.decode()))
            self.judged(connection, "an UNSUBSCRIBE", self.is_forbidden(connection), True)

    def end_durable(self, connection: int) -> None:
        """One that is not on this connection: of somebody who has gone, say."""
        durables = [*self.node.broker.destinations.queues.durables]
        if not durables or b"d" in self.subscribed[connection]:
            return
        kind, _, rest = self.chance.choice(durables).removeprefix("$durable/").partition("/")
        address = f"/{kind}/{rest.rpartition('/')[0]}"
        self.node.say(Unsubscribe(connection, b"d", None, True, address))
        is_right = self.may(connection, "read", address)
        self.judged(connection, f"the end of {address}", self.is_forbidden(connection), is_right)

    def requests(self) -> Iterator[tuple[dict[str, Any], list[tuple[str, str]]]]:
        """Each with the rights that it needs."""
        one, other, key = (self.chance.choice(names) for names in (LITERAL, LITERAL, PATTERNS))
        q, r, source = f"/queue/{one}", f"/queue/{other}", EXCHANGE + key
        binding = {"exchange": "amq.topic", "key": key, "queue": q}
        yield {"do": "declare", "queue": one}, [("declare", q)]
        yield {"do": "declare", "queue": q, "passive": True}, [("see", q)]
        yield {"do": "declare", "queue": one, "dead_letter": other}, [("declare", q), ("write", r)]
        yield {"do": "peek", "queue": f"/amq/queue/{one}"}, [("see", q), ("read", q)]
        yield {"do": "describe", "queue": one}, [("see", q)]
        yield {"do": "purge", "queue": one}, [("declare", q)]
        yield {"do": "move", "from": one, "to": other}, [("read", q), ("write", r)]
        yield {"do": "bind", **binding}, [("read", source), ("write", q)]
        yield {"do": "unbind", **binding}, [("read", source), ("write", q)]
        yield {"do": "queues", "limit": 1}, [("see", "/queue/#")]
        yield {"do": "explain", "message": f"feed-1-{len(key)}"}, [("read", "/log/journal")]

    def ask(self, connection: int) -> None:
        request, needs = self.chance.choice([*self.requests()])
        answer = self.node.admin(connection, **request)
        is_right = all(self.may(connection, right, address) for right, address in needs)
        self.judged(connection, str(request), answer.get("code") == "forbidden", is_right)
        self.look_at_deliveries()

    # ---- reload -----------------------------------------------------------------------------------------------------

    def reload(self, connection: int) -> None:
        """Somebody's rules are others, or his token, or he is gone, or is there again."""
        name = NAMES[connection - 1]
        if name in self.given and self.chance.random() < 0.3:
            del self.given[name]
        elif name in self.given and self.chance.random() < 0.3:
            self.tokens[name] = f"{self.chance.getrandbits(256):064x}"
        else:
            self.given[name] = self.some_rules()
        self.reloads += 1
        config = Config(data_dir=Path("/d"), disk_free_min=0, declarations=declared(), users=self.users())
        self.node.turn([Reread(config)])
        for number, one in enumerate(NAMES, 1):
            self.node.take(number)
            live = self.node.broker.connections.get(number)
            if live is not None:
                self.look_at(number, live)
            if live is not None and live.is_closing:
                self.node.close(number)
            elif live is None and one in self.given:
                self.log_in(number, one)
        for kind in KINDS:
            self.node.say(send(OPERATOR, kind + self.chance.choice(LITERAL)))
        self.look_at_deliveries()

    def look_at(self, number: int, live: Connection) -> None:
        """It has been judged again."""
        name = NAMES[number - 1]
        is_in = name in self.given and self.token_of[number] == self.tokens[name]
        if live.is_closing is is_in:
            self.mistakes.append(f"{name}: {self.given.get(name)}, let in: {is_in}, and closing: {live.is_closing}")
        there = {*live.queue_subscriptions, *live.topic_subscriptions}
        for id_, address in [*self.subscribed[number].items()]:
            if id_ not in there:
                del self.subscribed[number][id_]
            if not live.is_closing and (id_ in there) is not self.may(number, "read", address):
                self.mistakes.append(f"{name}: {self.given.get(name)}, and subscribed to {address}: {id_ in there}")

    def look_at_deliveries(self) -> None:
        """A MESSAGE comes by what its user may read."""
        for number in self.node.broker.connections:
            for deliver in self.node.messages(number):
                address = self.subscribed[number].get(deliver.subscription or b"")
                if address is not None and not self.may(number, "read", address):
                    self.mistakes.append(f"{NAMES[number - 1]} gets a message by {address}")


def simulate(run: Run) -> None:
    forbidden = allowed = reloads = 0
    while not run.is_over:
        seed = run.chance.randrange(10**12)
        history = History(seed)
        for mistake in history.mistakes:
            run.violation(f"History({seed}): {mistake}")
        forbidden += history.forbidden
        allowed += history.allowed
        reloads += history.reloads
        run.case()
    run.figures |= {"commands forbidden": forbidden, "allowed": allowed, "reloads": reloads}
    enough = forbidden > run.done and allowed > run.done and reloads > run.done
    assert run.is_hunt or enough or run.done < 100, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T25b",
        name="user-rights",
        title="random histories of users whose rules change by reloads, beside a second judge",
        unit="histories",
        run=simulate,
        cases=(200, 20_000, 200_000),
        mutants=(
            "alias-not-resolved",
            "dead-letter-not-authorized",
            "passive-not-authorized",
            "pattern-judged-by-match",
            "peek-not-authorized",
            "reload-keeps-subscriptions",
            "reload-keeps-rights",
            "gone-user-stays",
            "revoked-token-stays",
            "durable-ended-by-anyone",
            "explain-not-authorized",
        ),
        mutant_cases=2000,
        quick_mutants=11,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
