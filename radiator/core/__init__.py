"""Start reading here: one message's life.

The session turns a SEND frame into a `Send`. `Broker.turn` (broker.py) hands it to `Admission` (routing/admission.py),
which admits it, blocks its connection until there is room, or refuses it. An admitted message gets a position, and its
queue (queues/durable_queue.py) writes a `Put` into the open `Batch` (turn.py), which *holds* its RECEIPT. It is STORING
(states.py).

The server takes the batch (`Broker.seal`) and has it committed: one LMDB transaction, synced. Only then does it report
`Committed`; in that turn the held RECEIPT is sent and the message becomes READY. `Queue.pump` (queues/queue.py)
hands it to the next `Subscription` that has room (connections.py): it is UNACKED, as a `Delivery`.

An `Ack` (deliveries.py) writes a `Remove` into the open batch, which holds its RECEIPT: REMOVING, and GONE once that
batch is committed. A NACK, a lost connection or a timeout returns the message to its own place instead, with its count
kept on the disk; after too many returns it moves to the dead-letter queue: `Remove` and `Put` in one batch.
"""
