"""Start reading here: one message's life.

A session says `Send`. `Broker.turn` (broker.py) hands it to `Admission` (routing/admission.py), which judges it: it may
come in, it waits for room with its connection, or it is refused. Coming in, it gets a position, and its queue
(queues/durable_queue.py) writes a `Put` into the open `Batch` (turn.py); its RECEIPT is *held* in that batch. It is
STORING (states.py).

The shell takes the batch (`Broker.seal`) and has it committed: one LMDB transaction, synced. Only then does it say
`Committed`, and in that turn the held RECEIPT leaves and the message becomes READY. `Queue.pump` (queues/queue.py)
hands it to the next `Subscription` that has room (connections.py): it is UNACKED, as a `Delivery`.

An `Ack` (deliveries.py) writes a `Remove` into the open batch, with its RECEIPT held there: REMOVING, and when that
batch is committed, GONE. A NACK, a lost connection or a timeout brings it back to its own place instead, with its
count kept on the disk; too often, and it moves to the dead-letter queue: `Remove` and `Put` in one batch.
"""
