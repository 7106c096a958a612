"""The page of the service in Chromium: no console message, real clicks, light and dark, narrow."""

import json
import shutil
import time
from pathlib import Path

import pytest
from services import events, labels, rows_of, running, write_model

from counterpoise import EventStore
from counterpoise.serve import Client, new_token
from counterpoise.serve.server import ServerSettings, serve_store
from counterpoise.serve.tokens import Tokens
from counterpoise.tables.alerts import Threshold
from counterpoise.tables.event_store import PredictionSettings

webdriver = pytest.importorskip("selenium.webdriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("chromedriver"), reason="requires chromium-driver"),
]
PICTURES = Path(__file__).parents[2] / "build" / "pictures"


@pytest.fixture
def path(tmp_path):
    return write_model(tmp_path)


@pytest.fixture
def browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
    )
    yield driver
    driver.quit()


def wait_for(condition):
    """Wait until a condition is met, on any machine."""
    for _ in range(600):
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(condition)


def check_messages(browser, address):
    """Compare the console and the requests of the page with what they may be."""
    assert [one for one in browser.get_log("browser") if "401" not in one["message"]] == []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            assert url.startswith((address, "data:", "chrome://")), url


def save_pictures(browser):
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, width in (("wide", 1280), ("narrow", 400)):
        sizes = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
        for mode in ("light", "dark"):
            wanted = {"features": [{"name": "prefers-color-scheme", "value": mode}]}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)
            browser.save_screenshot(str(PICTURES / f"serve-{name}-{mode}.png"))
        root = "return document.documentElement"
        assert browser.execute_script(f"{root}.scrollWidth") <= width


def test_alerts_are_reviewed_by_clicks(path, browser):
    rows = rows_of(0, 60)
    rows[0]["id"] = "<b>'x'&"
    store = EventStore(path, id="id")
    store.set_predictions(PredictionSettings(Threshold(0.6), explain=2))
    token, line = new_token("reviewer", "predict", "label")
    settings = ServerSettings(port=0, tokens=Tokens([line]))
    with running(serve_store, store, settings) as address, Client(address, token) as client:
        answers = client.predict(events(rows))
        alerts = [one["id"] for one in answers if one["alert"]]
        known = [row for row in rows if row["id"] not in alerts]
        client.label(labels(known))
        browser.get(address)
        field = wait_for(lambda: browser.find_element("id", "token"))
        wait_for(field.is_displayed)
        field.send_keys(token + "\n")
        find = lambda: browser.find_elements("css selector", "#queue li")  # noqa: E731
        wait_for(lambda: len(find()) == len(alerts) > 3)
        assert "model" in browser.find_element("id", "state").text
        assert "because of" in find()[0].text
        save_pictures(browser)
        button = find()[0].find_elements("tag name", "button")[0]
        assert button.get_attribute("aria-label") == f"Label {alerts[-1]} as no"
        button.click()
        wait_for(lambda: "is labeled no" in browser.find_element("id", "result").text)
        wait_for(lambda: len(find()) == len(alerts) - 1)
        about = client.model()
        assert about["learned_events"] == len(known) + 1
        assert about["pending_events"] == len(alerts) - 1
        # By the keyboard alone: from the link at the end back to the last button.
        browser.execute_script("document.querySelector('footer a').focus()")
        keys = webdriver.Keys if hasattr(webdriver, "Keys") else None
        assert keys is not None
        active = browser.switch_to.active_element
        active.send_keys(keys.SHIFT, keys.TAB)
        browser.switch_to.active_element.send_keys(keys.ENTER)
        wait_for(lambda: client.model()["pending_events"] == len(alerts) - 2)
        check_messages(browser, address)
        browser.get(f"{address}/docs")
        assert "POST /predict" in browser.find_element("tag name", "body").text
        check_messages(browser, address)
