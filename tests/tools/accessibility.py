"""The barriers of a page in a browser, by axe-core."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def barriers(page: Page) -> list[str]:
    """Return the barriers that axe-core calls serious or critical, each with the elements that it names."""
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes']]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
