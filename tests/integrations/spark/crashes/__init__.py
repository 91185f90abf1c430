"""Exactly once, shown: pipelines of Spark over a real broker, with processes killed at every step between them.

`python -m tests.integrations.spark.crashes --crashes 100 --seed 1 [--secured]`: `campaign.py` runs broker,
producer and driver, kills and keeps the books; `driver.py` is the driver's program; `steps.py` stops its processes at
a step of the protocol.
"""
