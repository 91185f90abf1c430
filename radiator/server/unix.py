"""Unix sockets: connections of this machine alone, and the file by which they are found. Linux.

Who may connect is who may write to that file, so its mode is right from the moment it is there, and before anybody is
accepted. A file that is left of a broker that was killed is replaced; whatever else stands at the path stays.
"""

import contextlib
import grp
import os
import select
import socket
import stat
import struct
from pathlib import Path

from radiator.model.errors import RadiatorError
from radiator.model.limits import LISTEN_BACKLOG, SEND_BUFFER_BYTES, Limits
from radiator.model.settings import UNIX_MODE, UnixAddress
from radiator.server.transport import Answer, SocketTransport

_CREDENTIALS = struct.Struct("=iII")  # struct ucred of linux/socket.h: pid, uid, gid


def ask(connected: socket.socket) -> Answer:
    """The system closes what belongs to a process that is gone, and a process that is there need not answer: nobody is
    ever owing. An error is there once the other end was closed with something unread.
    """
    poll = select.poll()
    poll.register(connected, 0)  # errors are reported in any case
    return Answer(is_reset=any(event & select.POLLERR for _, event in poll.poll(0)))


class UnixAcceptor:
    """Listens at a path, whose file it makes, and removes at the end if it is still there."""

    def __init__(self, address: UnixAddress, limits: Limits) -> None:
        """OSError where the path cannot be had; RadiatorError where it is taken, or the group is not there."""
        if address.mistake:
            raise RadiatorError(f"Cannot listen on {address.mistake}.")
        _make_way(address.path)
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._file: tuple[int, int] | None = None
        try:
            self._bind()
            if address.group:
                os.chown(address.path, -1, _group(address))
            os.chmod(address.path, address.mode)
            self._socket.listen(LISTEN_BACKLOG)  # until now the system refuses everybody
            self._socket.setblocking(False)
        except BaseException:
            self.close()
            raise
        self.fileno = self._socket.fileno

    def _bind(self) -> None:
        umask = os.umask(0o777 & ~UNIX_MODE)
        try:
            self._socket.bind(str(self.address.path))
        finally:
            os.umask(umask)
        self._file = _identity(self.address.path)

    def accept(self) -> SocketTransport:
        connected, _ = self._socket.accept()
        try:
            connected.setblocking(False)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES // 2)  # the system doubles it
            found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            connected.close()
            raise
        pid, uid, _ = _CREDENTIALS.unpack(found)
        return SocketTransport(connected, f"unix/pid:{pid}/uid:{uid}", f"uid:{uid}", ask)

    def close(self) -> None:
        if self._file is not None and _identity(self.address.path) == self._file:
            with contextlib.suppress(OSError):
                self.address.path.unlink()
        self._socket.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _group(address: UnixAddress) -> int:
    try:
        return grp.getgrnam(address.group).gr_gid
    except KeyError:
        raise RadiatorError(
            f"Cannot listen on {address}: there is no group {address.group!r}. Make it, or give another one."
        ) from None


def _make_way(path: Path) -> None:
    """Removes a socket that nobody serves any more."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no socket"
        raise RadiatorError(
            f"Cannot listen on {path}: what is there is {kind}, and stays. Remove it, or give another path."
        )
    if _is_served(path):
        raise RadiatorError(f"Cannot listen on {path}: another process serves it. Stop that one, or give another path.")
    os.unlink(path)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.setblocking(False)
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            pass  # more wait there than it has accepted
        return True
