"""Refusals of the broker in the words of AMQP. tests/acceptance/test_amqp_refusals.py has them from a broker."""

import pytest

from radiator.protocols.amqp.sentences import in_words, login_refused, secret_refused

NONE = "no-such-destination"
OTHERWISE = "declared-otherwise"
IN = "in vhost '/'"


@pytest.mark.parametrize(("code", "sentence", "words"), [
    (NONE, "There is no /queue/a.b.", f"no queue 'a.b' {IN}"),
    (NONE, "There is no /queue/a. There is a /log/a.", f"no queue 'a' {IN}"),
    (NONE, "There is no /queue/a b: declare it first.", f"no queue 'a b' {IN}"),
    (NONE, "There is no /queue/a, and to take a message of it makes none.", f"no queue 'a' {IN}"),
    (NONE, "There is no /queue/a, and this address makes none.", f"no queue 'a' {IN}"),
    (NONE, "There is no /queue/ä/\n\u20ac.", f"no queue 'ä/\n\u20ac' {IN}"),
    (NONE, "/exchange/x.y is not declared: config.toml or a request to /admin declares an exchange.",
     f"no exchange 'x.y' {IN}"),
    ("locked", "/queue/a is owned by connection 17: others may only send to it. It ends with that connection.",
     f"cannot obtain exclusive access to locked queue 'a' {IN}: connection 17 has declared it, and it ends with that "
     "one. Others may publish to it"),
    ("exclusive", "/queue/a already has its one exclusive consumer.", f"queue 'a' {IN} in exclusive use"),
    (OTHERWISE, "/queue/a is there already: its message_ttl_ms is 1000, not 2000.",
     f"inequivalent arg 'x-message-ttl' for queue 'a' {IN}: received '2000' but current is '1000'"),
    (OTHERWISE, "/queue/a is there already: its persistent is True, not False.",
     f"inequivalent arg 'durable' for queue 'a' {IN}: received 'False' but current is 'True'"),
    (OTHERWISE, "/queue/a is there already: its ack_timeout_s is None, not 5.0.",
     f"inequivalent arg 'x-consumer-timeout' for queue 'a' {IN}: received '5.0 s' but current is none"),
    (OTHERWISE, "/queue/a is there already: it was declared with nothing as its max_messages, and not 5.",
     f"inequivalent arg 'x-max-length' for queue 'a' {IN}: received '5' but current is none"),
    (OTHERWISE, "/queue/a is there already: it is owned, not not owned.",
     f"inequivalent arg 'exclusive' for queue 'a' {IN}: received 'false' but current is 'true'"),
    (OTHERWISE, "/queue/a is there already: it is not owned, not owned.",
     f"inequivalent arg 'exclusive' for queue 'a' {IN}: received 'true' but current is 'false'"),
    (OTHERWISE, '/exchange/x is there already, with type "direct", durable True, auto_delete False, alternate none, '
     "internal False.", f"inequivalent arg 'type' for exchange 'x' {IN}: it is there with type \"direct\", durable "
     "True, auto_delete False, alternate none, internal False"),
    ("forbidden", "The user ann may not read /queue/a b: there is no rule of `read` that matches it.",
     f"read access to queue 'a b' {IN} refused for user 'ann': there is no rule of `read` that matches /queue/a b"),
    ("forbidden", "The user ann may not declare /exchange/x: there is no rule of `declare` that contains it.",
     f"declare access to exchange 'x' {IN} refused for user 'ann': there is no rule of `declare` that contains "
     "/exchange/x"),
    ("forbidden", "The user ann may not write /exchange/x/a.b: there is no rule of `write` that matches it.",
     f"write access to topic 'a.b' in exchange 'x' {IN} refused for user 'ann': there is no rule of `write` that "
     "matches /exchange/x/a.b"),
])  # fmt: skip
def test_it_begins_as_rabbitmq_does(code: str, sentence: str, words: str) -> None:
    assert in_words(code, sentence) == words
    assert in_words("another", sentence) == sentence


@pytest.mark.parametrize("sentence", [
    "", "There is no /log/a.", "The user ann may not do that: it takes the right `see` on /#.",
    "/queue/full is full: it holds 1 message of 22 bytes (max_messages 1, max_bytes 67108864).",
])  # fmt: skip
def test_what_has_no_words_of_its_own_stays(sentence: str) -> None:
    assert all(in_words(code, sentence) == sentence for code in (NONE, OTHERWISE, "forbidden", "queue-full"))


def test_a_login_is_spoken_of_as_amqp_has_it() -> None:
    stomp = "CONNECT needs the login and the passcode of a user of this broker."
    assert login_refused(stomp, "PLAIN") == (
        "Login was refused using authentication mechanism PLAIN: it takes the name of a user of this broker with his "
        "password, or with one of his tokens in its place"
    )
    assert login_refused(stomp, "EXTERNAL") == (
        "Login was refused using authentication mechanism EXTERNAL: no user of this broker is recognised by what this "
        "connection proves"
    )
    assert login_refused("Too many; try again.", "AMQPLAIN").endswith("mechanism AMQPLAIN: Too many; try again")
    assert secret_refused("ann").startswith("New secret was refused: it must be") and "'ann'" in secret_refused("ann")
