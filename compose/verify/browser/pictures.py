"""The pictures of README.md: pictures.py URL FOLDER, with the address of a playground.

An order on its way in the simulated device, and the steps of its last change: on a desktop beside it, for a phone the
device alone; each light and dark.
"""
import sys

import chromium
from playground import Visitor

# The narrowest page that has the device beside the text: README.md shows it smaller.
WIDTH, HEIGHT, SCALE = 1080, 640, 1.5
# What is below the page's bar, down to a space between two lines of the device's log.
TOP, BOTTOM = 64, 456


def order_on_its_way(visitor):
    """Places an order and changes it twice. The transcript has the second change only."""
    order = visitor.pay("order")
    visitor.in_device(order)
    visitor.select(order)
    visitor.update("Next status")
    visitor.page.wait(f"document.querySelector('[data-order=\"{order}\"] .state').textContent === 'On the way'")
    visitor.wait_titles("update", "New version in Wallet")
    visitor.tab("update", "Transcript")
    visitor.page.click(
        f"[...{visitor.block('update')}.querySelectorAll('button')].find((one) => one.textContent === 'Clear')")
    visitor.tab("update", "Try")
    visitor.update("Tracking number")
    visitor.page.wait(f"document.querySelector('[data-order=\"{order}\"]').textContent.includes('Example Parcel')")
    visitor.wait_titles("update", "New version in Wallet")
    visitor.tab("update", "Transcript")


def take(page, folder):
    for scheme in ("light", "dark"):
        page.look(WIDTH, HEIGHT, scheme, SCALE)
        page.evaluate(
            "window.scrollBy({top: document.querySelectorAll('.block')[2].getBoundingClientRect().top - 76,"
            " behavior: 'instant'})")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.wait("document.getAnimations().every((one) => one.playState !== 'running')")
        device, order = (page.box(f"document.querySelector('{one}')") for one in ("#device .phone", "#device .pass"))
        page.screenshot(f"{folder}/playground-{scheme}.png", {"x": 0, "y": TOP, "width": WIDTH, "height": BOTTOM - TOP})
        page.screenshot(f"{folder}/device-{scheme}.png", device | {"height": order["y"] + order["height"] + 16 - device["y"]})


def main(url, folder):
    with chromium.Browser() as browser:
        page = browser.page(WIDTH, HEIGHT)
        order_on_its_way(Visitor(page, url))
        take(page, folder)
        if page.complaints:
            raise SystemExit(f"the page complains: {page.complaints}")


if __name__ == "__main__":
    reason = chromium.missing()
    if reason or len(sys.argv) != 3:
        raise SystemExit(f"pictures: {reason or 'usage: pictures.py URL FOLDER'}")
    main(*sys.argv[1:])
