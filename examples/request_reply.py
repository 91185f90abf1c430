"""Questions and answers: the asker gets a private address for the answers, which nobody else can read or guess.

`reply-to:/temp-queue/NAME` is all that the asker says. The broker makes the queue, puts its real address into the
message, and delivers the answers without a SUBSCRIBE. The queue goes when the asker's connection does.

Run it against a broker on this machine: python examples/request_reply.py [HOST:PORT]
"""

import queue
import sys

import stomp

QUESTIONS = "/queue/example.questions"


class Clerk(stomp.ConnectionListener):
    """Answers questions: doubles a number."""

    def __init__(self, host: str, port: int) -> None:
        self.connection = stomp.Connection12([(host, port)])
        self.connection.set_listener("clerk", self)
        self.connection.connect(wait=True)
        self.connection.subscribe(QUESTIONS, id="questions", ack="client-individual")

    def on_message(self, frame: stomp.utils.Frame) -> None:
        answer = str(2 * int(frame.body))
        # the answer and the end of the question, both or neither
        self.connection.begin("answer")
        self.connection.send(
            frame.headers["reply-to"],
            answer,
            headers={"correlation-id": frame.headers["correlation-id"]},
            transaction="answer",
        )
        self.connection.ack(frame.headers["ack"], transaction="answer")
        self.connection.commit("answer")


class Asker(stomp.ConnectionListener):
    """Asks, and tells answers apart by their correlation-id."""

    def __init__(self, host: str, port: int) -> None:
        self.answers: queue.Queue[tuple[str, str]] = queue.Queue()
        self.connection = stomp.Connection12([(host, port)])
        self.connection.set_listener("asker", self)
        self.connection.connect(wait=True)

    def ask(self, number: int) -> None:
        headers = {"reply-to": "/temp-queue/answers", "correlation-id": f"question {number}"}
        self.connection.send(QUESTIONS, str(number), headers=headers)

    def on_message(self, frame: stomp.utils.Frame) -> None:
        self.answers.put((frame.headers["correlation-id"], frame.body))


def main(host: str, port: int) -> None:
    clerk = Clerk(host, port)
    asker = Asker(host, port)
    for number in (3, 14, 159):
        asker.ask(number)
    for _ in range(3):
        question, answer = asker.answers.get(timeout=10)
        print(f"{question}: {answer}")
    asker.connection.disconnect()
    clerk.connection.disconnect()


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:61613").rpartition(":")
    main(host, int(port))
