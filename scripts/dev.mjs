// `npm run dev`: installs missing tools, builds, and runs the hub on this computer until Ctrl-C.

import net from 'node:net';
import { networkInterfaces } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { tryLock } from '../packages/cli-kit/src/lock.mjs';
import { isRunning } from '../packages/cli-kit/src/system-processes.mjs';
import { build, describeBuild } from './lib/build.mjs';
import { parseCommandLine } from './lib/command-line.mjs';
import { buildConsole, describeConsole, signInLink } from './lib/console.mjs';
import { accessToken, devVars, namespaceToken } from './lib/dev-vars.mjs';
import { main, UsageError, UserError } from './lib/errors.mjs';
import { startGroup } from './lib/group.mjs';
import { DEV_BUILD_DIR, inProject, ROOT } from './lib/paths.mjs';
import { bold, dim, runStep } from './lib/progress.mjs';
import { HubRefusedError, respondsWithin, waitUntilReady } from './lib/ready.mjs';
import { environmentWith, readLines, runParallel } from './lib/run.mjs';
import { ensureDevVars, ensureNode, ensurePackages } from './lib/setup.mjs';
import { isStopping, npmProcess, onStop } from './lib/signals.mjs';
import { clearMigrationRecord, deleteLocalTraces, LOCAL_COMMAND_ENV, migrateLocalDatabase, wranglerCommand } from './lib/wrangler.mjs';

const DEFAULT_PORT = 8787;

const USAGE = `Usage: npm run dev -- [options]

  --port N         port to listen on (default ${DEFAULT_PORT})
  --host [ADDRESS] address to listen on (default 127.0.0.1; without ADDRESS all interfaces)
  --verbose        show all output of wrangler, including each request
  --help           this text`;

/** Time limit until the runtime answers its first request. */
const START_TIMEOUT_MS = 120_000;

/** Time between SIGINT and SIGKILL. The runtime writes its state in this time. */
const STOP_TIMEOUT_MS = 5_000;

/** Time limit until a runtime that wrangler restarted after a crash answers. */
const RECOVERY_TIMEOUT_MS = 10_000;

/** Time limit until the previous hub in this folder has stopped, which takes at most 6 s. */
const PREVIOUS_HUB_TIMEOUT_MS = 15_000;

const POLL_MS = 50;

/** Held while a hub runs in this folder, because two hubs would write the same local database. */
const LOCK = inProject('.wrangler', 'dev.lock');

await main(async () => {
  const options = readOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const lock = await lockFolder(localAddress(options));
  await requireFreePort(options);
  console.log(bold('Session gateway hub'));
  deleteLocalTraces();
  await ensureDevVars();
  const secret = accessToken();
  const [worker, webConsole] = await runParallel(
    () => build({ optimize: false }),
    buildConsole,
    migrateLocalDatabase,
    ensurePackages,
    ensureNode,
  );
  console.log(describeBuild(worker));
  console.log(describeConsole(webConsole));

  let hub;
  onStop(async () => {
    console.log(dim('\nStopping the hub …'));
    try {
      lock.markStopping();
    } finally {
      await hub?.stop();
    }
    console.log(dim('The hub has stopped.'));
    return 0;
  });
  for (let starts = 1, hasHung = true; hasHung; starts += 1) {
    hub = startWrangler(options);
    // If this script is killed, the lock is held until wrangler has exited.
    lock.addProcesses(hub.pids);
    try {
      // With REQUIRE_NAMESPACE_TOKENS, the hub accepts only a token of a namespace.
      const token = await runStep('hub', () => hub.ready([secret, namespaceToken(secret, 'default')]));
      if (starts === 1) announce(options, token, token !== secret);
    } catch (error) {
      if (isStopping()) throw error;
      await hub.stop();
      // The user may have replaced the database by one without a schema, so the next start checks the schema.
      if (error instanceof HubRefusedError) clearMigrationRecord();
      throw error;
    }
    hasHung = await Promise.race([hub.exited.then(() => false), hub.hung.then(() => true)]);
    if (hasHung) console.log('The hub has not responded since its runtime crashed. Restarting it …');
    await hub.stop();
  }
  throw new UserError('wrangler exited unexpectedly; see its output above.', 'Start the hub again with: npm run dev');
});

/** @param {string[]} args */
function readOptions(args) {
  // parseArgs has no options with an optional value.
  const expanded = args.map((arg, i) => (arg === '--host' && (args[i + 1] ?? '-').startsWith('-') ? '--host=0.0.0.0' : arg));
  const { port, ...options } = parseCommandLine(expanded, USAGE, {
    port: { type: 'string', default: String(DEFAULT_PORT) },
    host: { type: 'string', default: '127.0.0.1' },
    verbose: { type: 'boolean', default: false },
  });
  if (!/^\d{1,5}$/.test(port) || Number(port) < 1 || Number(port) > 65535) {
    throw new UsageError(`--port must be a number from 1 to 65535, not ${port || 'empty'}.`, USAGE);
  }
  return { ...options, port: Number(port) };
}

/**
 * Locks this folder. Waits for a previous hub that is stopping.
 * @param {string} address shown when a second hub is started
 */
async function lockFolder(address) {
  const npm = npmProcess();
  const ownDetails = npm === undefined ? { address } : { address, npm: String(npm) };
  const deadline = Date.now() + PREVIOUS_HUB_TIMEOUT_MS;
  let found = tryLock(LOCK, ownDetails);
  if (isEnding(found)) console.log('  Waiting until the previous hub in this folder has stopped …');
  while (isEnding(found) && Date.now() < deadline) {
    await sleep(POLL_MS);
    found = tryLock(LOCK, ownDetails);
  }
  const { lock, pid, details } = found;
  if (lock) return { ...lock, markStopping: () => lock.setDetails({ ...ownDetails, stopping: 'yes' }) };
  throw new UserError(
    `A hub is already running in this folder: ${details.address} (process ${pid}).`,
    [
      `Use it, or stop it with Ctrl-C in its terminal or by ending process ${pid}.`,
      'To run a second hub, clone the project again: two hubs cannot share a local database.',
      `(If process ${pid} is no hub, delete ${path.relative(process.cwd(), LOCK)}.)`,
    ].join('\n'),
  );
}

/**
 * Whether the hub that holds the lock was killed or is stopping.
 * @param {ReturnType<typeof tryLock>} found
 */
function isEnding({ lock, ownerHasExited, details }) {
  if (lock) return false;
  return ownerHasExited || details.stopping !== undefined || (details.npm !== undefined && !isRunning(Number(details.npm)));
}

/** Returns the address at which programs on this computer reach the hub. */
function localAddress({ host, port }) {
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/** @param {{host: string, port: number}} options */
async function requireFreePort(options) {
  const { host, port } = options;
  const server = net.createServer();
  const outcome = await new Promise((resolve) => {
    server.once('error', (/** @type {NodeJS.ErrnoException} */ error) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => resolve('free'));
  });
  server.close();
  if (outcome === 'free') return;
  if (outcome === 'EADDRINUSE') {
    const hub = await fetch(`${localAddress(options)}/health`, { signal: AbortSignal.timeout(2000) })
      .then((answer) => answer.json())
      .then((body) => body.protocolVersion !== undefined)
      .catch(() => false);
    const user = hub ? 'a hub, such as one in another folder' : 'another program';
    const other = `npm run dev -- --port ${port === 65535 ? 1024 : port + 1}`;
    throw new UserError(`Port ${port} is in use by ${user}.`, `Stop it, or choose another port: ${other}`);
  }
  const reasons = {
    EACCES: 'this user may not listen on that port; choose another --port',
    EADDRNOTAVAIL: 'this computer does not have that address; choose another --host',
  };
  throw new UserError(`The hub cannot listen on ${host}, port ${port}: ${reasons[outcome] ?? outcome}.`);
}

/** @param {{host: string, port: number, verbose: boolean}} options */
function startWrangler({ host, port, verbose }) {
  const [command, args] = wranglerCommand([
    'dev',
    path.join(DEV_BUILD_DIR, 'index.js'),
    '--local',
    '--env=',
    '--ip',
    host,
    '--port',
    String(port),
    '--inspector-port',
    '0',
    '--show-interactive-dev-session=false',
  ]);
  const { child, exited, pids, kill } = startGroup(command, args, {
    cwd: ROOT,
    env: environmentWith({ ...LOCAL_COMMAND_ENV, HUB_BUILD: 'dev', ...(process.stdout.isTTY ? {} : { NO_COLOR: '1' }) }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const address = localAddress({ host, port });
  let reportHung;
  const hung = new Promise((resolve) => {
    reportHung = resolve;
  });
  // wrangler restarts a crashed runtime, but sometimes the new one does not answer.
  const onCrash = async () => {
    if (!(await respondsWithin(address, RECOVERY_TIMEOUT_MS))) reportHung();
  };
  const startOutput = showOutput(child, verbose, onCrash);
  const check = () => {
    if (child.exitCode === null && child.signalCode === null) return;
    throw new UserError('wrangler exited before the hub was ready; see its output above.');
  };
  const fileOf = (variable) => (variable in devVars() ? '.dev.vars' : 'wrangler.toml');
  return {
    address,
    exited,
    hung,
    pids,
    ready: async (tokens) => {
      try {
        return await waitUntilReady(address, { tokens, timeoutMs: START_TIMEOUT_MS, check, fileOf });
      } catch (error) {
        // An error of the hub itself is complete without wrangler's output.
        if (!isStopping() && !(error instanceof HubRefusedError)) console.error(startOutput.join('\n'));
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
 * Prints the logs of the worker and errors, but not wrangler's routine output.
 * @param {import('node:child_process').ChildProcess} child
 * @param {boolean} verbose
 * @param {() => void} onCrash called when wrangler reports that the runtime crashed
 * @returns {string[]} the output until the server was ready, to be printed if the start fails
 */
function showOutput(child, verbose, onCrash) {
  const startOutput = [];
  let isReady = verbose;
  const detectCrash = (text) => text.includes('runtime crashed unexpectedly') && onCrash();
  readLines(child.stdout, (line) => {
    const text = stripVTControlCharacters(line);
    detectCrash(text);
    if (isReady) {
      if (verbose || !isRoutine(text)) console.log(line);
      return;
    }
    startOutput.push(line);
    isReady = /^\[wrangler:\w+\] Ready on /.test(text);
  });
  readLines(child.stderr, (line) => {
    const text = stripVTControlCharacters(line);
    detectCrash(text);
    if (verbose || (text.trim() !== '' && !text.includes('Logs were written to'))) {
      console.error(process.stderr.isTTY ? line : text);
    }
  });
  return startOutput;
}

/** Whether a line of wrangler is neither a worker's log nor an error. @param {string} text */
function isRoutine(text) {
  return (
    text.trim() === '' ||
    /^\[wrangler:info\] |^\[custom build\] (Running:|\s*$)|^(⎔|╭|│|╰) ?|^Using secrets |^Your Worker has access |^Binding {2}|^env\./.test(
      text,
    )
  );
}

/** Returns the IPv4 addresses at which other devices reach a hub on all interfaces. @param {{host: string, port: number}} options */
function networkAddresses({ host, port }) {
  if (host !== '0.0.0.0' && host !== '::') return [];
  const interfaces = Object.values(networkInterfaces()).flat();
  return interfaces.filter(({ family, internal }) => family === 'IPv4' && !internal).map((entry) => `http://${entry.address}:${port}`);
}

/**
 * @param {{host: string, port: number}} listening
 * @param {string} token that the hub accepts
 * @param {boolean} isNamespaceToken whether the token is for one namespace, because the hub refuses the shared token
 */
function announce(listening, token, isNamespaceToken) {
  const address = localAddress(listening);
  const network = networkAddresses(listening);
  const origin = isNamespaceToken ? 'of the namespace default; for another: npm run token -- NAMESPACE' : 'from .dev.vars';
  const hub = address === `http://127.0.0.1:${DEFAULT_PORT}` ? '' : ` --hub ${address}`;
  // By default the agent uses the shared token of .dev.vars.
  const variable = isNamespaceToken ? `CLI_API_TOKEN=${token} ` : '';
  const directory = /^[\w./-]+$/.test(ROOT) ? ROOT : `"${ROOT}"`;
  console.log(`
  ${bold('The hub is running.')} Ctrl-C stops it. Its data is stored in .wrangler/state.

  Address        ${address}${network.map((other) => `\n  On the network ${other}`).join('')}
  Access token   ${token}   ${dim(`(${origin})`)}

  Open the console, signed in (the link contains the token: do not share it):
    ${signInLink(address, token)}

  Connect a coding agent, or the example CLI, which runs a shell, in a second terminal in this folder:
    ${variable}npm run agent -- --agent claude --dir ${directory}${hub}
    ${variable}npm run agent:shell -- --dir ${directory}${hub}

  List the sessions:
    curl -H 'Authorization: Bearer ${token}' ${address}/api/sessions
`);
}
