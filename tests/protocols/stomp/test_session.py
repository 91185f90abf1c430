"""The server's session: every command of every version to its word, every refusal to one Fail, then silence."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radiator import __version__
from radiator.model.commands import (
    EARLIEST,
    END,
    OFFSET,
    TIME,
    Abort,
    Ack,
    Begin,
    Commit,
    Disconnect,
    Fail,
    InvalidSend,
    Nack,
    Open,
    Send,
    Subscribe,
    Unheeded,
    Unsubscribe,
)
from radiator.model.errors import Refusal
from radiator.model.limits import (
    CONNECT_MAX_BYTES,
    DEDUP_ID_MAX_BYTES,
    HEART_BEAT_MIN_MS,
    ID_MAX_BYTES,
    PARTITIONS_MAX,
    PREFETCH_COUNT_MAX,
    TIME_MAX_MS,
    Limits,
)
from radiator.model.message import Message
from radiator.model.principal import ANYONE, Check, Principal, RecognisedBy, Verdict
from radiator.model.replies import Bye, Deliver, Pause, Receipt, Refuse, Resume
from radiator.protocols import Session
from radiator.protocols.schemes import SCHEMES
from radiator.protocols.stomp.session import StompSession
from radiator.protocols.stomp.spec import CLIENT_COMMANDS, V1_0, V1_1, V1_2, VERSION_NAMES

VERSIONS = (V1_0, V1_1, V1_2)


def opened(version: int = V1_2, limits: Limits | None = None) -> StompSession:
    session = StompSession(7, "s-1", limits or Limits())
    assert session.receive(b"CONNECT\naccept-version:%b\nhost:h\n\n\0" % VERSION_NAMES[version].encode()) == [Open(7)]
    session.take_outgoing()
    return session


def command_of(wire: bytes, version: int = V1_2) -> object:
    (word,) = opened(version).receive(wire)
    return word


def failure(wire: bytes, version: int = V1_2) -> str:
    session = opened(version)
    (word,) = session.receive(wire)
    assert isinstance(word, Fail)
    assert session.receive(b"DISCONNECT\n\n\0") == []
    return word.sentence


# ---- connecting ---------------------------------------------------------------------------------------------------


def test_session_keeps_the_contract_of_protocols() -> None:
    make = SCHEMES["stomp"].session
    assert make is not None
    session: Session = make(7, "s-1", Limits())
    assert (session.is_open, session.is_closing, session.buffered_bytes) == (False, False, 0)
    assert session.take_outgoing() == b""


@pytest.mark.parametrize("command", [b"CONNECT", b"STOMP"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_connect_opens_and_is_greeted(command: bytes, end: bytes) -> None:
    session = StompSession(7, "s-1", Limits())
    assert session.receive(end.join([command, b"accept-version:1.1,1.2", b"host:h", b"", b"\0"])) == [Open(7)]
    assert session.take_outgoing() == (
        f"CONNECTED\nversion:1.2\nheart-beat:0,0\nsession:s-1\nserver:radiator/{__version__}\n\n\0\n".encode()
    )
    assert session.take_outgoing() == b""
    assert session.is_open and not session.is_closing


@pytest.mark.parametrize(("greeting", "protocol"), [
    (b"CONNECT\n\n\0", "STOMP 1.0"),
    (b"CONNECT\naccept-version:1.1\nhost:h\n\n\0", "STOMP 1.1"),
    (b"CONNECT\naccept-version:1.2\nhost:h\nclient-id:shop\n\n\0", "STOMP 1.2"),
])  # fmt: skip
def test_what_is_spoken_is_said_with_what_it_is_over_and_who_the_client_says_it_is(
    greeting: bytes, protocol: str
) -> None:
    for carrier in ("", " over WebSocket"):
        (opened,) = StompSession(7, "s-1", Limits(), carrier=carrier).receive(greeting)
        assert isinstance(opened, Open) and opened.protocol == protocol + carrier
        assert opened.client == ("shop" if b"client-id" in greeting else "")


def test_bare_connect_is_1_0_and_gets_all_headers() -> None:
    session = StompSession(7, "s-1", Limits())
    assert session.receive(b"CONNECT\n\n\0") == [Open(7)]
    assert session.take_outgoing() == (
        f"CONNECTED\nversion:1.0\nheart-beat:0,0\nsession:s-1\nserver:radiator/{__version__}\n\n\0\n".encode()
    )


def test_connect_and_the_frames_behind_it_are_read_by_the_agreed_version() -> None:
    session = StompSession(7, "s-1", Limits())
    words = session.receive(b"CONNECT\naccept-version:1.0\n\n\0\nSEND\ndestination:a\nreceipt:a\\tb\n\n\0")
    assert words == [Open(7), Send(7, "/queue/a", b"", V1_0, b"", b"a\\tb")]


@pytest.mark.parametrize(
    ("wire", "part"),
    [
        (b"CONNECT\naccept-version:2.0\n\n\0", "1.0,1.1,1.2"),
        (b"CONNECT\naccept-version:1.2\nheart-beat:1\n\n\0", "heart-beat '1'"),
        (b"CONNECT\naccept-version:1.2\nhost:h\n\nbody\0", "has a body"),
        (b"CONNECT\nnocolon\n\n\0", "NAME:VALUE"),
        (b"SEND\ndestination:a\n\n\0", "must be CONNECT or STOMP"),
        (b"GET / HTTP/1.1\r\n", "must be CONNECT or STOMP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "must be CONNECT or STOMP"),
        (b"CONNECT\nlogin:" + b"x" * CONNECT_MAX_BYTES, f"longer than {CONNECT_MAX_BYTES} bytes"),
    ],
)
def test_refused_connect_is_answered_by_the_session_itself(wire: bytes, part: str) -> None:
    session = StompSession(7, "s-1", Limits())
    assert session.receive(wire) == []
    outgoing = session.take_outgoing()
    assert outgoing.startswith(b"ERROR\nversion:1.0,1.1,1.2\n")
    assert b"\ncode:protocol\n" in outgoing
    assert part in outgoing.decode()
    assert session.is_closing and not session.is_open
    assert session.receive(b"CONNECT\n\n\0") == []
    assert session.take_outgoing() == b""


@pytest.mark.parametrize(
    ("ours", "theirs", "send_s", "expect_s"),
    [
        ((10_000, 10_000), b"0,0", 0.0, 0.0),
        ((10_000, 10_000), b"5000,20000", 20.0, 5.0),
        ((10_000, 10_000), b"20000,5000", 5.0, 20.0),
        ((10_000, 10_000), b"0,1000", 1.0, 0.0),
        ((10_000, 10_000), b"99,101", 0.101, 0.1),
        ((0, 0), b"1000,1000", 0.0, 0.0),
        ((1, 1), b"1,1", HEART_BEAT_MIN_MS / 1000, HEART_BEAT_MIN_MS / 1000),
        ((0, 10_000), b"1,1", 0.0, HEART_BEAT_MIN_MS / 1000),
    ],
)
def test_heart_beats_are_agreed(ours: tuple[int, int], theirs: bytes, send_s: float, expect_s: float) -> None:
    session = StompSession(7, "s-1", Limits(heart_beat_ms=ours))
    session.receive(b"CONNECT\naccept-version:1.2\nhost:h\nheart-beat:" + theirs + b"\n\n\0")
    assert (session.heart_beat_send_s, session.heart_beat_expect_s) == (send_s, expect_s)
    assert session.heart_beat() == b"\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_second_connect_is_refused(version: int) -> None:
    assert "A second CONNECT" in failure(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", version)
    assert "A second STOMP" in failure(b"STOMP\naccept-version:1.2\nhost:h\n\n\0", version)


# ---- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_command_becomes_its_word(version: int) -> None:
    assert command_of(b"SEND\ndestination:a\n\nbody\0", version) == Send(7, "/queue/a", b"", version, b"body")
    assert command_of(b"BEGIN\ntransaction:t\nreceipt:r\n\n\0", version) == Begin(7, b"t", b"r")
    assert command_of(b"COMMIT\ntransaction:t\nreceipt:r\n\n\0", version) == Commit(7, b"t", b"r")
    assert command_of(b"ABORT\ntransaction:t\nreceipt:r\n\n\0", version) == Abort(7, b"t", b"r")
    assert command_of(b"UNSUBSCRIBE\nid:0\nreceipt:r\n\n\0", version) == Unsubscribe(7, b"0", b"r")
    assert command_of(b"DISCONNECT\nreceipt:r\n\n\0", version) == Disconnect(7, b"r")
    assert command_of(b"SUBSCRIBE\nid:0\ndestination:/topic/a.#\n\n\0", version) == Subscribe(7, b"0", "/topic/a.#")


def test_ack_names_its_message_as_each_version_does() -> None:
    acked = b"ACK\nid:i\nmessage-id:m\nsubscription:0\ntransaction:t\nreceipt:r\n\n\0"
    assert command_of(acked, V1_0) == Ack(7, b"m", None, b"t", b"r")
    assert command_of(acked, V1_1) == Ack(7, b"m", b"0", b"t", b"r")
    assert command_of(acked, V1_2) == Ack(7, b"i", None, b"t", b"r")
    assert command_of(acked.replace(b"ACK", b"NACK"), V1_1) == Nack(7, b"m", b"0", b"t", b"r", True)
    assert command_of(b"NACK\nid:i\nrequeue:false\n\n\0") == Nack(7, b"i", requeue=False)
    assert command_of(b"NACK\nid:i\nrequeue:true\n\n\0") == Nack(7, b"i")
    assert "requeue 'no'" in failure(b"NACK\nid:i\nrequeue:no\n\n\0")
    assert command_of(b"NACK\nmessage-id:m\nsubscription:0\n\n\0", V1_0) == Nack(7, b"m")


@pytest.mark.parametrize("version", VERSIONS)
def test_missing_required_header_is_refused(version: int) -> None:
    for command, spec in CLIENT_COMMANDS[version].items():
        for missing in spec.required:
            lines = [name + b":x" for name in spec.required if name != missing]
            sentence = failure(b"\n".join([command, *lines]) + b"\n\n\0", version)
            assert f"{command.decode()} without the header {missing.decode()!r}" in sentence


@pytest.mark.parametrize("version", [V1_1, V1_2])
def test_body_is_refused_where_none_is_allowed(version: int) -> None:
    for command, spec in CLIENT_COMMANDS[version].items():
        if command in (b"SEND", b"CONNECT", b"STOMP"):
            continue
        head = b"\n".join([command, *[name + b":x" for name in {*spec.required, b"id"}]])
        assert "has a body" in failure(head + b"\n\nx\0", version)
        assert "has a body" in failure(head + b"\ncontent-length:2\n\nxy\0", version)
        assert "has a body" in failure(head + b"\n\nx", version)
        assert not isinstance(command_of(head + b"\ncontent-length:0\n\n\0", version), Fail)


def test_body_of_a_1_0_subscribe_is_ignored() -> None:
    assert command_of(b"SUBSCRIBE\nid:0\ndestination:a\n\nbody\0", V1_0) == Subscribe(7, b"0", "/queue/a")


def test_send_with_every_option() -> None:
    word = command_of(
        b"SEND\ndestination:/topic/a\nreceipt:r\\c1\ntransaction:t\nexpiration:50\nexpires:0\npersistent:true\n"
        b"mandatory:true\ndedup-id:d\ncorrelation-id:c\nreply-to:/temp-queue/answers\nfoo:bar\n\nbody\0"
    )
    assert word == Send(
        7,
        "/topic/a",
        b"expiration:50\nexpires:0\npersistent:true\nmandatory:true\ndedup-id:d\ncorrelation-id:c\nfoo:bar\n",
        V1_2,
        b"body",
        b"r:1",
        b"t",
        50,
        0,
        "answers",
        True,
        b"d",
        b"c",
    )


def test_headers_of_the_hop_and_of_message_are_not_stored() -> None:
    hop = [
        b"receipt", b"transaction", b"message-id", b"subscription", b"ack", b"timestamp", b"redelivered",
        b"redelivery-count", b"dead-letter-reason", b"original-destination", b"original-message-id",
        b"fanout-message-id", b"x-death",
    ]  # fmt: skip
    lines = b"".join(b"%b:x\nkept-%d:%b\n" % (name, number, name) for number, name in enumerate(hop))
    for repeated in (b"", b"kept:1\nkept:2\nack:y\n"):
        word = command_of(b"SEND\ndestination:a\n" + lines + repeated + b"content-length:0\n\n\0")
        assert isinstance(word, Send)
        wanted = b"".join(b"kept-%d:%b\n" % (number, name) for number, name in enumerate(hop))
        assert word.headers == wanted + repeated.replace(b"ack:y\n", b"")


def test_reply_to_travels_unless_it_is_a_temp_queue() -> None:
    for lines, reply_to, stored in (
        (b"reply-to:/queue/a\n", None, b"reply-to:/queue/a\n"),
        (b"reply-to:http://x\n", None, b"reply-to:http\\c//x\n"),
        (b"reply-to:/temp-queue/a\n", "a", b""),
        (b"reply-to:/temp-queue/a\nreply-to:/queue/b\n", "a", b""),
        (b"reply-to:/queue/b\nreply-to:/temp-queue/a\n", None, b"reply-to:/queue/b\n"),
    ):
        word = command_of(b"SEND\ndestination:a\n" + lines + b"\n\0")
        assert isinstance(word, Send)
        assert (word.reply_to, word.headers) == (reply_to, stored)
    assert "reply-to '/temp-queue/' names nothing" in failure(b"SEND\ndestination:a\nreply-to:/temp-queue/\n\n\0")


@pytest.mark.parametrize("header", [b"expiration", b"expires"])
def test_time_of_expiry_is_a_number_of_milliseconds(header: bytes) -> None:
    for value in (b"0", b"1", b"9" * 15):
        word = command_of(b"SEND\ndestination:a\n" + header + b":" + value + b"\n\n\0")
        assert isinstance(word, Send)
        assert int(value) in (word.expiration_ms, word.expires_ms)
    for value in (b"", b"-1", b"1.5", b"soon", b"9" * 16, b"9" * 5000):
        sentence = failure(b"SEND\ndestination:a\n" + header + b":" + value + b"\n\n\0")
        assert sentence.startswith(header.decode()) and "whole number from 0" in sentence


def test_dedup_id_at_the_limit_is_taken_and_one_past_it_refused() -> None:
    word = command_of(b"SEND\ndestination:a\ndedup-id:" + b"d" * DEDUP_ID_MAX_BYTES + b"\n\n\0")
    assert isinstance(word, Send) and word.dedup_id == b"d" * DEDUP_ID_MAX_BYTES
    assert "has 256 bytes" in failure(b"SEND\ndestination:a\ndedup-id:" + b"d" * 256 + b"\n\n\0")
    assert "has 0 bytes" in failure(b"SEND\ndestination:a\ndedup-id:\n\n\0")


@pytest.mark.parametrize(
    "command", [b"SUBSCRIBE\nid:s\ndestination:a", b"BEGIN\ntransaction:t", b"SEND\ndestination:a"]
)
@pytest.mark.parametrize("header", [b"id", b"transaction"])
def test_kept_id_at_the_limit_is_taken_and_one_past_it_refused(header: bytes, command: bytes) -> None:
    name, _, lines = command.partition(b"\n")

    def wire(size: int) -> bytes:  # of repeated headers the first counts
        return name + b"\n" + header + b":" + b"i" * size + b"\n" + lines + b"\n\n\0"

    assert not isinstance(command_of(wire(ID_MAX_BYTES)), Fail)
    sentence = failure(wire(ID_MAX_BYTES + 1))
    assert sentence.startswith(header.decode()) and "has 1025 bytes: at most 1024 are allowed." in sentence


def test_mandatory_is_true_or_false() -> None:
    word = command_of(b"SEND\ndestination:a\nmandatory:false\n\n\0")
    assert isinstance(word, Send) and not word.mandatory
    assert "mandatory 'yes' is neither true nor false" in failure(b"SEND\ndestination:a\nmandatory:yes\n\n\0")


def test_subscribe_with_every_option() -> None:
    word = command_of(
        b"SUBSCRIBE\nid:0\ndestination:a\nack:client-individual\nprefetch-count:5\nactivemq.prefetchSize:9\n"
        b"exclusive:true\nbuffer-max-bytes:1000\nbuffer-max-messages:10\nreceipt:r\n\n\0"
    )
    assert word == Subscribe(7, b"0", "/queue/a", "client-individual", 5, True, 1000, 10, b"r")
    word = command_of(b"SUBSCRIBE\nid:0\ndestination:a\nactivemq.prefetchSize:9\nactivemq.exclusive:true\n\n\0")
    assert word == Subscribe(7, b"0", "/queue/a", "auto", 9, True)


@pytest.mark.parametrize("header", [b"prefetch-count", b"activemq.prefetchSize"])
def test_prefetch_count_at_its_bounds_is_taken_and_one_past_them_refused(header: bytes) -> None:
    head = b"SUBSCRIBE\nid:0\ndestination:a\n" + header + b":%d\n\n\0"
    for count in (1, PREFETCH_COUNT_MAX):
        word = command_of(head % count)
        assert isinstance(word, Subscribe) and word.prefetch_count == count
    for count in (0, PREFETCH_COUNT_MAX + 1):
        assert f"{header.decode()} '{count}' is not a whole number from 1 to 65535" in failure(head % count)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"selector:a = 1", "selector is not supported"),
        (b"ack:server", "ack 'server' must be one of auto, client, client-individual"),
        (b"ack:AUTO", "ack 'AUTO'"),
        (b"exclusive:1", "exclusive '1'"),
        (b"activemq.exclusive:1", "activemq.exclusive '1'"),
        (b"buffer-max-bytes:0", "buffer-max-bytes '0'"),
        (b"buffer-max-messages:-1", "buffer-max-messages '-1'"),
    ],
)
def test_wrong_value_on_subscribe_is_refused_by_name(line: bytes, part: str) -> None:
    assert part in failure(b"SUBSCRIBE\nid:0\ndestination:a\n" + line + b"\n\n\0")


@pytest.mark.parametrize("version", VERSIONS)
def test_subscribe_to_a_log(version: int) -> None:
    head = b"SUBSCRIBE\nid:0\ndestination:/log/events\n"
    assert command_of(head + b"\n\0", version) == Subscribe(7, b"0", "/log/events")
    assert command_of(head + b"from:earliest\nuntil:end\npartition:0\n\n\0", version) == Subscribe(
        7, b"0", "/log/events", start=(EARLIEST, 0), until=(END, 0), partition=0
    )
    assert command_of(head + b"ack:client\nfrom:time:5\nuntil:offset:7\ngroup:g/1\n\n\0", version) == Subscribe(
        7, b"0", "/log/events", "client", start=(TIME, 5), until=(OFFSET, 7), group="g/1"
    )
    word = command_of(head + b"partition:%d\n\n\0" % (PARTITIONS_MAX - 1), version)
    assert isinstance(word, Subscribe) and word.partition == PARTITIONS_MAX - 1


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"from:end", "from 'end' must be one of earliest, latest, offset:N and time:MS"),
        (b"until:latest", "until 'latest' must be one of end, offset:N and time:MS"),
        (b"partition:-1", "partition '-1' is not a whole number from 0 to 1023"),
        (b"partition:%d" % PARTITIONS_MAX, "partition '1024'"),
        (b"group:g", "group 'g' with ack:auto"),
        (b"ack:client\ngroup:", "group '' has 0 bytes"),
        (b"ack:client\ngroup:" + b"g" * 256, "has 256 bytes"),
    ],
)
def test_wrong_value_on_a_subscribe_to_a_log_is_refused_by_name(line: bytes, part: str) -> None:
    assert part in failure(b"SUBSCRIBE\nid:0\ndestination:/log/a\n" + line + b"\n\n\0")


@pytest.mark.parametrize("line", [b"from:earliest", b"until:end", b"partition:0", b"group:g\nack:client"])
@pytest.mark.parametrize("destination", [b"a", b"/topic/a", b"/exchange/a/log/", b"/logs/a"])
def test_what_only_logs_have_is_refused_elsewhere(line: bytes, destination: bytes) -> None:
    sentence = failure(b"SUBSCRIBE\nid:0\ndestination:" + destination + b"\n" + line + b"\n\n\0")
    assert destination.decode() in sentence and "only a log (/log/NAME) has it" in sentence


@pytest.mark.parametrize("version", VERSIONS)
def test_commit_of_what_is_prepared_and_of_a_version(version: int) -> None:
    head = b"COMMIT\ntransaction:t\n"
    assert command_of(head + b"prepare:p/1\nreceipt:r\n\n\0", version) == Commit(7, b"t", b"r", "p/1")
    for number in (0, TIME_MAX_MS):
        wanted = Commit(7, b"t", None, None, "app", number)
        for line in (b"producer-id:app", b"txn-app-id:app", b"txn-app-id:app\nproducer-id:app"):
            assert command_of(head + line + b"\ntxn-version:%d\n\n\0" % number, version) == wanted


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        (b"prepare:", "prepare '' has 0 bytes"),
        (b"prepare:" + b"p" * 256, "has 256 bytes"),
        (b"txn-app-id:" + b"p" * 256 + b"\ntxn-version:1", "txn-app-id 'ppp"),
        (b"txn-app-id:a", "one of producer-id and txn-version"),
        (b"txn-version:1", "one of producer-id and txn-version"),
        (b"txn-app-id:a\ntxn-version:-1", "txn-version '-1' is not a whole number from 0 to 999999999999999"),
        (b"txn-app-id:a\ntxn-version:%d" % (TIME_MAX_MS + 1), "txn-version '1000000000000000'"),
        (
            b"producer-id:a\ntxn-app-id:b\ntxn-version:1",
            "producer-id 'a' and txn-app-id 'b': they are two names of one",
        ),
        (b"producer-id:\ntxn-version:1", "producer-id '' has 0 bytes"),
        (b"producer-id:a", "one of producer-id and txn-version"),
        (b"prepare:p\ntxn-app-id:a\ntxn-version:1", "both prepare and producer-id"),
    ],
)
def test_wrong_value_on_commit_is_refused_by_name(lines: bytes, part: str) -> None:
    assert part in failure(b"COMMIT\ntransaction:t\n" + lines + b"\n\n\0")


@pytest.mark.parametrize("version", VERSIONS)
def test_subscription_without_id_is_named_by_its_destination(version: int) -> None:
    session = opened(version)
    assert session.receive(b"SUBSCRIBE\ndestination:foo\nack:client\n\n\0") == [
        Subscribe(7, b"/queue/foo", "/queue/foo", "client", named=version != V1_0)
    ]
    assert session.receive(b"UNSUBSCRIBE\ndestination:/queue/foo\n\n\0") == [Unsubscribe(7, b"/queue/foo")]
    assert session.receive(b"UNSUBSCRIBE\nid:0\ndestination:/queue/foo\n\n\0") == [Unsubscribe(7, b"0")]
    assert "'id' or 'destination'" in failure(b"UNSUBSCRIBE\n\n\0", version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("given", [b"id:0\n", b""])
@pytest.mark.parametrize(
    ("written", "sent", "shown"),
    [
        (b"foo", "/queue/foo", b"foo"),
        (b"/queue/foo", "/queue/foo", b"/queue/foo"),
        (b"/amq/queue/foo", "/queue/foo", b"/amq/queue/foo"),
        (b"foo", "/amq/queue/foo", b"foo"),
        (b"/queue/foo", "/amq/queue/foo", b"/queue/foo"),
        (b"foo", "/exchange/e/k", b"/exchange/e/k"),
        (b"foo", "/queue/bar", b"/queue/bar"),
        (b"/topic/a.*", "/topic/a.b", b"/topic/a.b"),
    ],
)
def test_destination_is_shown_as_its_subscription_wrote_it(
    version: int, given: bytes, written: bytes, sent: str, shown: bytes
) -> None:
    session = opened(version)
    (word,) = session.receive(b"SUBSCRIBE\n%bdestination:%b\nack:client\n\n\0" % (given, written))
    assert isinstance(word, Subscribe)
    named = word.subscription if word.named else None
    deliver = Deliver(7, named, b"m", Message(sent, b"", version, b"x" * 9, 1), True)
    assert b"\ndestination:%b\n" % shown in session.encode(deliver)
    assert b"".join(session.pieces(deliver)) == session.encode(deliver)
    session.receive(b"UNSUBSCRIBE\n%bdestination:%b\n\n\0" % (given, written))
    if not sent.startswith("/amq"):
        assert b"\ndestination:%b\n" % sent.encode() in session.encode(deliver)


def test_1_0_values_may_be_padded_and_later_ones_may_not() -> None:
    wire = b"SEND\ndestination: /queue/a\ncontent-length: 2\nfoo: bar\nreceipt: r\n\na\0\0"
    assert command_of(wire, V1_0) == Send(7, "/queue/a", b"foo: bar\n", V1_0, b"a\0", b" r")
    assert "content-length ' 2'" in failure(wire, V1_1)
    word = command_of(b"SEND\ndestination: a\n\n\0", V1_2)
    assert isinstance(word, Send) and word.destination == "/queue/ a"


@pytest.mark.parametrize("destination", [b"", b"/queue/", b"/queue/" + b"n" * 256, b"a\\nb", b"/topic/\x07"])
def test_bad_name_is_refused(destination: bytes) -> None:
    assert failure(b"SEND\ndestination:" + destination + b"\n\n\0").startswith("destination ")


def test_unknown_prefix_is_left_to_the_broker() -> None:
    word = command_of(b"SEND\ndestination:/foo/x\n\n\0")
    assert isinstance(word, Send) and word.destination == "/foo/x"


# ---- ends ---------------------------------------------------------------------------------------------------------


def test_words_before_a_broken_frame_are_said_and_none_after_it() -> None:
    session = opened()
    words = session.receive(b"BEGIN\ntransaction:1\n\n\0FOO\nreceipt:9\n\n\0BEGIN\ntransaction:2\n\n\0")
    assert words[0] == Begin(7, b"1")
    assert words[1:] == [Fail(7, words[1].sentence, b"9")]  # type: ignore[union-attr]
    assert session.receive(b"BEGIN\ntransaction:3\n\n\0") == []
    assert session.take_outgoing() == b"" and not session.is_closing


def test_nothing_is_read_after_disconnect() -> None:
    session = opened()
    assert session.receive(b"DISCONNECT\n\n\0BEGIN\ntransaction:1\n\n\0BROKEN") == [Disconnect(7)]
    assert session.receive(b"BEGIN\ntransaction:1\n\n\0") == []


def test_commands_are_case_sensitive() -> None:
    assert "'send' is not a command" in failure(b"send\ndestination:a\n\n\0")
    assert "without the header 'destination'" in failure(b"SEND\nDestination:a\n\n\0")


def test_buffered_bytes_are_those_of_the_unfinished_frame() -> None:
    session = opened()
    session.receive(b"DISCONNECT\n\n\0"[:5])
    assert session.buffered_bytes == 5
    session.receive(b"NNECT\nfoo:")
    assert session.buffered_bytes == 15
    session.receive(b"bar\n\n\0")
    assert session.buffered_bytes == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.sampled_from(VERSIONS))
def test_no_bytes_make_receive_raise(pieces: list[bytes], version: int) -> None:
    session = opened(version)
    words = [word for piece in pieces for word in session.receive(piece)]
    assert sum(isinstance(word, Fail) for word in words) <= 1


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_headers_make_receive_raise(data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(VERSIONS))
    name = st.sampled_from(
        [b"destination", b"id", b"ack", b"receipt", b"transaction", b"message-id", b"subscription", b"content-length",
         b"expiration", b"expires", b"reply-to", b"mandatory", b"dedup-id", b"prefetch-count", b"requeue", b"selector",
         b"exclusive", b"buffer-max-bytes", b"from", b"until", b"partition", b"group", b"prepare", b"producer-id",
         b"txn-app-id", b"txn-version"]
    )  # fmt: skip
    value = st.one_of(
        st.binary(max_size=8), st.sampled_from([b"1", b"true", b"/temp-queue/", b"/log/a", b"offset:1", b"\\c"])
    )
    lines = [n + b":" + v for n, v in data.draw(st.lists(st.tuples(name, value), max_size=6))]
    command = data.draw(st.sampled_from(sorted(CLIENT_COMMANDS[version])))
    opened(version).receive(b"\n".join([command, *lines]) + b"\n\n\0")


def test_replies_become_bytes_by_version() -> None:
    session = opened(V1_1)
    message = Message("/queue/a", b"foo:a\\rb\n", V1_2, b"body", 5)
    assert session.encode(Deliver(7, b"0", b"m-1", message, False)) == (
        b"MESSAGE\ndestination:/queue/a\nmessage-id:m-1\nsubscription:0\ncontent-length:4\ntimestamp:5\n"
        b"redelivered:false\nfoo:a\rb\n\nbody\0\n"
    )
    assert session.encode(Receipt(7, b"a:b")) == b"RECEIPT\nreceipt-id:a\\cb\n\n\0\n"
    error = session.encode(Refuse(7, "queue-full", "The queue is full.", b"r"))
    assert error.startswith(b"ERROR\n") and b"\ncode:queue-full\n" in error and b"\nreceipt-id:r\n" in error
    assert error.endswith(b"\0\n")
    for reply in (Bye(7), Pause(7), Resume(7)):
        assert session.encode(reply) == b""


def test_idle_session_is_small() -> None:
    """10,000 idle connections are a target: a session is to need under 1.5 KiB."""
    limits = Limits()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = []
        for _ in range(200):
            session = StompSession(7, "s-1", limits)
            session.receive(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
            session.take_outgoing()
            session.receive(b"SUBSCRIBE\nid:0\ndestination:/queue/a\nack:client\n\n\0\n")
            kept.append(session)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(kept) < 1536


# ---- SENDs that want their refusal as a RECEIPT

WRONG = [
    (b"delay:soon", "delay"), (b"delay:-1", "delay"), (b"expiration:x", "expiration"), (b"expires:1.5", "expires"),
    (b"deliver-at:-1", "deliver-at"), (b"mandatory:perhaps", "mandatory"), (b"immediate:2", "immediate"),
    (b"dedup-id:", "dedup-id"),
]  # fmt: skip


@pytest.mark.parametrize("header, name", WRONG)
def test_a_send_with_a_wrong_header_is_refused_as_it_asked(header: bytes, name: str) -> None:
    session = opened()
    asking = b"SEND\ndestination:/queue/a\nreceipt:r\non-refusal:receipt\n%b\n\nx\0"
    invalid, following = session.receive(asking % header + b"SEND\ndestination:/queue/a\n\nx\0")
    assert isinstance(invalid, InvalidSend) and isinstance(following, Send)
    assert invalid.receipt == b"r" and name in invalid.sentence
    (failed,) = session.receive(b"SEND\ndestination:/queue/a\nreceipt:r\n%b\n\nx\0" % header)
    assert isinstance(failed, Fail) and (failed.sentence, failed.receipt) == (invalid.sentence, b"r")


@pytest.mark.parametrize("destination", [b"/queue/", b"/temp-queue/", b""])
def test_so_is_one_to_what_is_no_destination(destination: bytes) -> None:
    asking = b"SEND\ndestination:%b\nreceipt:r\non-refusal:receipt\n\nx\0"
    (invalid,) = opened().receive(asking % destination)
    assert isinstance(invalid, InvalidSend)


@pytest.mark.parametrize(
    "frame",
    [
        b"SEND\nreceipt:r\non-refusal:receipt\n\nx\0",
        b"SEND\ndestination:/queue/a\nreceipt:r\non-refusal:maybe\n\nx\0",
        b"SEND\ndestination:/queue/a\non-refusal:receipt\n\nx\0",
        b"SEND\ndestination:/queue/a\nreceipt:r\non-refusal:receipt\ntransaction:t\ndelay:x\n\nx\0",
        b"SUBSCRIBE\ndestination:/queue/\nid:1\nreceipt:r\non-refusal:receipt\n\n\0",
    ],
)
def test_what_cannot_be_refused_so_ends_the_connection(frame: bytes) -> None:
    assert isinstance(opened().receive(frame)[-1], Fail)


# ---- headers that mean nothing here


@pytest.mark.parametrize(
    "header", [b"priority:9", b"AMQ_SCHEDULED_DELAY:1000", b"x-message-ttl:5", b"JMSXGroupID:a", b"_AMQ_GROUP_ID:a"]
)
def test_a_header_that_asks_other_brokers_for_something_is_told_once_and_travels(header: bytes) -> None:
    session = opened()
    wire = b"SEND\ndestination:/queue/a\n%b\n\nx\0" % header
    first, reported = session.receive(wire)
    assert isinstance(first, Send) and first.headers == header + b"\n"
    assert isinstance(reported, Unheeded)
    assert (reported.destination, reported.header) == ("/queue/a", header.partition(b":")[0].decode())
    (second,) = session.receive(wire)
    assert isinstance(second, Send) and second.headers == first.headers


@pytest.mark.parametrize("header", [b"no-local:true", b"activemq.priority:5", b"activemq.retroactive:true"])
def test_a_subscribe_that_asks_other_brokers_for_something_is_told_once(header: bytes) -> None:
    session = opened()
    first, reported = session.receive(b"SUBSCRIBE\ndestination:/queue/a\nid:1\n%b\n\n\0" % header)
    assert isinstance(first, Subscribe) and isinstance(reported, Unheeded)
    assert reported.header == header.partition(b":")[0].decode()
    assert len(session.receive(b"SUBSCRIBE\ndestination:/queue/a\nid:2\n%b\n\n\0" % header)) == 1


def test_who_wants_to_browse_takes_nothing() -> None:
    assert "peek" in failure(b"SUBSCRIBE\ndestination:/queue/a\nid:1\nbrowser:true\n\n\0")
    assert isinstance(
        command_of(b"SUBSCRIBE\ndestination:/queue/a\nid:1\nbrowser:false\nno-local:false\n\n\0"), Subscribe
    )


@pytest.mark.parametrize("header", [b"priority:0", b"priority: 4", b"persistent:true", b"delay:5"])
def test_what_is_usual_or_understood_is_not_told(header: bytes) -> None:
    assert isinstance(command_of(b"SEND\ndestination:/queue/a\n%b\n\nx\0" % header), Send)


@pytest.mark.parametrize("last", [b"DISCONNECT\n\n\0", b"NONSENSE\n\n\0"])
def test_nothing_is_told_behind_the_last_word(last: bytes) -> None:
    words = opened().receive(b"SEND\ndestination:/queue/a\npriority:9\n\nx\0" + last)
    assert [type(word) for word in words] == [Send, Disconnect if last.startswith(b"DIS") else Fail]


# ---- logging in -----------------------------------------------------------------------------------------------------

SHOP = Principal("shop", RecognisedBy.PASSWORD)
LOGIN = b"CONNECT\naccept-version:1.2\nhost:h\nlogin:shop\npasscode:se:c\\ret\n\n\0"
A_SEND = b"SEND\ndestination:/queue/a\nreceipt:1\n\nx\0"


class AsTold:
    """A login that says what it is told. given: what it was asked."""

    def __init__(self, at_once: Principal | Refusal | None = None) -> None:
        self.at_once = at_once
        self.given: list[tuple[Principal, bytes, bytes]] = []

    def begin(self, principal: Principal, name: bytes, secret: bytes) -> Principal | Check:
        self.given.append((principal, name, secret))
        if isinstance(self.at_once, Refusal):
            raise self.at_once
        return (lambda: SHOP) if self.at_once is None else self.at_once

    def unasked(self, principal: Principal) -> Principal | None:
        raise AssertionError("a CONNECT asks")

    def answered(self, verdict: Verdict) -> Principal:
        if isinstance(verdict, Refusal):
            raise verdict
        return verdict


def logging_in(login: AsTold) -> StompSession:
    return StompSession(7, "s-1", Limits(), ANYONE, login)


def test_a_login_is_given_as_it_stands_there() -> None:
    """CONNECT has no escapes, so a passcode may have colons and backslashes."""
    login = AsTold()
    logging_in(login).receive(LOGIN)
    assert login.given == [(ANYONE, b"shop", b"se:c\\ret")]
    bare = AsTold()
    logging_in(bare).receive(b"CONNECT\n\n\0")
    assert bare.given == [(ANYONE, b"", b"")]


@pytest.mark.parametrize("behind", [b"", A_SEND, A_SEND[:9], b"\n\n", b"garbage that is no frame\n\0"])
def test_what_is_behind_connect_is_not_looked_at_before_the_verdict(behind: bytes) -> None:
    session = logging_in(AsTold())
    assert session.receive(LOGIN[:20]) == [] and session.pending is None and session.buffered_bytes == 20
    assert session.receive(LOGIN[20:] + behind) == []
    assert session.pending is not None and not session.is_open
    assert session.buffered_bytes == len(behind) and session.take_outgoing() == b""
    commands = session.answered(SHOP)
    assert commands[0] == Open(7, principal=SHOP) and session.pending is None and session.is_open
    assert session.take_outgoing().startswith(b"CONNECTED\n")
    if behind == A_SEND:
        assert isinstance(commands[1], Send)
    elif behind.startswith(b"garbage"):
        assert isinstance(commands[1], Fail)
    else:
        assert len(commands) == 1
    if behind == A_SEND[:9]:
        assert session.buffered_bytes == 9
        (send,) = session.receive(A_SEND[9:])
        assert isinstance(send, Send)


@pytest.mark.parametrize("comes_later", [False, True])
def test_a_refused_login_is_an_error_and_the_end(comes_later: bool) -> None:
    refused = Refusal("forbidden", "Login refused: no.")
    session = logging_in(AsTold(None if comes_later else refused))
    assert session.receive(LOGIN + A_SEND) == []
    if comes_later:
        assert session.answered(refused) == []
    outgoing = session.take_outgoing()
    assert b"\ncode:forbidden\n" in outgoing and outgoing.startswith(b"ERROR\n") and b"ret" not in outgoing
    assert session.is_closing and not session.is_open and session.closing_cause == "refused: forbidden"
    assert session.receive(A_SEND) == [] and session.buffered_bytes == 0


def test_who_is_known_at_once_need_not_wait() -> None:
    session = logging_in(AsTold(SHOP))
    opened_as, send = session.receive(LOGIN + A_SEND)
    assert opened_as == Open(7, principal=SHOP) and isinstance(send, Send) and session.pending is None


def test_a_connect_that_breaks_the_protocol_is_told_so_once_its_client_is_known() -> None:
    session = logging_in(AsTold())
    session.receive(LOGIN.replace(b"accept-version:1.2", b"accept-version:9"))
    assert session.answered(SHOP) == [] and session.is_closing
    assert b"code:protocol" in session.take_outgoing()


def test_what_is_no_connect_is_refused_without_a_login() -> None:
    login = AsTold()
    session = logging_in(login)
    assert session.receive(A_SEND) == [] and session.is_closing and login.given == []


def test_nothing_of_a_login_stays_in_the_session() -> None:
    session = logging_in(AsTold())
    session.receive(LOGIN)
    kept = [getattr(session, name, None) for name in StompSession.__slots__]
    frame = session._greeting
    assert frame is not None and b"passcode" not in frame.headers and frame.lines == []
    assert not any(b"ret" in str(one).encode() for one in kept)
    session.forget()
    assert session._greeting is None and session.pending is None
