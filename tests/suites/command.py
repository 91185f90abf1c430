"""scripts/suites: the test suites of AMQP clients, unmodified, against this broker, and what came of them.

    scripts/suites [NAME ...]

Each suite is fetched as tests/suites/suites.toml pins it and runs beside a broker of its own on port 5672. What fails
is compared with what is known to fail, with its cause, in that table. The command ends with 0 only if each suite came
out as the table says. It needs the internet the first time; scripts/test does not run it.
"""

import argparse
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from radiator.tools.cli.text import table
from tests.broker_process import CHECKOUT, EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.certificates import Authority
from tests.suites.counting import Outcome
from tests.suites.runners import ran, ready
from tests.suites.sources import CannotRun
from tests.suites.table import ClientSuite, in_markdown, suites

PLACE = CHECKOUT / ".venv" / "suites"
HEADS = ("suite", "tests", "passed", "skipped", "failed", "known", "result")
AS_KNOWN = "as known"


def main(arguments: list[str] | None = None) -> int:
    there = {suite.name: suite for suite in suites()}
    parser = argparse.ArgumentParser(
        prog="scripts/suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of a suite: {', '.join(there)}; none: all of them")
    parser.add_argument("--place", type=Path, default=PLACE, help="where what is fetched is kept (%(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/AMQP.md, and run nothing")
    asked = parser.parse_args(arguments)
    if unknown := [name for name in asked.names if name not in there]:
        parser.error(f"{unknown[0]!r} is no suite; {', '.join(there)} are.")
    if asked.markdown:
        print(in_markdown(list(there.values())))
        return 0
    rows: list[tuple[str, ...]] = []
    differing: list[str] = []
    for name in asked.names or there:
        row, differs = _tried(there[name], asked.place.resolve() / name)
        rows.append(row)
        differing += differs
    print("\n".join([table(HEADS, rows), *differing]))
    return 1 if any(row[-1] != AS_KNOWN for row in rows) else 0


def _tried(suite: ClientSuite, under: Path) -> tuple[tuple[str, ...], list[str]]:
    """A row of the table, and what is to be said below it."""
    print(f"{suite.title} ...", file=sys.stderr)
    try:
        place = ready(suite, under)
        with tempfile.TemporaryDirectory(prefix="radiator-suites-") as directory:
            broker = _broker(suite, Path(directory), place)
            with broker:
                found = ran(suite, under, place)
    except CannotRun as error:
        return (suite.name, "", "", "", "", str(suite.failed), "not run"), [str(error)]
    differs = differences(suite, found)
    numbers = (found.tests, found.passed, found.skipped, len(found.failed), suite.failed)
    return (suite.name, *map(str, numbers), "differs" if differs else AS_KNOWN), differs


def differences(suite: ClientSuite, found: Outcome) -> list[str]:
    """What came out otherwise than the table says, a sentence each."""
    known = {test for one in suite.known for test in one.tests}
    differs = [f"{suite.name}: {test} fails: {why}" for test, why in found.failed.items() if test not in known]
    differs += [f"{suite.name}: {test} does not fail any more." for test in sorted(known - set(found.failed))]
    for word, now, before in (("passed", found.passed, suite.passed), ("were skipped", found.skipped, suite.skipped)):
        if now != before:
            differs.append(f"{suite.name}: {now} {word}; the table says {before}.")
    return differs


def _broker(suite: ClientSuite, directory: Path, place: Path) -> BrokerProcess:
    """With what the suite listens for. CannotRun: somebody else listens there."""
    for address in suite.listen:
        host, _, port = address.partition("://")[2].rpartition(":")
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
            if one.connect_ex((host.strip("[]"), int(port))) == 0:
                raise CannotRun(f"{suite.title}: port {port} is taken; stop the broker that listens there.")
    listen = ", ".join(f'"{address}"' for address in ("stomp://127.0.0.1:0", *suite.listen))
    config = SERVER.replace('"stomp://127.0.0.1:0"', listen) + suite.config
    if suite.certificates:
        _certified(directory, place / suite.certificates)
        config += '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'
    return BrokerProcess(directory, config + EVERYTHING_MAY_BE_CREATED)


def _certified(directory: Path, place: Path) -> None:
    """A CA, what it has signed for the broker, and for the client at the names that py-amqp has for them."""
    authority = Authority(directory)
    authority.pair("server")
    client = authority.pair("client", subject="/CN=client")
    place.mkdir(parents=True, exist_ok=True)
    shutil.copy(authority.certificate, place / "ca_certificate.pem")
    shutil.copy(client.certificate, place / "client_certificate.pem")
    shutil.copy(client.key, place / "client_key.pem")
    shutil.copy(client.certificate, place / "client_certificate_broken.pem")
    (place / "client_key_broken.pem").write_text(client.key.read_text().replace("M", "N"))


if __name__ == "__main__":
    sys.exit(main())
