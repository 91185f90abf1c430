"""A unix socket as a listener: its file, who may be in the way of it, and who connects. Real sockets."""

import grp
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from radiator.model.errors import RadiatorError
from radiator.model.limits import UNIX_PATH_MAX_BYTES, Limits
from radiator.model.principal import unix_principal
from radiator.model.settings import UnixAddress
from radiator.server.unix import UnixAcceptor, ask

Listen = Callable[..., UnixAcceptor]


@pytest.fixture
def listen(tmp_path: Path) -> Iterator[Listen]:
    made: list[UnixAcceptor] = []

    def listen(path: Path = tmp_path / "s", mode: int = 0o600, group: str = "") -> UnixAcceptor:
        made.append(UnixAcceptor(UnixAddress("stomp+unix", path, mode, group), Limits()))
        return made[-1]

    yield listen
    for one in made:
        one.close()


def call(path: Path) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    caller.connect(str(path))
    return caller


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def left_behind(path: Path) -> None:
    """As a broker that was killed leaves it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gone:
        gone.bind(str(path))
        gone.listen()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_nobody_else_may_connect_from_the_first_moment(
    listen: Listen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """Looked at right behind each step that can change it."""
    seen: list[int] = []
    bind, listens = socket.socket.bind, socket.socket.listen

    def looked_at(step: Callable[..., None]) -> Callable[..., None]:
        def do(own: socket.socket, *arguments: object) -> None:
            step(own, *arguments)
            seen.append(mode_of(tmp_path / "s"))

        return do

    monkeypatch.setattr(socket.socket, "bind", looked_at(bind))
    monkeypatch.setattr(socket.socket, "listen", looked_at(listens))
    before = os.umask(umask)
    try:
        listen()
        assert os.umask(umask) == umask, "it is as it was"
    finally:
        os.umask(before)
    assert seen[0] & 0o177 == 0 and seen[1] == 0o600


def test_others_may_connect_by_mode_and_group(listen: Listen, tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    listen(mode=0o660, group=group)
    assert mode_of(tmp_path / "s") == 0o660 and (tmp_path / "s").stat().st_gid == os.getgid()


def test_a_group_that_does_not_exist_is_a_sentence_and_leaves_nothing(listen: Listen, tmp_path: Path) -> None:
    with pytest.raises(RadiatorError, match="there is no group 'no-such-group'"):
        listen(group="no-such-group")
    assert not (tmp_path / "s").exists()


def test_one_that_was_left_is_replaced(listen: Listen, tmp_path: Path) -> None:
    left_behind(tmp_path / "s")
    acceptor = listen()
    with call(tmp_path / "s"):
        acceptor.accept().close()


@pytest.mark.parametrize("is_backlog_full", [False, True])
def test_one_that_is_served_is_not_replaced(listen: Listen, tmp_path: Path, is_backlog_full: bool) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as served:
        served.bind(str(tmp_path / "s"))
        served.listen(0)
        others = [call(tmp_path / "s")] if is_backlog_full else []
        with pytest.raises(RadiatorError, match="another process serves it"):
            listen()
        assert stat.S_ISSOCK((tmp_path / "s").lstat().st_mode)
        for other in others:
            other.close()


def test_what_is_no_socket_stays(listen: Listen, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "directory").mkdir()
    left_behind(tmp_path / "left")
    (tmp_path / "link").symlink_to(tmp_path / "left")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("file", "directory", "link", "dangling"):
        with pytest.raises(RadiatorError, match="it is .*, which is not replaced"):
            listen(tmp_path / name)
        assert os.path.lexists(tmp_path / name)
    assert (tmp_path / "file").read_text() == "precious" and not (tmp_path / "nowhere").exists()


def test_a_socket_of_another_kind_stays(listen: Listen, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(tmp_path / "s"))
        with pytest.raises(RadiatorError, match="another process serves it"):
            listen()
        assert (tmp_path / "s").exists()


def test_a_path_may_have_107_bytes(listen: Listen, tmp_path: Path) -> None:
    room = UNIX_PATH_MAX_BYTES - len(bytes(tmp_path)) - 1
    assert room > 2, tmp_path
    fits = tmp_path / ("é" * (room // 2) + "x" * (room % 2))
    assert len(bytes(fits)) == 107
    listen(fits)
    assert fits.exists()
    with pytest.raises(RadiatorError, match="a path of 108 bytes, where a unix socket has at most 107"):
        listen(Path(f"{fits}y"))


def test_its_file_goes_with_it_unless_it_is_another_one_by_then(listen: Listen, tmp_path: Path) -> None:
    listen().close()
    assert not (tmp_path / "s").exists()
    first = listen()
    (tmp_path / "s").unlink()
    second = listen()
    first.close()
    with call(tmp_path / "s"):
        second.accept().close()


def test_the_peer_is_known_by_process_and_user(listen: Listen, tmp_path: Path) -> None:
    acceptor = listen()
    with call(tmp_path / "s"):
        transport = acceptor.accept()
        assert transport.peer == f"unix/pid:{os.getpid()}/uid:{os.getuid()}"
        assert transport.network == f"uid:{os.getuid()}"
        assert transport.principal == unix_principal(os.getuid(), os.getgid())
        with pytest.raises(BlockingIOError):
            transport.receive(1)
        transport.close()


def test_ask_sees_who_is_gone_without_having_read_all() -> None:
    near, far = socket.socketpair()
    with near:
        near.send(b"x")
        assert not ask(near).is_reset and not ask(near).is_owing
        far.close()
        assert ask(near).is_reset
    near, far = socket.socketpair()
    with near:
        far.send(b"said before it went")
        far.close()
        assert not ask(near).is_reset, "it has only ended, and what it said is there"
        assert near.recv(100) == b"said before it went"
