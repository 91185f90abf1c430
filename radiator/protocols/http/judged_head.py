"""The head of a request, with the route that it leads to: judged before anything of the body is read."""

from dataclasses import dataclass, field

from radiator.model.limits import Limits
from radiator.model.settings import WebSettings
from radiator.protocols.http.access import check_host, check_site
from radiator.protocols.http.exchange import Route
from radiator.protocols.http.head import BadRequest, RequestHead
from radiator.protocols.http.routes import found_route


@dataclass(slots=True)
class JudgedHead:
    """data: the bytes of the head: a head with the same bytes need not be judged again. route: None: this is a CORS
    preflight, or the head is not judged yet. names: the variable parts of the path, decoded. body_max: the most bytes
    of the body.
    """

    data: bytes = field(repr=False)
    head: RequestHead
    route: Route | None = None
    names: tuple[str, ...] = ()
    body_max: int = 0

    def judge(self, web: WebSettings, limits: Limits) -> None:
        """Finds the route. Raises BadRequest if the Host or Origin is not let in, or the path does not exist."""
        head = self.head
        check_host(head, web)
        check_site(head, web)
        if head.method == "OPTIONS" and b"access-control-request-method" in head.headers:
            return
        self.route, self.names = found_route(head)
        if web.console and self.route.to_browsers is not None and _asks_for_page(head):
            self.route = self.route.to_browsers
        if self.route.is_console and not web.console:
            raise BadRequest(404, "There is no console here: `console` in [http] is false.")
        self.body_max = self.route.body_max(head, limits)


def _asks_for_page(head: RequestHead) -> bool:
    """Whether a browser opens the address: it then accepts HTML, which programs do not ask for."""
    return b"text/html" in head.headers.get(b"accept", b"")
