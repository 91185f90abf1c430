"""config.toml is read again: after it the broker is as a start with that file would have made it, or as it was."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from typing import Any

from radiator.model.commands import Event, Reread
from radiator.model.errors import ConfigError, StoreError
from radiator.model.limits import MIB, Limits
from radiator.model.reloading import RELOAD, differences, merged
from radiator.model.settings import Binding, Config, Declarations, ExchangeSettings, LogSettings, QueueSettings
from radiator.model.validation import LOG, QUEUE
from radiator.tools.config import load
from radiator.tools.config.jwt import JWT
from radiator.tools.config.users import USER
from radiator.tools.config.values import (
    CREATE,
    EXCHANGE,
    FANOUT,
    HTTP,
    JOURNAL,
    LIMITS,
    LOGGING,
    PEER_NODE,
    SERVER,
    THIS_NODE,
    TLS,
    TOPIC,
)
from tests.core.node import Node
from tests.core.timed import TURN_MAX_S, Timed, measures_turns
from tests.core.words import send, subscribe

PAIRS = 100  # 4000 were looked at; these take a second


def started(declarations: Declarations, limits: Limits | None = None, **more: Any) -> Node:
    """A broker of its own copies: a reload changes them."""
    return Node(replace(declarations), replace(limits or Limits()), **more)


def reload(node: Node, declarations: Declarations, limits: Limits | None = None) -> list[str]:
    """By a signal: what the log says of it, by its events."""
    config = Config(data_dir=Path("/d"), disk_free_min=0, declarations=declarations, limits=limits or Limits())
    before = len(node.notes)
    node.turn([Reread(config)])
    assert node.broker.reloading.current is None
    return [note.event for note in node.notes[before:]]


def refusal(node: Node, declarations: Declarations) -> str:
    """Why it is not reloaded; nothing is otherwise then."""
    was, before = picture(node), len(node.notes)
    assert set(reload(node, declarations)) == {"reload_refused"}
    assert picture(node) == was
    return str(node.notes[before].fields["sentence"])


def picture(node: Node) -> dict[str, Any]:
    """All that config.toml, and what was declared at run time, make of a broker, as far as a restart keeps it."""
    broker, destinations = node.broker, node.broker.destinations
    declared = destinations.declarations

    def lasts(queue: Any) -> bool:
        return queue.is_persistent or queue.name in declared.queues

    def bindings(exchange: Any) -> dict[tuple[str, str], bool]:
        lasting = {(key, queue): by_file for (key, queue), by_file in exchange.bindings.items() if lasts(queue)}
        return {(k, q.name): by_file for (k, q), by_file in lasting.items() if by_file or q.is_persistent}

    return {
        "declarations": declared,
        "queues": {
            queue.name: (queue.is_persistent, asdict(queue.settings), queue.is_declared, queue.given)
            for queue in destinations.queues.everything()
            if lasts(queue)
        },
        "messages": {
            queue.name: queue.ledger.stored for queue in destinations.queues.everything() if queue.is_persistent
        },
        "logs": {name: (asdict(log.log_settings), log.is_declared) for name, log in destinations.logs.all.items()},
        "fanouts": {name: fanout.children for name, fanout in destinations.fanouts.all.items()},
        "exchanges": {
            name: (asdict(exchange.settings), exchange.is_declared, bindings(exchange))
            for name, exchange in destinations.exchanges.all.items()
        },
        "shadowed": (destinations.fanouts.shadowed, destinations.exchanges.shadowed),
        "bindings": {name: sorted(pairs) for name, pairs in destinations.declared_bindings.items()},
        "dying into": {
            name: {queue.name for queue in queues} for name, queues in destinations.queues.dying_into.items()
        },
        "limits": broker.parts.limits,
        "memory": (broker.parts.memory.bound_bytes, broker.parts.memory.share_bytes, destinations.windows.size_max),
        "out": (destinations.windows.out_max, destinations.readers.out_max),
        "disk": (broker.parts.disk.free_min, broker.parts.disk.high_water_bytes),
    }


# ---- a reload is a restart ------------------------------------------------------------------------------------------


def chosen(chance: Random, *what: str, share: float = 0.5) -> list[str]:
    return [one for one in what if chance.random() < share]


def queue_lines(chance: Random) -> list[str]:
    return chosen(
        chance,
        f"max_messages = {chance.randrange(1, 9)}",
        f"max_bytes = {chance.randrange(1, 9) * 100}",
        f"overflow = '{chance.choice(('block', 'reject', 'drop-oldest'))}'",
        "dead_letter = 'dead'",
        f"max_redeliveries = {chance.randrange(5)}",
        f"message_ttl_ms = {chance.randrange(1, 9)}000000",
        f"ack_timeout_s = {chance.randrange(1, 9)}",
        f"dedup_window_s = {chance.randrange(3)}",
        f"expires_ms = {chance.randrange(1, 9)}000000",
        f"redelivery_delay_ms = {chance.randrange(3)}",
        f"exclusive = {chance.choice(('true', 'false'))}",
        share=0.3,
    ) + chosen(chance, f"partition_key = '{chance.choice(('/k', 'header:k'))}'", share=0.05)


def written(chance: Random) -> str:
    """The text of a file: what it may hold, some of it."""
    lines = ["[create]", f"queues = {chance.choice(('true', 'false'))}", f"topics = {chance.choice(('true', 'false'))}"]
    lines += ["[limits]"] + chosen(
        chance,
        f"max_memory_bytes = '{chance.randrange(1, 9)}MiB'",
        f"max_destinations = {chance.randrange(50, 99)}",
        f"block_timeout_s = {chance.randrange(9)}",
        f"max_frame_bytes = '{chance.randrange(1, 3)}MiB'",
        f"max_batch_bytes = '{chance.randrange(1, 9)}MiB'",
        f"ack_client_window = {chance.randrange(1, 9)}",
    )
    lines += ["[queue.dead]"]
    for name in chosen(chance, "a", "b", "c", "'p.a'", "'p.b.c'", "'p.*'", "'p.#'", "'*.c'", "'$durable.#'"):
        lines += [f"[queue.{name}]", *queue_lines(chance)]
        if chance.random() < 0.1 and name in ("a", "b", "'p.*'"):
            lines = [line for line in lines if not line.startswith("dedup_window_s")] + ["persistent = false"]
    for name in chosen(chance, "x", "y"):
        retention = chosen(chance, f"retention_ms = {chance.randrange(9)}", "partition_key = '/id'")
        lines += [f"[log.{name}]", f"partitions = {2 if name == 'y' else chance.choice((1, 1, 1, 2))}", *retention]
    targets = [name for name in ("a", "b", "new", "dead") if name in ("dead",) or f"[queue.{name}]" in lines] + [
        f"/log/{name}" for name in "xy" if f"[log.{name}]" in lines
    ]
    for name in chosen(chance, "f", "g"):
        lines += [f"[fanout.{name}]", f"children = {chosen(chance, *targets) or targets[:1]}"]
    for name in chosen(chance, "e", "d", "'amq.direct'"):
        pairs = [f"{{ key = '{key}', queue = '{chance.choice(targets)}' }}" for key in chosen(chance, "k", "l", "m")]
        lines += [f"[exchange.{name}]", *([f"bindings = [{', '.join(pairs)}]"] if pairs else [])]
        if name == "e" and chance.random() < 0.2:
            lines.append("type = 'topic'")
    for name in chosen(chance, "t", "'t.*'"):
        lines.append(f"[topic.{name}]")
    return "\n".join(lines) + "\n"


def loaded(directory: Path, chance: Random) -> Config:
    """Of a file that is right."""
    while True:
        try:
            (directory / "config.toml").write_text(written(chance))
            return load(directory / "config.toml")
        except ConfigError:
            continue


def live(node: Node, chance: Random) -> None:
    """What clients and operators do with it at run time; some is refused."""
    node.open(1, 9)
    for _ in range(chance.randrange(12)):
        name = chance.choice(("a", "b", "c", "p.a", "p.z", "q", "r"))
        request: dict[str, Any] = chance.choice(
            (
                {"do": "declare", "queue": name, **chance.choice(({}, {"max_messages": 5}, {"dead_letter": "dead"}))},
                {"do": "declare", "queue": name, "dedup_window_s": 3, "dead_letter": "q"},
                {"do": "declare", "exchange": chance.choice("exyz"), "type": "direct"},
                {"do": "declare", "fanout": chance.choice("fgh"), "children": ["dead"]},
                {"do": "declare", "log": chance.choice("xyz"), "partitions": 2, "retention_ms": 77},
                {"do": "bind", "exchange": chance.choice("ede"), "key": chance.choice("kln"), "queue": name},
                {"do": "unbind", "exchange": chance.choice("ed"), "key": chance.choice("kln"), "queue": name},
                {"do": "delete", "queue": name},
                {"do": "delete", "exchange": chance.choice("exyz")},
                {"do": "delete", "fanout": chance.choice("fgh")},
            )
        )
        node.admin(9, **request)
        if node.has(name) and not node.is_refused(1):
            node.say(send(1, name))


def test_a_reload_is_a_restart(tmp_path: Path) -> None:
    done = refused = waiting = 0
    for seed in range(PAIRS):
        chance = Random(seed)
        running, read = loaded(tmp_path, chance), loaded(tmp_path, chance)
        node = started(running.declarations, running.limits)
        live(node, chance)
        for _ in range(chance.choice((1, 1, 2))):  # and back, some of them
            after = merged(running, read)
            was = picture(node)
            changes = differences(running, read, ".".join)
            waiting += any(one.takes_effect == "restart" for one in changes)
            if all(one.takes_effect == "now" for one in changes):
                assert after == replace(read, useless=[]), f"seed {seed}"
            events = reload(node, replace(after.declarations), after.limits)
            platter = node.disk.platter.copy()
            if events[-1] != "reloaded":
                refused += 1
                assert picture(node) == was, f"seed {seed}"
                assert_needs_a_restart(node, was, after)
                break
            done += 1
            restarted = started(after.declarations, after.limits, platter=platter)
            assert picture(node) == picture(restarted), f"seed {seed}"
            running, read = after, running
    assert done > PAIRS // 2 and refused > 3 and waiting > 5, (done, refused, waiting)


def assert_needs_a_restart(node: Node, was: dict[str, Any], after: Config) -> None:
    """A start is refused with this too, or makes another kind of a queue or an exchange."""
    try:
        restarted = picture(started(after.declarations, after.limits, platter=node.disk.platter.copy()))
    except StoreError:
        return
    kinds = [(name, row[0]) for name, row in was["queues"].items()]
    is_other = any(restarted["queues"].get(name, (None,))[0] != kind for name, kind in kinds)
    keys = {name: row[1]["partition_key"] for name, row in was["queues"].items()}
    is_other |= any(row[1]["partition_key"] != keys.get(name) for name, row in restarted["queues"].items())
    of_exchanges = [(name, row[0]) for name, row in was["exchanges"].items()]
    is_other |= any(restarted["exchanges"].get(name, (None,))[0] != kind for name, kind in of_exchanges)
    assert is_other, node.notes[-1]


# ---- what becomes of what is there ----------------------------------------------------------------------------------


def queues(**settings: QueueSettings) -> Declarations:
    return Declarations(queues=settings)


def test_messages_above_a_lowered_bound_stay_and_the_next_send_waits() -> None:
    node = started(queues(q=QueueSettings(max_messages=5)))
    node.open(1, 2)
    node.say(*[send(1, "q", b"%d" % number) for number in range(5)])
    assert reload(node, queues(q=QueueSettings(max_messages=2)))[-1] == "reloaded"
    node.say(send(1, "q", b"5", b"r"))
    assert node.stored("q") == [b"0", b"1", b"2", b"3", b"4"] and node.receipts(1) == [] and not node.is_refused(1)
    reload(node, queues(q=QueueSettings(max_messages=6)))
    assert node.receipts(1) == [b"r"] and node.numbers("q")["messages"] == 6  # who waited has room now


def test_drop_oldest_drops_with_the_next_send_and_not_with_the_reload() -> None:
    node = started(queues(q=QueueSettings()))
    node.open(1)
    node.say(*[send(1, "q", b"%d" % number) for number in range(5)])
    reload(node, queues(q=QueueSettings(max_messages=2, overflow="drop-oldest")))
    assert len(node.stored("q")) == 5
    node.say(send(1, "q", b"5"))
    assert node.stored("q") == [b"4", b"5"]


def test_who_waits_is_refused_where_overflow_is_reject_now() -> None:
    node = started(queues(q=QueueSettings(max_messages=1)))
    node.open(1)
    node.say(send(1, "q"), send(1, "q"))
    reload(node, queues(q=QueueSettings(max_messages=1, overflow="reject")))
    assert node.refusal(1).code == "queue-full"


def test_dead_letters_go_where_the_new_file_says() -> None:
    node = started(queues(q=QueueSettings(dead_letter="old", max_redeliveries=0), old=QueueSettings()))
    reload(node, queues(q=QueueSettings(dead_letter="new", max_redeliveries=0), new=QueueSettings()))
    node.open(1, 2)
    node.say(send(1, "q"), subscribe(2, "q"))
    node.message(2)
    node.close(2)
    assert node.stored("new") == [b"x"] and node.stored("old") == [] and node.has("old")


def test_a_queue_that_the_file_names_no_more_stays_and_may_be_deleted() -> None:
    node = started(queues(q=QueueSettings(max_messages=3), mem=QueueSettings(persistent=False, max_messages=3)))
    node.open(1, 9)
    node.say(send(1, "q"), send(1, "mem"))
    assert node.admin(9, do="delete", queue="q")["code"] == "declared"
    reload(node, Declarations())
    assert node.stored("q") == [b"x"] and node.numbers("mem")["messages"] == 1
    assert node.broker.destinations.queues.all["mem"].settings.max_messages == 3
    assert node.admin(9, do="delete", queue="q")["deleted"] == 1
    assert node.admin(9, do="delete", queue="mem")["deleted"] == 1


def test_limits_hold_for_all_who_have_them() -> None:
    node = started(Declarations(create_queues=True))
    node.open(1)
    reload(node, Declarations(create_queues=True), Limits(max_transactions=0, max_memory_bytes=8 * MIB))
    assert node.broker.parts.memory.bound_bytes == 8 * MIB and node.broker.destinations.windows.size_max == MIB
    reload(node, Declarations(create_queues=True), Limits(max_destinations=1))
    node.say(send(1, "a"), send(1, "b"))
    assert node.refusal(1).code == "too-many-destinations"


def test_what_first_use_may_create_changes() -> None:
    node = started(Declarations())
    node.open(1, 2)
    reload(node, Declarations(create_queues=True))
    node.say(send(1, "q", receipt=b"r"))
    reload(node, Declarations())
    node.say(send(2, "other"))
    assert node.receipts(1) == [b"r"] and node.refusal(2).code == "no-such-destination"


def test_a_binding_made_at_run_time_stays_beside_those_of_the_file() -> None:
    exchange = {"e": ExchangeSettings()}
    both = Declarations(queues={"q": QueueSettings()}, exchanges=exchange, bindings=[Binding("e", "k", "q")])
    node = started(both)
    node.open(1, 9)
    node.admin(9, do="bind", exchange="e", key="own", queue="q")
    reload(node, replace(both, bindings=[Binding("e", "l", "q")]))
    node.say(*[send(1, f"/exchange/e/{key}", key.encode()) for key in ("k", "l", "own")])
    assert node.stored("q") == [b"l", b"own"]
    reload(node, Declarations(queues={"q": QueueSettings()}))
    node.say(send(1, "/exchange/e/own"))
    assert node.refusal(1).code == "no-such-destination"
    assert node.again_on(node.disk.platter.copy()).stored("q") == [b"l", b"own"]


def test_a_binding_of_the_file_that_was_made_at_run_time_first_is_that_again() -> None:
    declared = Declarations(queues={"q": QueueSettings()}, exchanges={"e": ExchangeSettings()})
    node = started(declared)
    node.open(1, 9)
    node.admin(9, do="bind", exchange="e", key="k", queue="q")
    reload(node, replace(declared, bindings=[Binding("e", "k", "q")]))
    assert node.admin(9, do="unbind", exchange="e", key="k", queue="q")["code"] == "declared"
    reload(node, declared)
    node.say(send(1, "/exchange/e/k"))
    assert node.stored("q") == [b"x"]
    assert node.admin(9, do="unbind", exchange="e", key="k", queue="q")["ok"]


def test_what_waits_for_a_restart_keeps_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "old").write_text(
        "[queue.a]\n[log.b]\n[exchange.e]\nbindings = [{ queue = 'a' }, { queue = '/log/b' }]"
    )
    (tmp_path / "new").write_text("[queue.c]\n[exchange.e]\ntype = 'topic'\nbindings = [{ queue = 'c' }]")
    running, read = load(tmp_path / "old"), load(tmp_path / "new")
    effects = {one.setting: one.takes_effect for one in differences(running, read, ".".join)}
    assert effects == {
        "queue.c": "now", "exchange.e.type": "restart", "exchange.e.bindings": "restart",
        "queue.a": "restart", "log.b": "restart",
    }  # fmt: skip
    after = merged(running, read).declarations
    assert set(after.queues) == {"a", "c"} and set(after.logs) == {"b"} and len(after.bindings) == 2


def test_retention_of_a_log_changes_and_its_records_stay() -> None:
    node = started(Declarations(logs={"x": LogSettings(retention_ms=None)}))
    node.open(1)
    node.say(send(1, "/log/x"))
    reload(node, Declarations(logs={"x": LogSettings(retention_bytes=5 * MIB), "y": LogSettings(partitions=2)}))
    logs = node.broker.destinations.logs.all
    assert logs["x"].log_settings.retention_bytes == 5 * MIB and logs["x"].records == 1 and "y" in logs


# ---- what is refused, whole -----------------------------------------------------------------------------------------


def test_a_log_with_other_partitions_is_refused_as_by_a_start() -> None:
    node = started(Declarations(logs={"x": LogSettings()}))
    sentence = refusal(node, Declarations(logs={"x": LogSettings(partitions=3)}, create_queues=True))
    assert sentence.startswith("/log/x is declared with partitions = 3, but it has 1")


def test_a_queue_cannot_change_between_disk_and_memory() -> None:
    node = started(Declarations(create_queues=True))
    node.open(1)
    node.say(send(1, "q"))
    sentence = refusal(node, queues(q=QueueSettings(persistent=False, max_messages=9)))
    assert sentence.startswith("/queue/q has persistent = true, and would have false: that needs a restart.")


def test_another_key_of_a_queue_that_is_there_needs_a_restart() -> None:
    by_key = QueueSettings(partition_key=("header:a", "/b"))
    node = started(Declarations(create_queues=True))
    node.open(1)
    node.say(send(1, "q"))
    sentence = refusal(node, queues(q=by_key))
    assert sentence.startswith('/queue/q has partition_key = none, and would have ["header:a", "/b"]: that needs a re')
    node = started(Declarations(queue_patterns=[("q", by_key)]))
    node.open(1)
    node.say(send(1, "q"))
    assert refusal(node, queues(q=QueueSettings())).startswith('/queue/q has partition_key = ["header:a", "/b"], and')


def test_a_partition_window_holds_at_once() -> None:
    node = started(queues(q=QueueSettings(partition_key=("/a",))))
    assert reload(node, queues(q=QueueSettings(partition_key=("/a",), partition_window=7)))[-1] == "reloaded"
    assert node.broker.destinations.queues.all["q"].settings.partition_window == 7


def test_dead_letters_of_a_queue_declared_at_run_time_are_judged() -> None:
    node = started(queues(a=QueueSettings()))
    node.open(9)
    node.admin(9, do="declare", queue="b", dead_letter="a")
    sentence = refusal(node, queues(a=QueueSettings(dead_letter="b")))
    assert "cycle" in sentence


def test_mistakes_of_the_file_change_nothing_and_are_told() -> None:
    node = started(queues(a=QueueSettings()))
    was = picture(node)
    node.turn([Reread(None, mistakes=["line 1: one.", "line 2: two."])])
    assert [note.fields["sentence"] for note in node.notes if note.event == "reload_refused"] == [
        "line 1: one.", "line 2: two.",
    ]  # fmt: skip
    assert picture(node) == was and node.broker.reloading.current is None


# ---- who asks -------------------------------------------------------------------------------------------------------


def test_a_request_is_answered_with_the_differences_and_a_trial_changes_nothing() -> None:
    node = started(queues(a=QueueSettings()))
    node.open(9)
    node.reread = None  # the test is the shell
    new = queues(a=QueueSettings(max_messages=7))
    change = {"setting": "queue.a.max_messages", "old": None, "new": 7, "takes_effect": "now"}
    for is_trial in (True, False):
        body = b'{"do": "reload", "dry_run": %s}' % (b"true" if is_trial else b"false")
        node.say(send(9, "/admin", body, reply_to="admin"))
        assert node.asked_to_reread and not node.messages(9)
        node.turn([Reread(Config(data_dir=Path("/d"), declarations=new), [change], ["useless."])])
        (answer,) = node.messages(9)
        expected = {"ok": True, "applied": not is_trial, "changes": [change], "warnings": ["useless."]}
        assert json.loads(answer.message.body) == expected
        settings = node.broker.destinations.queues.all["a"].settings
        assert settings.max_messages == (None if is_trial else 7)


def test_one_request_at_a_time() -> None:
    node = started(queues(a=QueueSettings()))
    node.open(8, 9)
    node.reread = None
    node.say(send(8, "/admin", b'{"do": "reload"}', reply_to="admin"))
    assert node.admin(9, do="reload")["code"] == "in-use"
    node.close(8)
    node.turn([Reread(None, mistakes=["wrong."])])
    node.say(send(9, "/admin", b'{"do": "reload"}', reply_to="admin"))
    node.turn([Reread(None, mistakes=["one.", "two."])])
    (answer,) = node.messages(9)
    found = json.loads(answer.message.body)
    assert (found["ok"], found["code"], found["error"]) == (False, "configuration", "one.\ntwo.")


def test_so_many_queues_take_slices_and_a_queue_made_meanwhile_is_as_the_others() -> None:
    count = 3000
    old = Declarations(queue_patterns=[("q.*", QueueSettings())])
    new = Declarations(queue_patterns=[("q.*", QueueSettings(max_messages=7))], queues={"new": QueueSettings()})
    node = started(old, auto=False)
    node.open(1)
    for number in range(count):
        node.say(send(1, f"q.{number}"))
    node.commit() if node.seal() else None
    node.turn([Reread(Config(data_dir=Path("/d"), declarations=new))])
    turns = 1
    while node.broker.reloading.current is not None:
        if turns == 2:
            node.say(send(1, "q.meanwhile"))
        node.turn([])
        turns += 1
    assert turns > 4 and node.has("new")
    destinations = node.broker.destinations
    names = [name for name in destinations.queues.all if name.startswith("q.")]
    assert len(names) == count + 1
    assert all(destinations.queues.all[name].settings.max_messages == 7 for name in names)


@measures_turns
def test_no_reload_makes_a_long_turn() -> None:
    """Of so many queues, each with other settings; and as many bindings, fanouts and queues that are new, or go."""
    count = 5000
    dead = {"dead": QueueSettings()}
    files = [
        Declarations(queue_patterns=[("q.*", QueueSettings(dead_letter="dead", max_messages=bound))], queues=dict(dead))
        for bound in (5, 7)
    ]
    files[1].queues |= {f"new{number}": QueueSettings() for number in range(1000)}
    files[1].fanouts = {f"f{number}": ("dead",) for number in range(1000)}
    files[1].exchanges = {"e": ExchangeSettings()}
    files[1].bindings = [Binding("e", f"k{number}", "dead") for number in range(count)]
    limits = Limits(max_destinations=40_000)
    node = Timed(replace(files[0]), limits)
    for number in range(count):
        node.broker.destinations.queues.get(f"q.{number}")
    turns = iter(range(100))

    def make() -> list[Event]:
        new = files[(next(turns) + 1) % 2]
        return [Reread(Config(data_dir=Path("/d"), declarations=replace(new), limits=replace(limits)))]

    assert node.longest_turn_s(make) <= TURN_MAX_S
    assert node.longest_turn_s(make) <= TURN_MAX_S, "and back"


# ---- the table ------------------------------------------------------------------------------------------------------


def test_the_table_has_every_setting_of_every_table_of_the_file() -> None:
    tables = {
        "server": SERVER, "logging": LOGGING, "http": HTTP, "limits": LIMITS, "create": CREATE, "journal": JOURNAL,
        "node": THIS_NODE, "peer": PEER_NODE, "tls": TLS, "jwt": JWT, "queue": QUEUE, "log": LOG,
        "exchange": EXCHANGE, "fanout": FANOUT, "topic": TOPIC, "user": USER,
    }  # fmt: skip
    assert {name: set(keys) for name, keys in RELOAD.items()} == {name: set(keys) for name, keys in tables.items()}
    assert {effect for keys in RELOAD.values() for effect in keys.values()} == {"now", "restart"}
