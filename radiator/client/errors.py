"""What can go wrong beside a Refusal of the broker and a Violation of the caller: each text is a whole sentence."""

from radiator.model.errors import RadiatorError


class ConnectionLost(RadiatorError):
    """There is no connection (any more). What was not confirmed may or may not have happened."""


class TransactionLost(ConnectionLost):
    """The transaction was open on a connection that is lost: nothing of it has happened, or will."""


class NoAnswer(RadiatorError):
    """The answer did not come in time. The connection is as it was."""
