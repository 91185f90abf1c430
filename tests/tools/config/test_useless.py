"""Settings that are right, and do nothing beside the others: told, each with its line; and no others are."""

from pathlib import Path

import pytest

from radiator.tools.config import load, render

USELESS = {
    "overflow without a bound": ("[queue.a]\noverflow = 'reject'", "queue.a.overflow has no effect"),
    "the same of a pattern": ("[queue.'a.*']\noverflow = 'drop-oldest'", 'queue."a.*".overflow has no effect'),
    "max_redeliveries without dead_letter": ("[queue.a]\nmax_redeliveries = 3", "queue.a.max_redeliveries"),
    "a factor of no delay": ("[queue.a]\nredelivery_delay_factor = 3", "queue.a.redelivery_delay_factor"),
    "a maximum of no delay": ("[queue.a]\nredelivery_delay_max_ms = 3", "queue.a.redelivery_delay_max_ms"),
    "a maximum of what does not grow": (
        "[queue.a]\nredelivery_delay_ms = 2\nredelivery_delay_factor = 1\nredelivery_delay_max_ms = 3",
        "queue.a.redelivery_delay_max_ms",
    ),
    "a bound above the store": ("server.map_size = '1GiB'\n[queue.a]\nmax_bytes = '1GiB'", "queue.a.max_bytes"),
    "a bound above the memory": ("[queue.a]\npersistent = false\nmax_bytes = '2GiB'", "queue.a.max_bytes"),
    "retention above the store": (
        "server.map_size = '1GiB'\n[log.a]\nretention_bytes = '1GiB'",
        "log.a.retention_bytes",
    ),
    "a key of one partition": ("[log.a]\npartition_key = '/id'", "log.a.partition_key"),
    "the journal's retention above the store": (
        "server.map_size = '1GiB'\n[journal]\nenabled = true\nretention_bytes = '1GiB'",
        "journal.retention_bytes",
    ),
    "retention of no journal": ("[journal]\nretention_ms = 5", "journal.retention_ms"),
    "what no durable subscription is": ("[queue.'$durable.#']\nexclusive = true", 'queue."$durable.#".exclusive'),
    "a durable subscription in memory": ("[queue.'$durable.#']\npersistent = false", 'queue."$durable.#".persistent'),
    "a key of a durable subscription": (
        "[queue.'$durable.#']\npartition_key = 'header:a'",
        'queue."$durable.#".partition_key',
    ),
    "a single consumer of a durable subscription": (
        "[queue.'$durable.#']\nsingle_active_consumer = true",
        'queue."$durable.#".single_active_consumer',
    ),
    "priorities of a durable subscription": (
        "[queue.'$durable.#']\nmax_priority = 5",
        'queue."$durable.#".max_priority',
    ),
    "a key of a fanout": (
        "[queue.q]\n[exchange.e]\ntype = 'fanout'\nbindings = [{ key = 'k', queue = 'q' }]",
        'exchange.e.bindings has the key "k"',
    ),
    "a certificate that nobody is shown": ("tls = { certificate = 'c', key = 'k' }", "tls has no effect"),
    "a CA of clients that are asked for nothing": (
        "server.listen = ['stomps://127.0.0.1:0']\n[tls]\ncertificate = 'c'\nkey = 'k'\nclient_ca = 'a'",
        "tls.client_ca",
    ),
    "a CA of nodes that are not dialled": (
        "server.listen = ['stomps://127.0.0.1:0']\n[tls]\ncertificate = 'c'\nkey = 'k'\npeer_ca = 'a'",
        "tls.peer_ca",
    ),
    "more of one address than of all": (
        "limits.max_half_open = 10\nlimits.max_half_open_per_address = 20",
        "limits.max_half_open_per_address",
    ),
    "a token that is over": (
        f"[user.a]\nrole = 'viewer'\ntokens = [{{ sha256 = '{'0' * 64}', until = 1970-01-02 }}]",
        "user.a.tokens has an expired token",
    ),
    "a user who may do nothing": ("[user.anonymous]", "user.anonymous has neither a rule nor a role"),
    "a wildcard of other brokers": ("[user.anonymous]\nread = ['/queue/a.>']", 'user.anonymous.read has "/queue/a.>"'),
    "a wildcard within a word": ("[queue.'orders*']", 'queue."orders*" is no pattern, as "orders*" is a word like'),
    "another": ("[topic.'a.#b']", 'topic."a.#b" is no pattern, as "#b" is a word like any other'),
    "the same, alone": ("[user.anonymous]\nread = ['/topic/>']", 'user.anonymous.read has "/topic/>"'),
}
USEFUL = {
    "a token that ends one day, and a rule": (
        f"[user.a]\nrole = 'viewer'\ntokens = [{{ sha256 = '{'0' * 64}', until = 9999-01-01 }}]"
    ),
    "whole words": "[queue.'a.*']\n[topic.'a.#']\n[user.anonymous]\nread = ['/queue/*.a.#']",
    "a name with that sign": "[user.anonymous]\nread = ['/queue/a>b']",
    "overflow with a bound": "[queue.a]\noverflow = 'reject'\nmax_messages = 5",
    "overflow in memory, which is bounded": "[queue.a]\npersistent = false\noverflow = 'reject'",
    "max_redeliveries with dead_letter": "[queue.a]\nmax_redeliveries = 3\ndead_letter = 'd'\n[queue.d]",
    "a delay that grows": "[queue.a]\nredelivery_delay_ms = 2\nredelivery_delay_max_ms = 9",
    "the defaults, written": "[queue.a]\noverflow = 'block'\nmax_redeliveries = 16\nredelivery_delay_factor = 2",
    "a key of two partitions": "[log.a]\npartitions = 2\npartition_key = '/id'",
    "retention within the store": "[log.a]\nretention_bytes = '1GiB'",
    "a journal": "[journal]\nenabled = true\nretention_ms = 5",
    "a key of a queue": "[queue.a]\npartition_key = '/id'\npartition_window = 5",
    "the default window, written": "[queue.a]\npartition_window = 1",
    "a fanout without keys": "[queue.q]\n[exchange.e]\ntype = 'fanout'\nbindings = [{ queue = 'q' }]",
    "a durable subscription's bound": "[queue.'$durable.#']\nmax_messages = 5",
    "more than the default of all": "limits.max_half_open = 10",
}


def useless(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(0o600)
    return [sentence.removeprefix(f"{file}, ") for sentence in load(file).useless]


@pytest.mark.parametrize("text, begins", USELESS.values(), ids=USELESS)
def test_what_has_no_effect_is_told_with_its_line(tmp_path: Path, text: str, begins: str) -> None:
    (sentence,) = useless(tmp_path, text)
    assert sentence.partition(": ")[2].startswith(begins), sentence
    assert sentence.startswith(f"line {len(text.splitlines())}: ") and sentence.endswith(".")
    assert ";" in sentence  # what would help


@pytest.mark.parametrize("text", USEFUL.values(), ids=USEFUL)
def test_what_has_an_effect_is_not_told(tmp_path: Path, text: str) -> None:
    assert useless(tmp_path, text) == []


@pytest.mark.parametrize("text", USEFUL.values(), ids=USEFUL)
def test_what_is_printed_with_all_defaults_has_nothing_useless(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "config.toml").chmod(0o600)
    printed = render(load(tmp_path / "config.toml")).replace('"not shown"', f"{{ sha256 = '{'0' * 64}' }}")
    assert useless(tmp_path, printed) == []
