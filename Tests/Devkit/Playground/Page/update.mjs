// The block that changes orders: the list of them, the editor, and what became of each change.

import { call, reasonOf, review } from "./call.mjs";
import { Editor, el } from "./editor.mjs";
import * as examples from "./examples.mjs";
import { SourcePanel, tabs } from "./panels.mjs";
import * as source from "./source.mjs";
import { TranscriptPanel } from "./transcript.mjs";

// The members that Waybill sets, whatever a document says.
const OWNED = [
  "schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "webServiceURL", "updatedAt", "authenticationToken",
];

/** Returns what a shop decides of an order document, as a text that is the same for the same content. */
function essence(value, isRoot = true) {
  if (Array.isArray(value)) return `[${value.map((element) => essence(element, false)).join()}]`;
  if (!value || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).filter((name) => !isRoot || !OWNED.includes(name)).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${essence(value[name], false)}`).join()}}`;
}

class UpdateBlock {
  /** @param state the page's session and its orders. */
  constructor(element, transcript, state) {
    this.transcript = transcript;
    this.state = state;
    this.rows = new Map();
    /** The content of each change of the selected order that was sent, so that it is known when it comes back. */
    this.sent = [];
    this.notice = el("p", { class: "notice", role: "status" });
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
      return [{ title: "Server", text: source.update(this.state.session.next[0].orderTypeIdentifier, document) }];
    });
    this.panel = new TranscriptPanel(
      transcript, (entry) => this.concerns(entry),
      (number) => { if (this.tabs) this.tabs.count("Transcript", number); });
    this.tabs = tabs(element, {
      Try: el("div", {}, this.notice, this.list, this.empty, this.work), Transcript: this.panel.element, Source: this.source.element,
    });
    element.append(this.tabs.element);
    this.source.draw();
  }

  /**
   * True for an entry about the selected order. A push names none, nor does a list without changes: those since the order
   * is there may be about it.
   */
  concerns(entry) {
    if (entry.order) return entry.order === this.selected;
    if (entry.orders && entry.orders.length > 0) return entry.orders.includes(this.selected);
    return !entry.block && (entry.to === "device" || entry.from === "device") && entry.time >= this.since;
  }

  draw() {
    const known = this.state.orders.filter((order) => !order.isRemoved && order.version > 0);
    this.empty.hidden = known.some((order) => !order.isReceipt);
    this.list.hidden = known.length === 0;
    const rows = known.map((order) => this.row(order));
    // Rows are not replaced needlessly, so that a click hits the row that it was meant for.
    if (rows.some((row, index) => row !== this.list.children[index]) || rows.length !== this.list.children.length) {
      this.list.replaceChildren(...rows);
    }
    if (!this.selected) return;
    const order = known.find(({ orderIdentifier }) => orderIdentifier === this.selected);
    if (order) this.follow(order);
    else this.deselect();
  }

  row(order) {
    let row = this.rows.get(order.orderIdentifier);
    if (!row) {
      row = el(
        "label", { class: order.isReceipt ? "off" : "" },
        el("input", { type: "radio", name: "order", value: order.orderIdentifier, disabled: order.isReceipt }),
        el("span", {}, el("bdi", {}, order.orderNumber || order.orderIdentifier), el("small", {}, order.orderIdentifier)),
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
    const first = this.transcript.entries.find(({ order }) => order && order === this.selected);
    return first ? first.time : Infinity;
  }

  /** Leaves the selected order, which is removed. */
  deselect() {
    const order = this.state.orders.find(({ orderIdentifier }) => orderIdentifier === this.selected);
    if (order) {
      this.tell(`Order ${order.orderNumber || order.orderIdentifier} is removed: Wallet's web service does not know it.`
        + " A device keeps the version that it has, and hears of no further one.", "good");
    }
    this.selected = undefined;
    this.isAwaiting = false;
    this.work.hidden = true;
    this.draw();
    this.panel.draw();
  }

  async select(identifier) {
    if (this.isEdited && !window.confirm("Leave the changes that were not sent?")) {
      this.draw();
      return;
    }
    const { status, answer } = await call("GET", `/playground/orders/${identifier}`);
    if (status !== 200) {
      this.tell(reasonOf(answer, "The order cannot be read now."), "bad");
      this.draw();
      return;
    }
    this.selected = identifier;
    this.version = answer.version;
    this.sent = [];
    this.isAwaiting = false;
    this.original = examples.pretty(examples.arranged(answer.document, examples.order("")));
    this.askToRemove(false);
    this.work.hidden = false;
    this.editor.set(this.original);
    this.tell("");
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

  /** Says something about the list of orders. */
  tell(text, kind) {
    this.notice.textContent = text;
    this.notice.className = kind ? `notice ${kind}` : "notice";
  }

  async send() {
    const text = this.editor.value;
    const order = this.selected;
    this.isSending = true;
    this.isAwaiting = false;
    this.sentText = text;
    this.changed();
    this.say("Publishing …");
    this.sent = this.sent.concat(essence(JSON.parse(text))).slice(-20);
    let result = await call("PUT", `/playground/orders/${order}`, { text, version: this.version });
    if (result.status === 409 && this.isOwn(result.answer.order)) {
      // A change of this page that came late: the next one follows it.
      this.version = result.answer.order.version;
      result = await call("PUT", `/playground/orders/${order}`, { text, version: this.version });
    }
    this.isSending = false;
    // Another order was selected meanwhile.
    if (order === this.selected) this.settle(result, text);
    this.changed();
  }

  settle({ status, answer }, text) {
    if (status === 200) {
      this.version = answer.version;
      this.original = text;
      this.say(answer.unchanged ? "Nothing changed, so there is no new version."
        : `Version ${answer.ordinal} is signed. The device is pushed.`, "good");
    } else if (status === 202) {
      this.original = text;
      this.say("Published; the package is still on its way.");
      this.wait();
    } else if (status === 0) {
      this.say("The playground did not answer, so nobody knows whether the change was published. Try again: the same change"
        + " makes no second version.", "bad");
      this.wait();
    } else if (status === 409) {
      this.conflict(answer.order);
    } else {
      this.say(reasonOf(answer, "The order is not valid."), "bad");
    }
  }

  /** Waits for the version of a change, which may have arrived already. */
  wait() {
    this.isAwaiting = true;
    this.draw();
  }

  /** True if the latest version of the selected order has the content of a change that was sent from here. */
  isOwn({ document }) { return this.sent.includes(essence(document)); }

  conflict(order) {
    this.version = order.version;
    this.say(`Somebody else changed this order: it is at version ${order.ordinal}. Update again to overwrite it.`, "bad");
  }

  /** Tells what became of a change that was published, or may have been, and had no version in time. */
  async follow({ version, fault }) {
    if (!this.isAwaiting || this.isSending || (!fault && version <= this.version)) return;
    this.isAwaiting = false;
    if (fault) {
      this.say(fault, "bad");
      return;
    }
    const order = this.selected;
    const { status, answer } = await call("GET", `/playground/orders/${order}`);
    if (order !== this.selected || this.isSending || this.isAwaiting) return;
    if (status !== 200) this.isAwaiting = true;
    else if (this.isOwn(answer)) {
      this.version = answer.version;
      this.original = this.sentText;
      this.say(`Version ${answer.ordinal} is signed. The device is pushed.`, "good");
    } else this.conflict(answer);
  }

  async pushAgain() {
    const { status, answer } = await call("POST", `/playground/orders/${this.selected}/notify`);
    if (status === 202) this.say("The devices are pushed again. They find the version that they have.", "good");
    else this.say(reasonOf(answer, "The devices cannot be pushed now."), "bad");
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
    const identifier = this.selected;
    const { status, answer } = await call("DELETE", `/playground/orders/${identifier}`);
    if (status !== 202) {
      this.say(reasonOf(answer, "It could not be removed."), "bad");
      return;
    }
    const order = this.state.orders.find(({ orderIdentifier }) => orderIdentifier === identifier);
    if (order) order.isRemoved = true;
    if (identifier === this.selected) this.deselect();
    this.tabs.element.querySelector("[role=tab]").focus();
  }
}

export { UpdateBlock };
