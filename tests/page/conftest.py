"""Fixtures for the tests of the page: one browser for all of them, and a model."""

import pytest

import utils
from tests.support.chromium import CHROMIUM, DRIVER, Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    pytest.importorskip("selenium", reason="the page's tests need selenium")
    if not (CHROMIUM and DRIVER):
        pytest.skip("the page's tests need chromium and its chromedriver")
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.driver.quit()


@pytest.fixture(scope="session")
def stories():
    return utils.load("stories")
