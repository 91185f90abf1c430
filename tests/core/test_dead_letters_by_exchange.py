"""Dead letters that go to an exchange: where they come to, what they say of their deaths, and when that ends."""

import json

import pytest

from radiator.core.dead_letters import NOTED_EVERY_S, TARGETS_MAX
from radiator.core.routing import ways
from radiator.model.headers import X_DEATH
from radiator.model.limits import DEATHS_BYTES, DEATHS_MAX, Limits
from radiator.model.replies import Deliver
from radiator.model.settings import JOURNAL, Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.core.node import Node
from tests.core.words import ack, nack, queues, send, subscribe

BOTH = pytest.mark.parametrize("persistent", [True, False])


def declared(bindings: list[tuple[str, str, str]], type_: str = "direct", **settings: QueueSettings) -> Declarations:
    """Those queues, others by first use, and the exchange `dlx`."""
    found = queues(**settings)
    found.create_queues = True
    found.exchanges = {"dlx": ExchangeSettings(type=type_)}
    found.bindings = [Binding(*one) for one in bindings]
    for _, _, name in bindings:
        found.queues.setdefault(name, QueueSettings())
    return found


def retrying(persistent: bool = True) -> Declarations:
    """What everybody has with RabbitMQ: what a worker rejects waits in `retry`, and comes back."""
    work = QueueSettings(persistent=persistent, dead_letter_exchange="dlx", dead_letter_key="retry")
    retry = QueueSettings(persistent=persistent, message_ttl_ms=5000, dead_letter_exchange="", dead_letter_key="work")
    return declared([("dlx", "retry", "retry")], work=work, retry=retry)


def deaths(deliver: Deliver) -> list[dict[str, object]]:
    value = deliver.message.field(X_DEATH)
    found: list[dict[str, object]] = json.loads(value or b"[]")
    return found


def dying(node: Node, *sends: str) -> None:
    """Messages to these, rejected by a consumer of `q`."""
    node.open(1, 2)
    node.say(subscribe(2, "q"))
    for address in sends:
        node.say(send(1, address, b"body"))
        node.say(nack(node.message(2), requeue=False))


@BOTH
def test_dead_letter_goes_to_the_exchange_with_its_key(persistent: bool) -> None:
    node = Node(
        declared(
            [("dlx", "k", "dead")],
            q=QueueSettings(persistent=persistent, dead_letter_exchange="dlx", dead_letter_key="k"),
        )
    )
    dying(node, "q")
    node.say(subscribe(1, "dead"))
    message = node.message(1).message
    assert message.destination == "/exchange/dlx/k" and message.body == b"body"
    assert message.headers == (
        b"dead-letter-reason:rejected\noriginal-destination:/queue/q\n"
        b"original-message-id:feedfacecafebeef-1-1\nredelivery-count:0\n"
        b'x-death:[{"queue"\\c"q","reason"\\c"rejected","count"\\c1,"exchange"\\c"","routing-keys"\\c["q"],'
        b'"time"\\c1700000000,"first"\\ctrue}]\n'
    )
    assert node.numbers("q")["dead_lettered"] == 1 and node.numbers("q")["messages"] == 0


@BOTH
def test_dead_letter_goes_on_through_exchanges_that_are_bound_and_to_an_alternate(persistent: bool) -> None:
    found = declared(
        [
            ("dlx", "k", "/exchange/second"),
            ("second", "*", "/exchange/inner"),
            ("inner", "k", "dead"),
            ("alt", "", "rest"),
        ],
        q=QueueSettings(persistent=persistent, dead_letter_exchange="dlx"),
        p=QueueSettings(persistent=persistent, dead_letter_exchange="dlx", dead_letter_key="other"),
    )
    found.queues.pop("/exchange/second"), found.queues.pop("/exchange/inner")
    found.exchanges = {
        "dlx": ExchangeSettings(alternate="alt"),
        "second": ExchangeSettings(type="topic"),
        "inner": ExchangeSettings(internal=True),
        "alt": ExchangeSettings(type="fanout"),
    }
    found.bindings += [Binding("amq.topic", "#", "q"), Binding("amq.fanout", "", "p")]
    node = Node(found)
    dying(node, "/exchange/amq.topic/k")
    assert [len(node.stored(name)) for name in ("dead", "rest")] == [1, 0]
    node.say(subscribe(2, "p"), send(1, "p", b"body"))
    node.say(nack(node.messages(2)[-1], requeue=False))
    assert [len(node.stored(name)) for name in ("dead", "rest")] == [1, 1]
    assert node.numbers("q")["dead_lettered"] == node.numbers("p")["dead_lettered"] == 1


@BOTH
def test_dead_letter_goes_by_its_headers(persistent: bool) -> None:
    found = declared(
        [("dlx", '{"format":"pdf"}', "pdf"), ("dlx", '{"format":"doc"}', "doc")],
        "headers",
        q=QueueSettings(persistent=persistent, dead_letter_exchange="dlx", dead_letter_key="k"),
    )
    node = Node(found)
    node.open(1, 2)
    node.say(subscribe(2, "q"), send(1, "q", b"body", headers=b"format:pdf\n"))
    node.say(nack(node.message(2), requeue=False))
    assert [len(node.stored(name)) for name in ("pdf", "doc")] == [1, 0]


def test_dead_letter_that_would_go_through_too_many_exchanges_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ways, "VISITED_MAX", 1)
    found = declared(
        [("dlx", "k", "/exchange/dlx2"), ("dlx2", "k", "dead")], q=QueueSettings(dead_letter_exchange="dlx")
    )
    found.queues.pop("/exchange/dlx2")
    found.exchanges["dlx2"] = ExchangeSettings()
    found.bindings.append(Binding("amq.topic", "#", "q"))
    node = Node(found)
    dying(node, "/exchange/amq.topic/k")
    assert not node.stored("dead") and node.numbers("q")["messages"] == 0
    assert [note.fields["reason"] for note in node.notes if note.event == "dead_letter_dropped"] == ["unrouted"]


def test_without_a_key_the_message_keeps_its_own() -> None:
    node = Node(
        declared(
            [("amq.topic", "orders.#", "q"), ("dlx", "orders.eu", "eu"), ("dlx", "q", "direct")],
            q=QueueSettings(dead_letter_exchange="dlx"),
        )
    )
    dying(node, "/exchange/amq.topic/orders.eu", "q")
    assert (node.numbers("eu")["messages"], node.numbers("direct")["messages"]) == (1, 1)
    node.say(subscribe(1, "eu"))
    deliver = node.message(1)
    assert deliver.message.destination == "/exchange/dlx/orders.eu"
    assert [(one["exchange"], one["routing-keys"]) for one in deaths(deliver)] == [("amq.topic", ["orders.eu"])]


@pytest.mark.durability("D9")
def test_dead_letter_comes_to_all_queues_in_the_batch_that_removes_it() -> None:
    node = Node(
        declared(
            [("dlx", "", "a"), ("dlx", "", "b"), ("dlx", "", "c")],
            "fanout",
            q=QueueSettings(dead_letter_exchange="dlx"),
        )
    )
    node.open(1)
    node.say(send(1, "q"), subscribe(1, "q"))
    deliver = node.message(1)
    node.auto = False
    node.say(nack(deliver, b"r", requeue=False))
    batch = node.broker.seal()
    assert batch is not None
    written = [type(word).__name__ for word in batch.writes]
    assert written == ["Put"] * 3 + ["Remove"] + ["SaveLedger"] * 4
    assert node.receipts(1) == []


@pytest.mark.parametrize(
    ("exchange", "key"), [("dlx", "unbound"), ("nowhere", "k"), ("", "nowhere"), ("amq.topic", "a." * 200)]
)
def test_what_leads_nowhere_is_dropped_and_counted(exchange: str, key: str) -> None:
    settings = QueueSettings(dead_letter_exchange=exchange, dead_letter_key=key)
    node = Node(declared([("dlx", "k", "dead")], q=settings))
    dying(node, "q", "q")
    numbers = node.numbers("q")
    assert (numbers["dropped"], numbers["dead_lettered"], numbers["messages"]) == (2, 0, 0) and numbers["adds_up"]
    assert node.stats()["counters"]["dead_letters_dropped"] == 2 and not node.has("nowhere")
    notes = [note.fields for note in node.notes if note.event == "dead_letter_dropped"]
    assert notes == [{"queue": "q", "exchange": exchange, "key": key, "reason": "unrouted"}]


def test_drops_are_logged_again_after_a_while() -> None:
    node = Node(declared([], q=QueueSettings(dead_letter_exchange="nowhere")))
    dying(node, "q")
    for wait_s, logged in ((NOTED_EVERY_S - 1, 1), (1.0, 2)):
        node.wait(wait_s)
        node.say(send(1, "q"))
        node.say(nack(node.message(2), requeue=False))
        assert len([note for note in node.notes if note.event == "dead_letter_dropped"]) == logged


@BOTH
def test_retry_cycle_goes_on_for_ever(persistent: bool) -> None:
    node = Node(retrying(persistent))
    node.open(1, 2)
    node.say(subscribe(2, "work"), send(1, "work", b"job"))
    for _ in range(DEATHS_MAX + 3):
        node.say(nack(node.message(2), requeue=False))
        assert node.numbers("retry")["messages"] == 1
        node.wait(5)
    deliver = node.message(2)
    assert [(one["queue"], one["reason"], one["count"]) for one in deaths(deliver)] == [
        ("retry", "expired", DEATHS_MAX + 3),
        ("work", "rejected", DEATHS_MAX + 3),
    ]
    assert [one.get("first") for one in deaths(deliver)] == [None, True]
    assert deaths(deliver)[0]["exchange"] == "dlx" and deaths(deliver)[0]["routing-keys"] == ["retry"]
    assert deliver.message.destination == "/queue/work" and deliver.message.body == b"job"
    node.say(ack(deliver))
    assert node.numbers("work")["messages"] == node.numbers("retry")["messages"] == 0


@BOTH
def test_message_that_nobody_rejects_does_not_go_round(persistent: bool) -> None:
    declarations = retrying(persistent)
    declarations.queues["work"].message_ttl_ms = 1000
    node = Node(declarations)
    node.open(1)
    node.say(send(1, "work"))
    node.wait(1)
    assert node.numbers("retry")["messages"] == 1
    node.wait(5)
    assert node.numbers("retry")["messages"] == node.numbers("work")["messages"] == 0
    assert node.numbers("retry")["dropped"] == 1 and node.numbers("work")["dead_lettered"] == 1
    assert [note.fields["reason"] for note in node.notes if note.event == "dead_letter_dropped"] == ["cycle"]


def test_queue_that_leads_to_itself_lets_go_of_what_is_too_much() -> None:
    settings = QueueSettings(
        max_messages=2, overflow="dead-letter", dead_letter_exchange="", dead_letter_key="q", max_redeliveries=0
    )
    node = Node(declared([], q=settings))
    node.open(1, 2)
    for body in (b"1", b"2", b"3"):
        node.say(send(1, "q", body))
    assert node.stored("q") == [b"2", b"3"] and node.numbers("q")["dropped"] == 1
    node.say(subscribe(2, "q", prefetch_count=1))
    node.say(nack(node.message(2), requeue=False))
    assert node.stored("q") == [b"3", b"2"] and node.numbers("q")["dead_lettered"] == 1
    node.say(nack(node.message(2)))  # come back too often: nobody has rejected it
    assert node.stored("q") == [b"2"] and node.numbers("q")["dropped"] == 2


def test_message_goes_round_neither_by_an_exchange_and_a_dead_letter_queue_in_turns() -> None:
    node = Node(
        declared(
            [("dlx", "k", "b")],
            a=QueueSettings(message_ttl_ms=1000, dead_letter_exchange="dlx", dead_letter_key="k"),
            b=QueueSettings(message_ttl_ms=1000, dead_letter="a"),
        )
    )
    node.open(1)
    node.say(send(1, "a"))
    for _ in range(4):
        node.wait(1)
    assert node.stored("a") == node.stored("b") == [] and node.numbers("a")["dropped"] == 1
    assert node.numbers("a")["accepted"] == 2


def test_message_that_died_in_too_many_places_goes_no_further() -> None:
    names = [f"q{number:02}" for number in range(DEATHS_MAX + 2)]
    settings = {
        name: QueueSettings(message_ttl_ms=1000, dead_letter_exchange="", dead_letter_key=after)
        for name, after in zip(names, [*names[1:], names[0]], strict=True)
    }
    node = Node(declared([], **settings))
    node.open(1)
    node.say(send(1, names[0]))
    for _ in range(DEATHS_MAX + 5):
        node.wait(1)
    dropped = [name for name in names if node.numbers(name)["dropped"]]
    assert dropped == [names[DEATHS_MAX]]  # a cycle of more queues than it remembers would never be seen
    assert sum(node.numbers(name)["messages"] for name in names) == 0


def test_dead_letter_goes_into_so_many_queues_and_no_more() -> None:
    bindings = [("dlx", "", f"d{number:03}") for number in range(TARGETS_MAX + 1)]
    node = Node(declared(bindings, "fanout", q=QueueSettings(dead_letter_exchange="dlx")))
    dying(node, "q")
    assert sum(node.numbers(name)["messages"] for _, _, name in bindings) == TARGETS_MAX
    notes = [note.fields for note in node.notes if note.event == "dead_letter_cut"]
    assert [(one["queues"], one["reached"]) for one in notes] == [(TARGETS_MAX + 1, TARGETS_MAX)]


def test_copies_of_one_dead_letter_are_within_a_batch() -> None:
    bindings = [("dlx", "", f"d{number}") for number in range(8)]
    limits = Limits(max_batch_bytes=4096)
    node = Node(declared(bindings, "fanout", q=QueueSettings(dead_letter_exchange="dlx")), limits)
    node.open(1, 2)
    node.say(subscribe(2, "q"), send(1, "q", b"x" * 1000))
    node.say(nack(node.message(2), requeue=False))
    assert sum(node.numbers(name)["messages"] for _, _, name in bindings) == 3


def test_subscription_to_the_exchange_gets_it_once_it_is_on_the_disk() -> None:
    node = Node(declared([], q=QueueSettings(dead_letter_exchange="dlx", dead_letter_key="k")))
    node.open(1, 2, 3)
    node.say(subscribe(3, "/exchange/dlx/k"), subscribe(2, "q"), send(1, "q", b"body"))
    deliver = node.message(2)
    node.auto = False
    node.say(nack(deliver, requeue=False))
    assert node.messages(3) == []
    node.seal()
    node.commit()
    node.auto = True
    node.wait(0)
    assert node.bodies(3) == [b"body"]


def test_dead_letter_becomes_a_record_of_a_log() -> None:
    declarations = declared([], q=QueueSettings(dead_letter_exchange="dlx", dead_letter_key="k"))
    node = Node(declarations)
    node.open(1, 2)
    node.admin(1, do="declare", log="failed")
    node.admin(1, do="bind", exchange="dlx", key="k", queue="/log/failed")
    node.say(subscribe(2, "q"), send(1, "q", b"body"))
    node.say(nack(node.message(2), requeue=False))
    assert node.admin(1, do="why", log="failed")["records"] == 1


@pytest.mark.parametrize("target", [QueueSettings(max_messages=1, overflow="reject"), QueueSettings(persistent=False)])
def test_bound_of_a_queue_does_not_hold_its_dead_letters_back(target: QueueSettings) -> None:
    settings = QueueSettings(dead_letter_exchange="dlx", dead_letter_key="k")
    node = Node(declared([("dlx", "k", "dead")], q=settings, dead=target))
    dying(node, "q", "q", "q")
    assert node.numbers("dead")["messages"] == 3


def test_line_of_deaths_has_a_bound() -> None:
    names = ["\\" * 120 + f"{number}" for number in range(60)]
    settings = {
        name: QueueSettings(dead_letter_exchange="", dead_letter_key=after)
        for name, after in zip(names, names[1:], strict=False)
    }
    node = Node(declared([], **settings | {names[-1]: QueueSettings()}))
    node.open(1, 2)
    node.say(send(1, names[0]))
    for name in names[:-1]:
        node.say(subscribe(2, name))
        node.say(nack(node.message(2), requeue=False))
    node.say(subscribe(1, names[-1]))
    deliver = node.message(1)
    line = next(line for line in deliver.message.headers.split(b"\n") if line.startswith(b"x-death:"))
    assert DEATHS_BYTES // 2 < len(line) < DEATHS_BYTES
    there = deaths(deliver)
    assert there[0]["queue"] == names[-2] and there[-1]["queue"] == names[0] and there[-1]["first"]


def test_dead_letters_by_an_exchange_are_still_there_after_a_crash() -> None:
    node = Node(retrying())
    node.open(1, 2)
    node.say(subscribe(2, "work"), send(1, "work", b"job", b"r"))
    node.say(nack(node.message(2), b"n", requeue=False))
    node = node.crashed()
    assert node.stored("retry") == [b"job"] and node.stored("work") == []
    node.wait(5)
    node.open(2)
    node.say(subscribe(2, "work"))
    assert [one["count"] for one in deaths(node.message(2))] == [1, 1]


def test_story_tells_of_every_queue_that_got_it_and_of_what_was_dropped() -> None:
    declarations = declared([], q=QueueSettings(dead_letter_exchange="dlx", dead_letter_key="k"))
    declarations.logs, declarations.has_journal = {JOURNAL: LogSettings()}, True
    node = Node(declarations)
    node.open(1, 2)
    for queue in ("a", "b"):
        node.admin(1, do="declare", queue=queue)
        assert node.admin(1, do="bind", exchange="dlx", key="k", queue=queue)["ok"]
    node.say(subscribe(2, "q"), send(1, "q"))
    deliver = node.message(2)
    sent = deliver.message_id.decode()
    node.say(nack(deliver, requeue=False))
    events = node.admin(1, do="explain", message=sent)["events"]
    assert [(one["event"], one["queue"]) for one in events] == [
        ("accepted", "q"),
        ("delivered", "q"),
        ("nacked", "q"),
        ("accepted", "a"),
        ("accepted", "b"),
        ("dead-lettered", "q"),
    ]
    dead = events[-1]
    assert (dead["other_queue"], dead["other_id"], dead["address"]) == ("a", events[3]["message_id"], "/exchange/dlx/k")
    assert events[3]["other_id"] == events[4]["other_id"] == sent
    for queue in ("a", "b"):
        assert node.admin(1, do="unbind", exchange="dlx", key="k", queue=queue)["ok"]
    node.say(send(1, "q"))
    dropped = node.message(2)
    node.say(nack(dropped, requeue=False))
    events = node.admin(1, do="explain", message=dropped.message_id.decode())["events"]
    assert (events[-1]["event"], events[-1]["reason"]) == ("dropped", "unrouted")


def test_dead_letters_go_back_to_the_queue_where_they_died_without_their_deaths() -> None:
    node = Node(
        declared(
            [("dlx", "k", "dead")],
            q=QueueSettings(dead_letter_exchange="dlx", dead_letter_key="k"),
        )
    )
    dying(node, "q")
    answer = node.admin(1, do="return", queue="dead")
    assert answer["returned"] == 1 and answer["to"] == {"q": 1}
    message = node.message(2).message
    assert message.headers == b"" and message.destination == "/queue/q"


def test_only_what_dead_letters_end_in_needs_somebody() -> None:
    declarations = retrying()
    declarations.queues["failing"] = QueueSettings(dead_letter_exchange="", dead_letter_key="failed")
    declarations.queues["failed"] = QueueSettings()
    node = Node(declarations)
    node.open(1)
    for name in ("work", "retry", "failed"):
        node.say(send(1, name))
    needing = {one["name"]: one["verdict"] for one in node.admin(1, do="attention")["items"]}
    assert needing["failed"] == "dead-letters" and "dead-letters" not in (needing.get("work"), needing.get("retry"))


def test_while_the_disk_is_nearly_full_a_dead_letter_goes_into_one_queue() -> None:
    bindings = [("dlx", "", "a"), ("dlx", "", "b")]
    node = Node(declared(bindings, "fanout", q=QueueSettings(dead_letter_exchange="dlx")))
    node.open(1, 2)
    node.say(subscribe(2, "q"), send(1, "q"))
    node.broker.parts.admission.disk_wait_list.is_tight = True
    node.say(nack(node.message(2), requeue=False))
    assert (node.numbers("a")["messages"], node.numbers("b")["messages"]) == (1, 0)
