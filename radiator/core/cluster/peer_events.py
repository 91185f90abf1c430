"""Publishes events about links and nodes on /topic/system.peers."""

import json
from typing import Any

from radiator.core.routing.destinations import Destinations
from radiator.core.routing.topic import PEERS_TOPIC
from radiator.core.turn import TurnContext
from radiator.model.headers import CONTENT_TYPE, ESCAPING_ALL, JSON, block_of
from radiator.model.message import Message


class PeerEvents:
    """Events about peers. None is made if nobody is subscribed to the topic."""

    __slots__ = ("context", "destinations")

    def __init__(self, context: TurnContext, destinations: Destinations) -> None:
        self.context = context
        self.destinations = destinations

    def say(self, event: str, **fields: Any) -> None:
        """Publishes the event to the subscribers of that topic."""
        topics = self.destinations.topics
        watchers = topics.matching(PEERS_TOPIC)
        if watchers:
            headers = block_of(ESCAPING_ALL, (CONTENT_TYPE, JSON))
            body = json.dumps({"event": event, **fields}).encode()
            message = Message(f"/topic/{PEERS_TOPIC}", headers, ESCAPING_ALL, body, self.context.now_ms)
            topics.publish(message, watchers, topics.new_id())
