/** Closed-loop load: each of several workers sends its next request when the previous one was answered. */

/**
 * The duration of a measurement, in seconds. Floor and hub are measured in alternating rounds, so that other load on the
 * computer affects both.
 */
export function paceOf(quick) {
  return quick ? { seconds: 0.4, rounds: 1, warmUp: 0.3 } : { seconds: 1, rounds: 3, warmUp: 0.7 };
}

/** The percentile of the samples, for `rank` from 0 to 1; NaN without samples. */
export function percentile(samples, rank) {
  if (samples.length === 0) return Number.NaN;
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.ceil(rank * sorted.length) - 1)];
}

export function median(values) {
  return percentile(values, 0.5);
}

/** `{p50, p99}` in milliseconds. */
export function latencies(samples) {
  return { p50: percentile(samples, 0.5), p99: percentile(samples, 0.99) };
}

/** Runs one round. A step resolves to its latency in milliseconds, or to nothing if that is its own duration. */
async function runRound(steps, seconds) {
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
  return { samples, perSecond: samples.length / ((performance.now() - start) / 1000) };
}

/**
 * Warms up each side, then measures them in alternating rounds. `makeSteps(side)` returns one async function per concurrent
 * worker. Resolves to `{[side.name]: {p50, p99, perSecond}}`: latencies over all rounds, the rate of the median round.
 */
export async function compare(sides, makeSteps, { seconds, rounds, warmUp }) {
  const runs = [];
  for (const side of sides) {
    const steps = await makeSteps(side);
    await runRound(steps, warmUp);
    runs.push({ side, steps, samples: [], rates: [] });
  }
  for (let turn = 0; turn < rounds; turn += 1) {
    for (const run of runs) {
      const { samples, perSecond } = await runRound(run.steps, seconds);
      for (const sample of samples) run.samples.push(sample);
      run.rates.push(perSecond);
    }
  }
  return Object.fromEntries(
    runs.map(({ side, samples, rates }) => [side.name, { ...latencies(samples), perSecond: median(rates) }]),
  );
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

/** Runs `work(item, lane)` for each item, in `width` parallel lanes with the numbers 0 to `width` - 1. */
export async function inLanes(items, width, work) {
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(width, items.length) }, async (_, lane) => {
      while (next < items.length) await work(items[next++], lane);
    }),
  );
}
