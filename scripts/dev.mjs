// `npm run dev`: sets everything up, builds, and runs the hub on this machine until Ctrl-C.

import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { build, describe } from './build.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { buildConsole, describeConsole, signInLink } from './lib/console.mjs';
import { accessToken, devVars, namespaceToken } from './lib/dev-vars.mjs';
import { main, UserError } from './lib/errors.mjs';
import { startGroup } from './lib/group.mjs';
import { tryLock } from './lib/lock.mjs';
import { DEV_BUILD_DIR, inProject, ROOT } from './lib/paths.mjs';
import { bold, dim, step } from './lib/progress.mjs';
import { HubRefuses, servesAgain, waitUntilReady } from './lib/ready.mjs';
import { environment, readLines, together } from './lib/run.mjs';
import { needDevVars, needNode, needPackages } from './lib/setup.mjs';
import { isRunning, isStopping, npmProcess, onStop } from './lib/signals.mjs';
import { forgetMigrations, migrateLocalDatabase, OFFLINE, wranglerCommand } from './lib/wrangler.mjs';

const DEFAULT_PORT = 8787;

const USAGE = `Usage: npm run dev -- [options]

  --port N         port to listen on (default ${DEFAULT_PORT})
  --host [ADDRESS] address to listen on (default 127.0.0.1; without ADDRESS every interface of this machine)
  --verbose        show everything that wrangler says, each request included
  --help           this text`;

/** How long the runtime may take to answer its first request. */
const START_TIMEOUT_MS = 120_000;

/** How long the runtime may take to write its state and end. */
const STOP_TIMEOUT_MS = 5_000;

/** How long a runtime that crashed and was restarted may take until it answers, in milliseconds. */
const RECOVERY_MS = 10_000;

/** How long to wait for the previous hub on this folder to end, in milliseconds: it ends by itself within 6 s. */
const PREVIOUS_HUB_MS = 15_000;

const LOOK_AGAIN_MS = 50;

/** Held while a hub runs on this folder: two would write the same local database. */
const LOCK = inProject('.wrangler', 'dev.lock');

await main(async () => {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const lock = await lockFolder(ownAddress(options));
  await requireFreePort(options);
  console.log(bold('Session gateway hub'));
  await needDevVars();
  const secret = accessToken();
  const [worker, webConsole] = await together(() => build({ optimize: false }), buildConsole, migrateLocalDatabase, needPackages, needNode);
  console.log(describe(worker));
  console.log(describeConsole(webConsole));

  let hub;
  onStop(async () => {
    console.log(dim('\nStopping the hub …'));
    try {
      lock.stopping();
    } finally {
      await hub?.stop();
    }
    console.log(dim('The hub has stopped.'));
    return 0;
  });
  for (let starts = 1, hangs = true; hangs; starts += 1) {
    hub = startWrangler(options);
    // If this script is killed, the lock is held until wrangler has exited.
    lock.addProcesses(hub.pids);
    try {
      // With REQUIRE_NAMESPACE_TOKENS only the second one opens the hub.
      const token = await step('hub', () => hub.ready([secret, namespaceToken(secret, 'default')]));
      if (starts === 1) announce(hub.address, token, token !== secret);
    } catch (error) {
      if (isStopping()) throw error;
      await hub.stop();
      // It may miss a schema that it once had.
      if (error instanceof HubRefuses) forgetMigrations();
      throw error;
    }
    hangs = await Promise.race([hub.exited.then(() => false), hub.hangs.then(() => true)]);
    if (hangs) console.log('The hub does not answer since its runtime crashed. It is started again …');
    await hub.stop();
  }
  throw new UserError('wrangler ended by itself; what it said is above.', 'Start the hub again with: npm run dev');
});

/** @param {string[]} args */
function readOptions(args) {
  // `--host` may stand without an address.
  const whole = args.map((arg, i) => (arg === '--host' && (args[i + 1] ?? '-').startsWith('-') ? '--host=0.0.0.0' : arg));
  const { port, ...options } = parseCommandLine(whole, USAGE, {
    port: { type: 'string', default: String(DEFAULT_PORT) },
    host: { type: 'string', default: '127.0.0.1' },
    verbose: { type: 'boolean', default: false },
  });
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65535) {
    throw new UserError(`--port needs a number from 1 to 65535, not ${port || 'nothing'}.`, USAGE);
  }
  return { ...options, port: Number(port) };
}

/**
 * Takes this folder for a hub. Waits for one that is ending.
 * @param {string} address told to whoever starts a second one
 */
async function lockFolder(address) {
  const npm = npmProcess();
  const described = npm === undefined ? { address } : { address, npm: String(npm) };
  const deadline = Date.now() + PREVIOUS_HUB_MS;
  let found = await tryLock(LOCK, described);
  if (isEnding(found)) console.log('  The last hub on this folder has not ended yet. This one starts after it …');
  while (isEnding(found) && Date.now() < deadline) {
    await sleep(LOOK_AGAIN_MS);
    found = await tryLock(LOCK, described);
  }
  const { lock, pid, details } = found;
  if (lock) return { ...lock, stopping: () => lock.describe({ ...described, stopping: 'yes' }) };
  throw new UserError(
    `A hub is already running on this folder: ${details.address} (process ${pid}).`,
    [
      `Use that one, or stop it first: Ctrl-C in its terminal, or end process ${pid}.`,
      'Two hubs would write the same local database; for a second one, clone the project again.',
      `(Should process ${pid} be something else, delete ${path.relative(process.cwd(), LOCK)}.)`,
    ].join('\n'),
  );
}

/** Whether the holder of the folder was killed or is stopping. */
function isEnding({ lock, ownerIsGone, details }) {
  if (lock) return false;
  return ownerIsGone || details.stopping !== undefined || (details.npm !== undefined && !isRunning(Number(details.npm)));
}

/** The address under which this machine itself reaches the hub. */
function ownAddress({ host, port }) {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/** @param {{host: string, port: number}} options */
async function requireFreePort(options) {
  const { host, port } = options;
  const server = net.createServer();
  const outcome = await new Promise((resolve) => {
    server.once('error', (error) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => resolve('free'));
  });
  server.close();
  if (outcome === 'free') return;
  if (outcome === 'EADDRINUSE') {
    const hub = await fetch(`${ownAddress(options)}/health`, { signal: AbortSignal.timeout(2000) })
      .then((answer) => answer.json())
      .then((body) => body.protocolVersion !== undefined)
      .catch(() => false);
    const user = hub ? 'a hub, such as that of another folder' : 'another program';
    const other = `npm run dev -- --port ${port === 65535 ? 1024 : port + 1}`;
    throw new UserError(`Port ${port} is in use by ${user}.`, `Stop it, or choose another port: ${other}`);
  }
  const reasons = { EACCES: 'this user may not listen there', EADDRNOTAVAIL: 'this machine has no such address' };
  throw new UserError(`The hub cannot listen on ${host}, port ${port}: ${reasons[outcome] ?? outcome}.`);
}

/** @param {{host: string, port: number, verbose: boolean}} options */
function startWrangler({ host, port, verbose }) {
  const [command, args] = wranglerCommand([
    'dev',
    path.join(DEV_BUILD_DIR, 'index.js'),
    '--local',
    '--ip', host,
    '--port', String(port),
    '--inspector-port', '0',
    '--show-interactive-dev-session=false',
  ]);
  const { child, exited, pids, kill } = startGroup(command, args, {
    cwd: ROOT,
    env: environment({ ...OFFLINE, HUB_BUILD: 'dev', ...(process.stdout.isTTY ? {} : { NO_COLOR: '1' }) }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const address = ownAddress({ host, port });
  let reportHang;
  const hangs = new Promise((resolve) => {
    reportHang = resolve;
  });
  // wrangler restarts a runtime that crashed, but not every one of them answers again.
  const onCrash = async () => {
    if (!(await servesAgain(address, RECOVERY_MS))) reportHang();
  };
  const held = showOutput(child, verbose, onCrash);
  const check = () => {
    if (child.exitCode === null && child.signalCode === null) return;
    throw new UserError('wrangler ended before the hub was ready; what it said is above.');
  };
  const fileOf = (variable) => (variable in devVars() ? '.dev.vars' : 'wrangler.toml');
  return {
    address,
    exited,
    hangs,
    pids,
    ready: async (tokens) => {
      try {
        return await waitUntilReady(address, { tokens, timeoutMs: START_TIMEOUT_MS, check, fileOf });
      } catch (error) {
        // What the hub itself says needs no explanation by wrangler.
        if (!isStopping() && !(error instanceof HubRefuses)) console.error(held.join('\n'));
        throw error;
      }
    },
    stop: async () => {
      child.kill('SIGINT');
      await Promise.race([exited, sleep(STOP_TIMEOUT_MS, undefined, { ref: false })]);
      kill();
    },
  };
}

/**
 * Shows what the worker logs and what goes wrong, and keeps wrangler's own remarks back.
 * @param {import('node:child_process').ChildProcess} child
 * @param {boolean} verbose
 * @param {() => void} onCrash called when wrangler reports that a runtime crashed
 * @returns {string[]} what was kept back until the server was ready, for the case that it never is
 */
function showOutput(child, verbose, onCrash) {
  const held = [];
  let started = verbose;
  const look = (text) => text.includes('runtime crashed unexpectedly') && onCrash();
  readLines(child.stdout, (line) => {
    const text = stripVTControlCharacters(line);
    look(text);
    if (started) {
      if (verbose || !isChatter(text)) console.log(line);
      return;
    }
    held.push(line);
    started = /^\[wrangler:\w+\] Ready on /.test(text);
  });
  readLines(child.stderr, (line) => {
    const text = stripVTControlCharacters(line);
    look(text);
    if (verbose || (text.trim() !== '' && !text.includes('Logs were written to'))) {
      console.error(process.stderr.isTTY ? line : text);
    }
  });
  return held;
}

/** Lines of wrangler that say only that all is well. @param {string} text */
function isChatter(text) {
  return (
    text.trim() === '' ||
    /^\[wrangler:info\] |^\[custom build\] (Running:|\s*$)|^(⎔|╭|│|╰) ?|^Using secrets |^Your Worker has access |^Binding  |^env\./.test(text)
  );
}

/**
 * @param {string} address
 * @param {string} token that opens the hub
 * @param {boolean} ofNamespace whether it is the token of one namespace, because the shared one opens nothing
 */
function announce(address, token, ofNamespace) {
  const more = ofNamespace ? 'of the namespace default; for another: npm run token -- NAMESPACE' : 'from .dev.vars';
  const options = [
    ...(address === `http://127.0.0.1:${DEFAULT_PORT}` ? [] : [` --hub ${address}`]),
    // The agent would take the shared one out of .dev.vars.
    ...(ofNamespace ? [` --token ${token}`] : []),
  ].join('');
  console.log(`
  ${bold('The hub is running.')} Ctrl-C stops it; what it stored stays in .wrangler/state.

  Address        ${address}
  Access token   ${token}   ${dim(`(${more})`)}

  Open the console, signed in (the link holds the token: keep it to yourself):
    ${signInLink(address, token)}

  Connect a CLI, in a second terminal:
    npm run agent -- --dir .${options}

  Look around without it:
    curl -H 'Authorization: Bearer ${token}' ${address}/api/sessions
`);
}
