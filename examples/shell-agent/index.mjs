#!/usr/bin/env node
/** A shell as an agent: serves a directory and runs a session's messages as commands. See README.md. */

import { createInterface } from 'node:readline';
import { HELP, UsageError, readArgs } from './src/args.mjs';
import { makeLog } from './src/log.mjs';
import { findToken } from './src/token.mjs';

// Started by another process of this program, which waits for a word over the channel between the two.
const startedByRunner = process.send !== undefined;
const tellRunner = (message, then) => {
  if (process.connected) process.send(message, then);
  else then?.();
};

async function main() {
  const options = readArgs(process.argv.slice(2), process.env);
  if (options.help) {
    process.stdout.write(HELP);
    return;
  }
  const startApp = await loadApp();
  const log = makeLog(options);
  const token = findToken(options.token, process.env);
  const app = await startApp({
    ...options,
    token,
    log,
    startedByRunner,
    onEnding: () => tellRunner({ type: 'ending' }),
    echo: (text) => process.stdout.write(text),
  });

  let asked = false;
  const onSignal = (signal) => {
    if (asked) process.exit(130);
    asked = true;
    log.info(`${signal}: ending what runs here`);
    app.stop();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('disconnect', () => app.stop());
  tellRunner({ type: 'session', sessionId: app.session.id });

  process.stdout.write(`session ${app.session.id}\n`);
  if (app.machine) process.stdout.write(`machine ${app.machine.id}\n`);
  log.info(`serving ${app.session.ownMetadata.path} through ${options.hub}; Ctrl-C ends the session`);
  if (options.local) {
    log.info('The terminal is in control: type commands, or /remote to hand over to the web.');
    createInterface({ input: process.stdin }).on('line', (line) => line.trim() !== '' && app.session.type(line.trim()));
  }

  const error = await app.ended;
  if (error) throw error;
}

/** The rest of the program needs packages, which are not there before set-up. */
async function loadApp() {
  try {
    return (await import('./src/app.mjs')).startApp;
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || !error.message.startsWith('Cannot find package')) throw error;
    throw new Error("The project's packages are not installed yet. In its root, run: npm run setup");
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`shell-agent: ${error.message}\n`);
    const leave = () => process.exit(error instanceof UsageError ? 2 : 1);
    tellRunner({ type: 'failed', error: error.message }, leave);
  },
);
