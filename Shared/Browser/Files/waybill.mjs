// Waybill for Apple Pay on the web: button, merchant session, payment, order details for Wallet.
// ES2019, no dependency, works under `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'`.

const APPLE_PAY = "https://apple.com/apple-pay";
// A sheet waits 30 seconds for each answer.
const ANSWER_MILLISECONDS = 28000;
const ADDRESS_MILLISECONDS = 10000;
const LOWEST_VERSION = 3;
// The versions from which browsers know a network. Later networks have none, since WebKit's number stays at 15, and need
// no release of this file: see `fit`.
const NETWORK_VERSIONS = {
  amex: 1, chinaUnionPay: 1, discover: 1, iD: 1, interac: 1, masterCard: 1, privateLabel: 1, quicPay: 1, suica: 1,
  visa: 1, jcb: 2, electron: 4, maestro: 4, vPay: 4, cartesBancaires: 4, eftpos: 4, elo: 5, mada: 5, girocard: 11,
  mir: 11, dankort: 13, bancomat: 14, bancontact: 14, bankAxept: 15,
};
// A browser that is too old for a deferred payment shows it as an immediate one.
const MEMBER_VERSIONS = {
  couponCode: 12, supportsCouponCode: 12, shippingContactEditingMode: 12, recurringPaymentRequest: 14,
  automaticReloadPaymentRequest: 14, multiTokenContexts: 14, deferredPaymentRequest: 15,
};
// The members of a request that the Payment Request API takes from the modifier.
const MODIFIER_MEMBERS = [
  "recurringPaymentRequest", "automaticReloadPaymentRequest", "deferredPaymentRequest", "multiTokenContexts",
  "disbursementRequest",
];
const UNKNOWN_OUTCOME = "It is not certain whether you have paid. Look for the order before you pay again.";
// What the sheet says if a question of it gets no answer.
const UNANSWERED = {
  contact: { code: "addressUnserviceable", message: "The address could not be checked. Try again." },
  coupon: { code: "couponCodeInvalid", message: "The code could not be checked. Try again." },
  payment: { code: "unknown", message: "The card could not be checked. Try again." },
  shipping: { code: "unknown", message: "The delivery could not be checked. Choose it again." },
};
const CONTACT_ERROR_CODES = [
  "shippingContactInvalid", "billingContactInvalid", "addressUnserviceable", "couponCodeInvalid", "couponCodeExpired",
  "unknown",
];

const metaContent = (name) => {
  const element = document.querySelector(`meta[name="${name}"]`);
  return element ? element.content : undefined;
};

const without = (object, ...names) => {
  const copy = Object.assign({}, object);
  for (const name of names) delete copy[name];
  return copy;
};

/** Makes an element of Apple's script. */
const appleElement = (name, attributes) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

/** Settles as `promise` does, or with `late()` after a time. */
const within = (milliseconds, promise, late) => {
  let timer;
  const alarm = new Promise((resolve, reject) => {
    timer = setTimeout(() => {
      try { resolve(late()); } catch (error) { reject(error); }
    }, milliseconds);
  });
  return Promise.race([promise, alarm]).finally(() => clearTimeout(timer));
};

/** A failure; if a service answered, with the answer's `status` and `code`, and `isAnswer`. */
class WaybillError extends Error {
  constructor(message, members) {
    super(message);
    this.name = "WaybillError";
    Object.assign(this, members);
  }
}

class Service {
  constructor(options) {
    // The service from which the page loaded this file, unless the page names another one.
    const script = document.querySelector('script[src*="/applepay/waybill."]');
    const address = options.service || metaContent("waybill-service") || (script ? new URL("..", script.src).href : "/");
    this.base = new URL(address, document.baseURI).href.replace(/\/+$/, "");
    this.basketToken = options.basketToken || metaContent("waybill-basket-token");
  }

  async call(method, path, body) {
    const headers = {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (this.basketToken) headers["Waybill-Basket-Token"] = this.basketToken;
    const options = { method, headers, mode: "cors", credentials: "omit", cache: "no-store" };
    if (body !== undefined) options.body = JSON.stringify(body);
    const response = await fetch(this.base + path, options);
    let answer;
    try { answer = await response.json(); } catch (error) { answer = undefined; }
    if (response.ok && answer) return answer;
    const told = (answer && answer.error) || {};
    throw new WaybillError(told.message || `${method} ${path}: status ${response.status}`, {
      status: response.status, code: told.code, requestIdentifier: told.request_id, isAnswer: true,
    });
  }

  /** Sends a request without an effect, and once more after a second if the network or the service is unavailable. */
  async read(path, method = "GET", body = undefined) {
    try {
      return await this.call(method, path, body);
    } catch (error) {
      if (error.isAnswer && error.status !== 503) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return this.call(method, path, body);
    }
  }
}

/** Returns true if this browser has Apple Pay on this page. Synchronous; never throws. */
function isSupportedByDevice() {
  try {
    // Static calls throw in insecure pages and in frames without permission.
    return Boolean(
      window.isSecureContext && window.ApplePaySession && window.ApplePaySession.canMakePayments()
        && window.ApplePaySession.supportsVersion(LOWEST_VERSION));
  } catch (error) {
    return false;
  }
}

const loaded = new Map();

/** Loads metadata and basket, and keeps them for the click, in which nothing may be awaited. */
async function load(options, isFresh) {
  const service = new Service(options);
  const basketIdentifier = options.basketIdentifier || metaContent("waybill-basket");
  const key = `${service.base} ${basketIdentifier || ""} ${service.basketToken || ""}`;
  if (isFresh || !loaded.has(key)) {
    const work = (async () => {
      const metadata = await service.read("/applepay/metadata");
      const needsBasket = metadata.enabled && basketIdentifier && !options.request;
      const basket = needsBasket
        ? await service.read(`/applepay/basket/${encodeURIComponent(basketIdentifier)}`) : undefined;
      return { service, metadata, basket, basketIdentifier };
    })();
    loaded.set(key, work);
    work.catch(() => loaded.delete(key));
  }
  return loaded.get(key);
}

/** Resolves to true if device, merchant and basket allow this page to offer Apple Pay. */
async function isSupportedForCheckout(options = {}) {
  if (!isSupportedByDevice()) return false;
  try {
    const { metadata, basket, basketIdentifier } = await load(options);
    return Boolean(metadata.enabled && (options.request || !basketIdentifier || basket));
  } catch (error) {
    return false;
  }
}

/** Returns the lowest version of the session that has everything a request uses. */
function requiredVersion(request) {
  let version = LOWEST_VERSION;
  for (const name of Object.keys(MEMBER_VERSIONS)) {
    if (request[name] !== undefined) version = Math.max(version, MEMBER_VERSIONS[name]);
  }
  for (const network of request.supportedNetworks || []) version = Math.max(version, NETWORK_VERSIONS[network] || 1);
  if (Number(request.total && request.total.amount) === 0) version = Math.max(version, 4);
  if ((request.shippingMethods || []).some((method) => method.dateComponentsRange)) version = Math.max(version, 12);
  if ((request.lineItems || []).some((item) => item.paymentTiming)) version = Math.max(version, 14);
  return version;
}

/** Converts the members that end in `Date` to dates, which JSON does not have and Apple requires. */
function withDates(value) {
  if (Array.isArray(value)) return value.map(withDates);
  if (!value || typeof value !== "object" || value instanceof Date) return value;
  const copy = {};
  for (const name of Object.keys(value)) {
    const member = value[name];
    copy[name] = name.endsWith("Date") && typeof member === "string" ? new Date(member) : withDates(member);
  }
  return copy;
}

/** Returns the highest version of a session that this browser makes. */
function highestVersion() {
  let version = LOWEST_VERSION;
  while (version < 100 && window.ApplePaySession.supportsVersion(version + 1)) version += 1;
  return version;
}

/**
 * Returns the forms of a request to try, best first, each with its version; none if this browser is too old for it.
 *
 * A network that is not in the table is asked for with the highest version. A browser that does not know it either
 * refuses the request with an error; then the next form is without it. Other forms lack cosmetic members.
 */
function fit(given) {
  const supports = (version) => window.ApplePaySession.supportsVersion(version);
  const request = without(given, "applePayLaterAvailability");
  if (given.applePayLaterAvailability !== undefined) {
    console.warn("applePayLaterAvailability is left out: Apple has ended Apple Pay Later.");
  }
  const own = request.supportedNetworks || [];
  const known = own.filter((network) => NETWORK_VERSIONS[network]);
  const candidates = [request];
  if ((request.shippingMethods || []).some((method) => method.dateComponentsRange)) {
    candidates.push(Object.assign({}, request, {
      shippingMethods: request.shippingMethods.map((method) => without(method, "dateComponentsRange")),
    }));
  }
  const last = candidates[candidates.length - 1];
  const plain = without(last, "shippingContactEditingMode");
  candidates.push(plain);
  candidates.push(Object.assign({}, plain, { supportedNetworks: own.filter(
    (network) => !NETWORK_VERSIONS[network] || supports(NETWORK_VERSIONS[network])) }));
  const fitting = candidates.find((candidate) => supports(requiredVersion(candidate)));
  if (!fitting) return [];
  const forms = [];
  const add = (version, networks) => {
    if (networks.length > 0) {
      forms.push({ version, request: withDates(Object.assign({}, fitting, { supportedNetworks: networks })) });
    }
  };
  if (known.length < own.length) add(highestVersion(), fitting.supportedNetworks);
  const rest = fitting.supportedNetworks.filter((network) => known.includes(network));
  add(requiredVersion(Object.assign({}, fitting, { supportedNetworks: rest })), rest);
  return forms;
}

/** Makes what `make(form)` makes of the first form that the browser takes; throws the error of the last one. */
function firstThatFits(forms, make) {
  for (let index = 0; ; index += 1) {
    try {
      return Object.assign({ made: make(forms[index]) }, forms[index]);
    } catch (error) {
      // Only a refused value leads to another form: outside of a gesture, none would do.
      if (!(error instanceof TypeError) || index + 1 >= forms.length) throw error;
    }
  }
}

/** Returns what the sheet tells about a payment that failed: nothing if the end is final. */
function failureErrors(result) {
  if (result.status === "success") return [];
  if (result.errors && result.errors.length > 0) return sheetErrors(result.errors);
  return result.outcome === "unknown" ? sheetErrors([{ code: "unknown", message: UNKNOWN_OUTCOME }]) : [];
}

/** Converts errors to those of the sheet; an unknown code becomes "unknown". */
function sheetErrors(errors) {
  return (Array.isArray(errors) ? errors : []).map((error) => {
    if (!window.ApplePayError || error instanceof window.ApplePayError) return error;
    const code = CONTACT_ERROR_CODES.includes(error.code) ? error.code : "unknown";
    return new window.ApplePayError(code, error.contactField || undefined, error.message || "");
  });
}

/**
 * Completes a payment so that order tracking can never fail it: with the order details, and without them if the browser
 * refuses them. The customer was charged before this call.
 *
 * @param session an ApplePaySession that is authorized.
 * @param result `{status: "success" | "failure", outcome?, errors?, orderDetails?}`. A failure with errors keeps the
 *   sheet open, one without them is final; with the outcome "unknown" and without errors, the sheet stays and asks the
 *   customer to look for the order before another attempt.
 * @param options `{version?, onError?}`: the session's version (default 3), and a callback for refused details.
 * @returns whether the details went to the browser.
 */
function completeSafely(session, result, options = {}) {
  const isSuccess = result.status === "success";
  const status = isSuccess ? window.ApplePaySession.STATUS_SUCCESS : window.ApplePaySession.STATUS_FAILURE;
  const report = options.onError || (() => {});
  if (options.version < 3) {
    // These take a number; an object would become NaN, which is success.
    try { session.completePayment(status); } catch (error) { report({ stage: "complete", error }); }
    return false;
  }
  const plain = { status };
  const errors = failureErrors(result);
  if (errors.length > 0) plain.errors = errors;
  if (isSuccess && result.orderDetails) {
    try {
      session.completePayment(Object.assign({ orderDetails: result.orderDetails }, plain));
      return true;
    } catch (error) {
      report({ stage: "tracking", tracking: error, error });
    }
  }
  // A sheet that has been closed accepts no answer; the shop's result is valid nevertheless.
  try { session.completePayment(plain); } catch (error) { report({ stage: "complete", error }); }
  return false;
}

/** `completeSafely` for a response of the Payment Request API, where each end is final: see `retry` for others. */
async function completeResponseSafely(response, result, options = {}) {
  const report = options.onError || (() => {});
  // "unknown" is the API's own word for an outcome that nobody knows.
  const status = result.status === "success" ? "success" : result.outcome === "unknown" ? "unknown" : "fail";
  if (status === "success" && result.orderDetails && response.methodName === APPLE_PAY) {
    try {
      await response.complete(status, { data: { orderDetails: result.orderDetails } });
      return true;
    } catch (error) {
      report({ stage: "tracking", tracking: error, error });
    }
  }
  try { await response.complete(status); } catch (error) { report({ stage: "complete", error }); }
  return false;
}

/** Returns a list up to the first element that has other members than `names`, and the rest. */
function split(list, names) {
  const index = list.findIndex((element) => Object.keys(without(element, ...names)).length > 0);
  return index < 0 ? [list, []] : [list.slice(0, index), list.slice(index)];
}

/**
 * Returns the details of a request for the Payment Request API.
 *
 * That API knows labels and amounts. What only Apple Pay shows is in a modifier, with all that follows, since browsers
 * append its lists to the others.
 *
 * @param selected identifier of the shipping method that is selected; the first one is, if it is not among the methods.
 */
function paymentRequestDetails(request, selected) {
  const money = (value) => ({ currency: request.currencyCode, value });
  const item = (line) => ({ label: line.label, amount: money(line.amount || "0"), pending: line.type === "pending" });
  const data = {};
  for (const name of MODIFIER_MEMBERS) if (request[name] !== undefined) data[name] = request[name];
  const [items, timed] = split(request.lineItems || [], ["label", "amount", "type"]);
  if (timed.length > 0) data.additionalLineItems = timed;
  if (split([request.total], ["label", "amount", "type"])[0].length === 0) data.total = request.total;
  const details = { total: item(request.total), displayItems: items.map(item) };
  if (request.shippingMethods) {
    const all = request.shippingMethods;
    const chosen = (all.find(({ identifier }) => identifier === selected) || all[0] || {}).identifier;
    // From version 13 on, a method of the modifier can be the selected one.
    const isPlain = !window.ApplePaySession || !window.ApplePaySession.supportsVersion(13);
    const short = all.map((method) => (method.detail ? method : without(method, "detail")));
    const [methods, described] = isPlain ? [short, []] : split(short, ["identifier", "label", "amount"]);
    details.shippingOptions = methods.map(({ identifier, label, amount }) => (
      { id: identifier, label, amount: money(amount), selected: identifier === chosen }));
    if (described.length > 0) {
      data.additionalShippingMethods = described.map((method) => (
        Object.assign({ detail: "" }, method, { selected: method.identifier === chosen })));
    }
  }
  // An empty one replaces that of an earlier answer.
  details.modifiers = [{ supportedMethods: APPLE_PAY, data }];
  return details;
}

/** Converts a request of Apple Pay JS to the arguments of the Payment Request API. */
function paymentRequestArguments(version, request, merchantIdentifier) {
  const own = ["total", "lineItems", "shippingMethods", "currencyCode", "shippingType"];
  const data = Object.assign({ version, merchantIdentifier }, without(request, ...own, ...MODIFIER_MEMBERS));
  const details = paymentRequestDetails(request);
  if (Object.keys(details.modifiers[0].data).length === 0) delete details.modifiers;
  const fields = request.requiredShippingContactFields || [];
  const options = {
    requestPayerName: fields.includes("name"), requestPayerEmail: fields.includes("email"),
    requestPayerPhone: fields.includes("phone"), requestShipping: fields.includes("postalAddress"),
  };
  if (options.requestShipping) {
    options.shippingType = { delivery: "delivery", storePickup: "pickup", servicePickup: "pickup" }[request.shippingType]
      || "shipping";
  }
  return { methods: [{ supportedMethods: APPLE_PAY, data }], details, options };
}

/** What one sheet shows, and which of its questions the shop has not answered. */
class SheetState {
  constructor(request, report) {
    this.request = Object.assign({}, request);
    this.unanswered = {};
    this.report = report;
  }

  /**
   * Resolves to the errors of an answer, after its values have become those of the request; never rejects.
   *
   * A question that gets no answer is refused, and no payment goes through until the same question is answered.
   */
  async ask(kind, work) {
    try {
      const told = await within(ANSWER_MILLISECONDS, (async () => work())(), () => {
        throw new WaybillError("the answer is late");
      }) || {};
      this.take(told);
      delete this.unanswered[kind];
      return sheetErrors(told.errors);
    } catch (error) {
      return this.refuse(kind, error);
    }
  }

  /** Takes the members of an update: `newTotal` becomes `total`. */
  take(update) {
    for (const name of Object.keys(update)) {
      if (!name.startsWith("new") || update[name] === undefined) continue;
      this.request[name[3].toLowerCase() + name.slice(4)] = withDates(update[name]);
    }
  }

  refuse(kind, error) {
    this.report({ stage: "update", error });
    this.unanswered[kind] = UNANSWERED[kind];
    return sheetErrors([UNANSWERED[kind]]);
  }
}

class Controller {
  constructor(options) {
    this.options = options;
    this.state = undefined;
    this.element = undefined;
    this.isBusy = false;
    this.onClick = () => this.pay();
  }

  /** Adds the button to an element and activates it. Resolves to false if there is none. */
  async attach(element) {
    this.detach();
    this.element = element;
    if (!await isSupportedForCheckout(this.options)) return false;
    this.state = await load(this.options);
    // Detached, or attached to another element, while this one was loading.
    if (this.element !== element) return false;
    const { metadata, service } = this.state;
    this.addLinks(metadata, service);
    this.button = this.makeButton();
    this.button.addEventListener("click", this.onClick);
    element.appendChild(this.button);
    element.hidden = false;
    return true;
  }

  /** Loads metadata and basket again: call it after each change of the basket. */
  async refresh() {
    this.state = await load(this.options, true);
  }

  detach() {
    if (this.button) {
      this.button.removeEventListener("click", this.onClick);
      this.button.remove();
    }
    this.button = undefined;
    this.element = undefined;
  }

  addLinks(metadata, service) {
    const add = (rel, href, sizes) => {
      const address = new URL(href, service.base + "/").href;
      if ([...document.querySelectorAll(`link[rel="${rel}"]`)].some((link) => link.href === address)) return;
      const link = document.createElement("link");
      link.rel = rel;
      if (sizes) link.setAttribute("sizes", sizes);
      link.href = address;
      document.head.appendChild(link);
    };
    if (metadata.stylesheet) add("stylesheet", metadata.stylesheet);
    // A second device shows them while it confirms.
    for (const icon of metadata.touchIcons || []) add("apple-touch-icon", icon.href, icon.sizes);
  }

  makeButton() {
    const look = Object.assign({ type: "buy", style: "black" }, this.options.button);
    const language = look.locale || document.documentElement.lang || "en";
    if (window.customElements && window.customElements.get("apple-pay-button")) {
      return appleElement("apple-pay-button", { buttonstyle: look.style, type: look.type, locale: language });
    }
    const button = document.createElement("button");
    button.type = "button";
    button.className = `waybill-apple-pay waybill-apple-pay--${look.style === "white-outline" ? "outline" : look.style}`;
    button.dataset.type = look.type;
    button.lang = language;
    const words = look.type === "plain" || !/^en/.test(language) ? "" : look.type + " with ";
    button.setAttribute("aria-label", look.label || words + "Apple Pay");
    return button;
  }

  tell(name, detail) {
    const callback = this.options["on" + name];
    if (this.element) {
      this.element.dispatchEvent(new CustomEvent("waybill:" + name.toLowerCase(), { detail, bubbles: true }));
    }
    try {
      if (callback) callback(detail);
    } catch (error) {
      // An error of the page must not keep the sheet open.
      setTimeout(() => { throw error; });
    }
  }

  fail(detail) { this.tell("Error", detail); }

  request() {
    const { metadata, basket } = this.state;
    const given = this.options.request ? this.options.request() : basket && basket.paymentRequest;
    const filled = {};
    for (const name of ["countryCode", "currencyCode", "supportedNetworks", "merchantCapabilities"]) {
      if (metadata[name] !== undefined) filled[name] = metadata[name];
    }
    return Object.assign(filled, given);
  }

  /** Handles the click. Nothing is awaited before the session exists: browsers make one only inside the gesture. */
  pay() {
    if (this.isBusy) return;
    try {
      const forms = fit(this.request());
      if (forms.length === 0) throw new WaybillError("this browser's Apple Pay is too old for this payment request");
      this.isBusy = true;
      if (this.options.api === "payment-request") this.startPaymentRequest(forms);
      else this.startSession(forms);
    } catch (error) {
      this.isBusy = false;
      this.fail({ stage: "begin", error });
    }
  }

  merchantSession(validationURL) {
    const own = this.options.validateMerchant;
    const work = own ? Promise.resolve(own(validationURL))
      : this.state.service.call("POST", "/applepay/validate", { validationURL });
    return within(ANSWER_MILLISECONDS, work, () => { throw new WaybillError("the merchant session is late"); });
  }

  startSession(forms) {
    const { made: session, version, request } = firstThatFits(
      forms, (form) => new window.ApplePaySession(form.version, form.request));
    const sheet = new SheetState(request, (detail) => this.fail(detail));
    let isOpen = true;
    const answer = async (complete, kind, work) => {
      const before = sheet.request;
      sheet.request = Object.assign({}, before);
      const told = {};
      const errors = await sheet.ask(kind, async () => Object.assign(told, await work()));
      // An answer that changes nothing repeats what the sheet shows: browsers empty a list that is not there.
      const update = (now) => Object.assign({ newTotal: now.total }, now.lineItems && { newLineItems: now.lineItems });
      const full = errors.length > 0 ? { errors } : {};
      for (const name of Object.keys(told)) if (name.startsWith("new")) full[name] = withDates(told[name]);
      try {
        session[complete](Object.assign(update(sheet.request), full));
      } catch (error) {
        // The browser refuses a value of the shop, unless the sheet has been closed.
        sheet.request = before;
        const refused = Object.assign(update(before), { errors: sheet.refuse(kind, error) });
        try { session[complete](refused); } catch (ended) { /* It has. */ }
      }
    };
    let isCharging = false;

    session.onvalidatemerchant = async (event) => {
      try {
        const answered = await this.merchantSession(event.validationURL);
        if (isOpen) session.completeMerchantValidation(answered);
      } catch (error) {
        if (isOpen) this.isBusy = false;
        isOpen = false;
        this.fail({ stage: "merchant", error });
        try { session.abort(); } catch (ended) { /* The customer closed the sheet before. */ }
      }
    };
    session.onpaymentmethodselected = (event) => answer("completePaymentMethodSelection", "payment", () =>
      this.methodUpdate(event.paymentMethod, "payment"));
    session.onshippingmethodselected = (event) => answer("completeShippingMethodSelection", "shipping", () =>
      this.methodUpdate(event.shippingMethod, "shipping"));
    session.onshippingcontactselected = (event) => answer("completeShippingContactSelection", "contact", () =>
      this.contactUpdate(event.shippingContact));
    if (request.supportsCouponCode) {
      session.oncouponcodechanged = (event) => answer("completeCouponCodeChange", "coupon", () =>
        this.couponUpdate(event.couponCode));
    }
    session.onpaymentauthorized = async (event) => {
      isCharging = true;
      const result = await this.authorise(event.payment, sheet);
      isCharging = false;
      const hasTracking = completeSafely(session, result, { version, onError: (detail) => this.fail(detail) });
      this.settle(result, hasTracking, isOpen && failureErrors(result).length > 0);
    };
    session.oncancel = () => {
      isOpen = false;
      // While the shop is charging, its result counts: `settle` reports it.
      if (!isCharging) this.isBusy = false;
      this.tell("Cancelled", { isCharging });
    };
    session.begin();
  }

  async startPaymentRequest(forms) {
    let shown;
    let state;
    let isLost = false;
    try {
      const { made: sheet, request } = firstThatFits(forms, (form) => {
        const { methods, details, options } = paymentRequestArguments(
          form.version, form.request, this.state.metadata.merchantIdentifier);
        return new window.PaymentRequest(methods, details, options);
      });
      state = new SheetState(request, (detail) => this.fail(detail));
      sheet.onmerchantvalidation = (event) => {
        const session = this.merchantSession(event.validationURL);
        session.catch((error) => {
          isLost = true;
          this.fail({ stage: "merchant", error });
        });
        event.complete(session);
      };
      const update = (event, kind, work) => event.updateWith((async () => {
        const errors = await state.ask(kind, work);
        const details = paymentRequestDetails(state.request, sheet.shippingOption);
        // `error` and `shippingAddressErrors` count only while there are no shipping options, these always.
        if (errors.length > 0) details.paymentMethodErrors = errors;
        return details;
      })());
      sheet.onpaymentmethodchange = (event) => {
        const told = event.methodDetails || {};
        if (told.couponCode === undefined) update(event, "payment", () => this.methodUpdate(told, "payment"));
        else update(event, "coupon", () => this.couponUpdate(told.couponCode));
      };
      sheet.onshippingoptionchange = (event) => update(event, "shipping", () => this.methodUpdate(
        (state.request.shippingMethods || []).find((method) => method.identifier === sheet.shippingOption), "shipping"));
      sheet.onshippingaddresschange = (event) => update(event, "contact", () => {
        const address = sheet.shippingAddress || {};
        return this.contactUpdate({
          countryCode: address.country, postalCode: address.postalCode, locality: address.city,
          administrativeArea: address.region,
        });
      });
      shown = sheet.show();
    } catch (error) {
      this.isBusy = false;
      this.fail({ stage: "begin", error });
      return;
    }
    const ended = (error, stage) => {
      this.isBusy = false;
      if (error.name !== "AbortError") this.fail({ stage, error });
      else if (!isLost) this.tell("Cancelled", { isCharging: false });
    };
    let response;
    try {
      response = await shown;
    } catch (error) {
      ended(error, "begin");
      return;
    }
    for (;;) {
      const result = await this.authorise(response.details, state);
      const errors = response.retry ? failureErrors(result) : [];
      if (errors.length === 0) {
        const hasTracking = await completeResponseSafely(response, result, { onError: (detail) => this.fail(detail) });
        this.settle(result, hasTracking, false);
        return;
      }
      // The same response has the next payment, once the customer has authorised it.
      const again = response.retry({ paymentMethod: errors });
      this.settle(result, false, true);
      try {
        await again;
      } catch (error) {
        ended(error, "complete");
        // A browser that cannot retry still has the sheet open.
        if (error.name !== "AbortError") await completeResponseSafely(response, result);
        return;
      }
    }
  }

  methodUpdate(method, kind) {
    return this.options.onMethodSelected && this.options.onMethodSelected(method, { kind });
  }

  couponUpdate(code) {
    if (this.options.onCouponChanged) return this.options.onCouponChanged(code);
    if (code) throw new WaybillError("the option onCouponChanged is missing");
    return undefined;
  }

  async contactUpdate(contact) {
    if (this.options.onContactSelected) return this.options.onContactSelected(contact);
    const { service, metadata, basketIdentifier } = this.state;
    if (!basketIdentifier || !metadata.routes || !metadata.routes.basket) return undefined;
    const address = {};
    for (const name of ["countryCode", "postalCode", "locality", "administrativeArea"]) {
      if (contact[name]) address[name] = contact[name];
    }
    const path = `/applepay/basket/${encodeURIComponent(basketIdentifier)}/validatepostalcode`;
    const answer = await within(ADDRESS_MILLISECONDS, service.read(path, "POST", address), () => {
      throw new WaybillError("the check of the address is late");
    });
    if (answer.deliverable === false && !(answer.errors && answer.errors.length > 0)) {
      answer.errors = [{ code: "addressUnserviceable", message: "This address cannot be delivered to." }];
    }
    return answer;
  }

  /** Resolves to the shop's result, or to a failure if there is none. Never rejects. */
  async authorise(payment, { unanswered }) {
    const open = Object.keys(unanswered).map((kind) => unanswered[kind]);
    if (open.length > 0) return { status: "failure", outcome: "none", errors: open };
    const stopping = new AbortController();
    const unknown = (error) => {
      this.fail({ stage: "payment", outcome: "unknown", error });
      return { status: "failure", outcome: "unknown" };
    };
    try {
      const work = this.options.authorise
        ? Promise.resolve(this.options.authorise(payment, { signal: stopping.signal })) : this.charge(payment);
      const result = await within(ANSWER_MILLISECONDS, work, () => {
        stopping.abort();
        throw new WaybillError("the payment's answer is late");
      });
      if (!result || (result.status !== "success" && result.status !== "failure")) {
        throw new WaybillError("the payment's answer has neither status \"success\" nor \"failure\"");
      }
      return result;
    } catch (error) {
      // Either the service states that nothing was charged, or the outcome is unknown.
      const isRefused = error.isAnswer && error.status < 500;
      if (error.code !== "upstream_unavailable" && !isRefused) return unknown(error);
      this.fail({ stage: "payment", outcome: "none", error });
      return { status: "failure", outcome: "none" };
    }
  }

  charge(payment) {
    const { service, metadata, basketIdentifier } = this.state;
    if (!metadata.routes || !metadata.routes.payment) {
      throw new WaybillError("the option authorise is missing: this service takes no payments", {
        code: "upstream_unavailable",
      });
    }
    const body = { basketIdentifier, payment };
    if (service.basketToken) body.basketToken = service.basketToken;
    return service.call("POST", "/applepay/payment", body);
  }

  /** Tells the page the result of an attempt; while the sheet is open, another one may follow. */
  settle(result, hasTracking, isOpen) {
    this.isBusy = isOpen;
    if (result.status === "success") this.tell("Authorised", Object.assign({ hasTracking }, result));
    else this.tell("Failed", result);
  }
}

/** Owns the flow from the button to the order: see the options in Shared/Browser/README.md. */
function createController(options = {}) {
  const controller = new Controller(options);
  return {
    attach: (element) => controller.attach(element),
    refresh: () => controller.refresh(),
    detach: () => controller.detach(),
  };
}

/** Returns the absolute form of an address to go to. Only http and https: a `javascript:` URL would run. */
function webAddress(address, name) {
  const { href, protocol } = new URL(address, document.baseURI);
  if (protocol !== "https:" && protocol !== "http:") throw new WaybillError(`${name} must be an http or https URL`);
  return href;
}

/** Sends a confirmation. Resolves to `{answer}` or `{error, errors}`, where `error.outcome` is "none" or "unknown". */
async function confirmation(address, confirmParams) {
  if (!address) {
    const message = "confirmURL is missing: the shop's endpoint that confirms with its secret key";
    return { error: { code: "confirm_url_missing", message, outcome: "none" } };
  }
  try {
    if (confirmParams.return_url) webAddress(confirmParams.return_url, "return_url");
  } catch (error) {
    return { error: { code: "return_url_invalid", message: error.message, outcome: "none" } };
  }
  const stopping = new AbortController();
  const send = async () => {
    const response = await fetch(address, {
      method: "POST", headers: { "Content-Type": "application/json" }, credentials: "same-origin",
      body: JSON.stringify(confirmParams), signal: stopping.signal,
    });
    let answer;
    try { answer = await response.json(); } catch (error) { /* Its status says what is known. */ }
    return { status: response.status, answer };
  };
  try {
    const { status, answer } = await within(ANSWER_MILLISECONDS, send(), () => {
      stopping.abort();
      throw new WaybillError("the confirmation's answer is late");
    });
    const told = answer && answer.error;
    if (status < 300 && answer && !told) return { answer };
    const code = told && told.code;
    // Either the shop states that nothing was charged, or the outcome is unknown.
    const isRefused = status < 500 && Boolean(status >= 400 || told) && code !== "outcome_unknown";
    const outcome = isRefused || code === "upstream_unavailable" ? "none" : "unknown";
    const plain = { code: outcome === "none" ? "confirm_failed" : "outcome_unknown", message: `status ${status}` };
    return { error: Object.assign(plain, told, { outcome }), errors: answer && answer.errors };
  } catch (error) {
    return { error: { code: "outcome_unknown", message: error.message, outcome: "unknown" } };
  }
}

/**
 * Confirms a payment in the form of payment providers: the shop's own endpoint holds the secret key.
 *
 * Waits 28 seconds at most, since the sheet waits for 30.
 *
 * @param parameters `{elements?: {session, version?}, confirmURL, confirmParams}`; `elements.session` is an authorized
 *   ApplePaySession or a PaymentResponse.
 * @returns `{error}` with an `outcome`: "none" if nothing was charged, "unknown" if nobody knows; on success the page
 *   goes to `return_url` instead, or gets `{paymentIntent}` without one. Never rejects.
 */
async function confirmPayment(parameters) {
  const { elements = {}, confirmParams = {} } = parameters;
  const { answer, error, errors } = await confirmation(
    parameters.confirmURL || metaContent("waybill-confirm"), confirmParams);
  const result = error ? { status: "failure", outcome: error.outcome, errors }
    : { status: "success", orderDetails: answer.order_details };
  const { session, version } = elements;
  if (session && session.completePayment) completeSafely(session, result, { version });
  else if (session) await completeResponseSafely(session, result);
  if (error) return { error };
  if (confirmParams.return_url) window.location.assign(webAddress(confirmParams.return_url, "return_url"));
  return { paymentIntent: answer };
}

/**
 * Opens the signed link of an order's package, in the same tab.
 *
 * @param parameters `{orderIdentifier, orderTypeIdentifier?, link}`; `link` is the URL of the shop's page that mints a
 *   link for the logged-in owner of the order, or a function that gives that URL.
 */
async function addToWallet({ orderIdentifier, orderTypeIdentifier, link } = {}) {
  if (!orderIdentifier) throw new WaybillError("orderIdentifier is missing");
  if (!link) throw new WaybillError("link is missing: the shop's page that mints a signed link for the order's owner");
  const address = typeof link === "function" ? await link({ orderIdentifier, orderTypeIdentifier }) : link;
  window.location.assign(webAddress(address, "link"));
}

// WebKit of iOS 17 and macOS 14, the first with the button.
const TRACKING_VERSION = 15;
const APPLE_SCRIPT = "https://applepay.cdn-apple.com/jsapi/1.latest/apple-pay-sdk.js";
const SCRIPT_MILLISECONDS = 10000;

/** Returns true if Wallet has orders on this device. Synchronous; never throws. */
function isTrackingSupported() {
  try {
    // Apple's script makes an ApplePaySession in other browsers, too, but never the system's button.
    return isSupportedByDevice() && window.ApplePaySession.supportsVersion(TRACKING_VERSION)
      && CSS.supports("-webkit-appearance", "-apple-pay-button");
  } catch (error) {
    return false;
  }
}

/** Loads Apple's script, unless the page has done so. Resolves to true once it has defined an element, else to false. */
async function isDefined(name, sdk) {
  if (sdk && !document.querySelector('script[src*="/apple-pay-sdk.js"]')) {
    const script = Object.assign(document.createElement("script"), { async: true, crossOrigin: "anonymous" });
    Object.assign(script, { src: APPLE_SCRIPT }, sdk);
    document.head.appendChild(script);
  }
  const defined = window.customElements.whenDefined(name).then(() => true);
  return within(SCRIPT_MILLISECONDS, defined, () => false);
}

/**
 * Shows the button that adds an order to Wallet, where Wallet has orders.
 *
 * A plain link stands there until Apple's script has defined its element, and stays if it never does.
 *
 * @param element where it is shown; it stays hidden where Wallet has no orders.
 * @param options those of `addToWallet`, and `{style?, compact?, locale?, text?, sdk?, onError?}`. `style` is "black",
 *   "white" or "white-border". `sdk`: true loads Apple's script, `{src, integrity}` a certain version of it.
 * @returns true if the button or link is there. Rejects for options that are wrong.
 */
async function attachTrackButton(element, options = {}) {
  const { style = "black", compact = false, text = "Track with Apple Wallet", sdk, onError } = options;
  if (!options.orderIdentifier || !options.link) throw new WaybillError("orderIdentifier and link must be there");
  if (typeof options.link !== "function") webAddress(options.link, "link");
  if (!isTrackingSupported()) {
    element.hidden = true;
    return false;
  }
  const language = options.locale || document.documentElement.lang || "en-US";
  const follow = (event) => {
    event.preventDefault();
    addToWallet(options).catch((error) => {
      element.dispatchEvent(new CustomEvent("waybill:error", { detail: { stage: "track", error }, bubbles: true }));
      if (onError) onError({ stage: "track", error });
    });
  };
  const show = (shown) => {
    shown.addEventListener("click", follow);
    element.replaceChildren(shown);
    element.hidden = false;
  };
  const link = document.createElement("a");
  link.className = "waybill-track";
  link.textContent = text;
  // A link without an address is none for keyboards.
  link.href = typeof options.link === "function" ? "#" : options.link;
  show(link);
  const name = "apple-wallet-button";
  isDefined(name, sdk).then((isThere) => {
    if (!isThere || !link.isConnected) return;
    const button = appleElement(name, { buttonstyle: style, compact, locale: language });
    const isFocused = document.activeElement === link;
    show(button);
    if (isFocused) button.focus();
  });
  return true;
}

export {
  isSupportedByDevice, isSupportedForCheckout, createController, completeSafely, completeResponseSafely, confirmPayment,
  addToWallet, attachTrackButton, isTrackingSupported, paymentRequestArguments, requiredVersion,
};
