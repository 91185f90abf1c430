"""Where the broker of a query is, and the login for it: what the options say about that, and nothing secret."""

from dataclasses import dataclass, replace
from math import inf

from radiator.client.address import Address


@dataclass(frozen=True, slots=True)
class Connect:
    """Says where the broker is, how often a request is tried again when its connection is lost, and after how long.

    unreached_s: for how long at most, if the broker has not been reached yet. user: "" without a login. The files are
    read where a connection is made; "": none. Their content is never in here, since Spark keeps and shows this.
    """

    addresses: tuple[str, ...]
    retries: int
    retry_interval_s: float
    unreached_s: float = inf
    user: str = ""
    password_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""

    @property
    def timeout_s(self) -> float:
        """About how long the broker may be away."""
        return self.retries * self.retry_interval_s

    @property
    def reached(self) -> "Connect":
        """Returns a copy for a broker that another process of the query has reached."""
        return replace(self, unreached_s=inf)

    def __str__(self) -> str:
        return ", ".join(str(Address.parse(one)) for one in self.addresses)
