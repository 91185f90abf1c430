"""One exchange: what is bound to it, and where it leads on."""

from collections.abc import Iterable

from radiator.core.queues.target import Target
from radiator.core.routing.matcher import Matcher
from radiator.model.errors import Refusal
from radiator.model.header_bindings import canonical_key
from radiator.model.settings import HEADERS, TOPIC, ExchangeSettings
from radiator.model.validation import binding_key, binding_mistake, words_mistake

KIND = "exchange"


class Exchange(Matcher[Target]):
    """onward: the exchanges that it is bound to lead on into. sources: which exchanges lead to it, by which keys, and
    whether that is on the disk. is_declared: config.toml declares the exchange. is_plain: it only leads to queues, by
    keys, and clients may send to it.
    """

    __slots__ = ("accepted", "is_declared", "is_plain", "name", "onward", "settings", "sources", "unrouted")

    def __init__(self, name: str, settings: ExchangeSettings, is_declared: bool) -> None:
        super().__init__(settings.type)
        self.name = name
        self.is_declared = is_declared
        self.accepted = 0
        self.unrouted = 0
        self.onward: Matcher[Exchange] | None = None
        self.sources: dict[tuple[Exchange, str], bool] = {}
        self.settings = settings
        self.is_plain = False
        self.use(settings)

    @property
    def address(self) -> str:
        return f"/{KIND}/{self.name}"

    @property
    def durable(self) -> bool:
        return self.settings.durable

    @property
    def auto_delete(self) -> bool:
        return self.settings.auto_delete

    @property
    def is_abandoned(self) -> bool:
        """Whether it is to be deleted because its last binding is gone."""
        return self.auto_delete and not self.bindings and self.onward is None and not self.is_declared

    @property
    def bindings_count(self) -> int:
        return len(self.bindings) + (len(self.onward.bindings) if self.onward is not None else 0)

    @property
    def onward_bindings(self) -> "Iterable[tuple[str, Exchange]]":
        return self.onward.bindings if self.onward is not None else ()

    @property
    def steps(self) -> int:
        """How many steps all matches so far have taken."""
        return self.things.steps + (self.onward.things.steps if self.onward is not None else 0)

    def use(self, settings: ExchangeSettings) -> None:
        """Takes these settings from now on; its type stays."""
        self.settings = settings
        leads_on = self.onward is not None or settings.alternate is not None
        self.is_plain = not (leads_on or settings.internal or self.type == HEADERS)

    def lead_to(self, key: str, destination: "Exchange", is_declared: bool, is_stored: bool) -> None:
        """Adds a binding to another exchange."""
        if self.onward is None:
            self.onward = Matcher(self.type)
            self.is_plain = False
        self.onward.add(key, destination, is_declared)
        destination.sources[self, key] = is_stored

    def lead_no_more(self, key: str, destination: "Exchange") -> bool:
        """Removes such a binding; returns whether it is on the disk."""
        assert self.onward is not None
        self.onward.remove(key, destination)
        if not self.onward.bindings:
            self.onward = None
            self.use(self.settings)
        return destination.sources.pop((self, key))

    def leads(self, key: str, destination: "Exchange") -> bool:
        """Whether it has that binding."""
        return (self, key) in destination.sources

    def check_key(self, key: str, for_send: bool) -> None:
        """Raises Refusal for a key with which nothing can be sent to it, or bound. In a SEND `*` and `#` are words like
        any other: a SEND with a binding's own key means that binding's queue.
        """
        if self.type != TOPIC:
            return
        wrong = words_mistake(key) if for_send else binding_mistake(TOPIC, key)
        if wrong:
            raise Refusal("too-many-words", f"A key of /exchange/{self.name} {wrong}.")

    def bound_key(self, key: str) -> str:
        """Returns the key as a binding has it: for type headers its arguments, as canonical JSON. Raises Refusal."""
        try:
            if self.type == HEADERS:
                return canonical_key(key)
            binding_key(key)
        except ValueError as error:
            raise Refusal("bad-request", f"The key of a binding {error}.") from None
        self.check_key(key, for_send=False)
        return key

    def crowded_by(self, key: str) -> bool:
        """Whether one more binding with that key would make matching too costly."""
        return self.things.is_crowded(key) or (self.onward is not None and self.onward.things.is_crowded(key))


def ties_of(exchange: Exchange) -> "Iterable[Tie]":
    """Yields all its bindings: to queues, to exchanges, and of exchanges that lead to it."""
    yield from ((exchange, key, queue) for key, queue in exchange.bindings)
    yield from ((exchange, key, there) for key, there in exchange.onward_bindings)
    yield from ((source, key, exchange) for source, key in exchange.sources)


Tie = tuple[Exchange, str, "Target | Exchange"]
