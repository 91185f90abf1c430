"""The transport of kombu, and the client below it."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "kombu-acks-when-received",
        "The transport acks a message when it has come, not when its task says so.",
        function="Channel._hand_on",
        old="consumer.callback(self._tag(received, tag, consumer.no_ack))",
        new="""
            if not consumer.no_ack and self.connection is not None:
                self.connection.broker.ack(received, confirm=None)
            consumer.callback(self._tag(received, tag, consumer.no_ack))
        """,
        also=(
            Edit(
                function="Channel.basic_ack",
                old="self._open.ask(self._open.broker.ack, received, confirm=None)",
                new="self._open.ask(bool, received)",
            ),
        ),
    ),
    Mutant(
        "kombu-does-not-tell-the-loop",
        "The loss of a connection is noticed, and nobody is told: kombu's event loop waits for ever.",
        function="SharedConnection._pump",
        old="""
            self._is_reported |= reports
            raise self._lose(error, is_asked=False) from error
        """,
        new="""
            self._is_reported = True
            self._lose(error, is_asked=False)
        """,
    ),
    Mutant(
        "kombu-takes-text-as-it-is",
        "A task of another program has its headers as text, where Celery has numbers, lists and None.",
        function="message:_opened",
        old='return {"headers": task_headers(received.headers, received.message_id), "properties": properties}, body',
        new='return {"headers": dict(received.headers), "properties": properties}, body',
    ),
    Mutant(
        "client-leaves-what-tls-has-read",
        "The client reads less than a record of TLS at a time; poll does not see what is left of it in OpenSSL.",
        function="ClientConnection.read",
        old="data = self._socket.recv(READ_BYTES)",
        new="data = self._socket.recv(1000)",
    ),
)
