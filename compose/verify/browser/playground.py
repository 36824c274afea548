"""A visitor to the playground, in Chromium."""
import json
import time

import chromium

BLOCKS = {"receipt": 0, "order": 1, "update": 2}
# A payment with texts that must not be stored anywhere: `waybill-dev search` looks for the marked ones.
TOKEN = {
    "paymentData": {"version": "EC_v1", "data": "MARKED-PAYMENT-TOKEN", "signature": "signed", "header": {}},
    "paymentMethod": {"displayName": "Visa 1234", "network": "Visa", "type": "debit"},
    "transactionIdentifier": "MARKED-TRANSACTION",
}


class Visitor:
    """A page of the playground, and the actions of a person there."""

    def __init__(self, page, url):
        self.page = page
        page.open(url)
        page.wait("document.documentElement.dataset.ready === ''")
        page.evaluate(f"window.waybill && Object.assign(waybill.polyfill, {{token: {json.dumps(TOKEN)}}})")

    @staticmethod
    def block(name):
        return f"document.querySelectorAll('.block')[{BLOCKS[name]}]"

    def inside(self, name, selector):
        return f"{self.block(name)}.querySelector({selector!r})"

    def tab(self, name, title):
        self.page.click(
            f"[...{self.block(name)}.querySelectorAll('[role=tab]')].find((tab) => tab.textContent.startsWith('{title}'))")

    def choose(self, name, editor):
        self.page.click(
            f"[...{self.block(name)}.querySelectorAll('.choices button')].find((one) => one.textContent === '{editor}')")

    def choose_api(self, value):
        self.page.click(f"document.querySelector('input[value={value}]').nextElementSibling")
        self.ready("receipt")
        self.ready("order")

    def ready(self, name):
        button = self.inside(name, "apple-pay-button")
        self.page.wait(f"{button} && !{button}.hasAttribute('disabled')")

    def pay(self, name):
        """Taps the button and authorises the payment. Returns the order's identifier, None if no details arrived."""
        self.ready(name)
        before = self.page.evaluate("waybill.polyfill.transcript.length")
        self.page.click(self.inside(name, "apple-pay-button"))
        self.page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        self.page.click(chromium.sheet(".pay"))
        self.page.wait("!document.querySelector('[data-waybill-sheet]')")
        self.page.wait(f"waybill.polyfill.transcript.slice({before}).some(({{title}}) => title === 'complete')")
        self.page.wait(f"{self.inside(name, '.verdict')}.textContent.startsWith('Paid')")
        return self.page.evaluate(
            f"(waybill.polyfill.transcript.slice({before}).find(({{title}}) => title === 'details handed to the device')"
            " || {detail: {}}).detail.orderIdentifier")

    def area(self, name):
        return self.inside(name, "textarea")

    def document(self, name):
        return json.loads(self.page.evaluate(f"{self.area(name)}.value"))

    def write(self, name, editor, document):
        """Replaces the text of an editor, and waits until it is found valid."""
        self.choose(name, editor)
        self.page.type(self.area(name), json.dumps(document, indent=2, ensure_ascii=False))
        self.ready(name)

    def place(self, **members):
        """Places an order with status that has these members too. Returns its identifier."""
        self.choose("order", "Order")
        self.write("order", "Order", self.document("order") | members)
        return self.pay("order")

    def card(self, order):
        return f"document.querySelector('[data-order=\"{order}\"]')"

    def verdict(self, name, text):
        """Waits until the verdict of a block has a text."""
        self.page.wait(f"{self.inside(name, '.action .verdict')}.textContent.includes({json.dumps(text)})")

    def in_device(self, order):
        """Returns the headline of an order in the simulated device, once it is there."""
        pass_ = f"document.querySelector('[data-order=\"{order}\"] .state')"
        self.page.wait(pass_)
        return self.page.evaluate(f"{pass_}.textContent")

    def select(self, order):
        radio = f"document.querySelector('.orders input[value=\"{order}\"]')"
        self.page.wait(f"{radio} && !{radio}.disabled")
        self.page.click(radio)
        self.page.wait(f"{radio}.checked && {self.inside('update', 'textarea')}.value")
        self.page.wait("!document.querySelector('#update-button').disabled")

    def send(self, change):
        """Makes a quick change and sends it."""
        self.choose("update", change)
        # The button is disabled while the new text is checked.
        self.page.wait("!document.querySelector('#update-button').disabled")
        self.page.click("document.querySelector('#update-button')")

    def update(self, change):
        """Sends a quick change, and waits for its version."""
        self.send(change)
        self.page.wait(f"{self.inside('update', '.verdict')}.textContent.includes('is signed')")

    def press(self, name, text):
        self.page.click(
            f"[...{self.block(name)}.querySelectorAll('.action button')].find((one) => one.textContent === '{text}')")

    def all_titles(self, name):
        return f"[...{self.block(name)}.querySelectorAll('.entries .title')].map((one) => one.textContent)"

    def titles(self, name):
        return self.page.evaluate(self.all_titles(name))

    def wait_titles(self, name, title, count=1):
        """Waits until the transcript has this line at least this many times."""
        self.page.wait(f"{self.all_titles(name)}.filter((one) => one === '{title}').length >= {count}")

    def screenshots(self, folder, name):
        """Saves the whole page at the widths of a desktop and of a phone, light and dark."""
        for width, height, kind in ((1280, 900, "desktop"), (390, 844, "phone")):
            for scheme in ("light", "dark"):
                self.page.look(width, height, scheme)
                time.sleep(0.2)  # No event marks the end of a layout.
                self.page.screenshot(f"{folder}/{name}-{kind}-{scheme}.png", whole=True)
        self.page.look(1280, 900)
