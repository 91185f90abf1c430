"""Every way in which Radiator refuses or fails.

    RadiatorError
    ├── Violation        a client broke the protocol: it gets an ERROR and is closed
    ├── Refusal          refused though legal: an ERROR with a stable code, then closed (STOMP closes after any ERROR)
    ├── LinkError        a linked node broke the rules of the link: it is sent the reason, and the link closed
    ├── ConfigError      the configuration is wrong: every mistake at once; exit status 2
    ├── StoreError       the data directory cannot be used as it is: one sentence that says what to do; exit status 1
    │                    at the start, 74 where damage is met while serving
    │   └── DamagedRecord    a stored record that is not what was written
    └── DiskFailed       a commit failed: the broker halts; exit status 74

Any other exception is a bug (AssertionError, IllegalMove in core/states.py) and stops the program.
"""

from typing import ClassVar

from radiator.model.limits import SHOWN_BYTES

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_BUG = 70
EXIT_DISK_FAILED = 74


class RadiatorError(Exception):
    """An error whose text is a whole sentence, made for the person who reads it."""


class Violation(RadiatorError):
    """A rule of the protocol or a limit was broken; the sentence names the rule and the value."""


FORBIDDEN = "forbidden"
"""The code of a refusal for lack of a right."""


class Grounds:
    """On which grounds something is refused, as data (grounds.py); its text is the sentence. A protocol that has words
    of its own for some finds them by the type.
    """

    __slots__ = ()

    code: ClassVar[str]


class Refusal(RadiatorError):
    """A legal request that is not granted.

    `code` is stable and listed in docs/PROTOCOL.md.
    """

    def __init__(self, code: str, sentence: str, grounds: Grounds | None = None) -> None:
        """grounds: None where the sentence alone says them."""
        super().__init__(sentence)
        self.code = code
        self.grounds = grounds

    @classmethod
    def on(cls, grounds: Grounds) -> "Refusal":
        """The refusal on these grounds."""
        return cls(grounds.code, str(grounds), grounds)


class LinkError(RadiatorError):
    """A linked node broke a rule, or knows what it cannot know: its word has no effect, and the link is closed.

    advice: what an operator should do about it.
    """

    def __init__(self, sentence: str, advice: str = "") -> None:
        super().__init__(sentence)
        self.advice = advice or (
            "Nothing was lost, and the nodes link again. If it happens again, run the same version of Radiator on both "
            "nodes, and report it."
        )


class ConfigError(RadiatorError):
    """`mistakes`: one sentence each, with file, key, what is wrong and what would be right."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class StoreError(RadiatorError):
    """The data directory is damaged, foreign, newer, or in use."""


class DamagedRecord(StoreError):
    """A record whose version, length or checksum is not what was written."""


class Contradiction(StoreError, AssertionError):
    """Stored rows, or a write to them, contradict each other: damage, or a bug. Nothing of the batch is kept."""


class DiskFailed(RadiatorError):
    """A write or sync failed. What reached the disk is unknown; nothing that waited for it may be answered."""


def shown(value: bytes) -> str:
    """A peer's bytes as a sentence may show them: quoted, printable, cut."""
    cut = value[:SHOWN_BYTES]
    try:
        text = repr(cut.decode())
    except UnicodeDecodeError:
        text = repr(cut)[1:]
    return text + ("..." if len(value) > SHOWN_BYTES else "")


def count_text(count: int, one: str, many: str | None = None) -> str:
    """`1 message`, `2 messages`; many: where that is not `one` with an s."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"
