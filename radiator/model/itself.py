"""All that is asked and answered about the broker itself; see administration.py."""

from radiator.model.bounds import BoundsInForce, ReadBounds
from radiator.model.configuration import Configuration, ReadConfiguration
from radiator.model.disk import DiskStands, ReadDisk
from radiator.model.log_lines import LogLines, ReadLogLines

ItselfCommand = ReadConfiguration | ReadBounds | ReadDisk | ReadLogLines
ItselfAnswer = Configuration | BoundsInForce | DiskStands | LogLines

__all__ = ["ItselfAnswer", "ItselfCommand", "ReadBounds", "ReadConfiguration", "ReadDisk", "ReadLogLines"]
