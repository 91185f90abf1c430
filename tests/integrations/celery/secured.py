"""The users of docs/CELERY.md, with tokens, and the URL that each has: what tests and campaigns by TLS share."""

import re
from pathlib import Path

from radiator.auth.tokens import sha256_of, text_of
from tests.documents.blocks import Block, blocks_of

PAGE = "docs/CELERY.md"
MARKER = "tests/integrations/celery/test_tls.py"
TOKENS = {name: text_of(bytes([number]) * 32) for number, name in enumerate(("web", "worker", "ops", "mute"))}
# a broken copy of the package has no pages beside it
TEXT = (Path(__file__).resolve().parents[3] / PAGE).read_text(encoding="utf-8")


def block(language: str) -> Block:
    """The one of the page's example that is in that language."""
    found = [one for one in blocks_of(PAGE, TEXT) if (one.language, one.why) == (language, MARKER)]
    assert len(found) == 1, found
    return found[0]


def users() -> str:
    """Of the page, each with its token; and a worker that may send no events."""
    text = block("toml").text
    worker = text[text.index('[user."worker"]') : text.index('[user."ops"]')].replace('"worker"', '"mute"')
    assert worker.count('"/exchange/celeryev/#", ') == 1
    text += worker.replace('"/exchange/celeryev/#", ', "")
    for token in TOKENS.values():
        text = re.sub(r'sha256 = "[0-9a-f]{64}"', f"SHA256 = '{sha256_of(token.encode())}'", text, count=1)
    assert (text.count("SHA256"), text.count("sha256")) == (len(TOKENS), 0)
    return text.replace("SHA256", "sha256")


def users_of(queue: str) -> str:
    """The same of an application whose queue has another name."""
    text = users()
    for place in ('/queue/celery"', '/exchange/celery"', "/exchange/celery/#"):
        assert place in text
        text = text.replace(place, place.replace("celery", queue))
    return text


def url_of(user: str, port: int, ca_file: str) -> str:
    return f"radiators://{user}:{TOKENS[user]}@127.0.0.1:{port}?ssl_ca_certs={ca_file}"
