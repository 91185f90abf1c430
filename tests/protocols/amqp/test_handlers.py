"""Every method of a channel: its command, its answer, its form without an answer, and what refuses it."""

from typing import Any

import pytest

from radiator.model.ack_modes import AUTO, CLIENT_INDIVIDUAL
from radiator.model.addresses import EXCHANGE, QUEUE
from radiator.model.administration import AddBinding, DeclareDestination, DeleteDestination, PurgeQueue, RemoveBinding
from radiator.model.amqp_limits import AMQP_NAMES_KEPT
from radiator.model.answers import Declared, Deleted, Purged, QueueDeclared
from radiator.model.commands import Abort, Administer, Begin, Fail, Send, Subscribe, Unsubscribe
from radiator.model.getting import FindAsker, Get, SetWindow
from radiator.model.grounds import NobodyAsks
from radiator.model.limits import PREFETCH_COUNT_MAX
from radiator.model.replies import Answered, Ended, Receipt, Refuse
from radiator.protocols.amqp import methods as m
from radiator.protocols.amqp.codec import decode_method
from radiator.protocols.amqp.handlers import TAKES
from radiator.protocols.amqp.method_request import MethodRequest
from radiator.protocols.amqp.session import AmqpSession
from tests.protocols.amqp.talking import FIRST, NUMBER, frames_in, method, methods_in, only, opened, publish

RPC = b"rpc"


def asked(session: AmqpSession, sent: m.Method) -> tuple[Any, MethodRequest]:
    """The request of the administration that a method is, and what makes frames of its answer."""
    command = only(session.receive(method(1, sent)))
    assert isinstance(command, Administer) and command.is_answered and command.receipt == RPC
    assert command.connection == FIRST and not command.survives_refusal
    assert isinstance(command.rendering, MethodRequest)
    return command.rendering.read(command.body), command.rendering


def answer(session: AmqpSession, asking: MethodRequest, given: Any) -> list[Any]:
    frames = session.encode(Answered(FIRST, RPC, asking.whole(given)))
    return [one for _, one in methods_in(frames)]


def refusal(session: AmqpSession, sent: m.Method) -> tuple[int, str]:
    """Code and text of the close that a method gets, of the channel or of the connection; with its own number."""
    fail = session.receive(method(1, sent))[-1]
    assert isinstance(fail, Fail)
    ((wire, close),) = methods_in(session.encode(Refuse(fail.connection, "protocol", fail.sentence)))
    assert isinstance(close, m.ChannelClose if wire else m.ConnectionClose)
    assert (close.class_id, close.method_id) == m.NUMBERS[type(sent)]
    assert (wire, fail.connection) in ((1, FIRST), (0, NUMBER))
    return close.reply_code, close.reply_text


DECLARED = Declared(True)
WITHOUT_WAIT = [
    (m.ExchangeDeclare(exchange="x"), DECLARED, m.ExchangeDeclareOk()),
    (m.ExchangeDelete(exchange="x"), Deleted(1), m.ExchangeDeleteOk()),
    (m.QueueDeclare(queue="q"), QueueDeclared(3 + 1, 3, 2, True), m.QueueDeclareOk("q", 3, 2)),
    (m.QueueBind(queue="q", exchange="x"), DECLARED, m.QueueBindOk()),
    (m.QueuePurge(queue="q"), Purged(4), m.QueuePurgeOk(4)),
    (m.QueueDelete(queue="q"), Deleted(5), m.QueueDeleteOk(5)),
]


@pytest.mark.parametrize(("sent", "given", "ok"), WITHOUT_WAIT)
@pytest.mark.parametrize("no_wait", [False, True])
def test_a_request_is_answered_unless_its_client_waits_for_none(
    sent: Any, given: Any, ok: m.Method, no_wait: bool
) -> None:
    session = opened()
    _, asking = asked(session, sent._replace(no_wait=no_wait))
    assert session.receive(method(1, m.ConfirmSelect())) == [] and session.take_outgoing() == b"", "it waits"
    assert answer(session, asking, given) == ([] if no_wait else [ok])
    assert session.has_unread and session.receive(b"") == []
    assert methods_in(session.take_outgoing()) == [(1, m.ConfirmSelectOk())], "and goes on"


@pytest.mark.parametrize(("sent", "command"), [
    (m.ExchangeDeclare(exchange="x", type="topic", durable=True),
     DeclareDestination(EXCHANGE, "x", {"type": "topic", "durable": True, "auto_delete": False, "internal": False})),
    (m.ExchangeDeclare(exchange="amq.direct", type="anything", passive=True),
     DeclareDestination(EXCHANGE, "amq.direct", {}, passive=True)),
    (m.ExchangeDelete(exchange="x"), DeleteDestination(EXCHANGE, "x", if_unbound=False)),
    (m.ExchangeDelete(exchange="x", if_unused=True), DeleteDestination(EXCHANGE, "x", if_unbound=True)),
    (m.QueueDeclare(queue="q", durable=True, arguments={"x-message-ttl": 5}),
     DeclareDestination(QUEUE, "q", {"persistent": True, "auto_delete": False, "message_ttl_ms": 5}, is_exact=True)),
    (m.QueueDeclare(queue="q", auto_delete=True),
     DeclareDestination(QUEUE, "q", {"persistent": False, "auto_delete": True}, is_exact=True)),
    (m.QueueDeclare(queue="q", durable=True, exclusive=True),
     DeclareDestination(QUEUE, "q", {"persistent": False, "auto_delete": False}, is_owned=True, is_exact=True)),
    (m.QueueDeclare(queue="amq.gen-x", passive=True, exclusive=True, durable=True, arguments={"x-what": 1}),
     DeclareDestination(QUEUE, "amq.gen-x", {}, passive=True, is_exact=True)),
    (m.QueueBind(queue="q", exchange="x", routing_key="a.#"), AddBinding("x", "a.#", "q", "{}")),
    (m.QueueBind(queue="q", exchange="x", arguments={"x-match": "any", "a": 1}),
     AddBinding("x", "", "q", '{"a":"1","x-match":"any"}')),
    (m.ExchangeBind(source="x", destination="y", routing_key="k"), AddBinding("x", "k", "/exchange/y", "{}")),
    (m.ExchangeUnbind(source="x", destination="y", routing_key="k"), RemoveBinding("x", "k", "/exchange/y", "{}")),
    (m.QueueUnbind(queue="q", exchange="x", routing_key="a.#"), RemoveBinding("x", "a.#", "q", "{}")),
    (m.QueuePurge(queue="q"), PurgeQueue("q")),
    (m.QueueDelete(queue="q"), DeleteDestination(QUEUE, "q", False, False, takes_unacked=True)),
    (m.QueueDelete(queue="q", if_unused=True, if_empty=True),
     DeleteDestination(QUEUE, "q", True, True, takes_unacked=True)),
])  # fmt: skip
def test_a_request_has_its_command(sent: m.Method, command: Any) -> None:
    assert asked(opened(), sent)[0] == command


def test_old_clients_get_a_ticket_that_nobody_looks_at() -> None:
    session = opened()
    assert session.receive(method(1, m.AccessRequest())) == []
    (frame,) = frames_in(session.take_outgoing())
    assert decode_method(frame.payload) == m.AccessRequestOk(1), "which pamqp does not know"


@pytest.mark.parametrize(("sent", "kind"), [(m.QueueBind, AddBinding), (m.QueueUnbind, RemoveBinding)])
def test_neither_queue_nor_key_is_the_queue_declared_last_under_its_own_name(sent: Any, kind: Any) -> None:
    session = opened()
    _, asking = asked(session, m.QueueDeclare(queue="last"))
    answer(session, asking, QueueDeclared(1, 0, 0, True))
    for queue, key, of, by in (("", "", "last", "last"), ("", "k", "last", "k"), ("q", "", "q", "")):
        command, asking = asked(session, sent(queue=queue, exchange="x", routing_key=key))
        assert command == kind("x", by, of, "{}"), (queue, key)
        answer(session, asking, DECLARED)


def test_unbind_is_always_answered() -> None:
    session = opened()
    _, asking = asked(session, m.QueueUnbind(queue="q", exchange="x"))
    assert answer(session, asking, DECLARED) == [m.QueueUnbindOk()]


@pytest.mark.parametrize(("sent", "ok"), [
    (m.ExchangeDelete(exchange="x"), m.ExchangeDeleteOk()),
    (m.QueueDelete(queue="q"), m.QueueDeleteOk(0)),
    (m.QueueUnbind(queue="q", exchange="x"), m.QueueUnbindOk()),
])  # fmt: skip
def test_what_is_not_there_is_deleted_already(sent: m.Method, ok: m.Method) -> None:
    session = opened()
    asked(session, sent)
    assert methods_in(session.encode(Answered(FIRST, RPC, b"None.", "no-such-destination"))) == [(1, ok)]
    asked(session, m.QueuePurge(queue="q"))
    ((_, close),) = methods_in(session.encode(Answered(FIRST, RPC, b"None.", "no-such-destination")))
    assert close == m.ChannelClose(404, "NOT_FOUND - None.", 50, 30), "and not purged"


@pytest.mark.parametrize("sent", [sent for sent, _, _ in WITHOUT_WAIT])
@pytest.mark.parametrize("no_wait", [False, True])
def test_a_refused_request_closes_its_channel_whether_or_not_its_client_waits(sent: Any, no_wait: bool) -> None:
    session = opened()
    asked(session, sent._replace(no_wait=no_wait))
    ((wire, close),) = methods_in(session.encode(Answered(FIRST, RPC, b"It is another's.", "locked")))
    assert (wire, close) == (1, m.ChannelClose(405, "RESOURCE_LOCKED - It is another's.", *m.NUMBERS[type(sent)]))


@pytest.mark.parametrize(("sent", "code", "part"), [
    (m.ExchangeDeclare(exchange=""), 403, "default exchange"),
    (m.ExchangeDeclare(exchange="x", type="x-headers"), 406, "unknown exchange type"),
    (m.ExchangeDelete(exchange=""), 403, "default exchange"),
    (m.ExchangeDelete(exchange="amq.topic"), 403, "'amq.*'"),
    (m.QueueDeclare(queue="amq.mine"), 403, "'amq.*'"),
    (m.QueueDeclare(queue="q", arguments={"x-what": 1}), 540, "x-what"),
    (m.QueueDeclare(queue="q", arguments={"x-expires": 0}), 406, "x-expires"),
    (m.QueueDeclare(queue="", passive=True), 404, "previously declared"),
    (m.QueueBind(queue="", exchange="x"), 404, "previously declared"),
    (m.QueueBind(queue="q", exchange=""), 403, "default exchange"),
    (m.QueueUnbind(queue="", exchange="x"), 404, "previously declared"),
    (m.QueueUnbind(queue="q", exchange=""), 403, "default exchange"),
    (m.QueuePurge(queue=""), 404, "previously declared"),
    (m.QueueDelete(queue=""), 404, "previously declared"),
    (m.BasicQos(prefetch_size=1), 540, "prefetch_size is 1"),
    (m.BasicConsume(queue=""), 404, "previously declared"),
    (m.BasicConsume(queue="q", arguments={"x-stream-offset": 1}), 540, "x-stream-offset"),
    (m.BasicConsume(queue="amq.rabbitmq.reply-to"), 406, "no_ack"),
    (m.BasicGet(queue=""), 404, "previously declared"),
    (m.BasicPublish(immediate=True), 540, "immediate"),
    (m.BasicAck(1), 406, "unknown delivery tag 1"),
    (m.BasicAck(1, True), 406, "unknown delivery tag 1"),
    (m.BasicNack(0), 406, "unknown delivery tag 0"),
    (m.BasicReject(2), 406, "unknown delivery tag 2"),
    (m.BasicRecover(False), 540, "recover"),
    (m.BasicRecoverAsync(False), 540, "recover"),
    (m.ChannelFlow(False), 540, "channel.flow"),
    (m.TxCommit(), 406, "not transactional"),
    (m.TxRollback(), 406, "not transactional"),
    (m.ChannelOpen(), 504, "open already"),
    (m.ChannelOpenOk(), 503, "channel.open-ok"),
    (m.BasicDeliver(), 503, "basic.deliver"),
    (m.ConnectionOpen(), 503, "connection.open"),
])  # fmt: skip
def test_what_cannot_be_is_refused_with_its_code_and_its_method(sent: m.Method, code: int, part: str) -> None:
    found, text = refusal(opened(), sent)
    assert found == code and part in text


def test_a_second_consumer_of_the_replies_to_a_channel_is_refused_while_there_is_one() -> None:
    session, reply_to = opened(), "amq.rabbitmq.reply-to"
    first, second = (m.BasicConsume(queue=reply_to, consumer_tag=tag, no_ack=True) for tag in ("a", "b"))
    for sent in (first, m.BasicConsume(queue="q", consumer_tag="of a queue")):
        assert isinstance(only(session.receive(method(1, sent))), Subscribe)
        session.encode(Receipt(FIRST, RPC))
    assert refusal(session, second) == (406, "PRECONDITION_FAILED - reply consumer already set")

    session = opened()
    for sent, command in ((first, Subscribe), (m.BasicCancel("a"), Unsubscribe), (second, Subscribe)):
        assert isinstance(only(session.receive(method(1, sent))), command), "once it is cancelled there may be another"
        session.encode(Receipt(FIRST, RPC))


def test_each_method_that_a_client_may_send_is_tried_here() -> None:
    theirs = {kind for kind in m.METHODS.values() if m.NUMBERS[kind][0] > 10}
    answers = {kind for kind in theirs if m.NAMES[kind].endswith("-ok")}
    ours = answers | {m.BasicReturn, m.BasicDeliver, m.BasicGetEmpty}
    assert set(TAKES) == theirs - ours


# ---- names that the broker gives ------------------------------------------------------------------------------------


def declared(session: AmqpSession, sent: m.QueueDeclare) -> str:
    command, asking = asked(session, sent)
    (ok,) = answer(session, asking, QueueDeclared(0 + 1, 0, 0, True))
    assert ok == m.QueueDeclareOk(command.name)
    return str(command.name)


def test_a_queue_without_a_name_gets_one_that_its_connection_may_declare_again() -> None:
    session = opened(channels=2)
    names = {declared(session, m.QueueDeclare()) for _ in range(10)}
    assert len(names) == 10 and all(name.startswith("amq.gen-") and len(name) == 30 for name in names)
    for name in names:
        assert declared(session, m.QueueDeclare(queue=name)) == name
        assert isinstance(only(session.receive(method(2, m.QueueDeclare(queue=name, no_wait=True)))), Administer)
        session.encode(Answered(FIRST + 1, RPC, b""))
    assert refusal(opened(), m.QueueDeclare(queue=names.pop()))[0] == 403, "but no other"


def test_names_that_were_given_are_forgotten_one_by_one() -> None:
    session = opened()
    names = [declared(session, m.QueueDeclare()) for _ in range(AMQP_NAMES_KEPT + 1)]
    assert declared(session, m.QueueDeclare(queue=names[1])) == names[1]
    assert refusal(session, m.QueueDeclare(queue=names[0]))[0] == 403


@pytest.mark.parametrize("passive", [False, True])
@pytest.mark.parametrize("no_wait", [False, True])
def test_a_declare_of_a_reply_asks_for_who_gets_it(no_wait: bool, passive: bool) -> None:
    session = opened()
    key = "amq.rabbitmq.reply-to.1f"
    sent = m.QueueDeclare(queue=key, passive=passive, no_wait=no_wait)
    assert only(session.receive(method(1, sent))) == FindAsker(FIRST, "1f", RPC)
    found = methods_in(session.encode(Receipt(FIRST, RPC)))
    assert found == ([] if no_wait else [(1, m.QueueDeclareOk(key, 0, 1))])
    assert asked(session, m.QueuePurge())[0] == PurgeQueue(key), "it is the last one declared"
    other = opened()
    other.receive(method(1, sent))
    ((_, close),) = methods_in(other.encode(Refuse(FIRST, "no-such-destination", "No.", RPC, grounds=NobodyAsks("1f"))))
    assert close == m.ChannelClose(404, f"NOT_FOUND - no queue '{key}' in vhost '/'", 50, 10)


def test_a_reply_is_no_queue_that_can_be_declared() -> None:
    assert refusal(opened(), m.QueueDeclare(queue="amq.rabbitmq.reply-to."))[0] == 403
    assert asked(opened(), m.QueueDeclare(queue="amq.rabbitmq.reply-to.", passive=True))[0].kind == QUEUE


def test_no_name_is_the_last_one_declared_on_the_channel() -> None:
    session = opened(channels=2)
    declared(session, m.QueueDeclare(queue="a"))
    declared(session, m.QueueDeclare(queue="b", passive=True))
    for sent in (m.QueueDeclare(passive=True), m.QueueBind(exchange="x"), m.QueuePurge(), m.QueueDelete()):
        command, asking = asked(session, sent)
        assert "'b'" in repr(command)
        session.encode(Answered(FIRST, RPC, b""))
    assert only(session.receive(method(1, m.BasicGet()))).destination == "/amq/queue/b"
    assert isinstance(only(session.receive(method(2, m.BasicGet()))), Fail), "of the channel"


def test_a_declare_that_is_refused_is_not_the_last_one() -> None:
    session = opened()
    declared(session, m.QueueDeclare(queue="a"))
    asked(session, m.QueueDeclare(queue="b"))
    assert session.receive(method(1, m.QueuePurge())) == []
    session.encode(Answered(FIRST, RPC, b"", "locked"))
    assert not any(isinstance(command, Administer) for command in session.receive(b""))


# ---- consumers ------------------------------------------------------------------------------------------------------


def test_qos_bounds_new_consumers_or_the_whole_channel() -> None:
    session = opened()
    assert session.receive(method(1, m.BasicQos(0, 5))) == []
    assert methods_in(session.take_outgoing()) == [(1, m.BasicQosOk())]
    assert only(session.receive(method(1, m.BasicConsume(queue="q", consumer_tag="t")))).prefetch_count == 5
    session.encode(Receipt(FIRST, RPC))
    assert session.receive(method(1, m.BasicQos(0, 9, True))) == [SetWindow(FIRST, 9, RPC)]
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == [(1, m.BasicQosOk())]
    assert only(session.receive(method(1, m.BasicConsume(queue="q")))).prefetch_count == 5
    session.encode(Receipt(FIRST, RPC))
    session.receive(method(1, m.BasicQos(0, 0)))
    assert only(session.receive(method(1, m.BasicConsume(queue="q")))).prefetch_count == PREFETCH_COUNT_MAX


@pytest.mark.parametrize(("sent", "command"), [
    (m.BasicConsume(queue="q", consumer_tag="t"),
     Subscribe(FIRST, b"t", "/amq/queue/q", CLIENT_INDIVIDUAL, PREFETCH_COUNT_MAX, receipt=RPC, shares_window=True,
               reports_end=True)),
    (m.BasicConsume(queue="q", consumer_tag="t", no_ack=True, exclusive=True, no_local=True),
     Subscribe(FIRST, b"t", "/amq/queue/q", AUTO, None, True, receipt=RPC, reports_end=True)),
    (m.BasicConsume(queue="q", consumer_tag="t", no_ack=True, arguments={"x-priority": -7}),
     Subscribe(FIRST, b"t", "/amq/queue/q", AUTO, None, receipt=RPC, reports_end=True, consumer_priority=-7)),
    (m.BasicConsume(queue="amq.rabbitmq.reply-to", consumer_tag="t", no_ack=True, arguments={"x-priority": 7}),
     Subscribe(FIRST, b"t", "/temp-queue/amq.rabbitmq.reply-to", AUTO, None, receipt=RPC, reports_end=True)),
])  # fmt: skip
@pytest.mark.parametrize("no_wait", [False, True])
def test_consume_subscribes(sent: m.BasicConsume, command: Subscribe, no_wait: bool) -> None:
    session = opened()
    assert session.receive(method(1, sent._replace(no_wait=no_wait))) == [command]
    answers = methods_in(session.encode(Receipt(FIRST, RPC)))
    assert answers == ([] if no_wait else [(1, m.BasicConsumeOk("t"))])


def test_a_consumer_tag_is_given_where_there_is_none_and_is_free_again_after_its_end() -> None:
    session = opened()
    given = only(session.receive(method(1, m.BasicConsume(queue="q")))).subscription.decode()
    assert given.startswith("amq.ctag-")
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == [(1, m.BasicConsumeOk(given))]
    assert session.receive(method(1, m.BasicCancel(given))) == [Unsubscribe(FIRST, given.encode(), RPC)]
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == [(1, m.BasicCancelOk(given))]
    session.receive(method(1, m.BasicConsume(queue="q", consumer_tag=given)))
    session.encode(Receipt(FIRST, RPC))
    session.encode(Ended(FIRST, given.encode()))
    session.receive(method(1, m.BasicConsume(queue="q", consumer_tag=given)))
    session.encode(Receipt(FIRST, RPC))
    assert refusal(session, m.BasicConsume(queue="q", consumer_tag=given)) == (
        530, f'NOT_ALLOWED - attempt to reuse consumer tag "{given}"'
    )  # fmt: skip


@pytest.mark.parametrize("no_wait", [False, True])
def test_a_cancel_of_nothing_is_answered_at_once(no_wait: bool) -> None:
    session = opened()
    assert session.receive(method(1, m.BasicCancel("none", no_wait))) == []
    assert methods_in(session.take_outgoing()) == ([] if no_wait else [(1, m.BasicCancelOk("none"))])
    session.receive(method(1, m.BasicConsume(queue="q", consumer_tag="t")))
    session.encode(Receipt(FIRST, RPC))
    assert only(session.receive(method(1, m.BasicCancel("t", no_wait)))) == Unsubscribe(FIRST, b"t", RPC)
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == ([] if no_wait else [(1, m.BasicCancelOk("t"))])


@pytest.mark.parametrize("no_ack", [False, True])
def test_get_takes_one(no_ack: bool) -> None:
    command = only(opened().receive(method(1, m.BasicGet(queue="q", no_ack=no_ack))))
    assert command == Get(FIRST, "/amq/queue/q", RPC, AUTO if no_ack else CLIENT_INDIVIDUAL)


# ---- modes of a channel ---------------------------------------------------------------------------------------------


def test_flow_on_and_selects_are_answered_at_once() -> None:
    session = opened(channels=2)
    for wire, sent, ok in (
        (1, m.ChannelFlow(True), m.ChannelFlowOk(True)),
        (1, m.ConfirmSelect(), m.ConfirmSelectOk()),
        (1, m.ConfirmSelect(), m.ConfirmSelectOk()),
        (2, m.TxSelect(), m.TxSelectOk()),
        (2, m.TxSelect(), m.TxSelectOk()),
    ):
        assert session.receive(method(wire, sent)) == []
        assert methods_in(session.take_outgoing()) == [(wire, ok)]
    assert session.receive(method(1, m.ConfirmSelect(True))) == [] and session.take_outgoing() == b""


@pytest.mark.parametrize(("select", "ok"), [(m.ConfirmSelect(), m.ConfirmSelectOk()), (m.TxSelect(), m.TxSelectOk())])
def test_a_select_is_answered_behind_what_comes_back(select: m.Method, ok: m.Method) -> None:
    session = opened()
    send, begin, abort = session.receive(publish(1, mandatory=True) + method(1, select))
    assert isinstance(send, Send) and begin == Begin(FIRST, b"tx") and abort == Abort(FIRST, b"tx", RPC)
    assert session.take_outgoing() == b"", "the core has said nothing yet"
    assert methods_in(session.encode(Receipt(FIRST, RPC))) == [(1, ok)]
    if select == m.TxSelect():
        assert session.receive(method(1, select)) == [] and methods_in(session.take_outgoing()) == [(1, ok)]
        assert session.receive(publish(1))[0] == begin, "its transaction begins with the first command"


@pytest.mark.parametrize(("sent", "ok"), [
    (m.BasicQos(0, 5), m.BasicQosOk()),
    (m.BasicCancel("nobody"), m.BasicCancelOk("nobody")),
    (m.BasicRecover(True), m.BasicRecoverOk()),
    (m.ChannelFlow(True), m.ChannelFlowOk(True)),
    (m.ConfirmSelect(), m.ConfirmSelectOk()),
    (m.TxSelect(), m.TxSelectOk()),
    (m.QueueDeclare(queue="amq.rabbitmq.reply-to", passive=True), m.QueueDeclareOk("amq.rabbitmq.reply-to", 0, 1)),
    (m.QueueDeclare(queue="amq.rabbitmq.reply-to"), m.QueueDeclareOk("amq.rabbitmq.reply-to", 0, 1)),
])  # fmt: skip
def test_no_answer_comes_before_the_refusal_of_what_was_published_before(sent: m.Method, ok: m.Method) -> None:
    session = opened()
    send, begin, abort = session.receive(publish(1, exchange="none") + method(1, sent))
    assert isinstance(send, Send) and begin == Begin(FIRST, b"tx") and abort == Abort(FIRST, b"tx", RPC)
    assert session.take_outgoing() == b""
    ((_, close),) = methods_in(session.encode(Refuse(FIRST, "no-such-destination", "No.", command=send)))
    assert close == m.ChannelClose(404, "NOT_FOUND - No.", 60, 40), "which is what the message got"
    assert session.encode(Receipt(FIRST, RPC)) + session.take_outgoing() == b"", "and nothing behind it"

    other = opened()
    other.receive(publish(1) + method(1, sent))
    assert methods_in(other.encode(Receipt(FIRST, RPC))) == [(1, ok)], "where nothing was refused"


def test_a_select_that_asks_for_no_answer_waits_for_nothing() -> None:
    session = opened()
    assert isinstance(only(session.receive(publish(1, mandatory=True) + method(1, m.ConfirmSelect(True)))), Send)
    assert isinstance(only(session.receive(publish(1))), Send) and session.take_outgoing() == b""


@pytest.mark.parametrize(("first", "second"), [(m.TxSelect(), m.ConfirmSelect()), (m.ConfirmSelect(), m.TxSelect())])
def test_a_channel_has_confirms_or_transactions(first: m.Method, second: m.Method) -> None:
    session = opened()
    session.receive(method(1, first))
    code, text = refusal(session, second)
    assert code == 406 and "cannot switch" in text
