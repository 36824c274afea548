// Waybill for Apple Pay on the web: button, merchant session, payment, order details for Wallet.
// ES2019, no dependency, works under `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'`.
// A page never calls Apple's functions itself, so a new version of Apple's API needs no change of the page.

const APPLE_PAY = "https://apple.com/apple-pay";
// A sheet waits 30 seconds for each answer; an answer has to arrive before that.
const ANSWER_MILLISECONDS = 28000;
const ADDRESS_MILLISECONDS = 10000;
const LOWEST_VERSION = 3;
// The versions from which browsers know a network. Apple adds others, which need no release of this file: see `fit`.
const NETWORK_VERSIONS = {
  amex: 1, chinaUnionPay: 1, discover: 1, iD: 1, interac: 1, masterCard: 1, privateLabel: 1, quicPay: 1, suica: 1,
  visa: 1, jcb: 2, electron: 4, maestro: 4, vPay: 4, cartesBancaires: 4, eftpos: 4, elo: 5, mada: 5, girocard: 11,
  mir: 11, dankort: 13, bancomat: 14, bancontact: 14, bankAxept: 15,
};
const MEMBER_VERSIONS = {
  couponCode: 12, supportsCouponCode: 12, shippingContactEditingMode: 12, applePayLaterAvailability: 14,
  recurringPaymentRequest: 14, automaticReloadPaymentRequest: 14, deferredPaymentRequest: 14, multiTokenContexts: 14,
};
const UNKNOWN_OUTCOME = "It is not certain whether you have paid. Look for the order before you pay again.";
const ADDRESS_MEMBERS = {
  addressLines: "addressLine", locality: "city", subLocality: "dependentLocality", postalCode: "postalCode",
  administrativeArea: "region", country: "country", countryCode: "country", name: "recipient", phoneNumber: "phone",
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

  /** Sends a GET, and once more after a second if the network or the service is unavailable. */
  async read(path) {
    try {
      return await this.call("GET", path);
    } catch (error) {
      if (error.isAnswer && error.status !== 503) throw error;
      await new Promise((resolve) => setTimeout(resolve, 1000));
      return this.call("GET", path);
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
function fit(request) {
  const supports = (version) => window.ApplePaySession.supportsVersion(version);
  const own = request.supportedNetworks || [];
  const known = own.filter((network) => NETWORK_VERSIONS[network]);
  const candidates = [request];
  if ((request.shippingMethods || []).some((method) => method.dateComponentsRange)) {
    candidates.push(Object.assign({}, request, {
      shippingMethods: request.shippingMethods.map((method) => without(method, "dateComponentsRange")),
    }));
  }
  const last = candidates[candidates.length - 1];
  const plain = without(last, "shippingContactEditingMode", "applePayLaterAvailability");
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
 * @param result `{status: "success" | "failure", outcome?, errors?, orderDetails?}`; with the outcome "unknown" and
 *   without errors, the sheet asks the customer to look for the order before another attempt.
 * @param options `{version?, onError?}`: the session's version (default 3), and a callback for details that were refused.
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
  const unknown = result.outcome === "unknown" ? [{ code: "unknown", message: UNKNOWN_OUTCOME }] : undefined;
  if (!isSuccess && (result.errors || unknown)) plain.errors = sheetErrors(result.errors || unknown);
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

/** `completeSafely` for a response of the Payment Request API. */
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

/** Returns the functions that convert items and shipping methods to those of the Payment Request API. */
function converters(currency) {
  const money = (value) => ({ currency, value });
  const item = (line) => ({ label: line.label, amount: money(line.amount || "0"), pending: line.type === "pending" });
  const option = (method, selected) => ({
    id: method.identifier, label: method.label, amount: money(method.amount), selected,
  });
  return { item, option };
}

/**
 * Converts an update of Apple Pay JS to one of the Payment Request API.
 *
 * @param selected identifier of the shipping method that is selected; the first one is, if it is not among the methods.
 */
function paymentRequestUpdate(update, currency, selected) {
  const { item, option } = converters(currency);
  const details = {};
  if (update.newTotal) details.total = item(update.newTotal);
  if (update.newLineItems) details.displayItems = update.newLineItems.map(item);
  const methods = update.newShippingMethods;
  if (methods) {
    const chosen = (methods.find(({ identifier }) => identifier === selected) || methods[0] || {}).identifier;
    details.shippingOptions = methods.map((method) => option(method, method.identifier === chosen));
  }
  const errors = update.errors || [];
  if (errors.length > 0) {
    details.error = errors[0].message || "not possible";
    for (const { code, contactField, message } of errors) {
      const name = ADDRESS_MEMBERS[contactField];
      if (code !== "shippingContactInvalid" || !name) continue;
      details.shippingAddressErrors = Object.assign({ [name]: message || "not valid" }, details.shippingAddressErrors);
    }
  }
  return details;
}

/** Converts a request of Apple Pay JS to the arguments of the Payment Request API. */
function paymentRequestArguments(version, request, merchantIdentifier) {
  const { item, option } = converters(request.currencyCode);
  const own = [
    "total", "lineItems", "shippingMethods", "currencyCode", "shippingType", "recurringPaymentRequest",
    "automaticReloadPaymentRequest", "deferredPaymentRequest", "multiTokenContexts",
  ];
  const data = Object.assign({ version, merchantIdentifier }, without(request, ...own));
  const details = { total: item(request.total), displayItems: (request.lineItems || []).map(item) };
  if (request.shippingMethods) {
    details.shippingOptions = request.shippingMethods.map((method, index) => option(method, index === 0));
  }
  const special = {};
  for (const name of own.slice(5)) if (request[name] !== undefined) special[name] = request[name];
  if (Object.keys(special).length > 0) {
    details.modifiers = [{ supportedMethods: APPLE_PAY, data: special }];
  }
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
    // Read when the session begins: a second device shows them while it confirms.
    for (const icon of metadata.touchIcons || []) add("apple-touch-icon", icon.href, icon.sizes);
  }

  makeButton() {
    const look = Object.assign({ type: "buy", style: "black" }, this.options.button);
    const language = look.locale || document.documentElement.lang || "en";
    if (window.customElements && window.customElements.get("apple-pay-button")) {
      const button = document.createElement("apple-pay-button");
      button.setAttribute("buttonstyle", look.style);
      button.setAttribute("type", look.type);
      button.setAttribute("locale", language);
      return button;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.className = `waybill-apple-pay waybill-apple-pay--${look.style === "white-outline" ? "outline" : look.style}`;
    button.dataset.type = look.type;
    button.lang = language;
    button.setAttribute("aria-label", "Apple Pay");
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
    // What the sheet shows: an answer that changes nothing repeats it.
    let standing = { newTotal: request.total };
    if (request.lineItems) standing.newLineItems = request.lineItems;
    const answer = async (complete, work) => {
      let update;
      try {
        update = Object.assign({}, standing, await work());
      } catch (error) {
        this.fail({ stage: "update", error });
        update = Object.assign({}, standing);
      }
      standing = { newTotal: update.newTotal };
      if (update.newLineItems) standing.newLineItems = update.newLineItems;
      if (update.errors) update.errors = sheetErrors(update.errors);
      try { session[complete](update); } catch (error) { this.fail({ stage: "update", error }); }
    };
    let isCharging = false;

    session.onvalidatemerchant = async (event) => {
      let answered;
      try {
        answered = await this.merchantSession(event.validationURL);
      } catch (error) {
        this.isBusy = false;
        this.fail({ stage: "merchant", error });
        try { session.abort(); } catch (ended) { /* The customer closed the sheet before. */ }
        return;
      }
      try { session.completeMerchantValidation(answered); } catch (error) { this.fail({ stage: "merchant", error }); }
    };
    session.onpaymentmethodselected = (event) => answer("completePaymentMethodSelection", () =>
      this.options.onMethodSelected && this.options.onMethodSelected(event.paymentMethod, { kind: "payment" }));
    session.onshippingmethodselected = (event) => answer("completeShippingMethodSelection", () =>
      this.options.onMethodSelected && this.options.onMethodSelected(event.shippingMethod, { kind: "shipping" }));
    session.onshippingcontactselected = (event) => answer("completeShippingContactSelection", () =>
      this.contactUpdate(event.shippingContact));
    if (request.supportsCouponCode) {
      session.oncouponcodechanged = (event) => answer("completeCouponCodeChange", () =>
        this.options.onCouponChanged && this.options.onCouponChanged(event.couponCode));
    }
    session.onpaymentauthorized = async (event) => {
      isCharging = true;
      const result = await this.authorise(event.payment);
      isCharging = false;
      const hasTracking = completeSafely(session, result, { version, onError: (detail) => this.fail(detail) });
      this.settle(result, hasTracking);
    };
    session.oncancel = () => {
      // While the shop is charging, its result counts: `settle` reports it.
      if (!isCharging) this.isBusy = false;
      this.tell("Cancelled", { isCharging });
    };
    session.begin();
  }

  async startPaymentRequest(forms) {
    let shown;
    try {
      const { made: sheet, request } = firstThatFits(forms, (form) => {
        const { methods, details, options } = paymentRequestArguments(
          form.version, form.request, this.state.metadata.merchantIdentifier);
        return new window.PaymentRequest(methods, details, options);
      });
      let shippingMethods = request.shippingMethods || [];
      sheet.onmerchantvalidation = (event) => {
        const session = this.merchantSession(event.validationURL);
        session.catch((error) => this.fail({ stage: "merchant", error }));
        event.complete(session);
      };
      const update = (event, work) => event.updateWith((async () => {
        try {
          const told = await work() || {};
          if (told.newShippingMethods) shippingMethods = told.newShippingMethods;
          return paymentRequestUpdate(told, request.currencyCode, sheet.shippingOption);
        } catch (error) {
          this.fail({ stage: "update", error });
          return {};
        }
      })());
      sheet.onpaymentmethodchange = (event) => update(event, () =>
        this.options.onMethodSelected && this.options.onMethodSelected(event.methodDetails, { kind: "payment" }));
      sheet.onshippingoptionchange = (event) => update(event, () =>
        this.options.onMethodSelected && this.options.onMethodSelected(
          shippingMethods.find(({ identifier }) => identifier === sheet.shippingOption), { kind: "shipping" }));
      sheet.onshippingaddresschange = (event) => update(event, () => {
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
    let response;
    try {
      response = await shown;
    } catch (error) {
      this.isBusy = false;
      if (error.name === "AbortError") this.tell("Cancelled", { isCharging: false });
      else this.fail({ stage: "begin", error });
      return;
    }
    const result = await this.authorise(response.details);
    const hasTracking = await completeResponseSafely(response, result, { onError: (detail) => this.fail(detail) });
    this.settle(result, hasTracking);
  }

  contactUpdate(contact) {
    if (this.options.onContactSelected) return this.options.onContactSelected(contact);
    const { service, metadata, basketIdentifier } = this.state;
    if (!basketIdentifier || !metadata.routes || !metadata.routes.basket) return undefined;
    const address = {};
    for (const name of ["countryCode", "postalCode", "locality", "administrativeArea"]) {
      if (contact[name]) address[name] = contact[name];
    }
    const path = `/applepay/basket/${encodeURIComponent(basketIdentifier)}/validatepostalcode`;
    return within(ADDRESS_MILLISECONDS, service.call("POST", path, address), () => ({
      errors: [{ code: "addressUnserviceable", message: "The address could not be checked. Try again." }],
    }));
  }

  /** Resolves to the shop's result, or to a failure if there is none. Never rejects. */
  async authorise(payment) {
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

  settle(result, hasTracking) {
    this.isBusy = false;
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

/** Sends a confirmation. Resolves to `{answer}` or `{error, errors}`, where `error.outcome` is "none" or "unknown". */
async function confirmation(address, confirmParams) {
  if (!address) {
    const message = "confirmURL is missing: the shop's endpoint that confirms with its secret key";
    return { error: { code: "confirm_url_missing", message, outcome: "none" } };
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
  if (confirmParams.return_url) window.location.assign(confirmParams.return_url);
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
  const url = new URL(address, document.baseURI);
  if (url.protocol !== "https:" && url.protocol !== "http:") throw new WaybillError("link must be an http or https URL");
  window.location.assign(url.href);
}

export {
  isSupportedByDevice, isSupportedForCheckout, createController, completeSafely, completeResponseSafely, confirmPayment,
  addToWallet, paymentRequestArguments, requiredVersion,
};
