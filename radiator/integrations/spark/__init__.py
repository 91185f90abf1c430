"""Spark reads logs and queues of the broker, and writes to any destination of it: `format("radiator")`.

docs/SPARK.md says how, and what is promised. Spark finds `source.RadiatorDataSource` by the module `pyspark_radiator`.
`options.py` and `offsets.py` know neither Spark nor the broker; `ask.py` makes the requests to the broker; `read.py`
and `schema.py` make rows of its records; `source.py` and `sink.py` are what Spark calls.
"""
