"""T1a and T2a: the crash points of T1 and the power states of T2, with a client that speaks AMQP (amqp_scenario.py).

What was confirmed is found, in all queues that its exchange led it to; what a commit-ok was for is found whole, acks
and messages; what is acked before something that was answered never comes again; what was got and not acked comes
again, and is marked.

They see what T1 and T2 see, and no more: one connection with two channels. T4 has many.
"""

import re
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from random import Random

from radiator.model.amqp_limits import AMQP_FRAME_BYTES
from radiator.protocols.amqp.codec import decode_method
from radiator.protocols.amqp.methods import BasicAck, QueueBindOk, QueueUnbindOk, TxCommitOk
from radiator.protocols.amqp.parser import FrameParser
from radiator.protocols.amqp.spec import FRAME_BODY, FRAME_METHOD, PROTOCOL_HEADER
from tests.acceptance.amqp_clients import port_of
from tests.broker_process import BrokerProcess
from tests.campaigns import amqp_scenario
from tests.campaigns.amqp_scenario import GONE, Client
from tests.campaigns.campaign import Campaign
from tests.campaigns.crash_points import Case, crash
from tests.campaigns.power_states import Record, cut_everywhere
from tests.campaigns.scenario import DEEDS
from tests.campaigns.trace import Answered
from tests.campaigns.web_crashes import QUIET_S

START = b"\x01\0\0\0\x0a\0\x0a"  # of a frame on channel 0, and of its method, connection.start
MESSAGE = re.compile(rb"load\.(\d+)(?:-\d+)?\n")


class AmqpCase(Case):
    """is_stopped: it was asked to end in order, and may have done so before it was killed: then only what was held is
    marked.
    """

    config = amqp_scenario.CONFIG
    is_stopped = False

    def talk(self, deeds: int, end: Callable[[], object]) -> None:
        client = Client(port_of(self.broker), self.history, Random(self.seed))
        try:
            client.begin()
            client.do_all(deeds)
        except GONE:
            client.hear_the_last()
        end()
        client.connection.collect()

    def stop(self) -> None:
        self.is_stopped = True
        super().stop()

    def complaint(self, is_reached: bool) -> str:
        return super().complaint(is_reached and not self.is_stopped)


class AmqpRecord(Record):
    config = amqp_scenario.CONFIG

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        answers = [one for one in self.events if isinstance(one, Answered)]
        ours = next(one.descriptor for one in answers if one.data[:3] == START[:3] and one.data[7:11] == START[3:])
        self.events = [one for one in self.events if not isinstance(one, Answered) or one.descriptor == ours]

    def load(self, broker: BrokerProcess, seed: int) -> None:
        client = Client(port_of(broker), self.history, Random(seed))
        client.begin()
        client.do_all(DEEDS)
        time.sleep(QUIET_S)
        broker.kill()
        client.connection.collect()
        self.client = client

    def answers(self) -> Generator[int, bytes]:
        """Confirms by their tags, oks in the order of what they answer, and messages by their bodies."""
        parser = FrameParser()
        list(parser.frames(PROTOCOL_HEADER))
        parser.use(AMQP_FRAME_BYTES)
        oks = iter(self.client.answers)
        now = confirmed = 0
        while True:
            for frame in parser.frames((yield now)):
                deeds: list[int] = []
                if frame.type == FRAME_BODY and (found := MESSAGE.match(frame.payload)):
                    deeds = [int(found[1]) + 1]
                elif frame.type == FRAME_METHOD:
                    method = decode_method(frame.payload)
                    if isinstance(method, BasicAck):
                        deeds = self.client.confirms[confirmed : method.delivery_tag]
                        confirmed = method.delivery_tag
                    elif isinstance(method, QueueBindOk | QueueUnbindOk | TxCommitOk):
                        deeds = [next(oks)]
                now = max((deed for deed in deeds if deed > now and self.history.changes(deed)), default=now)


CAMPAIGNS = (
    Campaign(
        number="T1a",
        name="amqp-crash-points",
        title="kills a broker under a client of AMQP, at every call by which it writes, syncs, names or answers",
        unit="crash points",
        run=partial(crash, made=AmqpCase),
        cases=(4, 600, 3000),
        mutants=(
            "confirmed-before-commit",
            "transaction-first-send-alone",
        ),
        mutant_cases=200,
        quick_mutants=1,
        needs=("strace_attach",),
        limit_s=(180, 3600, 4 * 3600),
    ),
    Campaign(
        number="T2a",
        name="amqp-power-states",
        title="opens what a power cut may leave of the disk under a client of AMQP, at every write, in every mixture",
        unit="disk states",
        run=partial(cut_everywhere, made=AmqpRecord),
        cases=(120, 20_000, 200_000),
        mutants=(
            "confirmed-before-commit",
            "receipt-before-the-wal-is-synced",
            "exchange-send-in-two-batches",
            "transaction-acks-in-the-next-batch",
        ),
        mutant_cases=3_000,
        quick_mutants=1,
        needs=("strace",),
        limit_s=(180, 3600, 6 * 3600),
    ),
)
