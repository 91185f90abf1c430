"""What the server tells all sessions of HTTP; its readiness several times a second."""

from dataclasses import dataclass


@dataclass(slots=True)
class ServerState:
    """not_ready: of REASONS (model/administration.py), why clients should be sent elsewhere; empty: nothing is against
    it; None: it is not known yet, so they should. node: this one's name; "": it is not one of several.
    """

    not_ready: frozenset[str] | None = None
    node: str = ""

    def is_ready(self, exclude: frozenset[str]) -> bool:
        """Whether clients should be sent here, where these reasons do not count."""
        return self.not_ready is not None and self.not_ready <= exclude
