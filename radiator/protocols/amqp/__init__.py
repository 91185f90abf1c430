"""AMQP 0-9-1 with RabbitMQ's extensions (docs/AMQP.md): a channel is a connection of the broker."""
