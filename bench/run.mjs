/**
 * `npm run bench`: measures the built hub in the real runtime, and the floor: plain JavaScript that does the same work. The exit code is 1
 * after a problem, such as a lost message or an error. The exit code does not depend on the figures.
 */

import { cpus } from 'node:os';

import { withTimeout } from '../scripts/lib/await.mjs';
import { UsageError } from '../scripts/lib/errors.mjs';
import * as comparison from './lib/comparison.mjs';
import { hubWorker } from './lib/hub.mjs';
import { readOptions } from './lib/options.mjs';
import { versionOf } from './lib/packages.mjs';
import * as report from './lib/report.mjs';
import { startFresh } from './lib/runtime.mjs';
import { loadScenario } from './lib/scenarios.mjs';
import { makeServer } from './lib/servers.mjs';

/** Time limit of a scenario: several times longer than any scenario takes. */
const TIMEOUT_MS = 600_000;

/** Prints progress to standard error, because standard output has only the result. */
function log(text) {
  process.stderr.write(`${text}\n`);
}

function describeMachine() {
  const processors = cpus();
  const packages = ['miniflare', 'workerd', 'socket.io-client'].map((name) => `${name} ${versionOf(name)}`);
  return [`${processors.length} x ${processors[0]?.model ?? 'unknown'}`, `Node ${process.versions.node}`, ...packages].join(', ');
}

/** Runs a scenario once, against new runtimes of the floor and of the builds, with empty databases and caches. */
async function runOnce({ run, startsRuntimes = false }, { workers, quick, schedule }, listeners) {
  const started = [];
  const servers = [];
  try {
    for (const { name, kind, build } of startsRuntimes ? [] : workers) {
      const { url, pid, stop } = await startFresh(kind, build);
      started.push(stop);
      servers.push(makeServer({ name, kind, url, pid }));
      await servers.at(-1).signIn('bench');
    }
    await withTimeout(run({ workers, servers, quick, schedule, ...listeners }), 'the end of the scenario', TIMEOUT_MS);
  } finally {
    for (const stop of started) await stop();
  }
}

/** Runs one scenario. Returns the cells of its rows in the order of their declaration, its own tables, and its problems. */
async function measure(name, options) {
  const scenario = await loadScenario(name);
  const passes = new Map(scenario.rows.map(({ id }) => [id, []]));
  const tables = [];
  const problems = [];
  const reportProblem = (text, stack) => {
    problems.push(`${name}: ${text}`);
    log(`  problem: ${stack ?? text}`);
  };
  const start = performance.now();
  log(`${name} ...`);
  try {
    for (let pass = 0; pass < options.schedule.passes; pass += 1) {
      // Each build is started first equally often.
      const workers = pass % 2 === 0 ? options.workers : options.workers.toReversed();
      await runOnce(
        scenario,
        { ...options, workers },
        {
          report: (id, figures) => passes.get(id).push(figures),
          addTable: (title, table) => tables.push({ title, ...table }),
          reportProblem,
        },
      );
    }
  } catch (error) {
    reportProblem(error.message, error.stack);
  }
  log(`${name} took ${((performance.now() - start) / 1000).toFixed(1)} s`);
  const measured = scenario.rows.filter(({ id }) => passes.get(id).length > 0);
  const rows = measured.map((row) =>
    options.compared ? comparison.cellsOf(row, comparison.joinPasses(passes.get(row.id))) : report.cellsOf(row, passes.get(row.id)[0]),
  );
  return { rows, tables, problems };
}

async function main() {
  const options = readOptions(process.argv.slice(2));
  // Every module ends its processes and removes its files in an `exit` listener.
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  // Fails if the hub is not built, before a runtime is started.
  for (const { kind, build } of options.workers) if (kind === 'hub') hubWorker(build);
  const { names, compared } = options;
  const measured = [];
  for (const name of names) measured.push(await measure(name, options));
  const join = (key) => measured.flatMap((part) => part[key]);
  const problems = join('problems');
  console.log(`${describeMachine()}\n`);
  if (compared) console.log(`A: ${compared[0]}\nB: ${compared[1]}\n`);
  console.log(report.formatTable({ headings: (compared ? comparison : report).HEADINGS, lines: join('rows') }));
  for (const table of join('tables')) console.log(`\n${table.title}:\n\n${report.formatTable(table)}`);
  if (problems.length > 0) console.log(`\nProblems:\n${problems.map((text) => `- ${text}`).join('\n')}`);
  return problems.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  log(`bench: ${[error.message, error.hint].filter(Boolean).join('\n')}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
