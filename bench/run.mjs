/**
 * `npm run bench`: measures the hub on the built wasm in the real runtime, with the runtime's own floor of the same run
 * beside each figure. Never fails by time: the exit code is 1 only when something is wrong (lost messages, errors).
 */

import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';

import { runScenario } from './lib/host.mjs';
import { hubWorker } from './lib/hub.mjs';
import { rerunUnderNewerNode } from './lib/node.mjs';
import { readOptions, USAGE } from './lib/options.mjs';
import { ROOT, version } from './lib/packages.mjs';
import { judge, table } from './lib/report.mjs';
import { scenario } from './lib/scenarios.mjs';

/** Progress goes to standard error: standard output is the result alone. */
function say(text) {
  process.stderr.write(`${text}\n`);
}

function machine() {
  const processors = cpus();
  return { processors: processors.length, model: processors[0]?.model ?? 'unknown', platform: `${process.platform} ${process.arch}` };
}

function versions() {
  return {
    node: process.versions.node,
    miniflare: version('miniflare'),
    workerd: version('workerd'),
    socketIoClient: version('socket.io-client'),
  };
}

/** Runs one scenario; what it reports becomes rows in the order in which they are declared. */
async function measure(name, options) {
  const found = await scenario(name);
  const figures = new Map();
  const notes = [];
  const problems = [];
  const problem = (text, stack) => {
    problems.push(`${name}: ${text}`);
    say(`  problem: ${stack ?? text}`);
  };
  const began = performance.now();
  say(`${name} ...`);
  try {
    await runScenario(found, options, {
      report: (id, figure) => figures.set(id, figure),
      note: (text) => notes.push(`${name}: ${text}`),
      problem,
    });
  } catch (error) {
    problem(error.message, error.stack);
  }
  say(`${name} took ${((performance.now() - began) / 1000).toFixed(1)} s`);
  const rows = found.rows.filter(({ id }) => figures.has(id)).map((row) => judge(row, figures.get(row.id)));
  return { rows, notes, problems };
}

function write(result, out) {
  const date = result.date.replaceAll(':', '-').slice(0, 19);
  const path = out ?? join(ROOT, 'bench', 'results', `${date}.json`);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(result, null, 2)}\n`);
  return path;
}

function print(result) {
  const { machine: host, versions: used, notes, problems } = result;
  console.log(`${host.processors} x ${host.model}, Node ${used.node}, miniflare ${used.miniflare}, workerd ${used.workerd}\n`);
  console.log(table(result.rows));
  if (notes.length > 0) console.log(`\n${notes.map((note) => `- ${note}`).join('\n')}`);
  if (problems.length > 0) console.log(`\nWrong:\n${problems.map((text) => `- ${text}`).join('\n')}`);
}

async function main() {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const rerun = await rerunUnderNewerNode();
  if (rerun !== null) return rerun;
  // Leaving through `exit` lets every part stop what it started.
  process.once('SIGINT', () => process.exit(130));
  process.once('SIGTERM', () => process.exit(143));
  // Said at once, not after the first runtime has started.
  if (options.kinds.includes('hub')) hubWorker(options.build);
  const { names, quick, way, build } = options;
  const result = {
    date: new Date().toISOString(),
    machine: machine(),
    versions: versions(),
    options: { names, quick, way, floorOnly: options.floor },
    rows: [],
    notes: [],
    problems: [],
  };
  for (const name of names) {
    const { rows, notes, problems } = await measure(name, { kinds: options.kinds, build, quick, way });
    result.rows.push(...rows);
    result.notes.push(...notes);
    result.problems.push(...problems);
  }
  if (options.json) console.log(JSON.stringify(result, null, 2));
  else print(result);
  say(`\nwritten to ${write(result, options.out)}`);
  return result.problems.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  say(`bench: ${[error.message, error.hint].filter(Boolean).join('\n')}`);
  process.exitCode = 1;
}
