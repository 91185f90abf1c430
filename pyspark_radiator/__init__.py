"""How Spark finds `format("radiator")`: it looks into every top-level module that begins with `pyspark_`."""

from radiator.integrations.spark.source import RadiatorDataSource as DefaultSource

__all__ = ["DefaultSource"]
