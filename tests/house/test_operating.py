"""docs/OPERATING.md tells of every setting with its default, every line of the log, and every exit status."""

import argparse
import ast
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path

import pytest

from radiator.core.bounds import BOUNDS
from radiator.model import errors
from radiator.model.limits import Limits
from radiator.model.reloading import RELOAD
from radiator.model.settings import (
    AUDIT_RETENTION_BYTES,
    AUDIT_RETENTION_MS,
    Config,
    JwtSettings,
    Logging,
    LogSettings,
    QueueSettings,
    TlsSettings,
)
from radiator.model.validation import LOG, QUEUE
from radiator.protocols.prometheus.metrics import metrics
from radiator.tools.cli import COMMANDS, parser
from radiator.tools.config import size_text
from radiator.tools.config.jwt import JWT
from radiator.tools.config.values import CREATE, EXCHANGE, JOURNAL, LIMITS, LOGGING, SERVER, THIS_NODE, TLS
from tests.house.sources import nodes_of

CHECKOUT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = (CHECKOUT / "docs/OPERATING.md").read_text(encoding="utf-8")
OF_THE_LOG_ITSELF = {("log_lines_dropped", "warning"), ("client_lines_dropped", "warning"), ("trace", "error")}
OF_PROGRAMS = ("client", "integrations", "tools/archive")  # packages that speak to logs of their own


def rows(heading: str) -> dict[str, str]:
    """First and second cell of each row of the tables under a heading, up to the next of its level or above."""
    level = len(heading.split()[0])
    section = re.split(rf"\n#{{1,{level}}} ", DOCUMENT.split(f"\n{heading}\n")[1])[0]
    found = re.findall(r"^\| `([^`]+)` \| ([^|]*) \|", section, re.MULTILINE)
    assert len(dict(found)) == len(found), f"{heading} has a row twice"
    return dict(found)


def as_written(key: str, value: object) -> str:
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (key.endswith("_bytes") or key in ("map_size", "disk_free_min"))
    ):
        value = size_text(value)
    return f"`{json.dumps(value, default=str)}`"


def test_every_setting_of_the_server_stands_there_with_its_default() -> None:
    config = Config(data_dir=Path("data"))
    defaults = {key: getattr(config, key) for key in SERVER}
    defaults |= {"listen": [str(address) for address in config.listen], "data_dir": "data", "log_keep": 0}
    found = {key: as_written(key, value) for key, value in defaults.items()}
    assert rows("### [server]") == {**found, "users_file": "none"}


def test_every_setting_of_the_log_stands_there_with_its_default() -> None:
    assert set(LOGGING) == {field.name for field in fields(Logging)}
    assert rows("### [logging]") == {key: as_written(key, value) for key, value in asdict(Logging()).items()}


def test_every_setting_of_create_stands_there_with_its_default() -> None:
    assert rows("### [create]") == dict.fromkeys(CREATE, "`false`")


def test_every_setting_of_tls_stands_there_with_its_default() -> None:
    assert set(TLS) == {field.name for field in fields(TlsSettings)}
    assert rows("### [tls]") == {
        "certificate": "needed",
        "key": "needed",
        "client_ca": "none",
        "client_certificates": '`"none"`',
        "peer_ca": "none",
    }


def test_every_setting_of_jwt_stands_there_with_its_default() -> None:
    assert set(JWT) == {field.name for field in fields(JwtSettings)}
    needed = dict.fromkeys(("keys", "algorithms", "issuer", "audience"), "needed")
    assert rows("### [jwt]") == {**needed, "user_claim": '`"sub"`'}


def test_every_setting_of_the_node_stands_there() -> None:
    assert set(rows('### [node] and [peer."NAME"]')) == set(THIS_NODE)


def test_every_limit_stands_there_with_its_default() -> None:
    assert set(LIMITS) == {field.name for field in fields(Limits)}
    assert rows("## Limits") == {key: as_written(key, value) for key, value in asdict(Limits()).items()}


def test_every_setting_of_a_queue_stands_there_with_its_default() -> None:
    found = rows("## Queue settings")
    assert set(found) == set(QUEUE)
    for key, value in asdict(QueueSettings()).items():
        assert found[key].startswith("none" if value in (None, ()) else as_written(key, value))


def test_every_setting_of_an_exchange_stands_there_with_its_default() -> None:
    assert rows('### [exchange."NAME"]') == {
        "type": '`"direct"`', "alternate": "none", "internal": "`false`", "bindings": "none",
    }  # fmt: skip
    assert set(EXCHANGE) == {"type", "alternate", "internal", "bindings"}


def test_every_setting_of_a_log_and_of_the_journal_stands_there_with_its_default() -> None:
    defaults = {
        key: "none" if value is None else as_written(key, value) for key, value in asdict(LogSettings()).items()
    }
    assert rows('### [log."NAME"]') == defaults
    assert set(LOG) == set(defaults)
    of_both = {key: defaults[key] for key in JOURNAL if key in defaults}
    of_audit = {"retention_ms": AUDIT_RETENTION_MS, "retention_bytes": AUDIT_RETENTION_BYTES}
    of_both |= {f"audit_{key}": as_written(key, value) for key, value in of_audit.items()}
    assert rows("### [journal]") == {"enabled": "`false`", **of_both}
    assert set(JOURNAL) == {"enabled", *of_both}


def test_every_metric_stands_there() -> None:
    found = re.findall(r"^\| `(radiator_\w+)` \| (\w+) \| (.*) \|$", DOCUMENT, re.MULTILINE)
    assert found == [(metric.name, metric.kind, metric.help) for metric in metrics()]


def test_every_bound_of_the_broker_stands_there() -> None:
    section = DOCUMENT.split("\n### Settings, bounds, disk, log\n")[1].split("\n### ")[0]
    found = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", section, re.MULTILINE)
    assert found == [(bound.name, bound.unit, bound.reached) for bound in BOUNDS]


def test_what_a_reload_leaves_for_a_restart_stands_there() -> None:
    table = DOCUMENT.split("\n### Reload\n")[1].split("| table |")[1].split("\n\n")[0]
    found = {
        kind: row.split("|") for row in table.splitlines()[2:] for kind in re.findall(r"`\[([a-z]+)", row.split("|")[1])
    }
    assert set(found) == set(RELOAD)
    for kind, keys in RELOAD.items():
        waits = {key for key, effect in keys.items() if effect == "restart"}
        named = set(re.findall(r"`([a-z_]+)`", found[kind][3]))
        if found[kind][3].strip() == "all":
            assert waits == set(keys)
        else:
            # beside them: what comes of another one, which scope it is, and a number that never changes
            beside = {"outbox_max_bytes", "max_frame_bytes", "scope", "cluster", "partitions"}
            assert waits <= named | beside and named <= waits | beside, kind


def events_of(nodes: Iterable[ast.AST]) -> set[tuple[str, str]]:
    """Level and event of each line that the code can write to the log."""
    found = set()
    for node in nodes:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        words = [texts_of(argument) for argument in node.args[:2]]
        if node.func.attr in ("note", "write") and len(words) == 2 and words[0]:
            found |= (
                set(zip(*words, strict=True))
                if len(words[0]) == len(words[1])
                else {(words[0][0], word) for word in words[1]}
            )
        elif node.func.attr in ("debug", "info", "warning", "error") and ast.unparse(node.func.value).endswith("log"):
            found |= {(node.func.attr, word) for word in words[0]}
    return found


def texts_of(node: ast.expr) -> list[str]:
    """The texts that an expression can be: one, or both ends of a conditional."""
    if isinstance(node, ast.IfExp):
        return texts_of(node.body) + texts_of(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def of_the_broker() -> list[Path]:
    """Its modules: what programs import speaks to their own logs."""
    modules = [path.relative_to(CHECKOUT / "radiator") for path in sorted((CHECKOUT / "radiator").rglob("*.py"))]
    return [CHECKOUT / "radiator" / path for path in modules if not path.as_posix().startswith(OF_PROGRAMS)]


def test_every_line_of_the_log_stands_there_with_its_level() -> None:
    found = {(event, level) for path in of_the_broker() for level, event in events_of(nodes_of(path))}
    assert set(rows("## The log").items()) == found | OF_THE_LOG_ITSELF


def test_events_are_found_in_code() -> None:
    source = """
context.note("warning" if bad else "info", "tight" if bad else "room", bytes=1)
self.context.note("info", "one" if bad else "two")
self._all.log.error("three", cause=cause)
log.warning("four")
log.debug("five")
logarithm.info("five")
log.write("warning", "six", fields, client)
os.write(file, "seven")
"""
    assert events_of(ast.walk(ast.parse(source))) == {
        ("warning", "six"),
        ("warning", "tight"),
        ("info", "room"),
        ("info", "one"),
        ("info", "two"),
        ("error", "three"),
        ("warning", "four"),
        ("debug", "five"),
    }


def first_words(section: str) -> set[str]:
    """The first word of each that stands in backquotes in the first cell of a row of its tables."""
    cells = re.findall(r"^\| (`[^|]*(?:\\\|[^|]*)*) \|", section, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([a-z-]+)[^`]*`", cell)}


def test_every_command_stands_there() -> None:
    section = DOCUMENT.partition("\n| command | does |\n")[2].partition("\n### ")[0]
    assert set(COMMANDS) - first_words(section) == set()


def test_the_document_of_every_command_with_json_stands_there() -> None:
    section = DOCUMENT.partition("\n### What `--json` prints\n")[2].partition("\n## ")[0]
    assert first_words(section) == {name for name in COMMANDS if has_json(subparsers(parser())[name])}


def subparsers(of: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (action for action in of._actions if isinstance(action, argparse._SubParsersAction))
    return found.choices


def has_json(of: argparse.ArgumentParser) -> bool:
    if any(isinstance(action, argparse._SubParsersAction) for action in of._actions):
        return any(has_json(one) for one in subparsers(of).values())
    return any("--json" in action.option_strings for action in of._actions)


def test_every_exit_status_stands_there() -> None:
    statuses = {str(getattr(errors, name)) for name in dir(errors) if name.startswith("EXIT_")}
    assert {"0", *statuses} <= set(rows("## Exit statuses"))


@pytest.mark.parametrize("link", re.findall(r"\]\(#([^)]+)\)", DOCUMENT))
def test_a_link_within_the_document_leads_somewhere(link: str) -> None:
    headings = [
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", DOCUMENT, re.M)
    ]
    assert link in headings
