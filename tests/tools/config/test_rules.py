"""What must hold between values."""

from pathlib import Path

import pytest

from radiator.model.errors import ConfigError
from radiator.model.limits import NODE_NEIGHBOURS_MAX
from radiator.tools.config import load


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_bindings_as_may_be_and_one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    monkeypatch.setattr("radiator.tools.config.rules.BINDINGS_MAX", 3)
    keys = ", ".join(f"{{key = '{n}', queue = 'q'}}" for n in range(2 + more))
    text = f"[queue.q]\n[exchange.x]\nbindings = [{keys}]\n[exchange.y]\nbindings = [{{queue = 'q'}}]"
    (tmp_path / "config.toml").write_text(text)
    if not more:
        load(tmp_path / "config.toml")
        return
    with pytest.raises(ConfigError, match="exchange has 4 bindings in all; there may be at most 3: use patterns"):
        load(tmp_path / "config.toml")


def peers(number: int) -> str:
    return "".join(f"[peer.p{n}]\n" for n in range(number))


NODE = "node.name = 'a'\nnode.secret_file = 's'\n"
PEER = NODE + "peer.b.address = 'peer://10.0.0.2:61614'\n"
TLS = "[tls]\ncertificate = 'c'\nkey = 'k'\n"
PEER_CA = TLS + "peer_ca = 'n'\n"
PEERS = NODE + "peer.b.address = 'peers://10.0.0.2:61614'\n"

RIGHT = {
    "a loopback listener": "server.listen = ['stomp://127.0.0.1:0', 'stomp://[::1]:0', 'stomp://localhost:0']",
    "an open listener, wanted": "server.listen = ['stomp://0.0.0.0:0']\nserver.plain = ['stomp://0.0.0.0:0']"
    "\nuser.anonymous = {}",
    "unix sockets": "server.listen = ['stomp+unix:a', 'stomp+unix:/run/a?mode=0660', 'stomp+unix:radiator.sock']",
    "a unix socket in a directory of many letters": f"server.listen = ['stomp+unix:/{'d' * 98}/{'n' * 7}']",
    "many letters in a data directory, whose socket nobody has listed": f"server.data_dir = '{'d' * 200}'",
    "a header as large as a frame": "limits.max_header_bytes = 1000\nlimits.max_frame_bytes = 1000",
    "four batches in the map": "server.map_size = '64MiB'\nlimits.max_batch_bytes = '16MiB'",
    "as many destinations as may be": "limits.max_destinations = 2\n[queue.a]\n[queue.'b.*']\n[topic.b]",
    "patterns apart": "[queue.'a.*']\n[queue.'b.*']",
    "patterns of which one wins": "[queue.'a.*.c']\n[queue.'a.*']\n[queue.'a.#']\n[queue.'#']\n[queue.'*']",
    "a dead letter that is declared": "[queue.a]\ndead_letter = 'b'\n[queue.b]",
    "a dead letter that a pattern matches": "[queue.a]\ndead_letter = 'b.x'\n[queue.'b.*']",
    "a dead letter that may be created": "[create]\nqueues = true\n[queue.a]\ndead_letter = 'b'",
    "a chain of dead letters": "[queue.a]\ndead_letter = 'b'\n[queue.b]\ndead_letter = 'c'\n[queue.c]",
    "a dead letter with a table of its own": "[queue.'#']\ndead_letter = 'dead'\n[queue.dead]",
    "a memory queue's dead letter": "[queue.a]\npersistent = false\ndead_letter = 'b'\n[queue.b]",
    "memory to memory": "[queue.a]\npersistent = false\ndead_letter = 'b'\n[queue.b]\npersistent = false",
    "overflow to the dead letter": "[queue.a]\noverflow = 'dead-letter'\ndead_letter = 'b'\n[queue.b]",
    "dead letters to an exchange that is not there yet": "[queue.a]\ndead_letter_exchange = 'x'",
    "a circle by the default exchange": "[queue.a]\ndead_letter_exchange = ''\ndead_letter_key = 'b'\n"
    "[queue.b]\ndead_letter_exchange = ''\ndead_letter_key = 'a'\noverflow = 'dead-letter'\nmax_messages = 1",
    "a dedup window": "[queue.a]\ndedup_window_s = 60",
    "no dedup window in memory": "[queue.a]\npersistent = false\ndedup_window_s = 0",
    "a child that is declared": "[fanout.f]\nchildren = ['a']\n[queue.a]",
    "a child that a pattern matches": "[fanout.f]\nchildren = ['a.b']\n[queue.'a.#']",
    "a child that may be created": "[create]\nqueues = true\n[fanout.f]\nchildren = ['a']",
    "a child with the name of its fanout": "[fanout.f]\nchildren = ['f']\n[queue.f]\n[topic.f]",
    "a node that dials": PEER,
    "a node that is dialled": NODE + "node.listen = 'peer://0.0.0.0:0'\npeer.b = {}",
    "as many peers as may be": NODE + "node.listen = 'peer://[::]:0'\n" + peers(NODE_NEIGHBOURS_MAX),
    "a node that lets itself be found": PEER + "node.discover = true\nnode.listen = 'peer://10.0.0.1:61614'",
    "a node that is found elsewhere": PEER
    + "node.discover = true\nnode.listen = 'peer://0.0.0.0:61614'\nnode.advertise = 'peer://a.example:61614'",
    "a node that finds and is not found": PEER + "node.discover = true",
    "a zone that nobody is told": PEER + "node.listen = 'peer://[fe80::1%eth0]:61614'",
    "a zone where it is found elsewhere": PEER
    + "node.discover = true\nnode.listen = 'peer://[fe80::1%eth0]:1'\nnode.advertise = 'peer://[fd00::1]:1'",
    "nodes over TLS": PEERS
    + "node.listen = 'peers://[::]:61614'\npeer.c.address = 'peer://10.0.0.3:61614'\n"
    + PEER_CA,
    "a node that is only dialled, over TLS": NODE + "node.listen = 'peers://[::]:61614'\npeer.b = {}\n" + TLS,
    "two nodes of one machine": PEER + "peer.c.address = 'peer://10.0.0.2:61615'",
    "clients and nodes beside each other": PEER
    + "server.listen = ['stomp://127.0.0.1:7', 'stomp://[::1]:7', 'stomp://127.0.0.2:7', 'stomp://localhost:0']\n"
    + "node.listen = 'peer://127.0.0.3:7'",
    "one port of two families": PEER + "server.listen = ['stomp://[::1]:7']\nnode.listen = 'peer://0.0.0.0:7'",
    "any two ports": PEER + "server.listen = ['stomp://127.0.0.1:0']\nnode.listen = 'peer://127.0.0.1:0'",
    "a name that only the start can look up": PEER
    + "server.listen = ['stomp://localhost:7']\nnode.listen = 'peer://127.0.0.1:7'",
    "what the cluster has": PEER
    + "[queue.q]\nscope = 'cluster'\n[queue.'q.*']\nscope = 'cluster'\n"
    + "[fanout.f]\nchildren = ['q']\nscope = 'cluster'\n[topic.'#']\nscope = 'cluster'",
    "an exchange, and bindings of all three that are always there": "[queue.q]\n[exchange.x]\n"
    + "".join(f"[exchange.'amq.{t}']\nbindings = [{{queue = 'q'}}]\n" for t in ("direct", "topic", "fanout")),
    "the type of one that is always there": "[exchange.'amq.topic']\ntype = 'topic'",
    "a binding to a queue that a pattern matches": "[queue.'q.*']\n[exchange.x]\nbindings = [{queue = 'q.a'}]",
    "a binding to a queue that may be created": "create.queues = true\n[exchange.x]\nbindings = [{queue = 'q'}]",
    "a binding to a queue in memory": "[queue.q]\npersistent = false\n[exchange.x]\nbindings = [{queue = 'q'}]",
    "a key of 48 words and 3 wildcards": "[queue.q]\n[exchange.x]\ntype = 'topic'\n"
    + f"bindings = [{{key = '{'w.' * 45}*.*.#', queue = 'q'}}]",
    "no words where they are not matched": "[queue.q]\n[exchange.x]\n"
    + f"bindings = [{{key = '{'*.' * 60}', queue = 'q'}}]",
    "a delay as long as the longest": "[queue.q]\nredelivery_delay_ms = 5\nredelivery_delay_max_ms = 5",
    "a delay of an hour": "[queue.q]\nredelivery_delay_ms = 3600000",
    "settings for durable subscriptions": "[queue.'$durable.topic.news.#']\nmax_messages = 5",
    "what a node alone has": "[queue.q]\nscope = 'node'\npersistent = false\n[topic.t]\nscope = 'node'",
}

RIGHT |= {
    "a child that is a log": "[log.a]\n[fanout.f]\nchildren = ['/log/a']",
    "a binding to a log": "[log.'a/b']\n[exchange.x]\nbindings = [{queue = '/log/a/b'}]",
    "a log, a queue, a fanout and a topic of one name": "[log.a]\n[queue.a]\n[topic.a]\n[fanout.a]\nchildren = ['a']",
    "as many destinations as may be, with a log": "limits.max_destinations = 2\n[queue.a]\n[log.a]",
    "the journal, and a log": "[journal]\nenabled = true\n[log.journals]",
}

ENCRYPTED = "server.listen = ['stomps://127.0.0.1:0']\n"
RIGHT |= {
    "an encrypted listener": ENCRYPTED + TLS,
    "clients that show certificates": ENCRYPTED + TLS + "client_ca = 'a'\nclient_certificates = 'required'",
}

WRONG = {
    "an encrypted listener without a certificate": (
        ENCRYPTED,
        "server.listen has stomps://127.0.0.1:0, and there is no certificate; add [tls] with certificate =",
    ),
    "a certificate without a key": (
        ENCRYPTED + "[tls]\ncertificate = 'c'",
        'tls has no key; name the file, such as key = "server.key".',
    ),
    "a key without a certificate": (
        ENCRYPTED + "[tls]\nkey = 'k'",
        'tls has no certificate; name the file, such as certificate = "server.pem".',
    ),
    "certificates of clients without a CA": (
        ENCRYPTED + TLS + "client_certificates = 'optional'",
        'tls.client_certificates is "optional", and there is no client_ca to judge them by; name the file of the CA',
    ),
    "certificates of clients that are wished for": (
        ENCRYPTED + TLS + "client_certificates = 'maybe'",
        'tls.client_certificates is "maybe"; it must be one of "none", "optional", "required".',
    ),
    "a child that is not a log": (
        "[create]\nqueues = true\n[log.event]\n[fanout.f]\nchildren = ['/log/events']",
        'fanout.f.children names "/log/events", which is not a log; did you mean "/log/event"?',
    ),
    "a binding to no log": (
        "[create]\nqueues = true\n[exchange.x]\nbindings = [{queue = '/log/events'}]",
        'exchange.x.bindings names "/log/events", which is not a log; declare [log."events"].',
    ),
    "a log with the name of the journal": (
        "[log.journal]\npartitions = 2",
        "log.journal has a name that is that of the journal; its settings are in [journal].",
    ),
    "a log with a name that is kept": ("[log.'$checkout/q/g']", "has a name that is kept for the broker itself."),
    "a log that is a pattern": ("[log.'a.*']", 'log."a.*" has a name that has a wildcard, and a log has one name.'),
    "a log by another's address": ("[log.'/queue/a']", "the address of something else; write NAME or /log/NAME."),
    "a log too many": (
        "limits.max_destinations = 1\n[queue.a]\n[log.a]",
        "limits.max_destinations is 1, but the file declares 2 queues, logs,",
    ),
    "a setting that no log has": ("[log.a]\npartition = 2", 'did you mean "partitions"?'),
    "a setting that the journal does not have": ("[journal]\npartitions = 2", "journal.partitions is not a setting of"),
    "an open listener": (
        "server.listen = ['stomp://0.0.0.0:0']",
        "server.listen has stomp://0.0.0.0:0, which other machines can reach",
    ),
    "one of two listeners": (
        "server.listen = ['stomp://[::1]:0', 'stomp://[::]:0']",
        "server.listen has stomp://[::]:0",
    ),
    "one unix socket twice": (
        "server.listen = ['stomp+unix:/a/../b?mode=0660', 'stomp+unix:/b']",
        "server.listen has stomp+unix:/b?mode=0660 and stomp+unix:/b, which are one place; remove one of the two",
    ),
    "a unix socket in a directory of too many letters": (
        f"server.listen = ['stomp+unix:/{'d' * 98}/{'n' * 8}']",
        "a path of 108 bytes, where a unix socket has at most 107",
    ),
    "too many letters in a data directory": (
        f"server.data_dir = '{'d' * 200}'\nserver.listen = ['stomp+unix:radiator.sock']",
        "where a unix socket has at most 107",
    ),
    "a listener by name": ("server.listen = ['stomp://broker:0']", "server.listen has stomp://broker:0"),
    "a header larger than a frame": (
        "limits.max_header_bytes = 1001\nlimits.max_frame_bytes = 1000",
        "limits.max_header_bytes is 1001; it must not be more than max_frame_bytes (1000)",
    ),
    "a batch too large for the map": (
        "server.map_size = '63MiB'\nlimits.max_batch_bytes = '16MiB'",
        "server.map_size is 63MiB, less than 4 times the largest batch (16MiB); make it at least 64MiB",
    ),
    "a frame too large for the map": (
        "server.map_size = '63MiB'\nlimits.max_frame_bytes = '16MiB'",
        "server.map_size is 63MiB, less than 4 times the largest batch (16MiB); make it at least 64MiB",
    ),
    "one destination too many": (
        "limits.max_destinations = 3\n[queue.a]\ndead_letter = 'b'\n[queue.b]\n[topic.c]\n[fanout.d]\nchildren = ['a']",
        "limits.max_destinations is 3, but the file declares 4",
    ),
    "one exchange too many": (
        "limits.max_destinations = 2\n[exchange.x]\nbindings = [{queue = 'q'}]\n[exchange.y]\n[queue.'*']"
        "\n[exchange.'amq.topic']",
        "limits.max_destinations is 2, but the file declares 3 queues, logs, exchanges, fanouts and topics",
    ),
    "another type of one that is always there": (
        "[exchange.'amq.topic']\ntype = 'direct'",
        'exchange."amq.topic".type is "direct", but amq.topic is always of type "topic"; leave it out',
    ),
    "a name like that of one that is always there": (
        "[exchange.'amq.topics']",
        'exchange."amq.topics" has a name that begins with amq.; of these there are amq.direct, amq.topic, amq.fanout',
    ),
    "a binding to no queue": (
        "[queue.orders]\n[exchange.x]\nbindings = [{key = 'a', queue = 'order'}]",
        'exchange.x.bindings names "order", which is not a queue; did you mean "orders"?',
    ),
    "a binding to an exchange": (
        "create.queues = true\n[exchange.x]\nbindings = [{key = 'a', queue = 'y'}]\n[exchange.y]",
        'exchange.x.bindings names "y", which is an exchange and no queue; name a queue',
    ),
    "a key of 49 words": (
        f"[queue.q]\n[exchange.x]\ntype = 'topic'\nbindings = [{{key = '{'w.' * 48}w', queue = 'q'}}]",
        "which has 49 words; it may have at most 48",
    ),
    "a key of 4 wildcards": (
        "[queue.q]\n[exchange.'amq.topic']\nbindings = [{key = '#.*.*.#', queue = 'q'}]",
        'exchange."amq.topic".bindings has the key "#.*.*.#", which has 4 wildcards; it may have at most 3, '
        "and the * at its front count as one",
    ),
    "a delay that is longer than the longest": (
        "[queue.q]\nredelivery_delay_ms = 6\nredelivery_delay_max_ms = 5",
        "queue.q.redelivery_delay_ms is 6, more than redelivery_delay_max_ms (5); raise that, or lower this",
    ),
    "a delay that is longer than the longest by default": (
        "[queue.q]\nredelivery_delay_ms = 3600001",
        "queue.q.redelivery_delay_ms is 3600001, more than redelivery_delay_max_ms (3600000)",
    ),
    "a queue of the broker's own": (
        "[queue.'$outbox/b']",
        'queue."$outbox/b" is a queue that the broker keeps for itself; name another one',
    ),
    "a pattern that no durable subscription matches": (
        "[queue.'$durable/topic/news.#']",
        'queue."$durable/topic/news.#" matches nothing; for durable subscriptions write each / as a dot: '
        '"$durable.topic.news.#"',
    ),
    "a durable subscription's own queue": (
        "[queue.'$durable/topic/a/b']",
        'queue."$durable/topic/a/b" is a queue that the broker keeps for itself; name another one',
    ),
    "a queue of the cluster that goes when unused here": (
        PEER + "[queue.q]\nscope = 'cluster'\nexpires_ms = 1000",
        'queue.q.scope is "cluster", but the queue has expires_ms = 1000, which one node cannot keep for all',
    ),
    "patterns of which none wins": ("[queue.'a.*']\n[queue.'*.b']", 'queue."a.*" and "*.b" can match the same name'),
    "patterns with # of which none wins": (
        "[queue.'a.#']\n[queue.'#.b']",
        'queue."a.#" and "#.b" can match the same name',
    ),
    "overflow to no dead letter": (
        "[queue.a]\noverflow = 'dead-letter'",
        'queue.a.overflow is "dead-letter", but the queue has no dead_letter',
    ),
    "a dedup window in memory": (
        "[queue.a]\npersistent = false\ndedup_window_s = 1",
        "queue.a.dedup_window_s is 1, but the queue is not persistent",
    ),
    "a dead letter that is unknown": (
        "[queue.orders]\ndead_letter = 'order'",
        'queue.orders.dead_letter names "order", which is not a queue; did you mean "orders"?',
    ),
    "a dead letter that is a topic": (
        "[create]\nqueues = true\n[queue.a]\ndead_letter = 't'\n[topic.t]",
        'queue.a.dead_letter names "t", which is a topic and no queue',
    ),
    "a dead letter in memory": (
        "[queue.a]\ndead_letter = 'b'\n[queue.b]\npersistent = false",
        'queue.a.dead_letter is "b", which is not persistent',
    ),
    "a dead letter in memory by a pattern": (
        "[queue.a]\ndead_letter = 'b.x'\n[queue.'b.*']\npersistent = false",
        'queue.a.dead_letter is "b.x", which is not persistent',
    ),
    "a queue that is its own dead letter": ("[queue.a]\ndead_letter = 'a'", 'leads to a cycle: "a" -> "a"'),
    "a cycle of two": (
        "[queue.a]\ndead_letter = 'b'\n[queue.b]\ndead_letter = 'a'",
        'leads to a cycle: "a" -> "b" -> "a"',
    ),
    "a way into a cycle": (
        "[queue.z]\ndead_letter = 'a'\n[queue.a]\ndead_letter = 'b'\n[queue.b]\ndead_letter = 'a'",
        'queue.z.dead_letter leads to a cycle: "a" -> "b" -> "a"',
    ),
    "a cycle by a pattern": (
        "[queue.'#']\ndead_letter = 'dead'",
        'queue."#".dead_letter leads to a cycle: "dead" -> "dead"',
    ),
    "a child that is unknown": (
        "[fanout.f]\nchildren = ['a']",
        'fanout.f.children names "a", which is not a queue; declare [queue."a"]',
    ),
    "a child that is a fanout": (
        "[create]\nqueues = true\n[fanout.f]\nchildren = ['g']\n[fanout.g]\nchildren = ['a']",
        'fanout.f.children names "g", which is a fanout and no queue',
    ),
    "a node without a name": (
        "node.secret_file = 's'\npeer.b.address = 'peer://10.0.0.2:61614'",
        'node has no name; give this node one of its own, such as name = "a"',
    ),
    "a node without a secret": (
        "node.name = 'a'\npeer.b.address = 'peer://10.0.0.2:61614'",
        "node has no secret_file, by which nodes know each other; make one: head -c 32 /dev/urandom | base64 >",
    ),
    "a node without peers": (NODE, "node has no peers; declare the nodes that it is linked with, such as [peer.b]"),
    "a peer without a node": ("[peer.b]", "peer declares other nodes, but this one has no [node]; add [node]"),
    "a peer with this node's name": (
        PEER + "peer.a.address = 'peer://10.0.0.1:1'",
        'peer.a has the name of this node (node.name is "a"); declare the other nodes only',
    ),
    "a peer that nobody can dial": (
        PEER + "peer.c = {}",
        "peer.c has no address, and this node has no listen, so neither can dial the other; give one of them",
    ),
    "nodes that connect over TLS, and no certificate": (
        NODE + "node.listen = 'peers://[::]:61614'\npeer.b = {}",
        "node.listen is peers://[::]:61614, and there is no certificate; add [tls] with certificate =",
    ),
    "a node that is dialled over TLS, and no CA": (
        PEERS + TLS,
        "peer.b.address is peers://10.0.0.2:61614, and there is no CA to judge it by; name the file of the CA that the",
    ),
    "a node that is dialled over TLS, and no table for it": (
        PEERS,
        "peer.b.address is peers://10.0.0.2:61614, and there is no CA to judge it by",
    ),
    "a wrong CA of nodes": (PEERS + TLS + "peer_ca = 1", "tls.peer_ca is 1; it must be the path of a file, as text"),
    "two peers at one port, one of them over TLS": (
        PEER + "peer.c.address = 'peers://10.0.0.2:61614'\n" + PEER_CA,
        "peer.c.address is peers://10.0.0.2:61614, as is peer.b.address; every node has an address of its own",
    ),
    "another scheme than nodes are served with": (
        PEER + "node.discover = true\nnode.listen = 'peers://0.0.0.0:1'\nnode.advertise = 'peer://10.0.0.1:1'\n" + TLS,
        "node.advertise is peer://10.0.0.1:1, but this node listens on peers://0.0.0.0:1; write both with one scheme",
    ),
    "two peers at one address": (
        PEER + "peer.c.address = 'peer://10.0.0.2:61614/'",
        "peer.c.address is peer://10.0.0.2:61614, as is peer.b.address; every node has an address of its own",
    ),
    "a peer where this node listens": (
        PEER + "node.listen = 'peer://10.0.0.2:61614'",
        "peer.b.address is peer://10.0.0.2:61614, as is node.listen",
    ),
    "a peer where this node is found": (
        PEER + "node.discover = true\nnode.listen = 'peer://0.0.0.0:61614'\nnode.advertise = 'peer://10.0.0.2:61614'",
        "peer.b.address is peer://10.0.0.2:61614, as is node.advertise",
    ),
    "one peer too many": (
        NODE + "node.listen = 'peer://[::]:0'\n" + peers(NODE_NEIGHBOURS_MAX + 1),
        f"peer declares {NODE_NEIGHBOURS_MAX + 1} nodes, but a node has at most {NODE_NEIGHBOURS_MAX} links",
    ),
    "a wrong address": (
        NODE + "peer.b.address = 'peer://10.0.0.2'",
        'peer.b.address is "peer://10.0.0.2"; write an address as peer://HOST:PORT',
    ),
    "a misspelt address": (NODE + "peer.b.adress = 'peer://10.0.0.2:1'", "peer.b.adress is not a setting of this"),
    "a peer's name with a dot": (
        NODE + "peer.b.c.address = 'peer://10.0.0.2:1'",
        "peer.b.c is not a setting; put a name with",
    ),
    "a wrong listen": (
        NODE + "node.listen = 'stomp://10.0.0.2:1'\npeer.b = {}",
        'node.listen has the scheme "stomp"',
    ),
    "a misspelt listen": (NODE + "node.lisen = 'peer://10.0.0.2:1'\npeer.b = {}", "node.lisen is not a setting of"),
    "a wrong listen that is advertised": (
        PEER + "node.listen = 'peer://10.0.0.1'\nnode.discover = true\nnode.advertise = 'peer://10.0.0.1:1'",
        'node.listen is "peer://10.0.0.1"',
    ),
    "clients and nodes at one port": (
        PEER + "server.listen = ['stomp://127.0.0.1:1', 'stomp://127.0.0.1:7']\nnode.listen = 'peer://127.0.0.1:7'",
        "node.listen is peer://127.0.0.1:7, where clients connect already (server.listen has stomp://127.0.0.1:7); "
        "give one of them another port",
    ),
    "nodes at the port of clients where none is given": (
        PEER + "node.listen = 'peer://0.0.0.0:61613'",
        "node.listen is peer://0.0.0.0:61613, where clients connect already (server.listen has stomp://127.0.0.1:61613)",
    ),
    "nodes within the wildcard of clients": (
        PEER
        + "server.listen = ['stomp://0.0.0.0:7']\nserver.plain = ['stomp://0.0.0.0:7']\nuser.anonymous = {}\n"
        + "node.listen = 'peer://10.0.0.1:7'",
        "node.listen is peer://10.0.0.1:7, where clients connect already",
    ),
    "the wildcard of IPv6, which takes IPv4 too": (
        PEER + "server.listen = ['stomp://127.0.0.1:7']\nnode.listen = 'peer://[::]:7'",
        "node.listen is peer://[::]:7, where clients connect already",
    ),
    "one place, spelt in two ways": (
        PEER + "server.listen = ['stomp://[::1]:7']\nnode.listen = 'peer://[0:0::1]:7'",
        "where clients connect already",
    ),
    "two listeners of clients in one place": (
        "user.anonymous = {}\n"
        "server.plain = ['stomp://0.0.0.0:7']\nserver.listen = ['stomp://0.0.0.0:7', 'stomp://127.0.0.1:7']",
        "server.listen has stomp://0.0.0.0:7 and stomp://127.0.0.1:7, which are one place; remove one of the two",
    ),
    "an address that nobody is told": (
        PEER + "node.listen = 'peer://0.0.0.0:1'\nnode.advertise = 'peer://10.0.0.1:1'",
        "node.advertise is peer://10.0.0.1:1, but nobody is told it without discover = true",
    ),
    "an address where nobody listens": (
        PEER + "node.discover = true\nnode.advertise = 'peer://10.0.0.1:1'",
        "node.advertise is peer://10.0.0.1:1, but this node has no listen",
    ),
    "a wildcard for others to dial": (
        PEER + "node.discover = true\nnode.listen = 'peer://0.0.0.0:1'",
        "node.listen is peer://0.0.0.0:1, which nobody can dial, but with discover it is announced to other nodes",
    ),
    "any port for others to dial": (
        PEER + "node.discover = true\nnode.listen = 'peer://10.0.0.1:0'",
        "node.listen is peer://10.0.0.1:0, which nobody can dial",
    ),
    "a zone for others to dial": (
        PEER + "node.discover = true\nnode.listen = 'peer://[fe80::1%eth0]:61614'",
        'node.listen has the host "fe80::1%eth0" with a zone, which means something on this machine only; write it '
        "without, or add advertise",
    ),
    "a host that others refuse": (
        PEER + "node.discover = true\nnode.listen = 'peer://größe:61614'",
        'node.listen has the host "größe"; for other nodes it must be a name of A-Z a-z 0-9 . _ - or an IP',
    ),
    "a queue of no cluster": (
        "[queue.q]\nscope = 'cluster'",
        'queue.q.scope is "cluster", but there are no other nodes; add [node] and its peers, or set scope = "node"',
    ),
    "a fanout of no cluster": (
        "[queue.q]\n[fanout.f]\nchildren = ['q']\nscope = 'cluster'",
        'fanout.f.scope is "cluster", but there are no other nodes',
    ),
    "a topic of no cluster": ("[topic.t]\nscope = 'cluster'", 'topic.t.scope is "cluster", but there are no'),
    "a cluster's queue in memory": (
        PEER + "[queue.q]\nscope = 'cluster'\npersistent = false",
        'queue.q.scope is "cluster", but the queue has persistent = false, which one node cannot keep for all',
    ),
    "a cluster's queue for one consumer": (
        PEER + "[queue.q]\nscope = 'cluster'\nexclusive = true",
        'queue.q.scope is "cluster", but the queue has exclusive = true',
    ),
    "a cluster's queue that goes": (
        PEER + "[queue.'q.*']\nscope = 'cluster'\nauto_delete = true",
        'queue."q.*".scope is "cluster", but the queue has auto_delete = true',
    ),
}


@pytest.fixture(autouse=True)
def secret(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("s" * 16)
    (tmp_path / "s").chmod(0o600)


@pytest.mark.parametrize("case", RIGHT)
def test_a_rule_lets_pass(case: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(RIGHT[case])
    load(tmp_path / "config.toml")


@pytest.mark.parametrize("case", WRONG)
def test_a_rule_refuses_once(case: str, tmp_path: Path) -> None:
    text, found = WRONG[case]
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml")
    assert len(caught.value.mistakes) == 1
    assert found in caught.value.mistakes[0]


def test_a_wrong_value_is_not_reported_by_a_rule_too(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[fanout.f]\nchildren = []\n[queue.a]\ndead_letter = 3\n")
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml")
    assert len(caught.value.mistakes) == 2


def test_a_listen_of_clients_that_is_wrong_takes_no_port(tmp_path: Path) -> None:
    text = PEER + "node.listen = 'peer://127.0.0.1:61613'\nserver.listen = ['no address']"
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "config.toml")
    assert [": server.listen " in mistake for mistake in caught.value.mistakes] == [True]
