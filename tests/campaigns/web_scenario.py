"""The deeds of one client of HTTP, with the history and the judgement of scenario.py.

It publishes one message or a batch, to queues, to a fanout and under keys that may be known; it receives under leases
and settles them: acked, released (with delays), rejected, extended, many at once. All requests go over one connection,
several at once, and are carried out in their order: so what is found after a crash is what the first N deeds leave. A
batch is one deed. Each settlement is one of its own: a `settle` may be carried out in part, but only in its order.
"""

import json
import time
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any

from tests.campaigns import scenario
from tests.campaigns.scenario import DEAD, DELAYS_MS, ONCE, WORK, Effect, History, Place
from tests.protocols.http.asking import Answer, request
from tests.server.web import WebClient

REQUESTS_AT_ONCE = 8
SETTLED_AT_ONCE = 8
LEASE_MS = 600_000  # longer than any scenario
CONFIG = scenario.CONFIG.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "http://127.0.0.1:0"')
JSON = {"Content_Type": "application/json"}
RAW = {"Content_Type": "application/octet-stream"}
EVENTS = "/v1/fanouts/events/messages"
EFFECTS: dict[str, Callable[[Place], Effect]] = {
    "ack": scenario.ack,
    "release": scenario.nack,
    "reject": scenario.reject,
}
RECEIVED_FROM = (WORK, WORK, ONCE, DEAD, *scenario.CHILDREN)

Hear = Callable[[Answer], None]


class Client:
    """Does the deeds, and keeps their history. leases: of all messages that it has, by place.

    requests: of each request that was made, the last deed of it; 0: it has none. tokens: all that it was given. keys:
    those that were answered as stored. AssertionError: the broker says what it must not. ConnectionError: it is not
    there any more.
    """

    def __init__(self, web: WebClient, history: History, chance: Random) -> None:
        self.web = web
        self.history = history
        self.chance = chance
        self.requests: list[int] = []
        self.leases: dict[Place, str] = {}
        self.tokens: list[str] = []
        self.keys: set[str] = set()
        self._waiting: deque[tuple[int, Hear]] = deque()

    def do_all(self, count: int) -> None:
        """So many requests, some one by one and some several at once, all of them answered in the end."""
        while count > 0:
            at_once = min(self.chance.choice((1, 1, 2, 5, REQUESTS_AT_ONCE)), count)
            for _ in range(at_once):
                self._do_one()
            count -= at_once
            self._hear_all()

    def end(self, with_settle: bool) -> None:
        """One more publish, or one more settlement of something."""
        self._post()
        self._hear_all()
        if with_settle:
            self._receive(WORK)
            self._hear_all()
            self._settle()
            self._hear_all()

    def hear_the_last(self) -> None:
        """What was sent to us before the broker was gone counts as said."""
        with suppress(ConnectionError):
            self._hear_all()

    def judge_a_new_life(self) -> str:
        """What is wrong with what a broker that was started anew says of the tokens and keys of before; "": nothing."""
        settlements = [{"lease": token, "action": "ack"} for token in self.tokens[-1000:]]
        if settlements:
            answer = self.web.ask("POST", "/v1/settle", json.dumps({"settlements": settlements}).encode(), **JSON)
            alive = [one for one in json.loads(answer.body)["verdicts"] if one.get("code") != "lease-over"]
            if alive:
                return f"a lease of another life is answered {alive[0]}"
        for key in sorted(self.keys):
            answer = self.web.ask("POST", _path(ONCE), b"again", Idempotency_Key=key, **RAW)
            if answer.status != 200 or json.loads(answer.body)["duplicates"] != 1:
                return f"the key {key!r} was answered as stored, and is not known: {answer}"
        return ""

    # ---- deeds

    def _do_one(self) -> None:
        deeds = (self._post, self._post_once, self._fan_out, self._post_batch, self._receive, self._settle)
        self.chance.choices(deeds, (16, 10, 8, 12, 24, 30))[0]()

    def _request(self, number: int, hear: Hear, data: bytes) -> None:
        """number: of its last deed, or 0."""
        self.requests.append(number)
        self._waiting.append((number, hear))
        self.web.send(data)

    def _body(self, part: str = "") -> bytes:
        """Contents that nothing else has; now and then they take several pages of the store."""
        size = self.chance.choice((0, 40, 300, 1000, 2500)) if self.chance.random() < 0.93 else 12_000
        return f"load.{self.history.count}{part}\n".encode() + self.chance.randbytes(size)

    def _delay(self, places: Iterable[Place]) -> dict[str, str]:
        """Now and then: headers by which these are kept back."""
        if self.chance.random() > 0.25:
            return {}
        delay_ms = self.chance.choice(DELAYS_MS)
        due_ms = int(time.time() * 1000) + delay_ms
        self.history.due_ms |= dict.fromkeys(places, due_ms)
        return {"delay": str(delay_ms)} if self.chance.random() < 0.7 else {"deliver-at": str(due_ms)}

    def _post(self) -> None:
        body = self._body()
        headers = self._delay([(WORK, body)])
        number = self.history.add([scenario.put(WORK, body)])
        self._request(number, _expecting(201), request("POST", _path(WORK), body, **headers, **RAW))

    def _post_once(self) -> None:
        body, before = self._body(), self.history.states[-1].dedup_ids
        known = sorted(before)
        key = self.chance.choice(known) if known and self.chance.random() < 0.4 else f"key-{self.history.count}"
        number = self.history.add([scenario.put_once(body, key)])

        def hear(answer: Answer) -> None:
            duplicates = int(key in before)
            assert answer.status == (200 if duplicates else 201), f"the key {key!r} is answered {answer}"
            assert json.loads(answer.body)["duplicates"] == duplicates, f"the key {key!r} is answered {answer}"
            self.keys.add(key)

        self._request(number, hear, request("POST", _path(ONCE), body, Idempotency_Key=key, **RAW))

    def _fan_out(self) -> None:
        body = self._body()
        headers = self._delay([(child, body) for child in scenario.CHILDREN])
        number = self.history.add(_fanned_out(body))
        self._request(number, _expecting(201), request("POST", EVENTS, body, **headers, **RAW))

    def _post_batch(self) -> None:
        """One deed, whatever is in it."""
        bodies = [self._body(f"-{number}") for number in range(self.chance.choice((1, 2, 8, 40)))]
        is_fanned_out = len(bodies) < 8 and self.chance.random() < 0.5
        effects: list[Effect] = []
        messages = []
        for body in bodies:
            effects += _fanned_out(body) if is_fanned_out else [scenario.put(WORK, body)]
            places = [(queue, body) for queue in (scenario.CHILDREN if is_fanned_out else (WORK,))]
            messages.append({"body_base64": b64encode(body).decode(), "headers": self._delay(places)})
        data = json.dumps({"messages": messages}).encode()
        number = self.history.add(effects)
        self._request(number, _expecting(201), request("POST", EVENTS if is_fanned_out else _path(WORK), data, **JSON))

    def _receive(self, queue: str = "") -> None:
        queue = queue or self.chance.choice(RECEIVED_FROM)
        asked = {"max": self.chance.choice((1, 4, 20)), "wait_ms": 0, "lease_ms": LEASE_MS}

        def hear(answer: Answer) -> None:
            assert answer.status in (200, 204), f"a receive is answered {answer}"
            for one in json.loads(answer.body)["messages"] if answer.status == 200 else ():
                self._note(queue, one)

        data = json.dumps(asked).encode()
        self._request(0, hear, request("POST", _path(queue, "receive"), data, **JSON))

    def _note(self, queue: str, message: dict[str, Any]) -> None:
        body = b64decode(message["body_base64"]) if "body_base64" in message else message["body"].encode()
        place = queue, body
        name = body.partition(b"\n")[0]
        if place not in self.history.births:
            self.history.mistakes.append(f"{name!r} was received from {queue}, and never put there")
        if place in self.leases:
            self.history.mistakes.append(f"{name!r} of {queue} came twice, and was not given back")
        if self.history.ids.setdefault(message["id"], place) != place:
            self.history.mistakes.append(f"message-id {message['id']} is of two messages, in {queue} of {name!r}")
        if time.time() * 1000 < self.history.due_ms.pop(place, 0):
            self.history.mistakes.append(f"{name!r} of {queue} came before its time")
        self.leases[place] = message["lease"]
        self.tokens.append(message["lease"])

    def _settle(self) -> None:
        places = self.chance.sample([*self.leases], min(len(self.leases), self.chance.randint(1, SETTLED_AT_ONCE)))
        if not places:
            self._receive()
            return
        settlements, number = [], 0
        for place in places:
            ways = ("ack", "extend") if place[0] == DEAD else ("ack", "ack", "ack", "release", "reject", "extend")
            action = self.chance.choice(ways)
            settlement: dict[str, Any] = {"lease": self.leases[place], "action": action}
            if action != "extend":
                del self.leases[place]
                number = self.history.add([EFFECTS[action](place)])
            if action == "release" and self.chance.random() < 0.3:
                settlement["delay_ms"] = self.chance.choice(DELAYS_MS)
            settlements.append(settlement)

        def hear(answer: Answer) -> None:
            verdicts = json.loads(answer.body)["verdicts"] if answer.status == 200 else []
            is_settled = len(verdicts) == len(settlements) and all(verdict["ok"] for verdict in verdicts)
            assert is_settled, f"a settle of {settlements} is answered {answer}"

        data = json.dumps({"settlements": settlements}).encode()
        self._request(number, hear, request("POST", "/v1/settle", data, **JSON))

    # ---- what is heard

    def _hear_all(self) -> None:
        while self._waiting:
            self._hear()

    def _hear(self) -> None:
        """The answer to the first request that has none."""
        try:
            answer = self.web.answer()
        except TimeoutError as silence:
            raise AssertionError(f"the broker owes {len(self._waiting)} answers, and says nothing") from silence
        number, hear = self._waiting.popleft()
        hear(answer)
        if number and self.history.changes(number):
            self.history.answered = max(self.history.answered, number)


def _path(queue: str, what: str = "messages") -> str:
    return f"/v1/queues/{queue}/{what}"


def _fanned_out(body: bytes) -> list[Effect]:
    return [*(scenario.put(queue, body) for queue in scenario.CHILDREN), scenario.append(body)]


def port_of(line: str) -> int:
    """Of the line about the listener of HTTP."""
    return int(line.partition("http://127.0.0.1:")[2].split()[0].strip('"'))


def _expecting(status: int) -> Hear:
    def hear(answer: Answer) -> None:
        assert answer.status == status, f"{answer}, and {status} was expected"

    return hear
