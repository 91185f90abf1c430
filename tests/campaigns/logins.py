"""T27: random logins at a broker's session: nobody is let in who is not who he says, and no failure is free.

Clients of several networks say right, wrong, unknown, expired and missing logins, with frames behind CONNECT, cut at
random places. Their checks are run later, in any order, while users change and time goes on. A model says who may be
let in, that nothing behind CONNECT is carried out before, that all refusals are the same, and how many hashes may be
made.

Beside that: an unknown name takes as long as a known one (a ratio, with small cost parameters), and what is kept of a
secret is compared in constant time only (read from the source). It cannot see the thread of checks
(tests/server/test_checks.py).
"""

import ast
import inspect
import time
from dataclasses import dataclass, field
from random import Random
from statistics import median
from types import ModuleType

from radiator.auth import mechanisms, scrypt, tokens
from radiator.auth.authenticator import Authenticator
from radiator.auth.scrypt import Cost, made
from radiator.auth.tokens import sha256_of, text_of
from radiator.model.commands import Open
from radiator.model.errors import Refusal
from radiator.model.limits import FAILURE_OF_NAME_S, FAILURES_OF_NAME, Limits
from radiator.model.principal import ANYONE, Check, Principal
from radiator.model.users import Token, User
from radiator.protocols.stomp.session import StompSession
from tests.campaigns.campaign import Campaign, Run

NAMES = ("ann", "bob", "eve")
PASSWORDS = ("one", "two", "three")
TOKENS = tuple(text_of(bytes([number] * 32)) for number in range(3))
CHEAP = Cost(ln=10)
HASHES = {one: str(made(one.encode(), bytes(16), CHEAP)) for one in PASSWORDS}  # each takes a few milliseconds
STEPS = 30
TIMED_COST, TIMED, RATIO_MAX = Cost(ln=12), 9, 2.5
BEHIND = b"SEND\ndestination:/queue/a\n\nx\0"


@dataclass(slots=True)
class Client:
    """One connection, and what it has said. heard: every command that its session made."""

    session: StompSession
    name: str
    secret: str
    heard: list[object] = field(default_factory=list)
    was: str = ""  # what it was sent


@dataclass(slots=True)
class World:
    """passwords and tokens: what the model has of each user; a token with its end, in milliseconds. hashes: how many
    checks were run, by name."""

    chance: Random
    passwords: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, tuple[str, int]] = field(default_factory=dict)
    now_s: float = 0.0
    hashes: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[Client, Check]] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    def users(self) -> dict[str, User]:
        """Those of the model, as a configuration has them."""
        found = {}
        for name in {*self.passwords, *self.tokens}:
            kept = self.tokens.get(name)
            found[name] = User(
                name=name,
                password=HASHES[self.passwords[name]] if name in self.passwords else None,
                tokens=() if kept is None else (Token(sha256_of(kept[0].encode()), kept[1]),),
            )
        return found

    def change(self) -> None:
        """One user's password or token becomes another one, or goes."""
        name = self.chance.choice(NAMES[:2])  # eve is never a user
        self.passwords.pop(name, None)
        self.tokens.pop(name, None)
        if self.chance.random() < 0.9:
            self.passwords[name] = self.chance.choice(PASSWORDS)
        if self.chance.random() < 0.6:
            free = [
                one for one in TOKENS if all(one != kept for kept, _ in self.tokens.values())
            ]  # no two have the same
            self.tokens[name] = self.chance.choice(free), int(self.now_s * 1000) + self.chance.randrange(20_000)

    def whose(self, client: Client) -> str:
        """The name that its login is for: a token without one is for whoever has it; "": nobody's."""
        of_tokens = (name for name, (token, _) in self.tokens.items() if token == client.secret)
        return client.name or next(of_tokens, "")

    def is_right(self, client: Client) -> bool:
        """Whether it may be let in now."""
        name = self.whose(client)
        kept = self.tokens.get(name)
        has_token = kept is not None and kept[0] == client.secret and self.now_s * 1000 < kept[1]
        return has_token or (name in self.passwords and self.passwords[name] == client.secret)


def opening(name: str, secret: str) -> bytes:
    lines = [f"login:{name}\n"] * bool(name) + [f"passcode:{secret}\n"] * bool(secret)
    return f"CONNECT\naccept-version:1.2\nhost:h\n{''.join(lines)}\n\0".encode()


def judge(run: Run, world: World, client: Client, fed: str) -> None:
    """What the session has made of what it was fed is what the model allows. fed: what that was, for the sentence."""
    outgoing = client.session.take_outgoing().decode()
    client.was += outgoing
    opened = [one for one in client.heard if isinstance(one, Open)]
    who = f"{fed} of {client.name!r} with {client.secret!r} at {world.now_s:.1f} s"
    if not opened:
        if client.heard:
            run.violation(f"{who}: {client.heard} before the login was judged.")
        if "CONNECTED" in client.was:
            run.violation(f"{who}: CONNECTED without an Open.")
        return
    if client.heard[0] is not opened[0] or opened[0].principal.name != world.whose(client):
        run.violation(f"{who}: {client.heard[0]} came first.")
    if outgoing.startswith("CONNECTED") and not world.is_right(client):
        run.violation(f"{who}: let in.")


def history(run: Run, chance: Random) -> tuple[int, int]:
    """One: how many were let in, and how many refused."""
    world = World(chance)
    for _ in range(4):
        world.change()
    authenticator = Authenticator(
        world.users(),
        chance.randbytes(32),
        4711,
        lambda: world.now_s,
        lambda: int(world.now_s * 1000),
        lambda peer, network, name: None,
    )
    let_in, refused, began_s = 0, set(), world.now_s
    for _ in range(STEPS):
        what = chance.random()
        if what < 0.1:
            world.change()
            authenticator.use(world.users())
        elif what < 0.2:
            world.now_s += chance.random() * 5
        elif what < 0.5 and world.waiting:
            client, check = world.waiting.pop(chance.randrange(len(world.waiting)))
            world.hashes[client.name] = world.hashes.get(client.name, 0) + 1
            try:
                verdict: Principal | Refusal = check()
            except Refusal as found:
                verdict = found
            client.heard += client.session.answered(verdict)
            judge(run, world, client, "the verdict")
        else:
            network = f"10.0.0.{chance.randrange(3)}"
            session = StompSession(1, "s", Limits(), ANYONE, authenticator.login(network, network))
            client = Client(session, chance.choice((*NAMES, "")), chance.choice((*PASSWORDS, *TOKENS, "")))
            world.clients.append(client)
            data = opening(client.name, client.secret) + BEHIND * chance.randrange(3)
            cut = chance.randrange(len(data))
            for piece in (data[:cut], data[cut:]):
                if piece and not session.pending:
                    client.heard += session.receive(piece)
                    judge(run, world, client, "CONNECT")
            if session.pending is not None:
                world.waiting.append((client, session.pending))
    most = FAILURES_OF_NAME + (world.now_s - began_s) / FAILURE_OF_NAME_S + 1
    for client in world.clients:
        let_in += "CONNECTED" in client.was
        if "ERROR" in client.was and "Too many" not in client.was:
            refused.add(client.was)
    if len(refused) > 1:
        run.violation(f"Refusals differ: {refused}.")
    return let_in, flooded(run, authenticator, world, most)


def flooded(run: Run, authenticator: Authenticator, world: World, most: float) -> int:
    """Somebody tries password after password for one name: how many hashes that costs. It is bounded."""
    asked = 0
    for number in range(3 * FAILURES_OF_NAME):
        try:
            found = authenticator.login("p", f"n{number}").begin(ANYONE, b"eve", f"guess{number}".encode())
            asked += not isinstance(found, Principal)
        except Refusal:
            pass
    if asked > most:
        run.violation(f"{asked} hashes at once for one name; {FAILURES_OF_NAME} at most.")
    return asked


def took_s(users: dict[str, User], name: str) -> float:
    mechanism = mechanisms.mechanisms(bytes(32))[-1]
    began_s = time.process_time()
    mechanism.proves(users, name, b"wrong", 0)
    return time.process_time() - began_s


def unknown_names_take_as_long(run: Run) -> float:
    """The ratio of an unknown name's time to a known one's."""
    users = {"ann": User(name="ann", password=str(made(b"x", bytes(16), TIMED_COST)))}
    times = {name: median(took_s(users, name) for _ in range(TIMED)) for name in ("ann", "nobody")}
    ratio = times["nobody"] / times["ann"]
    if not 1 / RATIO_MAX < ratio < RATIO_MAX:
        run.violation(f"An unknown name takes {ratio:.2f} times as long as a known one.")
    return ratio


def compared_openly(module: ModuleType) -> list[int]:
    """Lines of a module where what is kept of a secret is compared otherwise than in constant time."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Compare) and any(isinstance(one, ast.Eq | ast.NotEq | ast.In) for one in node.ops):
            words = {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}
            words |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            if words & {"digest", "_digest", "sha256", "given", "secret", "password"}:
                found.append(node.lineno)
    return found


def simulate(run: Run) -> None:
    let_in = hashes = 0
    for module in (scrypt, tokens, mechanisms):
        if lines := compared_openly(module):
            run.violation(f"{module.__name__} compares a secret openly in line {lines[0]}.")
    ratio = unknown_names_take_as_long(run)
    while not run.is_over:
        entered, asked = history(run, run.chance)
        let_in, hashes = let_in + entered, hashes + asked
        run.case()
    run.figures |= {"let in": let_in, "hashes of floods": hashes, "unknown : known": round(ratio, 2)}
    assert run.is_hunt or let_in > run.done or run.done < 20, f"too little happened: {run.figures}"


CAMPAIGNS = (
    Campaign(
        number="T27",
        name="logins",
        title="random logins, with checks answered in any order while users change",
        unit="histories",
        run=simulate,
        cases=(200, 20_000, 200_000),
        mutants=(
            "hash-compared-openly",
            "unknown-name-without-hash",
            "frame-before-the-verdict",
            "failures-uncounted",
            "expired-token-alive",
            "login-remembered-for-ever",
        ),
        mutant_cases=2000,
        quick_mutants=6,
        limit_s=(120, 2 * 3600, 8 * 3600),
    ),
)
