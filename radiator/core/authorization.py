"""Whether a principal may carry out a command. Every command is checked here before it is carried out; nothing else in
the core decides by the principal.

The check is made in three places: at the broker's table of handlers, for clients and linked nodes, and again for each
retry of a command that waits for room; at a request to /admin, once it is parsed; and at the SENDs of a prepared
transaction, when they go into their destinations. Without an authorizer all is allowed, and no command costs more.

When the users have changed, each open connection and its subscriptions are checked again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from radiator.core.connections import Connection, Subscription, TopicSubscription
from radiator.core.rights import Rights, rights_of
from radiator.core.routing.waiting import Waitable
from radiator.core.usage import Usages
from radiator.model.addresses import TOPIC
from radiator.model.administration import AdminCommand, AskRight
from radiator.model.commands import Administer, Command, Commit, Disconnect, PublishAll, Send, Subscribe
from radiator.model.errors import FORBIDDEN, Refusal
from radiator.model.principal import Principal, RecognisedBy
from radiator.model.users import ANONYMOUS, User

Handler = Callable[..., Waitable | None]
Check = Callable[[Principal, Command | AdminCommand], None]


class Authorizer(Protocol):
    """Knows the rights. It is called within a turn, so it decides by what it has in memory."""

    def check(self, principal: Principal, command: Command | AdminCommand) -> None:
        """Raises Refusal where the principal may not carry out the command: that command alone is refused.

        A command that waits is checked at each try; one within a transaction when it is received, and again when its
        COMMIT carries it out. A request to /admin is checked twice: as the Administer that carried it, and as the
        command that it requests. Any other exception is a bug, and ends the process.
        """


class Authorization:
    """authorizer: None where every principal may do everything. own_uid: the user id of the broker's process. usages:
    what users have in use; their bounds are checked in the same places.
    """

    __slots__ = ("authorizer", "guarded", "handlers", "own_uid", "usages")

    def __init__(self, authorizer: Authorizer | None, usages: Usages, own_uid: int = 0) -> None:
        self.authorizer = authorizer
        self.own_uid = own_uid
        self.usages = usages
        usages.use(self.users)
        self.handlers: dict[type, Handler] = {}
        self.guarded: dict[type, Handler] = {}

    def guard(self, handlers: dict[type, Handler]) -> Mapping[type, Handler]:
        """Returns a table of the handlers, each behind its check; `use` changes that same table."""
        self.handlers = handlers
        self._fill()
        return self.guarded

    @property
    def users(self) -> Mapping[str, User]:
        """The users of the configuration in force."""
        return self.authorizer.users if isinstance(self.authorizer, Rights) else {}

    def use(self, users: Mapping[str, User]) -> bool:
        """Takes these users from now on. Returns whether that is a change: what exists must be checked again then."""
        if users == self.users:
            return False
        self.authorizer = rights_of(users, self.own_uid)
        self.usages.use(users)
        self._fill()
        return True

    def _fill(self) -> None:
        authorizer = self.authorizer
        if authorizer is None:
            self.guarded.update(self.handlers)
        else:
            check, usages = authorizer.check, self.usages
            for command, handler in self.handlers.items():
                guard = _GUARDS.get(command, _guarded)
                self.guarded[command] = guard(check, handler, usages)

    def check_request(self, connection: Connection, command: AdminCommand) -> None:
        """Raises Refusal where the principal may not do what a request to /admin asks for."""
        if type(command) is AskRight and command.user == self.lease_owner(connection):
            self.check_present(connection)  # users may ask about themselves
            return
        if self.authorizer is not None:
            self.authorizer.check(connection.principal, command)

    def allows(self, connection: Connection, command: AdminCommand) -> bool:
        """Whether the connection's principal may ask for that."""
        try:
            self.check_request(connection, command)
        except Refusal:
            return False
        return True

    def check_ending(self, connection: Connection, destination: str) -> None:
        """Raises Refusal where the principal may not end a durable subscription to that destination, even another
        connection's. Who may subscribe to it may: they could take everything that it has collected.
        """
        if self.authorizer is not None:
            self.authorizer.check(connection.principal, Subscribe(connection.number, b"", destination))

    def check_waiting(self, connection: Connection, command: Command) -> None:
        """Raises Refusal where that command, which is being carried out, would be refused now."""
        if self.authorizer is not None:
            self.authorizer.check(connection.principal, command)

    def lease_owner(self, connection: Connection) -> str:
        """Returns whose a client's leases are: the name of its user; "": there are no users, and all clients share
        them.
        """
        if self.authorizer is None:
            return ""
        principal = connection.principal
        return ANONYMOUS if principal.recognised_by is RecognisedBy.NOTHING else principal.name

    def check_owner(self, owner: Connection, name: str) -> None:
        """Raises Refusal where nobody owns the leases of that name any more."""
        self.check_present(owner)
        if self.lease_owner(owner) != name:
            raise Refusal(FORBIDDEN, "There are users now, and each lease belongs to one of them.")

    def act_for(self, owner: Connection, connection: Connection) -> None:
        """Gives that owner of leases the principal of this client."""
        owner.principal = connection.principal

    def check_present(self, connection: Connection) -> None:
        """Raises Refusal where its principal may do nothing any more, not even end in order."""
        if self.authorizer is not None:
            self.authorizer.check(connection.principal, Disconnect(connection.number))

    def check_login(self, connection: Connection) -> int | None:
        """Returns when the credential that its client logged in with runs out, as Principal.until_ms. Raises Refusal if
        its user no longer has that credential.
        """
        principal = connection.principal
        user = self.users.get(principal.name)
        if not principal.proof or user is None:
            return principal.until_ms
        if principal.recognised_by is RecognisedBy.CERTIFICATE:
            if user.certificate == principal.proof:
                return principal.until_ms
        else:
            for token in user.tokens:
                if token.sha256 == principal.proof:
                    return token.until_ms
        sentence = f"The credential that user {user.name} logged in with was removed: log in with another."
        raise Refusal(FORBIDDEN, sentence)

    def check_renewed(self, connection: Connection, principal: Principal) -> None:
        """Raises Refusal if another user than its own has logged in again on that connection."""
        name = connection.principal.name
        if principal.name != name:
            raise Refusal(FORBIDDEN, f"This connection is that of {name}, and stays so: open another one.")

    def run_out(self, connection: Connection) -> Refusal:
        """Returns the refusal for a client whose credential has run out."""
        name = connection.principal.name
        return Refusal(FORBIDDEN, f"The credential that user {name} logged in with has expired: log in with another.")

    def check_subscription(self, connection: Connection, subscription: Subscription | TopicSubscription) -> None:
        """Raises Refusal where that SUBSCRIBE would be refused now."""
        if isinstance(subscription, TopicSubscription):
            destination = f"/{TOPIC}/{subscription.pattern}"
        else:
            destination = subscription.destination
        if self.authorizer is not None and destination:
            again = Subscribe(connection.number, subscription.name, destination)
            self.authorizer.check(connection.principal, again)

    def check_prepared(self, principal: Principal | None, sends: Sequence[Send]) -> None:
        """Raises Refusal where this principal may no longer send what it has prepared, before that goes into its
        destinations. None: it was checked when the transaction was committed, before the last start.
        """
        if self.authorizer is not None and principal is not None:
            for send in sends:
                self.authorizer.check(principal, send)
        # what they create counts for the user who prepared them; the end of the turn resets this
        self.usages.acting = self.usages.of(principal)


def _guarded(check: Check, handler: Handler, usages: Usages) -> Handler:
    def guarded(connection: Connection, command: Command) -> Waitable | None:
        usages.acting = connection.usage
        check(connection.principal, command)
        return handler(connection, command)

    return guarded


def _guarded_send(check: Check, handler: Handler, usages: Usages) -> Handler:
    """Guards what counts for max_messages_per_s: it counts once, when it is carried out or refused."""

    def guarded(connection: Connection, command: Command) -> Waitable | None:
        usages.acting = usage = connection.usage
        if usage is None or usage.bounds.max_messages_per_s is None:
            check(connection.principal, command)
            return handler(connection, command)
        wait = usages.rate_wait(usage, connection)
        if wait is not None:
            return wait
        usage.tokens -= 1
        check(connection.principal, command)
        blocked = handler(connection, command)
        if blocked is not None:
            usage.tokens += 1
        return blocked

    return guarded


def _guarded_publish(check: Check, handler: Handler, usages: Usages) -> Handler:
    def guarded(connection: Connection, command: PublishAll) -> Waitable | None:
        usages.acting = usage = connection.usage
        check(connection.principal, command)
        if usage is None or usage.bounds.max_messages_per_s is None:
            return handler(connection, command)
        if usage.rate_wait(connection, usages.context.now_s) is not None:
            most = usage.bounds.max_messages_per_s
            raise Refusal("blocked", f"The user {usage.name} has sent too fast: max_messages_per_s is {most:g}.")
        usage.tokens -= len(command.sends)
        blocked = handler(connection, command)
        if blocked is not None:
            usage.tokens += len(command.sends)
        return blocked

    return guarded


def _guarded_commit(check: Check, handler: Handler, usages: Usages) -> Handler:
    def guarded(connection: Connection, command: Commit) -> Waitable | None:
        usages.acting = connection.usage
        check(connection.principal, command)
        transaction = connection.transactions.get(command.transaction)
        for sent in () if transaction is None else transaction.commands():
            check(connection.principal, sent)
        return handler(connection, command)

    return guarded


_GUARDS: dict[type, Callable[[Check, Handler, Usages], Handler]] = {
    Send: _guarded_send,
    PublishAll: _guarded_publish,
    Administer: _guarded_send,
    Commit: _guarded_commit,
}
