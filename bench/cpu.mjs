/**
 * `npm run cpu -- BUILD...`: how long the hub's own code takes for a request, and how one build compares with another. No
 * runtime, no network: the builds run in this Node, each in a process of its own, in turns.
 */

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { parseCommandLine } from '../scripts/lib/command-line.mjs';
import { main, UserError } from '../scripts/lib/errors.mjs';
import { rerunUnderNewerNode } from './lib/node.mjs';

const USAGE = `Usage: npm run cpu -- [options] [BUILD...]

Times single requests in the hub's code, as it is built in each folder BUILD (default: build). Give the first build a
second time, from a copy, to see how far equal builds differ on this machine.

  --only NAMES   comma list of requests (default: alive,rpc,ingest,post,list,show,page)
  --passes N     how many processes each build gets (default: 8)
  --help         this text`;

/** Rounds of a process, and requests in each; the first rounds warm it up. */
const ROUNDS = 40;
const WARM_UP = 5;
const REQUESTS = 80;

const SELF = fileURLToPath(import.meta.url);

await main(async () => {
  const rerun = await rerunUnderNewerNode();
  if (rerun !== null) return rerun;
  if (process.env.CPU_BUILD) {
    console.log(JSON.stringify(await measure(process.env.CPU_BUILD, process.env.CPU_ONLY)));
    return 0;
  }
  const options = parseCommandLine(process.argv.slice(2), USAGE, { only: { type: 'string', default: '' }, passes: { type: 'string', default: '8' } }, { words: true });
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const passes = Number(options.passes);
  if (!(Number.isInteger(passes) && passes > 0)) throw new UserError(`--passes is a whole number from 1, not ${options.passes}.`, USAGE);
  const builds = (options.words.length > 0 ? options.words : ['build']).map((folder) => resolve(folder));
  const missing = builds.find((folder) => !existsSync(join(folder, 'index.js')));
  if (missing) throw new UserError(`There is no build in ${missing}.`, '`npm run build` makes one in the folder build; name a copy of that folder to compare it with a later one.');
  print(builds, compare(builds, passes, options.only));
  return 0;
});

/** The times of one build: for each request the fastest third of its rounds ends there, in microseconds. */
async function measure(build, only) {
  const { requests } = await import('./lib/in-process.mjs');
  const all = await requests(build);
  const wanted = only ? only.split(',') : Object.keys(all);
  const unknown = wanted.find((name) => !(name in all));
  if (unknown) throw new UserError(`--only: there is no request ${unknown}. There are: ${Object.keys(all).join(', ')}.`);
  const times = Object.fromEntries(wanted.map((name) => [name, []]));
  for (let round = 0; round < WARM_UP + ROUNDS; round += 1) {
    for (const name of wanted) {
      const began = performance.now();
      for (let i = 0; i < REQUESTS; i += 1) await all[name]();
      if (round >= WARM_UP) times[name].push(((performance.now() - began) * 1000) / REQUESTS);
    }
  }
  return Object.fromEntries(wanted.map((name) => [name, sorted(times[name])[Math.floor(ROUNDS / 3)]]));
}

/** @returns {Record<string, number>[]} for each build the median over its processes */
function compare(builds, passes, only) {
  const figures = builds.map(() => ({}));
  for (let pass = 0; pass < passes; pass += 1) {
    process.stderr.write(`pass ${pass + 1} of ${passes}\n`);
    // Each build comes first, second and so on equally often.
    for (let turn = 0; turn < builds.length; turn += 1) {
      const at = (pass + turn) % builds.length;
      const env = { ...process.env, CPU_BUILD: builds[at], CPU_ONLY: only };
      const printed = execFileSync(process.execPath, ['--no-warnings', SELF], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
      for (const [name, time] of Object.entries(JSON.parse(printed))) (figures[at][name] ??= []).push(time);
    }
  }
  return figures.map((of) => Object.fromEntries(Object.entries(of).map(([name, times]) => [name, sorted(times)[Math.floor(times.length / 2)]])));
}

/** The first build in microseconds, the others as their difference from it. */
function print(builds, figures) {
  const [first] = figures;
  const names = Object.keys(first);
  const rows = figures.map((of, at) => {
    const ratios = names.map((name) => of[name] / first[name]);
    const mean = Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / names.length);
    const percent = (ratio) => `${ratio >= 1 ? '+' : ''}${((ratio - 1) * 100).toFixed(1)} %`;
    const cells = names.map((name, i) => (at === 0 ? `${of[name].toFixed(1)} µs` : percent(ratios[i])));
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
