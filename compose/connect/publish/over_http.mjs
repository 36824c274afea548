#!/usr/bin/env node
// Publishes a change of an order over HTTP, with nothing but Node 18.
import { readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const USAGE = `
  over_http.mjs merge ORDER ID <DATA     what this source knows of the order: a JSON object
  over_http.mjs remove ORDER ID          removes the order

ORDER   <order type>/<order>
ID      the change's name in your system, such as the key of its row: sent again under this name, it has one effect

CHECKOUT_URL, in the environment, is the address of \`waybill-gateway checkout\`; CHECKOUT_KEY_FILE a file with a key of
the scope \`orders\`, which also names the source. Prints the answer.`;

// By verb: method, and the end of the path.
const ROUTES = { merge: ["POST", "/merge"], remove: ["DELETE", ""] };
// Seconds until the first try is repeated, the second, and so on, unless the answer asks for more.
const PAUSES = [1, 2, 4, 8, 16];
const LONGEST_PAUSE = 60;
const TRANSIENT = [429, 500, 502, 503, 504];

/** An answer that stays the same until the request or the configuration changes. */
export class Refused extends Error {}
/** The service could not be reached, or failed, several times. The change may have been published. */
export class NotPublished extends Error {}

/**
 * Returns the answer once all in-sync replicas of Kafka have the change. A request without an answer, or with one that
 * may pass, is sent again with the same Idempotency-Key, so it has one effect. data: JSON; undefined for a removal.
 */
export async function publish(service, key, verb, order, id, data) {
  const [method, end] = ROUTES[verb];
  const url = `${service.replace(/\/+$/, "")}/v1/checkout/orders/${order}${end}`;
  const headers = { Authorization: `Bearer ${key}`, "Idempotency-Key": id };
  if (data !== undefined) headers["Content-Type"] = "application/json";
  for (let attempt = 0; ; attempt += 1) {
    let said, wait = 0;
    try {
      // No redirect is followed, so that the key goes nowhere else.
      const answer = await fetch(url, {
        method, headers, body: data, redirect: "manual", signal: AbortSignal.timeout(30_000),
      });
      const body = await answer.text();
      if (answer.status === 202) return JSON.parse(body);
      said = `${answer.status} ${body}`;
      const isInProgress = answer.status === 409 && body.includes('"in_progress"');
      if (!isInProgress && !TRANSIENT.includes(answer.status)) throw new Refused(`refused: ${said}`);
      wait = Number.parseInt(answer.headers.get("retry-after"), 10) || 0;
    } catch (error) {
      if (error instanceof Refused) throw error;
      said = error.cause?.message ?? error.message;
    }
    if (attempt === PAUSES.length) {
      throw new NotPublished(`not published, publish it again under the same ID: ${said}`);
    }
    await sleep(1000 * Math.min(Math.max(PAUSES[attempt], wait), LONGEST_PAUSE));
  }
}

function variable(name) {
  if (!process.env[name]) throw new Error(`${name} is not set`);
  return process.env[name];
}

async function main([verb, order, id, ...more]) {
  if (!(verb in ROUTES) || !id || more.length > 0) throw new Error(USAGE);
  const key = (await readFile(variable("CHECKOUT_KEY_FILE"), "ascii")).trim();
  const data = verb === "merge" ? await buffer(process.stdin) : undefined;
  console.log(JSON.stringify(await publish(variable("CHECKOUT_URL"), key, verb, order, id, data)));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(`over_http: ${error.message}`);
    process.exitCode = 1;
  });
}
