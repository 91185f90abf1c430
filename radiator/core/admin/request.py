"""One request to /admin: what it asks, of whom, and how it is answered."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from radiator.core.answers import Answer, Making, Told
from radiator.core.connections import Connection
from radiator.core.parts import Parts
from radiator.core.queues.queue import Queue
from radiator.model.addresses import name_in
from radiator.model.errors import Refusal
from radiator.model.limits import AWAITS_MAX, LOOKED_AT_PER_COPY, SIZE_MAX
from radiator.model.patterns import name_mistake
from radiator.model.validation import mistake


def refused(refusal: Refusal) -> bytes:
    """The answer that says no."""
    return json.dumps({"ok": False, "code": refusal.code, "error": str(refusal)}).encode()


class Request:
    """`asked`: the JSON object without its `do`. What a getter refuses is a `bad-request`. queue: of its connection,
    that answers go to; None: nobody hears them. give: puts the text of one there.
    """

    __slots__ = ("asked", "connection", "do", "give", "parts", "queue")

    def __init__(
        self,
        parts: Parts,
        connection: Connection,
        do: str,
        asked: Answer,
        queue: Queue | None,
        give: Callable[[bytes], None],
    ) -> None:
        self.parts = parts
        self.connection = connection
        self.do = do
        self.asked = asked
        self.queue = queue
        self.give = give

    def answer(self, **answer: Any) -> None:
        """Granted: this is the answer, now. It must be short, whatever is there."""
        self.give(json.dumps({"ok": True, **answer}).encode())

    def answer_in_slices(self, tell: Callable[[], Told]) -> None:
        """Granted: what `tell` says, which may have Parts, as soon as others have got theirs."""
        if self.queue is not None:
            self.parts.answers.begin(Making(self.connection, self.queue, tell, self.give, self.refuse))

    def answer_synced(self, tell: Callable[[], Answer], in_slices: bool = False) -> None:
        """Granted: what `tell` says, when all that was decided up to now is on the disk."""

        def told() -> None:
            try:
                if in_slices:
                    self.answer_in_slices(tell)
                else:
                    self.answer(**tell())
            except Refusal as refusal:
                self.refuse(refusal)

        self.parts.context.open.then.append(told)

    def refuse(self, refusal: Refusal) -> None:
        """It is not granted, and its connection stays."""
        self.give(refused(refusal))

    def costs(self, looked_at: int) -> None:
        """It looks at so many things at once: the turn has room for so much less."""
        self.parts.admission.copies += looked_at // LOOKED_AT_PER_COPY

    def warnings(self, given: Answer, found: list[tuple[str, str]]) -> Answer:
        """What is answered, beside the rest, of settings that are given and do nothing. found: all that do nothing."""
        sentences = [f"`{key}` has no effect: it {wrong}." for key, wrong in found if key in given]
        return {"warnings": sentences} if sentences else {}

    # ---- what it asks -----------------------------------------------------------------------------------------------

    def has_only(self, *keys: str) -> None:
        """Refuses what has another key: a slip of the pen would silently mean something else."""
        for key in self.asked:
            if key not in keys:
                raise Refusal("bad-request", f"`{self.do}` has no {key!r:.80} here; it has {', '.join(keys)}.")

    def declaration(self, kind: str) -> tuple[str, Answer, bool]:
        """Of a `declare`: the name, the settings that are given, and whether it only asks (`passive`)."""
        given = {key: value for key, value in self.asked.items() if key not in (kind, "passive", "create")}
        return self.name(kind), given, self.flag("passive", False)

    def name(self, kind: str, key: str | None = None) -> str:
        """The NAME of a queue, exchange or fanout, also where it is given with the kind before it."""
        key = key or kind
        what = f"the name of {'an' if kind == 'exchange' else 'a'} {kind}"
        try:
            name = name_in(kind, self.text(key, what))
        except ValueError as error:
            raise mistake(key, str(error)) from error
        wrong = name_mistake(name)
        if wrong:
            raise Refusal("bad-request", f"`{key}` must be {what}; it is {name!r:.80}, which {wrong}.")
        return name

    def text(self, key: str, what: str, default: str | None = None) -> str:
        """what: that the text must be."""
        text = self.asked.get(key, default)
        if not isinstance(text, str):
            raise Refusal("bad-request", f"`{key}` must be {what}; it is {text!r:.80}.")
        return text

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        flag = self.asked.get(key, default)
        if not isinstance(flag, bool):
            raise Refusal("bad-request", f"`{key}` must be true or false; it is {flag!r:.80}.")
        return flag

    def page(self) -> tuple[str | None, int | None]:
        """Names after which one, and at most how many: None where it does not say."""
        after = self.text("after", "the last name of the page before") if "after" in self.asked else None
        return after, self.whole("limit", None, SIZE_MAX) if "limit" in self.asked else None

    def whole(self, key: str, default: int | None, most: int | None = None) -> int:
        """A whole number from 1."""
        count = self.asked.get(key, default)
        if not isinstance(count, int) or isinstance(count, bool) or count < 1 or (most is not None and count > most):
            bound = f"from 1 to {most}" if most is not None else "from 1"
            raise Refusal("bad-request", f"`{key}` must be a whole number {bound}; it is {count!r:.80}.")
        return count

    def number(self, key: str, most: int, default: int | None = None) -> int:
        """A whole number from 0 to `most`; without a default it must be there."""
        number = self.asked.get(key, default)
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
            raise Refusal("bad-request", f"`{key}` must be a whole number from 0 to {most}; it is {number!r:.80}.")
        return number

    # ---- those that wait --------------------------------------------------------------------------------------------

    def begin_waiting(self) -> Callable[[], None]:
        """One more of its connection waits, until what is returned is called. Raises Refusal."""
        connection = self.connection
        if connection.awaits >= AWAITS_MAX:
            raise Refusal(
                "bad-request", f"{AWAITS_MAX} requests of this connection wait already: that is all that may."
            )
        connection.awaits += 1

        def answered() -> None:
            connection.awaits -= 1

        return answered


Handler = Callable[[Request], None]


def by_kind(handlers: Mapping[str, Handler]) -> Handler:
    """A handler of a request that names one thing, of one of these kinds."""

    def handle(request: Request) -> None:
        kinds = [kind for kind in handlers if kind in request.asked]
        if len(kinds) != 1:
            said = ", ".join(map(repr, kinds)) or "none"
            raise Refusal("bad-request", f"`{request.do}` names one of {', '.join(handlers)}; this has {said}.")
        handlers[kinds[0]](request)

    return handle
