"""A node among others: links, topics and queues that span nodes, and messages that change their owner.

Start reading here. `cluster.py` knows who is linked and gives each word to whom it concerns: `handover.py` moves
messages from store to store, never lost and never twice; `work_sharing.py` says which messages go where; `gossip.py`
carries topics to those who want them (`subscription_index.py`), over the graph (`routes.py`) that the states of all
nodes (`node_state.py`) describe. docs/CLUSTER.md has the same as numbered procedures.
"""
