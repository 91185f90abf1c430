"""Spark by TLS, with users: the example of docs/SPARK.md, where no secret may be, and what is said where it fails."""

import json
import pickle
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from radiator.auth.tokens import sha256_of, text_of
from radiator.client import Address, Client, ConnectionLost, Refusal
from radiator.integrations.spark.ask import BrokerRequests, client_of, lasting
from radiator.integrations.spark.connect import Connect
from radiator.integrations.spark.jobs.job import parser
from radiator.integrations.spark.jobs.mapreduce import MAPREDUCE, WORKS, serve
from radiator.integrations.spark.jobs.replay import REPLAY, run
from radiator.integrations.spark.options import OptionError, connect_options
from radiator.integrations.spark.source import RadiatorDataSource
from tests.certificates import Authority
from tests.documents.blocks import blocks_of
from tests.documents.blocks import text_of as page
from tests.integrations.spark.journals import write_log
from tests.integrations.spark.running import Batches
from tests.integrations.spark.running import run as run_query
from tests.tls_broker import ENCRYPTED, TlsBroker

PAGE, BY_THIS = "docs/SPARK.md", "tests/integrations/spark/test_tls.py"
TOKEN, OTHER, OF_JOBS = (text_of(bytes([number]) * 32) for number in range(3))
DECLARED = '[log."clicks"]\n[queue."orders"]\n[queue."work"]\n[queue."jobs"]\n[queue."told"]\n'
JOBS = f"""
[user."jobs"]
tokens = [{{ sha256 = "{sha256_of(OF_JOBS.encode())}" }}]
read = ["/queue/jobs"]
write = ["/queue/told", "/queue/work", "/app/#"]
[user."cert"]
certificate = "CN=cert"
role = "viewer"
"""


def block(language: str) -> str:
    (found,) = [one for one in blocks_of(PAGE, page(PAGE)) if (one.language, one.why) == (language, BY_THIS)]
    return found.text


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    etl = re.sub(r"[0-9a-f]{64}", sha256_of(TOKEN.encode()), block("toml"))
    clients = 'client_ca = "ca.pem"\nclient_certificates = "optional"\n'
    with TlsBroker(tmp_path_factory.mktemp("broker"), ENCRYPTED + clients + DECLARED + etl + JOBS) as running:
        with Client(Address.unix(running.unix_path)) as client:
            client.send_many("/log/clicks", ["one", "two"])
        yield running
        assert "Traceback" not in running.log and TOKEN not in running.log, running.log


@pytest.fixture
def files(broker: TlsBroker, tmp_path: Path) -> Path:
    """A directory with what the page names."""
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "ca.pem").write_text(broker.authority.certificate.read_text())
    for name, token in (("etl.token", TOKEN), ("jobs.token", OF_JOBS), ("wrong.token", OTHER)):
        (tmp_path / name).write_text(f"{token}\n")
        (tmp_path / name).chmod(0o600)
    return tmp_path


def options(broker: TlsBroker, files: Path, **other: str) -> dict[str, str]:
    """Those of the page, here."""
    login = {"user": "etl", "passwordFile": f"{files}/etl.token"}
    return {"url": broker.tls_address, "caFile": f"{files}/tls/ca.pem", **login, **other}


def connect_of(broker: TlsBroker, files: Path, **other: str) -> Connect:
    once = {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "1"}
    return connect_options({**options(broker, files, **other), **once}, "a test")


def taken(broker: TlsBroker, queue: str, count: int) -> list[str]:
    with Client(Address.unix(broker.unix_path)) as client:
        client.subscribe(f"/queue/{queue}")
        found = [client.receive(20) for _ in range(count)]
    return [one.body.decode() for one in found if one is not None]


# ---- with a real Spark


def test_the_page_holds_and_spark_shows_no_secret(
    spark: SparkSession, broker: TlsBroker, files: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = block("python").replace("stomps://broker.example:61612", broker.tls_address)
    text = text.replace("tls/ca.pem", f"{files}/tls/ca.pem").replace("etl.token", f"{files}/etl.token")
    names: dict[str, Any] = {"spark": spark}
    exec(text, names)  # noqa: S102
    assert taken(broker, "work", 2) == ["one", "two"]
    names["clicks"].explain(True)
    shown = capfd.readouterr()
    assert "Physical Plan" in shown.out and TOKEN not in shown.out + shown.err


def test_streams_do_too_and_their_checkpoints_have_no_secret(
    spark: SparkSession, broker: TlsBroker, files: Path
) -> None:
    given, checkpoints = options(broker, files), files / "checkpoints"
    with Client(Address.unix(broker.unix_path)) as client:
        client.send_many("/queue/orders", ["a", "b"])
    sink = Batches()
    reading = spark.readStream.format("radiator").options(**given)
    queue = reading.options(subscribe="orders", mode="checkout", group="etl").load()
    run_query(queue, checkpoints / "queue", sink)
    assert sink.values == ["a", "b"]
    log = spark.readStream.format("radiator").options(**given, subscribe="clicks", startingOffsets="earliest").load()
    for delivery in ("exactlyOnce", "atLeastOnce"):
        writing = log.select("value").writeStream.format("radiator").options(**given, destination="/queue/work")
        place = str(checkpoints / delivery)
        query = writing.options(checkpointLocation=place, delivery=delivery).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        assert TOKEN not in json.dumps([progress.json for progress in query.recentProgress])
        assert sorted(taken(broker, "work", 2)) == ["one", "two"]
    kept = [one.read_bytes() for one in checkpoints.rglob("*") if one.is_file()]
    assert kept and not any(TOKEN.encode() in one for one in kept)


def test_an_error_of_a_task_is_the_sentence(spark: SparkSession, broker: TlsBroker, files: Path) -> None:
    with pytest.raises(PySparkException, match="The user etl may not write /queue/told: there is no rule") as caught:
        spark.createDataFrame([(b"x",)], "value binary").write.format("radiator").options(
            **options(broker, files), destination="/queue/told"
        ).mode("append").save()
    assert TOKEN not in str(caught.value)


def test_what_is_sent_to_executors_has_no_secret(broker: TlsBroker, files: Path) -> None:
    given = options(broker, files)
    schema = StructType([StructField("value", BinaryType())])
    source = RadiatorDataSource({**given, "subscribe": "clicks"})
    sink = RadiatorDataSource({**given, "destination": "/queue/work"})
    reader = source.reader(source_schema())
    (part,) = reader.partitions()
    for one in (source, reader, part, source.streamReader(source_schema()), sink, sink.writer(schema, False)):
        sent = pickle.dumps(one)
        assert TOKEN.encode() not in sent and TOKEN not in repr(one)


def source_schema() -> StructType:
    from pyspark.sql.types import _parse_datatype_string

    found = _parse_datatype_string(RadiatorDataSource({}).schema())
    assert isinstance(found, StructType)
    return found


def test_the_jobs_log_in(spark: SparkSession, broker: TlsBroker, files: Path) -> None:
    (files / "archive").mkdir()
    write_log(files / "archive", "texts", [[b"one", b"two"]], b"partition-key:k\n")
    of_broker = ["--archive", f"{files}/archive", "--url", broker.tls_address, "--ca", f"{files}/tls/ca.pem"]
    of_broker += ["--user", "jobs", "--password-file", f"{files}/jobs.token"]
    sent = ["--log", "texts", "--to", "/queue/work", "--go"]
    for more in ([], ["--name", "n"], ["--rate", "1000"]):
        assert run(spark, parser(REPLAY).parse_args([*of_broker, *sent, *more])) == 0
        assert sorted(taken(broker, "work", 2)) == ["one", "two"]
    with Client(Address.unix(broker.unix_path)) as client:
        client.send("/queue/jobs", json.dumps({"work": "count-by-key", "log": "texts"}), {"reply-to": "/queue/told"})
    assert serve(spark, parser(MAPREDUCE).parse_args([*of_broker, "--queue", "jobs", "--once"]), WORKS) == 1
    assert json.loads(taken(broker, "told", 1)[0]) == {"ok": True, "result": {"k": 2}}


# ---- what is said where it cannot be


def no(connect: Connect, kind: type[Exception]) -> str:
    """What each way to a connection raises, the same in all."""
    with pytest.raises(kind) as caught, BrokerRequests(connect) as one:
        one.ready("orders")
    with pytest.raises(kind) as caught_too:
        lasting(connect, 10)
    sentence, other = (re.sub(r" It was tried \d+ times.*", "", str(one.value)) for one in (caught, caught_too))
    assert sentence == other and TOKEN not in sentence and OTHER not in sentence
    return sentence


def test_a_wrong_password_is_told_at_once_with_the_broker_that_refused(broker: TlsBroker, files: Path) -> None:
    failures = broker.log.count("login_failed")
    wrong = connect_of(broker, files, passwordFile=f"{files}/wrong.token", url=f"{broker.tls_address},stomp://[::1]:1")
    sentence = no(wrong, Refusal)
    assert sentence.startswith(f"{broker.tls_address} has refused the connection of the user 'etl': CONNECT needs the ")
    broker.hang_up("reload")  # a line behind all others
    assert broker.log.count("login_failed") == failures + 2


def test_rights_that_are_missing_are_named(broker: TlsBroker, files: Path) -> None:
    with BrokerRequests(connect_of(broker, files)) as one:
        for ask, right, address in (
            (lambda: one.state("mail"), "see", "/log/mail"),
            (lambda: one.checkout("mail", "g", 1), "read", "/queue/mail"),
            (lambda: one.ready("mail"), "read", "/queue/mail"),
        ):
            with pytest.raises(Refusal, match=f"The user etl may not {right} {address}: there is no rule of `{right}`"):
                ask()
        assert one.ready("orders") >= 0


def test_what_is_not_verified(broker: TlsBroker, files: Path) -> None:
    other = Authority(files / "other").certificate
    sentence = no(connect_of(broker, files, caFile=str(other)), ConnectionLost)
    assert sentence.endswith(f"not come from the CA of '{other}': name the file of its CA (the option caFile).")


def test_ports_that_were_taken_for_each_other(broker: TlsBroker, files: Path) -> None:
    address = f"stomps://localhost:{broker.port}"
    assert no(connect_of(broker, files, url=address), ConnectionLost).endswith(
        f"Cannot connect to {address}: it does not answer in TLS: is that port one of stomps://?"
    )
    address = f"stomp://localhost:{broker.tls_port}"
    plain = {"url": address, "user": "etl", "passwordFile": f"{files}/etl.token", "fetchOffset.numRetries": "0"}
    assert no(connect_options(plain, "a test"), ConnectionLost) == (
        f"The connection to {address} is lost: the broker closed it. Is that port one of stomps://?"
    )


def test_files_that_cannot_be_used_are_named_with_the_machine(broker: TlsBroker, files: Path) -> None:
    here = f"On the machine {platform.node()!r}: "
    none = f"{files}/none"
    sentence = no(connect_of(broker, files, passwordFile=none), OptionError)
    assert sentence == f"{here}{none} cannot be read: No such file or directory."
    sentence = no(connect_of(broker, files, caFile=none), OptionError)
    assert sentence == f"{here}ca_file '{none}' cannot be used: No such file or directory."
    (files / "etl.token").chmod(0o644)
    sentence = no(connect_of(broker, files), OptionError)
    assert "everybody on this machine may read it: chmod 600" in sentence


def test_a_certificate_is_a_login_too(broker: TlsBroker, files: Path) -> None:
    pair = broker.authority.pair("client", "/CN=cert", "")
    own = {"certificateFile": str(pair.certificate), "keyFile": str(pair.key)}
    given = {"url": broker.tls_address, "caFile": f"{files}/tls/ca.pem", **own}
    with client_of(connect_options(given, "a test")) as one:
        assert one.admin({"do": "describe", "log": "clicks"})["partitions"]


def test_a_password_is_read_anew_for_each_connection(broker: TlsBroker, files: Path) -> None:
    connect = connect_of(broker, files)
    with BrokerRequests(connect) as one:
        assert one.ready("orders") >= 0
        (files / "etl.token").write_text(OTHER)
        one.close()
        with pytest.raises(Refusal, match="has refused the connection of the user 'etl'"):
            one.ready("orders")
        (files / "etl.token").write_text(TOKEN)
        assert one.ready("orders") >= 0
