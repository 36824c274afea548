#!/usr/bin/env node
// Derives an order's token, or a link to its package, with nothing but Node 18.
import { createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const USAGE = `
  derived.mjs token ORDER            the authenticationToken that checkout hands to Wallet
  derived.mjs link ORDER EXPIRES     a "Track with Apple Wallet" link; EXPIRES in UNIX seconds, at most a day ahead

ORDER   <order type>/<order>

TOKEN_SECRETS, in the environment, is the file of secrets, whose first one derives; WEB_SERVICE_URL the gateway's
address, as it is in orders.`;

/** Returns the first secret in a file's content: one a line, and empty lines are skipped. */
export function secret(content) {
  // Latin-1 has a character for each byte, so the bytes come back as they were.
  const lines = content.toString("latin1").split("\n").map((line) => line.replace(/\r$/, ""));
  const first = lines.find((line) => line !== "");
  if (first === undefined) throw new Error("there is no secret in the file");
  return Buffer.from(first, "latin1");
}

const authenticate = (key, message) => createHmac("sha256", key).update(message).digest("hex");

export const token = (key, order) => authenticate(key, order).slice(0, 32);

/** expires: UNIX seconds. service: the gateway's address. */
export function link(key, order, expires, service) {
  const signature = authenticate(key, `link:${order}:${expires}`);
  return `${service}/v1/orders/${order}/package?expires=${expires}&signature=${signature}`;
}

function variable(name) {
  if (!process.env[name]) throw new Error(`${name} is not set`);
  return process.env[name];
}

async function main(words) {
  const [verb, order, expires] = words;
  if (!["token 2", "link 3"].includes(`${verb} ${words.length}`)) throw new Error(USAGE);
  const key = secret(await readFile(variable("TOKEN_SECRETS")));
  if (verb === "token") {
    console.log(token(key, order));
  } else {
    if (!/^\d+$/.test(expires)) throw new Error(`${expires}: UNIX seconds`);
    console.log(link(key, order, expires, variable("WEB_SERVICE_URL")));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  main(process.argv.slice(2)).catch((error) => {
    console.error(`derived: ${error.message}`);
    process.exitCode = 1;
  });
}
