"""The options of source and sink: what they may be, and what is said of what they may not be."""

import time
from pathlib import Path

import pytest

from radiator.integrations.spark.connect import Connect
from radiator.integrations.spark.options import (
    CHECKOUT,
    EXACTLY_ONCE,
    OptionError,
    SinkOptions,
    SourceOptions,
    column_options,
    matching,
    sink_options,
    source_options,
)
from tests.avro_bodies import ORDER_TEXT

DEFAULT_CONNECT = Connect(("stomp://127.0.0.1:61613",), 100, 0.3, unreached_s=6.0)


def of_stream(**given: str) -> SourceOptions:
    return source_options(given, is_stream=True)


def of_batch(**given: str) -> SourceOptions:
    return source_options(given, is_stream=False)


def mistakes(given: dict[str, str], *, is_stream: bool = True) -> list[str]:
    with pytest.raises(OptionError) as caught:
        source_options(given, is_stream=is_stream)
    return str(caught.value).split("\n")


def sink_mistakes(given: dict[str, str], *, is_stream: bool = True) -> list[str]:
    with pytest.raises(OptionError) as caught:
        sink_options(given, is_stream=is_stream)
    return str(caught.value).split("\n")


def test_a_name_is_enough() -> None:
    assert of_stream(subscribe="orders") == SourceOptions(
        connect=DEFAULT_CONNECT,
        mode="log",
        partitions={"orders": frozenset()},
        pattern=None,
        group="",
        starting="latest",
        ending="latest",
        include_headers=False,
        fail_on_data_loss=True,
        min_partitions=1,
        batch_rows=10_000,
        max_rows=1_000_000,
        max_bytes=1024**3,
        min_rows=1,
        max_delay_s=900,
        poll_timeout_ms=500,
    )
    assert of_batch(subscribe="orders").starting == "earliest"


def test_a_micro_batch_is_bounded_unless_an_option_bounds_it() -> None:
    """That what the sink commits at once has room for a batch of the defaults: test_sink.py."""
    rows, size = of_stream(subscribe="a", maxOffsetsPerTrigger="5"), of_stream(subscribe="a", maxBytesPerTrigger="5")
    assert (rows.max_rows, rows.max_bytes) == (5, None)
    assert (size.max_rows, size.max_bytes) == (None, 5)
    queue = of_stream(mode="checkout", group="g", subscribe="a")
    assert (queue.max_rows, queue.max_bytes) == (None, None)


def test_names_are_compared_without_regard_to_case() -> None:
    lower = of_stream(subscribe="orders", maxoffsetspertrigger="5", INCLUDEHEADERS="TRUE", startingOffsets="Earliest")
    assert (lower.max_rows, lower.include_headers, lower.starting) == (5, True, "earliest")


def test_a_log_may_be_named_by_its_address() -> None:
    assert set(of_stream(subscribe="/log/orders, events").partitions) == {"orders", "events"}
    assert of_stream(assign='{"/log/orders": [0, 2]}').partitions == {"orders": {0, 2}}
    assert set(of_stream(mode="checkout", group="g", subscribe="/queue/orders").partitions) == {"orders"}


def test_where_to_begin_and_end() -> None:
    assert of_batch(subscribe="a", startingTimestamp="5").starting == 5
    read = of_batch(subscribe="a,b", startingOffsets='{"a": {"0": 5, "1": -2}}', endingOffsets='{"/log/b": {"0": -1}}')
    assert read.starting == {"a": {0: 5, 1: -2}}
    assert read.ending == {"b": {0: -1}}


def test_addresses() -> None:
    connect = of_stream(subscribe="a", url="stomp://one:1, stomp://two:2", **{"fetchOffset.numRetries": "0"}).connect
    assert connect == Connect(("stomp://one:1", "stomp://two:2"), 0, 0.3)


def test_logs_by_a_pattern() -> None:
    read = of_batch(subscribePattern="/log/orders[.](eu|us)", startingOffsets='{"orders.eu": {"0": 5}}')
    assert (read.pattern, read.partitions, read.starting) == ("orders[.](eu|us)", {}, {"orders.eu": {0: 5}})


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders.eu"}),
        ("(?i)ORDERS[.](eu|us)", {"orders.eu"}),
        ("a|b", {"a"}),  # as a whole each, not `a...` or `...b`
        ("^orders$", {"orders"}),
        ("nothing", set()),
    ],
)
def test_a_pattern_is_that_of_a_whole_name(pattern: str, found: set[str]) -> None:
    assert matching(pattern, ["orders", "orders.eu", "my.orders", "a", "a.b", "ab"]) == found


def test_no_pattern_takes_for_ever() -> None:
    begin_s = time.monotonic()
    assert matching("(a+)+b", ["a" * 255]) == set()
    assert time.monotonic() - begin_s < 1


def test_a_schema_of_bodies(tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(ORDER_TEXT)
    for given in (ORDER_TEXT, str(file)):
        read = of_stream(subscribe="a", valueSchema=given)
        assert (read.value_schema, read.keeps_misfits) == (ORDER_TEXT, False)
        assert column_options({"subscribe": "a", "VALUESCHEMA": given}) == (False, ORDER_TEXT, False)
    permissive = {
        "subscribe": "a",
        "valueSchema": ORDER_TEXT,
        "valueSchemaMode": "permissive",
        "includeHeaders": "true",
    }
    assert of_batch(**permissive).keeps_misfits
    assert column_options(permissive) == (True, ORDER_TEXT, True)
    assert column_options({"subscribe": "a", "nonsense": "x"}) == (False, None, False)


def test_a_wrong_schema_of_bodies_is_refused_before_there_are_columns() -> None:
    for given in ({"valueSchema": '{"type": "recor"}'}, {"valueSchemaMode": "FAILFAST"}):
        with pytest.raises(OptionError) as caught:
            column_options(given)
        assert [str(caught.value)] == mistakes({"subscribe": "a", **given})


@pytest.mark.parametrize(
    ("delay", "seconds"), [("500", 0.5), ("250ms", 0.25), ("30s", 30), ("5 min", 300), ("2M", 120), ("1h", 3600)]
)
def test_a_delay_has_units_as_sparks(delay: str, seconds: float) -> None:
    assert of_stream(subscribe="a", minOffsetsPerTrigger="9", maxTriggerDelay=delay).max_delay_s == seconds


def test_an_explicit_number_of_tries_holds_of_a_broker_that_was_never_reached_too() -> None:
    for name in ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs"):
        assert of_stream(subscribe="a", **{name: "5"}).connect.unreached_s == float("inf")


@pytest.mark.parametrize("url", ["stomp://one:1,stomp://u:hunter2@two:2", "stomps://u@two:2"])
def test_a_login_in_the_address_is_refused_and_not_shown(url: str) -> None:
    (sentence,) = mistakes({"subscribe": "a", "url": url})
    assert sentence.endswith("for others to read: give the options user and passwordFile instead.")
    assert "two:2" in sentence and "hunter2" not in sentence and "@" not in sentence


@pytest.mark.parametrize("name", ["password", "Passcode", "token", "secret"])
def test_a_secret_among_the_options_is_refused_and_not_shown(name: str) -> None:
    given = {name: "hunter2"}
    for several in (mistakes({"subscribe": "a", **given}), sink_mistakes({"destination": "/queue/a", **given})):
        (one,) = several
        assert one.startswith(f"There is no option {name.lower()!r}: ") and "the option passwordFile" in one
        assert "hunter2" not in one


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"user": "etl"}, "The options user and passwordFile belong together: "),
        ({"passwordFile": "f"}, "The options user and passwordFile belong together: "),
        ({"user": "etl", "passwordFile": ""}, "The option passwordFile has 0 bytes: it must have 1 to 4096."),
        ({"caFile": "f"}, "The option caFile has no meaning without TLS: write stomps://HOST:PORT in url."),
        ({"certificateFile": "f"}, "The option certificateFile has no meaning without TLS"),
        ({"url": "stomps://a", "keyFile": "f"}, "The option keyFile has no meaning without certificateFile"),
        (
            {"url": "stomps://a", "cafiles": "f"},
            "There is no option 'cafiles' for a stream that is read. Is caFile meant?",
        ),
    ],
)
def test_a_login_or_a_file_that_cannot_be(given: dict[str, str], sentence: str) -> None:
    (mistake,) = mistakes({"subscribe": "a", **given})
    assert mistake.startswith(sentence)
    assert sink_mistakes({"destination": "/queue/a", **given})[0].startswith(sentence.partition(" for a stream")[0])


@pytest.mark.parametrize(
    ("given", "described"),
    [
        ({"subscribe": "b,a"}, "/log/a, /log/b at stomp://127.0.0.1:61613"),
        ({"subscribe": ",".join(map(str, range(10)))}, ", /log/7, 2 more at "),
        ({"assign": '{"a": [2, 0]}'}, "/log/a (partitions 0, 2) at "),
        ({"subscribePattern": "a.*", "url": "stomp://b:1,stomp://c:2"}, "match 'a.*' at stomp://b:1, stomp://c:2"),
        ({"subscribe": "q", "mode": "checkout", "group": "g"}, "/queue/q by checkout of group g at "),
    ],
)  # fmt: skip
def test_a_source_is_described(given: dict[str, str], described: str) -> None:
    assert described in str(of_stream(**given))


@pytest.mark.parametrize(
    ("given", "is_stream", "hint"),
    [
        ({"startingOffset": "x"}, False, "for a batch that is read. Is startingOffsets meant?"),
        ({"endingOfsets": "x"}, False, "for a batch that is read. Is endingOffsets meant?"),
        ({"maxOffsetPerTrigger": "5"}, False, "Is maxOffsetsPerTrigger meant? That has no meaning for a batch that is"),
        ({"endingOfsets": "x"}, True, "Is endingOffsets meant? That has no meaning for a stream that is read."),
        ({"destinaton": "x"}, True, "Is destination meant? That has no meaning for a stream that is read."),
        ({"kafka.bootstrap.server": "x"}, False, "Say where the broker is with url"),
        ({"subscibePattern": "x"}, False, "Is subscribePattern meant?"),
    ],
)
def test_a_misspelt_option_is_hinted_at(given: dict[str, str], is_stream: bool, hint: str) -> None:
    [mistake] = mistakes({"subscribe": "a", **given}, is_stream=is_stream)
    assert hint in mistake


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"subscribe": "a", "maxOffsetPerTrigger": "5"}, "Is maxOffsetsPerTrigger meant?"),
        ({"subscribe": "a", "subscribePattern": "b"}, "Which log is to be read?"),
        ({"subscribePattern": "a("}, "The option subscribePattern is 'a(', which is not a regular expression of RE2"),
        ({"subscribePattern": "a)|(b"}, "which is not a regular expression of RE2"),
        ({"subscribePattern": "(?!a).*"}, "which is not a regular expression of RE2"),
        ({"subscribePattern": "a.*", "startingOffsets": '{"b": {"0": 3}}'}, "speaks of 'b', which is not read."),
        ({"subscribePattern": "a", "mode": "checkout", "group": "g"}, "The mode checkout reads one queue"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "is 6: it must be at most 5"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "1000001"}, "it must be at most 1000000, which is maxOffsets"),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"},
            "'soon': it must be a whole number",
        ),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "5", "maxTriggerDelay": "1.5s"},
            "it must be a whole number of ms, ",
        ),
        ({"subscribe": "a", "maxTriggerDelay": "5s"}, "maxTriggerDelay has no meaning without minOffsetsPerTrigger"),
        (
            {"subscribe": "a", "mode": "checkout", "group": "g", "minOffsetsPerTrigger": "5"},
            "The option minOffsetsPerTrigger has no meaning in mode checkout",
        ),
        ({"subscribe": "a", "colour": "red"}, "There is no option 'colour' for a stream that is read. There are: "),
        (
            {"subscribe": "a", "kafka.bootstrap.servers": "b:9092"},
            "There is no option 'kafka.bootstrap.servers'. Say where",
        ),
        ({"subscribe": "a", "startingOffsetsByTimestamp": "{}"}, "There is startingTimestamp, one time for all"),
        ({"subscribe": "a", "path": "/tmp"}, "Nothing is read or written at a path"),
        (
            {"subscribe": "a", "delivery": "exactlyOnce"},
            "The option delivery has no meaning for a stream that is read.",
        ),
        ({"subscribe": "a", "endingOffsets": "latest"}, "The option endingOffsets has no meaning"),
        ({}, "Which log is to be read?"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "Which log is to be read?"),
        ({"mode": "checkout", "group": "g"}, "Which queue is to be read?"),
        ({"subscribe": "a,,b"}, "The option subscribe is 'a,,b': it must be different names"),
        ({"subscribe": "a,a"}, "it must be different names"),
        ({"assign": "a"}, "The option assign is 'a': it must be JSON such as"),
        ({"assign": "{}"}, "it must be JSON such as"),
        ({"assign": '{"a": []}'}, "The option assign says [] of 'a': it must be a list such as [0, 1]."),
        ({"assign": '{"a": [-1]}'}, "it must be a list such as"),
        ({"assign": '{"a": [true]}'}, "it must be a list such as"),
        ({"subscribe": "a", "mode": "queue"}, "The option mode is 'queue': it must be log or checkout."),
        ({"subscribe": "a", "valueSchema": "no/file"}, "The option valueSchema is 'no/file', which cannot be read"),
        (
            {"subscribe": "a", "valueSchema": '["int", "long"]'},
            "The option valueSchema has no types in Spark: the body",
        ),
        (
            {"subscribe": "a", "valueSchema": '"int"', "valueSchemaMode": "DROPMALFORMED"},
            "The option valueSchemaMode is 'DROPMALFORMED': it must be FAILFAST or PERMISSIVE.",
        ),
        (
            {"subscribe": "a", "valueSchemaMode": "PERMISSIVE"},
            "The option valueSchemaMode has no meaning without valueSchema.",
        ),
        ({"subscribe": "a", "includeHeaders": "yes"}, "The option includeHeaders is 'yes': it must be true or false."),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "it must be a whole number from 1 to 2147483647."),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "2147483648"}, "it must be a whole number from 1 to 2147483647."),
        ({"subscribe": "a", "pollTimeoutMs": "60001"}, "it must be a whole number from 0 to 60000."),
        ({"subscribe": "a", "minPartitions": "1e3"}, "it must be a whole number from 1 to 100000."),
        ({"subscribe": "a", "url": "http://x"}, "The option url: The broker's address 'http://x' cannot be used"),
        ({"subscribe": "a", "startingOffsets": "first"}, "'first': it must be earliest or latest, or JSON such as"),
        ({"subscribe": "a", "startingOffsets": '{"a": 5}'}, "The option startingOffsets says 5 of 'a'"),
        (
            {"subscribe": "a", "startingOffsets": '{"a": {"0": -3}}'},
            '{"0": 5}, -2 for the earliest, -1 for the latest.',
        ),
        ({"subscribe": "a", "startingOffsets": '{"a": {"x": 3}}'}, "it must be offsets by partition"),
        ({"subscribe": "a", "startingOffsets": '{"b": {"0": 3}}'}, "speaks of 'b', which is not read."),
        (
            {"subscribe": "a", "startingOffsets": "latest", "startingTimestamp": "5"},
            "The options startingOffsets and startingTimestamp cannot both be given.",
        ),
        ({"subscribe": "a", "group": "g"}, "The option group is for mode checkout only"),
        ({"subscribe": "a", "mode": "checkout"}, "The mode checkout needs the option group"),
        ({"subscribe": "a", "mode": "checkout", "group": "a/b"}, "The option group is 'a/b': there may be no / in it."),
        ({"subscribe": "a,b", "mode": "checkout", "group": "g"}, "The mode checkout reads one queue"),
        (
            {"subscribe": "a", "mode": "checkout", "group": "g", "startingOffsets": "latest"},
            "The option startingOffsets has no meaning in mode checkout",
        ),
        ({"subscribe": "a", "mode": "checkout", "group": "x" * 256}, "The option group has 256 bytes"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, str], sentence: str) -> None:
    [mistake] = mistakes(given)
    assert sentence in mistake


def test_every_mistake_is_said_at_once() -> None:
    assert len(mistakes({"mode": "x", "minPartitions": "x", "nothing": "x"})) == 4


def test_what_only_a_batch_or_a_stream_may_have() -> None:
    assert "earliest" not in mistakes({"subscribe": "a", "endingOffsets": "earliest"}, is_stream=False)[0].split(":")[1]
    assert "no meaning for a batch" in mistakes({"subscribe": "a", "maxOffsetsPerTrigger": "5"}, is_stream=False)[0]
    checkout = {"subscribe": "a", "mode": "checkout", "group": "g"}
    assert "in a stream only" in mistakes(checkout, is_stream=False)[0]
    assert of_stream(**checkout).mode == CHECKOUT


def test_a_sink_needs_nothing() -> None:
    assert sink_options({}, is_stream=True) == SinkOptions(DEFAULT_CONNECT, None, EXACTLY_ONCE, None, None, None, 500)
    assert sink_options({"checkpointLocation": "/tmp/x"}, is_stream=True).delivery == EXACTLY_ONCE
    assert sink_options({"queryName": "clicks"}, is_stream=True).delivery == EXACTLY_ONCE


@pytest.mark.parametrize(
    ("given", "is_stream", "sentence"),
    [
        ({"delivery": "once"}, True, "The option delivery is 'once': it must be exactlyOnce or atLeastOnce."),
        ({"txnAppId": "app"}, False, "The options txnAppId and txnVersion belong together"),
        ({"txnVersion": "1"}, False, "The options txnAppId and txnVersion belong together"),
        ({"txnVersion": "1"}, True, "The option txnVersion has no meaning for a stream that is written."),
        ({"txnAppId": "a" * 161}, True, "The option txnAppId has 161 bytes: it must have 1 to 160."),
        ({"txnAppId": ""}, True, "The option txnAppId has 0 bytes"),
        ({"receiptWindow": "0"}, True, "it must be a whole number from 1 to 100000."),
        ({"topic": "x"}, True, "There is no option 'topic'. Say where rows are sent with destination ("),
        ({"topics": "x"}, True, "There is no option 'topics' for a stream that is written. Say where rows are sent"),
        ({"destinaton": "x"}, False, "for a batch that is written. Is destination meant?"),
        ({"txnAppID2": "x"}, False, "Is txnAppId meant?"),
    ],
)
def test_what_is_wrong_with_a_sink_is_said(given: dict[str, str], is_stream: bool, sentence: str) -> None:
    [mistake] = sink_mistakes(given, is_stream=is_stream)
    assert sentence in mistake


def test_a_batch_of_an_application() -> None:
    sink = sink_options({"txnAppId": "a" * 160, "txnVersion": "0", "destination": "/queue/a"}, is_stream=False)
    assert (sink.version, sink.destination) == (0, "/queue/a")


@pytest.mark.parametrize(
    ("destination", "delivery", "is_right"),
    [
        ("/queue/a", "exactlyOnce", True),
        ("orders", "exactlyOnce", True),
        ("/topic/a", "atLeastOnce", True),
        ("/topic/a", "exactlyOnce", False),
        ("/quue/a", "atLeastOnce", False),
        ("/admin", "exactlyOnce", False),
    ],
)
def test_a_destination_that_cannot_be_is_refused_before_a_task_begins(
    destination: str, delivery: str, is_right: bool
) -> None:
    given = {"destination": destination, "delivery": delivery}
    if is_right:
        assert sink_options(given, is_stream=True).destination == destination
        return
    with pytest.raises(OptionError, match=f"destination is '{destination}'"):
        sink_options(given, is_stream=True)
