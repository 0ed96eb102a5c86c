"""The folder of a local fleet: one holder, one size, and never somebody else's things."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.local.folder import DataFolder, LocalError, LocalFleet, default_folder


def test_a_new_folder_is_made_and_closed_to_others(tmp_path: Path) -> None:
    with DataFolder(tmp_path / "a" / "b") as folder:
        assert folder.root.stat().st_mode & 0o066 == 0
        assert not folder.used
        assert folder.kubeconfig("worker-1") == tmp_path / "a" / "b" / "worker-1.kubeconfig"


def test_another_process_is_refused_while_it_is_held(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from controlplane.local.folder import DataFolder, LocalError\n"
        "try:\n    DataFolder(Path(sys.argv[1])).__enter__()\nexcept LocalError as error:\n    print(error)\n"
    )

    def other() -> str:
        return subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout

    with DataFolder(tmp_path):
        assert "is in use by another process" in other()
    assert other() == ""


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(LocalError, match="holds other things"), DataFolder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letter"]


def test_a_file_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="cannot be used for data"), DataFolder(tmp_path / "file"):
        pass


def test_a_fleet_is_remembered(tmp_path: Path) -> None:
    with DataFolder(tmp_path) as folder:
        assert folder.fleet({}) == LocalFleet()
        made = folder.fleet({"workers": 5, "cpu": "500m", "management_port": 6443})
        folder.remember(made)
        assert made.names == ["worker-1", "worker-2", "worker-3", "worker-4", "worker-5"]
    with DataFolder(tmp_path) as folder:
        assert folder.used
        assert folder.fleet({}) == made
        assert folder.fleet({"workers": 5, "management_port": 7443}).management_port == 7443
        with pytest.raises(LocalError, match="was made with --workers 5: leave --workers out"):
            folder.fleet({"workers": 3})
        with pytest.raises(LocalError, match="was made with --cpu 500m"):
            folder.fleet({"cpu": "8"})


@pytest.mark.parametrize(
    "asked",
    [
        {"workers": 0},
        {"workers": 101},
        {"cpu": "many"},
        {"cpu": "-1"},
        {"cpu": "0"},
        {"cpu": "0.0"},
        {"cpu": "0m"},
        {"cpu": ""},
    ],
)
def test_a_fleet_that_cannot_be_is_refused(tmp_path: Path, asked: dict[str, int | str]) -> None:
    with DataFolder(tmp_path) as folder, pytest.raises(LocalError, match=r"--(workers|cpu) must be"):
        folder.fleet(asked)


@pytest.mark.parametrize("written", ["", "[]", json.dumps({"workers": "three"})])
def test_a_memory_that_cannot_be_read_is_named(tmp_path: Path, written: str) -> None:
    with DataFolder(tmp_path) as folder:
        (tmp_path / "fleet.json").write_text(written)
        with pytest.raises(LocalError, match=r"fleet\.json cannot be read"):
            folder.fleet({})


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert default_folder({"XDG_DATA_HOME": "/data"}) == Path("/data/controlplane")
    assert default_folder({}) == Path("~/.local/share/controlplane").expanduser()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert default_folder({"XDG_DATA_HOME": "/data"}) == Path("/var/lib/controlplane")
