"""A node among others: links, topics and queues that span nodes, and messages that change their owner.

Start reading here. `cluster.py` passes each frame of a linked node to the part that it is for: `links.py` knows which
nodes are linked; `handover.py` moves messages from store to store, never lost and never twice; `arrivals.py` puts what
arrives into its destinations; `shares.py` has the shared queues, and `work_sharing.py` decides which messages go where;
`gossip.py` carries topics to the nodes that subscribe to them (`subscription_index.py`), over the graph (`routes.py`)
that the states of all nodes (`node_state.py`) describe. docs/CLUSTER.md has the same as numbered procedures.
"""
