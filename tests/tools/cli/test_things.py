"""A thing is KIND NAME or its address, in every command alike; what cannot be meant is refused."""

import argparse
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radiator.model.addresses import KINDS
from radiator.tools.cli import COMMANDS, main, parser
from radiator.tools.cli.things import DESTINATIONS, ArgumentWord, Thing, thing


def words_of(one: argparse.ArgumentParser) -> tuple[ArgumentWord, ...]:
    return next((getattr(action, "words", ()) for action in one._actions if hasattr(action, "words")), ())


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Of each command, and of each kind that one has commands of its own for."""
    found = {}

    def look(name: str, one: argparse.ArgumentParser) -> None:
        below = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
        if not below:
            found[name] = one
        for action in below:
            for word, child in action.choices.items():
                look(f"{name} {word}".strip(), child)

    look("", parser())
    return found


READ = {"MESSAGE_ID": "s-1-2", "SECONDS": "60"}
"""What stands for words that are read as something."""


def line(words: tuple[ArgumentWord, ...], say: Any) -> list[str]:
    """A command line with every needed word, each thing as `say` says it."""
    texts: list[str] = []
    for word in words:
        if word.is_needed or word.kinds:
            texts += say(word) if word.kinds else [READ.get(word.metavar, "word")]
    return texts


NAMING = {name: words_of(one) for name, one in parsers().items() if any(word.kinds for word in words_of(one))}


def test_every_command_that_names_a_thing_is_here() -> None:
    assert {name.split()[0] for name in NAMING} == {
        "send", "receive", "peek", "why", "describe", "declare", "bind", "unbind", "delete", "purge", "move",
        "return", "route", "position", "release", "bench", "unacked", "extend", "history",
    }  # fmt: skip
    assert {name.split()[0] for name in parsers()} == {*COMMANDS}


def test_no_command_reads_its_arguments_in_a_way_of_its_own() -> None:
    """But for those that name no thing: nodes, messages and shells."""
    own = {
        (name, action.dest)
        for name, one in parsers().items()
        for action in one._actions
        if not action.option_strings and not hasattr(action, "words")
    }
    assert own == {("peer", "action"), ("peer", "peer"), ("completion", "shell"), ("explain", "message_id")}
    of_may = {"USER", "RIGHT", "DESTINATION"}  # which may be /#, or a pattern, as a rule may
    plain = {word.metavar for one in parsers().values() for word in words_of(one) if not word.kinds}
    assert plain == {"DATA_DIR", "FILE", "NAME", "KEY", "GROUP", "BODY", "DIRECTORY", "NUMBER", "OLD", *READ, *of_may}


@pytest.mark.parametrize("name", sorted(NAMING))
def test_both_forms_mean_the_same_in_every_command(name: str) -> None:
    words = NAMING[name]
    for at in range(max(len(word.kinds) for word in words)):

        def kind(word: ArgumentWord, at: int = at) -> str:
            return word.kinds[min(at, len(word.kinds) - 1)]

        spoken = parser().parse_args([*name.split(), *line(words, lambda word: [kind(word), "n/a.b"])])
        address = parser().parse_args([*name.split(), *line(words, lambda word: [f"/{kind(word)}/n/a.b"])])
        assert spoken.things == address.things and spoken.things
        assert spoken.things == [Thing(kind(word), "n/a.b") for word in words if word.kinds]
    bare = parser().parse_args([*name.split(), *line(words, lambda word: ["n.b"])])
    assert [one.kind for one in bare.things] == [word.kinds[0] for word in words if word.kinds]


def test_a_kind_is_said_by_the_address_too() -> None:
    spoken = parser().parse_args(["declare", "queue", "orders", "--max-messages", "5"])
    address = parser().parse_args(["declare", "/queue/orders", "--max-messages", "5"])
    assert vars(spoken).items() >= {"kind": "queue", "what": Thing("queue", "orders"), "set_max_messages": 5}.items()
    assert vars(spoken) == vars(address)


@pytest.mark.parametrize(
    ("text", "kinds", "is_what"),
    [
        ("orders", ("queue", "log"), Thing("queue", "orders")),
        ("clicks", ("log",), Thing("log", "clicks")),
        ("/queue/a/b", ("log", "queue"), Thing("queue", "a/b")),
        ("/queue//a", ("queue",), Thing("queue", "/a")),
        ("/queue/ a ", ("queue",), Thing("queue", " a ")),
        ("/amq/queue/a", ("queue",), Thing("queue", "a")),
        ("/queue/queue/a", ("queue",), Thing("queue", "queue/a")),
        ("queues/a", ("queue",), Thing("queue", "queues/a")),
        ("$durable/topic/a/b", ("queue",), Thing("queue", "$durable/topic/a/b")),
        ("/exchange/events/a.b", ("queue", "exchange"), Thing("exchange", "events/a.b")),
    ],
)
def test_what_is_meant(text: str, kinds: tuple[str, ...], is_what: Thing) -> None:
    assert thing(text, kinds) == is_what


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            " orders",
            "' orders' has a space at its beginning; without it, it is 'orders', and a queue that is called so",
        ),
        ("orders ", "'orders ' has a space at its end; without it, it is 'orders', and a queue that is called so is "),
        (" /queue/orders", "without it, it is '/queue/orders'"),
        (
            "queue/orders",
            "'queue/orders' has no / before it; did you mean '/queue/orders'? A queue that is called so is",
        ),
        ("topic/news", "did you mean '/topic/news'?"),
        ("amq/queue/a", "did you mean '/amq/queue/a'?"),
        ("/topic/news", "'/topic/news' is not a queue or log; write NAME or /queue/NAME, /log/NAME"),
        ("/quue/a", "'/quue/a' is not an address; did you mean \"queue\"?"),
        ("/nowhere", "'/nowhere' is not an address; write NAME or /queue/NAME, /log/NAME"),
        ("/queue/", "'/queue/' names nothing; write NAME or /queue/NAME"),
        ("", "'' names nothing; write NAME or /queue/NAME"),
    ],
)
def test_what_cannot_be_meant(text: str, sentence: str) -> None:
    with pytest.raises(ValueError) as wrong:
        thing(text, ("queue", "log"))
    assert sentence in str(wrong.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("delete queue", "'queue' must be followed by a NAME; something called that is '/queue/queue'."),
        ("move queue a", "The following arguments are required: TO."),
        ("move a", "The following arguments are required: TO."),
        ("peek log clicks", "Unrecognized arguments: clicks; a KIND is one of queue."),
        ("serve a.toml", "Unrecognized arguments: a.toml; did you mean --config a.toml?"),
        ("describe que orders", "Unrecognized arguments: orders; a KIND is one of queue, exchange, fanout, log."),
        ("declare /topic/t", "There is no kind '/topic/t'; it is one of queue, exchange, fanout, log."),
        ("declare queue /log/t", "'/log/t' is not a queue; write NAME or /queue/NAME."),
        ("declare queue q --dead-letter queue/d", "did you mean '/queue/d'?"),
        ("archive --to x --log ' a'", "' a' has a space at its beginning"),
        ("check a --data b", "DATA_DIR is given twice."),
        ("config a --config b", "FILE is given twice."),
        ("stats --broker stomp://127.0.0.1 --config b", "not allowed with"),
        ("audit --data a --config b", "not allowed with"),
        ("check", "Where are the data? Say --data DATA_DIR, or --config FILE."),
        (
            "explain 4f0c2a91b7d3e865-3-17",
            "Where are the data? Say --data DATA_DIR, or --config FILE, or --archive DIR.",
        ),
    ],
)
def test_a_slip_is_a_usage_error(text: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(text)) == 2
    out, err = capsys.readouterr()
    assert sentence in err and err.count("\n") == 1 and out == ""


def test_no_kind_of_address_is_forgotten() -> None:
    for kind in KINDS:
        assert thing(f"/{kind}/a", KINDS) == Thing(kind, "a")


@given(st.text(st.sampled_from("/aq \t$*é") | st.characters(), max_size=12), st.sampled_from(DESTINATIONS))
def test_what_is_understood_has_one_address(text: str, kind: str) -> None:
    """It is refused, or its address and its KIND NAME mean the same as it does."""
    for found in (text, f"{kind}/{text}", f"/{kind}/{text}"):
        try:
            one = thing(found, DESTINATIONS)
        except ValueError:
            continue
        assert thing(one.address, DESTINATIONS) == one
        assert one.address == found or (one == Thing("queue", found) and found == found.strip() and found[0] != "/")
