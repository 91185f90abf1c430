"""What Python's ssl does not tell about certificates: when the broker's own expires, its key and names, and which user
a client's certificate stands for. X.509 is as in RFC 5280.
"""

import calendar
import hashlib
import ipaddress
import ssl
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from radiator.model.limits import CERTIFICATE_WARN_DAYS
from radiator.model.users import User

_SEQUENCE, _BITS, _BYTES, _OID, _UTC_TIME, _TIME, _VERSION = 0x30, 0x03, 0x04, 0x06, 0x17, 0x18, 0xA0
_EXTENSIONS, _DNS_NAME, _IP_ADDRESS = 0xA3, 0x82, 0x87
_ALT_NAMES = "551d11"  # subjectAltName
_RSA, _EC = "2a864886f70d010101", "2a8648ce3d0201"
_KINDS = {_RSA: "RSA", _EC: "EC", "2a864886f70d01010a": "RSA-PSS", "2b6570": "Ed25519", "2b6571": "Ed448"}
_CURVES = {"2a8648ce3d030107": "P-256", "2b81040022": "P-384", "2b81040023": "P-521"}
_NAMES_SHOWN = 8

# OpenSSL's names of attributes, and the short ones of RFC 4514, section 3
_SHORT = {
    "commonName": "CN", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
    "organizationalUnitName": "OU", "countryName": "C", "streetAddress": "STREET", "domainComponent": "DC",
    "userId": "UID",
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Certificate:
    """valid_from_s, valid_to_s: seconds since the epoch. key: its kind and size: `EC P-256`, `RSA 2048`, `Ed25519`.
    sha256: of the whole certificate, in hexadecimal digits. names: its DNS names and IP addresses.
    """

    valid_from_s: int
    valid_to_s: int
    key: str
    sha256: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Returns the text that the report of a reload has for it."""
        return f"{self._for_whom}; valid until {day_text(self.valid_to_s)}; {self.key}, SHA-256 {self.sha256[:16]}"

    @property
    def _for_whom(self) -> str:
        more = len(self.names) - _NAMES_SHOWN
        return "for " + (", ".join(self.names[:_NAMES_SHOWN]) + f" and {more} more" * (more > 0) or "no name")

    def warning(self, now_s: float) -> str:
        """Returns a sentence if clients refuse the certificate, or soon will; else ""."""
        what = f"The certificate {self._for_whom},"
        if now_s < self.valid_from_s:
            return f"{what} is valid from {day_text(self.valid_from_s)} on: until then clients refuse it."
        if now_s >= self.valid_to_s:
            return f"{what} was valid until {day_text(self.valid_to_s)}: clients refuse it. Renew it."
        if self.days_left(now_s) < CERTIFICATE_WARN_DAYS:
            return f"{what} is valid until {day_text(self.valid_to_s)} only: renew it before that."
        return ""

    def days_left(self, now_s: float) -> int:
        """Returns the whole days until it expires; below 0: it has expired."""
        return int((self.valid_to_s - now_s) // 86_400)


def day_text(time_s: int) -> str:
    """Returns the date and time of day of seconds since the epoch, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(time_s))


def read_certificate(pem: str) -> Certificate:
    """Returns the first certificate in that text. Raises ValueError, with a clause, if there is none."""
    begin, end = pem.find(ssl.PEM_HEADER), pem.find(ssl.PEM_FOOTER)
    if not 0 <= begin < end:
        raise ValueError(f"has no {ssl.PEM_HEADER}")
    try:
        der = ssl.PEM_cert_to_DER_cert(pem[begin : end + len(ssl.PEM_FOOTER)])
    except ValueError:  # the words of this error are about codecs and padding
        raise ValueError(f"has what is not base64 after {ssl.PEM_HEADER}") from None
    whole, _ = _value(der, 0, _SEQUENCE)
    signed, _ = _value(whole, 0, _SEQUENCE)
    at = _behind(signed, 0) if signed[:1] == bytes([_VERSION]) else 0
    for _ in ("serial number", "signature", "issuer"):
        at = _behind(signed, at)
    validity, at = _value(signed, at, _SEQUENCE)
    at = _behind(signed, at)  # the subject
    key, at = _value(signed, at, _SEQUENCE)
    second = _behind(validity, 0)
    sha256 = hashlib.sha256(der).hexdigest()
    return Certificate(_time(validity, 0), _time(validity, second), _key(key), sha256, _names(signed, at))


def _element(data: bytes, at: int) -> tuple[int, int, int]:
    """Returns an element's tag, and where its value begins and ends."""
    if len(data) < at + 2:
        raise ValueError("is cut short")
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, begin = int.from_bytes(data[begin : begin + size], "big"), begin + size
    if begin + length > len(data):
        raise ValueError("is cut short")
    return data[at], begin, begin + length


def _value(data: bytes, at: int, tag: int) -> tuple[bytes, int]:
    """Returns the value of an element, which must have that tag, and where the next element begins."""
    found, begin, end = _element(data, at)
    if found != tag:
        raise ValueError(f"has an element of type {found:#x} in the place of one of {tag:#x}")
    return data[begin:end], end


def _behind(data: bytes, at: int) -> int:
    return _element(data, at)[2]


def _time(data: bytes, at: int) -> int:
    tag, begin, end = _element(data, at)
    text = data[begin:end].decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if text[:2] >= "50" else "20") + text  # RFC 5280, 4.1.2.5.1
    elif tag != _TIME:
        raise ValueError(f"has a time of type {tag:#x}")
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))


def _names(signed: bytes, at: int) -> tuple[str, ...]:
    """Returns the DNS names and IP addresses of subjectAltName, one of the extensions that follow the key."""
    while at < len(signed) and signed[at] != _EXTENSIONS:
        at = _behind(signed, at)
    if at == len(signed):
        return ()
    extensions, _ = _value(_value(signed, at, _EXTENSIONS)[0], 0, _SEQUENCE)
    at = 0
    while at < len(extensions):
        extension, at = _value(extensions, at, _SEQUENCE)
        oid, behind = _value(extension, 0, _OID)
        if oid.hex() == _ALT_NAMES:
            if extension[behind : behind + 1] != bytes([_BYTES]):
                behind = _behind(extension, behind)  # the flag that it is critical
            names, _ = _value(_value(extension, behind, _BYTES)[0], 0, _SEQUENCE)
            return tuple(_each_name(names))
    return ()


def _each_name(names: bytes) -> Iterator[str]:
    at = 0
    while at < len(names):
        tag, begin, at = _element(names, at)
        if tag == _DNS_NAME:
            yield names[begin:at].decode("ascii", "backslashreplace")
        elif tag == _IP_ADDRESS:
            yield str(ipaddress.ip_address(names[begin:at]))


def _key(data: bytes) -> str:
    algorithm, at = _value(data, 0, _SEQUENCE)
    oid, parameters = _value(algorithm, 0, _OID)
    kind = oid.hex()
    name = _KINDS.get(kind, "an unknown kind")
    if kind == _EC:
        curve, _ = _value(algorithm, parameters, _OID)
        return f"{name} {_CURVES.get(curve.hex(), 'on another curve')}"
    if kind == _RSA:
        bits, _ = _value(data, at, _BITS)
        modulus, begin, end = _element(_value(bits, 1, _SEQUENCE)[0], 0)
        numbers = _value(bits, 1, _SEQUENCE)[0]
        return f"{name} {int.from_bytes(numbers[begin:end], 'big').bit_length()}"
    return name


def subject_text(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Returns a subject, given as `ssl` does, in the form of RFC 4514: `CN=ops,O=Shop`, the last part first."""
    parts = ["+".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in part) for part in subject]
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    text = "".join(f"\\{one}" if one in '",+;<>\\' else "\\00" if one == "\0" else one for one in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if value[1:].endswith(" ") else text


def ends_s(cas: Iterable[Mapping[str, Any]]) -> dict[Any, int]:
    """Returns when each CA, given as `ssl` does, expires, by its subject. Of CAs with the same subject the one that
    expires last counts, since a renewed CA keeps its subject.
    """
    found: dict[Any, int] = {}
    for one in cas:
        end_s = int(ssl.cert_time_to_seconds(one["notAfter"]))
        found[one["subject"]] = max(end_s, found.get(one["subject"], end_s))
    return found


def end_s(found: Mapping[str, Any], cas: Mapping[Any, int]) -> int:
    """Returns until when a verified certificate, given as `ssl` does, would still be verified: until it or the CA that
    has signed it expires. cas: the trusted CAs, as `ends_s` returns them. If an intermediate CA has signed it, the CA
    that expires last counts.
    """
    own_s = int(ssl.cert_time_to_seconds(found["notAfter"]))
    return min(own_s, cas.get(found.get("issuer"), max(cas.values(), default=own_s)))


def user_of(found: Mapping[str, Any], users: Iterable[User]) -> User | None:
    """Returns the user whose `certificate` is the subject, or a DNS name, of a verified certificate; None: nobody's. A
    `certificate` with a `=` is compared with subjects only, so no DNS name can pass for a subject.
    """
    subject = subject_text(found.get("subject", ()))
    names = {value.lower() for kind, value in found.get("subjectAltName", ()) if kind == "DNS" and value.isascii()}
    for user in users:
        wanted = user.certificate
        if wanted and (wanted == subject if "=" in wanted else wanted.lower() in names):
            return user
    return None
