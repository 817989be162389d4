"""An installed package works from any folder, and writes nothing beside its own code."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.metadata import distributions
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[1]
BLOCKED = "import sys\nsys.modules |= dict.fromkeys({names})  # None: an import of them fails\n"
Run = Callable[..., subprocess.CompletedProcess[str]]


def build(source: Path, target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    return next(folder.iterdir())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel is installed into."""
    folder = tmp_path_factory.mktemp("site")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Runs `disent` of the installed package, in an empty folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("DISENT_", "DAGSTER_"))}

    def disent(*arguments: str, folder: Path = tmp_path, extra: Path | None = None) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(str(part) for part in (extra, site) if part)
        return subprocess.run(
            [sys.executable, "-B", "-m", "disent_assets.cli", *arguments],
            cwd=folder, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return disent


def contents(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_new_project_runs_from_an_installed_package(run, site, tmp_path):
    before = contents(site)
    assert run("init", "mine").returncode == 0
    project = tmp_path / "mine"
    done = run("materialize", "corpora", "--partition", "en", folder=project)
    assert done.returncode == 0, done.stderr
    assert (project / "data" / "tables" / "corpora" / "utterances" / "sample" / "en.parquet").is_file()
    assert run("status", folder=project).returncode == 0
    assert contents(site) == before


def test_a_project_on_massive_downloads_to_its_own_folder_and_is_written_into_an_empty_one_only(run, tmp_path):
    (tmp_path / "mine").mkdir()
    assert run("init", ".", "--real", folder=tmp_path / "mine").returncode == 0
    text = (tmp_path / "mine" / "disent.toml").read_text(encoding="utf-8")
    assert 'path = "data/real/massive/' in text
    assert "../" not in text
    again = run("init", "mine")
    assert again.returncode == 2
    assert again.stderr == "disent: mine: this is not an empty folder. Name a new one\n"


def test_a_command_without_its_extra_names_it(run, tmp_path):
    from disent.extras import LINEAGE

    (tmp_path / "sitecustomize.py").write_text(BLOCKED.format(names=sorted(LINEAGE)), encoding="utf-8")
    done = run("materialize", extra=tmp_path)
    assert done.returncode == 2
    assert "install it with: pip install 'disent-embeddings[lineage]'" in done.stderr


def test_a_wheel_requires_only_numpy_safetensors_and_tqdm(site, tmp_path):
    (installed,) = distributions(path=[str(site)])
    needs = [line for line in installed.requires or () if "extra ==" not in line]
    assert {line.split(">")[0] for line in needs} == {"numpy", "safetensors", "tqdm"}
    (program,) = installed.entry_points.select(group="console_scripts")
    code = BLOCKED.format(names=["click"]) + f"from {program.module} import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    remedy = "install it with: pip install 'disent-embeddings[cli]'"
    assert done.stderr == f"disent: the command line needs click; {remedy}\n"


def test_the_version_of_an_installed_package_is_that_of_its_metadata(site, tmp_path):
    (installed,) = distributions(path=[str(site)])
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import disent; print(disent.__file__, disent.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(site / "disent" / "__init__.py"), installed.version]


def test_a_wheel_offers_its_component_to_dagster(site):
    (installed,) = distributions(path=[str(site)])
    (offered,) = installed.entry_points.select(group="dagster_dg_cli.registry_modules")
    assert isinstance(offered.load().DisentLineage, type)


def test_a_wheel_has_the_sql_of_the_pages(run, site, tmp_path):
    shipped = sorted(path.name for path in (site / "disent_assets" / "project" / "docs").iterdir())
    assert shipped == sorted(path.name for path in (ROOT / "docs").glob("*.sql"))
    errors = run("sql", "docs/headline.sql").stderr
    assert "warehouse.duckdb" in errors
    assert "file not found: docs/headline.sql" not in errors


def test_an_editable_install_copies_no_folder(tmp_path):
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["editable"])
    files = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert files == {
        "_disent_embeddings.pth",
        "disent_assets/project/disent.toml",
        "disent_assets/project/workspace.yaml",
    }


def test_a_wheel_of_the_source_distribution_has_the_same_files(wheel, tmp_path):
    source = build(ROOT, "sdist", tmp_path / "sdist")
    subprocess.run(["tar", "xzf", str(source), "-C", str(tmp_path)], check=True)
    again = build(tmp_path / source.name.removesuffix(".tar.gz"), "wheel", tmp_path / "again")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_a_wheel_has_no_file_that_git_ignores(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    files = [name.removeprefix("disent_assets/project/") for name in names if ".dist-info/" not in name]
    assert sorted(set(files) - set(tracked)) == []
