// The playground: blocks to create and update orders, their transcripts and sources, and the device beside them.

import * as waybill from "/applepay/waybill.mjs";
import { Device } from "./device.mjs";
import { Editor, el, placeOf } from "./editor.mjs";
import * as examples from "./examples.mjs";
import * as source from "./source.mjs";
import { Steps } from "./steps.mjs";
import { Transcript, TranscriptPanel } from "./transcript.mjs";

const transcript = new Transcript();
const device = new Device(transcript);
const state = { api: "applepay", session: undefined, orders: [], active: undefined, placed: new Map() };
const polyfill = window.waybill && window.waybill.polyfill;
const dark = matchMedia("(prefers-color-scheme: dark)");

async function call(method, path, body) {
  const options = { method, headers: {}, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  let answer = {};
  try { answer = await response.json(); } catch (error) { /* An answer without JSON still has its status. */ }
  return { status: response.status, answer };
}

/** Returns the problems of a text, from the server. */
async function review(kind, text) {
  const { status, answer } = await call("POST", "/playground/validate", { kind, text });
  if (status !== 200) return [{ line: 1, column: 1, path: "$", message: "cannot be checked now: load the page again" }];
  return answer.problems || [];
}

/** Apple: a white button on dark pages. */
const buttonStyle = () => (dark.matches ? "white" : "black");

/** The checkout role's address, without a slash at its end. */
const service = () => state.session.service.replace(/\/$/, "");

// --- Tabs ---------------------------------------------------------------------------------------------------------

let lastIdentifier = 0;

/** ARIA tabs of a block. `panels` maps names to elements; returns the element and a function that selects. */
function tabs(block, panels) {
  const heading = block.closest("section").getAttribute("aria-labelledby");
  const list = el("div", { class: "tabs", role: "tablist", "aria-labelledby": heading });
  const element = el("div", {}, list);
  const buttons = {};
  const select = (name) => {
    for (const other of Object.keys(panels)) {
      buttons[other].setAttribute("aria-selected", String(other === name));
      buttons[other].tabIndex = other === name ? 0 : -1;
      buttons[other].panel.hidden = other !== name;
    }
  };
  for (const name of Object.keys(panels)) {
    lastIdentifier += 1;
    const panel = el(
      "div", { class: "panel", role: "tabpanel", id: `panel-${lastIdentifier}`, "aria-labelledby": `tab-${lastIdentifier}` },
      panels[name]);
    const button = el("button", {
      type: "button", role: "tab", id: `tab-${lastIdentifier}`, "aria-controls": panel.id, onclick: () => select(name),
    }, name);
    button.panel = panel;
    buttons[name] = button;
    list.append(button);
    element.append(panel);
  }
  list.addEventListener("keydown", (event) => {
    const names = Object.keys(panels);
    const index = names.findIndex((name) => buttons[name] === document.activeElement);
    const places = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: -1 };
    if (places[event.key] === undefined || index < 0) return;
    event.preventDefault();
    const next = names[(places[event.key] + names.length) % names.length];
    select(next);
    buttons[next].focus();
  });
  select(Object.keys(panels)[0]);
  const count = (name, number) => {
    buttons[name].replaceChildren(name, ...(number > 0 ? [" ", el("span", { class: "count" }, String(number))] : []));
  };
  return { element, select, count };
}

/** The panel of generated texts: `[{title, text}]` from `make()`, made again after each edit. */
class SourcePanel {
  constructor(make) {
    this.make = make;
    this.element = el("div", { class: "sources" });
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.draw(), 150);
  }

  draw() {
    const parts = this.make();
    if (!parts) {
      this.element.replaceChildren(el("p", { class: "empty" }, "There is no source while an editor has problems."));
      return;
    }
    this.element.replaceChildren(...parts.flatMap(({ title, text }) => {
      const code = el("code", {}, text);
      const told = el("span", { class: "note", role: "status" });
      const copy = async () => {
        try {
          await navigator.clipboard.writeText(text);
          told.textContent = "Copied ";
        } catch (error) {
          getSelection().selectAllChildren(code);
          told.textContent = "Press ⌘C or Ctrl+C ";
        }
      };
      return [
        el("div", { class: "source-head" }, el("h4", {}, title), el(
          "span", {}, told, el("button", { class: "small-button", type: "button", onclick: copy }, "Copy"))),
        el("pre", { class: "code", tabindex: "0", role: "group", "aria-label": title, "data-source": title }, code),
      ];
    }));
  }
}

// --- Create -------------------------------------------------------------------------------------------------------

class CreateBlock {
  constructor(element, index) {
    this.element = element;
    this.index = index;
    this.isReceipt = element.dataset.kind === "receipt";
    const changed = () => this.changed();
    this.editors = {
      "Payment request": new Editor({
        label: "Payment request", value: examples.pretty(examples.paymentRequest()), onChange: changed,
        check: (text) => review("paymentRequest", text),
      }),
      "Order details": new Editor({ label: "Order details", check: (text) => this.checkDetails(text), onChange: changed }),
      "Order": new Editor({ label: "Order", check: (text) => review("order", text), onChange: changed }),
    };
    this.breaks = el("input", { type: "checkbox" });
    this.breaks.addEventListener("change", () => this.showDetails());
    this.notes = {
      "Payment request": "The payment sheet asks for this.",
      "Order details": "The page hands this to the browser. Type, identifier and token are the server's; the address may be edited.",
      "Order": this.isReceipt
        ? "The document that the shop publishes, as a receipt: with \"webServiceURL\": null its order.json names no web service, so that a device has nothing to register with."
        : "The document that the shop publishes. Waybill adds the type, the identifiers, the address, the token and updatedAt.",
    };
    this.note = el("p", { class: "note" });
    this.breakLabel = el("label", { class: "check" }, this.breaks, "Break the address, to see that the payment succeeds all the same");
    this.choices = el(
      "div", { class: "choices", role: "group", "aria-label": "Editors" },
      ...Object.keys(this.editors).map((name) => el("button", { type: "button", onclick: () => this.choose(name) }, name)));
    this.holder = el("div", {});
    this.place = el("div", { class: "pay" });
    this.verdict = el("p", { class: "verdict", role: "status" });
    this.source = new SourcePanel(() => this.sources());
    const attempt = el(
      "div", {}, this.choices, this.note, this.holder, this.breakLabel, el("div", { class: "action" }, this.place, this.verdict));
    this.panel = new TranscriptPanel(
      transcript, (entry) => (entry.order ? this.owns(entry.order) : entry.block === this),
      (number) => { if (this.tabs) this.tabs.count("Transcript", number); });
    this.tabs = tabs(element, { Try: attempt, Transcript: this.panel.element, Source: this.source.element });
    element.append(this.tabs.element);
    this.choose("Payment request");
  }

  choose(name) {
    this.chosen = name;
    this.holder.replaceChildren(this.editors[name].element);
    this.note.textContent = this.notes[name];
    this.breakLabel.hidden = name !== "Order details";
    this.drawChoices();
  }

  drawChoices() {
    for (const button of this.choices.children) {
      const name = button.textContent;
      button.setAttribute("aria-pressed", String(name === this.chosen));
      button.classList.toggle("has-problem", this.editors[name].problems.length > 0);
    }
  }

  /** True for an order that was placed here; after the page was loaded again, for one of the same kind. */
  owns(identifier) {
    if (state.placed.has(identifier)) return state.placed.get(identifier) === this;
    const order = state.orders.find(({ orderIdentifier }) => orderIdentifier === identifier);
    return Boolean(order) && order.isReceipt === this.isReceipt;
  }

  /** A new order: its details from the server, its document from the example. */
  renew() {
    this.details = state.session.next[this.index];
    this.showDetails();
    const make = this.isReceipt ? examples.receipt : examples.order;
    this.editors.Order.set(examples.pretty(make(examples.orderNumber())));
  }

  showDetails() {
    if (!this.details) return;
    const shown = Object.assign({}, this.details);
    if (this.breaks.checked) shown.webServiceURL = shown.webServiceURL.replace("https://", "");
    this.editors["Order details"].set(examples.pretty(shown));
  }

  async checkDetails(text) {
    let details;
    try {
      details = JSON.parse(text);
    } catch (error) {
      return review("details", text);
    }
    if (!this.details) return [];
    const names = ["orderTypeIdentifier", "orderIdentifier", "authenticationToken"];
    return names.filter((name) => details[name] !== this.details[name]).map((name) => Object.assign({
      path: `$.${name}`, message: "is the server's and cannot be changed",
    }, placeOf(text, `$.${name}`)));
  }

  changed() {
    if (!this.choices) return;
    this.drawChoices();
    this.source.soon();
    const faulty = Object.keys(this.editors).find((name) => this.editors[name].problems.length > 0);
    if (this.button) this.button.toggleAttribute("disabled", Boolean(faulty) || !this.isReady());
    if (faulty) {
      const number = this.editors[faulty].problems.length;
      this.say(`${faulty} has ${number === 1 ? "a problem" : `${number} problems`}, so nothing can be paid.`, "bad");
      this.isTellingFault = true;
    } else if (this.isTellingFault) {
      this.isTellingFault = false;
      this.say("");
    }
  }

  isReady() { return Object.values(this.editors).every((editor) => editor.isChecked && editor.problems.length === 0); }

  say(text, kind) {
    this.verdict.textContent = text;
    this.verdict.className = kind ? `verdict ${kind}` : "verdict";
  }

  /** Adds the button for the chosen API. */
  async connect() {
    if (this.controller) this.controller.detach();
    this.place.replaceChildren();
    if (!waybill.isSupportedByDevice()) {
      this.place.replaceChildren(el(
        "p", { class: "note" }, missingApplePay(), " ", el("a", { href: "#requirements-title" }, "Requirements")));
      return;
    }
    this.place.addEventListener("click", () => { state.active = this; }, { capture: true });
    this.controller = waybill.createController({
      service: service(), api: state.api, button: { type: "buy", style: buttonStyle() },
      request: () => {
        if (!this.isReady()) throw new Error("an editor has problems, or is being checked");
        return this.editors["Payment request"].json;
      },
      validateMerchant: (validationURL) => this.validateMerchant(validationURL),
      authorise: () => this.authorise(),
      onAuthorised: (result) => this.authorised(result),
      onFailed: () => this.refused(),
      onCancelled: ({ isCharging }) => { if (!isCharging) this.say("Cancelled. Nothing was ordered."); },
      onError: (detail) => this.failed(detail),
    });
    const { controller } = this;
    const isThere = await controller.attach(this.place);
    // Another one took its place while this one was loading.
    if (this.controller !== controller) return;
    this.button = isThere ? this.place.querySelector("apple-pay-button, button") : undefined;
    if (!isThere) this.place.replaceChildren(el("p", { class: "note" }, "The merchant cannot be reached: load the page again."));
    this.changed();
  }

  /** Gives the button the style of the page's colours. */
  restyle() {
    if (this.button && this.button.matches("apple-pay-button")) this.button.setAttribute("buttonstyle", buttonStyle());
    else if (this.button) this.connect();
  }

  async validateMerchant(validationURL) {
    const start = Date.now();
    const body = { validationURL };
    const { status, answer } = await call("POST", `${service()}/applepay/validate`, body);
    transcript.note("page", "checkout", status === 200 ? "Merchant session made" : "Merchant session refused", {
      block: this, request: { method: "POST", url: `${service()}/applepay/validate`, headers: [["Content-Type", "application/json"]], body: JSON.stringify(body) },
      response: { status, headers: [], body: JSON.stringify(answer), milliseconds: Date.now() - start },
      detail: {
        note: state.session.isReal ? "The checkout role asked Apple's sandbox, with the merchant's certificate."
          : "Apple's gateway is a fake here, with a client certificate as the real one wants it.",
      },
    });
    if (status !== 200) throw new Error("no merchant session");
    return answer;
  }

  /** Acts as the shop. The token is dropped: the payment's bytes never leave this page. */
  async authorise() {
    const text = this.editors.Order.value;
    state.placed.set(this.details.orderIdentifier, this);
    const { status, answer } = await call("POST", "/playground/orders", {
      orderIdentifier: this.details.orderIdentifier, text,
    });
    if (status !== 200) {
      this.reason = (answer.error && answer.error.message) || "the order is not valid";
      return { status: "failure", errors: [{ code: "unknown", message: this.reason }] };
    }
    // A broken address never leaves the page: the browser refuses it, or the device gets the server's own.
    const { webServiceURL } = JSON.parse(this.editors["Order details"].value);
    return Object.assign({}, answer, { orderDetails: Object.assign({}, answer.orderDetails, { webServiceURL }) });
  }

  async authorised(result) {
    this.say(
      result.hasTracking ? "Paid and ordered. The device has the details and fetches the order."
        : "Paid and ordered. The browser refused the order details, so the payment was completed without them: the order is not in Wallet.",
      result.hasTracking ? "good" : "warn");
    this.breaks.checked = false;
    await openSession();
    this.renew();
  }

  async refused() {
    this.say(`The payment failed${this.reason ? `: ${this.reason}` : ""}. Nothing was ordered.`, "bad");
    await openSession();
    this.details = state.session.next[this.index];
    this.showDetails();
  }

  failed(detail) {
    const error = detail.tracking || detail.error;
    transcript.note("browser", "page", detail.stage === "tracking"
      ? "completePayment threw: the details are refused, and the payment goes on without them" : `Error while: ${detail.stage}`, {
      block: this, detail: { error: error ? `${error.name}: ${error.message}` : undefined },
    });
    if (detail.stage !== "tracking") this.say(error ? error.message : "Something failed.", "bad");
  }

  sources() {
    const request = this.editors["Payment request"].json;
    const document = this.editors.Order.json;
    if (!request || !document || !this.details) return undefined;
    const asArguments = (version, value) => waybill.paymentRequestArguments(
      version, value, state.session.merchantIdentifier);
    return [
      { title: "HTML", text: source.html },
      { title: "JavaScript", text: source.script(state.api, waybill.requiredVersion(request), request, asArguments) },
      { title: "Server", text: source.server(this.details.orderTypeIdentifier, document) },
    ];
  }
}

// --- Update -------------------------------------------------------------------------------------------------------

class UpdateBlock {
  constructor(element) {
    this.rows = new Map();
    this.list = el("fieldset", { class: "orders", "aria-label": "Orders" });
    this.empty = el("p", { class: "empty" }, "There are no orders yet that can be updated. Place one in step 2 first.");
    this.editor = new Editor({
      label: "Order to update", check: (text) => (this.selected ? review("order", text) : Promise.resolve([])),
      onChange: () => this.changed(),
    });
    this.quick = el("div", { class: "choices", role: "group", "aria-label": "Quick changes" });
    for (const name of Object.keys(examples.quickChanges)) {
      this.quick.append(el("button", { type: "button", onclick: () => this.edit(name) }, name));
    }
    this.again = el("button", { class: "small-button", type: "button", onclick: () => this.pushAgain() }, "Push again");
    this.update = el("button", { class: "primary", type: "button", id: "update-button", disabled: true, onclick: () => this.send() }, "Update");
    this.remove = el("button", { class: "plain-button", type: "button", onclick: () => this.askToRemove(true) }, "Remove the order …");
    this.removal = el(
      "div", { class: "removal", role: "group", "aria-label": "Remove the order?", hidden: true },
      el("span", {}, "Remove it from Wallet's web service?"),
      el("button", { class: "danger", type: "button", onclick: () => this.removeOrder() }, "Remove"),
      el("button", { class: "small-button", type: "button", onclick: () => this.askToRemove(false) }, "Keep"));
    this.removal.addEventListener("keydown", (event) => { if (event.key === "Escape") this.askToRemove(false); });
    this.verdict = el("p", { class: "verdict", role: "status" });
    this.work = el(
      "div", { hidden: true }, this.quick, this.editor.element,
      el("div", { class: "action" }, this.update, this.again, this.verdict, this.remove, this.removal));
    this.source = new SourcePanel(() => {
      const document = this.editor.json;
      if (!this.selected || !document) return undefined;
      return [{ title: "Server", text: source.update(state.session.next[0].orderTypeIdentifier, document) }];
    });
    this.panel = new TranscriptPanel(
      // A push and a list of changed orders name no order: those since the order is there may be about it.
      transcript, (entry) => (entry.order ? entry.order === this.selected
        : (entry.to === "device" || entry.from === "device") && entry.time >= this.since),
      (number) => { if (this.tabs) this.tabs.count("Transcript", number); });
    this.tabs = tabs(element, {
      Try: el("div", {}, this.list, this.empty, this.work), Transcript: this.panel.element, Source: this.source.element,
    });
    element.append(this.tabs.element);
    this.source.draw();
  }

  draw() {
    const known = state.orders.filter((order) => !order.isRemoved && order.version > 0);
    this.empty.hidden = known.some((order) => !order.isReceipt);
    this.list.hidden = known.length === 0;
    const rows = known.map((order) => this.row(order));
    // Rows are not replaced needlessly, so that a click hits the row that it was meant for.
    if (rows.some((row, index) => row !== this.list.children[index]) || rows.length !== this.list.children.length) {
      this.list.replaceChildren(...rows);
    }
    if (this.selected && !known.some((order) => order.orderIdentifier === this.selected)) this.deselect();
  }

  row(order) {
    let row = this.rows.get(order.orderIdentifier);
    if (!row) {
      row = el(
        "label", { class: order.isReceipt ? "off" : "" },
        el("input", { type: "radio", name: "order", value: order.orderIdentifier, disabled: order.isReceipt }),
        el("span", {}, order.orderNumber || order.orderIdentifier, el("small", {}, order.orderIdentifier)),
        el("span", { class: "meta" }));
      row.firstChild.addEventListener("change", () => this.select(order.orderIdentifier));
      this.rows.set(order.orderIdentifier, row);
    }
    row.firstChild.checked = order.orderIdentifier === this.selected;
    row.lastChild.textContent = order.isReceipt ? "Receipt, no updates"
      : `${order.status} · version ${order.ordinal} · ${order.devices === 1 ? "1 device" : `${order.devices} devices`}`;
    return row;
  }

  /** The time of the first entry about the selected order. */
  get since() {
    const first = transcript.entries.find(({ order }) => order && order === this.selected);
    return first ? first.time : Infinity;
  }

  deselect() {
    this.selected = undefined;
    this.work.hidden = true;
    this.draw();
  }

  async select(identifier) {
    if (this.isEdited && !window.confirm("Leave the changes that were not sent?")) {
      this.draw();
      return;
    }
    const { status, answer } = await call("GET", `/playground/orders/${identifier}`);
    if (status !== 200) return;
    this.selected = identifier;
    this.version = answer.version;
    this.original = examples.pretty(examples.arranged(answer.document, examples.order("")));
    this.askToRemove(false);
    this.work.hidden = false;
    this.editor.set(this.original);
    this.say("");
    this.panel.draw();
    this.draw();
  }

  get isEdited() { return Boolean(this.selected) && this.editor.value !== this.original; }

  edit(name) {
    let document;
    try { document = JSON.parse(this.editor.value); } catch (error) { return; }
    const changed = examples.quickChanges[name](document);
    if (changed) this.editor.set(examples.pretty(changed));
    else this.say("This change does not fit the order as it is.");
  }

  changed() {
    if (!this.update) return;
    this.update.disabled = !this.selected || this.isSending || this.editor.problems.length > 0 || !this.editor.isChecked;
    this.source.soon();
  }

  say(text, kind) {
    this.verdict.textContent = text;
    this.verdict.className = kind ? `verdict ${kind}` : "verdict";
  }

  async send() {
    this.isSending = true;
    this.changed();
    this.say("Publishing …");
    const text = this.editor.value;
    const { status, answer } = await call("PUT", `/playground/orders/${this.selected}`, { text, version: this.version });
    this.isSending = false;
    if (status === 200) {
      this.version = answer.version;
      this.original = text;
      this.say(answer.unchanged ? "Nothing changed, so there is no new version."
        : `Version ${answer.ordinal} is signed. The device is pushed.`, "good");
    } else if (status === 202) {
      this.original = text;
      this.say("Published; the package is still on its way.");
    } else if (status === 409) {
      this.version = answer.order.version;
      this.say(`Somebody else changed this order: it is at version ${answer.order.ordinal}. Update again to overwrite it.`, "bad");
    } else {
      this.say((answer.error && answer.error.message) || "The order is not valid.", "bad");
    }
    this.changed();
  }

  async pushAgain() {
    const { status, answer } = await call("POST", `/playground/orders/${this.selected}/notify`);
    if (status === 202) this.say("The devices are pushed again. They find the version that they have.", "good");
    else this.say((answer.error && answer.error.message) || "The devices cannot be pushed now.", "bad");
  }

  /** Asks before an order is removed, beside the button, or takes the question back. */
  askToRemove(isAsked) {
    if (isAsked === !this.removal.hidden) return;
    this.removal.hidden = !isAsked;
    this.remove.hidden = isAsked;
    if (isAsked) this.removal.lastChild.focus(); else this.remove.focus();
  }

  async removeOrder() {
    this.askToRemove(false);
    const { status } = await call("DELETE", `/playground/orders/${this.selected}`);
    if (status === 202) {
      this.deselect();
      this.tabs.element.querySelector("[role=tab]").focus();
    }
    else this.say("It could not be removed.", "bad");
  }
}

// --- The page -----------------------------------------------------------------------------------------------------

async function openSession() {
  const { status, answer } = await call("GET", "/playground/session");
  if (status !== 200) throw new Error("no session");
  state.session = answer;
}

/** Follows the server's transcript while the page is open. */
async function follow(blocks, update, steps) {
  let after = 0;
  for (;;) {
    try {
      const { status, answer } = await call("GET", `/playground/transcript?after=${after}`);
      if (status === 401) {
        await openSession();
        after = 0;
        continue;
      }
      if (status !== 200) throw new Error(String(status));
      for (const entry of answer.entries) {
        after = Math.max(after, entry.number);
        transcript.add(entry);
      }
      state.orders = answer.orders;
      for (const block of blocks) block.panel.draw();
      update.draw();
      update.panel.draw();
      device.draw(answer.device, answer.orders);
      steps.draw(answer.device, answer.orders);
    } catch (error) {
      console.error(error);
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  }
}

const TITLES = {
  begin: "The payment sheet opens", validatemerchant: "Event: validate the merchant", "merchant session": "The sheet takes the merchant session",
  paymentmethodselected: "Event: payment method selected", shippingcontactselected: "Event: shipping contact selected, redacted",
  paymentauthorized: "Event: payment authorized", complete: "The page completes the payment",
  "details handed to the device": "Order details go to the device", cancel: "The sheet is closed", abort: "The page ends the session",
  "order details refused": "The browser refuses the order details",
  "the device took the details": "The device has the order details", "the device is away": "The device is away",
  "no answer in time": "The page did not answer in time",
  "answer to paymentmethodselected": "Answer: the total with this payment method",
  "answer to shippingmethodselected": "Answer: the total with this shipping method",
  "answer to shippingcontactselected": "Answer: the total for this address",
  "answer to couponcodechanged": "Answer: the total with this coupon",
};
/** What the page tells the browser; everything else comes from the browser. */
const isOfPage = (title) => ["begin", "complete", "merchant session", "abort"].includes(title) || title.startsWith("answer to ");

/** Returns why nothing can be paid here, and what to do. */
function missingApplePay() {
  if (location.protocol === "https:") return "This browser has no Apple Pay on the web: use Safari.";
  if (/^(localhost|127\.0\.0\.1|\[::1\])$/.test(location.hostname)) {
    return "The stand-in for Apple Pay did not load: load the page again, in a current browser.";
  }
  return "Apple Pay needs https, and its stand-in works at 127.0.0.1 only: open the playground there.";
}

function showSupport() {
  const line = document.querySelector("#support");
  if (polyfill) line.textContent = "Apple Pay is simulated by Waybill's polyfill";
  else if (waybill.isSupportedByDevice()) line.textContent = "Apple Pay is available in this browser";
  else {
    line.textContent = "No Apple Pay here";
    line.classList.add("fact-bad");
  }
  if (!polyfill) {
    document.querySelector("#support-detail").textContent = waybill.isSupportedByDevice()
      ? "The sheet and the device are your own. A merchant session comes from Apple's sandbox if the playground was "
        + "started with --merchant and --public-url."
      : missingApplePay();
  }
}

async function start() {
  showSupport();
  window.addEventListener("waybill:polyfill", ({ detail }) => {
    const { title } = detail;
    const isIn = isOfPage(title);
    transcript.add({
      time: detail.time, from: isIn ? "page" : "browser", to: isIn ? "browser" : title.includes("device") ? "device" : "page",
      title: TITLES[title] || title[0].toUpperCase() + title.slice(1), detail: detail.detail, block: state.active,
    });
  });
  await openSession();
  if (state.session.isReal) {
    document.querySelector("#fakes").textContent = "Merchant sessions come from Apple's sandbox; APNs is played by a simulator;";
  }
  const blocks = [...document.querySelectorAll(".block")].filter((block) => block.dataset.kind !== "update")
    .map((block, index) => new CreateBlock(block, index));
  const update = new UpdateBlock(document.querySelector(".block[data-kind=update]"));
  const choose = async (api) => {
    state.api = api;
    sessionStorage.setItem("api", api);
    await Promise.all(blocks.map((block) => block.connect()));
  };
  dark.addEventListener("change", () => { for (const block of blocks) block.restyle(); });
  const kept = sessionStorage.getItem("api");
  for (const radio of document.querySelectorAll("input[name=api]")) {
    if (kept) radio.checked = radio.value === kept;
    radio.addEventListener("change", () => { if (radio.checked) choose(radio.value); });
  }
  for (const block of blocks) block.renew();
  await choose(kept || "applepay");
  document.documentElement.dataset.ready = "";
  await follow(blocks, update, new Steps(transcript, call));
}

start();
