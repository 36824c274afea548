"""The demo's second act, in Chromium: act.py URL. Screenshots go to WAYBILL_SCREENSHOTS if that is set."""
import os
import sys
import time

import chromium
from playground import Visitor


def say(mark, text, since=None):
    took = f"  ({1000 * (time.monotonic() - since):.0f} ms)" if since is not None else ""
    print(f"  {mark:<10} {text}{took}", flush=True)


def act(url):
    folder = os.environ.get("WAYBILL_SCREENSHOTS")
    if folder:
        os.makedirs(folder, exist_ok=True)
    with chromium.Browser() as browser:
        page = browser.page()
        visitor = Visitor(page, url)
        say("opened", f"{url} in Chromium; {page.evaluate('document.querySelector(`#support`).textContent')}")
        start = time.monotonic()
        order = visitor.pay("order")
        say("paid", "the button was tapped, the merchant validated, the payment authorised; nothing is charged", start)
        say("handed", f"order details of {order} went from the page to the device")
        state = visitor.in_device(order)
        say("shown", f"the simulated device shows \"{state}\"", start)
        visitor.select(order)
        start = time.monotonic()
        visitor.update("Next status")
        say("updated", page.evaluate(f"{visitor.inside('update', '.verdict')}.textContent"), start)
        page.wait(f"document.querySelector('[data-order=\"{order}\"] .state').textContent !== {state!r}")
        say("shown", f"the simulated device shows \"{visitor.in_device(order)}\"", start)
        print("\n  The transcript of the page")
        for title in visitor.titles("update"):
            print(f"    {title}")
        if folder:
            visitor.screenshots(folder, "act")
            print(f"\n  Screenshots are in {folder}")
        if page.complaints:
            sys.exit(f"the browser complains: {page.complaints}")


if __name__ == "__main__":
    act(sys.argv[1])
