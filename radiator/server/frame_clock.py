"""How long a peer takes to say a frame. Pure: time is an argument.

The bound is on the whole frame, not on the gap between two of its bytes: whoever sends a byte now and then would
otherwise keep what came before in memory for as long as it likes.
"""

from radiator.model.limits import FRAME_BYTES_PER_S


class FrameClock:
    """Of one connection. It stands still while nothing is read from it: the rest of the frame may be there already.

    frame_timeout_s: what a frame of any size may take; a large one may take its size at FRAME_BYTES_PER_S.
    """

    __slots__ = ("_began_s", "_frame_timeout_s", "_held_bytes", "_stood_still_s")

    def __init__(self, frame_timeout_s: float) -> None:
        self._frame_timeout_s = frame_timeout_s
        self._began_s = 0.0
        self._held_bytes = 0
        self._stood_still_s = 0.0

    def read(self, now_s: float, size: int, held_bytes: int) -> None:
        """So many bytes were read; now so many are held of a frame that is not whole. It is the same frame as before
        only if all that was read belongs to it.
        """
        if not self._held_bytes or held_bytes != self._held_bytes + size:
            self._began_s = now_s
        self._held_bytes = held_bytes

    def stand_still(self, now_s: float) -> None:
        """Nothing is read from now on."""
        self._stood_still_s = now_s

    def go_on(self, now_s: float) -> None:
        """It is read again from now on."""
        self._began_s += now_s - self._stood_still_s

    def due_s(self, frame_bytes: int) -> float:
        """When the frame must be whole. frame_bytes: its size as far as that is known."""
        return self._began_s + max(self._frame_timeout_s, frame_bytes / FRAME_BYTES_PER_S)
