"""Unix sockets: connections within this machine, and the file by which clients find the socket. Linux only.

Permission to write to that file is permission to connect, so its mode must be right from the moment it exists, before
any connection is accepted. A file left by a broker that was killed is replaced; anything else at the path stays.
"""

import contextlib
import errno
import grp
import os
import select
import socket
import stat
import struct
from pathlib import Path

from radiator.model.errors import RadiatorError
from radiator.model.limits import LISTEN_BACKLOG, SEND_BUFFER_BYTES, Limits
from radiator.model.principal import unix_principal
from radiator.model.settings import UNIX_MODE, UnixAddress
from radiator.server.transport import PeerActivity, SocketTransport

_CREDENTIALS = struct.Struct("=iII")  # struct ucred of linux/socket.h: pid, uid, gid


def ask(connected: socket.socket) -> PeerActivity:
    """Returns a state in which nothing is unacknowledged: the system closes the sockets of a process that has ended,
    and a live process need not answer. An error is reported once the other end was closed with input unread.
    """
    poll = select.poll()
    poll.register(connected, 0)  # poll reports errors without being asked for them
    return PeerActivity(is_reset=any(event & select.POLLERR for _, event in poll.poll(0)))


class UnixAcceptor:
    """Listens at a path. Creates the file, and removes it at the end if it is still its own."""

    def __init__(self, address: UnixAddress, limits: Limits) -> None:
        """Raises OSError if the path cannot be listened on; RadiatorError if it is taken, or the group does not
        exist.
        """
        check(address)
        _make_way(address.path)
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._file: tuple[int, int] | None = None
        try:
            self._bind()
            if address.group:
                os.chown(address.path, -1, _group(address))
            os.chmod(address.path, address.mode)
            self._socket.listen(LISTEN_BACKLOG)  # before this call the system refuses every client
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
        pid, uid, gid = _CREDENTIALS.unpack(found)
        return SocketTransport(connected, f"unix/pid:{pid}/uid:{uid}", f"uid:{uid}", ask, unix_principal(uid, gid))

    def close(self) -> None:
        if self._file is not None and _identity(self.address.path) == self._file:
            with contextlib.suppress(OSError):
                self.address.path.unlink()
        self._socket.close()


def check(address: UnixAddress) -> None:
    """Raises what a start with this address would raise because of its directory, its group, or a file in its place,
    but creates and removes nothing. OSError: the directory does not exist, or this user may not use it.
    """
    if address.mistake:
        raise RadiatorError(f"Cannot listen on {address.mistake}.")
    directory = address.path.parent
    os.stat(f"{directory}/.")  # `/.`: a file in the place of the directory is refused too
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if address.group:
        _group(address)
    _socket_at(address.path)


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


def _socket_at(path: Path) -> bool:
    """Whether a socket is at the path. Raises RadiatorError if anything else is."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode):
        kind = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "no socket"
        raise RadiatorError(
            f"Cannot listen on {path}: it is {kind}, which is not replaced. Remove it, or give another path."
        )
    return True


def _make_way(path: Path) -> None:
    """Removes a socket that no process serves any more. Raises RadiatorError if one does."""
    if not _socket_at(path):
        return
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
            pass  # its backlog is full, so a process serves it
        except OSError as error:
            if error.errno != errno.EPROTOTYPE:  # a process serves it, with datagrams for example
                raise
        return True
