"""Passwords as a configuration keeps them: `$scrypt$ln=15,r=8,p=1$SALT$HASH`, the PHC text of scrypt (RFC 7914).

ln: the binary logarithm of N. SALT and HASH: base64 without padding. The bounds ensure that no text in a file makes a
login take a gigabyte, or a minute.
"""

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass, field

from radiator.model.limits import SCRYPT_MEMORY_MAX_BYTES

SALT_BYTES = 16
HASH_BYTES = 32
_BYTES_MIN, _BYTES_MAX = 16, 64  # of a salt, and of a hash
_LN_MIN, _LN_MAX = 10, 17
_R_MAX, _P_MAX = 32, 4

_TEXT = re.compile(r"\$scrypt\$ln=([0-9]{1,2}),r=([0-9]{1,2}),p=([0-9]{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)")


@dataclass(slots=True, frozen=True)
class Cost:
    """The cost of one hash: 128 * r * 2^ln bytes, and time in proportion to that and p."""

    ln: int = 15
    r: int = 8
    p: int = 1

    @property
    def memory_bytes(self) -> int:
        return 128 * self.r << self.ln


@dataclass(slots=True, frozen=True)
class PasswordHash:
    """A stored password: its hash, and how that was made."""

    cost: Cost
    salt: bytes
    digest: bytes = field(repr=False)

    def fits(self, password: bytes) -> bool:
        """Whether it is this password. Takes as long if it is not."""
        return hmac.compare_digest(_digest(self.cost, self.salt, password, len(self.digest)), self.digest)

    def __str__(self) -> str:
        cost = self.cost
        return f"$scrypt$ln={cost.ln},r={cost.r},p={cost.p}${_text(self.salt)}${_text(self.digest)}"


def made(password: bytes, salt: bytes, cost: Cost = Cost()) -> PasswordHash:
    """Returns the hash of a password. salt: SALT_BYTES of randomness."""
    return PasswordHash(cost, salt, _digest(cost, salt, password, HASH_BYTES))


def dummy(cost: Cost) -> PasswordHash:
    """Returns a hash that no password fits, and that costs as much."""
    return PasswordHash(cost, bytes(SALT_BYTES), bytes(HASH_BYTES))


def parse(text: str) -> PasswordHash:
    """Raises ValueError, a clause that does not repeat the text."""
    found = _TEXT.fullmatch(text)
    if found is None:
        right = "`radiator password` makes one"
        raise ValueError(f"is not a PHC text of scrypt, as $scrypt$ln=15,r=8,p=1$SALT$HASH; {right}")
    cost = Cost(*map(int, found.groups()[:3]))
    if not (_LN_MIN <= cost.ln <= _LN_MAX and 1 <= cost.r <= _R_MAX and 1 <= cost.p <= _P_MAX):
        bounds = f"ln must be {_LN_MIN} to {_LN_MAX}, r 1 to {_R_MAX}, p 1 to {_P_MAX}"
        raise ValueError(f"has ln={cost.ln},r={cost.r},p={cost.p}; {bounds}")
    if cost.memory_bytes > SCRYPT_MEMORY_MAX_BYTES:
        takes = f"has ln={cost.ln},r={cost.r}, with which a login takes {cost.memory_bytes >> 20} MiB"
        raise ValueError(f"{takes}; at most {SCRYPT_MEMORY_MAX_BYTES >> 20} are allowed")
    salt, digest = _octets(found[4]), _octets(found[5])
    for what, octets in (("salt", salt), ("hash", digest)):
        if not _BYTES_MIN <= len(octets) <= _BYTES_MAX:
            raise ValueError(f"has a {what} of {len(octets)} bytes; it must have {_BYTES_MIN} to {_BYTES_MAX}")
    return PasswordHash(cost, salt, digest)


def _digest(cost: Cost, salt: bytes, password: bytes, size: int) -> bytes:
    # OpenSSL counts its own blocks besides N * r, and refuses with exactly that much
    most_bytes = cost.memory_bytes + 1024 * cost.r * (cost.p + 2)
    return hashlib.scrypt(password, salt=salt, n=1 << cost.ln, r=cost.r, p=cost.p, maxmem=most_bytes, dklen=size)


def _text(octets: bytes) -> str:
    return base64.b64encode(octets).decode().rstrip("=")


def _octets(text: str) -> bytes:
    try:
        octets = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error:
        octets = b""
    if _text(octets) != text:
        raise ValueError("has a salt or a hash that is not base64 without padding; `radiator password` makes them")
    return octets
