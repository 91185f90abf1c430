"""Pages: text is set as text, nothing comes from elsewhere, and what others have written is as they published it."""

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from radiator.model.settings import LogSettings, QueueSettings

PACKAGE = Path(__file__).resolve().parent.parent.parent / "radiator"
WEB = PACKAGE / "web"
OURS = sorted([*WEB.glob("*.js"), *WEB.glob("pages/*.js"), *(PACKAGE / "protocols/http/pages").glob("*.js")])

# each would make markup or code out of text, or leave the policy of the page behind
FORBIDDEN = (
    r"[iI]nnerHTML", r"outerHTML", r"insertAdjacentHTML", r"document\.write", r"\beval\b", r"new Function\b", r"srcdoc",
    r"javascript:", r"createContextualFragment", r"DOMParser", r"setAttribute\(\s*[\"']on", r"\bimportScripts\b",
    r"setTimeout\(\s*[\"'`]", r"setInterval\(\s*[\"'`]", r"\.html\s*=", r"createPolicy",
)  # fmt: skip
ELSEWHERE = re.compile(r"[\"'`]((?:https?:)?//[a-zA-Z0-9][^\"'`]*)")

VENDORED = {
    "htm-preact.js": "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of each file as its authors have published it: htm 3.1.1 with preact, uPlot 1.6.32."""


def mistakes(text: str) -> list[str]:
    return [one for one in FORBIDDEN if re.search(one, text)] + ELSEWHERE.findall(text)


@pytest.mark.parametrize("file", OURS, ids=lambda file: file.name)
def test_a_page_sets_text_as_text_and_uses_nothing_from_elsewhere(file: Path) -> None:
    assert mistakes(file.read_text()) == []


@pytest.mark.parametrize("text", [
    "box.innerHTML = name", "html`<div dangerouslySetInnerHTML=${x}>`", "box.insertAdjacentHTML('beforeend', x)",
    "document.write(x)", "eval(x)", "new Function(x)", "a.href = 'javascript:' + x", "b.setAttribute('onclick', x)",
    "setTimeout('go()', 1)", "fetch('https://example.org/x')", 'import x from "//cdn.example.org/x.js"',
])  # fmt: skip
def test_what_a_page_must_not_do_is_found(text: str) -> None:
    assert mistakes(text)


def test_markup_has_neither_scripts_nor_styles_of_its_own() -> None:
    markup = (WEB / "index.html").read_text()
    assert re.search(r"<script(?![^>]*\bsrc=)", markup) is None and "<style" not in markup
    assert re.search(r"\s(on\w+|style)=", markup) is None
    assert all(link.startswith("/console/{digest}/") for link in re.findall(r'(?:src|href)="([^"]*)"', markup))


def test_what_others_have_written_is_as_they_have_published_it_with_its_licence() -> None:
    vendor = WEB / "vendor"
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in vendor.iterdir() if file.suffix != ".txt"
    }
    assert found == VENDORED
    assert {file.name for file in vendor.glob("*.txt")} == {f"{one}.LICENSE.txt" for one in ("htm", "preact", "uPlot")}


def test_each_file_is_part_of_the_package_and_led_to() -> None:
    packaged = re.findall(r"^    (web/\S*)$", (PACKAGE.parent / "setup.cfg").read_text(), re.M)
    folders = {str(file.parent.relative_to(PACKAGE)) for file in WEB.rglob("*") if file.is_file()}
    assert {one.removesuffix("/*") for one in packaged} == folders
    text = "".join(file.read_text() for file in [*WEB.rglob("*.js"), WEB / "index.html"])
    for file in OURS:
        if WEB in file.parents:
            assert f"/{file.name}" in text, f"nothing imports {file.name}"
    for name in re.findall(r"(?:import\(|from )\"\.{1,2}/([^\"]+)\"", text):
        assert any((folder / name).is_file() for folder in (WEB, WEB / "pages")), name


@pytest.mark.parametrize(("page", "settings"), [("queue", QueueSettings()), ("log", LogSettings())])
def test_what_a_page_leaves_out_of_a_table_is_by_default_so(page: str, settings: QueueSettings | LogSettings) -> None:
    (table,) = re.findall(r"^const DEFAULTS = (\{.*?\});", (WEB / f"pages/{page}.js").read_text(), re.M | re.S)
    written = json.loads(re.sub(r",\s*\}", "}", re.sub(r"(\w+): ", r'"\1": ', table)))
    found = {name: value for name, value in asdict(settings).items() if value not in (None, ())}
    assert {name: value for name, value in written.items() if value is not None} == found
