"""S9: very many patterns of topics and of exchanges, and topics and patterns made to be dear to match.

`patterns`: sets as users have them, and large ones; what is matched is compared with a matcher that asks the words one
by one, and a publish that nobody gets may take PUBLISH_P99_MS of CPU at most. `bindings`: 100,000 of them, of the same
families and hostile ones, made by a client through /admin; of hostile ones those are refused that would be dear, and a
SEND costs as little as with the others. `hostile-patterns`: sets that are made to keep every node of a trie busy, as
far as the bounds on words and wildcards let them. `subscriptions`: max_subscriptions, in all kinds together.

CPU of this thread is what counts: other programs on the machine make no difference.
"""

import gc
import itertools
import json
import time
from collections.abc import Callable
from math import inf
from random import Random

from radiator.model.commands import Read, Send
from radiator.model.limits import BINDINGS_MAX, KEY_WORDS_MAX, PATTERN_WILDCARDS_MAX, TOPIC_WORDS_MAX, Limits
from radiator.model.replies import Deliver, Refuse
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.writes import Put
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import memory_bytes
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import send, subscribe, unsubscribe

PUBLISH_P99_MS = 1.0
EACH_MATCH_MS = 0.02  # a delivery that is due costs what it costs
SUBSCRIPTIONS_OF_ONE = 1000
BYTES_A_SUBSCRIPTION_MAX = 64 * 1024  # of the longest name there can be
SIZES = {"quick": 10_000, "nightly": 100_000, "release": 100_000}
PUBLISHES = 300
HOSTILE_PATTERNS = 10_000  # of ten connections
PUBLISHER = 1
BINDINGS = 100_000
HOSTILE_QUICK = 10_000  # of them; nearly all that come later are refused, and each refusal is a match; and in a hunt
BOUND_QUEUES = 500
BOUND_SENDS = 150
BOUND_TRIES = 3
NEW_KEYS_S = 0.5  # of CPU are enough of them
DESCRIBED_BYTES_MAX = 1 << 20  # however many there are
EACH_COPY_MS = 0.02  # a message that is stored costs what it costs

Patterns = list[str]
Family = Callable[[Random, int], tuple[Patterns, Callable[[], str]]]


def matched(pattern: list[str], name: list[str]) -> bool:
    """The rule, said once more in the plainest way. Slow where `#` is repeated."""
    if not pattern:
        return not name
    if pattern[0] == "#":
        return any(matched(pattern[1:], name[skip:]) for skip in range(len(name) + 1))
    return bool(name) and pattern[0] in ("*", name[0]) and matched(pattern[1:], name[1:])


# ---- families: so many patterns, and a maker of topics for them -----------------------------------------------------


def prices(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """As the documentation has them: a word of many in the middle."""
    patterns = [f"stocks.s{number}.{chance.choice(('*', '#', '*.nyse', 'nyse.#'))}" for number in range(count)]
    return patterns, lambda: f"stocks.s{chance.randrange(2 * count)}.{chance.choice(('nyse', 'a', 'a.nyse'))}"


def users(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """Everybody has one with a wildcard in front."""
    heads = ("*", "#", "*.*", "#.to")
    return (
        [f"{chance.choice(heads)}.u{number}" for number in range(count)],
        lambda: f"{chance.choice(('x', 'x.y', 'x.y.z.to', ''))}.u{chance.randrange(2 * count)}",
    )


def deep(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """Long ones that part only at their ends, and the longest topics."""
    stem = ".".join("ab"[number % 2] for number in range(TOPIC_WORDS_MAX - 2))

    def topic() -> str:
        any_words = ".".join(chance.choice("ab") for _ in range(TOPIC_WORDS_MAX))
        return any_words if chance.random() < 0.5 else f"{stem}.none.x"

    return [f"{stem}.{number:x}.*" for number in range(count)], topic


def around(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """`#` at both ends and in between, with words that are rare."""
    patterns = [".".join(("#", f"w{number}", "#", f"x{number % 7}", "#")) for number in range(count)]
    return patterns, lambda: ".".join(f"w{chance.randrange(count)}" for _ in range(TOPIC_WORDS_MAX))


def random_words(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """Short ones of few words: many match, and each is compared with the plain matcher."""
    words = ("a", "b", "c", "*", "#")
    patterns = []
    for _ in range(count // 50):
        pattern = [chance.choice(words) for _ in range(chance.randrange(1, 6))]
        if pattern.count("*") + pattern.count("#") <= PATTERN_WILDCARDS_MAX:
            patterns.append(".".join(pattern))
    return patterns, lambda: ".".join(chance.choice(words[:3]) for _ in range(chance.randrange(1, 7)))


def with_wildcards(count: int) -> Patterns:
    """As many wildcards as there may be, at every choice of places; all other words are the topic's, so that all are
    followed, and the last is what none has.
    """
    patterns = []
    for size in range(TOPIC_WORDS_MAX, PATTERN_WILDCARDS_MAX, -1):
        for places in itertools.combinations(range(size - 1), PATTERN_WILDCARDS_MAX):
            for kinds in itertools.product("#*", repeat=PATTERN_WILDCARDS_MAX):
                words = ["a"] * (size - 1) + ["none"]
                for place, kind in zip(places, kinds, strict=True):
                    words[place] = kind
                patterns.append(".".join(words))
    return patterns[:count]


def longest_topic() -> Callable[[], str]:
    """Each time another one, so that it is not enough to remember: its last word is in no pattern."""
    numbers = itertools.count()
    return lambda: ".".join([*"a" * (TOPIC_WORDS_MAX - 1), f"z{next(numbers)}"])


def of_many_connections(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    return with_wildcards(count), longest_topic()


def of_one_connection(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    return with_wildcards(SUBSCRIPTIONS_OF_ONE), longest_topic()


def hashes_and_rare_words(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """`#` around words of which each topic has as many as it can: a match may go on at every place."""
    words = [f"w{number}" for number in range(40)]
    patterns = ["#.{}.#.{}.#.{}".format(*(chance.choice(words) for _ in range(3))) for _ in range(count)]
    numbers = itertools.count()
    return patterns, lambda: ".".join([*chance.choices(words, k=TOPIC_WORDS_MAX - 1), f"z{next(numbers)}"])


def stars_everywhere(chance: Random, count: int) -> tuple[Patterns, Callable[[], str]]:
    """Long ones of two words with stars between: nearly every branch is followed to its end."""
    patterns = []
    for _ in range(count):
        words = chance.choices("ab", k=TOPIC_WORDS_MAX - 1) + ["none"]
        for place in chance.sample(range(TOPIC_WORDS_MAX - 1), PATTERN_WILDCARDS_MAX):
            words[place] = chance.choice("**#")
        patterns.append(".".join(words))
    numbers = itertools.count()
    return patterns, lambda: ".".join([*chance.choices("ab", k=TOPIC_WORDS_MAX - 1), f"z{next(numbers)}"])


AS_USERS_HAVE_THEM: tuple[Family, ...] = (prices, users, deep, around, random_words)
HOSTILE = {of_many_connections: 100.0, of_one_connection: 50.0}  # -> ms of CPU a publish may take


# ---- the judgement --------------------------------------------------------------------------------------------------


def topics_of(patterns: Patterns, seed: int) -> Node:
    """A node in which all of them are subscribed to, so many on each connection. A subscription's id is its number."""
    node = Node(limits=Limits(outbox_max_bytes=1 << 40), seed=seed)
    node.open(PUBLISHER)
    for number, pattern in enumerate(patterns):
        connection = 2 + number // SUBSCRIPTIONS_OF_ONE
        if connection not in node.inbox:
            node.open(connection)
        one = subscribe(connection, f"/topic/{pattern}", "auto", name=b"%d" % number)
        node.broker.turn([Read(connection, [one])], node.now_s, node.now_ms)
    return node


def publish(node: Node, topic: str) -> tuple[list[int], float]:
    """The numbers of the subscriptions that get it, and the CPU that it took, in ms."""
    commands = [Read(PUBLISHER, [send(PUBLISHER, f"/topic/{topic}")])]
    node.now_s += 1
    began_s = time.thread_time()
    turn = node.broker.turn(commands, node.now_s, node.now_ms)
    took_ms = (time.thread_time() - began_s) * 1000
    return [int(one.subscription or b"") for one in turn.replies if isinstance(one, Deliver)], took_ms


def try_family(run: Run, family: Family, publishes: int, most_ms: float = PUBLISH_P99_MS, count: int = 0) -> None:
    patterns, topic_of = family(run.chance, count or SIZES[run.level])
    node = topics_of(patterns, run.done)
    costs: list[float] = []
    case = f"{family.__name__}, {len(patterns)} patterns, seed {run.seed}, case {run.done}"
    for _ in range(publishes):
        topic = topic_of()
        got, took_ms = publish(node, topic)
        costs.append(took_ms - EACH_MATCH_MS * len(got))
        check_matches(run, case, patterns, topic, got)
        if sum(costs) > 500:
            break  # it is known by now
    costs.sort()
    p99_ms = costs[int(len(costs) * 0.99)]
    name = f"{family.__name__} p99 ms"
    run.figures[name] = max(float(run.figures.get(name, 0)), round(p99_ms, 3))
    if p99_ms > most_ms:
        run.violation(f"{case}: a publish takes {p99_ms:.2f} ms of CPU at the 99th percentile; {most_ms} is the most")


def check_matches(run: Run, case: str, patterns: Patterns, topic: str, got: list[int]) -> None:
    """Where all are compared it would take long: some, and all that are said to match."""
    words = topic.split(".")
    if len(words) > 30:
        return
    some = {*got, *(run.chance.randrange(len(patterns)) for _ in range(50))}
    expected = {number for number in some if matched(patterns[number].split("."), words)}
    if expected != set(got) or len(got) != len(set(got)):
        wrong = expected ^ set(got)
        run.violation(
            f"{case}: {topic} and {[patterns[number] for number in list(wrong)[:3]]} do not match as they should"
        )


def match_patterns(run: Run) -> None:
    while not run.is_over:
        for family in AS_USERS_HAVE_THEM:
            try_family(run, family, PUBLISHES)
            run.case()


# ---- bindings -------------------------------------------------------------------------------------------------------


class Bound:
    """A node with a topic exchange, and so many bindings, each said to /admin by a client."""

    def __init__(self, patterns: Patterns, seed: int, is_usual: bool) -> None:
        queues = {f"q{number}": QueueSettings() for number in range(BOUND_QUEUES)}
        self.node = Node(Declarations(queues=queues), Limits(outbox_max_bytes=1 << 40), seed=seed)
        self.node.open(PUBLISHER)
        self.names = {number: name for number, (name, _) in self.node.disk.platter.queues.items()}
        self.queues_of: dict[str, set[str]] = {}
        wanted = [(pattern, f"q{number % BOUND_QUEUES}") for number, pattern in enumerate(patterns)]
        ask_all(
            self.node,
            [{"do": "bind", "exchange": "amq.topic", "key": key, "queue": queue} for key, queue in wanted],
        )
        made = [(key, queue.name) for key, queue in self.node.broker.destinations.exchanges.get("amq.topic").bindings]
        for key, queue in made:
            self.queues_of.setdefault(key, set()).add(queue)
        self.patterns = [*self.queues_of]
        # what would be dear to match is refused
        assert {*made} == {*wanted} if is_usual else {*made} <= {*wanted}, f"{len(made)} of {len({*wanted})} were bound"

    def send(self, key: str) -> tuple[list[str], float]:
        """The queues that got it, and the CPU that it took, in ms."""
        node = self.node
        commands = [Read(PUBLISHER, [send(PUBLISHER, f"/exchange/amq.topic/{key}")])]
        before = len(node.broker.context.open.writes)
        began_s = time.thread_time()
        node.broker.turn(commands, node.now_s, node.now_ms)
        took_ms = (time.thread_time() - began_s) * 1000
        writes = node.broker.context.open.writes[before:]
        assert not node.is_refused(PUBLISHER), f"a SEND with the key {key} was refused"
        got = [self.names[write.queue] for write in writes if isinstance(write, Put)]
        while node.step():
            pass
        return got, took_ms


def ask_all(node: Node, requests: list[dict[str, str]]) -> None:
    """Many at a time; nobody reads the answers. They are asked for, since a refusal without any closes PUBLISHER."""
    for first in range(0, len(requests), 1000):
        some = requests[first : first + 1000]
        bodies = [json.dumps(request).encode() for request in some]
        node.turn([Read(PUBLISHER, [Send(PUBLISHER, "/admin", b"", 2, body, reply_to="t") for body in bodies])])


def try_bindings(run: Run, family: Family, is_usual: bool) -> None:
    """Every key twice: when it is new, and when it is known."""
    patterns, key_of = family(run.chance, BINDINGS)
    if run.is_hunt or (not is_usual and run.level == "quick"):
        patterns = run.chance.sample(patterns, min(HOSTILE_QUICK, len(patterns)))
    bound = Bound(patterns, run.done, is_usual)
    case = f"{family.__name__}, {len(patterns)} bindings, seed {run.seed}, case {run.done}"
    least = {"new": inf, "known": inf}  # of some tries: what else the machine does can only add to it
    for _ in range(BOUND_TRIES):
        new_ms: list[float] = []
        known_ms: list[float] = []
        while len(new_ms) < BOUND_SENDS and sum(new_ms) < NEW_KEYS_S * 1000:
            key = key_of()
            for costs in (new_ms, known_ms):
                got, took_ms = bound.send(key)
                costs.append(took_ms - EACH_COPY_MS * len(got))
                check_copies(run, case, bound, key, got)
        for costs, name in ((new_ms, "new"), (known_ms, "known")):
            costs.sort()
            least[name] = min(least[name], costs[int(len(costs) * 0.99)])
        if max(least.values()) <= PUBLISH_P99_MS:
            break
    for name, p99_ms in least.items():
        figure = f"{family.__name__}, {name} keys, p99 ms"
        run.figures[figure] = max(float(run.figures.get(figure, 0)), round(p99_ms, 3))
        if p99_ms > PUBLISH_P99_MS:
            run.violation(
                f"{case}: a SEND to {name} keys takes {p99_ms:.2f} ms of CPU at the 99th percentile; "
                f"{PUBLISH_P99_MS} is the most"
            )


def check_copies(run: Run, case: str, bound: Bound, key: str, got: list[str]) -> None:
    words = key.split(".")
    some = {bound.patterns[run.chance.randrange(len(bound.patterns))] for _ in range(30)}
    wanted = {queue for pattern in some if matched(pattern.split("."), words) for queue in bound.queues_of[pattern]}
    if not wanted <= {*got} or len(got) != len({*got}):
        run.violation(f"{case}: {key} went to {got}, not to {sorted(wanted - {*got})}, or twice to one")
    if got and run.chance.random() < 0.03:  # all are asked, which takes long
        right = {queue for p, queues in bound.queues_of.items() if matched(p.split("."), words) for queue in queues}
        if right != {*got}:
            run.violation(f"{case}: {key} went to {sorted(got)}, not to {sorted(right)}")


def match_bindings(run: Run) -> None:
    if not run.is_hunt:
        one_binding_more(run)
    gc.disable()  # as in a broker (server/heap.py)
    while not run.is_over:
        family, is_usual = BOUND_FAMILIES[run.done % len(BOUND_FAMILIES)]
        try_bindings(run, family, is_usual)
        gc.collect()
        run.case()


def one_binding_more(run: Run) -> None:
    """Words and wildcards of a key: as many as there may be are taken, one more is not; nor one binding too many."""
    node = Node(Declarations(queues={"q": QueueSettings()}), seed=run.seed)
    node.open(PUBLISHER)
    for words, wildcards in ((KEY_WORDS_MAX, 0), (PATTERN_WILDCARDS_MAX + 1, PATTERN_WILDCARDS_MAX)):
        for more in (0, 1):
            of_wildcards = [run.chance.choice("*#") for _ in range(wildcards + more if wildcards else 0)]
            key = ".".join(["a", *of_wildcards, *["a"] * (words + more - len(of_wildcards) - 1)])
            answer = node.admin(PUBLISHER, do="bind", exchange="amq.topic", key=key, queue="q")
            if answer["ok"] == bool(more):
                run.violation(f"a binding with the key {key} was answered {answer}")
    keys = (f"k{number}" for number in range(2, BINDINGS_MAX))
    ask_all(node, [{"do": "bind", "exchange": "amq.direct", "key": key, "queue": "q"} for key in keys])
    answer = node.admin(PUBLISHER, do="bind", exchange="amq.fanout", key="", queue="q")
    if answer["ok"] or answer["code"] != "too-many-bindings":
        run.violation(f"of at most {BINDINGS_MAX} bindings one more was answered {answer}")
    for kind, name in (("exchange", "amq.direct"), ("queue", "q")):
        answer = node.admin(PUBLISHER, do="describe", **{kind: name})
        if answer["bindings_count"] < BINDINGS_MAX - 2 or len(json.dumps(answer)) > DESCRIBED_BYTES_MAX:
            run.violation(f"{name} with {answer['bindings_count']} bindings is described in {len(str(answer))} bytes")


# and whether it is as users have them: then none is refused
BOUND_FAMILIES: tuple[tuple[Family, bool], ...] = (
    (users, True),
    (stars_everywhere, False),
    (of_many_connections, False),
    (hashes_and_rare_words, False),
    (prices, True),
    (around, True),
    (deep, True),
    (random_words, True),
)


# ---- hostile ones ---------------------------------------------------------------------------------------------------


def one_more_is_refused(run: Run) -> None:
    """Words and wildcards: as many as there may be are taken, one more is not, in a SUBSCRIBE and in a SEND."""
    for words, wildcards in ((TOPIC_WORDS_MAX, 0), (PATTERN_WILDCARDS_MAX + 1, PATTERN_WILDCARDS_MAX)):
        for more in (0, 1):
            of_wildcards = [run.chance.choice("*#") for _ in range(wildcards + more if wildcards else 0)]
            others = ["a"] * (words + more - len(of_wildcards))
            topic = "/topic/" + ".".join([*of_wildcards, *others])
            node = Node(seed=run.seed)
            node.open(1, 2)
            node.say(subscribe(1, topic, "auto"))
            refused = [node.is_refused(1)]
            if not wildcards:
                node.say(send(2, topic))
                refused.append(node.is_refused(2))
            if any(one != bool(more) for one in refused):
                run.violation(f"{topic} was {'taken' if more else 'refused'}: {words} words, {wildcards} wildcards")


def match_hostile_patterns(run: Run) -> None:
    one_more_is_refused(run)
    while not run.is_over:
        for family, most_ms in HOSTILE.items():
            try_family(run, family, PUBLISHES // 10, most_ms, HOSTILE_PATTERNS)
            run.case()


# ---- how many one connection may have -------------------------------------------------------------------------------


def subscribe_too_much(run: Run) -> None:
    subscribe_for_real(run)
    run.case()
    while not run.is_over:
        subscribe_in_all_kinds(run)
        run.case()


def subscribe_in_all_kinds(run: Run) -> None:
    """Up to the bound, with some that end in between; one more is refused; others may still subscribe."""
    most = run.chance.randrange(1, 12)
    node = Node(limits=Limits(max_subscriptions=most), seed=run.done)
    node.open(1, 2)
    there: list[str] = []
    for number in range(run.chance.randrange(most, 3 * most + 2)):
        if len(there) == most:
            node.say(unsubscribe(1, gone := there.pop(run.chance.randrange(most))))
            assert not node.is_refused(1), f"the end of {gone} was refused"
        kind = run.chance.choice(("/queue/", "/topic/", "/topic/*.", "/topic/#.")) + str(number)
        node.say(subscribe(1, kind))
        if node.is_refused(1):
            run.violation(
                f"seed {run.seed}, case {run.done}: with {len(there)} of {most} subscriptions {kind} was refused"
            )
        there.append(kind)
    while len(there) < most:
        there.append(f"/topic/more{len(there)}")
        node.say(subscribe(1, there[-1]))
    node.say(subscribe(1, run.chance.choice(("/queue/one.more", "/topic/one.*", "/topic/one", "/temp-queue/one"))))
    codes = [reply.code for reply in node.take(1) if isinstance(reply, Refuse)]
    if codes != ["too-many-subscriptions"]:
        run.violation(f"seed {run.seed}, case {run.done}: {most + 1} subscriptions on a connection, answered {codes}")
    node.say(subscribe(2, "/topic/other"))
    if node.is_refused(2):
        run.violation(f"seed {run.seed}, case {run.done}: another connection was refused too")


def subscribe_for_real(run: Run) -> None:
    """The default is 1024; and what as many of the longest names take of memory."""
    with BrokerProcess(run.directory) as broker, Wire((broker.host, broker.port)) as wire:
        wire.connect()
        before = memory_bytes(broker.pid)
        for number in range(1024):
            words = ".".join(run.chance.randbytes(7).hex() for _ in range(TOPIC_WORDS_MAX - 1))
            wire.send_frame("SUBSCRIBE", {"id": str(number), "destination": f"/topic/{words}.*"})
        wire.fence()
        each = (memory_bytes(broker.pid) - before) // 1024
        run.figures["bytes a subscription, longest"] = each
        assert each < BYTES_A_SUBSCRIPTION_MAX, f"a subscription takes {each} bytes"
        wire.send_frame("SUBSCRIBE", {"id": "one more", "destination": "/topic/one.more", "receipt": "r"})
        refusal = wire.read_frame()
        assert refusal.command == "ERROR" and b"max_subscriptions" in refusal.body, refusal


CAMPAIGNS = (
    Campaign(
        number="S9",
        name="patterns",
        title="very many patterns, as users have them: what matches, and what a publish costs",
        unit="sets of patterns",
        run=match_patterns,
        cases=(5, 10, 100),
        mutants=("topic-matching-linear", "hash-takes-no-words", "star-is-optional"),
        mutant_cases=5,
    ),
    Campaign(
        number="S9d",
        name="bindings",
        title="100,000 bindings, as users have them and hostile ones: what matches, and what a SEND costs",
        unit="sets of bindings",
        run=match_bindings,
        is_timed=True,
        cases=(2, 8, 80),
        mutants=("topic-matching-linear",),
        mutant_cases=1,
        limit_s=(120, 1200, 3 * 3600),
    ),
    Campaign(
        number="S9b",
        name="hostile-patterns",
        title="patterns and topics that are made to be dear to match",
        unit="sets of patterns",
        run=match_hostile_patterns,
        cases=(2, 2, 6),
        mutants=("words-without-bound",),
        mutant_cases=3,
    ),
    Campaign(
        number="S9c",
        name="subscriptions",
        title="subscribes in all kinds up to the bound of a connection, and once more",
        unit="connections",
        run=subscribe_too_much,
        cases=(300, 30_000, 500_000),
        mutants=("subscription-limit-off-by-one", "topics-are-free-of-the-bound"),
        mutant_cases=60,
        needs=("linux",),
    ),
)
