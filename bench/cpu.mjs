/**
 * `npm run cpu -- BUILD...`: measures the CPU time of the hub's code per request, and compares builds. The builds take turns. Each build
 * runs in its own Node process, without a runtime and without a network.
 */

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { parseCommandLine } from '../scripts/lib/command-line.mjs';
import { main, UsageError } from '../scripts/lib/errors.mjs';
import { rerunUnderNewerNode } from './lib/node.mjs';

const USAGE = `Usage: npm run cpu -- [options] [BUILD...]

Measures single requests in the hub's code, for the build in each folder BUILD (default: build). To see the noise, also
give a copy of the first build.

  --only NAMES   comma-separated requests (default: alive,rpc,ingest,post,list,show,page)
  --passes N     processes per build (default: 8)
  --help         this text`;

/** Rounds per process, after the warm-up rounds. */
const ROUNDS = 40;
const WARM_UP_ROUNDS = 5;
const REQUESTS_PER_ROUND = 80;

const SELF = fileURLToPath(import.meta.url);

await main(async () => {
  const rerun = await rerunUnderNewerNode();
  if (rerun !== null) return rerun;
  if (process.env.CPU_BUILD) {
    console.log(JSON.stringify(await measure(process.env.CPU_BUILD, process.env.CPU_ONLY)));
    return 0;
  }
  const options = parseCommandLine(
    process.argv.slice(2),
    USAGE,
    { only: { type: 'string', default: '' }, passes: { type: 'string', default: '8' } },
    { words: true },
  );
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const passes = Number(options.passes);
  if (!(Number.isInteger(passes) && passes > 0))
    throw new UsageError(`--passes must be a whole number from 1, not ${options.passes}.`, USAGE);
  const builds = (options.words.length > 0 ? options.words : ['build']).map((folder) => resolve(folder));
  const missing = builds.find((folder) => !existsSync(join(folder, 'index.js')));
  if (missing)
    throw new UsageError(
      `There is no build in ${missing}.`,
      '`npm run build` creates one in build. To compare it with a later build, copy that folder.',
    );
  print(builds, compare(builds, passes, options.only));
  return 0;
});

/** Measures one build. Resolves to the time of each request, in microseconds: the 33rd percentile of the rounds. */
async function measure(build, only) {
  const { prepareRequests } = await import('./lib/in-process.mjs');
  const requests = await prepareRequests(build);
  const chosen = only ? only.split(',') : Object.keys(requests);
  const unknown = chosen.find((name) => !(name in requests));
  if (unknown) throw new UsageError(`--only: there is no request ${unknown}. The requests are: ${Object.keys(requests).join(', ')}.`);
  const times = Object.fromEntries(chosen.map((name) => [name, []]));
  for (let round = 0; round < WARM_UP_ROUNDS + ROUNDS; round += 1) {
    for (const name of chosen) {
      const start = performance.now();
      for (let i = 0; i < REQUESTS_PER_ROUND; i += 1) await requests[name]();
      if (round >= WARM_UP_ROUNDS) times[name].push(((performance.now() - start) * 1000) / REQUESTS_PER_ROUND);
    }
  }
  return Object.fromEntries(chosen.map((name) => [name, sorted(times[name])[Math.floor(ROUNDS / 3)]]));
}

/** Returns the line with the result, which is among the log lines of the hub. @param {string} printed */
function resultOf(printed) {
  return printed.split('\n').find((line) => line.startsWith('{') && !line.startsWith('{"time":')) ?? '';
}

/** Measures the builds in turns. @returns {Record<string, number>[]} for each build, the medians over its processes */
function compare(builds, passes, only) {
  const figures = builds.map(() => ({}));
  for (let pass = 0; pass < passes; pass += 1) {
    process.stderr.write(`pass ${pass + 1} of ${passes}\n`);
    // The order rotates, so that each build is first equally often.
    for (let turn = 0; turn < builds.length; turn += 1) {
      const buildIndex = (pass + turn) % builds.length;
      const env = { ...process.env, CPU_BUILD: builds[buildIndex], CPU_ONLY: only };
      const printed = execFileSync(process.execPath, ['--no-warnings', SELF], {
        env,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      for (const [name, time] of Object.entries(JSON.parse(resultOf(printed)))) (figures[buildIndex][name] ??= []).push(time);
    }
  }
  const median = (times) => sorted(times)[Math.floor(times.length / 2)];
  return figures.map((build) => Object.fromEntries(Object.entries(build).map(([name, times]) => [name, median(times)])));
}

/** Prints the times of the first build in microseconds, and the times of the other builds as differences from the first build. */
function print(builds, figures) {
  const [first] = figures;
  const names = Object.keys(first);
  const rows = figures.map((times, at) => {
    const ratios = names.map((name) => times[name] / first[name]);
    const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / names.length);
    const percent = (ratio) => `${ratio >= 1 ? '+' : ''}${((ratio - 1) * 100).toFixed(1)} %`;
    const cells = names.map((name, i) => (at === 0 ? `${times[name].toFixed(1)} µs` : percent(ratios[i])));
    return [basename(builds[at]), ...cells, at === 0 ? '' : percent(mean)];
  });
  const width = Math.max(...builds.map((build) => basename(build).length)) + 2;
  for (const row of [['build', ...names, 'mean'], ...rows]) {
    console.log(row.map((cell, i) => (i === 0 ? cell.padEnd(width) : cell.padStart(11))).join(''));
  }
}

function sorted(numbers) {
  return numbers.toSorted((a, b) => a - b);
}
