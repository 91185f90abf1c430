"""How messages of a subscription are acked (STOMP 1.2, SUBSCRIBE ack Header)."""

AUTO = "auto"
CLIENT = "client"
CLIENT_INDIVIDUAL = "client-individual"
