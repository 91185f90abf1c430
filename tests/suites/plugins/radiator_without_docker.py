"""A plugin of pytest for the suite of aio-pika, which starts RabbitMQ in Docker: it finds the broker that runs.

It stands in the place of their tests/docker_client.py, since theirs wants Docker; their tests are as they are.
"""

import sys
from dataclasses import dataclass
from types import ModuleType


@dataclass
class ContainerInfo:
    id: str
    host: str
    ports: dict[str, int]


@dataclass
class DockerHostInfo:
    is_tcp: bool = False


class DockerNotAvailableError(Exception):
    pass


class DockerClient:
    def __init__(self, info: object) -> None:
        pass

    def run(self, image: str, ports: list[str], environment: dict[str, str] | None = None) -> ContainerInfo:
        return ContainerInfo("broker", "127.0.0.1", {port: int(port.partition("/")[0]) for port in ports})

    def kill(self, container: str) -> None:
        pass

    def remove(self, container: str) -> None:
        pass


module = ModuleType("tests.docker_client")
for one in (ContainerInfo, DockerHostInfo, DockerNotAvailableError, DockerClient):
    setattr(module, one.__name__, one)
module.check_docker_available = DockerHostInfo  # type: ignore[attr-defined]
sys.modules[module.__name__] = module
