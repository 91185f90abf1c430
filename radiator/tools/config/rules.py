"""Checks what must hold between the values of config.toml: one function for each rule; all rules are checked.

A rule looks only at values that are valid by themselves, so that one mistake is not reported twice.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from radiator.model.checks import meant, shown, size_text
from radiator.model.exchange_bindings import EXCHANGE_PREFIX
from radiator.model.header_bindings import HEADERS_BINDINGS_MAX
from radiator.model.limits import BINDINGS_MAX, MAP_BATCHES_MIN, NODE_NEIGHBOURS_MAX, Limits, largest_batch_bytes
from radiator.model.patterns import is_pattern, matches, overlaps, rank
from radiator.model.settings import (
    AUDIT,
    CLUSTER,
    DEFAULT_LISTEN,
    DIRECT,
    HEADERS,
    NONE,
    PEERS,
    STANDARD_EXCHANGES,
    Address,
    UnixAddress,
)
from radiator.model.users import User
from radiator.model.validation import (
    LOG_PREFIX,
    RESERVED_QUEUES,
    binding_mistake,
    contradictions,
    cycle_from,
    cycle_mistake,
    has_arguments,
    not_persistent_mistake,
    standard_type_mistake,
)
from radiator.protocols.schemes import SCHEMES
from radiator.tools.config.jwt import judge_jwt
from radiator.tools.config.mistakes import Mistakes
from radiator.tools.config.values import THIS_NODE, advertised_mistake

Table = dict[str, Any]

STANDARD_PREFIX = "amq."  # what names of exchanges begin with that are the broker's own


@dataclass(slots=True, kw_only=True)
class File:
    """The tables of the file with every value that is right by itself; nothing that the file does not give."""

    server: Table
    logging: Table
    http: Table
    limits: Table
    create: Table
    node: Table | None  # None: no such table
    tls: Table | None
    tls_of_listeners: dict[str, Table]
    jwt: Table | None
    peers: dict[str, Table]
    queues: dict[str, Table]
    logs: dict[str, Table]
    journal: Table
    exchanges: dict[str, Table]
    fanouts: dict[str, Table]
    topics: dict[str, Table]
    users: dict[str, User]

    @property
    def has_users(self) -> bool:
        """Whether clients must say who they are."""
        return bool(self.users) or "users_file" in self.server

    def listen(self) -> list[Address]:
        """Returns where clients connect by TCP, with what is in force where the file says nothing."""
        return [one for one in self.server.get("listen", [DEFAULT_LISTEN]) if isinstance(one, Address)]

    def queues_named_elsewhere(self) -> Iterator[str]:
        """Yields each name of a queue in a `dead_letter`, in a fanout's `children` or in an exchange's `bindings`."""
        for table in self.queues.values():
            if "dead_letter" in table:
                yield table["dead_letter"]
        targets = [child for table in self.fanouts.values() for child in table.get("children", ())]
        targets += [target for table in self.exchanges.values() for _, target in table.get("bindings", ())]
        yield from (name for name in targets if not name.startswith((LOG_PREFIX, EXCHANGE_PREFIX)))


def exchange_type(name: str, table: Table) -> str:
    """Returns the type of an exchange of the file; a standard exchange need not give it."""
    type_: str = table.get("type", STANDARD_EXCHANGES.get(name, DIRECT))
    return type_


def settings_in_force(file: File, name: str) -> Table:
    """Returns what the file gives for the queue of that name: its own table, or that of the best pattern, or
    nothing.
    """
    if name in file.queues:
        return file.queues[name]
    patterns = sorted((pattern for pattern in file.queues if is_pattern(pattern) and matches(pattern, name)), key=rank)
    return file.queues[patterns[0]] if patterns else {}


def judge(file: File, limits: Limits, mistakes: Mistakes) -> None:
    """Adds a mistake for every rule that the file breaks. `limits`: those in force."""
    _judge_listeners(file, mistakes)
    _judge_tls(file, mistakes)
    _judge_tls_of_listeners(file, mistakes)
    judge_jwt(file.users.values(), file.jwt is not None, mistakes)
    _judge_ports(file, mistakes)
    _judge_unix_sockets(file, mistakes)
    _judge_node(file, mistakes)
    _judge_advertise(file, mistakes)
    _judge_peers(file, mistakes)
    _judge_scopes(file, mistakes)
    _judge_sizes(file, limits, mistakes)
    _judge_number_of_destinations(file, limits, mistakes)
    _judge_patterns(file, mistakes)
    _judge_queues(file, mistakes)
    _judge_dead_letters(file, mistakes)
    _judge_dead_letter_cycles(file, mistakes)
    _judge_children(file, mistakes)
    _judge_exchanges(file, mistakes)
    _judge_bindings(file, mistakes)
    if file.journal.get("enabled") and AUDIT in file.logs:
        mistakes.add(("log", AUDIT), "is the audit log's name, since the journal is on; give this log another one")


def _judge_listeners(file: File, mistakes: Mistakes) -> None:
    """Other machines get in only with a login, and without TLS only if the file names that very listener."""
    plain, listen = file.server.get("plain", []), file.listen()
    for address in listen:
        if address.is_loopback:
            continue
        lines = [] if file.has_users else ['[user."NAME"] with password = "..." of `radiator password`, and its rights']
        if not SCHEMES[address.scheme].is_encrypted and address not in plain:
            encrypted = f"{address.scheme}s{str(address).removeprefix(address.scheme)}"
            lines.append(
                f'listen = ["{encrypted}"] in its place, with certificate and key in [tls] (or plain = ["{address}"], '
                "where nobody can listen on the way)"
            )
        if lines:
            wrong = f"has {address}, which other machines can reach"
            why = " and there are no users" if not file.has_users else " and passwords would travel unencrypted"
            mistakes.add(
                ("server", "listen"), f"{wrong},{why}; listen on 127.0.0.1 or [::1], or write {'; and '.join(lines)}"
            )
    for address in plain:
        if address not in listen:
            mistakes.add(("server", "plain"), f"has {address}, which is not in listen; remove it, or add it there")


def _judge_tls(file: File, mistakes: Mistakes) -> None:
    """Checks that a listener that encrypts has a certificate, and that one that asks for those of clients has a CA to
    judge them by.
    """
    encrypted = [one for one in file.listen() if SCHEMES[one.scheme].is_encrypted]
    if encrypted and file.tls is None:
        right = 'add [tls] with certificate = "server.pem" and key = "server.key"'
        mistakes.add(("server", "listen"), f"has {encrypted[0]}, and there is no certificate; {right}")
    _judge_tls_of_nodes(file, mistakes)
    asked = (file.tls or {}).get("client_certificates", NONE)
    if asked != NONE and not {"client_ca"} & {*(file.tls or {}), *mistakes.are_in("tls")}:
        wrong = f"is {shown(asked)}, and there is no client_ca to judge them by"
        right = "name the file of the CA that clients' certificates come from"
        mistakes.add(("tls", "client_certificates"), f"{wrong}; {right}")


def _judge_tls_of_listeners(file: File, mistakes: Mistakes) -> None:
    """Checks that each table is for a listener that encrypts, has a whole pair or none, and a CA if it asks for
    certificates.
    """
    node = (file.node or {}).get("listen")
    listen = {str(one): one for one in (*file.listen(), *([node] if node is not None else []))}
    for address, table in file.tls_of_listeners.items():
        keys = ("tls", address)
        if address not in listen:
            mistakes.add(keys, f"is not a listener{meant(address, listen) or '; there is ' + ', '.join(listen)}")
        elif not SCHEMES[listen[address].scheme].is_encrypted:
            mistakes.add(keys, "is a listener without TLS; write stomps:// in both places, or remove it")
        if ("certificate" in table) is not ("key" in table) and not mistakes.are_in(*keys):
            has, lacks = ("certificate", "key") if "certificate" in table else ("key", "certificate")
            mistakes.add(keys, f"has a {has} of its own and no {lacks}; name both, or neither")
        whole = {**(file.tls or {}), **table}
        asked = whole.get("client_certificates", NONE)
        if "client_certificates" in table and asked != NONE and "client_ca" not in whole:
            right = "name the file of the CA that clients' certificates come from"
            wrong = f"is {shown(asked)}, and there is no client_ca to judge them by"
            mistakes.add((*keys, "client_certificates"), f"{wrong}; {right}")


def _judge_tls_of_nodes(file: File, mistakes: Mistakes) -> None:
    """Checks that a listener for nodes has a certificate too, and that a node that dials another over TLS has a CA to
    judge its certificate by.
    """
    listen = (file.node or {}).get("listen")
    if listen is not None and listen.scheme == PEERS and file.tls is None:
        right = 'add [tls] with certificate = "server.pem" and key = "server.key"'
        mistakes.add(("node", "listen"), f"is {listen}, and there is no certificate; {right}")
    dialled = {name: table["address"] for name, table in file.peers.items() if "address" in table}
    encrypted = [(name, address) for name, address in dialled.items() if address.scheme == PEERS]
    if encrypted and not {"peer_ca"} & {*(file.tls or {}), *mistakes.are_in("tls")}:
        name, address = encrypted[0]
        right = "name the file of the CA that the nodes' certificates come from, as peer_ca in [tls]"
        mistakes.add(("peer", name, "address"), f"is {address}, and there is no CA to judge it by; {right}")


def _judge_ports(file: File, mistakes: Mistakes) -> None:
    """Two sockets cannot listen in one place. Only the start can tell what a name stands for."""
    listen = file.listen()
    if "listen" in mistakes.are_in("server"):
        listen = []
    for one, other in combinations(listen, 2):
        if _meet(one, other):
            mistakes.add(("server", "listen"), f"has {one} and {other}, which are one place; remove one of the two")
    node = file.node or {}
    taken = [address for address in listen if "listen" in node and _meet(address, node["listen"])]
    if taken:
        wrong = f"is {node['listen']}, where clients connect already (server.listen has {taken[0]})"
        mistakes.add(("node", "listen"), f"{wrong}; give one of them another port")


def _judge_unix_sockets(file: File, mistakes: Mistakes) -> None:
    """Checks that each has a path of its own, for which the system has room."""
    sockets = [address for address in file.server.get("listen", ()) if isinstance(address, UnixAddress)]
    for address in sockets:
        if address.mistake:
            mistakes.add(("server", "listen"), f"has {address.mistake}")
    for one, other in combinations(sockets, 2):
        if one.path == other.path:
            mistakes.add(("server", "listen"), f"has {one} and {other}, which are one place; remove one of the two")


def _meet(one: Address, other: Address) -> bool:
    """Whether one of the two sockets would find its place taken. `[::]` takes IPv4 too."""
    if one.port != other.port or one.port == 0:
        return False
    places = {_place(one.host), _place(other.host)}
    are_ipv4 = all(place.replace(".", "").isdigit() for place in places)
    return len(places) == 1 or "::" in places or ("0.0.0.0" in places and are_ipv4)


def _place(host: str) -> str:
    """Returns one spelling for each IP address."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host.lower()


def _judge_node(file: File, mistakes: Mistakes) -> None:
    """Nodes are linked by a list: a node that lists nobody is linked with nobody, whatever it could learn
    from others.
    """
    if file.node is None:
        if file.peers:
            wrong = "declares other nodes, but this one has no [node]"
            mistakes.add(("peer",), f"{wrong}; add [node] with a name and a secret_file")
    elif not file.peers:
        mistakes.add(("node",), "has no peers; declare the nodes that it is linked with, such as [peer.b]")
    elif len(file.peers) > NODE_NEIGHBOURS_MAX:
        wrong = f"declares {len(file.peers)} nodes, but a node has at most {NODE_NEIGHBOURS_MAX} links"
        mistakes.add(("peer",), f"{wrong}; name fewer: messages find their way over several links")


def _judge_advertise(file: File, mistakes: Mistakes) -> None:
    """Others dial what a node says of itself: no wildcard, and nothing that they would refuse to hear."""
    node = file.node or {}
    if "advertise" in node and not node.get("discover"):
        wrong = f"is {node['advertise']}, but nobody is told it without discover = true"
        mistakes.add(("node", "advertise"), f"{wrong}; set that, or remove advertise")
    elif "advertise" in node and not _may_listen(file, mistakes):
        wrong = f"is {node['advertise']}, but this node has no listen"
        mistakes.add(("node", "advertise"), f"{wrong}; give listen too, or remove advertise")
    elif "advertise" in node and "listen" in node and node["advertise"].scheme != node["listen"].scheme:
        wrong = f"is {node['advertise']}, but this node listens on {node['listen']}"
        mistakes.add(("node", "advertise"), f"{wrong}; write both with one scheme")
    elif node.get("discover") and "advertise" not in node and "listen" in node:
        listen = node["listen"]
        if not _can_be_dialled(listen):
            wrong = f"is {listen}, which nobody can dial, but with discover it is announced to other nodes"
            mistakes.add(("node", "listen"), f"{wrong}; add advertise with an address of this machine")
        elif mistake := advertised_mistake(listen):
            mistakes.add(("node", "listen"), f"{mistake}, or add advertise")


def _may_listen(file: File, mistakes: Mistakes) -> bool:
    """Whether [node] has a listen, if only a wrong or a misspelt one."""
    slips = mistakes.are_in("node")
    return "listen" in (file.node or {}) or "listen" in slips or any(key not in THIS_NODE for key in slips)


def _can_be_dialled(address: Address) -> bool:
    return address.port > 0 and not address.is_wildcard


def _judge_peers(file: File, mistakes: Mistakes) -> None:
    """Checks that every peer is another node, and that one of the two can dial the other."""
    if file.node is None:
        return
    can_be_dialled = _may_listen(file, mistakes)
    own = [key for key in ("listen", "advertise") if key in file.node]
    taken = {_socket(file.node[key]): f"node.{key}" for key in own}
    for name, table in file.peers.items():
        if name == file.node.get("name"):
            wrong = f"has the name of this node (node.name is {shown(name)})"
            mistakes.add(("peer", name), f"{wrong}; declare the other nodes only")
        elif "address" not in table:
            if not can_be_dialled and not mistakes.are_in("peer", name):
                wrong = "has no address, and this node has no listen, so neither can dial the other"
                mistakes.add(("peer", name), f"{wrong}; give one of them")
        elif (place := _socket(table["address"])) in taken:
            wrong = f"is {table['address']}, as is {taken[place]}"
            mistakes.add(("peer", name, "address"), f"{wrong}; every node has an address of its own")
        else:
            taken[place] = f"peer.{name}.address"


def _socket(address: Address) -> tuple[str, int]:
    """Returns the place of an address, at which only one node can be, with or without TLS."""
    return address.host, address.port


def _judge_scopes(file: File, mistakes: Mistakes) -> None:
    """Checks that there are other nodes, if something is of the cluster."""
    if file.node is not None:
        return
    for kind, tables in (("queue", file.queues), ("fanout", file.fanouts), ("topic", file.topics)):
        for name, table in tables.items():
            if table.get("scope") == CLUSTER:
                right = 'add [node] and its peers, or set scope = "node"'
                mistakes.add((kind, name, "scope"), f'is "cluster", but there are no other nodes; {right}')


def _judge_sizes(file: File, limits: Limits, mistakes: Mistakes) -> None:
    """Checks that a frame has room for its header block, and the map for a batch being committed, one that fills, and
    as much again.
    """
    if limits.max_header_bytes > limits.max_frame_bytes:
        header, frame = size_text(limits.max_header_bytes), size_text(limits.max_frame_bytes)
        mistakes.add(("limits", "max_header_bytes"), f"is {header}; it must not be more than max_frame_bytes ({frame})")
    largest = largest_batch_bytes(limits)
    if "map_size" in file.server and file.server["map_size"] < MAP_BATCHES_MIN * largest:
        wrong = f"is {size_text(file.server['map_size'])}, less than {MAP_BATCHES_MIN} times the largest batch"
        right = f"make it at least {size_text(MAP_BATCHES_MIN * largest)}, or lower max_batch_bytes and max_frame_bytes"
        mistakes.add(("server", "map_size"), f"{wrong} ({size_text(largest)}); {right}")


def _judge_number_of_destinations(file: File, limits: Limits, mistakes: Mistakes) -> None:
    names = {name for name in (*file.queues, *file.queues_named_elsewhere()) if not is_pattern(name)}
    exchanges = file.exchanges.keys() - STANDARD_EXCHANGES
    topics = [name for name in file.topics if not is_pattern(name)]
    number = len(names) + len(file.logs) + len(exchanges) + len(file.fanouts) + len(topics)
    if number > limits.max_destinations:
        wrong = f"is {limits.max_destinations}, but the file declares {number} queues, logs, exchanges, fanouts and "
        mistakes.add(("limits", "max_destinations"), f"{wrong}topics; raise it")


def _judge_patterns(file: File, mistakes: Mistakes) -> None:
    """Reports two patterns that match one name if neither takes precedence."""
    for one, other in combinations(filter(is_pattern, file.queues), 2):
        if rank(one) == rank(other) and overlaps(one, other):
            wrong = f"and {shown(other)} can match the same name, and neither wins"
            right = "the pattern with more literal words does, then the one without #"
            mistakes.add(("queue", one), f"{wrong} ({right}); change one of them")


def _judge_queues(file: File, mistakes: Mistakes) -> None:
    """Names that are the broker's own, and settings of one queue that contradict each other."""
    for name, table in file.queues.items():
        if name.startswith(RESERVED_QUEUES) and not is_pattern(name):
            mistakes.add(("queue", name), "is a queue that the broker keeps for itself; name another one")
        elif name.startswith(RESERVED_QUEUES):
            dotted = shown(name.replace("/", "."))
            mistakes.add(("queue", name), f"matches nothing; for durable subscriptions write each / as a dot: {dotted}")
        for key, wrong in contradictions(table):
            mistakes.add(("queue", name, key), wrong)


def _judge_dead_letters(file: File, mistakes: Mistakes) -> None:
    for name, table in file.queues.items():
        target = table.get("dead_letter")
        if target is None:
            continue
        keys = ("queue", name, "dead_letter")
        if wrong := _why_no_queue(file, target):
            mistakes.add(keys, wrong)
        elif table.get("persistent", True) and not settings_in_force(file, target).get("persistent", True):
            mistakes.add(keys, not_persistent_mistake(target))


def _judge_dead_letter_cycles(file: File, mistakes: Mistakes) -> None:
    """Reports each cycle once, where it is first met."""
    reported: set[str] = set()

    def dead_letter_of(queue: str) -> str | None:
        return settings_in_force(file, queue).get("dead_letter")

    for name, table in file.queues.items():
        cycle = cycle_from(name, table.get("dead_letter"), dead_letter_of)
        if cycle and cycle[0] not in reported:
            reported.update(cycle)
            mistakes.add(("queue", name, "dead_letter"), cycle_mistake(cycle))


def _judge_children(file: File, mistakes: Mistakes) -> None:
    for name, table in file.fanouts.items():
        for child in table.get("children", ()):
            if wrong := _why_no_target(file, child):
                mistakes.add(("fanout", name, "children"), wrong)


def _judge_exchanges(file: File, mistakes: Mistakes) -> None:
    """Reports a standard exchange with another type, and others with such a name."""
    for name, table in file.exchanges.items():
        if name.startswith(STANDARD_PREFIX) and name not in STANDARD_EXCHANGES:
            right = f"there are {', '.join(STANDARD_EXCHANGES)}"
            mistakes.add(("exchange", name), f"has a name that begins with {STANDARD_PREFIX}; of these {right}")
        elif wrong := standard_type_mistake(name, exchange_type(name, table)):
            mistakes.add(("exchange", name, "type"), f"{wrong}; leave it out")


def _judge_bindings(file: File, mistakes: Mistakes) -> None:
    """Checks that every binding leads to a queue, a log or an exchange, and that its key is one that the exchange's
    type can match.
    """
    for name, table in file.exchanges.items():
        for key, queue in table.get("bindings", ()):
            if wrong := _why_no_target(file, queue):
                mistakes.add(("exchange", name, "bindings"), wrong)
            if wrong := binding_mistake(exchange_type(name, table), key):
                mistakes.add(("exchange", name, "bindings"), f"has the key {wrong.removeprefix('is ')}")
            elif exchange_type(name, table) != HEADERS and has_arguments(key) and key:
                wrong = f"has arguments ({shown(key)}), which only an exchange of type headers looks at"
                mistakes.add(("exchange", name, "bindings"), wrong)
        number = len(table.get("bindings", ()))
        if exchange_type(name, table) == HEADERS and number > HEADERS_BINDINGS_MAX:
            wrong = f"has {number} bindings; an exchange of type headers may have at most {HEADERS_BINDINGS_MAX}"
            mistakes.add(("exchange", name, "bindings"), wrong)
    number = sum(len(table.get("bindings", ())) for table in file.exchanges.values())
    if number > BINDINGS_MAX:
        mistakes.add(("exchange",), f"has {number} bindings in all; there may be at most {BINDINGS_MAX}: use patterns")


def _why_no_target(file: File, name: str) -> str:
    """Returns why `name` is neither a queue nor the `/log/NAME` of a log, as text after a key's name; "" where it is
    one.
    """
    if name.startswith(EXCHANGE_PREFIX):
        return _why_no_exchange(file, name)
    if not name.startswith(LOG_PREFIX):
        return _why_no_queue(file, name)
    log = name.removeprefix(LOG_PREFIX)
    if log in file.logs:
        return ""
    offer = meant(name, [LOG_PREFIX + there for there in file.logs])
    return f"names {shown(name)}, which is not a log{offer or f'; declare [log.{shown(log)}]'}"


def _why_no_exchange(file: File, address: str) -> str:
    name = address.removeprefix(EXCHANGE_PREFIX)
    if name in file.exchanges or name in STANDARD_EXCHANGES:
        return ""
    offer = meant(address, [EXCHANGE_PREFIX + there for there in (*file.exchanges, *STANDARD_EXCHANGES)])
    return f"names {shown(address)}, which is not an exchange{offer or f'; declare [exchange.{shown(name)}]'}"


def _why_no_queue(file: File, name: str) -> str:
    """Returns why `name` is not a queue, as text after a key's name; "" where it is one, or first use may create it.

    A queue is declared by its name or by a pattern that matches it. Where [create] allows queues it need not be
    declared, unless the name is that of a fanout, a topic or an exchange: that is more likely a mistake than a queue of
    that name.
    """
    if name in file.queues or any(matches(pattern, name) for pattern in filter(is_pattern, file.queues)):
        return ""
    kinds = (("a fanout", file.fanouts), ("a topic", file.topics), ("an exchange", file.exchanges))
    for kind, tables in kinds:
        if name in tables:
            right = f"name a queue, or declare [queue.{shown(name)}] too"
            return f"names {shown(name)}, which is {kind} and no queue; {right}"
    if file.create.get("queues"):
        return ""
    names = [queue for queue in file.queues if not is_pattern(queue)]
    return f"names {shown(name)}, which is not a queue{meant(name, names) or f'; declare [queue.{shown(name)}]'}"
