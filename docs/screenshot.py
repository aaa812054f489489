"""Make docs/report.png: the page of the archived coupling study, as a browser shows it.

`python docs/screenshot.py` needs the extra `report`, Playwright and Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write the page to a temporary folder, look at the charts, keep the picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = [
            sys.executable,
            "-m",
            "surefoot.cli",
            "report",
            str(ROOT / "results/coupling/digits"),
            "--out",
            folder,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.goto((Path(folder) / "report.html").as_uri())
        page.wait_for_function("document.documentElement.dataset.ready === 'yes'", timeout=120_000)
        page.locator("#step").fill("20")  # while the noise is being learnt by heart
        page.locator("#step").dispatch_event("input")
        page.locator("h2", has_text="How sure").evaluate("place => scrollTo(0, place.offsetTop - 500)")
        page.wait_for_timeout(1500)
        page.screenshot(path=ROOT / "docs" / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
