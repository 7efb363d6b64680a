#!/usr/bin/env node
/** A shell as an agent: serves a directory and runs a session's messages as commands. See README.md. */

import { createInterface } from 'node:readline';
import { HELP, UsageError, readArgs } from './src/args.mjs';
import { startApp } from './src/app.mjs';
import { makeLog } from './src/log.mjs';
import { findToken } from './src/token.mjs';

async function main() {
  const options = readArgs(process.argv.slice(2), process.env);
  if (options.help) {
    process.stdout.write(HELP);
    return;
  }
  const log = makeLog(options);
  const token = findToken(options.token, process.env);
  // Started by another process of this program, which waits for a word over the channel between the two.
  const startedByRunner = process.send !== undefined;
  const app = await startApp({ ...options, token, log, startedByRunner, echo: (text) => process.stdout.write(text) });

  let asked = false;
  const onSignal = (signal) => {
    if (asked) process.exit(130);
    asked = true;
    log.info(`${signal}: ending the session`);
    app.stop();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  if (startedByRunner) {
    process.on('disconnect', () => app.stop());
    process.send({ type: 'session', sessionId: app.session.id });
  }

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

main().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`shell-agent: ${error.message}\n`);
    process.exit(error instanceof UsageError ? 2 : 1);
  },
);
