#!/usr/bin/env node
/** The shell agent: serves a directory and runs a session's messages as shell commands. See README.md. */

import { createInterface } from 'node:readline';
import { HELP, UsageError, readArgs } from './src/args.mjs';
import { makeLog } from './src/log.mjs';
import { findToken } from './src/token.mjs';

// A machine starts its sessions as child processes of this program, with an IPC channel.
const startedByRunner = process.send !== undefined;
const notifyRunner = (message, onSent) => {
  if (process.connected) process.send(message, onSent);
  else onSent?.();
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
    onEnding: () => notifyRunner({ type: 'ending' }),
    echo: (text) => process.stdout.write(text),
  });

  let isStopping = false;
  const onSignal = (signal) => {
    if (isStopping) process.exit(130);
    isStopping = true;
    log.info(`${signal}: stopping`);
    app.stop();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('disconnect', () => app.stop());
  notifyRunner({ type: 'session', sessionId: app.session.id });

  process.stdout.write(`session ${app.session.id}\n`);
  if (app.machine) process.stdout.write(`machine ${app.machine.id}\n`);
  log.info(`serving ${app.session.ownMetadata.path} through ${options.hub}; Ctrl-C ends the session`);
  if (options.local) {
    log.info('The terminal is in control: type commands, or /remote to give control to the web.');
    createInterface({ input: process.stdin }).on('line', (line) => line.trim() !== '' && app.session.typeLine(line.trim()));
  }

  const error = await app.ended;
  if (error) throw error;
}

/** Imported late, so that a missing npm package gives an error that names the command to run. */
async function loadApp() {
  try {
    return (await import('./src/app.mjs')).startApp;
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND' || !error.message.startsWith('Cannot find package')) throw error;
    throw new Error("The project's npm packages are not installed. In its root directory, run: npm run setup");
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`shell-agent: ${error.message}\n`);
    const exit = () => process.exit(error instanceof UsageError ? 2 : 1);
    notifyRunner({ type: 'failed', error: error.message }, exit);
  },
);
