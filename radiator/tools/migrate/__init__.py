"""Moves queues and messages from another AMQP broker into this one (`radiator migrate`)."""
