"""The record of a broker's calls: what strace prints of calls that overlap, or that a kill ended."""

from pathlib import Path

from tests.campaigns.trace import Made, Recording, Synced, Written, recorded


def printed(root: Path, *lines: str) -> Recording:
    """What is understood of these lines, in which `quoted` names and bytes are in hexadecimal digits."""
    file = root / "strace"
    file.write_text("".join(f"{line}\n" for line in lines))
    return recorded(file, root)


def quoted(data: bytes) -> str:
    return '"' + "".join(f"\\x{byte:02x}" for byte in data) + '"'


def opening(root: Path, name: str, descriptor: int) -> str:
    return f"openat(AT_FDCWD, {quoted(bytes(root / name))}, O_WRONLY|O_CREAT) = {descriptor}"


def test_calls_of_two_threads_are_put_together(tmp_path: Path) -> None:
    found = printed(
        tmp_path,
        f"1 {opening(tmp_path, 'a', 6)}",
        f"1 pwrite64(6, {quoted(b'one')}, 3, 10 <unfinished ...>",
        f"2 pwrite64(6, {quoted(b'two')}, 3, 20) = 3",
        "1 <... pwrite64 resumed>) = 2",
        "2 fdatasync(6) = 0",
    )
    first, *others = found.events
    assert first == Made(f"{tmp_path}/a", 1)
    assert others == [Written(1, 20, b"two", False), Written(1, 10, b"on", False), Synced(1)]
    assert not found.in_flight


def test_a_call_that_a_kill_ended_may_have_been_carried_out(tmp_path: Path) -> None:
    found = printed(
        tmp_path,
        f"1 {opening(tmp_path, 'a', 6)}",
        f"1 pwrite64(6, {quoted(b'one')}, 3, 10 <unfinished ...>",
        f"2 pwrite64(6, {quoted(b'two')}, 3, 20) = ?",
        "2 +++ killed by SIGKILL +++",
        "1 <... pwrite64 resumed>) = ?",
        "1 +++ killed by SIGKILL +++",
    )
    assert found.events == [Made(f"{tmp_path}/a", 1)]
    assert found.in_flight == [Written(1, 20, b"two", False), Written(1, 10, b"one", False)]


def test_a_call_that_failed_did_nothing(tmp_path: Path) -> None:
    found = printed(
        tmp_path,
        f"1 {opening(tmp_path, 'a', 6)}",
        f"1 pwrite64(6, {quoted(b'one')}, 3, 10) = -1 ENOSPC (No space left on device)",
    )
    assert found == Recording([Made(f"{tmp_path}/a", 1)], [])


def test_a_descriptor_is_free_as_soon_as_its_close_begins(tmp_path: Path) -> None:
    found = printed(
        tmp_path,
        f"1 {opening(tmp_path, 'a', 6)}",
        "1 close(6 <unfinished ...>",
        f"2 {opening(tmp_path, 'b', 6)}",
        "1 <... close resumed>) = 0",
        f"2 pwrite64(6, {quoted(b'two')}, 3, 0) = 3",
    )
    assert found.events[-1] == Written(2, 0, b"two", False)
