"""STOMP over WebSocket."""
