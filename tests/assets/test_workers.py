"""The process that workers are forked from."""

import json
import subprocess
import sys

from disent_assets.run.workers import PRELOADED


def test_workers_are_forked_from_a_process_that_has_loaded_what_computes_and_has_one_thread():
    code = (
        "import importlib, json, sys, threading\n"
        f"for name in {PRELOADED}: importlib.import_module(name)\n"
        "loaded = {'torch', 'transformers', 'matplotlib', 'polars', 'duckdb', 'scipy'} <= set(sys.modules)\n"
        "print(json.dumps([loaded, threading.active_count()]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(run.stdout) == [True, 1]
