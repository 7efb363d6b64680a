/**
 * Measures sides in turns, so that other load on the computer affects all of them. Each turn has one slice of each side.
 */

import { latencies, median } from '../../scripts/lib/statistics.mjs';
import { cpuSeconds } from './processes.mjs';

/**
 * Returns the pace of a measurement: the duration of a slice and of the warm-up in seconds, the number of slices of each side, and
 * the number of passes, which each use new processes. A comparison of two builds has more and shorter slices, because it also
 * determines their spread, and several passes, because two processes of the same build differ by some percent.
 */
export function paceOf({ quick, compares = false }) {
  if (compares) return quick ? { seconds: 0.2, rounds: 6, warmUp: 0.5, passes: 1 } : { seconds: 0.2, rounds: 12, warmUp: 0.7, passes: 3 };
  return quick ? { seconds: 0.4, rounds: 1, warmUp: 0.3, passes: 1 } : { seconds: 0.5, rounds: 6, warmUp: 0.7, passes: 1 };
}

/** The pause after a slice: work that a side does after its slice, such as the end of a commit, also counts as its CPU time. */
const SETTLE_MS = 50;

/** Returns the figures of some slices: latencies over all samples, the median of the rates, CPU time for each of all requests. */
export function summarize(slices) {
  const rates = slices.filter(({ seconds }) => seconds > 0).map(({ count, seconds }) => count / seconds);
  const counted = slices.filter(({ count, cpuMs }) => count > 0 && cpuMs !== undefined);
  const sum = (key) => counted.reduce((total, slice) => total + slice[key], 0);
  const samples = slices.flatMap((slice) => slice.samples ?? []);
  return {
    ...(samples.length > 0 ? latencies(samples) : {}),
    ...(rates.length > 0 ? { perSecond: median(rates) } : {}),
    ...(counted.length > 0 ? { cpuMs: sum('cpuMs') / sum('count') } : {}),
  };
}

/** Returns the sides in another order for each turn, so that each side follows each other side equally often. */
function orderOf(sides, turn) {
  const first = Math.floor(turn / 2) % sides.length;
  const rotated = [...sides.slice(first), ...sides.slice(0, first)];
  return turn % 2 === 0 ? rotated : rotated.reverse();
}

/** @typedef {{samples?: number[], count?: number, seconds?: number, cpuMs?: number}} Slice */

/**
 * Measures the sides in alternating slices. `slice` resolves to latencies in milliseconds, the number of requests, and their
 * duration. Without `count`, there is no CPU time for each request; without `seconds`, no rate. `prepare` resolves to the slice's
 * context. `prepare` and `finish` are not measured.
 * Resolves to `{[side.name]: {p50, p99, perSecond, cpuMs, slices}}`, where `slices` has the same figures of each slice.
 * @template {{name: string, pid?: number}} Side
 * @template Context
 * @param {Side[]} sides
 * @param {number} rounds
 * @param {{prepare?: (side: Side, turn: number) => Promise<Context>, slice: (side: Side, context: Context, turn: number) => Promise<Slice>,
 *   finish?: (side: Side, context: Context, turn: number) => Promise<unknown>}} work
 */
export async function takeTurns(sides, rounds, { prepare = async () => undefined, slice, finish = async () => {} }) {
  const slices = new Map(sides.map((side) => [side, []]));
  for (let turn = 0; turn < rounds; turn += 1) {
    const contexts = new Map();
    for (const side of sides) contexts.set(side, await prepare(side, turn));
    await sleep(SETTLE_MS);
    const before = sides.map((side) => side.pid && cpuSeconds(side.pid));
    for (const side of orderOf(sides, turn)) {
      slices.get(side).push(await slice(side, contexts.get(side), turn));
    }
    await sleep(SETTLE_MS);
    for (const [at, side] of sides.entries()) {
      if (side.pid) slices.get(side).at(-1).cpuMs = (cpuSeconds(side.pid) - before[at]) * 1000;
    }
    for (const side of sides) await finish(side, contexts.get(side), turn);
  }
  return Object.fromEntries(
    [...slices].map(([{ name }, ofSide]) => [name, { ...summarize(ofSide), slices: ofSide.map((one) => summarize([one])) }]),
  );
}

/** Runs a closed loop. A step resolves to its latency in milliseconds, or to nothing if its duration is the latency. */
async function runLoop(steps, seconds) {
  const samples = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(
    steps.map(async (step) => {
      for (let sent = performance.now(); sent < end; sent = performance.now()) {
        const latency = await step();
        samples.push(typeof latency === 'number' ? latency : performance.now() - sent);
      }
    }),
  );
  return { samples, count: samples.length, seconds: (performance.now() - start) / 1000 };
}

/**
 * Closed-loop load: each of several workers sends its next request when the previous one was answered. `makeSteps(side)`
 * returns one async function for each worker. Warms up each side first. Resolves like `takeTurns`.
 */
export async function compare(sides, makeSteps, { seconds, rounds, warmUp }) {
  const steps = new Map();
  for (const side of sides) {
    steps.set(side, await makeSteps(side));
    await runLoop(steps.get(side), warmUp);
  }
  return takeTurns(sides, rounds, { slice: (side) => runLoop(steps.get(side), seconds) });
}

export function sleep(milliseconds) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
}

/** Polls `check` until it is true; rejects after ten seconds. */
export async function waitUntil(what, check) {
  const end = performance.now() + 10_000;
  while (!(await check())) {
    if (performance.now() > end) throw new Error(`timed out after 10 s waiting for ${what}`);
    await sleep(10);
  }
}

/** Resolves to the CPU time of a process while `work` runs, in percent of one processor. */
export async function cpuPercent(pid, work) {
  const before = { at: performance.now(), seconds: cpuSeconds(pid) };
  await work();
  return ((cpuSeconds(pid) - before.seconds) / ((performance.now() - before.at) / 1000)) * 100;
}

/** Sleeps until `index / perSecond` seconds after `start`, a time of `performance.now()`: for requests at a constant rate. */
export async function waitForTurn(start, index, perSecond) {
  await sleep(Math.max(0, start + (index * 1000) / perSecond - performance.now()));
}

/** Calls `act(n)` for n = 0, 1, 2, ... at a constant rate. Returns a function that stops the calls. */
export function repeat(perSecond, act) {
  const start = performance.now();
  let done = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - start) / 1000) * perSecond;
    for (; done < due; done += 1) act(done);
  }, 10);
  return () => clearInterval(timer);
}
