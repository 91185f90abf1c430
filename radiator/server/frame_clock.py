"""The time that a peer takes to send a frame. Pure: time is an argument.

The bound is on the whole frame, not on the gap between two of its bytes: otherwise a peer that sends a byte now and
then would keep the earlier ones in memory for as long as it likes.
"""

from radiator.model.limits import FRAME_BYTES_PER_S, KIB


class FrameClock:
    """One connection's clock. It stops while nothing is read: the rest of the frame may have arrived already.

    frame_timeout_s: allowed for a frame of any size; a large one may take its size at FRAME_BYTES_PER_S.
    """

    __slots__ = ("_began_s", "_frame_timeout_s", "_held_bytes", "_stood_still_s")

    def __init__(self, frame_timeout_s: float) -> None:
        self._frame_timeout_s = frame_timeout_s
        self._began_s = 0.0
        self._held_bytes = 0
        self._stood_still_s = 0.0

    def read(self, now_s: float, size: int, held_bytes: int) -> None:
        """`size` bytes were read, and `held_bytes` are now held of an incomplete frame. It is the same frame as before
        only if everything that was read belongs to it.
        """
        if not self._held_bytes or held_bytes != self._held_bytes + size:
            self._began_s = now_s
        self._held_bytes = held_bytes

    def stand_still(self, now_s: float) -> None:
        """Reading stops."""
        self._stood_still_s = now_s

    def go_on(self, now_s: float) -> None:
        """Reading goes on."""
        self._began_s += now_s - self._stood_still_s

    def due_s(self, frame_bytes: int) -> float:
        """When the frame must be whole. frame_bytes: its size as far as it is known."""
        return self._began_s + max(self._frame_timeout_s, frame_bytes / FRAME_BYTES_PER_S)

    def too_long(self, came_bytes: int) -> str:
        """The sentence for a peer that is late."""
        return (
            f"A frame took too long: {came_bytes} bytes of it came. It may take {self._frame_timeout_s:g} s "
            f"(frame_timeout_s), or its size at {FRAME_BYTES_PER_S // KIB} KiB/s where that is longer."
        )
