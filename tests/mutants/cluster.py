"""Nodes: hand-over, routes, spreading, grants, and what may cross a link."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "copies-cost-one",
        "A copy of a fanout is granted as if it were stored once, however many children it has.",
        function="cost_bytes",
        old="return (size + LINK_COST_BYTES) * children",
        new="return size + LINK_COST_BYTES",
    ),
    Mutant(
        "delete-before-taken",
        "A message that is handed over is removed as soon as it is said, before the other node has it.",
        function="Handover.offer",
        old="link.send(word, word.message.size + WRITE_COST_BYTES)",
        new="""
            link.send(word, word.message.size + WRITE_COST_BYTES)
            self._settle(peer, sequence)
        """,
    ),
    Mutant(
        "doubt-not-committed-before-transfer",
        "A message is handed over before it is on the disk that it is in doubt.",
        function="Handover.offer",
        old="context.open.then.append(say)",
        new="say()",
    ),
    Mutant(
        "durable-gets-live-and-copy",
        "A durable subscription gets the live message too where it gets a copy.",
        function="Cluster.deliver",
        old="if is_copied:",
        new="if is_copied and not message:",
    ),
    Mutant(
        "edge-of-one-end-counts",
        "Messages are routed over a link that one of its ends has given up.",
        function="tree",
        old="if name in claims.get(other, NOBODY):",
        new="if other in claims:",
    ),
    Mutant(
        "give-back-on-disconnect",
        "When a link is lost, what is in doubt is given back at once.",
        function="Links.unlink",
        old="peer.unlinked()",
        new="""
            peer.unlinked()
            self.handover.release(peer)
        """,
    ),
    Mutant(
        "grant-not-checked",
        "A node may hand over as many messages as it likes, granted or not.",
        function="Arrivals.count",
        old="if count >= link.allowed.get(name, 0):",
        new="if count >= link.allowed.get(name, 2**63):",
    ),
    Mutant(
        "half-a-body-believed",
        "A large message is handed over though not all of its bytes have come.",
        function="Parcels.body",
        old="if incoming is None or incoming.number != parcel or incoming.have != incoming.size:",
        new="if incoming is None or incoming.number != parcel:",
    ),
    Mutant(
        "interest-not-withdrawn",
        "Other nodes are not told that nobody subscribes to a pattern any more.",
        function="OwnSubscriptions.changes",
        old=(
            "return {p for p in changed if p in self.counts} - sent, {p for p in changed if p not in self.counts} &"
            " sent"
        ),
        new="return {p for p in changed if p in self.counts} - sent, set()",
    ),
    Mutant(
        "item-and-last-in-two-commits",
        "A message that comes in, and its sequence, are written by two batches, one after the other.",
        function="Handover.transfer",
        old="peer.touch()",
        new="self.context.open.then.append(peer.touch)",
    ),
    Mutant(
        "last-believed-before-it-was-said",
        "A node is believed that has a message which is only in the open batch in doubt, and was said to nobody.",
        function="Handover._check_last",
        old="if not peer.out_taken <= last <= peer.out_sent:",
        new="if not peer.out_taken <= last <= peer.out_offered:",
    ),
    Mutant(
        "last-not-checked",
        "Whatever a node says that it has taken is believed.",
        function="Handover._check_last",
        old="if not peer.out_taken <= last <= peer.out_sent:",
        new="if last < peer.out_taken:",
    ),
    Mutant(
        "link-added-header-unchecked",
        (
            "What brokers add to a header block is not looked at: a block may grow past what the next node takes,"
            " and a path be no path."
        ),
        function="check_block",
        old="if name in added or len(line) > most_bytes or (is_path and not _PATH_LINE.match(line)):",
        new="if not line:",
    ),
    Mutant(
        "link-carries-queues-only",
        "A link knows only three of the kinds of addresses that a client may send to.",
        function="carried_address",
        old="if address == ADMIN:",
        new='if not address.startswith(("/queue/", "/fanout/", "/topic/")):',
    ),
    Mutant(
        "link-headers-smuggled",
        "A header block of a node is not looked at: a raw line end, or a message-id of its own, reaches clients.",
        function="check_block",
        old="if pattern.fullmatch(block) is None:",
        new=r'if not block.endswith(b"\n") and block:',
    ),
    Mutant(
        "no-epoch-fence",
        "Words of an earlier connection are heard beside those of the newest, whatever their epoch.",
        function="Links.opened",
        old='old.connection.refuse(self.context, "superseded", f"{name!r} has made a newer link.")',
        new="",
        also=(
            Edit(
                function="Links.peer_of",
                old="return peer if peer is not None and peer.link is link else None",
                new="return peer if peer is not None and peer.link is not None else None",
            ),
            Edit(
                function="Handover.transfer",
                old="if word.epoch != peer.in_epoch or not peer.is_answered:",
                new="if word.epoch > peer.in_epoch:",
            ),
        ),
    ),
    Mutant(
        "no-topic-dedup",
        'A message of a topic of scope "cluster" that comes a second time, or late, is delivered.',
        function="Gossip.hear_publish",
        old="if word.sequence <= known.sequence:",
        new="if word.sequence <= 0:",
    ),
    Mutant(
        "outbox-entry-removed-when-sent",
        "A copy leaves the outbox as it is said, before the other node has it.",
        function="Handover.offer",
        old="link.send(word, word.message.size + WRITE_COST_BYTES)",
        new="""
            link.send(word, word.message.size + WRITE_COST_BYTES)
            if destination.startswith("/fanout/"):
                self._settle(peer, sequence)
        """,
    ),
    Mutant(
        "published-elsewhere-not-kept",
        "What is published on other nodes does not come into the durable subscriptions here.",
        function="Cluster.deliver",
        old="self.admission.collect(queue, message)",
        new="pass",
    ),
    Mutant(
        "room-without-end",
        "Links are granted bytes whatever room there is.",
        function="Capacities.grant",
        old="lane, available = link.takes[is_copies], self.available_bytes",
        new="lane, available = link.takes[is_copies], 2**40",
    ),
    Mutant(
        "sequence-gap-accepted",
        "A message that is handed over need not be the one after the last.",
        function="Handover.transfer",
        old="if word.sequence != peer.in_last + 1:",
        new="if word.sequence <= peer.in_last:",
    ),
    Mutant(
        "stale-interest",
        "News of a node that is older than what is known of it replaces the newer.",
        function="Gossip.hear_node_state",
        old="if known is not None and version <= known.version:",
        new="if known is not None and version == known.version:",
    ),
    Mutant(
        "taken-before-commit",
        "A node says that it has a message before that is on its disk.",
        function="Handover.transfer",
        old="peer.touch()",
        new="""
            peer.touch()
            peer.taken_sent = peer.in_last
            peer.link.send(Taken(peer.in_last))
        """,
    ),
    Mutant(
        "welcome-ignored",
        "What was in doubt when a link was lost stays so when the link is back.",
        function="Handover.welcome",
        old="self._settle(peer, word.last)",
        new="",
        also=(
            Edit(
                function="Handover.welcome",
                old="""
                    touched = self._return_doubts(peer, redelivered=not word.last)
                    peer.out_offered = peer.out_sent = word.last
                """,
                new="""
                    touched: list[DurableQueue] = []
                    peer.out_sent = word.last
                """,
            ),
        ),
    ),
)
