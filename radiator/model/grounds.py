"""On which grounds something is refused, where a protocol may have words of its own for them (protocols/amqp/).

Here each becomes the sentence that everybody else is told.
"""

from dataclasses import asdict, dataclass
from typing import ClassVar

from radiator.model.checks import shown
from radiator.model.errors import FORBIDDEN, Grounds
from radiator.model.settings import ExchangeSettings

DECLARE_FIRST = ": declare it first"
ADDRESS_MAKES_NONE = ", and this address creates none"
TAKING_MAKES_NONE = ", and receiving from it creates none"


@dataclass(frozen=True, slots=True)
class NoSuchQueue(Grounds):
    """There is no queue of that name. hint: how the sentence goes on. is_log: a log has that name."""

    code: ClassVar[str] = "no-such-destination"

    name: str
    hint: str = ""
    is_log: bool = False

    def __str__(self) -> str:
        log = f" There is a /log/{self.name}." if self.is_log else ""
        return f"There is no /queue/{self.name:.255}{self.hint}.{log}"


@dataclass(frozen=True, slots=True)
class QueueNotDeclared(Grounds):
    """There is no queue of that name, and first use makes none."""

    code: ClassVar[str] = "no-such-destination"

    name: str

    def __str__(self) -> str:
        return f"/queue/{self.name} is not declared, and [create] does not allow queues to be created by first use."


@dataclass(frozen=True, slots=True)
class NobodyAsks(Grounds):
    """Nobody gets what is sent to the reply queue of that id."""

    code: ClassVar[str] = "no-such-destination"

    reply_id: str

    def __str__(self) -> str:
        return f"/reply-queue/{self.reply_id:.255} has no receiver (any more)."


@dataclass(frozen=True, slots=True)
class NoSuchExchange(Grounds):
    """There is no exchange of that name."""

    code: ClassVar[str] = "no-such-destination"

    name: str

    def __str__(self) -> str:
        return f"/exchange/{self.name} is not declared: config.toml or a request to /admin declares an exchange."


@dataclass(frozen=True, slots=True)
class Locked(Grounds):
    """The queue is for the connection of that number, its owner, alone."""

    code: ClassVar[str] = "locked"

    name: str
    owner: int

    def __str__(self) -> str:
        return (
            f"/queue/{self.name} is owned by connection {self.owner}: others may only send to it. It is deleted with "
            "that connection."
        )


@dataclass(frozen=True, slots=True)
class OwnedOtherwise(Grounds):
    """The queue is owned by the connection that declares it again, and would not be, or the other way round."""

    code: ClassVar[str] = "locked"

    name: str
    is_owned: bool

    def __str__(self) -> str:
        here = "is owned by this connection" if self.is_owned else "is owned by no connection"
        return f"/queue/{self.name} already exists, and {here}: declare it again as it is."


@dataclass(frozen=True, slots=True)
class InExclusiveUse(Grounds):
    """The queue has a consumer, and one of the two is to be the only one."""

    code: ClassVar[str] = "exclusive"

    name: str

    def __str__(self) -> str:
        return f"/queue/{self.name} already has its one exclusive consumer."


@dataclass(frozen=True, slots=True)
class QueueOtherwise(Grounds):
    """The queue is there, with another value of the setting `key`. here, wanted: the two values; None: it has none."""

    code: ClassVar[str] = "declared-otherwise"

    name: str
    key: str
    here: object
    wanted: object

    def __str__(self) -> str:
        return f"/queue/{self.name} already exists: its {self.key} is {shown(self.here)}, not {shown(self.wanted)}."


@dataclass(frozen=True, slots=True)
class QueueGivenOtherwise(Grounds):
    """A queue exists with that setting given here only, or wanted only. here, wanted: None: not given."""

    code: ClassVar[str] = "declared-otherwise"

    name: str
    key: str
    here: object
    wanted: object

    def __str__(self) -> str:
        here, wanted = ("nothing" if one is None else shown(one) for one in (self.here, self.wanted))
        return f"/queue/{self.name} already exists: it was declared with {here} as its {self.key}, and not {wanted}."


@dataclass(frozen=True, slots=True)
class ExchangeOtherwise(Grounds):
    """The exchange is there, with other settings than wanted."""

    code: ClassVar[str] = "declared-otherwise"

    name: str
    here: ExchangeSettings
    wanted: ExchangeSettings

    @property
    def difference(self) -> tuple[str, object, object]:
        """The first setting that is not the same: its name, what it is, and what was wanted."""
        here, wanted = asdict(self.here), asdict(self.wanted)
        return next((key, here[key], wanted[key]) for key in here if here[key] != wanted[key])

    def __str__(self) -> str:
        here = self.here
        durable, auto_delete, internal = map(shown, (here.durable, here.auto_delete, here.internal))
        return (
            f'/exchange/{self.name} already exists, with type "{here.type}", durable {durable}, auto_delete '
            f"{auto_delete}, alternate {here.alternate or 'none'}, internal {internal}."
        )


@dataclass(frozen=True, slots=True)
class NoRight(Grounds):
    """The user has no rule of that right for the address. is_pattern: for all that the address, a pattern, matches."""

    code: ClassVar[str] = FORBIDDEN

    user: str
    right: str
    address: str
    is_pattern: bool = False

    @property
    def lacking(self) -> str:
        """What there is no rule for, up to the address."""
        return f"there is no rule of `{self.right}` that {'contains' if self.is_pattern else 'matches'}"

    def __str__(self) -> str:
        return f"The user {self.user} may not {self.right} {self.address:.600}: {self.lacking} it."
