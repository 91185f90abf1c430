"""The schema of a queue or log in config.toml: a file beside it, or the schema itself."""

import os
import sys
from pathlib import Path

import pytest

from radiator.model.avro import body_schema
from radiator.model.errors import ConfigError
from radiator.model.limits import SCHEMA_MAX_BYTES
from radiator.model.settings import Config
from radiator.tools.config import load
from radiator.tools.config.avro_schema import schema_in

RECORD = '{"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}'
TEXT = '{"type":"record","name":"order","fields":[{"name":"id","type":"long"}]}'


def loaded(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load(path)


def mistake(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    return str(caught.value)


@pytest.mark.parametrize("written", ['"order.avsc"', '"schemas/../order.avsc"', f"'{RECORD}'"])
@pytest.mark.parametrize("table", ['queue."orders"', 'queue."orders.*"', 'log."orders"'])
def test_it_is_a_file_beside_the_configuration_or_the_schema_itself(tmp_path: Path, written: str, table: str) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "order.avsc").write_text(RECORD)
    declared = loaded(tmp_path, f"[{table}]\nschema = {written}\n").declarations
    schemas = [one.schema for one in (*declared.queues.values(), *declared.logs.values())]
    schemas += [one.schema for _, one in declared.queue_patterns]
    assert schemas == [TEXT]


def test_an_absolute_path_is_one(tmp_path: Path) -> None:
    (tmp_path / "x.avsc").write_text('"int"')
    assert schema_in(Path("/"))(str(tmp_path / "x.avsc")) == '"int"'


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("3", "is 3; it must be an Avro schema as JSON"),
        ('"missing.avsc"', 'missing.avsc", which cannot be read (No such file or directory); name a file with an Avro'),
        ('"."', "which is not a file"),
        ('"latin.avsc"', "which is not UTF-8 at byte 1"),
        ('"text.avsc"', 'text.avsc", and its content is "order", which is not JSON'),
        ('"wrong.avsc"', 'wrong.avsc", and its content is not an Avro schema: there is no type {"type": "int3"}'),
        ('"large.avsc"', f'large.avsc", and its content is a schema of more than {SCHEMA_MAX_BYTES} bytes'),
        ("""'{"type": "int3"}'""", 'is not an Avro schema: there is no type {"type": "int3"}'),
        ("'[\"null\"'", "which is not JSON"),
    ],
)
@pytest.mark.parametrize("table", ["queue", "log"])
def test_what_is_wrong_is_told_with_its_path(tmp_path: Path, table: str, written: str, why: str) -> None:
    (tmp_path / "latin.avsc").write_bytes(b'"\xff"')
    (tmp_path / "text.avsc").write_text("order")
    (tmp_path / "wrong.avsc").write_text('{"type": "int3"}')
    (tmp_path / "large.avsc").write_text('"int"' + " " * (SCHEMA_MAX_BYTES - 4))
    assert why in mistake(tmp_path, f"[{table}.orders]\nschema = {written}\n")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="which is not a file"):
        schema_in(tmp_path)("pipe")


def test_without_fastavro_the_mistake_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    body_schema.cache_clear()
    sentence = mistake(tmp_path, "[queue.orders]\nschema = '\"int\"'\n")
    assert 'needs fastavro: `pip install "fastavro>=1.9,<2"`' in sentence and "orders" in sentence
