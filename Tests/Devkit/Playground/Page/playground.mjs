// The playground: blocks to create and update orders, their transcripts and sources, and the device beside them.

import * as waybill from "/applepay/waybill.mjs";
import { call, reasonOf, review } from "./call.mjs";
import { Device } from "./device.mjs";
import { Editor, el, placeOf } from "./editor.mjs";
import * as examples from "./examples.mjs";
import { SourcePanel, tabs } from "./panels.mjs";
import * as source from "./source.mjs";
import { Steps } from "./steps.mjs";
import { Transcript, TranscriptPanel } from "./transcript.mjs";
import { UpdateBlock } from "./update.mjs";

const transcript = new Transcript();
const device = new Device(transcript);
// `end`: how the last sheet was closed before its payment was complete. `handed`: the order whose details a device got last.
const state = {
  api: "applepay", session: undefined, orders: [], active: undefined, placed: new Map(), end: undefined, handed: undefined,
};
const polyfill = window.waybill && window.waybill.polyfill;
const dark = matchMedia("(prefers-color-scheme: dark)");

/** Apple: a white button on dark pages. */
const buttonStyle = () => (dark.matches ? "white" : "black");

/** The checkout role's address, without a slash at its end. */
const service = () => state.session.service.replace(/\/$/, "");

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
    this.declines = el("input", { type: "checkbox" });
    this.notes = {
      "Payment request": "The payment sheet asks for this.",
      "Order details": "The page hands this to the browser. Type, identifier and token are the server's; the address may be edited.",
      "Order": this.isReceipt
        ? "The document that the shop publishes, as a receipt: with \"webServiceURL\": null its order.json names no web service, so that a device has nothing to register with."
        : "The document that the shop publishes. Waybill adds the type, the identifiers, the address, the token and updatedAt.",
    };
    this.note = el("p", { class: "note" });
    this.breakLabel = el("label", { class: "check break" }, this.breaks, "Break the address, to see that the payment succeeds all the same");
    this.declineLabel = el("label", { class: "check decline" }, this.declines, "Decline the payment once, as a shop does when the bank refuses");
    this.choices = el(
      "div", { class: "choices", role: "group", "aria-label": "Editors" },
      ...Object.keys(this.editors).map((name) => el("button", { type: "button", onclick: () => this.choose(name) }, name)));
    this.holder = el("div", {});
    this.place = el("div", { class: "pay" });
    this.verdict = el("p", { class: "verdict", role: "status" });
    this.source = new SourcePanel(() => this.sources());
    const attempt = el(
      "div", {}, this.choices, this.note, this.holder, this.declineLabel, this.breakLabel, el("div", { class: "action" }, this.place, this.verdict));
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
    this.declineLabel.hidden = name !== "Payment request";
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

  /** A new order: its details from the server, and its document from the example, or as it was edited. */
  renew() {
    this.details = state.session.next[this.index];
    this.showDetails();
    const number = examples.orderNumber();
    const make = this.isReceipt ? examples.receipt : examples.order;
    const made = { number, text: examples.pretty(make(number)) };
    const editor = this.editors.Order;
    const isEdited = this.example && editor.value !== this.example.text;
    editor.set(isEdited ? editor.value.split(this.example.number).join(number) : made.text);
    this.example = made;
  }

  /** Gets the details of the next order. Without an answer, `follow` tries again. */
  async reopen() {
    this.isStale = !await openSession();
    if (!this.isStale) this.renew();
    this.changed();
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
    const names = Object.keys(this.editors);
    const faulty = names.find((name) => this.editors[name].problems.length > 0);
    const unchecked = names.find((name) => this.editors[name].isUnanswered);
    if (this.button) this.button.toggleAttribute("disabled", !this.isReady());
    if (faulty) {
      const number = this.editors[faulty].problems.length;
      this.say(`${faulty} has ${number === 1 ? "a problem" : `${number} problems`}, so nothing can be paid.`, "bad");
    } else if (unchecked) {
      this.say(`${unchecked} cannot be checked now, so nothing can be paid. The page tries again.`, "bad");
    } else if (this.isTellingFault) {
      this.say("");
    }
    this.isTellingFault = Boolean(faulty || unchecked);
  }

  isReady() {
    return !this.isStale
      && Object.values(this.editors).every((editor) => editor.isChecked && editor.problems.length === 0);
  }

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
      onFailed: (result) => this.refused(result),
      onCancelled: ({ isCharging }) => { if (!isCharging) this.cancelled(); },
      onError: (detail) => this.failed(detail),
    });
    const { controller } = this;
    let isThere = false;
    try { isThere = await controller.attach(this.place); } catch (error) { /* As without a merchant. */ }
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
    if (this.declines.checked) {
      this.declines.checked = false;
      this.reason = "the shop declines it";
      transcript.note("shop", "page", "The shop declines the payment", { block: this });
      return { status: "failure", errors: [{ code: "unknown", message: "The card was declined." }] };
    }
    const text = this.editors.Order.value;
    state.placed.set(this.details.orderIdentifier, this);
    const { status, answer } = await call("POST", "/playground/orders", {
      orderIdentifier: this.details.orderIdentifier, text,
    });
    // The order may be placed nevertheless.
    if (status === 0) throw new Error(reasonOf(answer));
    if (status !== 200) {
      this.reason = reasonOf(answer, "the order is not valid");
      return { status: "failure", errors: [{ code: "unknown", message: this.reason }] };
    }
    // A broken address never leaves the page: the browser refuses it, or the device gets the server's own.
    const { webServiceURL } = JSON.parse(this.editors["Order details"].value);
    return Object.assign({}, answer, { orderDetails: Object.assign({}, answer.orderDetails, { webServiceURL }) });
  }

  async authorised(result) {
    const lost = state.end ? "Paid and ordered, after the sheet was closed: it took no order details, so the order is not in Wallet."
      : "Paid and ordered. The browser refused the order details, so the payment was completed without them: the order is not in Wallet.";
    this.say(
      result.hasTracking ? "Paid and ordered. The device has the details and fetches the order." : lost,
      result.hasTracking ? "good" : "warn");
    this.breaks.checked = false;
    this.isUncertain = false;
    await this.reopen();
  }

  async refused({ outcome }) {
    this.isUncertain = outcome === "unknown";
    this.say(outcome === "unknown"
      ? "Nobody knows whether the order was placed: look for it in step 5 before you pay again."
      : `The payment failed${this.reason ? `: ${this.reason}` : ""}. Nothing was ordered.`, "bad");
    this.reason = undefined;
    await this.reopen();
  }

  cancelled() {
    const isUncertain = this.isUncertain;
    this.isUncertain = false;
    // After an attempt of which nobody knows, this one says nothing about it.
    if (isUncertain) return;
    this.say(state.end === "unknown"
      ? "The device gave up and closed the sheet, which a page hears as a cancellation. Nothing was ordered."
      : "Cancelled. Nothing was ordered.");
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

// --- The page -----------------------------------------------------------------------------------------------------

/** Resolves to false if there is no session now. */
async function openSession() {
  const { status, answer } = await call("GET", "/playground/session");
  if (status === 200) state.session = answer;
  return status === 200;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 2000));

/** Follows the server's transcript while the page is open. */
async function follow(blocks, update, steps) {
  let after = 0;
  for (;;) {
    const { status, answer } = await call("GET", `/playground/transcript?after=${after}`);
    if (status === 401) {
      // A new session, in which nothing has happened yet.
      after = 0;
      for (const block of blocks) await block.reopen();
    }
    if (status !== 200) {
      await pause();
      continue;
    }
    try {
      for (const entry of answer.entries) {
        after = Math.max(after, entry.number);
        transcript.add(entry);
      }
      state.orders = answer.orders;
      for (const block of blocks) {
        if (block.isStale) await block.reopen();
        block.panel.draw();
      }
      update.draw();
      update.panel.draw();
      device.draw(answer.device, answer.orders);
      steps.draw(answer.device, answer.orders);
    } catch (error) {
      console.error(error);
      await pause();
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
const titleOf = (title) => (title === "cancel" && state.end !== "customer" ? "The device gives up, and the sheet is closed"
  : TITLES[title] || title[0].toUpperCase() + title.slice(1));
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
  line.hidden = false;
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
    if (title === "begin") state.end = undefined;
    // A code only if it was not the customer.
    if (title === "cancel") state.end = (detail.detail || {}).code || "customer";
    if (title === "details handed to the device") state.handed = detail.detail.orderIdentifier;
    transcript.add({
      time: detail.time, from: isIn ? "page" : "browser", to: isIn ? "browser" : title.includes("device") ? "device" : "page",
      title: titleOf(title), detail: detail.detail, block: state.active,
      order: title.includes("device") ? state.handed : undefined,
    });
  });
  while (!await openSession()) await pause();
  if (state.session.isReal) {
    document.querySelector("#fakes").textContent = "Merchant sessions come from Apple's sandbox; APNs is played by a simulator;";
  }
  const blocks = [...document.querySelectorAll(".block")].filter((block) => block.dataset.kind !== "update")
    .map((block, index) => new CreateBlock(block, index));
  const update = new UpdateBlock(document.querySelector(".block[data-kind=update]"), transcript, state);
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
  await follow(blocks, update, new Steps(transcript));
}

start();
