"""Queues that policies hold for, as tables of config.toml: a broker takes them, and programs go on as before."""

from pathlib import Path
from typing import Any

import amqp
import pytest

from radiator.model.settings import QueueSettings
from radiator.tools.config import load, render_table
from radiator.tools.migrate.tables import tables_of
from tests.acceptance.amqp_clients import CONFIG
from tests.broker_process import BrokerProcess
from tests.tools.migrate.conftest import Side, definitions, migrate, side_of
from tests.tools.migrate.test_definitions import planned, policy, queue


def loaded(directory: Path, *queues: dict[str, Any], **definition: Any) -> dict[str, QueueSettings]:
    """The queues of a file of nothing but the tables, under a policy with that definition for all of them."""
    given = {key.replace("_", "-"): value for key, value in definition.items()}
    tables = tables_of(planned(directory, queues=[*queues], policies=[policy("p", "", given)]))
    text = "\n".join(render_table("queue", name, table) for name, table in tables.items())
    (directory / "config.toml").write_text(text)
    return load(directory / "config.toml").declarations.queues


def test_a_table_has_what_policies_say_and_what_the_queue_says_itself(tmp_path: Path) -> None:
    found = loaded(tmp_path, queue('a "b".c', x_max_length=7), queue("d"), message_ttl=5, overflow="reject-publish")
    assert set(found) == {'a "b".c', "d"}
    one = found['a "b".c']
    assert (one.message_ttl_ms, one.max_messages, one.overflow, one.bounds_count) == (5, 7, "reject", "ready")
    assert (found["d"].message_ttl_ms, found["d"].max_messages, found["d"].overflow) == (5, None, "block")


def test_dead_letters_go_where_the_policy_says_and_are_not_limited(tmp_path: Path) -> None:
    found = loaded(tmp_path, queue("a"), dead_letter_exchange="", dead_letter_routing_key="dead")["a"]
    assert (found.dead_letter_exchange, found.dead_letter_key, found.max_redeliveries) == ("", "dead", -1)
    limited = loaded(
        tmp_path, queue("a", x_dead_letter_exchange="dlx", x_queue_type="quorum"), delivery_limit=3, max_length=10
    )["a"]
    assert (limited.dead_letter_exchange, limited.max_redeliveries) == ("dlx", 3)
    assert (limited.max_messages, limited.overflow) == (10, "dead-letter")


def test_there_are_no_tables_of_queues_without_policies(tmp_path: Path) -> None:
    assert loaded(tmp_path, queue("a"), federation_upstream="x") == {}
    assert tables_of(planned(tmp_path, queues=[queue("a")])) == {}


def test_with_the_tables_in_force_programs_declare_as_they_did(old: Side, new: Side, tmp_path: Path) -> None:
    file = definitions(
        tmp_path,
        queues=[{"name": "tabled", "arguments": {"x-expires": 60_000}}, {"name": "dead"}],
        policies=[{"name": "ttl", "pattern": "^tabled$", "definition": {
            "message-ttl": 300, "dead-letter-exchange": "", "dead-letter-routing-key": "dead"}}],
    )  # fmt: skip
    old.declare("tabled", x_expires=60_000)
    old.declare("dead")
    old.fill("tabled", "1")
    tables = tmp_path / "tables.toml"
    migrate(old, new, "--definitions", file, "--dry-run", "--tables", str(tables))
    with BrokerProcess(tmp_path, CONFIG + tables.read_text()) as broker:
        side = side_of(broker)
        side.declare("tabled", x_expires=60_000)
        assert migrate(old, side, "--definitions", file)["is_whole"]
        side.declare("tabled", x_expires=60_000)
        side.wait_for("dead", 1)
        with pytest.raises(amqp.PreconditionFailed):
            side.declare("tabled", x_expires=1)


def test_tables_are_written_before_anything_is_declared_and_over_no_other_file(
    old: Side, new: Side, tmp_path: Path
) -> None:
    file = definitions(tmp_path, queues=[{"name": "q"}], policies=[
        {"name": "p", "pattern": "q", "definition": {"message-ttl": 5}},
    ])  # fmt: skip
    tables = tmp_path / "tables.toml"
    words = ("--definitions", file, "--tables", str(tables))
    assert "say it with --dry-run" in migrate(old, new, *words, status=2)["stderr"] and not tables.exists()
    tables.write_text("mine")
    assert "cannot be written: File exists." in migrate(old, new, *words, "--dry-run", status=2)["stderr"]
    assert tables.read_text() == "mine"
    without = definitions(tmp_path, queues=[{"name": "q"}])
    wrong = migrate(old, new, "--definitions", without, "--tables", "t", "--dry-run", status=2)["stderr"]
    assert "--tables has nothing to write" in wrong
