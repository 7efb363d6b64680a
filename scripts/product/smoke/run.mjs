// Runs the checks of a smoke test, and removes the sessions that they created.

import { CHECKS } from './checks.mjs';
import { Failure, Skipped } from './client.mjs';
import { Figures } from './figures.mjs';

/**
 * @typedef {object} CheckReport
 * @property {string} name
 * @property {'ok' | 'failed' | 'skipped'} result
 * @property {string} detail why the check failed or was skipped, or more about the result
 * @property {number} count of measured operations; `p50` and `p99` are their latencies in milliseconds
 * @property {number} [p50]
 * @property {number} [p99]
 * @property {Record<string, {count: number, p50: number, p99: number}>} server what the hub reported
 *
 * @typedef {object} Report
 * @property {string} hub
 * @property {string} [version]
 * @property {boolean} passed
 * @property {number} seconds
 * @property {{worker: string[], d1: string[]}} regions empty if the platform did not report them
 * @property {CheckReport[]} checks
 */

/**
 * @param {import('./client.mjs').SmokeClient} smoke
 * @param {(check: CheckReport) => void} onCheck called after each check
 * @param {{isQuick?: boolean}} [options] `isQuick`: without the checks that take long, or write or transfer much
 * @returns {Promise<Report>}
 */
export async function runSmoke(smoke, onCheck, { isQuick = false } = {}) {
  const startedAt = Date.now();
  /** @type {Record<string, any>} */
  const results = {};
  /** @type {CheckReport[]} */
  const checks = [];
  const runCheck = async (name, needs, runAndDescribe) => {
    const figures = new Figures();
    const missing = needs.find((need) => checks.find((check) => check.name === need)?.result !== 'ok');
    /** @type {Pick<CheckReport, 'result' | 'detail'>} */
    const outcome = missing ? { result: 'skipped', detail: `needs ${missing}` } : await outcomeOf(() => runAndDescribe(figures));
    const check = { name, ...outcome, ...figures.summarize() };
    checks.push(check);
    onCheck(check);
  };
  for (const { name, needs, run } of CHECKS.filter(({ isSlow }) => !(isQuick && isSlow)))
    await runCheck(name, needs, (figures) => run(smoke, figures, results));
  await runCheck('clean-up', [], async () => `${await smoke.cleanUp()} sessions deleted`);
  const regions = { worker: [...smoke.regions.worker], d1: [...smoke.regions.d1] };
  const passed = checks.every(({ result }) => result !== 'failed');
  return { hub: smoke.url, version: results.version, passed, seconds: Math.round((Date.now() - startedAt) / 1000), regions, checks };
}

/**
 * @param {() => Promise<string | void>} check
 * @returns {Promise<Pick<CheckReport, 'result' | 'detail'>>}
 */
async function outcomeOf(check) {
  try {
    const detail = await check();
    return { result: 'ok', detail: typeof detail === 'string' ? detail : '' };
  } catch (error) {
    if (error instanceof Skipped) return { result: 'skipped', detail: error.message };
    if (error instanceof Failure || error.constructor === Error) return { result: 'failed', detail: error.message };
    return { result: 'failed', detail: `${error.stack ?? error}` };
  }
}
