"""The deeds of one client of AMQP, by py-amqp, with the history and the judgement of scenario.py.

One channel confirms: it publishes to queues and through an exchange with bindings, several at once, some to nobody,
which must come back; it gets messages and acks or gives back one and many; it binds and unbinds. Another has
transactions: acks, and messages to two queues. All goes over one connection, in order, so what is found after a crash
is what the first N deeds leave. An ack has no answer: what is answered later says that it holds. Each message that an
ack of many names is a deed of its own; a transaction is one.
"""

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import amqp
from amqp import exceptions, spec

from tests.acceptance.wire import TIMEOUT_S
from tests.campaigns import scenario
from tests.campaigns.scenario import COME_AGAIN, DEAD, LEFT, RIGHT, TRADE, WORK, Effect, History, Place

AT_ONCE = 8  # messages that wait for their confirms
CONFIG = scenario.CONFIG.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "amqp://127.0.0.1:0"')
KEYS = ("t.a", "t.*", "#")
BOUND = (WORK, LEFT, RIGHT)
GOT_FROM = (WORK, WORK, LEFT, RIGHT, DEAD)
GONE = (OSError, exceptions.RecoverableConnectionError)


class Client:
    """Does the deeds, and keeps their history. AssertionError: the broker says what it must not; one of GONE: it is not
    there any more.

    confirms: the deed of each message that is published with a confirm, in order. answers: the deed that each ok of
    bind, unbind and commit answers, in order; 0: none. held: by place, the tag of what each channel has to ack.
    """

    def __init__(self, port: int, history: History, chance: Random) -> None:
        self.history = history
        self.chance = chance
        self.confirms: list[int] = []
        self.answers: list[int] = []
        self.confirmed = 0
        self._waiting: deque[int] = deque()
        self._lost: dict[int, bytes] = {}  # by its tag, what must come back before its confirm
        self._returned: set[bytes] = set()
        self.connection = amqp.Connection(f"127.0.0.1:{port}", heartbeat=0, connect_timeout=TIMEOUT_S)
        self.connection.connect()
        self.plain, self.trading = self.connection.channel(), self.connection.channel()
        self.held: dict[amqp.Channel, dict[Place, int]] = {self.plain: {}, self.trading: {}}

    def begin(self) -> None:
        for channel in self.held:
            channel.auto_decode = False
        self.plain.confirm_select()
        self.plain.events["basic_ack"].add(self._hear_confirm)
        self.plain.events["basic_return"].add(self._hear_return)
        self.trading.tx_select()
        self.plain.queue_declare(LEFT, durable=True, auto_delete=False)
        for queue, key in zip(BOUND, KEYS, strict=True):
            self._bind(queue, key)

    def do_all(self, count: int) -> None:
        """So many deeds, all of them answered in the end."""
        deeds: tuple[Callable[[], None], ...] = (
            self._publish, self._publish_bound, self._publish_to_nobody, self._get, self._settle, self._transact,
            self._bind_or_unbind,
        )  # fmt: skip
        for _ in range(count):
            self.chance.choices(deeds, (24, 10, 5, 25, 22, 10, 4))[0]()
            while len(self._waiting) >= AT_ONCE:
                self._read()
        self._await_confirms()

    def hear_the_last(self) -> None:
        """What was sent to us before the broker was gone counts as said."""
        with suppress(*GONE):
            while True:
                self._read()

    # ---- deeds ------------------------------------------------------------------------------------------------------

    def _body(self, part: str = "") -> bytes:
        """Contents that nothing else has; now and then they take several pages of the store."""
        size = self.chance.choice((0, 40, 300, 1000, 2500)) if self.chance.random() < 0.93 else 12_000
        return f"load.{self.history.count}{part}\n".encode() + self.chance.randbytes(size)

    def _confirmed_later(self, effects: list[Effect], exchange: str, key: str, body: bytes, mandatory: bool) -> None:
        number = self.history.add(effects)
        self.confirms.append(number)
        self._waiting.append(number)
        self.plain.basic_publish(amqp.Message(body, delivery_mode=2), exchange, key, mandatory=mandatory)

    def _publish(self) -> None:
        queue, body = self.chance.choice(BOUND), self._body()
        self._confirmed_later([scenario.put(queue, body)], "", queue, body, self.chance.random() < 0.3)

    def _publish_bound(self) -> None:
        """To all queues that are bound, each once; a message that none is bound for is confirmed all the same."""
        key, body = self.chance.choice(("t.a", "t.b", "u")), self._body()
        self._confirmed_later([scenario.put_bound(TRADE, key, body)], TRADE, key, body, False)

    def _publish_to_nobody(self) -> None:
        body = self._body()
        self._lost[len(self.confirms) + 1] = body
        self._confirmed_later([], "", "nobody", body, True)

    def _get(self) -> None:
        channel = self.chance.choice((self.plain, self.plain, self.trading))
        queue = self.chance.choice([one for one in GOT_FROM if one != DEAD or self._has_dead_letters])
        message = channel.basic_get(queue)
        if message is None:
            return
        place = queue, bytes(message.body)
        name = place[1].partition(b"\n")[0]
        if place not in self.history.births:
            self.history.mistakes.append(f"{name!r} was got from {queue}, and never put there")
        if any(place in held for held in self.held.values()):
            self.history.mistakes.append(f"{name!r} of {queue} came twice, and was not given back")
        self.history.answered = max(self.history.answered, self.history.births.get(place, 0))
        self.held[channel][place] = message.delivery_tag

    @property
    def _has_dead_letters(self) -> bool:
        """There is no such queue before the first of them is on the disk."""
        return DEAD in self.history.states[self.history.answered].queues

    def _settle(self) -> None:
        """One message, or all to one of them."""
        held = self.held[self.plain]
        if not held:
            self._get()
            return
        tag = self.chance.choice([*held.values()])
        is_multiple = self.chance.random() < 0.4
        places = [place for place, its in held.items() if its == tag or (is_multiple and its < tag)]
        are_dead = any(queue == DEAD for queue, _ in places)
        way = "ack" if are_dead else self.chance.choice(("ack", "ack", "release", "reject"))
        effect = {"ack": scenario.ack, "release": scenario.nack, "reject": scenario.reject}[way]
        for place in sorted(places, key=held.__getitem__):
            del held[place]
            self.history.add([effect(place)])
        if way == "ack":
            self.plain.basic_ack(tag, multiple=is_multiple)
        else:
            self.plain.send_method(spec.Basic.Nack, "Lbb", (tag, is_multiple, way == "release"))

    def _transact(self) -> None:
        """Messages to two queues, and acks; one in six is taken back, and what it had acked is held again."""
        self._await_confirms()  # else what one channel is told and the other says might pass each other
        held = self.held[self.trading]
        effects: list[Effect] = []
        places = self.chance.sample([*held], min(len(held), self.chance.randint(0, 3)))
        for place in places:
            way = self.chance.choice((scenario.ack, scenario.nack)) if place[0] in COME_AGAIN else scenario.ack
            effects.append(way(place))
            if way is scenario.ack:
                self.trading.basic_ack(held[place])
            else:
                self.trading.basic_reject(held[place], requeue=True)
        for number, queue in enumerate((LEFT, RIGHT, *self.chance.choices((LEFT, RIGHT), k=self.chance.randint(0, 2)))):
            body = self._body(f"-{number}")
            effects.append(scenario.put(queue, body))
            self.trading.basic_publish(amqp.Message(body, delivery_mode=2), "", queue)
        if self.chance.random() < 1 / 6:
            self.trading.tx_rollback()
            return
        for place in places:
            del held[place]
        self._asking(effects, self.trading.tx_commit)

    def _bind_or_unbind(self) -> None:
        self._bind(self.chance.choice(BOUND), self.chance.choice(KEYS), self.chance.random() < 0.6)

    def _bind(self, queue: str, key: str, is_there: bool = True) -> None:
        method = self.plain.queue_bind if is_there else self.plain.queue_unbind
        effect = scenario.standing(scenario.BINDINGS, scenario.binding(TRADE, key, queue), is_there)
        self._asking([effect], lambda: method(queue, TRADE, key))

    def _asking(self, effects: list[Effect], ask: Callable[[], Any]) -> None:
        """A deed whose answer is awaited."""
        number = self.history.add(effects)
        self.answers.append(number)
        ask()
        self._answered(number)

    # ---- what is heard ----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            self.connection.drain_events(timeout=TIMEOUT_S)
        except TimeoutError as silence:
            raise AssertionError(f"the broker owes {len(self._waiting)} confirms, and says nothing") from silence

    def _await_confirms(self) -> None:
        while self._waiting:
            self._read()

    def _answered(self, number: int) -> None:
        if self.history.changes(number):
            self.history.answered = max(self.history.answered, number)

    def _hear_confirm(self, tag: int, multiple: bool) -> None:
        if tag != self.confirmed + 1 and not multiple:
            self.history.mistakes.append(f"the confirm of {tag} came where {self.confirmed + 1} is next")
        while self.confirmed < tag and self._waiting:
            self.confirmed += 1
            self._answered(self._waiting.popleft())
            lost = self._lost.pop(self.confirmed, None)
            if lost is not None and lost not in self._returned:
                self.history.mistakes.append(f"the message {self.confirmed} was confirmed before it came back")

    def _hear_return(self, _error: object, _exchange: str, _key: str, message: amqp.Message) -> None:
        self._returned.add(bytes(message.body))
