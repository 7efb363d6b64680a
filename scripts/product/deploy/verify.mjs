// Checks a deployed hub: waits until the hub answers, and runs the smoke test.

import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../lib/errors.mjs';
import { onStop } from '../../lib/signals.mjs';

/** Time limit until the hub answers at its address. A new custom domain needs minutes for its certificate. */
const READY_TIMEOUT_MS = 5 * 60_000;
const POLL_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;

/**
 * Waits until the hub answers with the deployed version and with its database.
 * @param {string} address
 * @param {string} version
 * @param {{timeoutMs?: number, update: (state: string) => void}} options
 */
export async function waitUntilDeployed(address, version, { timeoutMs = READY_TIMEOUT_MS, update }) {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const problem = await findProblem(address, version);
    if (problem === undefined) return;
    if (Date.now() + POLL_MS > deadline) {
      throw new UserError(
        `${address} does not answer as expected: ${problem}.`,
        'The hub is deployed. A new address may need some minutes. Run the command again: it continues with this check.',
      );
    }
    update(problem);
    await sleep(POLL_MS);
  }
}

/** Returns why the hub does not answer as expected. @returns {Promise<string | undefined>} undefined if the hub answers as expected */
async function findProblem(address, version) {
  try {
    const response = await fetch(`${address}/health?deep=1`, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) });
    const text = await response.text();
    if (response.status !== 200) return `status ${response.status}, ${text.slice(0, 200)}`;
    const running = JSON.parse(text).version;
    return running === version ? undefined : `version ${running} still answers, not ${version}`;
  } catch (error) {
    return error.cause?.message || error.message;
  }
}

/**
 * Whether the hub refuses a token. False if the hub does not answer or has a fault.
 * @param {string} address
 * @param {string} token
 */
export async function refusesToken(address, token) {
  const options = { headers: { authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) };
  const response = await fetch(`${address}/api/sessions?limit=1`, options).catch(() => undefined);
  return response?.status === 401;
}

/**
 * Runs the smoke test.
 * @param {{address: string, token: string, isQuick: boolean, update: (state: string) => void}} options
 * @throws {UserError} with the report if a check failed
 */
export async function smokeTest({ address, token, isQuick, update }) {
  const [{ SmokeClient }, { runSmoke }, { describeReport }] = await Promise.all([
    import('../smoke/client.mjs'),
    import('../smoke/run.mjs'),
    import('../smoke/report.mjs'),
  ]);
  const smoke = new SmokeClient({ url: address, token });
  onStop(async () => {
    await smoke.cleanUp().catch(({ message }) => console.error(message));
  });
  const report = await runSmoke(smoke, ({ name, result }) => update(`${name} ${result}`), { isQuick });
  if (report.passed) return report;
  throw new UserError(
    `The hub is deployed, but the smoke test failed.\n\n${describeReport(report)}`,
    'docs/MONITORING.md, "Smoke test", has the usual causes.',
  );
}
