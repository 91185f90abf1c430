"""The machine that a comparison was made on, as far as it explains the figures."""

import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

FLUSHES = 300
BLOCK_BYTES = 4096


def host(directory: Path) -> dict[str, Any]:
    """directory: where the brokers keep their data."""
    directory.mkdir(parents=True, exist_ok=True)
    return {
        "cpu": cpu_model(Path("/proc/cpuinfo").read_text()),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "system": platform.freedesktop_os_release().get("PRETTY_NAME", ""),
        "file_system": file_system(Path("/proc/self/mountinfo").read_text(), directory.resolve()),
        "load_before": round(os.getloadavg()[0], 2),
        "flush_ms": flush_ms(directory),
    }


def cpu_model(cpuinfo: str) -> str:
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()


def file_system(mountinfo: str, directory: Path) -> str:
    """Kind and options of the mount that holds it (proc_pid_mountinfo(5))."""
    best, found = -1, "?"
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4].replace("\\040", " "))
        if directory.is_relative_to(mount) and len(mount.parts) >= best:
            kind, _, options = after.split()[:3]
            best, found = len(mount.parts), f"{kind} ({before.split()[5]}; {options})"
    return found


def flush_ms(directory: Path) -> dict[str, float]:
    """What one fdatasync of one overwritten block costs: the floor of every answer that means `synced`."""
    path = directory / "flush-time"
    took = []
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, bytes(BLOCK_BYTES), 0)
        os.fsync(descriptor)
        for number in range(FLUSHES):
            began_ns = time.perf_counter_ns()
            os.pwrite(descriptor, bytes([number % 256]) * BLOCK_BYTES, 0)
            os.fdatasync(descriptor)
            took.append((time.perf_counter_ns() - began_ns) / 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    took.sort()
    return {"median": round(statistics.median(took), 3), "p99": round(took[FLUSHES * 99 // 100], 3)}
