"""The channels of a connection that hold something, so that a read costs the same however many channels there are."""

from radiator.protocols.amqp.channel import Channel


class BusyChannels:
    """The channels that hold frames or part of a message, by their number on the wire. sizes: the bytes that each holds
    of frames, and of a message. ready: those that can go on with what they hold. held_bytes: of all frames;
    content_bytes: of all messages received in part.
    """

    __slots__ = ("content_bytes", "held_bytes", "ready", "sizes")

    def __init__(self) -> None:
        self.sizes: dict[int, tuple[int, int]] = {}
        self.ready: dict[int, None] = {}
        self.held_bytes = self.content_bytes = 0

    def note(self, channel: Channel) -> None:
        """Updates the entry of a channel: what it holds, or whether it can go on, may have changed."""
        wire = channel.wire
        if wire in self.sizes:
            self.forget(wire)
        content_bytes = channel.content_bytes
        if channel.held or content_bytes or channel.is_last:
            sizes = self.sizes[wire] = channel.held_bytes, content_bytes
            self.held_bytes += sizes[0]
            self.content_bytes += sizes[1]
            if channel.can_go_on:
                self.ready[wire] = None

    def forget(self, wire: int) -> None:
        """Drops the entry of a channel that holds nothing."""
        held_bytes, content_bytes = self.sizes.pop(wire, (0, 0))
        self.held_bytes -= held_bytes
        self.content_bytes -= content_bytes
        self.ready.pop(wire, None)
