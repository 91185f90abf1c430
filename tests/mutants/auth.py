"""Who a client is: passwords, tokens, what is remembered and what is counted."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "expired-token-alive",
        "A token lets its machine in after it has run out.",
        function="fitting",
        old="if fits and (token.until_ms is None or now_ms < token.until_ms):",
        new="if fits:",
    ),
    Mutant(
        "failures-uncounted",
        "A password may be guessed as often as there is time for hashes.",
        function="Authenticator._check",
        old="self.of_names.add(name, now_s)",
        new="",
        also=(Edit(function="Authenticator._check", old="self.of_networks.add(network, now_s)", new=""),),
    ),
    Mutant(
        "frame-before-the-verdict",
        "What comes behind CONNECT with it is carried out before its login is judged.",
        function="StompSession._log_in",
        old="if isinstance(found, Principal):",
        new="""
            if self._unread and not isinstance(found, Principal):
                found = self._principal
            if isinstance(found, Principal):
        """,
    ),
    Mutant(
        "hash-compared-openly",
        "How long the comparison of a hash takes tells how much of it is right.",
        function="PasswordHash.fits",
        old="return hmac.compare_digest(_digest(self.cost, self.salt, password, len(self.digest)), self.digest)",
        new="return _digest(self.cost, self.salt, password, len(self.digest)) == self.digest",
    ),
    Mutant(
        "login-remembered-for-ever",
        "A password that was right lets clients in after its user has another one.",
        function="Authenticator.use",
        old="self._right = {key: one for key, one in self._right.items() if one.name not in changed}",
        new="",
    ),
    Mutant(
        "unknown-name-without-hash",
        "A name that nobody has is answered at once, so that names can be found out.",
        function="PasswordMechanism.proves",
        old="self._dummy(users, name).fits(secret)",
        new="",
    ),
)
