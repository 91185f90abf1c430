"""What users have in use, and each bound of it: at the bound, and one past it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from radiator.core.rights import Rights
from radiator.core.stats import listed
from radiator.core.usage import Usage
from radiator.model.addresses import EXCHANGE, FANOUT, LOG, QUEUE
from radiator.model.administration import USERS
from radiator.model.commands import Administer, Closed, Open, Reread, Unsubscribe
from radiator.model.headers import ESCAPING_ALL
from radiator.model.numbers import PAUSE
from radiator.model.principal import Principal, RecognisedBy, node_principal, unix_principal
from radiator.model.replies import Deliver, Receipt, Refuse
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import Config, Declarations, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.users import User, UserBounds
from radiator.protocols.administration import JSON
from tests.core.node import Node
from tests.core.words import ack, begin, commit, send, subscribe, unsubscribe

TICK_S = 0.25
ANN, BOB = (Principal(name, RecognisedBy.TOKEN) for name in ("ann", "bob"))
DECLARED = Declarations(create_queues=True, create_topics=True, queues={"kept": QueueSettings()})


def users(**bounds: Any) -> dict[str, User]:
    """Of ann; bob has none."""
    return {
        "ann": User(name="ann", rules=Rules(role=OPERATOR), bounds=UserBounds(**bounds)),
        "bob": User(name="bob", rules=Rules(role=OPERATOR)),
    }


def node_of(platter: Any = None, **bounds: Any) -> Node:
    return Node(replace(DECLARED), platter=platter, authorizer=Rights(users(**bounds), 1000))


def join(node: Node, number: int, principal: Principal = ANN) -> None:
    node.inbox[number], node.delivers[number] = [], 0
    node.turn([Open(number, principal=principal)])


def usage(node: Node, name: str = "ann") -> Usage:
    return node.broker.parts.usages.all[name]


def refused(node: Node, number: int) -> str:
    """The one sentence that the connection was refused with; "": it was not."""
    found = [reply.sentence for reply in node.take(number) if isinstance(reply, Refuse)]
    assert len(found) <= 1
    return found[0] if found else ""


def reload(node: Node, **bounds: Any) -> None:
    config = Config(data_dir=Path("/d"), disk_free_min=0, declarations=replace(DECLARED), users=users(**bounds))
    node.turn([Reread(config)])


def ask(number: int, body: str) -> Administer:
    return Administer(number, body.encode(), JSON, ESCAPING_ALL)


# ---- whose it is ----------------------------------------------------------------------------------------------------


def test_who_is_no_user_is_not_counted() -> None:
    node = node_of(max_connections=1)
    for number, principal in enumerate((unix_principal(0, 0), unix_principal(1000, 0), node_principal("ann")), 1):
        join(node, number, principal)
        assert node.broker.connections[number].usage is None
    assert node.broker.parts.usages.all == {}


def test_without_users_nobody_is_counted() -> None:
    node = Node(replace(DECLARED))
    node.open(1)
    node.say(send(1, "q"))
    assert node.broker.connections[1].usage is None and node.broker.destinations.queues.all["q"].maker is None


# ---- connections ----------------------------------------------------------------------------------------------------


def test_connections_at_the_bound_and_one_past_it() -> None:
    node = node_of(max_connections=2)
    for number in (1, 2, 3):
        join(node, number)
    join(node, 4, BOB)
    assert [refused(node, number) for number in (1, 2, 4)] == ["", "", ""]
    assert refused(node, 3) == "The user ann has 2 connections already: max_connections of that user is 2."
    node.turn([Closed(3)])
    assert usage(node).numbers().connections == 2
    node.turn([Closed(1)])
    join(node, 5)
    assert refused(node, 5) == ""


def test_a_lower_bound_closes_nobody_and_lets_nobody_in() -> None:
    node = node_of()
    for number in (1, 2, 3):
        join(node, number)
    reload(node, max_connections=2)
    assert not any(refused(node, number) for number in (1, 2, 3))
    node.turn([Closed(1)])
    join(node, 4)
    assert "max_connections of that user is 2" in refused(node, 4)
    node.turn([Closed(2), Closed(4)])
    join(node, 5)
    assert refused(node, 5) == ""


def test_nothing_is_left_of_who_has_gone() -> None:
    node = node_of(max_connections=2)
    join(node, 1)
    node.turn([Closed(1)])
    node.wait(TICK_S)
    join(node, 2, BOB)
    node.turn([Closed(2)])
    assert node.broker.parts.usages.all == {}


# ---- subscriptions --------------------------------------------------------------------------------------------------


def test_subscriptions_of_all_connections_at_the_bound_and_one_past_it() -> None:
    node = node_of(max_subscriptions=3)
    join(node, 1)
    join(node, 2)
    node.say(subscribe(1, "kept"), subscribe(2, "/topic/a"), subscribe(2, "/topic/b"))
    assert not refused(node, 1) and not refused(node, 2)
    node.say(subscribe(2, "/topic/c"))
    assert refused(node, 2) == "The user ann has 3 subscriptions already: max_subscriptions of that user is 3."


def test_subscriptions_that_have_ended_do_not_count() -> None:
    node = node_of(max_subscriptions=2)
    join(node, 1)
    for _ in range(5):
        node.say(subscribe(1, "/topic/a"), subscribe(1, "kept"), unsubscribe(1, "/topic/a"), unsubscribe(1, "kept"))
    assert not refused(node, 1)
    node.say(subscribe(1, "/topic/a"))
    for _ in range(2):
        node.wait(TICK_S)
    assert usage(node).numbers().subscriptions == 1


def test_subscriptions_of_idle_connections_count_until_they_are_gone() -> None:
    node = node_of()
    for number in (1, 2):
        join(node, number)
        node.say(subscribe(number, "/topic/a"), subscribe(number, "/topic/b"))
    for _ in range(3):
        node.wait(TICK_S)
        assert usage(node).numbers().subscriptions == 4
    assert all(node.broker.connections[number].is_idle for number in (1, 2))
    node.say(unsubscribe(1, "/topic/b"))
    node.wait(TICK_S)
    assert usage(node).numbers().subscriptions == 3
    node.wait(TICK_S)
    node.close(2)
    node.wait(TICK_S)
    assert usage(node).numbers().subscriptions == 1


# ---- destinations ---------------------------------------------------------------------------------------------------

DECLARE = [
    '{"do": "declare", "queue": "q"}',
    '{"do": "declare", "exchange": "x", "type": "direct"}',
    '{"do": "declare", "fanout": "f", "children": ["kept"]}',
    '{"do": "declare", "log": "l", "partitions": 3}',
]


def make_one_of_each(node: Node) -> None:
    for text in DECLARE:
        node.say(ask(1, text))
    node.say(subscribe(1, "/topic/a", durable=True))
    node.say(send(1, "first"))


def test_what_a_user_has_made_counts_until_it_is_deleted() -> None:
    node = node_of(max_destinations=8)
    join(node, 1)
    make_one_of_each(node)
    assert not refused(node, 1) and usage(node).destinations == 8
    node.say(send(1, "one.more"))
    assert refused(node, 1) == "The user ann has made 8 destinations that exist: max_destinations of that user is 8."
    join(node, 2, BOB)
    node.say(send(2, "one.more"), send(2, "kept"))
    assert not refused(node, 2)
    for kind, name, left in ((QUEUE, "q", 7), (EXCHANGE, "x", 6), (FANOUT, "f", 5), (LOG, "l", 2), (QUEUE, "first", 1)):
        node.say(ask(2, f'{{"do": "delete", "{kind}": "{name}"}}'))
        assert usage(node).destinations == left
    node.say(Unsubscribe(2, b"/topic/a", None, destination="/topic/a", durable=True))


def test_a_topic_is_made_by_nobody() -> None:
    node = node_of(max_destinations=0)
    join(node, 1)
    node.say(subscribe(1, "/topic/a"), send(1, "/topic/b"))
    assert not refused(node, 1)
    node.say(subscribe(1, "/topic/a", durable=True, name=b"d"))
    assert "max_destinations of that user is 0" in refused(node, 1)


def test_what_a_user_has_made_counts_after_a_restart_too() -> None:
    node = node_of()
    join(node, 1)
    make_one_of_each(node)
    for stopped in (False, True):
        if stopped:
            node.stop()
        node = node_of(node.disk.platter, max_destinations=8)
        assert usage(node).destinations == 8
        join(node, 1)
        node.say(send(1, "one.more"))
        assert "max_destinations of that user is 8" in refused(node, 1)
    settings = node.broker.destinations.queues.all["q"]
    assert settings.given == "" and usage(node).name == "ann"


def test_settings_declared_at_run_time_stay_beside_who_has_made_it() -> None:
    node = node_of()
    join(node, 1)
    node.say(ask(1, '{"do": "declare", "queue": "q", "max_messages": 7}'))
    again = node_of(node.disk.platter)
    queue = again.broker.destinations.queues.all["q"]
    assert queue.settings.max_messages == 7 and queue.given == '{"max_messages": 7}'
    assert queue.maker is usage(again)


def test_a_queue_of_the_configuration_is_nobodys() -> None:
    node = node_of(max_destinations=0)
    join(node, 1)
    node.say(send(1, "kept"))
    assert not refused(node, 1) and usage(node).destinations == 0


def test_declaring_what_is_there_makes_nothing() -> None:
    node = node_of(max_destinations=1)
    join(node, 1)
    node.say(ask(1, DECLARE[0]), ask(1, DECLARE[0]))
    assert not refused(node, 1) and usage(node).destinations == 1


def test_who_has_asked_is_forgotten_with_the_turn() -> None:
    """What config.toml declares later in a reload is nobody's."""
    node = node_of()
    join(node, 1)
    node.say(send(1, "q"))
    assert node.broker.parts.usages.acting is None
    config = Config(data_dir=Path("/d"), declarations=replace(DECLARED, queues={"new": QueueSettings()}), users=users())
    node.turn([*node.written(), Reread(config)])
    assert node.broker.destinations.queues.all["new"].maker is None


# ---- unacked --------------------------------------------------------------------------------------------------------


def test_unacked_bytes_of_all_connections_at_the_bound_and_one_past_it() -> None:
    node = node_of(max_unacked_bytes=30)
    join(node, 1)
    join(node, 2)
    join(node, 3, BOB)
    for number in (1, 2, 3):
        node.say(subscribe(number, "kept", prefetch_count=100))
    node.say(*(send(3, "kept", b"x" * 10) for _ in range(9)))
    node.turn([])
    given = {number: node.messages(number) for number in (1, 2, 3)}
    assert len(given[1]) + len(given[2]) == 3 and len(given[3]) == 6
    assert usage(node).unacked_bytes == 30
    node.say(*(send(3, "kept", b"y") for _ in range(3)))
    assert not node.messages(1) and not node.messages(2) and len(node.messages(3)) == 3


@pytest.mark.parametrize("prefetch", [None, 100])
def test_what_was_denied_comes_when_less_is_unacked(prefetch: int | None) -> None:
    node = node_of(max_unacked_bytes=10)
    for number in (1, 2):
        join(node, number)
        node.say(subscribe(number, "kept", prefetch_count=prefetch))
    join(node, 3, BOB)
    node.say(*(send(3, "kept", b"x" * 10) for _ in range(6)))
    seen = 0
    for _ in range(6):
        found = [one for number in (1, 2) for one in node.messages(number)]
        assert len(found) == 1 and usage(node).unacked_bytes == 10
        seen += 1
        node.say(ack(found[0]))
    assert seen == 6 and usage(node).unacked_bytes == 0 and not node.broker.parts.usages.resuming


def test_unacked_bytes_go_with_their_connection() -> None:
    node = node_of(max_unacked_bytes=10)
    for number in (1, 2):
        join(node, number)
        node.say(subscribe(number, "kept", prefetch_count=9))
    node.say(send(1, "kept", b"x" * 10), send(1, "kept", b"y" * 10))
    holder, other = (1, 2) if node.messages(1) else (2, 1)
    node.turn([Closed(holder)])
    node.delivers.pop(holder)
    assert len(node.messages(other)) == 1 and usage(node).unacked_bytes == 10


def test_unacked_of_a_deleted_queue_are_gone_with_their_connection() -> None:
    node = node_of()
    join(node, 1)
    join(node, 2)
    node.say(subscribe(1, "q", prefetch_count=9), send(1, "q", b"x" * 10))
    node.say(ask(2, '{"do": "delete", "queue": "q"}'))
    node.close(1)
    assert usage(node).unacked_bytes == 0


def test_auto_acked_messages_are_never_unacked() -> None:
    node = node_of(max_unacked_bytes=1)
    join(node, 1)
    node.say(subscribe(1, "kept", ack="auto"), *(send(1, "kept", b"x" * 10) for _ in range(3)))
    assert len(node.messages(1)) == 3 and usage(node).unacked_bytes == 0


def test_a_higher_bound_gives_at_once() -> None:
    node = node_of(max_unacked_bytes=10)
    join(node, 1)
    node.say(subscribe(1, "kept", prefetch_count=9), *(send(1, "kept", b"x" * 10) for _ in range(3)))
    assert len(node.messages(1)) == 1
    reload(node, max_unacked_bytes=20)
    assert len(node.messages(1)) == 1
    reload(node)
    assert len(node.messages(1)) == 1


# ---- memory ---------------------------------------------------------------------------------------------------------


def fill(node: Node, number: int, size: int) -> None:
    """An open transaction holds what is sent in it."""
    node.say(begin(number), send(number, "kept", b"x" * size, transaction=b"t"))


def test_memory_of_all_connections_at_the_bound_and_one_past_it() -> None:
    node = node_of()
    for number in (1, 2):
        join(node, number)
    join(node, 3, BOB)
    fill(node, 1, 20_000)
    fill(node, 2, 10_000)
    fill(node, 3, 90_000)
    node.wait(TICK_S)
    held = usage(node).memory_bytes
    assert 30_000 < held < 32_000
    reload(node, max_memory_bytes=held)
    node.wait(TICK_S)
    assert not any(refused(node, number) for number in (1, 2, 3))
    reload(node, max_memory_bytes=held - 1)
    node.wait(TICK_S)
    sentence = refused(node, 1)
    assert sentence.startswith(f"The connections of the user ann hold {held} bytes in memory (max_memory_bytes of that")
    assert not refused(node, 2) and not refused(node, 3)


# ---- stored ---------------------------------------------------------------------------------------------------------


def test_stored_bytes_at_the_bound_and_one_past_it() -> None:
    node = node_of(max_stored_bytes=30)
    join(node, 1)
    join(node, 2, BOB)
    node.say(send(1, "a", b"x" * 10), send(1, "b", b"x" * 10))
    node.wait(TICK_S)
    assert usage(node).stored_bytes == 20
    node.say(send(2, "a", b"x" * 10))
    assert node.paused == set()
    for number, to in ((1, "a"), (2, "b")):
        node.say(send(number, to, b"y", b"r"))
    assert node.paused == {1, 2}
    join(node, 3)
    node.say(send(3, "kept", b"z" * 100))  # the configuration's
    assert node.paused == {1, 2}
    join(node, 4, BOB)
    node.say(subscribe(4, "a", prefetch_count=1))
    node.say(ack(node.messages(4)[0]))
    node.wait(TICK_S)
    assert node.paused == set() and usage(node).stored_bytes == 20
    node.wait(TICK_S)
    assert usage(node).stored_bytes == 22


def test_between_two_weighings_no_more_comes_than_the_bound() -> None:
    node = node_of(max_stored_bytes=100)
    join(node, 1)
    node.say(*(send(1, f"q{number % 3}", b"x" * 10) for number in range(50)))
    queues = node.broker.destinations.queues.all
    assert sum(queues[name].ledger.stored_bytes for name in ("q0", "q1", "q2")) == 100
    assert node.paused == {1}


def test_what_waits_for_stored_bytes_is_refused_in_the_end() -> None:
    node = node_of(max_stored_bytes=10)
    join(node, 1)
    node.say(send(1, "q", b"x" * 10), send(1, "q", b"y"))
    node.wait(node.limits.block_timeout_s)
    assert refused(node, 1) == (
        "No room for 60 s: what the user ann has made (max_stored_bytes 10 of that user) has none (block_timeout_s)."
    )


def test_one_larger_than_the_bound_is_refused_at_once() -> None:
    node = node_of(max_stored_bytes=10)
    join(node, 1)
    node.say(send(1, "q", b"x" * 11))
    assert refused(node, 1) == "This has 11 bytes: its creator, user ann, has max_stored_bytes = 10."


def test_a_transaction_is_stored_whole_or_waits() -> None:
    node = node_of(max_stored_bytes=20)
    join(node, 1)
    node.say(send(1, "q", b"x" * 10), begin(1))
    node.say(*(send(1, "q", b"x" * 6, transaction=b"t") for _ in range(2)), commit(1, b"t", b"done"))
    assert node.paused == {1} and node.broker.destinations.queues.all["q"].ledger.stored == 1
    join(node, 2, BOB)
    node.say(ask(2, '{"do": "purge", "queue": "q"}'))
    node.wait(TICK_S)
    assert node.paused == set() and Receipt(1, b"done") in node.take(1)


def test_records_of_a_log_that_a_user_has_made_are_stored_bytes() -> None:
    node = node_of(max_stored_bytes=100)
    join(node, 1)
    node.say(ask(1, DECLARE[3]))
    node.say(*(send(1, "/log/l", b"x" * 10) for _ in range(20)))
    node.wait(TICK_S)
    assert node.paused == {1} and usage(node).stored_bytes == 100


def test_who_waits_for_what_is_deleted_goes_on() -> None:
    node = node_of(max_stored_bytes=10)
    join(node, 1)
    join(node, 2, BOB)
    node.say(send(1, "q", b"x" * 10), send(2, "q", b"y"))
    assert node.paused == {2}
    node.say(ask(1, '{"do": "delete", "queue": "q"}'))
    node.turn([])
    assert node.paused == set()


# ---- the rate -------------------------------------------------------------------------------------------------------


def test_messages_a_second_of_all_connections() -> None:
    node = node_of(max_messages_per_s=8)
    for number in (1, 2):
        join(node, number)
    join(node, 3, BOB)
    for _ in range(5):
        node.say(send(1, "kept", receipt=b"r"), send(2, "kept", receipt=b"r"), send(3, "kept", receipt=b"r"))
    count = [len(node.take(number)) for number in (1, 2, 3)]
    assert sum(count[:2]) == 8 and count[2] == 5 and node.paused == {1, 2}
    node.wait(TICK_S)  # two more
    assert [len(node.take(number)) for number in (1, 2)] == [1, 1] and node.paused == set()
    node.say(send(1, "kept", receipt=b"r"))
    assert node.take(1) == [] and node.paused == {1}


def test_what_waits_elsewhere_does_not_count_twice() -> None:
    node = node_of(max_messages_per_s=2)
    queue = {"small": QueueSettings(max_messages=1)}
    node = Node(replace(DECLARED, queues=queue), authorizer=Rights(users(max_messages_per_s=2), 1000))
    join(node, 1)
    node.say(send(1, "small"), send(1, "small"))
    for _ in range(3):
        node.turn([])
    assert usage(node).tokens == 1
    join(node, 2)
    node.say(subscribe(2, "small", ack="auto"))
    node.turn([])
    assert usage(node).tokens == 0 and node.paused == set()


def test_requests_and_refused_sends_count_as_well() -> None:
    node = node_of(max_messages_per_s=3)
    join(node, 1)
    node.say(ask(1, DECLARE[0]), ask(1, DECLARE[0]))
    node.say(send(1, "/queue/a.*", receipt=b"r", survives_refusal=True))
    assert usage(node).tokens == 0


def test_no_rate_is_saved_up() -> None:
    node = node_of(max_messages_per_s=2)
    join(node, 1)
    node.wait(1000)
    node.say(*(send(1, "kept", receipt=b"r") for _ in range(5)))
    assert len(node.take(1)) == 2


def test_who_connects_again_has_no_new_rate() -> None:
    node = node_of(max_messages_per_s=4)
    for number in (1, 2, 3):
        join(node, number)
        node.say(*(send(number, "/topic/t", receipt=b"r") for _ in range(6)))
        taken = len([one for one in node.take(number) if isinstance(one, Receipt)])
        assert taken == (4 if number == 1 else 0)
        node.close(number)
    assert "ann" in node.broker.parts.usages.all
    node.wait(2)
    assert "ann" not in node.broker.parts.usages.all
    join(node, 4)
    node.say(*(send(4, "/topic/t", receipt=b"r") for _ in range(6)))
    assert len([one for one in node.take(4) if isinstance(one, Receipt)]) == 4


def test_who_has_gone_is_forgotten_once_his_rate_is_whole_though_nobody_waits() -> None:
    node = node_of(max_messages_per_s=4)
    join(node, 1)
    node.say(send(1, "/topic/t"))
    node.close(1)
    assert "ann" in node.broker.parts.usages.all and not node.broker.parts.usages.waiting
    node.wait(2)
    assert "ann" not in node.broker.parts.usages.all


# ---- what is told ---------------------------------------------------------------------------------------------------


def test_stats_have_each_user_that_has_anything() -> None:
    node = node_of(max_connections=7, max_messages_per_s=100)
    join(node, 1)
    node.say(send(1, "q", b"x" * 10), subscribe(1, "q", prefetch_count=9))
    assert isinstance(node.take(1)[-1], Deliver)
    node.wait(TICK_S)
    shown = node.stats()["users"]
    assert [*shown] == ["ann"]
    assert shown["ann"]["connections"] == 1 and shown["ann"]["max_connections"] == 7
    assert shown["ann"]["unacked_bytes"] == shown["ann"]["stored_bytes"] == 10 and shown["ann"]["destinations"] == 1
    assert shown["ann"]["max_messages_per_s"] == 100 and shown["ann"]["max_stored_bytes"] is None


def test_ten_thousand_users_are_told_in_slices() -> None:
    everybody = {f"u{number}": User(name=f"u{number}", rules=Rules(role=OPERATOR)) for number in range(10_000)}
    node = Node(replace(DECLARED), authorizer=Rights(everybody, 1000))
    node.turn(
        [Open(number + 1, principal=Principal(name, RecognisedBy.TOKEN)) for number, name in enumerate(everybody)]
    )
    node.wait(TICK_S)
    rows = [*listed(node.broker.parts, USERS)]
    assert rows.count(PAUSE) >= 10 and len(rows) - rows.count(PAUSE) == 10_000
    page = [row for row in listed(node.broker.parts, USERS, "u5", 100) if row is not PAUSE]
    assert len(page) == 100 and page[0].name == "u50"


def test_settings_of_the_kinds_that_keep_their_maker_are_read_back() -> None:
    node = node_of()
    join(node, 1)
    make_one_of_each(node)
    again = node_of(node.disk.platter)
    destinations = again.broker.destinations
    assert destinations.exchanges.all["x"].settings == ExchangeSettings(type="direct")
    assert destinations.fanouts.all["f"].children == ("kept",)
    assert destinations.logs.all["l"].log_settings == LogSettings(partitions=3)
