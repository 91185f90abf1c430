"""What STOMP's bytes mean, said a second time: a whole input at once, slow and plain, straight from the specifications.

The real parser (radiator/protocols/stomp/parser.py) is judged by it. Nothing is shared with that but the tables of
commands and the rules of our own on top: the limits, UTF-8, no NUL and no raw CR in a header, digits in a length.
"""

import re
from dataclasses import dataclass, field

from radiator.model.limits import COMMAND_MAX_BYTES, NUMBER_DIGITS_MAX, Limits
from radiator.protocols.stomp.spec import CommandSpec

# what is left behind the last whole frame: nothing, a good beginning, a beginning that can come to nothing (it may be
# refused now or when it is whole), or what must be refused now
NOTHING, WAITS, DOOMED, BROKEN = "nothing", "waits", "doomed", "broken"

ESCAPES = {1: {b"\\\\": b"\\", b"\\n": b"\n", b"\\c": b":"}}
ESCAPES[2] = ESCAPES[1] | {b"\\r": b"\r"}
NEVER_TRIMMED = (b"receipt", b"id", b"transaction")

Read = tuple[bytes, dict[bytes, bytes], bytes]  # command, headers, body


class Wrong(Exception):
    """The frame must be refused."""


@dataclass
class Plain:
    """version: 0, 1 or 2. commands: those that are known, with what each must and may have."""

    version: int
    limits: Limits
    commands: dict[bytes, CommandSpec]
    frames: list[Read] = field(default_factory=list)
    rest: str = NOTHING

    def read(self, data: bytes) -> "Plain":
        while self.rest == NOTHING:
            data = re.sub(rb"\A(\r?\n)+" if self.version == 2 else rb"\A\n+", b"", data)
            if data in (b"", b"\r" if self.version == 2 else b""):
                return self
            try:
                data = self.one(data)
            except Wrong:
                self.rest = BROKEN
        return self

    def one(self, data: bytes) -> bytes:
        """The frame in front, into `frames`; returns what follows it. Raises Wrong."""
        line_end = rb"\r?\n" if self.version == 2 else rb"\n"
        line = re.match(rb"([^\n]*?)" + line_end, data)
        command = line[1] if line else data.removesuffix(b"\r") if self.version == 2 else data
        if not line and len(command) > COMMAND_MAX_BYTES:
            raise Wrong
        head = re.match(rb"[^\n]*\n(.*?\n)??" + (rb"\r?\n" if self.version == 2 else rb"\n"), data, re.DOTALL)
        if not line or not head:
            if len(data) >= self.limits.max_header_bytes and line:
                raise Wrong
            if b"\0" in data and line:
                raise Wrong
            self.rest = DOOMED if line and command not in self.commands or len(command) > COMMAND_MAX_BYTES else WAITS
            return b""
        spec = self.commands.get(command)
        if spec is None or len(head[0]) > self.limits.max_header_bytes:
            raise Wrong
        pairs = self.pairs(head[1] or b"")
        headers = dict(reversed(pairs))
        if not headers.keys() >= set(spec.required):
            raise Wrong
        body, after = self.body(data[len(head[0]) :], len(head[0]), pairs)
        if body is None:
            self.rest = WAITS if spec.body else DOOMED
            return b""
        if body and not spec.body:
            raise Wrong
        self.frames.append((command, headers, body))
        return after

    def pairs(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """The headers, decoded, in order."""
        lines = block.split(b"\n")[:-1]
        if self.version == 2:
            lines = [line.removesuffix(b"\r") for line in lines]
        if len(lines) > self.limits.max_headers or b"\0" in block or (self.version == 2 and b"\r" in b"".join(lines)):
            raise Wrong
        found = []
        for line in lines:
            try:
                line.decode()
            except UnicodeDecodeError:
                raise Wrong from None
            name, colon, value = line.partition(b":")
            if not name or not colon:
                raise Wrong
            name, value = self.plain(name), self.plain(value)
            if self.version == 0 and name not in NEVER_TRIMMED:
                value = value.strip(b" ")
            found.append((name, value))
        return found

    def plain(self, value: bytes) -> bytes:
        if self.version == 0:
            return value
        parts = re.findall(rb"\\.?|[^\\]+", value, re.DOTALL)
        escapes = ESCAPES[self.version]
        if any(part.startswith(b"\\") and part not in escapes for part in parts):
            raise Wrong
        return b"".join(escapes.get(part, part) for part in parts)

    def body(self, data: bytes, head_bytes: int, pairs: list[tuple[bytes, bytes]]) -> tuple[bytes | None, bytes]:
        """The body and what follows it; None where it is not whole."""
        lengths = {value for name, value in pairs if name == b"content-length"}
        most = self.limits.max_frame_bytes - head_bytes - 1
        if not lengths:
            body, nul, after = data.partition(b"\0")
            if len(body) > most:
                raise Wrong
            return (body, after) if nul else (None, b"")
        if not all(re.fullmatch(rb"[0-9]{1,%d}" % NUMBER_DIGITS_MAX, value) for value in lengths):
            raise Wrong
        if len({int(value) for value in lengths}) > 1 or int(min(lengths)) > most:
            raise Wrong
        length = int(min(lengths))
        if len(data) <= length:
            return None, b""
        if data[length] != 0:
            raise Wrong
        return data[:length], data[length + 1 :]
