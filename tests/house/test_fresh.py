"""scripts/test-fresh, as far as it goes without a bare system; to run it is the test of the rest."""

import socket
import subprocess
from pathlib import Path

import pytest

from tests import fresh, fresh_service

CHECKOUT = Path(__file__).resolve().parent.parent.parent


def test_help_says_what_it_does() -> None:
    printed = subprocess.run([CHECKOUT / "scripts/test-fresh", "--help"], capture_output=True, text=True, timeout=30)
    assert printed.returncode == 0
    assert all(word in printed.stdout for word in ("bare Debian", "--serve-only", "Exit status"))


def test_the_service_is_installed_as_the_operator_is_told() -> None:
    printed = subprocess.run([CHECKOUT / "scripts/test-service", "--help"], capture_output=True, text=True, timeout=30)
    assert printed.returncode == 0 and "Exit status" in printed.stdout
    online, steps = fresh_service.documented_steps((CHECKOUT / "docs/OPERATING.md").read_text(encoding="utf-8"))
    assert any("--require-hashes" in step for step in online)
    assert steps[0].endswith("install-service") and "systemctl enable --now radiator" in steps


def test_without_root_the_service_cannot_be_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert fresh_service.main([]) == 2
    assert "cannot be tried: it needs root." in capsys.readouterr().out


def test_the_first_message_is_the_one_of_the_readme() -> None:
    program = fresh.readme_program((CHECKOUT / "README.md").read_text(encoding="utf-8"))
    assert "client.send" in program and "client.ack" in program
    compile(program, "README.md", "exec")
    assert str(fresh.PORT) in program


def test_how_registries_are_reached_is_passed_on_and_nothing_else(tmp_path: Path) -> None:
    for name in ("wheels", "pypi/simple", "ca.pem"):
        (tmp_path / name).mkdir(parents=True)
    earlier, later = tmp_path / "1.conf", tmp_path / "2.conf"
    earlier.write_text("[global]\ntimeout = 5\nindex-url = https://one.example/simple\n")
    later.write_text(f"[global]\nindex-url = https://two.example\n  file://{tmp_path}/pypi/simple /not/there\n")
    merged = fresh.pip_config([earlier, tmp_path / "missing.conf", later])
    assert merged["global"]["timeout"] == "5" and merged["global"]["index-url"].startswith("https://two.example")
    passed = fresh.Passed(
        {
            "PIP_CONFIG_FILE": str(later),
            "PIP_FIND_LINKS": f"{tmp_path}/wheels",
            "https_proxy": "http://p:1",
            "HOME": "/h",
        }
    )
    assert passed.environment == {"PIP_FIND_LINKS": f"{tmp_path}/wheels", "https_proxy": "http://p:1"}
    assert {tmp_path / "pypi", tmp_path / "wheels"} <= set(passed.paths)


def test_a_system_with_a_server_at_the_port_cannot_be_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(fresh, "PORT", port)
        assert fresh.main(["--serve-only", "--path"]) == 2
    assert f"something listens at port {port} already" in capsys.readouterr().out
