"""S61: whom the web is not open to gets nothing done there, by whatever he says of himself.

A real broker with users, over HTTP. By chance, one after the other: names that are not the broker's (Host), pages of
other sites (Origin, Sec-Fetch-Site, preflights, WebSockets), GET and HEAD wherever something could be changed, leases
that are forged or another user's, another user's session of STOMP over HTTP, another user's request on the same
connection, readiness and numbers, and markup in all that is repeated in an answer. Each answer must be the refusal that
docs/HTTP.md says, and no page for a browser; what must not happen would leave a trace (the queue NEVER, or other
numbers of KEPT), which is looked for behind each. Browsers log in, with a cookie that somebody else has chosen for them
before; their cookies are tried from other pages, by forms, behind a logout and on the connection of the login. What is
right is asked between, and must be done. Meanwhile SLOW clients send heads and bodies byte by byte, and must be closed
in time.

It does not see what a browser makes of the answers, nor guessed passwords (T27).
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from radiator.auth.scrypt import Cost, made
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import in_pieces, upright
from tests.campaigns.campaign import Campaign, Run
from tests.protocols.http.asking import Answer, answers, request
from tests.server.web import OPEN, SECRET, WebClient, basic, port_of

NEVER = "never"  # the queue that what is refused would make
KEPT = "kept"
KEPT_MESSAGES = 3
SLOW = 12
SLOW_MAX_S = 8.0
HASH = made(SECRET.encode(), bytes(16), Cost(ln=10))
CONFIG = f"""{OPEN}
[limits]
connect_timeout_s = 2
frame_timeout_s = 2
[node]
name = "a"
secret_file = "secret"
[peer.b]
address = "peer://127.0.0.1:1"
[http]
hosts = ["broker.example"]
origins = ["https://shop.example"]
[user.ann]
password = "{HASH}"
role = "operator"
[user.bob]
password = "{HASH}"
read = ["/queue/{KEPT}", "/queue/leased"]
write = ["/queue/leased"]
"""
ANN, BOB = {"Authorization": basic("ann")}, {"Authorization": basic("bob")}
TEXT = {"Content_Type": "text/plain"}
AS_JSON = {"Content_Type": "application/json"}
UPGRADE = {
    "Upgrade": "websocket",
    "Connection": "close, Upgrade",
    "Sec_WebSocket_Version": "13",
    "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==",
}
ASKED: tuple[tuple[str, str, bytes, dict[str, str]], ...] = (
    ("POST", f"/v1/queues/{NEVER}/messages", b"x", TEXT),
    ("PUT", f"/v1/queues/{NEVER}", b"{}", AS_JSON),
    ("POST", f"/v1/queues/{KEPT}/purge", b"", {}),
    ("POST", f"/v1/queues/{KEPT}/receive", b"", {}),
    ("POST", "/v1/admin", b'{"do":"purge","queue":"%b"}' % KEPT.encode(), AS_JSON),
    ("DELETE", f"/v1/queues/{KEPT}", b"", {}),
)
"""Each would leave a trace."""
LOOKS: tuple[tuple[str, str, bytes, dict[str, str]], ...] = (
    ("GET", "/v1/queues", b"", {}),
    ("GET", "/healthz", b"", {}),
    ("GET", "/nothing", b"", {}),
    ("GET", "/ws", b"", UPGRADE),
    ("OPTIONS", "/v1/queues", b"", {"Access_Control_Request_Method": "POST"}),
)

HOSTS = (
    "localhost",
    "127.0.0.1",
    "127.0.0.1:61680",
    "[::1]",
    "[::1]:8",
    "10.1.2.3",
    "broker.example",
    "Broker.Example:80",
)
NO_HOSTS = (
    "evil.example", "evil.example:61680", "localhost.evil.example", "127.0.0.1.evil.example", "broker.example.evil",
    "xbroker.example", "xlocalhost", "broker.example@evil.example", "evil.example@localhost", "localhost@evil.example",
    "localhost.", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "localhost,evil.example", "localhost/evil",
    "localhost:80:80", "localhost:x", "[::1", "::1", "evil.example#localhost", "evil.example?localhost", "*", "null",
    "localhost;evil", "%6cocalhost", "local\thost", "l\u00f6calhost", "",
)  # fmt: skip
NO_ORIGINS = (
    "null", "http://evil.example", "https://shop.example.evil", "https://shop.example:444", "http://shop.example",
    "https://xshop.example", "https://shop.example/", "https://shop.example@evil.example", "file://", "*", "",
    "http://localhost.evil.example", "http://localhost:1", "https://evil.example#https://shop.example",
    "https://shop.example, http://evil.example", "shop.example", "//shop.example", "http://127.0.0.1",
)  # fmt: skip
MARKUP = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title><svg/onload=x>",
    "javascript:x",
    "{{7*7}}",
)
HEADERS = {
    "content-type", "content-length", "connection", "date", "location", "cache-control", "content-security-policy",
    "x-content-type-options", "allow", "retry-after", "www-authenticate", "vary", "upgrade", "sec-websocket-version",
    "sec-websocket-accept",
    "access-control-allow-origin", "access-control-expose-headers", "access-control-allow-methods",
    "access-control-max-age", "access-control-allow-headers", "set-cookie",
}  # fmt: skip
NO_PAGES = ("application/json", "application/problem+json", "text/plain; charset=utf-8", "application/octet-stream")


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


class Web:
    """The broker, and who looks for traces."""

    def __init__(self, run: Run, broker: BrokerProcess) -> None:
        self.chance = run.chance
        self.run = run
        self.port = port_of(broker.log, "http")
        self._watcher = WebClient(self.port)

    def client(self) -> WebClient:
        return WebClient(self.port)

    def ask(self, data: bytes) -> list[Answer]:
        """On a connection of its own, cut by chance, to its end: the last of them must ask for it, or be refused."""
        found = b""
        with self.client() as client:
            try:
                for piece in in_pieces(data, self.chance):
                    client.send(piece)
                found = client.rest()
            except ConnectionError:
                pass
        return [self.judged(one, data) for one in answers(found, heads(data))]

    def one(self, method: str, path: str, body: bytes = b"", **headers: str | None) -> Answer:
        """The only answer to that request, which is the last of its connection."""
        data = request(method, path, body, **{"Connection": "close", **headers})
        found = self.ask(data)
        if len(found) != 1:
            self.run.violation(f"{data!r} was answered by {found}.")
        return found[0]

    def document(self) -> Answer:
        """The only answer that may be kept."""
        with self.client() as client:
            return client.ask("GET", "/v1/openapi.json")

    def judged(self, answer: Answer, data: bytes) -> Answer:
        """No answer is a page, none is kept, and none has a header that this broker does not have."""
        headers = {name.lower(): value for name, value in answer.headers.items()}
        wrong = headers.keys() - HEADERS
        if answer.status not in (100, 101):
            is_plain = headers.get("content-type", NO_PAGES[0]) in NO_PAGES
            is_guarded = (
                headers.get("x-content-type-options") == "nosniff"
                and headers.get("cache-control") == "no-store"
                and headers.get("content-security-policy") == "default-src 'none'; frame-ancestors 'none'"
            )
            if not is_plain or not is_guarded or wrong:
                self.run.violation(f"A browser may take the answer to {data!r} for a page, or keep it: {answer}.")
        return answer

    def look(self, what: str) -> None:
        """Nothing has happened that must not."""
        answer = self._watcher.ask("GET", "/v1/queues", **ANN)
        queues = {one["name"]: one for one in json.loads(answer.body)["queues"]}
        if NEVER in queues or KEPT not in queues:
            self.run.violation(f"{what} has made or deleted a queue: there are {sorted(queues)}.")
        kept = queues[KEPT]
        if (kept["ready"], kept["unacked"]) != (KEPT_MESSAGES, 0):
            self.run.violation(f"{what} has taken messages of the queue {KEPT}: {kept}.")


def heads(data: bytes) -> list[int]:
    """Which answers have no body. Only single requests are HEAD here."""
    return [0] if data.startswith(b"HEAD ") else []


def expect(web: Web, what: str, found: Answer, *statuses: int) -> Answer:
    if found.status not in statuses:
        web.run.violation(f"{what} was answered {found}, and not by {statuses}.")
    if found.status in (400, 403, 404, 405, 421) and "Access-Control-Allow-Origin" in found.headers:
        web.run.violation(f"{what}: the page of another site may read {found}.")
    web.look(what)
    return found


def foreign_host(web: Web) -> None:
    method, path, body, headers = web.chance.choice((*ASKED, *ASKED, *LOOKS))
    host = web.chance.choice(NO_HOSTS)
    what = f"{method} {path} of the Host {host!r}"
    expect(web, what, web.one(method, path, body, **{**headers, **ANN, "Host": host}), 400, 421)


def own_host(web: Web) -> None:
    host = web.chance.choice(HOSTS)
    expect(web, f"Health of the Host {host!r}", web.one("GET", "/healthz", Host=host), 200)


def foreign_page(web: Web) -> None:
    method, path, body, headers = web.chance.choice((*ASKED, *ASKED, *LOOKS))
    origin = web.chance.choice(NO_ORIGINS)
    more = (
        {"Sec_Fetch_Site": web.chance.choice(("same-origin", "none", "cross-site"))}
        if web.chance.random() < 0.5
        else {}
    )
    what = f"{method} {path} of a page of {origin!r}"
    found = expect(web, what, web.one(method, path, body, **{**headers, **ANN, **more, "Origin": origin}), 403)
    if any(name.lower().startswith("access-control") for name in found.headers):
        web.run.violation(f"{what} was told what pages may do: {found}.")


def page_without_origin(web: Web) -> None:
    method, path, body, headers = web.chance.choice(ASKED)
    site = web.chance.choice(("cross-site", "same-site", "Cross-Site", "x", ""))
    what = f"{method} {path} with Sec-Fetch-Site {site!r}"
    expect(web, what, web.one(method, path, body, **{**headers, **ANN, "Sec_Fetch_Site": site}), 403)


def own_page(web: Web) -> None:
    origin = web.chance.choice(("https://shop.example", "http://localhost", "https://localhost"))
    found = expect(web, f"Health for a page of {origin!r}", web.one("GET", "/healthz", Origin=origin), 200)
    allowed = found.headers.get("Access-Control-Allow-Origin")
    if allowed != ("https://shop.example" if "shop" in origin else None):
        web.run.violation(f"{allowed!r} is allowed where {origin!r} asks.")


CHANGING = (
    f"/v1/queues/{KEPT}/messages", f"/v1/queues/{NEVER}/messages", f"/v1/queues/{KEPT}/receive",
    f"/v1/queues/{KEPT}/purge", f"/v1/queues/{KEPT}/move", "/v1/settle", "/v1/admin", "/v1/prepared/commit",
    "/v1/prepared/abort", "/v1/exchanges/x/bindings",
)  # fmt: skip


def get_for_a_change(web: Web) -> None:
    """GET is harmless everywhere, whatever a proxy or a framework of pages would make of it."""
    path = web.chance.choice(CHANGING)
    method = web.chance.choice(("GET", "GET", "HEAD"))
    more = web.chance.choice(({}, {}, {"X_HTTP_Method_Override": "POST"}, {"X_Method_Override": "DELETE"}))
    body = web.chance.choice((b"", b"", b'{"do":"purge","queue":"kept"}'))
    path += web.chance.choice(("", "", "?_method=POST"))
    what = f"{method} {path}"
    expect(web, what, web.one(method, path, body, **{**more, **ANN, **AS_JSON}), 405)
    look = web.chance.choice((f"/v1/queues/{KEPT}", f"/v1/queues/{KEPT}/peek", f"/v1/queues/{KEPT}/why", "/v1/stats"))
    expect(web, f"{method} {look}", web.one(method, look, **{**more, **ANN}), 200)


def verdicts(web: Web, user: dict[str, str], settlements: list[dict[str, Any]]) -> list[bool]:
    body = json.dumps({"settlements": settlements}).encode()
    answer = web.one("POST", "/v1/settle", body, **user, **AS_JSON)
    if answer.status != 200:
        web.run.violation(f"A settle was answered {answer}.")
    return [bool(one["ok"]) for one in json.loads(answer.body)["verdicts"]]


def forged(chance: Random, lease: str) -> str:
    number, _, proof = lease.partition(".")
    how = chance.randrange(8)
    if how == 0:
        return f"{int(number, 16) + chance.choice((-1, 1)):x}.{proof}"
    if how == 1:
        return number + "."
    if how == 2:
        return number
    if how == 3:
        at = chance.randrange(len(proof))
        return f"{number}.{proof[:at]}{'A' if proof[at] != 'A' else 'B'}{proof[at + 1 :]}"
    if how == 4:
        return f"0{lease}"
    if how == 5:
        return lease[: -chance.randrange(1, 20)]
    if how == 6:
        return lease + chance.choice(("=", "A", " ", "\n", "\0"))
    return f"{number}.{chance.randbytes(32).hex()}"


def leases(web: Web) -> None:
    """Two users have a lease each; neither settles the other's, nor anything by a token that is nearly right."""
    chance = web.chance
    own: list[str] = []
    users = [ANN, BOB]
    chance.shuffle(users)
    for user in users:
        expect(web, "A publish", web.one("POST", "/v1/queues/leased/messages", b"x", **user, **TEXT), 201)
        answer = expect(web, "A receive", web.one("POST", "/v1/queues/leased/receive", **user), 200)
        own.append(json.loads(answer.body)["messages"][0]["lease"])
    for user, mine, other in zip(users, own, reversed(own), strict=True):
        wrong = [chance.choice((other, other, forged(chance, mine), forged(chance, other))) for _ in range(4)]
        wrong = [one for one in wrong if one != mine]
        actions = [{"lease": one, "action": chance.choice(("ack", "release", "reject", "extend"))} for one in wrong]
        found = verdicts(web, user, actions)
        if any(found):
            web.run.violation(f"Leases {own}: {user} has settled {actions}, which are not his: {found}.")
    for user, mine in zip(users, own, strict=True):
        if verdicts(web, user, [{"lease": mine, "action": "ack"}]) != [True]:
            web.run.violation(f"The lease {mine} was ended by who does not have it.")


def sessions(web: Web) -> None:
    """Two users have a session of STOMP over HTTP each; neither reads, writes or ends the other's."""
    chance = web.chance
    users = [ANN, BOB]
    chance.shuffle(users)
    connect = b"CONNECT\naccept-version:1.2\nhost:/\n\n\0"
    names = []
    for user in users:
        answer = expect(web, "A session", web.one("POST", "/v1/stomp", **user), 201)
        names.append(json.loads(answer.body)["session"])
        expect(web, "A CONNECT", web.one("POST", f"/v1/stomp/{names[-1]}/send?at=0", connect, **user), 200)
    purge = b'SEND\ndestination:/admin\nreceipt:1\n\n{"do":"purge","queue":"%b"}\0' % KEPT.encode()
    for user, mine, other in zip(users, names, reversed(names), strict=True):
        name = chance.choice((other, other, mine[:-1], mine + "A", mine.swapcase()))
        what = chance.choice((f"/send?at={len(connect)}", "/send?at=0", "/poll?from=0", ""))
        method, body = ("POST" if what else "DELETE"), purge if what.startswith("/send") else b""
        expect(
            web, f"The session {name!r} of somebody else", web.one(method, f"/v1/stomp/{name}{what}", body, **user), 410
        )
    for user, mine in zip(users, names, strict=True):
        answer = expect(web, "A poll", web.one("POST", f"/v1/stomp/{mine}/poll?from=0&wait_ms=5000", **user), 200)
        if not answer.body.startswith(b"CONNECTED\n"):
            web.run.violation(f"The session {mine!r} has sent {answer.body!r}.")
        expect(web, "A DELETE", web.one("DELETE", f"/v1/stomp/{mine}", **user), 204)
    web.look("A session of somebody else")


def several_users(web: Web) -> None:
    """On one connection, in any order: each request is of its own login, and nothing is done behind a wrong one."""
    chance = web.chance
    data, wanted = b"", []
    for _ in range(chance.randrange(2, 7)):
        who = chance.choice(("ann", "bob", "bob", "wrong", "nobody"))
        headers = {"ann": ANN, "bob": BOB, "wrong": {"Authorization": basic("ann", "wrong")}, "nobody": {}}[who]
        if who == "ann":
            data += request("GET", f"/v1/queues/{KEPT}", **headers)
            wanted.append(200)
        else:
            method, path, body, more = chance.choice(ASKED[:3])
            data += request(method, path, body, **headers, **more)
            wanted.append(403 if who == "bob" else 401)
        if wanted[-1] == 401:
            break
    data += request("GET", "/healthz", Connection="close")
    wanted += [200] if wanted[-1] != 401 else []
    found = [one.status for one in web.ask(data)]
    # who fails too often is refused for a while by a sentence of its own, with the same status
    if found != wanted:
        web.run.violation(f"{data!r} was answered {found}, and not {wanted}.")
    web.look("Several users on one connection")


FIXED = {"Cookie": "radiator=" + "x" * 43}  # chosen by somebody else
OTHER_PAGES = (
    {"Origin": "https://shop.example"},
    {"Origin": "https://shop.example", "Sec_Fetch_Site": "same-site"},
    {"Origin": "https://shop.example", "Sec_Fetch_Site": "cross-site"},
)
FORMS = (
    "text/plain",
    "text/plain;charset=UTF-8",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
)


def browsers(web: Web) -> None:
    """One logs in, and what may be done by its cookie is tried where it must not be."""
    chance = web.chance
    given = json.dumps({"user": "ann", "password": SECRET}).encode()
    log_in = request("POST", "/v1/session", given, **{**AS_JSON, **chance.choice((FIXED, {}))})
    logged_in, behind = web.ask(log_in + request("POST", f"/v1/queues/{KEPT}/purge", **AS_JSON))
    expect(web, "A login", logged_in, 200)
    expect(web, "A request on the connection of a login", behind, 401)
    mine = {"Cookie": logged_in.headers["Set-Cookie"].partition(";")[0]}
    if mine == FIXED:
        web.run.violation("The broker has taken a cookie from its client.")
    expect(web, "A cookie", web.one("GET", f"/v1/queues/{KEPT}", **mine), 200)
    method, path, body, headers = chance.choice([one for one in ASKED if one[3] != TEXT])
    as_json = {**AS_JSON, **headers}
    what = f"{method} {path} by a cookie"
    page = {**as_json, **mine, **chance.choice(OTHER_PAGES)}
    expect(web, f"{what} of another page", web.one(method, path, body, **page), 401)
    expect(web, f"{what} chosen by somebody else", web.one(method, path, body, **{**as_json, **FIXED}), 401)
    form = {"Content_Type": chance.choice(FORMS)}
    path = chance.choice((f"/v1/queues/{KEPT}/purge", f"/v1/queues/{KEPT}/receive", "/v1/admin", "/v1/stomp"))
    expect(web, f"A form to {path} by a cookie", web.one("POST", path, **{**form, **mine}), 415)
    out = request("DELETE", "/v1/session", **mine)
    ended, behind = web.ask(out + request("POST", f"/v1/queues/{KEPT}/purge", **AS_JSON, **mine))
    expect(web, "A logout", ended, 204)
    expect(web, "What comes behind a logout", behind, 401)
    expect(web, "A cookie behind its logout", web.one("GET", "/v1/queues", **mine), 401)


def markup(web: Web) -> None:
    """Whatever is repeated to who asked, no browser takes it for a page."""
    chance = web.chance
    text = chance.choice(MARKUP)
    more = text + chance.choice(("", "\r\nX-Evil: 1", "\r\n\r\n<html>"))
    last = {"Connection": "close", **ANN}
    data = chance.choice(
        (
            request("GET", "/" + percent(more), **last),
            request("GET", f"/v1/queues/{percent(more)}", **last),
            request("GET", f"/v1/queues?{percent(more)}=1", **last),
            request("GET", f"/v1/queues?limit={percent(more)}", **last),
            request("POST", "/v1/admin", json.dumps({"do": more}).encode(), **last, **AS_JSON),
            request("POST", "/v1/settle", json.dumps({more: 1}).encode(), **last, **AS_JSON),
            request("PUT", "/v1/queues/x", json.dumps({more: more}).encode(), **last, **AS_JSON),
            request("POST", "/v1/queues/x/messages", b"x", Content_Type=text, Delay=text, **last),
            request("GET", "/v1/queues", Connection="close", Authorization=text),
            request("GET", "/healthz", Connection="close", Host=text),
            request("GET", "/healthz", Connection="close", Origin=text),
            request("GET", "/healthz", Connection="close", Expect=text),
            request("GET", "/ws", Sec_WebSocket_Protocol=text, **UPGRADE),
            request("OPTIONS", "/", Access_Control_Request_Method="GET", Access_Control_Request_Headers=text,
                    Origin="https://shop.example"),
            f"{text.replace(' ', '')} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
        )
    )  # fmt: skip
    for answer in web.ask(data):
        if "<" in str(answer.headers) or "Evil" in str(answer.headers):
            web.run.violation(f"{data!r} gets headers of its own into {answer}.")
        if answer.status < 400 and answer.status not in (200, 204):
            web.run.violation(f"{data!r} was answered {answer}.")
    web.look(f"{data!r}")


def probes(web: Web) -> None:
    """Whoever asks is told that the broker is not ready, since the node b is away, and that node's name only where
    he may see everything; numbers are for nobody else either, and the document says of each of these that it is there.
    """
    exclude = web.chance.choice(("", "?exclude=disk", "?exclude=disk&exclude=store"))
    for user, may_see in (({}, False), (BOB, False), (ANN, True)):
        found = expect(web, f"Readiness for {user}", web.one("GET", f"/readyz{exclude}", **user), 503)
        if (b"node b " in found.body) is not may_see:
            web.run.violation(f"The node that is away stands in what {user} is told, or does not: {found}.")
        expect(web, f"Readiness without links for {user}", web.one("GET", "/readyz?exclude=links", **user), 200)
    for path in ("/metrics", "/v1/stats/events"):
        expect(web, f"{path} for a stranger", web.one("GET", path), 401)
        expect(web, f"{path} for bob", web.one("GET", path, **BOB), 403)
    found = expect(web, "The document", web.document(), 200)
    paths = json.loads(found.body)["paths"]
    missing = {"/metrics", "/readyz", "/healthz", "/v1/stats/events", "/v1/queues/{queue}/messages"} - paths.keys()
    if missing:
        web.run.violation(f"The document does not have {sorted(missing)}.")


CASES: tuple[tuple[int, Callable[[Web], None]], ...] = (
    (4, foreign_host),
    (1, own_host),
    (4, foreign_page),
    (2, page_without_origin),
    (1, own_page),
    (3, get_for_a_change),
    (2, leases),
    (2, sessions),
    (3, several_users),
    (2, browsers),
    (3, markup),
    (1, probes),
)


class Slow(threading.Thread):
    """Clients that send a head, a body or chunks byte by byte, or stop. took_s: until each was closed."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.took_s: dict[str, float] = {}
        self._port = port

    def run(self) -> None:
        began_s = time.monotonic()
        open_ones: dict[str, tuple[socket.socket, bytes]] = {}
        for number in range(SLOW):
            kind = ("head", "body", "chunks", "stops")[number % 4]
            one = socket.create_connection(("127.0.0.1", self._port), 10)
            framing = {"Transfer_Encoding": "chunked"} if kind == "chunks" else {"Content_Length": "100000"}
            head = request("POST", f"/v1/queues/{NEVER}/messages", **ANN, **TEXT, **framing)
            one.sendall(head[:20] if kind == "head" else head)
            one.setblocking(False)
            open_ones[f"{kind} {number}"] = (one, {"chunks": b"1\r\nx\r\n", "stops": b""}.get(kind, b"x"))
        while open_ones and time.monotonic() < began_s + 2 * SLOW_MAX_S:
            time.sleep(0.2)
            for name, (one, piece) in [*open_ones.items()]:
                if self._is_closed(one, piece):
                    self.took_s[name] = time.monotonic() - began_s
                    one.close()
                    del open_ones[name]
        for name in open_ones:
            self.took_s[name] = time.monotonic() - began_s

    def _is_closed(self, one: socket.socket, piece: bytes) -> bool:
        try:
            if not one.recv(65_536):
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        try:
            one.send(piece)
        except OSError:
            return True
        return False


def strangers(run: Run) -> None:
    secret = run.directory / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    with BrokerProcess(run.directory, CONFIG) as broker, upright(run, broker):
        broker.wait_for_log("listening address=http://")
        web = Web(run, broker)
        for _ in range(KEPT_MESSAGES):
            web.one("POST", f"/v1/queues/{KEPT}/messages", b"x", **ANN, **TEXT)
        web.look("A publish")
        slow = Slow(web.port)
        slow.start()
        cases = [case for count, case in CASES for _ in range(count)]
        tried: dict[str, int] = {}
        while not run.is_over:
            case = run.chance.choice(cases)
            case(web)
            tried[case.__name__] = tried.get(case.__name__, 0) + 1
            run.case()
        slow.join()
        for name, took_s in slow.took_s.items():
            if took_s > SLOW_MAX_S:
                run.violation(f"A client that sends slowly ({name}) was still there after {took_s:.1f} s.")
        web.look("A client that sends slowly")
        run.figures |= {"s until the last slow client is closed": round(max(slow.took_s.values()), 1)}


CAMPAIGNS = (
    Campaign(
        number="S61",
        name="web-strangers",
        title="names, pages, logins, leases and markup by chance over HTTP",
        unit="requests",
        run=strangers,
        cases=(1_000, 20_000, 500_000),
        mutants=(
            "host-not-checked",
            "origin-not-checked",
            "http-get-changes",
            "http-origin-reflected",
            "http-answer-as-page",
            "http-first-login-for-all",
            "lease-forged",
            "lease-of-another-user",
            "session-of-another-user",
            "cookie-behind-its-logout",
            "cookie-by-a-form",
            "cookie-of-any-page",
            "login-for-the-connection",
            "http-slow-body-without-clock",
            "metrics-for-everybody",
            "openapi-without-a-route",
            "readiness-behind-a-login",
            "readiness-told-to-all",
            "readiness-without-links",
        ),
        mutant_cases=600,
        quick_mutants=13,
        needs=("linux",),
        is_timed=True,
    ),
)
