"""Every command is authorized before it is carried out: each type of command, at each door.

Which types there are is read from the model. One that is added passes here too, or fails: this file names none of those
that it makes by their fields.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from radiator import core
from radiator.core.routing.admission import Admission
from radiator.model.administration import AdminCommand
from radiator.model.commands import (
    Abort,
    Ack,
    Administer,
    Begin,
    Closed,
    Command,
    Commit,
    Disconnect,
    Event,
    Fail,
    InvalidSend,
    Nack,
    Open,
    PeerMessage,
    Read,
    Send,
    Written,
)
from radiator.model.errors import Refusal
from radiator.model.message import Message
from radiator.model.peer import Identity, PeerFrame, Taken, Version
from radiator.model.principal import Principal, RecognisedBy, node_principal
from radiator.model.rendering import Rendering
from radiator.model.replies import Refuse, RefusedReceipt, Scope
from radiator.model.settings import Declarations, QueueSettings
from radiator.model.settings import Node as Named
from radiator.model.unacked import OutPlace
from radiator.protocols.administration import JSON
from tests.core.admin.test_commands import Direct
from tests.core.node import Node
from tests.core.words import ack, begin, commit, nack, send, subscribe
from tests.house.sources import nodes_of

ALICE, BOB = Principal("alice"), Principal("bob")
DECLARED = Declarations(create_queues=True, queues={"small": QueueSettings(max_messages=1)})
COMMANDS: tuple[type, ...] = get_args(Command)
REQUESTS: tuple[type, ...] = get_args(AdminCommand)
FRAMES: tuple[type, ...] = get_args(PeerFrame)


class Recorder:
    """Refuses what `refuses` says, and keeps all that it was asked about."""

    def __init__(self, refuses: Callable[[Any], bool] = lambda command: False) -> None:
        self.refuses = refuses
        self.asked: list[tuple[Principal, Any]] = []

    def check(self, principal: Principal, command: Command | AdminCommand) -> None:
        self.asked.append((principal, command))
        if self.refuses(command):
            raise Refusal("forbidden", f"{principal.name} may not do that.")

    def types(self, principal: Principal) -> list[type]:
        """Of what it was asked about for that one, in order."""
        return [type(command) for who, command in self.asked if who == principal]


def everything(command: object) -> bool:
    return True


def nothing(command: object) -> bool:
    return False


def sample(kind: Any) -> Any:
    """Any value of that type."""
    if isinstance(kind, UnionType):
        return sample(get_args(kind)[0]) if kind != PeerFrame else Taken(1)
    if get_origin(kind) in (list, tuple, Sequence):
        return ()
    if get_origin(kind) is Mapping or kind is Any:
        return {}
    if kind is Message:
        return Message("/queue/q", b"", 2, b"x", 1)
    if kind is Version:
        return Version("b", 1, 1)
    if kind is Rendering:
        return JSON
    if kind is OutPlace:
        return OutPlace(1, 1)
    if kind is Principal:
        return BOB
    if kind in (int, float, str, bytes, bool):
        return b"q" if kind is bytes else "q" if kind is str else kind(1)
    raise AssertionError(f"this test has no value of type {kind}: add one")


def any_of(kind: type, **given: object) -> Any:
    """One that has all that it must have; the other fields have their defaults."""
    hints = get_type_hints(kind)
    needed = [one.name for one in fields(kind) if one.init and one.default is one.default_factory is MISSING]
    return kind(**{name: given[name] if name in given else sample(hints[name]) for name in needed})


def node(recorder: Recorder, *principals: Principal, closes_at: Scope = Scope.CONNECTION, auto: bool = True) -> Node:
    """Connections 1, 2 and so on are those principals'."""
    made = Node(DECLARED, auto=auto, authorizer=recorder)
    join(made, *principals, closes_at=closes_at)
    return made


def join(node: Node, *principals: Principal, closes_at: Scope = Scope.CONNECTION) -> None:
    for number, principal in enumerate(principals, 1):
        node.inbox[number], node.delivers[number] = [], 0
        node.turn([Open(number, closes_at=closes_at, principal=principal)])


def codes(node: Node, connection: int) -> list[str]:
    return [reply.code for reply in node.inbox[connection] if isinstance(reply, Refuse | RefusedReceipt)]


# ---- what clients and nodes say -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: str(kind.__name__))
def test_a_command_of_each_type_is_refused_to_who_may_do_nothing(kind: type) -> None:
    recorder = Recorder(everything)
    broker = node(recorder, ALICE, auto=False)
    command = any_of(kind, connection=1)
    writes = broker.broker.batch_writes
    broker.turn([Read(1, [command])])
    assert recorder.asked == [(ALICE, command)]
    assert codes(broker, 1) == ["forbidden"]
    assert broker.broker.batch_writes == writes and {*broker.broker.destinations.queues.all} == {"small"}


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: str(kind.__name__))
def test_a_refusal_is_of_the_command_alone_unless_it_is_the_last(kind: type) -> None:
    first = any_of(kind, connection=1)
    broker = node(Recorder(lambda command: command is first), ALICE)
    broker.turn([Read(1, [first, send(1, "q", b"behind")])])
    (refuse,) = (reply for reply in broker.inbox[1] if isinstance(reply, Refuse | RefusedReceipt))
    is_last = kind in (Disconnect, Fail)
    if isinstance(refuse, Refuse):
        assert refuse.scope == (Scope.CONNECTION if is_last else Scope.COMMAND)
    else:
        assert kind is InvalidSend
    assert refuse.sentence == "alice may not do that."
    assert broker.stored("q") == ([] if is_last else [b"behind"])


@pytest.mark.parametrize("kind", FRAMES, ids=lambda kind: str(kind.__name__))
def test_a_link_is_its_own_principal(kind: type) -> None:
    recorder = Recorder(everything)
    broker = Node(DECLARED, node=Named(name="a", secret=b"secret", peers={"b": None}), authorizer=recorder)
    broker.inbox[7], broker.delivers[7] = [], 0
    broker.turn([Open(7, Identity("b", "b" * 16, False), principal=node_principal("b"))])
    command = PeerMessage(7, any_of(kind))
    broker.turn([Read(7, [command])])
    assert recorder.asked == [(Principal("b", RecognisedBy.LINK_PROOF), command)]
    assert codes(broker, 7) == ["forbidden"]


def test_what_waits_for_room_is_authorized_again_when_there_is_some() -> None:
    recorder = Recorder()
    broker = node(recorder, ALICE, BOB)
    broker.say(subscribe(2, "small"), send(1, "small", b"1"), send(1, "small", b"2"))
    assert broker.paused == {1}
    recorder.refuses = lambda command: isinstance(command, Send)
    broker.say(ack(broker.message(2)))
    assert codes(broker, 1) == ["forbidden"] and not broker.paused and broker.stored("small") == []
    assert recorder.types(ALICE) == [Send, Send, Send]


def test_without_an_authorizer_nothing_stands_before_a_handler() -> None:
    handlers = Node().broker._commands
    assert isinstance(handlers, dict) and {*handlers} == {*COMMANDS}
    assert handlers[Send].__func__ is Admission.send  # type: ignore[attr-defined]  # a bound method


# ---- now or later ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [Send, Ack, Nack], ids=lambda kind: str(kind.__name__))
def test_a_command_of_a_transaction_is_authorized_when_it_is_said(kept: type) -> None:
    broker = node(Recorder(lambda command: isinstance(command, kept) and command.transaction), ALICE)
    broker.say(subscribe(1, "q"), send(1, "q", b"1"), begin(1))
    first = broker.message(1)
    commands = {Send: send(1, "q", b"2", transaction=b"t"), Ack: ack(first, None, b"t"), Nack: nack(first, None, b"t")}
    broker.say(commands[kept], commit(1, b"t"))
    assert codes(broker, 1) == ["forbidden"]
    assert broker.numbers("q")["unacked"] == 1 and broker.stored("q") == [b"1"]


@pytest.mark.parametrize("kept", [Send, Ack, Nack], ids=lambda kind: str(kind.__name__))
def test_a_command_of_a_transaction_is_authorized_again_at_its_commit(kept: type) -> None:
    recorder = Recorder()
    broker = node(recorder, ALICE)
    broker.say(subscribe(1, "q", prefetch_count=2), send(1, "q", b"1"), send(1, "q", b"2"), begin(1))
    first, second = broker.messages(1)
    broker.say(ack(first, None, b"t"), nack(second, None, b"t"), send(1, "q", b"3", transaction=b"t"))
    recorder.refuses = lambda command: isinstance(command, kept)
    broker.say(commit(1, b"t"))
    assert codes(broker, 1) == ["forbidden"]
    assert broker.numbers("q")["unacked"] == 2 and broker.stored("q") == [b"1", b"2"]
    recorder.refuses = nothing
    broker.say(commit(1, b"t"))
    assert broker.stored("q") == [b"2", b"3"]


def prepared(broker: Node, *bodies: bytes) -> None:
    """Connection 1 prepares them as `p`."""
    broker.say(begin(1), *(send(1, "q", body, transaction=b"t") for body in bodies))
    broker.say(Commit(1, b"t", None, "p"))


def test_what_is_prepared_goes_on_in_the_name_of_who_has_prepared_it() -> None:
    recorder = Recorder()
    broker = node(recorder, ALICE, BOB)
    prepared(broker, b"1", b"2", b"3")
    assert recorder.types(ALICE) == [Begin, Send, Send, Send, Commit, Send, Send, Send]
    recorder.asked.clear()
    broker.say(Commit(2, b"p", b"r", None, "app", 1))
    assert recorder.types(BOB) == [Commit] and recorder.types(ALICE) == [Send, Send, Send]
    assert broker.stored("q") == [b"1", b"2", b"3"]


def test_what_is_prepared_and_forbidden_later_waits_and_is_not_lost() -> None:
    recorder = Recorder()
    broker = node(recorder, ALICE, BOB)
    prepared(broker, b"1", b"2", b"3")
    recorder.refuses = lambda command: isinstance(command, Send) and command.body == b"2"
    broker.say(Commit(2, b"p", b"r", None, "app", 1))
    assert broker.stored("q") == [b"1"] and broker.receipts(2) == [b"r"]
    (waiting,) = broker.broker.parts.prepared.described(10)
    assert waiting.waits == "alice may not do that."
    recorder.refuses = nothing
    broker.wait(1)
    assert broker.stored("q") == [b"1", b"2", b"3"] and broker.broker.parts.prepared.count == 0


def test_who_has_prepared_it_is_not_on_the_disk() -> None:
    broker = node(Recorder(), ALICE)
    prepared(broker, b"1")
    recorder = Recorder()
    again = Node(DECLARED, platter=broker.disk.platter, authorizer=recorder)
    join(again, BOB)
    again.say(Commit(1, b"p", b"r", None, "app", 1))
    assert recorder.types(BOB) == [Commit, Send] and again.stored("q") == [b"1"]


def test_what_was_committed_before_the_start_was_judged_then() -> None:
    """Its COMMIT was receipted: it comes, whoever may do what by now."""
    recorder = Recorder()
    broker = node(recorder, ALICE)
    prepared(broker, b"1")
    recorder.refuses = lambda command: isinstance(command, Send)
    broker.say(Commit(1, b"p", b"r", None, "app", 1))
    assert broker.receipts(1) == [b"r"] and broker.stored("q") == []
    recorder = Recorder(everything)
    again = Node(DECLARED, platter=broker.disk.platter, authorizer=recorder)
    again.wait(1)
    assert again.stored("q") == [b"1"] and recorder.asked == []


def test_an_abort_is_authorized_and_carries_nothing_out() -> None:
    recorder = Recorder()
    broker = node(recorder, ALICE)
    broker.say(begin(1), send(1, "q", transaction=b"t"))
    recorder.asked.clear()
    broker.say(Abort(1, b"t"))
    assert recorder.types(ALICE) == [Abort] and not broker.has("q")


# ---- requests to /admin ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", REQUESTS, ids=lambda kind: str(kind.__name__))
def test_a_request_of_each_type_is_refused_to_who_may_only_ask(kind: type) -> None:
    recorder = Recorder(lambda command: not isinstance(command, Administer))
    broker = node(recorder, ALICE)
    request = any_of(kind)
    direct = Direct(request)
    asking = Administer(1, b"0", direct, 2, b"r", reply_to="t")
    broker.say(asking)
    assert recorder.asked == [(ALICE, asking), (ALICE, request)]
    (refusal,) = direct.answers
    assert isinstance(refusal, Refusal) and refusal.code == "forbidden"
    assert broker.bodies(1) == [b"refused"] and broker.receipts(1) == [b"r"] and codes(broker, 1) == []


# ---- nothing else ---------------------------------------------------------------------------------------------------


def test_commands_come_by_read_alone() -> None:
    """An event that speaks for a connection and is none of these is a door that nobody watches."""
    assert {kind for kind in get_args(Event) if "connection" in get_type_hints(kind)} == {Open, Read, Written, Closed}


def test_nothing_else_of_the_core_asks_who_somebody_is() -> None:
    folder = Path(core.__file__).parent
    asking = {
        path.name
        for path in folder.rglob("*.py")
        for one in nodes_of(path)
        if isinstance(one, ast.Attribute) and one.attr in ("principal", "authorizer") and isinstance(one.ctx, ast.Load)
    }
    # of admin/: to operators, and nothing depends on it there; and who asks what a user may asks the authorizer itself
    shown = ("connections.py", "unacked.py", "questions.py")
    # it is kept by clients.py and prepared.py, handed over by applying.py, and written down by audit_writer.py
    assert asking == {"authorization.py", "clients.py", "prepared.py", "applying.py", "audit_writer.py", *shown}
