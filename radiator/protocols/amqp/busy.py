"""The channels of a connection that hold something. What one read costs does not depend on how many there are."""

from radiator.protocols.amqp.channel import Channel


class BusyChannels:
    """Those that hold frames, or a part of a message, by the number of their frames. ready: which of them can go on
    with what they hold. held_bytes: of frames; content_bytes: of messages that have not come whole.
    """

    __slots__ = ("_sizes", "content_bytes", "held_bytes", "ready")

    def __init__(self) -> None:
        self._sizes: dict[int, tuple[int, int]] = {}
        self.ready: dict[int, None] = {}
        self.held_bytes = self.content_bytes = 0

    def __contains__(self, wire: int) -> bool:
        return wire in self._sizes

    def note(self, channel: Channel) -> None:
        """What that one holds, or whether it can go on, may have changed."""
        wire = channel.wire
        if wire in self._sizes:
            self.forget(wire)
        sizes = channel.held_bytes, channel.content_bytes
        if channel.held or sizes[1] or channel.is_last:
            self._sizes[wire] = sizes
            self.held_bytes += sizes[0]
            self.content_bytes += sizes[1]
            if channel.can_go_on:
                self.ready[wire] = None

    def forget(self, wire: int) -> None:
        """It holds nothing."""
        held_bytes, content_bytes = self._sizes.pop(wire, (0, 0))
        self.held_bytes -= held_bytes
        self.content_bytes -= content_bytes
        self.ready.pop(wire, None)
