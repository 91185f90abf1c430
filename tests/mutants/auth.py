"""Who a client is: passwords, tokens, what is remembered and what is counted."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "any-password-fits",
        "Whatever is said for a password is right.",
        function="PasswordHash.fits",
        old="return hmac.compare_digest(_digest(self.cost, self.salt, password, len(self.digest)), self.digest)",
        new="return True",
    ),
    Mutant(
        "expired-token-alive",
        "A token lets its machine in after it has run out.",
        function="fitting",
        old="if fits and (token.until_ms is None or now_ms < token.until_ms):",
        new="if fits:",
    ),
    Mutant(
        "revoked-token-stays",
        "A connection goes on after the token that it has logged in with was taken out.",
        function="Authorization.check_login",
        old="if not principal.proof or user is None:",
        new="if True:",
    ),
    Mutant(
        "expired-jwt-alive",
        "A JSON Web Token lets somebody in after it has run out.",
        function="JwtMechanism._say",
        old="return is_meant and is_known and begin_s * 1000 <= now_ms < end_s * 1000",
        new="return is_meant and is_known and begin_s * 1000 <= now_ms",
        also=(
            Edit(
                function="Authenticator._is_over",
                old="return principal.until_ms is not None and self.now_ms() >= principal.until_ms",
                new="return False",
            ),
        ),
    ),
    Mutant(
        "failures-uncounted",
        "A password may be guessed as often as there is time for hashes.",
        function="Authenticator._check",
        old="self.of_names.add(name, now_s)",
        new="pass",
        also=(Edit(function="Authenticator._check", old="self.of_networks.add(network, now_s)", new=""),),
    ),
    Mutant(
        "float-expiry-taken",
        "A time that is no whole number counts as the end of a JSON Web Token.",
        function="JwtMechanism._say",
        old="""
            if type(begin_s) is not int or type(end_s) is not int or not 0 <= begin_s <= end_s <= JWT_TIME_MAX_S:
        """,
        new="if type(begin_s) is not int or not isinstance(end_s, int | float) or not 0 <= begin_s <= end_s:",
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
        "jwt-for-another-audience",
        "A JSON Web Token that was made for another service lets its bearer in here.",
        function="JwtMechanism._say",
        old="""
            is_meant = settings.audience in audience if isinstance(audience, list) else audience == settings.audience
        """,
        new="is_meant = True",
    ),
    Mutant(
        "jwt-of-a-user-who-takes-none",
        "A JSON Web Token logs in a user whose table does not say jwt = true.",
        function="JwtMechanism.proves",
        old="return claims is not None and user is not None and user.jwt and self._say(claims, name, now_ms)",
        new="return claims is not None and user is not None and self._say(claims, name, now_ms)",
    ),
    Mutant(
        "jwt-of-keys-that-are-gone",
        "A JSON Web Token that was right goes on to be, though its key is no longer in the file.",
        function="Authenticator.use",
        old="if is_other_jwt:",
        new="if False:",
    ),
    Mutant(
        "jwt-remembered-past-its-end",
        "A JSON Web Token that was right once lets somebody in after it has run out.",
        function="Authenticator._is_over",
        old="return principal.until_ms is not None and self.now_ms() >= principal.until_ms",
        new="return False",
    ),
    Mutant(
        "login-remembered-for-ever",
        "A password that was right lets clients in after its user has another one.",
        function="Authenticator.use",
        old="self._right = {key: one for key, one in self._right.items() if one.name not in changed}",
        new="",
    ),
    Mutant(
        "public-key-as-secret",
        "A JSON Web Token has the public key, which everybody knows, taken for the secret that it is signed with.",
        function="JwtMechanism._verified",
        old="if key is None:",
        new="""
            if str(algorithm).startswith("HS"):
                import hmac
                signed, _, signature = secret.rpartition(b".")
                made = base64.urlsafe_b64encode(hmac.digest(self.text, signed, "sha256")).rstrip(b"=")
                return _unverified(secret) if made == signature else None
            if key is None:
        """,
    ),
    Mutant(
        "unknown-name-without-hash",
        "A name that nobody has is answered at once, so that names can be found out.",
        function="PasswordMechanism.proves",
        old="self._dummy(users, name).fits(secret)",
        new="",
    ),
)
