/**
 * `npm run bench`: measures the built hub in the real runtime, and the floor: plain JavaScript that does the same work. The exit code is 1
 * after a problem, such as a lost message or an error. The exit code does not depend on the figures.
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';

import { UsageError } from '../scripts/lib/errors.mjs';
import { formatComparisons, joinPasses, makeComparison } from './lib/comparison.mjs';
import { runScenario } from './lib/host.mjs';
import { hubWorker } from './lib/hub.mjs';
import { rerunUnderNewerNode } from './lib/node.mjs';
import { readOptions } from './lib/options.mjs';
import { ROOT, versionOf } from './lib/packages.mjs';
import { formatRows, formatTable, makeRow } from './lib/report.mjs';
import { loadScenario } from './lib/scenarios.mjs';

/** Prints progress to standard error, because standard output has only the result. */
function log(text) {
  process.stderr.write(`${text}\n`);
}

function describeMachine() {
  const processors = cpus();
  return { processors: processors.length, model: processors[0]?.model ?? 'unknown', platform: `${process.platform} ${process.arch}` };
}

function readVersions() {
  return {
    node: process.versions.node,
    miniflare: versionOf('miniflare'),
    workerd: versionOf('workerd'),
    socketIoClient: versionOf('socket.io-client'),
  };
}

/** Runs one scenario. Returns its rows in the order of their declaration, its own tables, its notes and its problems. */
async function measure(name, options) {
  const scenario = await loadScenario(name);
  const passes = new Map(scenario.rows.map(({ id }) => [id, []]));
  const notes = [];
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
      await runScenario(
        scenario,
        { ...options, workers },
        {
          report: (id, figures) => passes.get(id).push(figures),
          addNote: (text) => notes.push(`${name}: ${text}`),
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
    options.compared ? makeComparison(row, joinPasses(passes.get(row.id))) : makeRow(row, passes.get(row.id)[0]),
  );
  return { rows, tables, notes, problems };
}

function writeResult(result, out) {
  const date = result.date.replaceAll(':', '-').slice(0, 19);
  const path = out ?? join(ROOT, 'bench', 'results', `${date}.json`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(result, null, 2)}\n`);
  return path;
}

function print(result) {
  const { machine, versions, tables, notes, problems } = result;
  console.log(
    `${machine.processors} x ${machine.model}, Node ${versions.node}, miniflare ${versions.miniflare}, workerd ${versions.workerd}\n`,
  );
  const { compared } = result.options;
  if (compared) console.log(`A: ${compared[0]}\nB: ${compared[1]}\n`);
  console.log(compared ? formatComparisons(result.rows) : formatRows(result.rows));
  for (const table of tables) console.log(`\n${table.title}:\n\n${formatTable(table)}`);
  if (notes.length > 0) console.log(`\n${notes.map((note) => `- ${note}`).join('\n')}`);
  if (problems.length > 0) console.log(`\nProblems:\n${problems.map((text) => `- ${text}`).join('\n')}`);
}

async function main() {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(options.usage);
    return 0;
  }
  const rerun = await rerunUnderNewerNode();
  if (rerun !== null) return rerun;
  // Every module ends its processes and removes its files in an `exit` listener.
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  // Fails if the hub is not built, before a runtime is started.
  for (const { kind, build } of options.workers) if (kind === 'hub') hubWorker(build);
  const { names, quick, way, compared } = options;
  const result = {
    date: new Date().toISOString(),
    machine: describeMachine(),
    versions: readVersions(),
    options: { names, quick, way, floorOnly: options.floor, compared },
    rows: [],
    tables: [],
    notes: [],
    problems: [],
  };
  for (const name of names) {
    const { rows, tables, notes, problems } = await measure(name, options);
    result.rows.push(...rows);
    result.tables.push(...tables);
    result.notes.push(...notes);
    result.problems.push(...problems);
  }
  if (options.json) console.log(JSON.stringify(result, null, 2));
  else print(result);
  log(`\nWrote ${writeResult(result, options.out)}`);
  return result.problems.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  log(`bench: ${[error.message, error.hint].filter(Boolean).join('\n')}`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}
