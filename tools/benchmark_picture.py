"""Write docs/benchmark.png again: the report of the synthetic benchmark in Chromium."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "benchmark.html"
    code = "from counterpoise.cli import main; main()"
    command = [sys.executable, "-c", code, "benchmark", "--demo", "--report", str(page)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or "chrome"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
    options += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    options += [f"--user-data-dir={folder}/profile", "--window-size=1280,2600"]
    picture = f"--screenshot={ROOT / 'docs' / 'benchmark.png'}"
    subprocess.run(
        [chromium, *options, picture, page.as_uri()], check=True, stderr=subprocess.DEVNULL
    )
