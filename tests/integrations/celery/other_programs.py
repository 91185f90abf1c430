"""Publishes tasks over HTTP, as a program does that has neither Celery nor kombu."""

import http.client
import json
from typing import Any
from uuid import uuid4

PROJECT = "tests.integrations.celery.project"
ANSWER_MAX_S = 20.0
AS_TEXT = {
    "eta": "", "group": "", "group_index": "", "ignore_result": "true", "lang": "py", "parent_id": "",
    "replaced_task_nesting": "0", "retries": "0", "root_id": "", "shadow": "", "stamped_headers": "", "stamps": "{}",
    "timelimit": "[null,null]",
}  # fmt: skip
"""What Celery's own transport gives a task, as who speaks no AMQP sees it; `expires` is the broker's over HTTP."""


def post_task(
    port: int, queue: str, name: str, *arguments: Any, headers: dict[str, str] | None = None, task_id: str | None = None
) -> list[str]:
    """One of tests/integrations/celery/project.py, once it was answered as stored: the ids of its message, which are
    none where its Idempotency-Key says that it was stored before.

    headers: more of the request. task_id: "" is none, None one that is made here. OSError and HTTPException: it was not
    answered. AssertionError: it was refused.
    """
    given = {
        "Content-Type": "application/json",
        "message-content-type": "application/json",
        "message-task": f"{PROJECT}.{name}",
        **({} if task_id == "" else {"message-id": task_id or str(uuid4())}),
        **(headers or {}),
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_MAX_S)
    try:
        connection.request("POST", f"/v1/queues/{queue}/messages", json.dumps([arguments, {}, {}]), given)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    assert answer.status in (200, 201), (answer.status, text)
    stored = json.loads(text)
    ids: list[str] = stored["ids"]
    assert (answer.status, len(ids), stored["duplicates"]) in ((201, 1, 0), (200, 0, 1)), (answer.status, text)
    return ids
