// `npm run dev-times`: measures `npm run dev` on a fresh clone: the first start, the next one, and a change until it answers.

import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, UserError } from './lib/errors.mjs';
import { startGroup } from './lib/group.mjs';
import { ROOT, TOOLS_DIR } from './lib/paths.mjs';
import { environment, readLines, run } from './lib/run.mjs';

const USAGE = `Usage: npm run dev-times -- [options]

Clones what is committed here into a temporary folder, runs \`npm run dev\` there, and prints the seconds until the hub
answers: the first time, the second time, after a changed line in src (three times), and after one in web/src (three
times). A session that was there before must be there afterwards.

  --cold  with empty caches of cargo and npm, and without the tools of this folder, as on a new machine
  --help  this text`;

const CHANGES = 3;
const LOOK_AGAIN_MS = 50;

/** The longest that a first start may take, in milliseconds. */
const START_MS = 30 * 60_000;

/** The longest that a change may take to answer, in milliseconds. */
const CHANGE_MS = 120_000;

await main(async () => {
  const { cold, help } = parseCommandLine(process.argv.slice(2), USAGE, { cold: { type: 'boolean', default: false } });
  if (help) {
    console.log(USAGE);
    return;
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'hub-dev-times-'));
  try {
    await measure(path.join(folder, 'clone'), cold ? emptyCaches(folder) : { HUB_TOOLS_DIR: TOOLS_DIR });
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 60, retryDelay: 100 });
  }
});

/** @param {string} folder */
function emptyCaches(folder) {
  return {
    CARGO_HOME: path.join(folder, 'cargo'),
    CARGO_TARGET_DIR: undefined,
    HUB_TOOLS_DIR: undefined,
    npm_config_cache: path.join(folder, 'npm'),
  };
}

/**
 * @param {string} clone
 * @param {Record<string, string | undefined>} env
 */
async function measure(clone, env) {
  await run('git', ['clone', '--quiet', ROOT, clone]);
  const port = await freePort();
  const first = await timed('first start', () => startHub(clone, env, port));
  const session = await first.makeSession().finally(first.stop);
  const hub = await timed('next start', () => startHub(clone, env, port));
  try {
    for (let i = 1; i <= CHANGES; i += 1) await timed('change in src', () => changeWorker(clone, hub, `ok-${i}`));
    for (let i = 1; i <= CHANGES; i += 1) await timed('change in web/src', () => changeConsole(clone, hub, `mark-${i}`));
    if (!(await hub.sessions()).includes(session)) throw new UserError('The session that was there before the changes is gone.');
    console.log('The session that was there before is still there.');
  } finally {
    await hub.stop();
  }
}

/**
 * @template T
 * @param {string} what
 * @param {() => Promise<T>} work
 */
async function timed(what, work) {
  const began = performance.now();
  const result = await work();
  console.log(`${what.padEnd(20)} ${((performance.now() - began) / 1000).toFixed(1)} s`);
  return result;
}

/**
 * Starts `npm run dev`, and waits until it prints the link that opens the hub.
 * @param {string} clone
 * @param {Record<string, string | undefined>} env
 * @param {number} port
 */
async function startHub(clone, env, port) {
  const args = ['run', 'dev', '--', '--port', String(port)];
  const options = { cwd: clone, env: environment({ ...env, NO_COLOR: '1' }), stdio: ['ignore', 'pipe', 'pipe'] };
  const { child, exited, kill, release } = startGroup('npm', args, options);
  exited.then(release);
  const lines = [];
  const link = new Promise((resolve) => {
    const onLine = (line) => {
      lines.push(line);
      if (line.includes('#token=')) resolve(new URL(line.trim()));
    };
    readLines(child.stdout, onLine);
    readLines(child.stderr, onLine);
  });
  const late = sleep(START_MS, undefined, { ref: false });
  const found = await Promise.race([link, exited, late]);
  if (!found) {
    kill();
    throw new UserError(`npm run dev did not start:\n${lines.join('\n')}`);
  }
  const headers = { authorization: `Bearer ${found.hash.replace('#token=', '')}` };
  const ask = async (path, init) => (await fetch(new URL(path, found), { headers, ...init })).json();
  return {
    url: found,
    makeSession: async () => {
      const body = JSON.stringify({ tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop' } });
      return (await ask('/cli/sessions', { method: 'POST', body })).session.id;
    },
    sessions: async () => (await ask('/api/sessions')).sessions.map(({ id }) => id),
    stop: async () => {
      process.kill(-child.pid, 'SIGINT');
      await exited;
    },
  };
}

/** Changes what /health says, and waits until the hub says it. */
async function changeWorker(clone, hub, status) {
  replace(path.join(clone, 'src', 'http', 'edge.rs'), /"status":"ok[^"]*"/, `"status":"${status}"`);
  await until(async () => (await (await fetch(new URL('/health', hub.url))).text()).includes(`"${status}"`));
}

/** Changes a script of the console, and waits until the hub serves it. */
async function changeConsole(clone, hub, mark) {
  replace(path.join(clone, 'web', 'src', 'main.tsx'), /(?:document\.body\.dataset\.mark = '.*';\n)?$/, `document.body.dataset.mark = '${mark}';\n`);
  await until(async () => {
    const page = await (await fetch(hub.url, { headers: { accept: 'text/html', 'sec-fetch-mode': 'navigate' } })).text();
    const [script] = page.match(/\/assets\/index-[^"]+\.js/) ?? [];
    return script !== undefined && (await (await fetch(new URL(script, hub.url))).text()).includes(mark);
  });
}

/**
 * @param {string} file
 * @param {RegExp} pattern
 * @param {string} text
 */
function replace(file, pattern, text) {
  const before = readFileSync(file, 'utf8');
  const after = before.replace(pattern, () => text);
  if (after === before) throw new UserError(`${file} has nothing that matches ${pattern}.`);
  writeFileSync(file, after);
}

/** @param {() => Promise<boolean>} isSo asked again until it is; the hub refuses connections while it reloads */
async function until(isSo) {
  const deadline = Date.now() + CHANGE_MS;
  while (!(await isSo().catch(() => false))) {
    if (Date.now() > deadline) throw new UserError('The change did not arrive.');
    await sleep(LOOK_AGAIN_MS);
  }
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}
