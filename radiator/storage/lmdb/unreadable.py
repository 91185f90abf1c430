"""A disk that cannot be read: reported as that, and never as damage, since the data may be whole.

Plain reads raise OSError. A read through LMDB's map cannot: the system ends the process by SIGBUS, silently, where the
disk fails or the file has been cut. So a process that maps a store sets beforehand the sentence that it then leaves.
"""

import ctypes
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from radiator.model.errors import EXIT_DISK_FAILED, DiskFailed

READ_ERRORS = frozenset(
    {
        errno.EIO, errno.ENODATA, errno.EREMOTEIO, errno.EILSEQ, errno.ETIMEDOUT, errno.ENOLINK, errno.ENXIO,
        errno.ENODEV, errno.ESTALE, errno.EBADMSG, errno.EUCLEAN,
    }
)  # fmt: skip
"""The errors of file systems whose disk does not return what was written."""

_SAY_MAX_S = 1  # the reader of stderr may hang
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int)
_kept: list[object] = []  # what C will call


def could_not_be_read(file: Path | str, why: object = "") -> str:
    """Returns the sentence for it."""
    because = f" ({why})" if why else ""
    return (
        f"{file} could not be read{because}: its disk failed, or the file was cut. Try again when the disk can be read,"
        " or replace it."
    )


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Plain reads of a store, of that file or of one that the error names. Raises DiskFailed where the disk fails."""
    try:
        yield
    except OSError as error:
        if error.errno not in READ_ERRORS:
            raise
        raise DiskFailed(could_not_be_read(error.filename or file, error.strerror)) from error


def last_words(file: Path, line: Callable[[str], str] = "radiator: {}\n".format) -> None:
    """Lets a page of the map that cannot be read end this process, from now on, with that sentence, formatted by
    `line`, and status 74.

    The handler is Python: the thread that reads a map holds no lock that the handler needs, and waits for the
    interpreter's own as any other does.
    """
    sentence = could_not_be_read(file)
    is_reported = threading.Lock()

    def ended(_: int) -> None:
        signal.alarm(_SAY_MAX_S)
        if not is_reported.acquire(blocking=False):
            time.sleep(_SAY_MAX_S)  # another thread has met such a page too, and is ending the process
        os.write(2, line(sentence).encode("utf-8", "backslashreplace"))
        os._exit(EXIT_DISK_FAILED)

    handler = _Handler(ended)
    _kept.append(handler)
    # Python's own handlers run later, in the main thread: the read would be tried again for ever
    set_handler = ctypes.CDLL(None).signal
    set_handler.argtypes, set_handler.restype = (ctypes.c_int, _Handler), ctypes.c_void_p
    set_handler(signal.SIGBUS, handler)
