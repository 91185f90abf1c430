"""The public name of the data source of Spark and of its jobs (`python -m radiator.spark.jobs.replay`).

Both are in radiator/integrations/spark.
"""

from radiator.integrations import spark

__path__ = spark.__path__
