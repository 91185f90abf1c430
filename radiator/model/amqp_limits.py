"""Bounds of what AMQP has and no other protocol; limits.py says what the first word of each comment means."""

from radiator.model.limits import KIB

TABLE_DEPTH_MAX = 8  # refuse: tables and arrays of AMQP within each other
TABLE_FIELDS_MAX = 256  # refuse: fields of such a table, with those of all tables and arrays in it
AMQP_CHANNELS_MAX = 2047  # refuse: of one AMQP connection
AMQP_FRAME_BYTES = 128 * KIB  # refuse: a longer frame of AMQP; messages come in as many as they need
AMQP_FRAMES_AT_ONCE = 1024  # wait: of one connection before others have their turn, 2 to 3 µs each; a message is one
AMQP_HELD_BYTES = 64 * KIB  # wait: frames of channels that wait for an answer, or for room
AMQP_HEART_BEAT_S = 60  # what is proposed to AMQP clients
AMQP_NAMES_KEPT = 1000  # forgotten: names that one AMQP connection got for its queues, and may declare again
AMQP_PUBLISHES_KEPT = 1024  # forgotten, and decoded again: a basic.publish that says the same as an earlier one
AMQP_PROPERTIES_KEPT = 1024  # forgotten, and decoded again: properties that many messages have
AMQP_PROPERTIES_KEPT_BYTES = 32  # longer ones are not kept: most often they have an id of their own message
AMQP_MESSAGES_IN_PART = 8  # times max_frame_bytes: what a connection may hold of messages that have not come whole
