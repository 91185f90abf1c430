"""The administration: carries out the commands of model/administration.py and gives the answers of model/answers.py.

Each answer goes to the temp queue that the request named; the answer to a change of the disk is sent when the change is
synced. The protocols read requests and write answers (model/rendering.py). The command line uses nothing else.
"""

from collections.abc import Callable
from typing import Any, Protocol

from radiator.core.admin import (
    attention,
    bindings,
    checkouts,
    connections,
    consumers,
    explain,
    history,
    itself,
    logs,
    nodes,
    numbers,
    prepared,
    questions,
    queue_table,
    queues,
    readiness,
    returning,
    subscriptions,
    unacked,
    why,
)
from radiator.core.admin.peek import PeekPort, peek
from radiator.core.answers import Give
from radiator.core.audit_writer import PendingAct
from radiator.core.bounds import BoundsPort
from radiator.core.connections import Connection
from radiator.core.ports import AnsweringPort
from radiator.core.queues.queue import Queue
from radiator.core.repetitions import Repetitions
from radiator.core.request import Request
from radiator.core.routing.waiting import FLUSH, Waitable
from radiator.core.stats import StatsPort
from radiator.model import administration as asked
from radiator.model import overview
from radiator.model.administration import AdminCommand
from radiator.model.audit import act_of
from radiator.model.commands import Administer
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.headers import CONTENT_TYPE, CORRELATION_ID, block_of
from radiator.model.limits import ADMIN_BYTES_PER_COPY, ADMIN_COPIES
from radiator.model.message import Message
from radiator.model.replies import Answered

Handler = Callable[[Request[Any], Any], None]


class AdminPort(
    attention.AttentionPort,
    bindings.BindingsPort,
    checkouts.CheckoutsPort,
    connections.ConnectionsPort,
    consumers.ConsumersPort,
    explain.ExplainPort,
    BoundsPort,
    itself.ItselfPort,
    logs.LogsPort,
    nodes.ConfigurationPort,
    nodes.NodesPort,
    PeekPort,
    prepared.PreparedPort,
    questions.QuestionsPort,
    returning.ReturningPort,  # before what it adds to
    queues.QueuesPort,
    unacked.UnackedPort,
    Protocol,
):
    """All that requests may ask of the broker; the handler of each sees its own part."""

    @property
    def repetitions(self) -> Repetitions: ...


def administer(parts: AdminPort, connection: Connection, command: Administer) -> Waitable | None:
    """Carries out one request, or returns what it must wait for. A request that is refused is answered, and its
    connection stays. Without a reply-to there is no answer, and a refusal is that of the SEND: a plain RECEIPT would
    say that the request was carried out.

    Every request is carried out here and nowhere else.
    """
    parts.context.turn.is_background = True
    turnstile = parts.answers.full(connection)
    if turnstile is not None:
        return turnstile
    if parts.admission.is_turn_full(ADMIN_COPIES + len(command.body) // ADMIN_BYTES_PER_COPY):
        return FLUSH
    queue = None if command.reply_to is None else parts.admission.incoming.asker(connection, command.reply_to)
    is_heard = queue is not None or command.is_answered
    give = _replier(parts, connection, command) if command.is_answered else _giver(parts, queue, command)
    request = Request(parts, connection, command.rendering, queue, is_heard, give)
    try:
        asked_for = command.rendering.read(command.body)
        carry_out(request, asked_for)
        if command.every_s:
            parts.repetitions.begin(connection, command, asked_for)
    except Refusal as refusal:
        request.refused(refusal)
        if not is_heard:
            raise
        if refusal.code == FORBIDDEN:
            connection.note_forbidden(parts.context, str(refusal))
        request.refuse(refusal)
    if not command.is_answered:
        connection.receipt(parts.context, command.receipt)
    return None


def ask_again(parts: AdminPort, connection: Connection, command: Administer) -> None:
    """Carries out again a request that was granted before, and costs little to begin. If it is refused by now there is
    no answer: the change of users ends it.
    """
    request = Request(parts, connection, command.rendering, None, True, _replier(parts, connection, command))
    try:
        carry_out(request, command.rendering.read(command.body))
    except Refusal:
        return


def carry_out(request: Request[AdminPort], command: AdminCommand) -> None:
    """Carries out one command, if its principal may. Its answer comes now, or later. Raises Refusal."""
    request.parts.authorization.check_request(request.connection, command)
    act = act_of(command)
    if act is not None and not _is_there(request.parts, command):
        request.act = PendingAct(request.parts.audit, request.connection, act, act.on(command))
    _HANDLERS[type(command)](request, command)
    if request.act is not None:
        request.act.begun()


def _is_there(parts: StatsPort, command: AdminCommand) -> bool:
    """Whether it declares what exists already: each start of a program may do that, and it changes nothing."""
    if not isinstance(command, asked.DeclareDestination):
        return False
    return parts.kinds[command.kind].numbers(parts, command.name) is not None


def _replier(parts: AnsweringPort, connection: Connection, command: Administer) -> Give:
    """Returns the Give of a request that is answered by a reply to its own connection."""
    assert command.receipt is not None, "an answer names its request"
    receipt = command.receipt

    def give(body: bytes, code: str = "", more: tuple[bytes, ...] = ()) -> None:
        if connection.is_closing:
            return
        if not command.is_again:
            connection.say(parts.context, Answered(connection.number, receipt, body, code, more=more))
        elif not code:
            again = Answered(connection.number, receipt, body, is_again=True, more=more)
            connection.post(parts.context, again, sum(map(len, (body, *more))), None)

    return give


def _giver(parts: AnsweringPort, queue: Queue | None, command: Administer) -> Give:
    """Returns the Give of any other request: into the queue, if there is one."""
    if queue is None:
        return lambda body, code="", more=(): None

    def give(body: bytes, code: str = "", more: tuple[bytes, ...] = ()) -> None:
        assert not more, "a message is one part"
        headers = block_of(command.escaping, (CONTENT_TYPE, command.rendering.content_type))
        if command.correlation_id is not None:
            headers += block_of(command.escaping, (CORRELATION_ID, command.correlation_id))
        message = Message(f"/reply-queue/{queue.reply_id}", headers, command.escaping, body, parts.context.now_ms)
        if not queue.is_gone and queue.has_capacity(1, message.size):
            queue.put(message)
            queue.pump()
        else:
            parts.context.count("replies_dropped")

    return give


_HANDLERS: dict[type[AdminCommand], Handler] = {
    asked.ReadStats: numbers.of_broker,
    asked.ReadSection: numbers.section,
    asked.ReadReadiness: readiness.ready,
    asked.ReadConfiguration: itself.configuration,
    asked.ReadBounds: itself.all_bounds,
    asked.ReadDisk: itself.disk,
    asked.ReadLogLines: itself.log_lines,
    asked.ListQueues: numbers.queues,
    overview.ReadQueueTable: queue_table.table,
    overview.ReadHistory: history.of_broker,
    overview.ReadQueueHistory: history.of_queue,
    overview.ReadAttention: attention.attention,
    asked.ExplainQueue: why.queue,
    asked.ExplainLog: why.log,
    asked.ExplainMessage: explain.message,
    asked.ExplainTrace: explain.trace,
    asked.ExplainCorrelation: explain.correlation,
    asked.DeclareDestination: lambda request, command: request.parts.kinds[command.kind].declare(request, command),
    asked.DescribeDestination: lambda request, command: request.parts.kinds[command.kind].describe(request, command),
    asked.DeleteDestination: lambda request, command: request.parts.kinds[command.kind].delete(request, command),
    asked.PurgeQueue: queues.purge,
    asked.PeekQueue: peek,
    asked.MoveMessages: queues.move,
    asked.ReturnMessages: returning.give_back,
    asked.AwaitQueue: checkouts.wait,
    asked.TakeCheckout: checkouts.take,
    asked.AckCheckout: checkouts.ack,
    asked.ReleaseCheckout: checkouts.release,
    asked.ListConsumers: consumers.listed,
    asked.RegisterConsumer: consumers.register,
    asked.DrainConsumer: consumers.drain,
    asked.ReadScale: consumers.scale,
    asked.ListConnections: connections.listed,
    asked.DescribeConnection: connections.described,
    asked.CloseConnection: connections.closed,
    asked.ListUnacked: unacked.listed,
    asked.ExtendUnacked: unacked.extend,
    asked.AddBinding: bindings.bind,
    asked.RemoveBinding: bindings.unbind,
    asked.FindRoute: questions.route,
    asked.AskRight: questions.may,
    asked.FindOffsets: logs.offsets,
    asked.AwaitLog: logs.wait,
    asked.AwaitLogs: logs.wait_for_several,
    asked.ReadPosition: logs.position,
    asked.SetPosition: logs.set_position,
    asked.ForgetPosition: logs.forget_position,
    asked.SetPrefetch: subscriptions.prefetch,
    asked.ExtendAckTimeout: subscriptions.extend,
    asked.CommitPrepared: prepared.commit,
    asked.AbortPrepared: prepared.abort,
    asked.AbortPrefix: prepared.abort_prefix,
    asked.ListPrepared: prepared.listed,
    asked.ReadAppVersion: prepared.version,
    asked.ListPeers: nodes.peers,
    asked.ReleasePeer: nodes.release,
    asked.DropCopies: nodes.drop,
    asked.KeepCopies: nodes.keep,
    asked.DrainNode: nodes.drain,
    asked.ReloadConfiguration: nodes.reload,
}
