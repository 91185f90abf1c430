"""Bytes to frames: incremental, bounded, and the same frames however the bytes were split.

The bytes of a whole frame are examined once; of an unfinished one only the new bytes, and its header block once more
when it is complete. A limit is checked before anything that it bounds is held. Once `frames` has raised BrokenFrame,
the parser must not be used again.
"""

import re
from collections.abc import Iterator

from radiator.model.errors import shown
from radiator.model.limits import COMMAND_MAX_BYTES, CONNECT_MAX_BYTES, NUMBER_DIGITS_MAX, Limits
from radiator.protocols.stomp.frame import BrokenFrame, Frame, unescape
from radiator.protocols.stomp.spec import ECHOED_HEADERS, V1_0, V1_2, VERSION_NAMES, CommandSpec

# Bytes are searched for as numbers: for `b"x" in data` CPython first raises and drops a TypeError, 0.2 µs each.
_NUL_BYTE, _LF, _CR, _SPACE, _COLON, _BACKSLASH = b"\0\n\r :\\"
_LF_ENDS = re.compile(rb"\n*+")
_LF_AND_CRLF_ENDS = re.compile(rb"(?:\n+|\r\n)*+")
_LF_OR_CRLF_BLANK_LINE = re.compile(rb"\n\r?\n")
_NEAR_BYTES = 512  # most frames have their blank line within this: the pattern finds it farther on

_ANYTHING, _BLANK_LINE, _BODY, _NUL = range(4)  # what an unfinished frame waits for


class Parser:
    """Parses one direction of one connection. Until `speak` it reads the opening frame, whose version is not known.

    opening: the commands that the first frame may have. Owned by one session; `frames` is not re-entrant, and all
    frames of one call must be taken before the next call.
    """

    __slots__ = (
        "_commands",
        "_held",
        "_limits",
        "_mark",
        "_max_frame_bytes",
        "_max_header_bytes",
        "_reads_crlf",
        "_version",
        "_waiting",
        "held_bytes",
    )

    def __init__(self, limits: Limits, opening: dict[bytes, CommandSpec]) -> None:
        self._limits = limits
        self._commands = opening
        self._version: int | None = None
        self._reads_crlf = True
        self._max_frame_bytes = min(limits.max_frame_bytes, CONNECT_MAX_BYTES)
        self._max_header_bytes = min(limits.max_header_bytes, CONNECT_MAX_BYTES)
        self._held: bytearray | None = None  # the beginning of an unfinished frame
        self._waiting = _ANYTHING
        self._mark = 0  # _BODY: the size of the whole frame; otherwise: bytes searched so far
        self.held_bytes = 0

    def speak(self, version: int, commands: dict[bytes, CommandSpec]) -> None:
        """Applies these rules from the next frame on. May be called between two frames of one `frames` call."""
        self._version = version
        self._commands = commands
        self._reads_crlf = version == V1_2
        self._max_frame_bytes = self._limits.max_frame_bytes
        self._max_header_bytes = self._limits.max_header_bytes

    @property
    def frame_bytes(self) -> int:
        """The size of the unfinished frame if it is known, else the bytes held of it."""
        return self._mark if self._waiting == _BODY else self.held_bytes

    def frames(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that `data` completes, in order. Raises BrokenFrame after the last good one."""
        if self._held is not None:
            self._held += data
            if self._is_hopeless():
                self.held_bytes = len(self._held)
                return
            data = bytes(self._held)
            self._held, self._waiting = None, _ANYTHING
        self.held_bytes = 0
        position, size = 0, len(data)
        while position < size:
            if data[position] <= _CR:
                position = self._skip_line_ends(data, position)
                if position == size or (data[position] == _CR and position + 1 == size and self._reads_crlf):
                    break
            end, frame = self._frame(data, position)
            if frame is None:
                break
            position = end
            yield frame
        if position < size:
            self._held = bytearray(data) if position == 0 else bytearray(data[position:])
            self.held_bytes = size - position

    def first(self, data: bytes) -> tuple[Frame | None, bytes]:
        """Returns the opening frame, and the bytes after it, which are not read; None if it is not complete yet. Raises
        as `frames` does.
        """
        so_far = bytes(self._held or b"") + data
        frame = next(self.frames(data), None)
        if frame is None:
            return None, b""
        end = -1
        for _ in range(frame.body.count(_NUL_BYTE) + 1):  # a header has none
            end = so_far.index(b"\0", end + 1)
        return frame, so_far[end + 1 :]

    def _is_hopeless(self) -> bool:
        """Returns whether the held bytes cannot be a whole frame yet. Examines only new bytes."""
        held = self._held
        assert held is not None
        if self._waiting == _BODY:
            return len(held) < self._mark
        start, self._mark = self._mark, len(held)
        if self._waiting == _NUL:
            return held.find(b"\0", start) < 0 and len(held) < self._max_frame_bytes
        if self._waiting == _BLANK_LINE:
            return (
                held.find(b"\n\n", start - 1) < 0
                and (held.find(b"\n\r\n", start - 2) < 0 or not self._reads_crlf)
                and held.find(b"\0", start) < 0
                and len(held) < self._max_header_bytes
            )
        return False

    # ---- one frame ------------------------------------------------------------------------------------------------

    def _frame(self, data: bytes, position: int) -> tuple[int, Frame | None]:
        """Returns where the frame that begins at `position` ends, and the frame; None if it is not complete."""
        line_end = data.find(b"\n", position, position + COMMAND_MAX_BYTES + 2)
        if line_end < 0:
            self._check_beginning(data, position)
            return position, None
        ends_crlf = self._reads_crlf and data[line_end - 1] == _CR
        command = data[position : line_end - 1 if ends_crlf else line_end]
        if self._version is None:
            self._check_opening(command, whole=True)
        near = line_end + _NEAR_BYTES if self._reads_crlf else len(data)
        block_end = -1 if ends_crlf else data.find(b"\n\n", line_end, near)
        body_start = block_end + 2
        if self._reads_crlf and (block_end < 0 or data.find(b"\r", line_end, block_end) >= 0):
            # LF LF or LF CR LF, whichever comes first; a separate search for each would run far beyond the block
            blank = _LF_OR_CRLF_BLANK_LINE.search(data, line_end)
            block_end, body_start = blank.span() if blank is not None else (-1, -1)
        if block_end < 0:
            if len(command) > COMMAND_MAX_BYTES:
                raise self._unknown(command)
            self._wait_for_block(data, position)
            return position, None
        if body_start - position > self._max_header_bytes:
            raise self._header_too_long()
        block = data[line_end + 1 : block_end]
        lines = block.split(b"\n") if block else []
        try:
            spec = self._commands.get(command)
            if spec is None:
                raise self._unknown(command)
            headers = self._headers(block, lines)
            for name in spec.required:
                if name not in headers:
                    raise BrokenFrame(
                        f"{command.decode()} without the header {name.decode()!r}, which {self._spoken()} requires."
                    )
            if b"content-length" in headers:
                end = self._body_end_by_length(data, position, body_start, headers, lines)
            else:
                end = self._body_end_by_nul(data, position, body_start)
            if end != body_start and not spec.body and (end >= 0 or len(data) > body_start):
                raise BrokenFrame(f"A {command.decode()} frame has a body: {self._spoken()} forbids it.")
        except BrokenFrame as broken:
            broken.receipt = self._receipt_in(block)
            raise
        if end < 0:
            return position, None
        return end + 1, Frame(command, headers, lines, data[body_start:end])

    def _check_beginning(self, data: bytes, position: int) -> None:
        """Checks a frame whose command line is not complete."""
        command = data[position : position + COMMAND_MAX_BYTES + 2]
        if self._reads_crlf:
            command = command.removesuffix(b"\r")
        if self._version is None:
            self._check_opening(command, whole=False)
        if len(command) > COMMAND_MAX_BYTES:
            raise self._unknown(command)
        self._waiting = _ANYTHING

    def _wait_for_block(self, data: bytes, position: int) -> None:
        held = len(data) - position
        if held >= self._max_header_bytes:
            raise self._header_too_long()
        if data.find(b"\0", position) >= 0:
            raise BrokenFrame(
                "A frame ended before its blank line: the header block ends with an empty line, and has no NUL in it."
            )
        self._waiting, self._mark = _BLANK_LINE, held

    def _header_too_long(self) -> BrokenFrame:
        return BrokenFrame(
            f"The header block of a frame is longer than {self._max_header_bytes} bytes"
            f"{'' if self._version is not None else ' before the client is connected'}."
        )

    def _check_opening(self, command: bytes, whole: bool) -> None:
        """Checks the first command. Noise, HTTP and TLS fail by their first bytes, so no more of them is held."""
        known = self._commands
        if command in known if whole else any(name.startswith(command) for name in known):
            return
        wanted = " or ".join(name.decode() for name in known)
        raise BrokenFrame(f"The first frame must be {wanted}; these bytes are not: {shown(command)}.")

    def _unknown(self, command: bytes) -> BrokenFrame:
        known = ", ".join(name.decode() for name in self._commands)
        return BrokenFrame(f"{shown(command)} is not a command of {self._spoken()}: these are, in upper case: {known}.")

    # ---- headers --------------------------------------------------------------------------------------------------

    def _headers(self, block: bytes, lines: list[bytes]) -> dict[bytes, bytes]:
        """Returns the decoded headers, the first of each name. Rewrites `lines` in the version's canonical form."""
        if len(lines) > self._limits.max_headers:
            raise BrokenFrame(f"A frame has {len(lines)} headers: at most {self._limits.max_headers} are allowed.")
        if not block.isascii():
            try:
                block.decode()
            except UnicodeDecodeError as wrong:
                raise BrokenFrame(
                    f"The headers are not valid UTF-8: {shown(block[max(0, wrong.start - 20) : wrong.start + 8])}."
                ) from None
        if _NUL_BYTE in block:
            raise BrokenFrame("A header has a NUL in it: no version of STOMP allows that.")
        if _CR in block and self._reads_crlf:
            self._strip_line_ends(lines)
        headers: dict[bytes, bytes] = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not name:
                raise BrokenFrame(f"The header line {shown(line)} is not NAME:VALUE.")
            if name not in headers:
                headers[name] = value
        version = self._version
        if version and _BACKSLASH in block:
            headers = self._unescaped(lines, version)
        elif version == V1_0 and _SPACE in block:
            # 1.0's own examples pad values with a space; 1.1 and 1.2 forbid trimming
            headers = {name: value if name in ECHOED_HEADERS else value.strip(b" ") for name, value in headers.items()}
        if version and block.count(b":") != len(lines):
            self._escape_colons(lines)
        return headers

    def _strip_line_ends(self, lines: list[bytes]) -> None:
        """Strips CR at line ends and refuses it elsewhere, even before the version is known (1.2, "Augmented BNF")."""
        for number, line in enumerate(lines):
            if line.endswith(b"\r"):
                line = lines[number] = line[:-1]
            if _CR in line:
                raise BrokenFrame(
                    f"The header line {shown(line)} has a carriage return in it: \\r is the escape for it."
                )

    def _escape_colons(self, lines: list[bytes]) -> None:
        """Escapes colons in values: many clients send them unescaped, which is accepted, and sent on correctly."""
        for number, line in enumerate(lines):
            name, _, value = line.partition(b":")
            if _COLON in value:
                lines[number] = name + b":" + value.replace(b":", b"\\c")

    def _unescaped(self, lines: list[bytes], version: int) -> dict[bytes, bytes]:
        headers: dict[bytes, bytes] = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers.setdefault(unescape(name, version), unescape(value, version))
        return headers

    def _receipt_in(self, block: bytes) -> bytes | None:
        """Returns the receipt id of a refused frame, if it can be read and sent back."""
        for line in block.split(b"\n"):
            if line.startswith(b"receipt:") and self._version is not None:
                value = line[len(b"receipt:") :]
                if self._reads_crlf:
                    value = value.removesuffix(b"\r")
                try:
                    value.decode()
                    return unescape(value, self._version)
                except (UnicodeDecodeError, BrokenFrame):
                    return None
        return None

    # ---- body -----------------------------------------------------------------------------------------------------

    def _body_end_by_nul(self, data: bytes, position: int, body_start: int) -> int:
        """Returns where the body ends, at its NUL, or -1 if that is not there yet."""
        # the whole frame with its NUL may have max_frame_bytes
        end = data.find(b"\0", body_start, position + self._max_frame_bytes)
        if end < 0:
            if len(data) - position >= self._max_frame_bytes:
                raise self._frame_too_long("more")
            self._waiting, self._mark = _NUL, len(data) - position
        return end

    def _body_end_by_length(
        self, data: bytes, position: int, body_start: int, headers: dict[bytes, bytes], lines: list[bytes]
    ) -> int:
        """Returns where the body ends by `content-length`, or -1 if it is not all there yet."""
        head_bytes = body_start - position
        length = self._content_length(headers[b"content-length"])
        if len(headers) != len(lines):
            self._check_one_length(length, lines)
        if head_bytes + length + 1 > self._max_frame_bytes:
            raise self._frame_too_long(str(head_bytes + length + 1))
        end = body_start + length
        if end >= len(data):
            self._waiting, self._mark = _BODY, end + 1 - position
            return -1
        if data[end] != 0:
            raise BrokenFrame(f"The octet after a body of content-length {length} must be NUL; it is {data[end]}.")
        return end

    def _content_length(self, value: bytes) -> int:
        if not value.isdigit():
            raise BrokenFrame(f"content-length {shown(value)} is not a number of octets: digits only.")
        if len(value) > NUMBER_DIGITS_MAX:
            raise self._frame_too_long(shown(value))
        return int(value)

    def _check_one_length(self, length: int, lines: list[bytes]) -> None:
        """Raises BrokenFrame for two different lengths, by which two readers could see different frames."""
        for line in lines:
            name, _, value = line.partition(b":")
            value = value.strip(b" ") if self._version == V1_0 else value
            if name == b"content-length" and self._content_length(value) != length:
                raise BrokenFrame(f"A frame has two different content-lengths: {length} and {shown(value)}.")

    def _frame_too_long(self, length: str) -> BrokenFrame:
        return BrokenFrame(
            f"A frame is longer than {self._max_frame_bytes} bytes"
            f"{'' if self._version is not None else ' before the client is connected'}: it has {length}."
        )

    # ---- rules of the moment --------------------------------------------------------------------------------------

    def _skip_line_ends(self, data: bytes, position: int) -> int:
        ends = _LF_AND_CRLF_ENDS if self._reads_crlf else _LF_ENDS
        match = ends.match(data, position)
        assert match is not None  # the pattern also matches the empty string
        return match.end()

    def _spoken(self) -> str:
        return "STOMP" if self._version is None else f"STOMP {VERSION_NAMES[self._version]}"
