"""Take screenshots of a running `disent dev` in Chromium, after `make demo`.

python -m tools.ui_pictures http://127.0.0.1:3000 docs/pictures 1600
"""

import base64
import io
import json
import sys
import tempfile
import time
from pathlib import Path
from urllib.request import Request, urlopen

from PIL import Image

from harness.chromium import tab

HEIGHT = 1000  # pixels
PAGES = {
    "graph": "/asset-groups",
    "head": "/assets/heads/scratch/facet_head",
    "metrics": "/assets/evaluation/scratch/facet_metrics",
    "warehouse": "/assets/warehouse/database",
    "relation": "/assets/warehouse/main/best",
    "checks": "/assets/warehouse/database?view=checks",
    "refresh": "/runs/{run}",
}
FIRST_RUN = '{runsOrError(filter: {tags: [{key: "disent/refresh", value: "1"}]}) {... on Runs {results {runId}}}}'


def main(ui: str, folder: Path, width: int) -> None:
    """Write a screenshot of each page, `ui-NAME-WIDTH.png`, in 64 colours."""
    question = json.dumps({"query": FIRST_RUN}).encode()
    with urlopen(Request(f"{ui}/graphql", question, {"content-type": "application/json"}), timeout=60) as answer:
        run = json.load(answer)["data"]["runsOrError"]["results"][0]["runId"]
    with tempfile.TemporaryDirectory() as profile, tab(Path(profile)) as page:
        size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        page.ask("Emulation.setDeviceMetricsOverride", **size)
        for name, path in PAGES.items():
            page.open(ui + path.format(run=run))
            time.sleep(10)  # parts of the page load one after another
            picture = Image.open(io.BytesIO(base64.b64decode(page.ask("Page.captureScreenshot")["data"])))
            picture.convert("RGB").quantize(64).save(folder / f"ui-{name}-{width}.png", optimize=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
