"""Open every page of the site in Chromium: python tools/site_check.py [--pictures FOLDER]

No page may write to the console, miss a resource, request anything outside the site, have a broken
link, or be wider than a telephone. Every public name must have a page with an example, and the
search must find common words. It needs chromium and chromedriver.
"""

import argparse
import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urldefrag

from check_docs import public
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

SITE = Path(__file__).parents[1] / "build" / "site"
SEARCH_TERMS = ("partial_fit", "half_life", "unlearn")
PICTURED_PAGES = {
    "home": "docs/index.html",
    "guide": "docs/probabilities.html",
    "command": "docs/commands/learn.html",
    "api": "docs/api/counterpoise.BalancedRidgeClassifier.html",
    "gallery": "docs/gallery/plot_costs.html",
    "search": "search.html?q=partial_fit",
}
SIZES = {"wide": (1280, 900), "mobile": (390, 844)}
LINKS = """
return {links: [...document.querySelectorAll('a[href]')].map(a => a.href),
        ids: [...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name),
        title: document.querySelector('h1')?.innerText || '',
        shown: [...document.querySelectorAll('.highlight')].some(e => e.innerText.includes('>>>')),
        over: document.documentElement.scrollWidth - window.innerWidth}
"""


def start_browser():
    """Start Chromium without a window, with a log of its console and of its requests."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
    for word in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def page_problems(driver, root):
    """Yield the problems of the page that was opened."""
    for entry in driver.get_log("browser"):
        yield f"console: {entry['message']}"
    for entry in driver.get_log("performance"):
        event = json.loads(entry["message"])["message"]
        if event["method"] == "Network.requestWillBeSent":
            url = event["params"]["request"]["url"]
            if not url.startswith((root, "data:", "blob:", "about:", "chrome:")):
                yield f"requests {url}"
        elif event["method"] == "Network.loadingFailed" and not event["params"].get("canceled"):
            yield f"a resource is missing: {event['params']['errorText']}"


def resize(driver, width, height):
    """Emulate the size of a screen: a window itself cannot be as narrow as a telephone."""
    measures = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", measures)


def check_pages(driver, root):
    """Open each page at the width of a telephone, and yield its problems."""
    pages, links = {}, {}
    resize(driver, *SIZES["mobile"])
    for path in sorted(SITE.rglob("*.html")):
        name = path.relative_to(SITE).as_posix()
        if "_static" in name or "_downloads" in name or name == "index.html":
            continue
        driver.get(root + name)
        yield from (f"{name}: {problem}" for problem in page_problems(driver, root))
        found = driver.execute_script(LINKS)
        pages[name], links[name] = found, found["links"]
        if not found["title"]:
            yield f"{name}: has no title"
        if found["over"] > 0:
            yield f"{name}: is {found['over']} pixels wider than a telephone"
    for name, targets in links.items():
        for target in sorted(set(targets)):
            if target.startswith(root):
                yield from broken_link(name, target[len(root) :], pages)
    driver.get(f"{root}index.html")
    with suppress(TimeoutException):
        WebDriverWait(driver, 30).until(lambda d: d.current_url == f"{root}docs/index.html")
    if driver.current_url != f"{root}docs/index.html":
        yield "index.html does not lead to the home page"
    yield from (f"index.html: {problem}" for problem in page_problems(driver, root))
    listed = set()
    for module, name, thing in public():
        page = f"docs/api/{module.__name__}.{name}.html"
        if id(thing) in listed:
            continue
        listed.add(id(thing))
        if page not in pages:
            yield f"{module.__name__}.{name} has no page"
        elif not pages[page]["shown"]:
            yield f"{page}: has no example"
    print(f"{len(pages)} pages, {sum(map(len, links.values())):,} links", file=sys.stderr)


def broken_link(name, target, pages):
    """Yield the problem of a link, if its page or the place in it does not exist."""
    path, fragment = map(unquote, urldefrag(target))
    path = path.split("?")[0]
    if path in pages:
        if fragment and fragment not in pages[path]["ids"]:
            yield f"{name}: {path} has no place {fragment!r}"
    elif not (SITE / path).is_file():
        yield f"{name}: {path} does not exist"


def count_results(driver):
    """Return the number of pages that the search lists, once it has ended."""
    count = "return document.querySelectorAll('#search-results li').length"
    ended = "return document.querySelector('#search-progress')?.innerText === ''"
    with suppress(TimeoutException):
        WebDriverWait(driver, 30).until(
            lambda d: d.execute_script(count) and d.execute_script(ended)
        )
    return driver.execute_script(count)


def check_search(driver, root):
    """Search for common words, and yield those without a result."""
    for words in SEARCH_TERMS:
        driver.get(f"{root}search.html?q={words}")
        count = count_results(driver)
        print(f"search: {words}: {count} pages", file=sys.stderr)
        if not count:
            yield f"search finds no {words}"
        yield from (f"search for {words}: {problem}" for problem in page_problems(driver, root))


def save_pictures(driver, root, folder):
    """Save pictures of pages of each kind, wide and narrow, light and dark."""
    folder.mkdir(parents=True, exist_ok=True)
    for size, (width, height) in SIZES.items():
        resize(driver, width, height)
        for mode in ("light", "dark"):
            wanted = {"name": "prefers-color-scheme", "value": mode}
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [wanted]})
            for name, page in PICTURED_PAGES.items():
                driver.get(root + page)
                if name == "search":
                    count_results(driver)
                driver.save_screenshot(str(folder / f"{name}-{size}-{mode}.png"))


def main():
    """Check the site, and print its problems."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=Path, help="a folder for pictures of some pages")
    options = parser.parse_args()
    root = SITE.resolve().as_uri() + "/"
    driver = start_browser()
    try:
        problems = [*check_pages(driver, root), *check_search(driver, root)]
        if options.pictures:
            save_pictures(driver, root, options.pictures)
    finally:
        driver.quit()
    print("\n".join(problems) or "site: in order")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
