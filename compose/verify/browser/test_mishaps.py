"""The playground when something fails, is late or is unusual: python3 -m unittest test_mishaps, in this folder.

At WAYBILL_PLAYGROUND_URL; the folder of its stack is WAYBILL_PLAYGROUND_STACK. Screenshots go to WAYBILL_SCREENSHOTS if
that is set.
"""
import json
import os
import subprocess
import unittest

import chromium
from playground import Visitor

URL = os.environ.get("WAYBILL_PLAYGROUND_URL", "http://127.0.0.1:8090/playground")
STACK = os.environ.get("WAYBILL_PLAYGROUND_STACK")
LONG = "Donaudampfschifffahrtsgesellschaft" * 8
ARABIC = "9 💡 مصباح مكتب"
USD = {"amount": "24.00", "currency": "USD"}

# Elements that reach out of the place they belong to: of the page's main part, or of a card in the device.
SPILLS = """(() => {
  const scrolls = (element) => getComputedStyle(element).overflowX !== "visible";
  const found = [];
  for (const place of document.querySelectorAll("main, .pass")) {
    const { left, right } = place.getBoundingClientRect();
    for (const element of place.querySelectorAll("*")) {
      const box = element.getBoundingClientRect();
      if (box.width === 0 || element.closest(".unseen")) continue;
      let inner = element.parentElement;
      while (inner !== place && !scrolls(inner)) inner = inner.parentElement;
      // The block's frame is a little wider than the text on a phone.
      if (inner === place && (box.right > right + 5 || box.left < left - 5)) {
        found.push(`${element.tagName}.${element.className}: ${element.textContent.slice(0, 40)}`);
      }
    }
  }
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) found.push("the page");
  return found;
})()"""


def parcel(number, status, **members):
    return {"fulfillmentType": "shipping", "fulfillmentIdentifier": f"parcel-{number}", "status": status,
            "carrier": "Example Parcel", "trackingNumber": f"EP-{number}"} | members


PICKUP = {
    "fulfillmentType": "pickup", "fulfillmentIdentifier": "pickup-1", "status": "readyForPickup",
    "displayName": "Fern & Pine, Station Road", "notes": "Ring twice.",
    "address": {"addressLines": ["4 Station Road"], "locality": "Cupertino", "postalCode": "95014"},
    "barcode": {"format": "code128", "message": "PICK-4711", "messageEncoding": "iso-8859-1", "altText": "4711"},
    "statusDescription": "Bring an identity card.",
}
RETURN = {
    "returnIdentifier": "return-1", "status": "open", "returnNumber": "R-1", "carrier": "Example Parcel",
    "statusDescription": "Send the throw back.", "returnLabel": "return-label.pdf", "dropOffBy": "2027-01-04T12:00:00Z",
}


def transaction(kind, receipt):
    return {"createdAt": "2026-01-04T12:00:00Z", "amount": USD, "status": "completed", "transactionType": kind,
            "paymentMethod": {"displayName": "Visa 1234"}, "receipt": receipt}


class MishapTests(unittest.TestCase):
    def setUp(self):
        self.browser = chromium.Browser()
        self.addCleanup(self.browser.close)
        self.folder = os.environ.get("WAYBILL_SCREENSHOTS")
        if self.folder:
            os.makedirs(self.folder, exist_ok=True)

    def visit(self, **look):
        page = self.browser.page(**look)
        self.addCleanup(page.close)
        # A page that is left open keeps one of the few connections that a browser has to a host.
        self.addCleanup(page.call, "Page.navigate", url="about:blank")
        page.call("Network.enable")
        # A session for each visit.
        page.call("Network.clearBrowserCookies")
        return Visitor(page, URL)

    def offline(self, visitor, is_away):
        visitor.page.call(
            "Network.emulateNetworkConditions", offline=is_away, latency=0, downloadThroughput=-1, uploadThroughput=-1)

    def no_exceptions(self, visitor):
        self.assertEqual([one for one in visitor.page.complaints if not one.startswith("network:")], [])

    def stack(self, *words):
        if not STACK:
            self.skipTest("WAYBILL_PLAYGROUND_STACK is not set")
        subprocess.run(["../../stack", *words, "--dir", STACK], check=True, timeout=120)

    def packager(self, verb):
        self.stack(verb, "packager")

    def look_at(self, visitor, name, widths=(1280, 1024, 390, 320), whole=False):
        """Checks that nothing spills at these widths, with the device open, and saves the window or the whole page."""
        page = visitor.page
        for width in widths:
            page.look(width, 900)
            page.wait(f"innerWidth === {width}")
            if width <= 1020:
                page.evaluate("document.querySelector('#device').open = true")
            with self.subTest(name, width=width):
                self.assertEqual(page.evaluate(SPILLS), [])
            for scheme in ("light", "dark") if self.folder else ():
                page.look(width, 900, scheme)
                page.screenshot(f"{self.folder}/mishap-{name}-{width}-{scheme}.png", whole=whole)
        page.look(1280, 900)

    def selected(self, visitor):
        order = visitor.pay("order")
        visitor.in_device(order)
        visitor.select(order)
        return order

    # MARK: The network

    def test_an_update_without_a_network_is_told_and_tried_again(self):
        visitor = self.visit()
        page = visitor.page
        self.selected(visitor)
        visitor.choose("update", "Next status")
        page.wait("!document.querySelector('#update-button').disabled")
        self.offline(visitor, True)
        page.click("document.querySelector('#update-button')")
        visitor.verdict("update", "nobody knows whether the change was published")
        page.wait("!document.querySelector('#update-button').disabled")
        page.wait("document.querySelector('#away').textContent.includes('does not answer')")
        visitor.press("update", "Push again")
        visitor.verdict("update", "does not answer")
        self.offline(visitor, False)
        page.click("document.querySelector('#update-button')")
        visitor.verdict("update", "Version 2 is signed")
        page.wait("document.querySelector('#away').textContent === ''")
        self.no_exceptions(visitor)

    def test_a_text_that_cannot_be_checked_is_checked_later(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        self.offline(visitor, True)
        page.type(visitor.area("order"), page.evaluate(f"{visitor.area('order')}.value") + " ")
        page.wait(f"{visitor.inside('order', '.count-of-problems')}.textContent.includes('cannot be checked now')")
        visitor.verdict("order", "Payment request cannot be checked now")
        button = visitor.inside("order", "apple-pay-button")
        self.assertTrue(page.evaluate(f"{button}.hasAttribute('disabled')"))
        self.offline(visitor, False)
        visitor.ready("order")
        self.assertEqual(page.evaluate(f"{visitor.inside('order', '.action .verdict')}.textContent"), "")
        self.no_exceptions(visitor)

    def test_a_payment_whose_answer_is_lost_is_not_told_as_failed(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        page.evaluate("""(() => {
          const own = window.fetch;
          window.fetch = async (url, options) => {
            const answer = await own(url, options);
            if (url !== "/playground/orders" || window.isBack) return answer;
            throw new TypeError("Failed to fetch");
          };
        })()""")
        page.click(visitor.inside("order", "apple-pay-button"))
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        page.click(chromium.sheet(".pay"))
        page.wait(f"({chromium.sheet('.errors.payment')}).textContent.includes('not certain')")
        visitor.verdict("order", "Nobody knows whether the order was placed")
        page.click(chromium.sheet(".plain"))
        page.wait("!document.querySelector('[data-waybill-sheet]')")
        visitor.verdict("order", "Nobody knows whether the order was placed")
        # It was placed nevertheless, and the next one is another one.
        page.wait("document.querySelectorAll('.orders input').length === 1")
        page.evaluate("window.isBack = true")
        visitor.in_device(visitor.pay("order"))
        page.wait("document.querySelectorAll('.orders input').length === 2")
        self.no_exceptions(visitor)

    # MARK: Changes that are late, or another's

    def test_an_update_whose_answer_is_lost_is_found_again(self):
        visitor = self.visit()
        page = visitor.page
        self.selected(visitor)
        page.evaluate("""(() => {
          const own = window.fetch;
          window.fetch = async (url, options = {}) => {
            const answer = await own(url, options);
            if (options.method !== "PUT") return answer;
            window.fetch = own;
            throw new TypeError("Failed to fetch");
          };
        })()""")
        visitor.send("Next status")
        visitor.verdict("update", "Version 2 is signed")
        visitor.update("Tracking number")
        visitor.verdict("update", "Version 3 is signed")
        self.no_exceptions(visitor)

    def test_a_late_package_is_told_when_it_arrives_and_is_nobody_else_s(self):
        visitor = self.visit()
        page = visitor.page
        self.selected(visitor)
        self.packager("stop")
        try:
            visitor.choose("update", "Next status")
            page.wait("!document.querySelector('#update-button').disabled")
            page.click("document.querySelector('#update-button')")
            visitor.verdict("update", "still on its way")
            # A second change before the version of the first is there.
            visitor.choose("update", "Tracking number")
            page.wait("!document.querySelector('#update-button').disabled")
            page.click("document.querySelector('#update-button')")
            visitor.verdict("update", "Publishing")
            visitor.verdict("update", "still on its way")
        finally:
            self.packager("start")
        visitor.verdict("update", "is signed")
        visitor.update("Return with a label")
        self.assertNotIn("Somebody else", page.evaluate(f"{visitor.inside('update', '.action .verdict')}.textContent"))
        self.no_exceptions(visitor)

    def test_a_change_of_somebody_else_is_told(self):
        visitor = self.visit()
        page = visitor.page
        order = self.selected(visitor)
        path = f"/playground/orders/{order}"
        status = page.evaluate(f"""(async () => {{
          const {{ document, version }} = await (await fetch("{path}")).json();
          document.fulfillments[0].notes = "Somebody's";
          const options = {{ method: "PUT", headers: {{ "Content-Type": "application/json" }},
            body: JSON.stringify({{ text: JSON.stringify(document), version }}) }};
          return (await fetch("{path}", options)).status;
        }})()""")
        self.assertIn(status, (200, 202))
        page.wait(f"{visitor.card(order)}.textContent.includes(\"Somebody's\")")
        visitor.send("Next status")
        visitor.verdict("update", "Somebody else changed this order: it is at version 2")
        page.click("document.querySelector('#update-button')")
        visitor.verdict("update", "Version 3 is signed")

    def test_an_order_that_waits_for_its_package_is_shown(self):
        visitor = self.visit()
        page = visitor.page
        self.packager("stop")
        try:
            order = visitor.pay("order")
            page.wait(f"{visitor.card(order)}.querySelector('.waits').textContent.includes('Waiting for the package')")
            self.look_at(visitor, "waits", (1280, 390))
        finally:
            self.packager("start")
        self.assertEqual(visitor.in_device(order), "Processing")

    # MARK: The device

    def test_the_device_shows_each_part_of_an_order_and_opens_its_documents(self):
        visitor = self.visit()
        page = visitor.page
        parcels = [parcel(number, status) for number, status in enumerate(
            ["delivered", "onTheWay", "issue", "processing"], 1)]
        parcels[2]["statusDescription"] = "The parcel was damaged."
        order = visitor.place(
            statusDescription="One parcel has to be sent anew.", fulfillments=parcels + [PICKUP], returns=[RETURN],
            barcode={"format": "qr", "message": "ORDER-1", "messageEncoding": "iso-8859-1"},
            payment={"status": "paid", "total": USD, "transactions": [
                transaction("purchase", "receipt-purchase.pdf"), transaction("refund", "receipt-refund.pdf")]})
        self.assertEqual(visitor.in_device(order), "There is an issue")
        text = page.evaluate(f"{visitor.card(order)}.innerText")
        for wanted in ("EP-1", "EP-2", "EP-3", "EP-4", "Delivered", "On the way", "There is an issue", "Processing",
                       "Ready for pickup", "The parcel was damaged.", "One parcel has to be sent anew.",
                       "Fern & Pine, Station Road", "4 Station Road, Cupertino, 95014", "Ring twice.", "PICK-4711",
                       "Code 128", "Bring an identity card.", "QR code", "ORDER-1", "Return started",
                       "Send the throw back.", "Drop off by", "Purchase 24.00 USD", "Refund 24.00 USD"):
            self.assertIn(wanted, text)
        links = page.evaluate(f"[...{visitor.card(order)}.querySelectorAll('a')].map((one) => one.href)")
        self.assertEqual([link.rsplit("/", 1)[1] for link in links],
                         ["return-label.pdf", "receipt-purchase.pdf", "receipt-refund.pdf"])
        opened = "fetch({}).then(async (one) => [one.status, one.headers.get('content-type'), (await one.text()).slice(0, 5)])"
        for link in links:
            self.assertEqual(page.evaluate(opened.format(json.dumps(link))), [200, "application/pdf", "%PDF-"])
        for name in ("order.json", "another.pdf", "..%2F..%2Freceipt.pdf"):
            wrong = links[0].replace("return-label.pdf", name)
            self.assertEqual(page.evaluate(f"fetch({json.dumps(wrong)}).then((one) => one.status)"), 404, name)
        self.assertEqual(page.evaluate("fetch('/playground/').then((one) => one.status)"), 404)
        self.no_files_for_others(links[0])
        # With the keyboard: the links are stops, and keep the focus while the device is drawn again.
        page.evaluate("document.querySelector('footer').scrollIntoView()")
        page.tab_to(f"document.activeElement === {visitor.card(order)}.querySelector('a')")
        self.look_at(visitor, "parts")

    def no_files_for_others(self, link):
        with chromium.Browser() as browser:
            page = browser.page()
            Visitor(page, URL)
            self.assertEqual(page.evaluate(f"fetch({json.dumps(link)}).then((one) => one.status)"), 404)
            page.close()

    def test_a_receipt_opens_in_a_tab_of_its_own(self):
        visitor = self.visit()
        order = visitor.pay("receipt")
        self.assertEqual(visitor.in_device(order), "Completed")
        link = f"{visitor.card(order)}.querySelector('a')"
        self.assertEqual(visitor.page.evaluate(f"[{link}.target, {link}.rel]"), ["_blank", "noopener"])
        tab = self.browser.page()
        self.addCleanup(tab.close)
        tab.open(visitor.page.evaluate(f"{link}.href"))
        self.assertEqual(tab.evaluate("document.contentType"), "application/pdf")
        self.assertEqual([one for one in tab.complaints if "Security" in one], [])

    def test_only_what_is_still_to_come_is_estimated(self):
        visitor = self.visit()
        page = visitor.page
        order = self.selected(visitor)
        page.wait(f"{visitor.card(order)}.textContent.includes('Estimated')")
        for number, (status, parcel_status, state, steps) in enumerate((
                ("open", "delivered", "Delivered", 4), ("open", "issue", "There is an issue", 0),
                ("completed", "onTheWay", "On the way", 4), ("cancelled", "onTheWay", "Cancelled", 0)), 2):
            document = visitor.document("update") | {"status": status}
            document["fulfillments"][0] |= {"status": parcel_status, "estimatedDeliveryAt": "2027-01-04T12:00:00Z"}
            document["fulfillments"][0].pop("deliveredAt", None)
            page.type(visitor.area("update"), json.dumps(document))
            page.wait("document.querySelector('#update-button').disabled")
            page.wait("!document.querySelector('#update-button').disabled")
            page.click("document.querySelector('#update-button')")
            visitor.verdict("update", f"Version {number} is signed")
            page.wait(f"{visitor.card(order)}.textContent.includes('version {number}')")
            seen = page.evaluate(f"[{visitor.card(order)}.querySelector('.state').textContent,"
                                 f" {visitor.card(order)}.querySelectorAll('.track .on').length,"
                                 f" {visitor.card(order)}.textContent.includes('Estimated')]")
            self.assertEqual(seen, [state, steps, False], (status, parcel_status))

    def test_a_removed_order_is_told_and_gets_no_updates(self):
        visitor = self.visit()
        page = visitor.page
        order = self.selected(visitor)
        number = visitor.document("update")["orderNumber"]
        page.wait("!document.querySelector('#unregister-button').disabled")
        visitor.press("update", "Remove the order …")
        visitor.press("update", "Remove")
        page.wait(f"{visitor.inside('update', '.notice')}.textContent.startsWith('Order {number} is removed')")
        page.wait(f"{visitor.card(order)}.textContent.includes('Removed by the shop')")
        self.assertFalse(page.evaluate(f"{visitor.card(order)}.textContent.includes('Updates on')"))
        page.wait("document.querySelector('#unregister-button').disabled")
        self.assertEqual(page.evaluate("document.activeElement.getAttribute('role')"), "tab")

    def test_the_transcript_of_an_update_has_its_own_order_only(self):
        visitor = self.visit()
        page = visitor.page
        first = self.selected(visitor)
        visitor.wait_titles("update", "Registers for updates: 201")
        second = visitor.pay("order")
        visitor.in_device(second)
        page.wait(f"{visitor.card(second)}.textContent.includes('Updates on')")
        path = f"/playground/orders/{second}"
        page.evaluate(f"""(async () => {{
          const {{ document, version }} = await (await fetch("{path}")).json();
          document.fulfillments[0].status = "onTheWay";
          await fetch("{path}", {{ method: "PUT", headers: {{ "Content-Type": "application/json" }},
            body: JSON.stringify({{ text: JSON.stringify(document), version }}) }});
        }})()""")
        page.wait(f"{visitor.card(second)}.querySelector('.state').textContent === 'On the way'")
        visitor.wait_titles("order", "New version in Wallet")
        titles = visitor.titles("update")
        for title, count in (("Order details go to the device", 1), ("The device has the order details", 1),
                             ("First version in Wallet", 1), ("New version in Wallet", 0)):
            self.assertEqual(titles.count(title), count, (title, titles))
        # Neither a list nor the push before it is about the other one.
        shown = visitor.all_titles("update")
        page.wait(f"{shown}.filter((one) => one.startsWith('Pushed')).length"
                  f" === {shown}.filter((one) => one.startsWith('Asks which orders')).length")
        entries = f"[...{visitor.block('update')}.querySelectorAll('.entries details')]"
        page.evaluate(f"{entries}.forEach((one) => {{ one.open = true; }})")
        page.wait(f"{entries}.every((one) => one.querySelector('pre').textContent)")
        self.assertNotIn(second, page.evaluate(f"{entries}.map((one) => one.textContent).join()"))
        visitor.update("Next status")
        page.wait(f"{visitor.card(first)}.querySelector('.state').textContent === 'On the way'")
        for title in ("Pushed: something changed", "Asks which orders changed: 200", "New version in Wallet"):
            visitor.wait_titles("update", title)

    # MARK: Payments

    def test_a_device_that_fails_is_not_a_customer_who_cancels(self):
        for api in ("applepay", "payment-request"):
            for button, told in ((".sheet footer button:last-child", "The device gave up"), (".plain", "Cancelled")):
                with self.subTest(api, told=told):
                    visitor = self.visit()
                    visitor.choose_api(api)
                    visitor.page.click(visitor.inside("order", "apple-pay-button"))
                    visitor.page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
                    visitor.page.click(chromium.sheet(button))
                    visitor.verdict("order", told)

    def test_a_payment_that_the_shop_declines_can_be_tried_again(self):
        for api in ("applepay", "payment-request"):
            with self.subTest(api):
                visitor = self.visit()
                page = visitor.page
                visitor.choose_api(api)
                page.click(visitor.inside("order", ".decline input"))
                page.click(visitor.inside("order", "apple-pay-button"))
                page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
                page.click(chromium.sheet(".pay"))
                page.wait(f"({chromium.sheet('.errors.payment')}).textContent === 'The card was declined.'")
                visitor.verdict("order", "the shop declines it. Nothing was ordered")
                visitor.wait_titles("order", "The shop declines the payment")
                page.wait(f"!({chromium.sheet('.pay')}).disabled")
                page.click(chromium.sheet(".pay"))
                visitor.verdict("order", "Paid and ordered")
                page.wait("document.querySelectorAll('.pass .state').length === 1")

    def test_an_edited_order_stays_after_a_payment(self):
        visitor = self.visit()
        page = visitor.page
        visitor.choose("order", "Order")
        number = visitor.document("order")["orderNumber"]
        order = visitor.place(fulfillments=[PICKUP])
        self.assertEqual(visitor.in_device(order), "Ready for pickup")
        page.wait(f"!{visitor.area('order')}.value.includes('{number}')")
        kept = visitor.document("order")
        self.assertEqual(kept["fulfillments"], [PICKUP])
        self.assertIn(kept["orderNumber"], kept["orderManagementURL"])
        again = visitor.pay("order")
        self.assertEqual(visitor.in_device(again), "Ready for pickup")
        self.assertNotEqual(again, order)

    # MARK: The look

    def test_long_words_stay_in_their_place(self):
        visitor = self.visit()
        page = visitor.page
        visitor.choose("order", "Order")
        document = visitor.document("order")
        document["merchant"]["displayName"] = LONG
        order = visitor.place(
            orderNumber=LONG, merchant=document["merchant"], statusDescription=LONG,
            fulfillments=[parcel(1, "onTheWay", carrier=LONG, trackingNumber=LONG, notes=LONG),
                          PICKUP | {"displayName": LONG}], returns=[RETURN | {"statusDescription": LONG}])
        visitor.in_device(order)
        visitor.select(order)
        page.wait("document.querySelector('#package-note').textContent.includes('verified')")
        page.wait("!document.querySelector('#unregister-button').disabled")
        visitor.update("Order completed")
        self.look_at(visitor, "long")
        for width in (1280, 390):
            page.look(width, 844)
            inside = page.evaluate(
                f"(() => {{ const card = {visitor.card(order)}.getBoundingClientRect();"
                f" const amount = {visitor.card(order)}.querySelector('.amount').getBoundingClientRect();"
                " return amount.width > 40 && amount.right <= card.right && amount.height < 40; })()")
            self.assertTrue(inside, width)

    def test_everything_is_beside_the_device_and_every_step_can_be_reached(self):
        visitor = self.visit()
        page = visitor.page
        visitor.in_device(visitor.pay("order"))
        self.look_at(visitor, "widths", whole=True)
        for width in (1280, 1024, 390, 320):
            page.look(width, 844)
            page.wait(f"innerWidth === {width}")
            cut = page.evaluate(
                "[...document.querySelectorAll('.bar nav a')].filter((one) => { const box = one.getBoundingClientRect();"
                " return box.left < 0 || box.right > innerWidth || one.scrollWidth > one.clientWidth + 1"
                " || box.right > one.parentElement.getBoundingClientRect().right + 1; }).map((one) => one.textContent)")
            self.assertEqual(cut, [], width)

    def test_texts_from_right_to_left_have_their_direction(self):
        visitor = self.visit()
        page = visitor.page
        visitor.choose("order", "Order")
        merchant = visitor.document("order")["merchant"] | {"displayName": ARABIC}
        request = "Payment request"
        visitor.choose("order", request)
        visitor.write("order", request, visitor.document("order") | {
            "lineItems": [{"label": ARABIC, "amount": "1.00"}], "total": {"label": ARABIC, "amount": "1.00"}})
        page.click(visitor.inside("order", "apple-pay-button"))
        page.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
        direction = "getComputedStyle({}).direction"
        self.assertEqual(page.evaluate(direction.format(f"({chromium.sheet('.item dt')})")), "rtl")
        page.click(chromium.sheet(".plain"))
        page.wait("!document.querySelector('[data-waybill-sheet]')")
        order = visitor.place(
            merchant=merchant, orderNumber=ARABIC, statusDescription=ARABIC,
            fulfillments=[parcel(1, "onTheWay", carrier=ARABIC, notes=ARABIC)])
        visitor.in_device(order)
        visitor.select(order)
        for selector in ("h3", "bdi", ".state + .what", ".what[dir=auto]:not(.state + .what)"):
            found = page.evaluate(f"[...{visitor.card(order)}.querySelectorAll({json.dumps(selector)})]"
                                  f".filter((one) => one.textContent === {json.dumps(ARABIC)})"
                                  ".map((one) => getComputedStyle(one).direction)")
            self.assertEqual(set(found), {"rtl"}, selector)
        self.assertEqual(page.evaluate(direction.format("document.querySelector('.orders bdi')")), "rtl")

    def test_without_javascript_the_page_says_so_at_once(self):
        page = self.browser.page()
        self.addCleanup(page.close)
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        page.call("Page.navigate", url=URL)
        page.wait("document.querySelector('noscript span')")
        box = page.box("document.querySelector('noscript span')")
        self.assertGreater(box["width"], 100)
        self.assertLess(box["y"] + box["height"], 900)
        self.assertIn("needs JavaScript", page.evaluate("document.querySelector('noscript').textContent"))
        self.assertNotIn("Looking for", page.evaluate("document.body.innerText"))

    def test_a_letter_makes_no_line_number_anew(self):
        visitor = self.visit()
        page = visitor.page
        visitor.ready("order")
        area = visitor.area("order")
        page.evaluate(f"""(() => {{
          const area = {area};
          area.value = "{{\\n" + '"a": 1,\\n'.repeat(2000) + "}}";
          area.dispatchEvent(new Event("input"));
          window.made = 0;
          new MutationObserver((changes) => {{
            for (const {{ addedNodes, removedNodes }} of changes) window.made += addedNodes.length + removedNodes.length;
          }}).observe({visitor.inside('order', '.gutter')}, {{ childList: true }});
          area.focus();
          area.setSelectionRange(5, 5);
        }})()""")
        for text, made in (("x", 0), ("\n", 1), ("yz", 1)):
            page.call("Input.insertText", text=text)
            self.assertEqual(page.evaluate("window.made"), made)
        self.assertEqual(page.evaluate(f"{visitor.inside('order', '.gutter')}.children.length"),
                         page.evaluate(f"{area}.value.split('\\n').length"))


if __name__ == "__main__":
    unittest.main()
