"""Pipelines over an archive: each `python -m radiator.spark.jobs.NAME`, and functions of DataFrames under it.

    conserve.py     is every accepted message accounted for?
    replay.py       an archived log is sent again
    mapreduce.py    jobs of a queue, mapped and reduced over logs
    job.py          what all of them share; progress.py reports how far one has come

The functions use DataFrames alone, so they run on one machine, on a cluster, and over Spark Connect. docs/SPARK.md.
"""
