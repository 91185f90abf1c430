"""The server's state as sessions of HTTP see it. Its readiness is updated several times a second."""

from dataclasses import dataclass


@dataclass(slots=True)
class ServerState:
    """not_ready: why clients should be sent elsewhere: some of REASONS (model/administration.py); empty: the broker is
    ready; None: not known yet, which counts as not ready. node: this node's name; "": it has none.
    """

    not_ready: frozenset[str] | None = None
    node: str = ""

    def is_ready(self, exclude: frozenset[str]) -> bool:
        """Whether clients should be sent here. exclude: reasons that do not count."""
        return self.not_ready is not None and self.not_ready <= exclude
