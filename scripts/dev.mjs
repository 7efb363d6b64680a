// `npm run dev`: sets everything up, builds, and runs the hub on this machine until Ctrl-C.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { stripVTControlCharacters } from 'node:util';
import { build, describe } from './build.mjs';
import { accessToken } from './lib/dev-vars.mjs';
import { main, UserError } from './lib/errors.mjs';
import { ROOT } from './lib/paths.mjs';
import { bold, dim, step } from './lib/progress.mjs';
import { environment, readLines } from './lib/run.mjs';
import { setup } from './lib/setup.mjs';
import { isStopping, onStop } from './lib/signals.mjs';
import { migrateLocalDatabase, OFFLINE, wranglerCommand } from './lib/wrangler.mjs';

const DEFAULT_PORT = 8787;

const USAGE = `Usage: npm run dev -- [options]

  --port N         port to listen on (default ${DEFAULT_PORT})
  --host [ADDRESS] address to listen on (default 127.0.0.1; without ADDRESS every interface of this machine)
  --verbose        show everything that wrangler says, each request included
  --help           this text`;

/** How long the runtime may take to answer its first request. */
const START_TIMEOUT_MS = 60_000;

/** How long the runtime may take to write its state and end. */
const STOP_TIMEOUT_MS = 5_000;

await main(async () => {
  const options = parseOptions(process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  await requireFreePort(options);
  console.log(bold('Session gateway hub'));
  await setup();
  const token = accessToken();
  console.log(describe(await build({ optimize: false })));
  await migrateLocalDatabase();

  const hub = startWrangler(options);
  onStop(async () => {
    console.log(dim('\nStopping the hub …'));
    await hub.stop();
    return 0;
  });
  await step('hub', () => hub.ready());
  announce(hub.address, token);

  await hub.exited;
  throw new UserError('wrangler ended by itself; what it said is above.', 'Start the hub again with: npm run dev');
});

/** @param {string[]} args */
function parseOptions(args) {
  const options = { port: DEFAULT_PORT, host: '127.0.0.1', verbose: false, help: false };
  const rest = args.flatMap((arg) => arg.match(/^(--\w+)=(.*)$/)?.slice(1) ?? arg);
  while (rest.length > 0) {
    const option = rest.shift();
    if (option === '--verbose') options.verbose = true;
    else if (option === '--help' || option === '-h') options.help = true;
    else if (option === '--host') options.host = rest.length > 0 && !rest[0].startsWith('-') ? rest.shift() : '0.0.0.0';
    else if (option === '--port') options.port = parsePort(rest.shift());
    else throw new UserError(`There is no option ${option}.`, USAGE);
  }
  return options;
}

/** @param {string | undefined} text */
function parsePort(text) {
  const port = Number(text);
  if (!text || !Number.isInteger(port) || port < 1 || port > 65535) {
    throw new UserError(`--port needs a number from 1 to 65535, not ${text ?? 'nothing'}.`, USAGE);
  }
  return port;
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
    throw new UserError(
      hub ? `A hub is already running at ${ownAddress(options)}.` : `Port ${port} is in use by another program.`,
      // Two hubs on one folder would write the same local database.
      hub ? 'Stop it first.' : `Stop it, or choose another port: npm run dev -- --port ${port === 65535 ? 1024 : port + 1}`,
    );
  }
  const reasons = { EACCES: 'this user may not listen there', EADDRNOTAVAIL: 'this machine has no such address' };
  throw new UserError(`The hub cannot listen on ${host}, port ${port}: ${reasons[outcome] ?? outcome}.`);
}

/** @param {{host: string, port: number, verbose: boolean}} options */
function startWrangler({ host, port, verbose }) {
  const [command, args] = wranglerCommand([
    'dev',
    '--local',
    '--ip', host,
    '--port', String(port),
    '--inspector-port', '0',
    '--show-interactive-dev-session=false',
  ]);
  // A process group of its own: Ctrl-C reaches this script alone, which then ends wrangler and the runtime below it.
  const detached = process.platform !== 'win32';
  const child = spawn(command, args, {
    cwd: ROOT,
    detached,
    env: environment({ ...OFFLINE, HUB_BUILD: 'dev', ...(process.stdout.isTTY ? {} : { NO_COLOR: '1' }) }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  const signal = (name) => {
    try {
      if (detached) process.kill(-child.pid, name);
      else child.kill(name);
    } catch {
      // It is gone already.
    }
  };
  process.once('exit', () => signal('SIGKILL'));

  const held = showOutput(child, verbose);
  const address = ownAddress({ host, port });
  return {
    address,
    exited,
    ready: async () => {
      try {
        await waitUntilHealthy(address, child);
      } catch (error) {
        if (!isStopping()) console.error(held.join('\n'));
        throw error;
      }
    },
    stop: async () => {
      child.kill('SIGINT');
      await Promise.race([exited, sleep(STOP_TIMEOUT_MS)]);
      signal('SIGKILL');
    },
  };
}

/**
 * Shows what the worker logs and what goes wrong, and keeps wrangler's own remarks back.
 * @param {import('node:child_process').ChildProcess} child
 * @param {boolean} verbose
 * @returns {string[]} what was kept back until the server was ready, for the case that it never is
 */
function showOutput(child, verbose) {
  const held = [];
  let started = verbose;
  readLines(child.stdout, (line) => {
    const text = stripVTControlCharacters(line);
    if (started) {
      if (verbose || !isChatter(text)) console.log(line);
      return;
    }
    held.push(line);
    started = /^\[wrangler:\w+\] Ready on /.test(text);
  });
  readLines(child.stderr, (line) => {
    const text = stripVTControlCharacters(line);
    if (verbose || (text.trim() !== '' && !text.includes('Logs were written to'))) console.error(line);
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
 * @param {import('node:child_process').ChildProcess} child
 */
async function waitUntilHealthy(address, child) {
  const deadline = Date.now() + START_TIMEOUT_MS;
  let last = 'no answer';
  while (Date.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new UserError('wrangler ended before the hub was ready; what it said is above.');
    }
    try {
      const answer = await fetch(`${address}/health`, { signal: AbortSignal.timeout(5000) });
      if (answer.ok) return;
      last = `status ${answer.status}: ${(await answer.text()).slice(0, 500)}`;
    } catch (error) {
      last = error.cause?.message ?? error.message;
    }
    await sleep(100);
  }
  throw new UserError(
    `The hub did not answer ${address}/health within ${START_TIMEOUT_MS / 1000} s (${last}).`,
    'See everything that happens with: npm run dev -- --verbose',
  );
}

/**
 * @param {string} address
 * @param {string} token
 */
function announce(address, token) {
  const options = address === `http://127.0.0.1:${DEFAULT_PORT}` ? '' : ` --hub ${address}`;
  console.log(`
  ${bold('The hub is running.')} Ctrl-C stops it; what it stored stays in .wrangler/state.

  Address        ${address}
  Access token   ${token}   ${dim('(from .dev.vars)')}

  Connect a CLI, in a second terminal:
    npm run agent -- --dir .${options}

  Look around:
    curl -H 'Authorization: Bearer ${token}' ${address}/api/sessions
`);
}
