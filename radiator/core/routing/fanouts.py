"""Fanouts: each is a name for several targets, its children. They are declared in config.toml or at run time."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from radiator.core.turn import WRITE_COST_BYTES, TurnContext
from radiator.core.usage import Usages, with_maker
from radiator.model.addresses import FANOUT
from radiator.model.errors import Refusal
from radiator.model.settings import Declarations
from radiator.model.writes import DropDeclared, KeepDeclared


@dataclass(slots=True)
class Fanout:
    """A fanout: a SEND to it puts a copy into each of its child queues."""

    name: str
    children: tuple[str, ...]
    accepted: int = 0


class Fanouts:
    """all: by name. shadowed: declared at run time under names that config.toml has too."""

    __slots__ = ("all", "context", "declarations", "shadowed", "usages")

    def __init__(self, declarations: Declarations, context: TurnContext, usages: Usages) -> None:
        self.usages = usages
        self.declarations = declarations
        self.context = context
        self.all = {name: Fanout(name, children) for name, children in declarations.fanouts.items()}
        self.shadowed: dict[str, tuple[str, ...]] = {}

    def recover(self, name: str, children: tuple[str, ...], made_by: str = "") -> None:
        """Restores a fanout that an earlier run declared."""
        self.usages.recover(made_by, _address(name))
        if name in self.all:
            self.shadowed[name] = children
        else:
            self.all[name] = Fanout(name, children)

    def get(self, name: str) -> Fanout:
        """Returns the fanout of that name. Raises Refusal where there is none."""
        found = self.all.get(name)
        if found is None:
            raise Refusal(
                "no-such-destination",
                f"/fanout/{name} is not declared: config.toml or a request to /admin declares it, with its children.",
            )
        return found

    def add(self, name: str, children: tuple[str, ...]) -> None:
        """Adds a fanout declared at run time, of a name that none has."""
        self.all[name] = Fanout(name, children)
        usage = self.usages.make(_address(name))
        text = json.dumps(with_maker({"children": children}, usage))
        self.context.write(KeepDeclared(FANOUT, name, text), WRITE_COST_BYTES + len(text))

    def delete(self, name: str) -> None:
        """Deletes the fanout; its children stay. Raises Refusal."""
        self.get(name)
        if name in self.declarations.fanouts:
            raise Refusal("declared", f"/fanout/{name} is declared in the configuration: remove it there.")
        del self.all[name]
        self.usages.gone(_address(name))
        self.context.write(DropDeclared(FANOUT, name))

    def use(self, old: Collection[str], declared: Mapping[str, tuple[str, ...]]) -> None:
        """Replaces the fanouts that config.toml declared (old) by those that it declares now."""
        for name in old:
            if name not in declared:
                children = self.shadowed.pop(name, None)
                if children is None:
                    del self.all[name]
                else:
                    self.all[name].children = children
        for name, children in declared.items():
            found = self.all.get(name)
            if found is None:
                self.all[name] = Fanout(name, children)
                continue
            if name not in old:
                self.shadowed[name] = found.children
            found.children = children


def _address(name: str) -> str:
    return f"/{FANOUT}/{name}"
