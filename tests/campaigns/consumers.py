"""T33: consumers with names register, are not ready, are drained, go and come back at partitioned queues, in any order.

A few clients at a queue on the disk and one in memory, and their operator over HTTP, all in one thread: so it knows
what each consumer has when an answer comes. Now and then the broker is killed.

What must hold: who is not ready, is drained, or has lost its name gets nothing that was not on its way by then; a drain
says how many messages a consumer has; nobody gets a message of a key while somebody has one, nor out of its order; who
is listed is there; and all that was receipted comes in the end.

It cannot see that keys find their consumer again, nor leases that are over: tests/core/queues/test_registered.py and
tests/core/test_registrations.py do.
"""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.acceptance.wire import Frame, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.campaign import Campaign, Run
from tests.server.web import OPEN, WebClient, port_of

QUEUES = {"disk": "true", "memory": "false"}
CONFIG = OPEN + "".join(
    f'[queue.{name}]\npersistent = {persistent}\npartition_key = "header:key"\n' for name, persistent in QUEUES.items()
)
NAMES = ("a", "b/ä", "c.1")
KEYS = 12
CONSUMERS_MAX = 8
DRAINED_WITHIN_S = 20.0
GONE_WITHIN_S = 3.0
WEIGHTS = (20, 15, 8, 30, 16, 10, 3, 1)


class Consumer:
    """One subscription. has: the messages that it has not settled. is_held: it may get nothing more."""

    def __init__(self, broker: BrokerProcess, queue: str, name: str, prefetch: int) -> None:
        self.queue, self.name = queue, name
        self.has: list[Frame] = []
        self.is_held = False
        self.wire = Wire((broker.host, broker.port))
        self.wire.connect()
        self.wire.subscribe(f"/queue/{queue}", headers={"prefetch-count": str(prefetch), "consumer-name": name})


class Life:
    """One broker. sent: of each queue and key the bodies that were receipted, in order; done: those that were acked."""

    def __init__(self, run: Run, directory: Path) -> None:
        self.run, self.chance = run, run.chance
        self.broker = BrokerProcess(directory, CONFIG)
        self.consumers: list[Consumer] = []
        self.owners: dict[tuple[str, str], Consumer] = {}  # of each queue and name
        self.registered: dict[tuple[str, str], bool] = {}  # -> whether it is ready
        self.draining: set[tuple[str, str]] = set()
        self.sent: dict[tuple[str, str], list[str]] = {}
        self.done: dict[tuple[str, str], set[str]] = {}
        self.number = 0

    def start(self) -> None:
        self.broker.start()
        self.broker.wait_for_log("listening address=http://")
        self.web = WebClient(port_of(self.broker.log, "http"))

    def ask(self, method: str, queue: str, rest: str = "", **given: Any) -> dict[str, Any]:
        body = json.dumps(given).encode() if given else b""
        kind = {"content_type": "application/json"} if given else {}
        answer = self.web.ask(method, f"/v1/queues/{queue}/consumers{rest}", body, **kind)
        found: dict[str, Any] = json.loads(answer.body)
        assert found.get("ok"), (method, queue, rest, given, answer)
        return found

    def hold(self, one: Consumer | None) -> None:
        """It gets nothing more, but for what was on its way, and has come by now."""
        if one is not None:
            self.read(one)
            one.is_held = True

    def read(self, one: Consumer) -> None:
        one.wire.fence()
        came, one.wire.early = one.wire.early, []
        for message in came:
            key, body = (one.queue, message["key"]), message.body.decode()
            what = f"{one.name} of {one.queue} gets {body} of the key {key[1]}"
            if one.is_held:
                self.run.violation(f"{what}, and may get nothing")
            holders = [other.name for other in self.consumers for has in other.has if (other.queue, has["key"]) == key]
            if holders:
                self.run.violation(f"{what}, and {holders} have one of it")
            due = [other for other in self.sent.get(key, []) if other not in self.done.get(key, ())]
            if body in due[1:]:  # others were acked shortly before a kill
                self.run.violation(f"{what} before {due[0]}")
            one.has.append(message)

    def settle(self, one: Consumer, share: float = 0.5, given_back: float = 0.2) -> None:
        """Acks some of what it has, or gives it back."""
        self.read(one)
        for message in [has for has in one.has if self.chance.random() < share]:
            one.has.remove(message)
            if self.chance.random() < given_back:
                one.wire.send_frame("NACK", {"id": message["ack"], "delay": str(self.chance.choice((0, 50, 400)))})
            else:
                self.done.setdefault((one.queue, message["key"]), set()).add(message.body.decode())
                one.wire.send_frame("ACK", {"id": message["ack"]})
            one.wire.fence()

    def send(self) -> None:
        with Wire((self.broker.host, self.broker.port)) as wire:
            wire.connect()
            for _ in range(self.chance.randint(1, 20)):
                queue, key = self.chance.choice([*QUEUES]), f"k{self.chance.randrange(KEYS)}"
                self.number += 1
                wire.send(f"/queue/{queue}", str(self.number), {"key": key})
                self.sent.setdefault((queue, key), []).append(str(self.number))

    def come(self, queue: str, name: str) -> None:
        if len(self.consumers) == CONSUMERS_MAX:
            self.go(self.consumers[0])
        one = Consumer(self.broker, queue, name, self.chance.choice((1, 3, 20)))
        self.hold(self.owners.get((queue, name)))
        if (queue, name) in self.draining:  # what is drained is the older one
            self.draining.remove((queue, name))
            del self.registered[queue, name]
        one.is_held = not self.registered.get((queue, name), True)
        self.owners[queue, name] = one
        self.consumers.append(one)

    def go(self, one: Consumer) -> None:
        """What it has comes back."""
        one.wire.close()
        self.consumers.remove(one)
        name = one.queue, one.name
        if self.owners.get(name) is one:
            del self.owners[name]
            if name in self.draining:
                self.draining.remove(name)
                del self.registered[name]
        self.look(one.queue)

    def register(self, queue: str, name: str) -> None:
        is_ready, owner = self.chance.random() < 0.6, self.owners.get((queue, name))
        answer = self.ask("POST", queue, name=name, ready=is_ready, lease_ms=3_600_000)
        self.registered[queue, name] = is_ready
        is_draining = (queue, name) in self.draining
        if (answer["ready"], answer["draining"]) != (is_ready, is_draining):
            self.run.violation(f"{name} of {queue} is {is_ready} and {is_draining}, and was told {answer}")
        if owner is not None and is_ready and not is_draining:
            owner.is_held = False
        elif not is_ready:
            self.hold(owner)

    def drain(self, queue: str, name: str) -> None:
        owner = self.owners.get((queue, name))
        answer = self.ask("DELETE", queue, f"/{quote(name, safe='')}?wait_ms={self.chance.choice((0, 300))}")
        self.hold(owner)
        has = 0 if owner is None else len(owner.has)
        if (answer["unacked"], answer["drained"]) != (has, not has):
            self.run.violation(f"{name} of {queue} has {has} messages, and its drain was told {answer}")
        if owner is None:
            self.registered.pop((queue, name), None)
        else:
            self.registered.setdefault((queue, name), True)
            self.draining.add((queue, name))

    def look(self, queue: str) -> None:
        """Who has gone is not there a moment later."""
        names = {name for of, name in (*self.owners, *self.registered) if of == queue}
        end_s = time.monotonic() + GONE_WITHIN_S
        while (listed := {row["name"] for row in self.ask("GET", queue)["consumers"]}) != names:
            if time.monotonic() > end_s:
                self.run.violation(f"consumers of {queue}: listed are {listed}, and there are {names}")
                return

    def kill(self) -> None:
        """Registrations are forgotten, and so is what was in memory."""
        self.broker.kill()
        for one in self.consumers:
            one.wire.close()
        for place in (self.consumers, self.owners, self.registered, self.draining):
            place.clear()
        self.sent = {key: bodies for key, bodies in self.sent.items() if key[0] != "memory"}
        self.start()

    def deed(self) -> None:
        queue, name = self.chance.choice([*QUEUES]), self.chance.choice(NAMES)
        kind = self.chance.choices(("send", "come", "go", "settle", "register", "drain", "look", "kill"), WEIGHTS)[0]
        if kind == "send":
            self.send()
        elif kind in ("go", "settle"):
            if self.consumers:
                getattr(self, kind)(self.chance.choice(self.consumers))
        elif kind == "kill":
            self.kill()
        elif kind == "look":
            self.look(queue)
        else:
            getattr(self, kind)(queue, name)
        for one in self.consumers:
            self.read(one)

    def end(self) -> None:
        """All that was receipted comes to one that comes now."""
        for one in [*self.consumers]:
            self.go(one)
        for queue in QUEUES:
            one = Consumer(self.broker, queue, "last", 20)
            self.consumers.append(one)
            end_s = time.monotonic() + DRAINED_WITHIN_S
            while left := [(key, body) for key in self.sent if key[0] == queue for body in self.left(key)]:
                if time.monotonic() > end_s:
                    self.run.violation(f"{len(left)} messages of {queue} do not come: {left[:3]}")
                    return
                self.settle(one, share=1.0, given_back=0.0)

    def left(self, key: tuple[str, str]) -> list[str]:
        done = self.done.get(key, ())
        return [body for body in self.sent[key] if body not in done]


def live(run: Run) -> None:
    lives = messages = 0
    while not run.is_over:
        directory = run.directory / str(lives)
        directory.mkdir()
        life = Life(run, directory)
        deeds = min(run.cases - run.done, 300)
        try:
            life.start()
            for _ in range(deeds):
                life.deed()
            life.end()
            if "Traceback" in life.broker.log or not life.broker.is_running:
                run.violation(f"the broker has ended, or told of a mistake: {life.broker.log[-500:]}")
        finally:
            life.broker.kill()
        lives, messages = lives + 1, messages + life.number
        run.case(deeds)
    run.figures |= {"messages": messages}


CAMPAIGNS = (
    Campaign(
        number="T33",
        name="consumers",
        title="consumers with names register, are drained, go and come back",
        unit="deeds",
        run=live,
        cases=(600, 20_000, 100_000),
        mutants=("drain-ended-by-a-heart-beat", "older-consumer-goes-on"),
        mutant_cases=3000,
        needs=("linux",),
        limit_s=(240, 2 * 3600, 6 * 3600),
    ),
)
