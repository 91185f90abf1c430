"""docs/CLIENT-REFERENCE.md, made of the docstrings: `python -m tests.documents.reference` writes it anew."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import radiator.client
from radiator.client.aio import AsyncClient
from tests.broker_process import CHECKOUT
from tests.documents.wrap import wrapped

PAGE = CHECKOUT / "docs/CLIENT-REFERENCE.md"
HEAD = """\
# Reference of radiator.client

What each class and method promises, as its docstring says it. How they belong together, and what becomes of what when a
connection is lost: [CLIENT.md](CLIENT.md). This page is made by `python -m tests.documents.reference`; a test fails
where it is not in step with the code.

"""
FIRST = ("Client", "Reconnect", "Message", "Address")


def page() -> str:
    names = [*FIRST, *sorted(set(radiator.client.__all__) - set(FIRST))]
    classes = [getattr(radiator.client, name) for name in names]
    found = [("radiator.client", one) for one in classes if inspect.isclass(one)]
    found.insert(1, ("radiator.client.aio", AsyncClient))
    contents = " · ".join(f"[{one.__name__}](#{one.__name__.lower()})" for _, one in found)
    return wrapped(HEAD + contents + "\n" + "".join(section(module, one) for module, one in found))


def section(module: str, one: type) -> str:
    text = f"\n## {one.__name__}\n\n`from {module} import {one.__name__}`\n\n"
    if issubclass(one, Exception):
        base = one.__mro__[1].__name__
        return text + f"{described(one)} {'An' if base[0] in 'AEIOU' else 'A'} {base}.\n"
    initial = one.__init__.__doc__ if inspect.isfunction(one.__init__) else None
    text += f"`{signature(one.__name__, one)}`\n\n{described(one)}\n"
    if initial and "__init__" in vars(one) and not hasattr(one, "__dataclass_fields__"):
        text += f"\n{inspect.cleandoc(initial)}\n"
    for name, what in members(one):
        text += f"\n### {one.__name__}.{name}\n\n"
        if isinstance(what, property):
            text += f"A property. {described(what)}\n"
        else:
            text += f"`{signature(name, what)}`\n\n{described(what)}\n"
    return text


def members(one: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, in the order of the source."""
    for name, what in vars(one).items():
        what = what.__func__ if isinstance(what, classmethod) else what
        if not name.startswith("_") and (inspect.isfunction(what) or isinstance(what, property)):
            yield name, what


def described(what: Any) -> str:
    text = inspect.getdoc(what)
    assert text, f"{what} has no docstring"
    return text


def signature(name: str, what: Any) -> str:
    shown = str(inspect.signature(what)).replace("(self, ", "(").replace("(self)", "()").replace("(cls, ", "(")
    shown = re.sub(r"\b[a-z_]+\.(?:[a-z_]+\.)*(?=[A-Z])", "", shown)
    asynchronous = inspect.iscoroutinefunction(what) or inspect.isasyncgenfunction(what)
    return f"{'async ' if asynchronous else ''}{name}{shown}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
