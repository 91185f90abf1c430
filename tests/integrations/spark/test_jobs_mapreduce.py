"""Map and reduce: the pure part, what a job may say, and jobs out of a real queue."""

import json
import threading
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from radiator.client import Client
from radiator.integrations.spark.jobs import mapreduce
from radiator.integrations.spark.jobs.job import JobFailed, parser, read_log
from radiator.integrations.spark.jobs.mapreduce import MAPREDUCE, WORKS, Work, chosen, map_reduce, named, serve, wanted
from tests.broker_process import BrokerProcess
from tests.integrations.spark.journals import BEGIN_MS, write_log

TEXTS = [[b"one fish two fish", b"red fish"], [b"blue fish", b"one"], []]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archive")
    write_log(directory, "texts", TEXTS, b"partition-key:k\n")
    write_log(directory, "empty", [[]])
    return directory


def result(spark: SparkSession, archive: Path, log: str, work: Work) -> dict[str, Any]:
    rows = map_reduce(read_log(spark, str(archive), log), work).collect()
    found = {row.key: json.loads(row.value) for row in rows}
    assert len(found) == len(rows), "one row for each key"
    return found


def test_map_and_reduce(spark: SparkSession, archive: Path) -> None:
    words = Counter(word for texts in TEXTS for text in texts for word in text.decode().split())
    assert result(spark, archive, "texts", WORKS["count-words"]) == words
    assert result(spark, archive, "texts", WORKS["count-by-key"]) == {"k": 4}
    assert result(spark, archive, "texts", WORKS["bytes-by-key"]) == {"k": 37}
    assert result(spark, archive, "texts", WORKS["count-by-destination"]) == {"/log/texts": 4}
    assert result(spark, archive, "empty", WORKS["count-words"]) == {}


def test_more_keys_than_a_task_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mapper gives out early is reduced all the same."""
    random = Random(1)
    pairs = sorted((str(random.randrange(50)), 1) for _ in range(500))
    monkeypatch.setattr(mapreduce, "BATCH_ROWS", 7)
    batches = list(mapreduce._batches(pairs))
    assert max(batch.num_rows for batch in batches) == 7
    folded = list(mapreduce._folded(iter(batches), WORKS["count-words"]))
    assert dict(folded) == Counter(key for key, _ in pairs) and len(folded) == len(dict(folded))
    assert list(mapreduce._folded(iter(()), WORKS["count-words"])) == []


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{}", "There is no work ''"),
        (b'{"work": ["x"], "log": "texts"}', "There is no work"),
        (b'{"work": "os:system", "log": "texts"}', "There is no work 'os:system'"),
        (b'{"work": "count-words"}', "name of a log"),
        (b'{"work": "count-words", "log": 5}', "name of a log"),
        (b'{"work": "count-words", "log": "texts", "where": "1=1"}', "The job has 'where'"),
        (b'{"work": "count-words", "log": "texts", "partitions": [-1]}', "list of numbers"),
        (b'{"work": "count-words", "log": "texts", "partitions": [true]}', "list of numbers"),
        (b'{"work": "count-words", "log": "texts", "from_ms": "now"}', "milliseconds"),
    ],
)
def test_what_is_no_job(body: bytes, sentence: str) -> None:
    with pytest.raises(JobFailed, match=sentence.replace("[", r"\[")):
        wanted(body, WORKS)


def test_what_a_job_is_about(spark: SparkSession, archive: Path) -> None:
    body = {"work": "count-words", "log": "texts", "partitions": [0, 2], "from_ms": BEGIN_MS + 1, "until_ms": 2**44}
    some = chosen(read_log(spark, str(archive), "texts"), wanted(json.dumps(body).encode(), WORKS))
    assert [bytes(row.value) for row in some.collect()] == [b"red fish"]


def test_work_is_named_by_who_starts_it() -> None:
    name, work = named("words=tests.integrations.spark.test_jobs_mapreduce:WORDS")
    assert (name, work) == ("words", WORDS)


WORDS = WORKS["count-words"]


def args(broker: BrokerProcess, archive: Path) -> Any:
    options = ["--archive", str(archive), "--queue", "jobs", "--url", broker.address, "--once"]
    return parser(MAPREDUCE).parse_args(options)


def test_jobs_are_answered(spark: SparkSession, broker: BrokerProcess, archive: Path) -> None:
    """One with a result, one that is refused; one that nobody could answer goes to the dead letters."""
    with Client(broker.address) as client:
        client.admin({"do": "declare", "queue": "jobs", "dead_letter": "jobs.dead"})
        client.subscribe("/temp-queue/answers", prefetch=10)
        for number, job in enumerate([{"work": "count-by-key", "log": "texts"}, {"work": "rm", "log": "texts"}]):
            headers = {"reply-to": "/temp-queue/answers", "correlation-id": str(number)}
            client.send("/queue/jobs", json.dumps(job), headers)
        client.send("/queue/jobs", "{}", {"reply-to": "/admin"})
        assert serve(spark, args(broker, archive), WORKS) == 2
        answers = [client.receive(10), client.receive(10)]
        answer = {one.headers["correlation-id"]: json.loads(one.body) for one in answers if one is not None}
        assert answer["0"] == {"ok": True, "result": {"k": 4}}
        assert answer["1"]["ok"] is False and "There is no work 'rm'" in answer["1"]["error"]
        assert len(client.admin({"do": "peek", "queue": "jobs.dead"})["messages"]) == 1
        assert client.admin({"do": "describe", "queue": "jobs"})["messages"] == 0


def test_a_job_whose_worker_dies_is_done_again(
    spark: SparkSession, broker: BrokerProcess, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is lost before the transaction: the job comes again, and is answered once."""
    answer = mapreduce.answer
    tries: list[bytes] = []

    def dying(spark: SparkSession, archive: str, body: bytes, works: dict[str, Work]) -> dict[str, Any]:
        tries.append(body)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return answer(spark, archive, body, works)

    monkeypatch.setattr(mapreduce, "answer", dying)
    with Client(broker.address) as client:
        client.send("/queue/jobs", json.dumps({"work": "count-by-key", "log": "texts"}), {"reply-to": "/queue/told"})
        with pytest.raises(KeyboardInterrupt):
            serve(spark, args(broker, archive), WORKS)
        assert serve(spark, args(broker, archive), WORKS) == 1
        assert len(tries) == 2
        (answered,) = client.admin({"do": "peek", "queue": "told"})["messages"]
        assert json.loads(answered["body"]) == {"ok": True, "result": {"k": 4}}


def test_two_workers_share_the_jobs(spark: SparkSession, broker: BrokerProcess, archive: Path) -> None:
    with Client(broker.address) as client:
        for number in range(4):
            client.send("/queue/jobs", "{}", {"reply-to": "/queue/shared", "correlation-id": str(number)})
    done: list[int] = []
    workers = [threading.Thread(target=lambda: done.append(serve(spark, args(broker, archive), WORKS))) for _ in "12"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(done) == 4
