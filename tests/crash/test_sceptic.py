"""What a sceptic broke once: each of these failed before it was mended."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.commands import Committed, Stop, Tick
from radiator.limits import GIB
from radiator.settings import Declarations, QueueSettings
from radiator.store import directory
from radiator.store.lmdb import open_store
from radiator.writes import StoppedClean
from tests.acceptance.wire import END_OF_TALK, Wire
from tests.broker.node import Node
from tests.broker.words import send
from tests.broker_process import BrokerProcess
