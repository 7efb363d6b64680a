/** Closed-loop load: so many workers, each sending its next request when the last was answered. */

/** How long each row is measured. Three rounds, alternating floor and hub, so that a machine's mood meets both alike. */
export function pace(quick) {
  return quick ? { seconds: 0.4, rounds: 1, warmUp: 0.3 } : { seconds: 1, rounds: 3, warmUp: 0.7 };
}

/** The value below which `share` (0 to 1) of the samples lie; NaN for none. */
export function percentile(samples, share) {
  if (samples.length === 0) return Number.NaN;
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)];
}

export function median(values) {
  return percentile(values, 0.5);
}

/** `{p50, p99}` in milliseconds. */
export function latencies(samples) {
  return { p50: percentile(samples, 0.5), p99: percentile(samples, 0.99) };
}

/** A step may answer with its own latency in milliseconds; otherwise the time until it resolved counts. */
async function round(steps, seconds) {
  const samples = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  await Promise.all(
    steps.map(async (step) => {
      for (let sent = performance.now(); sent < end; sent = performance.now()) {
        const own = await step();
        samples.push(typeof own === 'number' ? own : performance.now() - sent);
      }
    }),
  );
  return { samples, perSecond: samples.length / ((performance.now() - start) / 1000) };
}

/**
 * Warms each side up, then measures them in turns. `makeSteps(side)` gives one async function per unit of concurrency.
 * Resolves to `{[side.name]: {p50, p99, perSecond}}`: latencies over all rounds, the rate of the median round.
 */
export async function compare(sides, makeSteps, { seconds, rounds, warmUp }) {
  const runs = [];
  for (const side of sides) {
    const steps = await makeSteps(side);
    await round(steps, warmUp);
    runs.push({ side, steps, samples: [], rates: [] });
  }
  for (let turn = 0; turn < rounds; turn += 1) {
    for (const run of runs) {
      const { samples, perSecond } = await round(run.steps, seconds);
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

/** Asks until the answer is true; rejects with `what` after ten seconds. */
export async function until(what, ask) {
  const end = performance.now() + 10_000;
  while (!(await ask())) {
    if (performance.now() > end) throw new Error(`waited 10 s in vain for: ${what}`);
    await sleep(10);
  }
}

/** Runs `work` for each item, at most `width` at once; `work` also gets the lane's number, 0 to width - 1. */
export async function inLanes(items, width, work) {
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(width, items.length) }, async (_, lane) => {
      while (next < items.length) await work(items[next++], lane);
    }),
  );
}
