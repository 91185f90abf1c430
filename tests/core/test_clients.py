"""Connections as they come and go."""

from dataclasses import replace

from radiator.core.rights import Rights
from radiator.model.commands import Closed, Open, Read, Renew, Unheeded, Written
from radiator.model.limits import UNHEEDED_NOTED
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.replies import Deliver
from radiator.model.rights import OPERATOR, Rules
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.users import User
from tests.core.node import Node
from tests.core.words import send, subscribe

BURST = [send(2, "/topic/t", b"1"), send(2, "/topic/t", b"2")]


def test_wildcard_of_activemq_in_the_name_of_a_queue_is_told_once() -> None:
    node = Node()
    node.open(1, 2)
    node.say(subscribe(2, "orders.>"), send(1, "orders.>"), send(1, "orders.a"), send(1, "orders.>"))
    (line,) = [note for note in node.notes if note.event == "no_wildcard"]
    assert (line.level, line.fields["queue"]) == ("warning", "orders.>")
    assert len(node.messages(2)) == 1 and node.stored("orders.a") == [b"x"]


def test_a_header_that_means_nothing_here_is_told_once_a_destination_and_of_so_many() -> None:
    node = Node()
    node.open(1, 2)
    for number in range(UNHEEDED_NOTED + 10):
        for connection in (1, 2):
            node.say(Unheeded(connection, f"/queue/q{number}", "priority", "There are none."))
    noted = [note for note in node.notes if note.event == "header_unheeded"]
    assert [note.fields["destination"] for note in noted] == [f"/queue/q{number}" for number in range(UNHEEDED_NOTED)]
    assert (noted[0].level, noted[0].fields["header"]) == ("warning", "priority")


def test_a_header_that_is_the_key_of_its_queue_is_not_told() -> None:
    node = Node(
        Declarations(
            queues={"q": QueueSettings(partition_key=("/a", "header:JMSXGroupID")), "other": QueueSettings()},
            create_topics=True,
        )
    )
    node.open(1)
    for address in ("/queue/q", "/amq/queue/q", "/queue/other", "/topic/q", "/nonsense"):
        for header in ("JMSXGroupID", "priority"):
            node.say(Unheeded(1, address, header, "There are none."))
    noted = [note.fields for note in node.notes if note.event == "header_unheeded"]
    assert [(fields["destination"], fields["header"]) for fields in noted] == [
        ("/queue/q", "priority"),
        ("/amq/queue/q", "priority"),
        ("/queue/other", "JMSXGroupID"),
        ("/topic/q", "JMSXGroupID"),
        ("/nonsense", "JMSXGroupID"),
    ]


def test_a_priority_is_not_told_where_the_queue_has_priorities() -> None:
    node = Node(Declarations(queues={"q": QueueSettings(max_priority=2), "other": QueueSettings()}))
    node.open(1)
    for address in ("/queue/q", "/queue/other"):
        node.say(Unheeded(1, address, "priority", "There are none."))
    noted = [note.fields["destination"] for note in node.notes if note.event == "header_unheeded"]
    assert noted == ["/queue/other"]


def turn(node: Node, *events: object) -> list[object]:
    return list(node.broker.turn(list(events), node.now_s, node.now_ms).replies)  # type: ignore[arg-type]


def flushed(node: Node) -> None:
    """A turn that ended early because of a topic burst, with more behind it."""
    node.open(1, 2)
    node.say(subscribe(1, "/topic/t", buffer_max_messages=1))
    node.auto = False


def test_connection_that_opens_and_closes_behind_a_flush_leaves_nothing() -> None:
    node = Node()
    flushed(node)
    turn(node, Read(2, [*BURST]), Open(5), Read(5, [send(5, "q")]))
    turn(node, Written(1, 1), Closed(5))
    assert sorted(node.broker.connections) == [1, 2]
    node.auto = True
    node.turn([])
    assert node.stored("q") == [b"x"]


def test_reports_of_what_was_written_never_go_backwards() -> None:
    node = Node()
    flushed(node)
    node.say(subscribe(1, "/topic/u"))
    turn(node, Read(2, [send(2, "/topic/u")]))
    turn(node, Written(1, 1), Read(2, [*BURST]), Written(1, 1))
    out = turn(node, Written(1, 2))
    assert [type(r) for r in out] == [Deliver]
    turn(node, Written(1, 3), Read(2, [send(2, "/topic/u")]))
    turn(node, Written(1, 4))
    assert not node.broker.connections[1].unwritten and node.broker.connections[1].outbox_bytes == 0


def test_words_of_unknown_connections_are_ignored() -> None:
    node = Node()
    assert turn(node, Read(7, [send(7, "q", receipt=b"r")]), Written(7, 1), Closed(7)) == []


def test_replies_to_a_closed_connection_do_no_harm() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    node.seal()
    node.turn([Closed(1)])
    node.commit()
    assert node.stored("q") == [b"x"]


def test_accepted_send_of_a_lost_connection_is_stored() -> None:
    node = Node(auto=False)
    node.open(1)
    node.say(send(1, "q", receipt=b"r"))
    node.turn([Closed(1)])
    node.auto = True
    node.turn([])
    assert node.stored("q") == [b"x"]


def test_another_secret_counts_for_the_channels_of_a_connection_and_ends_all_of_it_when_it_is_over() -> None:
    node = Node(authorizer=Rights({"ann": User(name="ann", rules=Rules(role=OPERATOR))}, 1000))
    token = Principal("ann", RecognisedBy.TOKEN, until_ms=node.now_ms + 5000)
    for number, owner in ((1, 0), (11, 1), (12, 1), (2, 0)):
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, principal=token, channel_of=owner)])
    later = replace(token, until_ms=node.now_ms + 20_000)
    node.turn([Read(1, [Renew(1, later)])])
    clients = node.broker.parts.clients
    assert clients.until_ms == {1: later.until_ms, 2: token.until_ms}
    assert [clients.connections[number].principal for number in (1, 11, 12, 2)] == [later, later, later, token]
    node.wait(6)
    assert node.is_refused(2) and not any(node.is_refused(number) for number in (1, 11, 12))
    node.wait(15)
    assert node.is_refused(1)
    eve = Principal("eve", RecognisedBy.TOKEN)
    with_another = replace(token, until_ms=node.now_ms + 5000)
    node.inbox[3], node.delivers[3] = [], 0
    node.turn([Open(3, principal=with_another)])
    node.turn([Read(3, [Renew(3, eve)])])
    assert node.refusal(3).code == "forbidden" and clients.connections[3].principal == with_another
