"""MESSAGEs that nobody has received yet: in order, by subscription, and within a bound."""

from radiator.client.inbox import MESSAGE_BYTES, ClientInbox
from radiator.protocols.stomp.client import Message


def message(body: bytes = b"", subscription: str = "s", ack: bool = False) -> Message:
    headers = {"subscription": subscription, "message-id": body.decode()} | ({"ack": "1"} if ack else {})
    return Message(headers, body)


def bodies(inbox: ClientInbox, subscription: str | None = None) -> list[bytes]:
    found = []
    while (one := inbox.take(subscription)) is not None:
        found.append(one.body)
    return found


def test_messages_are_taken_in_the_order_in_which_they_came() -> None:
    inbox = ClientInbox(10**6)
    for body in (b"1", b"2", b"3"):
        inbox.put(message(body))
    assert (len(inbox), bodies(inbox), inbox.take()) == (3, [b"1", b"2", b"3"], None)


def test_one_subscription_is_taken_from_between_others() -> None:
    inbox = ClientInbox(10**6)
    for body, subscription in ((b"1", "a"), (b"2", "b"), (b"3", "a")):
        inbox.put(message(body, subscription))
    assert inbox.has("b") and not inbox.has("c") and inbox.take("c") is None
    assert bodies(inbox, "b") == [b"2"] and not inbox.has("b")
    assert bodies(inbox) == [b"1", b"3"]


def test_equal_messages_are_not_taken_for_each_other() -> None:
    inbox = ClientInbox(10**6)
    same = [message(b"x", "a"), message(b"x", "b"), message(b"x", "b")]
    for one in same:
        inbox.put(one)
    assert inbox.take("b") is same[1] and inbox.take() is same[0]


def test_it_is_full_at_its_bound_and_not_one_byte_below() -> None:
    inbox = ClientInbox(MESSAGE_BYTES + 5)
    inbox.put(message(b"1234"))
    assert not inbox.is_full
    inbox.take()
    inbox.put(message(b"12345"))
    assert inbox.is_full
    inbox.take()
    assert not inbox.is_full and inbox._bytes == 0


def test_a_callback_gets_its_own_and_receive_the_others() -> None:
    inbox, heard = ClientInbox(10**6), []
    inbox.callbacks["a"] = heard.append
    inbox.put(message(b"1", "a"))
    inbox.put(message(b"2", "b"))
    assert (inbox.calls, len(inbox), inbox.has("none")) == (1, 2, True)
    call = inbox.take_call()
    assert call is not None
    call[0](call[1])
    assert [one.body for one in heard] == [b"1"] and inbox.take_call() is None
    assert bodies(inbox) == [b"2"] and inbox._bytes == 0


def test_what_is_to_be_acked_goes_with_its_connection_and_the_rest_stays() -> None:
    inbox = ClientInbox(10**6)
    inbox.callbacks["a"] = print
    for body, subscription, ack in ((b"1", "a", True), (b"22", "a", False), (b"333", "b", True), (b"4444", "b", False)):
        inbox.put(message(body, subscription, ack))
    inbox.drop_unacked()
    assert (inbox.calls, len(inbox)) == (1, 2)
    assert inbox._bytes == 2 * MESSAGE_BYTES + 2 + 4
    assert bodies(inbox) == [b"4444"]
