"""A publish over HTTP: SENDs that are carried out as a whole or not at all, and never wait for room."""

from radiator.core.connections import Connection
from radiator.core.routing.admission import Admission
from radiator.core.routing.plan import Plan
from radiator.core.routing.turn_shares import TurnShares
from radiator.core.routing.waiting import Waitable, WaitList, name_of_waitable
from radiator.model.commands import PublishAll
from radiator.model.errors import Refusal
from radiator.model.replies import Published


def publish(
    admission: Admission, turn_shares: TurnShares, connection: Connection, command: PublishAll
) -> Waitable | None:
    """Carries it out, or returns what it must wait for, which is never room. Raises Refusal."""
    if len(command.sends) > 1:
        wait_list = turn_shares.wait_for(connection, len(command.sends))
        if wait_list is not None:
            return wait_list
    plan = Plan()
    plan.ids = []
    for send in command.sends:
        admission.router.plan(connection, send, plan)
    if any(send.dedup_id is not None for send in command.sends):
        _check_dedup(plan)
    blocked = admission.apply_plan(connection, plan)
    if blocked is None:
        published = Published(connection.number, command.receipt, plan.ids, plan.duplicates)
        connection.say(admission.context, published)
    elif not (isinstance(blocked, WaitList) and blocked.is_brief):
        admission.forget_wait(connection)
        raise Refusal("blocked", f"There is no room now ({name_of_waitable(blocked)}): try again later.")
    return blocked


def _check_dedup(plan: Plan) -> None:
    """Raises Refusal where a message with a dedup-id would go to a destination that cannot recognise a duplicate."""
    lacking = [queue.address for queue, _, dedup_id, _ in plan.puts if dedup_id is not None and queue.dedup is None]
    lacking += [queue.address for queue, _, dedup_id, _ in plan.puts if not queue.settings.dedup_window_s]
    lacking += [f"/topic/{name}" for name, _, _ in plan.publishes]
    if lacking:
        sentence = f"{lacking[0]:.600} has no dedup_window_s, so it cannot recognise a message that comes twice"
        sentence += ": set dedup_window_s, or send without the key."
        raise Refusal("no-dedup", sentence)
