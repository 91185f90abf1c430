"""All that the console can show, found from its table of pages, so that a new page cannot be forgotten."""

import re
from pathlib import Path

import radiator

WEB = Path(radiator.__file__).parent / "web"
ROW = re.compile(r'^  (?:""|(\w+)): \{ title: "([^"]+)", (.*) \},$', re.M)

DETAILS = {
    "queues": ["orders"],
    "logs": ["clicks"],
    "exchanges": ["exchange/shop", "fanout/announcements"],
    "connections": ["NUMBER"],
}
"""Of each page that has a page for one thing: what that thing may be, behind the name of the page."""


def table() -> dict[str, str]:
    """The pages of app.js, by the first part of their path: what loads them."""
    (text,) = re.findall(r"^const PAGES = \{\n(.*?)^\};", (WEB / "app.js").read_text(), re.S | re.M)
    found = {name: rest for name, _, rest in ROW.findall(text)}
    assert len(found) == len(text.splitlines()), f"a row of PAGES is written in another way:\n{text}"
    return found


def places(connection: int = 1) -> list[str]:
    """Of all pages, those of one thing included; tabs are not. connection: the number of one that is there."""
    found = []
    for name, rest in table().items():
        found.append(f"#/{name}")
        if "path.length ?" in rest:
            things = [str(connection)] if name == "connections" else DETAILS[name]
            found += [f"#/{name}/{one}" for one in things]
    return found
