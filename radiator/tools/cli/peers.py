"""`radiator peers`, `peer` and `drain`: what an operator sees of linked nodes, and does about them."""

import argparse
import sys
import time
from typing import Any

from radiator.model.errors import EXIT_USAGE, count_text
from radiator.tools.cli.broker import CHANGE_TIMEOUT_S, add_broker, ask, field
from radiator.tools.cli.command import Command
from radiator.tools.cli.shown import add_json, add_watch, print_answer, show
from radiator.tools.cli.text import bytes_text, duration_text, printable, table

DRAIN_POLL_S = 1.0
DRAIN_PROGRESS_S = 5.0
_HEADS = ("node", "state", "since", "lag", "in doubt", "outbox", "handed over", "taken in")
_MAY_DOUBLE = "it may be processed twice if {peer} ever had it, or comes back"


# ---- looking


def _peers_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    add_watch(parser)


def _run_peers(arguments: argparse.Namespace) -> int:
    show(arguments, lambda: ask(arguments, {"do": "peers"}), _formed)
    return 0


def _formed(answer: dict[str, Any]) -> str:
    node = printable(str(field(answer, "node")))
    draining = ", which is being drained" if answer.get("draining") else ""
    alone = "This broker has no [node] in its configuration any more; what it still has of other nodes:"
    head = f"This is node {node}{draining}." if node else alone
    peers = field(answer, "peers")
    return "\n\n".join(
        filter(None, [head, _links(peers), _causes(peers), _copies(peers), _declared(peers), _routes(answer)])
    )


def _links(peers: list[dict[str, Any]]) -> str:
    if not peers:
        return "It has no peers: the configuration names none, and nobody is linked."
    return table(_HEADS, [_link_row(peer) for peer in sorted(peers, key=lambda peer: str(peer["name"]))])


def _link_row(peer: dict[str, Any]) -> list[str | int]:
    since_s, lag_ms = peer.get("since_s"), int(peer.get("lag_ms", 0))
    outbox = str(peer.get("outbox", 0))
    if peer.get("outbox"):
        most = peer.get("outbox_max_bytes")
        of = "" if most is None else f" of {bytes_text(int(most))}"
        outbox += f" ({bytes_text(int(peer.get('outbox_bytes', 0)))}{of})"
    return [
        str(peer["name"]),
        str(peer.get("state", "?")),
        "-" if since_s is None else duration_text(float(since_s)),
        duration_text(lag_ms / 1000) if lag_ms >= 1000 else f"{lag_ms} ms" if lag_ms else "-",
        int(peer.get("in_doubt", 0)),
        outbox,
        int(peer.get("handed_over", 0)),
        int(peer.get("taken_in", 0)),
    ]


def _causes(peers: list[dict[str, Any]]) -> str:
    """Returns why links are not up, for below the table: a sentence ends with what is to be done."""
    rows = [[str(peer["name"]), str(peer["cause"])] for peer in peers if peer.get("cause")]
    return table(("not linked", "because"), sorted(rows)) if rows else ""


def _copies(peers: list[dict[str, Any]]) -> str:
    """Returns where SENDs wait for a node's outbox, or no copies are kept for it."""
    rows = []
    for peer in sorted(peers, key=lambda peer: str(peer["name"])):
        blocked = int(peer.get("outbox_blocked", 0))
        if not peer.get("copies_kept", True):
            dropped = count_text(int(peer.get("outbox_dropped", 0)), "copy", "copies")
            rows.append([str(peer["name"]), f"not kept until it is linked ({dropped} dropped): `radiator peer keep`"])
        elif blocked:
            waits = count_text(blocked, "producer waits", "producers wait")
            rows.append([str(peer["name"]), f"its outbox is full, and {waits}: `radiator peer drop` ends that"])
    return table(("node", "copies"), rows) if rows else ""


def _declared(peers: list[dict[str, Any]]) -> str:
    """Queues whose settings differ: their messages follow the rules of whichever node they are on."""
    rows = [
        [str(peer["name"]), str(sentence)]
        for peer in peers
        for _, sentence in sorted(peer.get("declared_otherwise", {}).items())
    ]
    return table(("node", "what it has declared otherwise"), rows) if rows else ""


def _routes(answer: dict[str, Any]) -> str:
    """Nodes that are more than one link away."""
    far = [node for node in answer.get("nodes", []) if int(node.get("hops") or 0) > 1]
    rows: list[list[str | int]] = [
        [str(node["name"]), int(node["hops"]), str(node.get("via", ""))] for node in sorted(far, key=_by_distance)
    ]
    return table(("reached through others", "links", "via"), rows) if rows else ""


def _by_distance(node: dict[str, Any]) -> tuple[int, str]:
    return int(node["hops"]), str(node["name"])


# ---- what is kept for a node that is away


def _peer_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser)
    parser.add_argument(
        "action",
        choices=tuple(_ACTIONS),
        help="release: free what is in doubt with that node; drop: keep no copies for it while it is away; "
        "keep: take that back",
    )
    parser.add_argument("peer", metavar="NAME", help="name of the node, as `radiator peers` shows it")
    parser.add_argument(
        "--force", action="store_true", help="yes, though messages may be processed twice, or that node misses some"
    )


def _run_peer(arguments: argparse.Namespace) -> int:
    return _ACTIONS[arguments.action](arguments)


def _drop(arguments: argparse.Namespace) -> int:
    peer = printable(arguments.peer)
    if not arguments.force:
        print(f"radiator: Nothing was done. `peer drop` discards the copies that wait for node {peer}, and "
              f"keeps none until it is linked again: it never gets what is sent meanwhile. If you want that, run it "
              f"again with --force.", file=sys.stderr)  # fmt: skip
        return EXIT_USAGE
    answer = ask(arguments, {"do": "peer-drop", "peer": arguments.peer, "force": True}, CHANGE_TIMEOUT_S)
    dropped = count_text(int(field(answer, "dropped")), "copy", "copies")
    print_answer(
        arguments,
        answer,
        f"{dropped} that waited for node {peer} {'is' if dropped.startswith('1 ') else 'are'} gone, and none are "
        f"kept for it until it is linked again, or `radiator peer keep {peer}`.",
    )
    return 0


def _keep(arguments: argparse.Namespace) -> int:
    answer = ask(arguments, {"do": "peer-keep", "peer": arguments.peer}, CHANGE_TIMEOUT_S)
    peer = printable(arguments.peer)
    was = "again from now on" if field(answer, "changed") else "as they were already"
    print_answer(arguments, answer, f"Copies are kept for node {peer} {was}.")
    return 0


def _release(arguments: argparse.Namespace) -> int:
    peer = printable(arguments.peer)
    may_double = _MAY_DOUBLE.format(peer=peer)
    if not arguments.force:
        print(f"radiator: Nothing was done. What `peer release` frees is given to others, and {may_double}: "
              f"if node {peer} is gone for good, run it again with --force.", file=sys.stderr)  # fmt: skip
        return EXIT_USAGE
    answer = ask(arguments, {"do": "peer-release", "peer": arguments.peer, "force": True}, CHANGE_TIMEOUT_S)
    released = int(field(answer, "released"))
    print_answer(
        arguments,
        answer,
        f"{count_text(released, 'message')} that {'was' if released == 1 else 'were'} in doubt with node {peer} may "
        f"be given to others now. Of each: {may_double}.",
    )
    return 0


_ACTIONS = {"release": _release, "drop": _drop, "keep": _keep}


# ---- draining


def _drain_arguments(parser: argparse.ArgumentParser) -> None:
    add_broker(parser)
    add_json(parser, "the broker's answers, as JSON, one a line")
    parser.add_argument("--stop", action="store_true", help="stop draining: this node keeps what it has")


def _run_drain(arguments: argparse.Namespace) -> int:
    if arguments.stop:
        answer = ask(arguments, {"do": "drain", "stop": True})
        left = count_text(int(field(answer, "left")), "message")
        print_answer(
            arguments,
            answer,
            f"The drain is stopped: {left} of queues of scope cluster stay here, and this node takes in more again.",
        )
        return 0
    answer = ask(arguments, {"do": "drain"})
    left = count_text(int(field(answer, "left")), "message")
    print_answer(
        arguments,
        answer,
        f"Draining: this node hands {left} of its queues of scope cluster, and the copies in its "
        "outboxes, to its peers, and takes in none. Clients may go on.",
    )
    try:
        answer = _wait_until_drained(arguments)
    except KeyboardInterrupt:
        print("This command has stopped waiting; the drain goes on. `radiator drain` waits for it again, "
              "`radiator drain --stop` takes it back.", file=sys.stderr)  # fmt: skip
        raise
    stays, text = int(answer.get("stays", 0)), "Nothing is left to hand over: this node may be stopped."
    if stays:
        text += (
            f"\n{count_text(stays, 'message')} of queues of scope node, or delayed, {'stay' + 's' * (stays == 1)} on "
            "its disk and will be there after the next start. To have those of scope node elsewhere, put them into a "
            "queue of scope cluster with `radiator move QUEUE CLUSTER-QUEUE`, and drain again."
        )
    print_answer(arguments, answer, text)
    return 0


def _wait_until_drained(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the answer that says that none is left to hand over; reports now and then how far it is."""
    before = _handed_over(_ask_peers(arguments))
    printed_at_s = time.monotonic()
    while True:
        answer = ask(arguments, {"do": "drain"})
        left = int(field(answer, "left"))
        if left == 0:
            return answer
        if time.monotonic() - printed_at_s >= DRAIN_PROGRESS_S:
            printed_at_s = time.monotonic()
            peers = _ask_peers(arguments)
            now = _handed_over(peers)
            print_answer(arguments, answer, f"{left} left; {_progress(before, now)}{_awaited(peers)}")
            before = now
        time.sleep(DRAIN_POLL_S)


def _ask_peers(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    peers: list[dict[str, Any]] = field(ask(arguments, {"do": "peers"}), "peers")
    return peers


def _handed_over(peers: list[dict[str, Any]]) -> dict[str, int]:
    """Returns how many messages each linked node has been handed, by name."""
    return {str(peer["name"]): int(peer.get("handed_over", 0)) for peer in peers if peer.get("state") == "up"}


def _progress(before: dict[str, int], now: dict[str, int]) -> str:
    if not now:
        return "no peer is linked that could take them: see `radiator peers`"
    gone = {name: count - before.get(name, 0) for name, count in sorted(now.items()) if count > before.get(name, 0)}
    if not gone:
        return "no peer takes any now: are they full, or drained too?"
    return "since the last line " + ", ".join(f"{count} to {printable(name)}" for name, count in gone.items())


def _awaited(peers: list[dict[str, Any]]) -> str:
    """Returns what only a node can settle that is not linked."""
    waiting = {str(peer["name"]): int(peer.get("in_doubt", 0)) + int(peer.get("outbox", 0))
               for peer in peers if peer.get("state") != "up"}  # fmt: skip
    return "".join(
        f"; {count} for {printable(name)}, which is not up" for name, count in sorted(waiting.items()) if count
    )


PEERS = Command(
    name="peers",
    summary="show the nodes that a running broker is linked with",
    description=(
        "One line for each node that this one is linked with, or should be: since when its link is in that state, "
        "how long the oldest message has waited for it (lag), how many messages are offered to it and not yet "
        "confirmed (in doubt), how many copies of fanouts and topics wait for it (outbox), and how many it was "
        "handed and has handed over since the start of this broker. Below them, why a link is not up, and the nodes "
        "that are reached through others."
    ),
    example="radiator peers --watch",
    add_arguments=_peers_arguments,
    run=_run_peers,
)

PEER = Command(
    name="peer",
    summary="decide about what is kept for a node that is away",
    description=(
        "`peer release NAME --force` frees the messages that were offered to node NAME and not yet confirmed by it: "
        "they are ready again here. Nobody can know whether NAME had taken them, so each may be processed twice if "
        "NAME ever had it, or comes back. While NAME may come back with its store, wait: the link settles it then. "
        "`peer drop NAME --force` discards the copies of fanouts and topics that wait for node NAME, which is not "
        "linked, and keeps none for it until it is linked again or `peer keep NAME` says so: NAME never gets what was "
        "sent meanwhile. How many were dropped is counted in the queue $outbox/NAME, and in `radiator peers`."
    ),
    example="radiator peer release b --force\nradiator peer drop b --force\nradiator peer keep b",
    add_arguments=_peer_arguments,
    run=_run_peer,
)

DRAIN = Command(
    name="drain",
    summary="hand a node's messages to the others before maintenance",
    description=(
        "Hands over what this node holds in queues of scope cluster, and the copies in its outboxes, and takes in "
        "none; ends once nothing is left. Messages of other queues stay, and are counted. Interrupted, it stops "
        "waiting while the drain goes on; --stop takes the drain back, and so does a restart of the broker."
    ),
    example="radiator drain\nradiator drain --stop",
    add_arguments=_drain_arguments,
    run=_run_drain,
)
