"""T31: bodies by chance for queues with an Avro schema, right and wrong, by every way that leads into one.

A case is one body: a value of a random schema that fastavro has written, as it is or mutated, random bytes, or a bomb
(counts and lengths that no byte stands for, values very deep within each other). It is sent to a queue, a log, an
exchange, a fanout, or in a transaction, and what the broker has accepted is read by fastavro, where that can be done
safely: each must be one whole value; and what fastavro reads and finds right must have been accepted. A body may cost
so much CPU at most. It cannot see whether a sentence names the right field: tests/model/test_avro_values.py does.
"""

import gc
import io
import json
import time
from random import Random
from typing import Any

from radiator.model.avro import BINARY, body_schema, schema_text
from radiator.model.commands import Read
from radiator.model.limits import BODY_VALUES_MAX
from radiator.model.settings import Binding, Declarations, ExchangeSettings, LogSettings, QueueSettings
from tests.avro_bodies import BINARY as AS_BINARY
from tests.avro_bodies import binary, long
from tests.campaigns.campaign import Campaign, Run
from tests.core.node import Node
from tests.core.words import begin, commit, send

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NEST: dict[str, Any] = {"type": "record", "name": "nest", "fields": [{"name": "n", "type": ["null", "nest"]}]}
WAYS = ("/queue/q", "/log/l", "/exchange/x/k", "/fanout/f", "transaction")
BODIES_A_NODE = 200
BODY_CPU_MAX_MS = 40  # measured at some 5; one is judged again by whoever shares this core
NOT_COMPARED = (  # what fastavro takes all the same, and reads on behind it, whatever stands there
    "0 or 1", "more than 64 bits", "has a block of", "has a length of -", "the most that a body may have", ", from -",
    "has the branch -", "is the symbol number -", "it must be an array", "it must be a map",
)  # fmt: skip


def random_schema(chance: Random, depth: int = 3, names: list[int] | None = None) -> Any:
    """Some type, with others in it."""
    names = [0] if names is None else names
    names[0] += 1
    name, kind = f"n{names[0]}", chance.randrange(14 if depth else 10)
    if kind < 8:
        return PRIMITIVES[kind]
    if kind == 8:
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"][: chance.randrange(1, 4)]}
    if kind == 9:
        return {"type": "fixed", "name": name, "size": chance.randrange(4)}
    if kind == 10:
        return {"type": "array", "items": random_schema(chance, depth - 1, names)}
    if kind == 11:
        return {"type": "map", "values": random_schema(chance, depth - 1, names)}
    if kind == 12:
        return ["null", chance.choice(PRIMITIVES[1:]), {"type": "array", "items": random_schema(chance, 0, names)}]
    count = chance.randrange(4)
    fields = [{"name": f"f{number}", "type": random_schema(chance, depth - 1, names)} for number in range(count)]
    return {"type": "record", "name": name, "fields": fields}


def schema_by_chance(chance: Random) -> Any:
    """One that the broker takes: not an array of what takes no bytes."""
    while True:
        schema = random_schema(chance)
        try:
            schema_text(json.dumps(schema))
        except ValueError:
            continue
        return schema


def random_value(chance: Random, schema: Any) -> Any:
    if isinstance(schema, list):
        return random_value(chance, chance.choice(schema))
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in ("int", "long"):
        return chance.choice((0, 1, -1, 63, 64, chance.getrandbits(31), -chance.getrandbits(31)))
    if kind in ("float", "double"):
        return chance.choice((0.0, -1.5, 1e30))
    if kind == "array":
        return [random_value(chance, schema["items"]) for _ in range(chance.randrange(4))]
    if kind == "map":
        return {f"k{number}": random_value(chance, schema["values"]) for number in range(chance.randrange(3))}
    if kind == "record":
        return {field["name"]: random_value(chance, field["type"]) for field in schema["fields"]}
    if kind == "enum":
        return chance.choice(schema["symbols"])
    if kind == "fixed":
        return chance.randbytes(schema["size"])
    return {"null": None, "boolean": chance.random() < 0.5, "bytes": chance.randbytes(3), "string": "aé"}[kind]


def random_body(chance: Random, schema: Any) -> bytes:
    """Of the schema, or nearly, or nothing of the kind."""
    how = chance.random()
    if how < 0.1:
        return chance.randbytes(chance.randrange(40))
    body = bytearray(binary(schema, random_value(chance, schema)))
    if how < 0.5:
        return bytes(body)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(body) + 1)
        what = chance.randrange(5)
        if what == 0:
            body[at:at] = chance.randbytes(chance.randrange(1, 4))
        elif what == 1:
            del body[at : at + chance.randrange(1, 4)]
        elif what == 2 and at < len(body):
            body[at] ^= 1 << chance.randrange(8)
        elif what == 3:
            body[at:at] = long(chance.choice((2**20, 2**31, 2**62, -1, -(2**31), -(2**62))))
        else:
            body.append(chance.randrange(256))
    return bytes(body)


def disagreement(schema: Any, body: bytes) -> str:
    """Where the broker and fastavro disagree about a body in binary encoding; "": they do not. The broker judges first:
    what it refuses for its size, or its numbers, is not given to fastavro, which would not end.
    """
    try:
        body_schema(schema_text(json.dumps(schema))).check(body, BINARY)
        why = ""
    except ValueError as wrong:
        why = str(wrong)
    if any(one in why for one in NOT_COMPARED):
        return ""
    is_right = reads(schema, body)
    if is_right is not (why == ""):
        return f"{body.hex()} of {json.dumps(schema)}: fastavro says {is_right}, the broker {why or 'nothing'!r}"
    return ""


def reads(schema: Any, body: bytes) -> bool:
    """Whether fastavro reads it to its end, and finds right what it has read."""
    import fastavro

    parsed, stream = fastavro.parse_schema(schema), io.BytesIO(body)
    try:
        value = fastavro.schemaless_reader(stream, parsed)
    except (EOFError, IndexError, ValueError, OverflowError, MemoryError):
        return False
    return stream.read() == b"" and bool(fastavro.validate(value, parsed, raise_errors=False))


def node_of(schema: Any) -> Node:
    text = schema_text(json.dumps(schema))
    queues = {"q": QueueSettings(schema=text), "bound": QueueSettings(schema=text), "child": QueueSettings(schema=text)}
    node = Node(
        Declarations(
            queues=queues,
            logs={"l": LogSettings(schema=text)},
            exchanges={"x": ExchangeSettings(type="topic")},
            bindings=[Binding("x", "#", "bound")],
            fanouts={"f": ("child",)},
        )
    )
    node.stored("q")
    return node


def is_accepted(node: Node, connection: int, way: str, body: bytes) -> tuple[bool, float]:
    """Whether the broker took it, and the CPU of its turns, in ms."""
    node.open(connection)
    if way == "transaction":
        words = [
            begin(connection),
            send(connection, "q", body, headers=AS_BINARY, transaction=b"t"),
            commit(connection),
        ]
    else:
        words = [send(connection, way, body, headers=AS_BINARY)]
    gc.disable()  # the nodes of other cases are not what this one costs
    try:
        began_s = time.thread_time()
        node.turn([Read(connection, words)])
        took_ms = (time.thread_time() - began_s) * 1000
    finally:
        gc.enable()
    return not node.is_refused(connection), took_ms


def bombs(chance: Random) -> list[tuple[Any, bytes]]:
    """Bodies that would take a reader's time, its memory or its stack."""
    most = BODY_VALUES_MAX
    return [
        (NEST, b"\x02" * chance.randrange(1000, 500_000)),
        (NEST, b"\x02" * 49 + b"\0"),
        ({"type": "array", "items": "int"}, long(chance.choice((2**62, -(2**62), 10_000_000))) + b"\0\0"),
        ({"type": "array", "items": "int"}, long(1_000_000) + bytes(1_000_001)),
        ({"type": "array", "items": "long"}, long(most) + (b"\xff" * 9 + b"\x01") * most + b"\0"),
        ({"type": "array", "items": {"type": "map", "values": "null"}}, long(most // 2) + b"\0" * (most // 2 + 1)),
        ({"type": "map", "values": "null"}, long(most) + b"\0" * (most + 1)),
        ("string", long(2**62)),
        ("string", binary("string", "é" * 500_000)),
    ]


def try_bodies(run: Run) -> None:
    accepted = refused = 0
    worst_ms = 0.0
    connection = 1
    while not run.is_over:
        of_bombs = run.chance.random() < 0.1
        cases = bombs(run.chance) if of_bombs else []
        schema = schema_by_chance(run.chance)
        node = node_of(schema)
        for number in range(len(cases) or BODIES_A_NODE):
            if cases:
                schema, body = cases[number]
                node = node_of(schema)
            else:
                body = random_body(run.chance, schema)
            connection += 1
            way = run.chance.choice(WAYS)
            try:
                took, took_ms = is_accepted(node, connection, way, body)
            except RecursionError:
                took, took_ms = False, 0.0
                run.violation(f"seed {run.seed}: {body[:40].hex()}... to {way} ended the broker: it was too deep")
            worst_ms = max(worst_ms, took_ms)
            accepted, refused = accepted + took, refused + (not took)
            judge(run, schema, body, way, took, took_ms)
            run.case()
            if run.is_over:
                break
    run.figures |= {"accepted": accepted, "refused": refused, "worst ms": round(worst_ms, 1)}


def judge(run: Run, schema: Any, body: bytes, way: str, took: bool, took_ms: float) -> None:
    what = f"seed {run.seed}: {body[:200].hex()} of {json.dumps(schema)} to {way}"
    if took_ms > BODY_CPU_MAX_MS:
        run.violation(f"{what} took {took_ms:.0f} ms of CPU")
    is_nest = schema == NEST
    try:
        body_schema(schema_text(json.dumps(schema))).check(body, BINARY)
        is_right = True
    except (ValueError, RecursionError):
        is_right = False
    if took is not is_right:
        run.violation(f"{what} was {'accepted' if took else 'refused'}, and by itself it is {is_right}")
    if is_nest:
        if took and (len(body) > 100 or body.strip(b"\x02") != b"\0"):
            run.violation(f"{what} was accepted")
    elif wrong := disagreement(schema, body):
        run.violation(f"{what}: {wrong}")


CAMPAIGNS = (
    Campaign(
        number="T31",
        name="bodies",
        title="bodies for Avro schemas by chance, by every way into a queue",
        unit="bodies",
        run=try_bodies,
        cases=(6000, 300_000, 1_000_000),
        mutants=(
            "body-not-judged-behind-an-exchange",
            "body-goes-on-behind-its-end",
            "body-without-a-bound-of-depth",
            "body-without-a-bound-of-values",
        ),
        mutant_cases=6000,
        quick_mutants=2,
    ),
)
