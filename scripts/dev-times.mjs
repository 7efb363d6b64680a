// `npm run dev-times`: measures `npm run dev` in a new clone: the first start, the second start, and reloads after changes.

import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { signalGroup } from '../packages/cli-kit/src/system-processes.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { main, UserError } from './lib/errors.mjs';
import { startGroup } from './lib/group.mjs';
import { ROOT, TOOLS_DIR } from './lib/paths.mjs';
import { environmentWith, readLines, run } from './lib/run.mjs';

const USAGE = `Usage: npm run dev-times -- [options]

Clones the last commit into a temporary folder, runs \`npm run dev\` there, and prints how long the hub takes to respond:
at the first start, at the second start, after three changes in src, and after three changes in web/src. Fails if a
session is lost meanwhile.

  --cold  use empty caches of cargo and npm, and no installed tools, as on a new computer
  --help  this text`;

const CHANGE_COUNT = 3;
const POLL_MS = 50;
const START_TIMEOUT_MS = 30 * 60_000;
const CHANGE_TIMEOUT_MS = 120_000;

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
  const first = await printTime('first start', () => startHub(clone, env, port));
  const session = await first.createSession().finally(first.stop);
  const hub = await printTime('second start', () => startHub(clone, env, port));
  try {
    for (let i = 1; i <= CHANGE_COUNT; i += 1) await printTime('change in src', () => changeWorker(clone, hub, `ok-${i}`));
    for (let i = 1; i <= CHANGE_COUNT; i += 1) await printTime('change in web/src', () => changeConsole(clone, hub, `mark-${i}`));
    if (!(await hub.listSessions()).includes(session)) throw new UserError('The session created at the first start is lost.');
    console.log('The session created at the first start still exists.');
  } finally {
    await hub.stop();
  }
}

/**
 * @template T
 * @param {string} label
 * @param {() => Promise<T>} step
 */
async function printTime(label, step) {
  const start = performance.now();
  const result = await step();
  console.log(`${label.padEnd(20)} ${((performance.now() - start) / 1000).toFixed(1)} s`);
  return result;
}

/**
 * Starts `npm run dev`, and waits until it prints the sign-in link.
 * @param {string} clone
 * @param {Record<string, string | undefined>} env
 * @param {number} port
 */
async function startHub(clone, env, port) {
  const args = ['run', 'dev', '--', '--port', String(port)];
  /** @type {import('node:child_process').SpawnOptions} */
  const options = { cwd: clone, env: environmentWith({ ...env, NO_COLOR: '1' }), stdio: ['ignore', 'pipe', 'pipe'] };
  const { child, exited, kill, release } = startGroup('npm', args, options);
  exited.then(release);
  const lines = [];
  const link = new Promise((resolve) => {
    const onLine = (line) => {
      lines.push(line);
      if (line.includes('/pair#')) resolve(new URL(line.trim()));
    };
    readLines(child.stdout, onLine);
    readLines(child.stderr, onLine);
  });
  const timeout = sleep(START_TIMEOUT_MS, undefined, { ref: false });
  const signInUrl = await Promise.race([link, exited, timeout]);
  if (!signInUrl) {
    kill();
    throw new UserError(`npm run dev did not start:\n${lines.join('\n')}`);
  }
  // The token is printed before the link.
  const [, token] = /Access token +(\S+)/.exec(lines.join('\n'));
  const headers = { authorization: `Bearer ${token}` };
  const request = async (path, init) => (await fetch(new URL(path, signInUrl), { headers, ...init })).json();
  return {
    url: signInUrl,
    createSession: async () => {
      const body = JSON.stringify({ tag: '/code/demo', metadata: { path: '/code/demo', host: 'laptop' } });
      return (await request('/cli/sessions', { method: 'POST', body })).session.id;
    },
    listSessions: async () => (await request('/api/sessions')).sessions.map(({ id }) => id),
    stop: async () => {
      signalGroup(child.pid, 'SIGINT');
      await exited;
    },
  };
}

/** Changes the status that /health returns, and waits until the hub returns it. */
async function changeWorker(clone, hub, status) {
  replaceInFile(path.join(clone, 'src', 'http', 'edge.rs'), /"status":"ok[^"]*"/, `"status":"${status}"`);
  await waitUntil(async () => (await (await fetch(new URL('/health', hub.url))).text()).includes(`"${status}"`));
}

/** Changes the console's script, and waits until the hub serves the new script. */
async function changeConsole(clone, hub, mark) {
  replaceInFile(
    path.join(clone, 'web', 'src', 'main.tsx'),
    /(?:document\.body\.dataset\.mark = '.*';\n)?$/,
    `document.body.dataset.mark = '${mark}';\n`,
  );
  await waitUntil(async () => {
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
function replaceInFile(file, pattern, text) {
  const before = readFileSync(file, 'utf8');
  const after = before.replace(pattern, () => text);
  if (after === before) throw new UserError(`${file} has no match for ${pattern}. Adapt scripts/dev-times.mjs.`);
  writeFileSync(file, after);
}

/** @param {() => Promise<boolean>} check may reject, because the hub refuses connections while it reloads */
async function waitUntil(check) {
  const deadline = Date.now() + CHANGE_TIMEOUT_MS;
  while (!(await check().catch(() => false))) {
    if (Date.now() > deadline) throw new UserError(`The hub did not serve the change within ${CHANGE_TIMEOUT_MS / 1000} s.`);
    await sleep(POLL_MS);
  }
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {net.AddressInfo} */ (server.address());
  server.close();
  return port;
}
