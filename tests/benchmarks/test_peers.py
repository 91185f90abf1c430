"""How the peers are started: synced where the row says so, on the loopback only, with data in their directory only."""

from dataclasses import replace

import pytest

from benchmarks.peers import PEERS, Beanstalkd, CoilMQ, Nats, Peer, RabbitMQ, RabbitMQQuorum, Radiator, Redis
from benchmarks.processes import Launch
from benchmarks.shapes import CASES, Case

PERSISTENT, MEMORY = CASES[0], CASES[6]
TOPIC = CASES[8]


def text_of(launch: Launch) -> str:
    words = [word for command in launch.commands for word in command]
    return "\n".join([*words, *launch.environment.values(), *launch.files.values()])


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("case", [PERSISTENT, MEMORY], ids=["persistent", "memory"])
def test_a_peer_listens_on_the_loopback_and_writes_into_its_directory(peer: Peer, case: Case) -> None:
    launch = peer.launch(case)
    text = text_of(launch)
    assert "127.0.0.1" in text and "0.0.0.0" not in text
    assert str(launch.port) in text
    assert "DIR" in text or isinstance(peer, Radiator | Beanstalkd), "these use where they are started"


def test_persistent_means_synced() -> None:
    assert text_of(Beanstalkd().launch(PERSISTENT)).endswith("-b\nDIR\n-f\n0")
    assert "-b" not in text_of(Beanstalkd().launch(MEMORY))
    assert "--appendonly\nyes\n--appendfsync\nalways" in text_of(Redis().launch(PERSISTENT))
    assert "--appendonly\nno" in text_of(Redis().launch(MEMORY))
    assert "make_sa" in text_of(CoilMQ().launch(PERSISTENT))
    assert "MemoryQueue" in text_of(CoilMQ().launch(MEMORY))


class NatsOf(Nats):
    def __init__(self, *number: int) -> None:
        self._is = number

    def _number(self) -> tuple[int, ...]:
        return self._is


def test_nats_takes_part_in_persistent_rows_only_if_it_can_sync() -> None:
    old, new = NatsOf(2, 9, 10), NatsOf(2, 10, 0)
    assert "sync_interval: always" in text_of(new.launch(PERSISTENT))
    assert "sync_interval" not in text_of(new.launch(MEMORY)) + text_of(old.launch(PERSISTENT))
    assert "2.9.10 cannot sync before it acknowledges" in old.lacks(PERSISTENT)
    assert new.lacks(PERSISTENT) == old.lacks(MEMORY) == old.lacks(TOPIC) == ""


def test_who_has_no_such_row_says_so() -> None:
    assert Beanstalkd().lacks(TOPIC) == "it has no topics"
    assert RabbitMQQuorum().lacks(MEMORY) and not RabbitMQQuorum().lacks(PERSISTENT)
    assert not RabbitMQ().lacks(TOPIC)


def test_every_peer_says_what_its_answer_means() -> None:
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    for peer in PEERS:
        assert peer.confirms.endswith(".")


def test_targets_are_those_of_one_kib() -> None:
    assert PERSISTENT.target("beanstalkd") == 12
    assert replace(PERSISTENT, body_bytes=100).target("beanstalkd") is None
    assert PERSISTENT.target("redis") is None
