/** The usage of a namespace, from the counts of `tests/e2e/lib/tally.worker.js`, and the billed amounts of this usage. */

import { sendOnce } from './http.mjs';
import { readWranglerToml } from '../../scripts/lib/worker-settings.mjs';
import { MESSAGES_PER_REQUEST, OBJECT_GB } from './prices.mjs';

/** The assumed duration of a request to D1 on the platform, in milliseconds, for an object near its database. */
const D1_ROUND_TRIP_MS = 30;
/** The assumed CPU times of a request in the worker, and of a frame that passes through the worker, in milliseconds. */
const REQUEST_CPU_MS = 2;
const FRAME_CPU_MS = 0.1;

/** Whether the deployed worker logs each of its invocations. */
const hasInvocationLogs = () => readWranglerToml().observability.logs.invocation_logs !== false;

/**
 * Reads the counts of a namespace since the start of the runtime. The counts of the worker include all namespaces; an idle namespace
 * (`idle`) has none.
 */
export async function readUsage({ url }, namespace) {
  const tally = (await sendOnce(url, 'GET', `/e2e/tally?namespace=${namespace}`)).json();
  const { events, storage } = tally;
  const worker = namespace === 'idle' ? { rowsWritten: 0, rowsRead: 0, databaseBytes: 0, requests: 0 } : tally.worker;
  const count = (name) => events.filter((event) => event.name === name).length;
  return {
    wakes: tally.wakes,
    alarms: count('alarm'),
    fetches: count('fetch'),
    messages: count('webSocketMessage'),
    events: events.length,
    busyMs: tally.busyMs,
    objectRoundTrips: tally.roundTrips,
    d1RowsWritten: tally.rowsWritten + worker.rowsWritten,
    d1RowsRead: tally.rowsRead + worker.rowsRead,
    databaseBytes: Math.max(tally.databaseBytes, worker.databaseBytes),
    storageRowsWritten: storage.rowsWritten + storage.alarmsSet,
    storageRowsRead: storage.rowsRead,
    workerRequests: worker.requests,
    logLines: tally.logLines,
  };
}

const combine = (a, b, operation) => Object.fromEntries(Object.keys(a).map((key) => [key, operation(a[key], b[key])]));

export const subtract = (after, before) => combine(after, before, (a, b) => a - b);
export const add = (a, b) => combine(a, b, (left, right) => left + right);
export const scale = (usage, factor) => combine(usage, usage, (count) => count * factor);

/**
 * Returns the billed amounts for a usage:
 * - Rows, requests and lines of the log are counted.
 * - The duration is counted, plus an assumed duration for each request to D1, because a local D1 answers at once.
 * - The CPU time is computed, as if each frame of a CLI, and a reply to each frame, passed through the worker.
 */
export function billedAmounts(usage, invocationLogs = hasInvocationLogs()) {
  return {
    d1RowsWritten: usage.d1RowsWritten,
    d1RowsRead: usage.d1RowsRead,
    objectRequests: usage.fetches + usage.alarms + usage.messages / MESSAGES_PER_REQUEST,
    objectGbSeconds: ((usage.busyMs + usage.objectRoundTrips * D1_ROUND_TRIP_MS) / 1000) * OBJECT_GB,
    objectRowsWritten: usage.storageRowsWritten,
    objectRowsRead: usage.storageRowsRead,
    workerRequests: usage.workerRequests,
    workerCpuMs: usage.workerRequests * REQUEST_CPU_MS + usage.messages * 2 * FRAME_CPU_MS,
    logEvents: usage.logLines + (invocationLogs ? usage.events + usage.workerRequests : 0),
  };
}
