// Waiting for a hub that has just been started, and finding out which token opens it.

import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from './errors.mjs';

const ASK_AGAIN_MS = 100;

/** How long one answer may take. */
const ANSWER_MS = 5_000;

/** What the hub itself says is wrong with it, and will be until somebody changes something. */
export class HubRefuses extends UserError {}

/**
 * Waits until the hub serves requests.
 * @param {string} address of the hub
 * @param {object} options
 * @param {string[]} options.tokens access tokens, of which one should open it
 * @param {number} options.timeoutMs
 * @param {() => void} options.check called before each try; throws when there is nothing to wait for any more
 * @param {(variable: string) => string} options.fileOf the file in which a variable is set
 * @returns {Promise<string>} the first of the tokens that opens it
 * @throws {HubRefuses} at once when waiting does not help
 * @throws {UserError} when it did not serve in time
 */
export async function waitUntilReady(address, { tokens, timeoutMs, check, fileOf }) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    check();
    const { token, instead } = await open(address, tokens, fileOf);
    if (token !== undefined) return token;
    if (Date.now() >= deadline) {
      throw new UserError(
        `The hub did not serve ${address} within ${timeoutMs / 1000} s: ${instead}.`,
        'See everything that happens with: npm run dev -- --verbose',
      );
    }
    await sleep(ASK_AGAIN_MS);
  }
}

/**
 * Whether a hub that has served before serves again.
 * @param {string} address of the hub
 * @param {number} timeoutMs
 * @returns {Promise<boolean>} false when it does not within this time
 */
export async function servesAgain(address, timeoutMs) {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    const { status } = await ask(`${address}/health`);
    if (status !== undefined) return true;
    await sleep(ASK_AGAIN_MS);
  }
  return false;
}

/**
 * One try.
 * @param {string} address
 * @param {string[]} tokens
 * @param {(variable: string) => string} fileOf
 * @returns {Promise<{token: string, instead?: undefined} | {token?: undefined, instead: string}>} `instead`: what came
 *   that may pass
 */
async function open(address, tokens, fileOf) {
  const health = await ask(`${address}/health`);
  // Health needs nothing but a configuration: when the hub cannot even tell that, no waiting makes it better.
  if (health.status === 503 && health.sentence) throw refusal(health.sentence, fileOf);
  if (health.status !== 200) return { instead: health.summary };
  for (const token of tokens) {
    const answer = await ask(`${address}/api/sessions`, { authorization: `Bearer ${token}` });
    if (answer.status === 200) return { token };
    if (answer.status === 401) continue;
    const lasting = answer.status === 503 && answer.sentence && !answer.sentence.includes('Try again');
    if (lasting) throw refusal(answer.sentence, fileOf);
    return { instead: answer.summary };
  }
  throw new HubRefuses(
    'The hub does not take the access token of .dev.vars.',
    'Write CLI_API_TOKEN there as one word of letters and digits: `#`, quotes and line breaks do not mean themselves.',
  );
}

/**
 * @param {string} url
 * @param {Record<string, string>} [headers]
 * @returns {Promise<{status?: number, sentence?: string, summary: string}>} `sentence`: the hub's own, when it refuses
 */
async function ask(url, headers = {}) {
  try {
    const answer = await fetch(url, { headers, signal: AbortSignal.timeout(ANSWER_MS) });
    const text = await answer.text();
    return { status: answer.status, sentence: sentenceOf(text), summary: `status ${answer.status}, ${text.slice(0, 500)}` };
  } catch (error) {
    return { summary: error.cause?.message || error.message };
  }
}

/** The hub's errors are objects with `error` and `code`; wrangler, which also answers 503, writes others. @param {string} text */
function sentenceOf(text) {
  try {
    const { error, code } = JSON.parse(text);
    return typeof code === 'string' ? error : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {string} sentence
 * @param {(variable: string) => string} fileOf
 */
function refusal(sentence, fileOf) {
  const variable = sentence.match(/\b(?:[A-Z]+(?:_[A-Z]+)+|[A-Z]{5,})\b/)?.[0];
  const what = variable ? `${variable} is set in ${fileOf(variable)}: change it there, and start` : 'Then start';
  return new HubRefuses(`The hub cannot serve: ${sentence}`, `${what} again with: npm run dev`);
}
