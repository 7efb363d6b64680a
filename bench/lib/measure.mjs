/** Measures servers in turns, so that other load on the computer affects all servers. Each turn has one slice for each server. */

import { setTimeout as sleep } from 'node:timers/promises';
import { latencyFigures, median } from '../../scripts/lib/statistics.mjs';
import { cpuSeconds } from './processes.mjs';

/**
 * Returns the schedule of a measurement. A slice is the part of a turn that measures one server. All durations are in seconds:
 * - `seconds`: the duration of a slice; `warmUp`: that of the warm-up, which compiles the hot code: longer in a comparison
 * - `turns`: the number of turns in a pass. A comparison of two builds has more and shorter slices, for the spread.
 * - `passes`: the number of passes, each with new processes. A comparison has several passes, because two processes of the same build
 *   differ by some percent.
 */
export function scheduleOf({ quick, compares = false }) {
  if (compares) return quick ? { seconds: 0.2, turns: 6, warmUp: 0.5, passes: 1 } : { seconds: 0.2, turns: 12, warmUp: 2, passes: 3 };
  return quick ? { seconds: 0.4, turns: 1, warmUp: 0.3, passes: 1 } : { seconds: 0.5, turns: 6, warmUp: 0.7, passes: 1 };
}

/** The pause after the slices of a turn, so that the CPU time includes work after a slice, such as the end of a commit. */
const SETTLE_MS = 50;

/** Returns the figures of some slices: the latencies over all samples, the median of the rates, and the mean CPU time of a request. */
export function summarize(slices) {
  const rates = slices.filter(({ seconds }) => seconds > 0).map(({ count, seconds }) => count / seconds);
  const counted = slices.filter(({ count, cpuMs }) => count > 0 && cpuMs !== undefined);
  const sum = (key) => counted.reduce((total, slice) => total + slice[key], 0);
  const samples = slices.flatMap((slice) => slice.samples ?? []);
  return {
    ...(samples.length > 0 ? latencyFigures(samples) : {}),
    ...(rates.length > 0 ? { perSecond: median(rates) } : {}),
    ...(counted.length > 0 ? { cpuMs: sum('cpuMs') / sum('count') } : {}),
  };
}

/** Returns the order of the servers in a turn. Over all turns, each server follows each other server equally often. */
function orderOf(servers, turn) {
  const first = Math.floor(turn / 2) % servers.length;
  const rotated = [...servers.slice(first), ...servers.slice(0, first)];
  return turn % 2 === 0 ? rotated : rotated.reverse();
}

/** @typedef {{samples?: number[], count?: number, seconds?: number, cpuMs?: number}} Slice */

/**
 * Measures the servers in alternating slices. Resolves to `{[server.name]: {p50, p99, perSecond, cpuMs, slices}}`, where `slices` has the
 * same figures for each slice.
 * - `prepare` resolves to the context of a slice. `prepare` and `finish` are not measured.
 * - `measureSlice` measures one server. Resolves to the latencies in milliseconds (`samples`), the number of requests (`count`), and
 *   their duration (`seconds`). Without `count`, the figures have no `cpuMs`. Without `seconds`, they have no `perSecond`.
 * @template {{name: string, pid?: number}} Server
 * @template Context
 * @param {Server[]} servers
 * @param {number} turns
 * @param {{prepare?: (server: Server, turn: number) => Promise<Context>, measureSlice: (server: Server, context: Context, turn: number) => Promise<Slice>,
 *   finish?: (server: Server, context: Context, turn: number) => Promise<unknown>}} work
 */
export async function takeTurns(servers, turns, { prepare = async () => undefined, measureSlice, finish = async () => {} }) {
  const slices = new Map(servers.map((server) => [server, []]));
  for (let turn = 0; turn < turns; turn += 1) {
    const contexts = new Map();
    for (const server of servers) contexts.set(server, await prepare(server, turn));
    await sleep(SETTLE_MS);
    const cpuSecondsBefore = servers.map((server) => server.pid && cpuSeconds(server.pid));
    for (const server of orderOf(servers, turn)) {
      slices.get(server).push(await measureSlice(server, contexts.get(server), turn));
    }
    await sleep(SETTLE_MS);
    for (const [index, server] of servers.entries()) {
      if (server.pid) slices.get(server).at(-1).cpuMs = (cpuSeconds(server.pid) - cpuSecondsBefore[index]) * 1000;
    }
    for (const server of servers) await finish(server, contexts.get(server), turn);
  }
  return Object.fromEntries(
    [...slices].map(([{ name }, serverSlices]) => [
      name,
      { ...summarize(serverSlices), slices: serverSlices.map((serverSlice) => summarize([serverSlice])) },
    ]),
  );
}

/** Runs a closed loop. A step may resolve to its latency in milliseconds. Otherwise the duration of the step is the latency. */
async function runLoop(steps, seconds) {
  const samples = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(
    steps.map(async (step) => {
      for (let sentAt = performance.now(); sentAt < end; sentAt = performance.now()) {
        const latency = await step();
        samples.push(typeof latency === 'number' ? latency : performance.now() - sentAt);
      }
    }),
  );
  return { samples, count: samples.length, seconds: (performance.now() - start) / 1000 };
}

/**
 * Compares servers under closed-loop load: each of several callers sends the next request when the previous request was answered.
 * `makeSteps(server)` returns one async function for each caller. Warms up each server first. Resolves to the same result as `takeTurns`.
 */
export async function compare(servers, makeSteps, { seconds, turns, warmUp }) {
  const steps = new Map();
  for (const server of servers) {
    steps.set(server, await makeSteps(server));
    await runLoop(steps.get(server), warmUp);
  }
  return takeTurns(servers, turns, { measureSlice: (server) => runLoop(steps.get(server), seconds) });
}

/** Resolves to the CPU time of a process while `work` runs, in percent of one processor. */
export async function cpuPercent(pid, work) {
  const before = { at: performance.now(), seconds: cpuSeconds(pid) };
  await work();
  return ((cpuSeconds(pid) - before.seconds) / ((performance.now() - before.at) / 1000)) * 100;
}

/** Calls `act(n)` for n = 0, 1, 2, ... at a constant rate. Returns a function that stops the calls. */
export function repeat(perSecond, act) {
  const start = performance.now();
  let calls = 0;
  const timer = setInterval(() => {
    const dueCalls = ((performance.now() - start) / 1000) * perSecond;
    for (; calls < dueCalls; calls += 1) act(calls);
  }, 10);
  return () => clearInterval(timer);
}
