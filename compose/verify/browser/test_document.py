"""compose/connect/shop.md, followed word for word: PYTHONPATH=.. python3 -m unittest test_document, in this folder."""
import os
import re
import unittest

import chromium
import document

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))


class DocumentTests(unittest.TestCase):
    def test_a_shop_in_15_minutes(self):
        environment = {}
        reader = document.Reader(ROOT, environment)
        self.addCleanup(reader.close)
        everything, page, server, shop, parcel = (
            (how, commands.replace(".build/release", os.environ.get("WAYBILL_TEST_PROGRAMS", ".build/release")))
            for how, commands in document.blocks(os.path.join(ROOT, "compose/connect/shop.md")))
        for how, commands in (everything, shop):
            self.assertRegex(how, '^background, until ".*"$', commands)
        reader.start(everything[1], re.search('"(.*)"', everything[0])[1])
        for how, commands in (page, server):
            self.assertEqual(how, "")
            reader.run(commands)
        terminal = reader.start(shop[1], re.search('"(.*)"', shop[0])[1])
        with chromium.Browser() as browser:
            visit = browser.page()
            visit.open("http://127.0.0.1:8000/")
            visit.click(chromium.main_page_button())
            visit.wait(f"({chromium.sheet('.pay')}) && !({chromium.sheet('.pay')}).disabled")
            visit.click(chromium.sheet(".pay"))
            told = visit.wait("document.querySelector('#told').textContent")
            self.assertRegex(told, "^Thank you")
            visit.close()
        order = re.search(r"lamp-[0-9a-f]+", told)[0]
        self.assertRegex(terminal.wait("fetched and verified"), f"{order}, .*status open, parcel-1 processing")
        terminal.wait("registered (201)")
        terminal.wait("listed: nothing new")
        self.assertEqual(parcel[0], "")
        reader.run(parcel[1])
        self.assertRegex(terminal.wait("listed, fetched and verified"), "status open, parcel-1 onTheWay")


if __name__ == "__main__":
    unittest.main()
