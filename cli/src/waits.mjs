/** Waits at the start of an agent, and what the user is told meanwhile. */

import { setTimeout as delay } from 'node:timers/promises';
import { mustDownload } from './adapter.mjs';
import * as notices from './notices.mjs';
import { SilenceTimer } from './silence.mjs';

const MINUTE_MS = 60_000;

/**
 * Starts a timer that tells the user when npm is still downloading the agent.
 * @param {import('./launch.mjs').Launch} launch
 * @param {number} timeoutMs
 * @param {(sentence: string) => void} notify
 * @returns {SilenceTimer | undefined}
 */
export function startDownloadNotice(launch, timeoutMs, notify) {
  if (!mustDownload(launch)) return undefined;
  const notice = new SilenceTimer({ timeoutMs, onSilent: () => notify(notices.download(launch)) });
  notice.start();
  return notice;
}

/**
 * Waits until the agent can load its session: some agents lose a session that is started and loaded in the same minute.
 * @param {import('./launch.mjs').Launch} launch
 * @param {{sessionId: string, startedAt?: number}} saved
 * @param {{environment: NodeJS.ProcessEnv, notify: (sentence: string) => void, signal: AbortSignal, log: {info: (text: string) => void}}} context
 */
export async function untilLoadable(launch, { sessionId, startedAt }, { environment, notify, signal, log }) {
  const { findStartMinute } = launch.entry ?? {};
  if (!findStartMinute) return;
  const start = startedAt ?? (await findStartMinute(environment, sessionId));
  const ms = (Math.floor(start / MINUTE_MS) + 1) * MINUTE_MS - Date.now();
  if (ms <= 0) return;
  const sentence = notices.waitForMinute(launch, ms);
  log.info(sentence);
  notify(sentence);
  await delay(ms, undefined, { signal }).catch(() => {});
}

/** Waits for a promise, but at most `ms`. @param {number} ms @param {Promise<unknown>} promise */
export async function waitAtMost(ms, promise) {
  const timer = new AbortController();
  const timeout = delay(ms, undefined, { signal: timer.signal }).catch(() => {});
  await Promise.race([promise, timeout]).finally(() => timer.abort());
}
