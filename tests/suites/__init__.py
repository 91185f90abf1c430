"""What clients of AMQP 0-9-1 test themselves with, against this broker: scripts/suites."""
