"""No state of the page has a serious accessibility fault, as axe finds them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.interop.conftest import PACKAGES, install_packages
from tests.web.fake_server import FakeServer
from tests.web.states import SCHEMES, STATES, WIDTHS, ColorScheme

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

_RUN = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.target.join(" ")).join(", ")}`);
}"""


@pytest.fixture(scope="module")
def axe() -> str:
    install_packages()
    return Path(PACKAGES / "axe-core" / "axe.min.js").read_text()


@pytest.mark.parametrize("state", STATES)
async def test_no_serious_fault(browser: Browser, server: FakeServer, axe: str, state: str) -> None:
    page = await browser.new_page()
    try:
        await STATES[state](page, server)
        await page.evaluate(axe)
        faults = {
            (width, scheme): found
            for width in WIDTHS
            for scheme in SCHEMES
            if (found := await _faults(page, width, scheme))
        }
    finally:
        await page.close()
    assert faults == {}


async def _faults(page: Page, width: str, scheme: ColorScheme) -> list[str]:
    size = WIDTHS[width]
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await page.emulate_media(color_scheme=scheme)
    return list(await page.evaluate(_RUN))
