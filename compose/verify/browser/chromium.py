"""Debian's Chromium, headless, driven over its DevTools protocol."""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

DEADLINE_SECONDS = 30


def missing():
    """Returns, as text for people, the missing program or package; None if a browser can be driven here."""
    if not shutil.which("chromium"):
        return "chromium is not installed"
    try:
        import websocket  # noqa: F401
    except ImportError:
        return "python3-websocket is not installed"
    return None


class Browser:
    """A Chromium with its own profile, which is removed at the end."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="waybill-chromium.")
        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
             "--remote-debugging-port=0", f"--user-data-dir={self.profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.port = self._port()
        except BaseException:
            self.close()
            raise

    def _port(self):
        path = os.path.join(self.profile, "DevToolsActivePort")
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"chromium ended with {self.process.returncode}")
            if os.path.exists(path):
                with open(path) as file:
                    lines = file.read().split("\n")
                if len(lines) >= 2:
                    return int(lines[0])
            time.sleep(0.05)
        raise RuntimeError("chromium is not ready")

    def page(self, width=1280, height=900, scheme="light"):
        """Opens a page, which shares cookies with the other pages of this browser."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        target = json.load(urllib.request.urlopen(request, timeout=DEADLINE_SECONDS))
        return Page(target["webSocketDebuggerUrl"], width, height, scheme)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(DEADLINE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Page:
    def __init__(self, address, width, height, scheme):
        import websocket
        self.socket = websocket.create_connection(address, suppress_origin=True, timeout=DEADLINE_SECONDS)
        self.number = 0
        self.complaints = []  # exceptions, errors in the console, violations of the content security policy
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")
        self.look(width, height, scheme)

    def look(self, width, height, scheme="light", scale=None):
        """Sets size and colours; scale: pixels of the screen for one of the page."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale or (2 if width < 600 else 1), mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self._note(message)

    def _note(self, message):
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            text = details.get("exception", {}).get("description") or details["text"]
            self.complaints.append("exception: " + text)
        if message.get("method") == "Runtime.consoleAPICalled" and parameters["type"] == "error":
            told = [str(one.get("description") or one.get("value")) for one in parameters["args"]]
            self.complaints.append("console: " + " ".join(told))
        if message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.complaints.append(f"{parameters['entry']['source']}: {parameters['entry']['text']}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def evaluate(self, expression):
        """Returns the value of an expression; awaits it if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def wait(self, expression, seconds=DEADLINE_SECONDS):
        """Waits until an expression is true, and returns its value."""
        end = time.monotonic() + seconds
        # Elements and functions are truthy, but arrive here as empty objects.
        expression = f"((value) => value instanceof Node || value instanceof Function || value)({expression})"
        while True:
            try:
                value = self.evaluate(expression)
            except RuntimeError as error:
                # A page that does not have the thing yet, or that goes to another one at this moment.
                if time.monotonic() > end or not any(part in str(error) for part in ("Cannot", "undefined", "navigated")):
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"not true within {seconds} s: {expression}; complaints: {self.complaints}")
            time.sleep(0.03)

    def click(self, element):
        """Makes a trusted click in the middle of the element that a JavaScript expression returns."""
        self.wait(f"Boolean({element})")
        box = self.evaluate(
            f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center', behavior: 'instant'}});"
            " const b = e.getBoundingClientRect(); return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box["x"], y=box["y"], button="left", clickCount=1)

    KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}

    def press(self, key):
        """Presses a key, as a person would."""
        code = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": self.KEYS[key]}
        text = {"Enter": "\r", " ": " "}.get(key)
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.call("Input.dispatchKeyEvent", **down, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def tab_to(self, condition, limit=80):
        """Presses Tab until a condition about the focused element holds; leaves editors with Escape."""
        for _ in range(limit):
            if self.evaluate("document.activeElement.tagName") == "TEXTAREA":
                self.press("Escape")
            self.press("Tab")
            if self.evaluate(condition):
                return
        raise AssertionError(f"not reached with Tab: {condition}")

    def wait_focus(self, element, limit=10):
        """Presses Tab until an element, in a shadow root too, has the focus."""
        for _ in range(limit):
            if self.evaluate(f"(({element}) || {{}}).matches(':focus')"):
                return
            self.press("Tab")
        raise AssertionError(f"not reached with Tab: {element}")

    def accessibility(self):
        """Returns what a screen reader is told: `[{role, name, isFocusable, level?, invalid?}]`, in the page's order."""
        told = []
        for node in self.call("Accessibility.getFullAXTree")["nodes"]:
            if node.get("ignored"):
                continue
            own = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
            entry = {"role": node["role"]["value"], "name": node.get("name", {}).get("value", ""),
                     "isFocusable": bool(own.get("focusable"))}
            told.append(entry | {name: own[name] for name in ("level", "invalid") if name in own})
        return told

    def pale_texts(self):
        """Returns visible texts of enabled controls with too little contrast, and their ratio. Source: WCAG 2.2, 1.4.3"""
        return self.evaluate(PALE_TEXTS)

    def type(self, element, text):
        """Replaces the content of a text field, as a person would."""
        self.evaluate(f"(() => {{ const e = {element}; e.focus(); e.select(); }})()")
        self.call("Input.insertText", text=text)

    def box(self, element):
        """Returns where the element that a JavaScript expression returns is in the window."""
        return self.evaluate(
            f"(() => {{ const b = {element}.getBoundingClientRect();"
            " return {x: b.x, y: b.y, width: b.width, height: b.height}; })()")

    def screenshot(self, path, part=None, whole=False):
        """Saves the window, a part of it, or the whole page."""
        parameters = {"format": "png"}
        if part:
            # The protocol counts from the page's corner.
            above = self.evaluate("scrollY")
            parameters["clip"] = part | {"y": part["y"] + above, "scale": 1}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            parameters.update(captureBeyondViewport=True, clip={
                "x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", **parameters)["data"]))

    def close(self):
        self.socket.close()


# Ratio, and the size from which 3 is enough: WCAG 2.2, "contrast ratio" and "large scale"
PALE_TEXTS = """(() => {
  const colourOf = (text) => {
    const numbers = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return { rgb: numbers.slice(0, 3).map((one) => one * scale), alpha: numbers.length > 3 ? numbers[3] : 1 };
  };
  const over = (front, back) => front.rgb.map((one, index) => one * front.alpha + back[index] * (1 - front.alpha));
  const luminance = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, index) => {
    const one = rgb[index] / 255;
    return sum + weight * (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  }, 0);
  const behind = (element) => {
    const own = colourOf(getComputedStyle(element).backgroundColor);
    return over(own, own.alpha < 1 && element.parentElement ? behind(element.parentElement) : [255, 255, 255]);
  };
  const opacity = (element) => (element
    ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1);
  const found = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || element.closest("script, noscript, :disabled")) continue;
    if (!element.checkVisibility({ checkVisibilityCSS: true })) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const colour = colourOf(style.color);
    colour.alpha *= opacity(element);
    const [dark, bright] = [luminance(over(colour, back)), luminance(back)].sort((left, right) => left - right);
    const size = parseFloat(style.fontSize);
    const ratio = (bright + 0.05) / (dark + 0.05);
    if (ratio < (size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5)) found.set(text, ratio);
  }
  return Object.fromEntries(found);
})()"""


def main_page_button():
    """Returns a JavaScript expression for the simulated pay button of a page."""
    return "document.querySelector('apple-pay-button')"


def sheet(selector):
    """Returns a JavaScript expression for an element of the polyfill's sheet."""
    return f"(document.querySelector('[data-waybill-sheet]') || {{}}).shadowRoot?.querySelector({json.dumps(selector)})"


if __name__ == "__main__":
    # `chromium.py missing`: prints what is missing and fails, or prints nothing.
    reason = missing()
    if reason:
        print(reason)
    sys.exit(1 if reason else 0)
