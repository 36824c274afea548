// Everything that really happened: events of this browser, and those that the server reports.

import { el } from "./editor.mjs";

/** Returns the first four characters of a secret. */
const short = (text) => (text.length > 4 ? text.slice(0, 4) + "…" : text);
const SECRETS = [
  [/(AppleOrder |Bearer )(\S+)/g], [/("authenticationToken":\s*")([^"]+)/g], [/("pushToken":\s*")([^"]+)/g],
  [/("signature":\s*")([^"]+)/g],
];
const mask = (text) => SECRETS.reduce(
  (masked, [pattern]) => masked.replace(pattern, (all, before, secret) => before + short(secret)), text);

class Transcript {
  constructor() {
    this.entries = [];
    this.listeners = new Set();
  }

  add(entry) {
    this.entries.push(entry);
    // The entries come from two sources, so they are sorted by time.
    this.entries.sort((left, right) => left.time - right.time);
    if (this.entries.length > 1000) this.entries.shift();
    for (const listener of this.listeners) listener();
  }

  /** Adds an event of this browser. */
  note(from, to, title, members = {}) { this.add(Object.assign({ time: Date.now(), from, to, title }, members)); }
}

const time = (epoch) => new Date(epoch).toLocaleTimeString("en-GB") + "." + String(epoch % 1000).padStart(3, "0");

const jsonText = (text) => {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch (error) { return text; }
};

/** Returns an entry as text, as it is shown and copied. */
function entryText(entry) {
  const parts = [];
  if (entry.detail) parts.push(JSON.stringify(entry.detail, null, 2));
  if (entry.request) {
    const { method, url, headers, body } = entry.request;
    parts.push([`${method} ${url}`, ...headers.map(([name, value]) => `${name}: ${value}`)].join("\n"));
    if (body) parts.push(jsonText(body));
  }
  if (entry.response) {
    const { status, headers, body, milliseconds } = entry.response;
    parts.push([
      `${status}${milliseconds === undefined ? "" : `   after ${milliseconds} ms`}`,
      ...headers.map(([name, value]) => `${name}: ${value}`)].join("\n"));
    if (body) parts.push(jsonText(body));
  }
  return parts.join("\n\n");
}

/** The panel of a block: `belongs(entry)` is true for its entries. */
class TranscriptPanel {
  constructor(transcript, belongs, onCount) {
    this.transcript = transcript;
    this.belongs = belongs;
    this.onCount = onCount;
    this.cleared = 0;
    this.items = new WeakMap();
    this.search = el("input", { type: "search", placeholder: "Filter", "aria-label": "Filter the transcript" });
    this.secrets = el("input", { type: "checkbox" });
    this.list = el("ul", { class: "entries" });
    this.empty = el("p", { class: "empty" }, "Nothing happened yet. Every request and its answer will be listed here.");
    this.copied = el("span", { class: "note", role: "status" });
    this.element = el(
      "div", {},
      el(
        "div", { class: "tools" }, this.search,
        el("label", { class: "check" }, this.secrets, "Show secrets"),
        el("button", { class: "small-button", type: "button", onclick: () => this.copy() }, "Copy"),
        el("button", { class: "small-button", type: "button", onclick: () => this.clear() }, "Clear"), this.copied),
      this.empty, this.list);
    this.search.addEventListener("input", () => this.draw());
    this.secrets.addEventListener("change", () => this.draw());
    transcript.listeners.add(() => this.draw());
    this.draw();
  }

  get shown() {
    const wanted = this.search.value.trim().toLowerCase();
    return this.transcript.entries.filter((entry) => entry.time > this.cleared && this.belongs(entry)
      && (!wanted || `${entry.from} ${entry.to} ${entry.title} ${entryText(entry)}`.toLowerCase().includes(wanted)));
  }

  text(entry) { return this.secrets.checked ? entryText(entry) : mask(entryText(entry)); }

  draw() {
    const shown = this.shown;
    this.onCount(shown.length);
    this.empty.hidden = shown.length > 0;
    const items = shown.map((entry) => this.item(entry));
    // What is shown already stays where it is, and keeps the focus.
    const wanted = new Set(items);
    for (const item of [...this.list.children]) if (!wanted.has(item)) item.remove();
    let place = this.list.firstChild;
    for (const item of items) {
      if (item === place) place = place.nextSibling;
      else this.list.insertBefore(item, place);
    }
  }

  /** Returns the element of an entry, which is made once. */
  item(entry) {
    let item = this.items.get(entry);
    if (!item) {
      const details = el(
        "details", { ontoggle: () => this.fill(item, entry) },
        el(
          "summary", {}, el("time", {}, time(entry.time)),
          el("span", { class: "way" }, el("b", {}, entry.from), entry.to === entry.from ? "" : ` → ${entry.to}`),
          el("span", { class: "title" }, entry.title)),
        el("pre", { class: "code" }, el("code")));
      item = el("li", {}, details);
      this.items.set(entry, item);
    }
    this.fill(item, entry);
    return item;
  }

  /** Gives the text of an entry that is open, with or without its secrets. */
  fill(item, entry) {
    const text = item.firstChild.open ? this.text(entry) || "No more is known." : "";
    const code = item.querySelector("code");
    if (code.textContent !== text) code.textContent = text;
  }

  clear() {
    this.cleared = Date.now();
    this.draw();
  }

  copy() {
    const text = this.shown.map((entry) => `${time(entry.time)}  ${entry.from} → ${entry.to}  ${entry.title}\n`
      + `${this.text(entry)}\n`).join("\n");
    navigator.clipboard.writeText(text).then(
      () => { this.copied.textContent = "Copied"; }, () => { this.copied.textContent = "The browser refuses to copy"; });
  }
}

export { Transcript, TranscriptPanel, entryText, mask };
