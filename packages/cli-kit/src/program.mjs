/**
 * The main function of a CLI: reads the command line, serves until a signal, and reports to the runner that started it.
 * A process that is started by hand is the runner: it serves the machine and one session. It starts each further session as a
 * child process with this same program, which reports to the runner over IPC.
 */

import { once } from 'node:events';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { startApp } from './app.mjs';
import { AccessRefusedError, REFUSED_EXIT_CODE, REFUSED_EXIT_CODE_VARIABLE, USAGE_EXIT_CODE, UsageError } from './errors.mjs';
import { makeLog, printable } from './log.mjs';
import { onNpmEnd } from './npm-process.mjs';
import { removeNpmVariables } from './npm-script.mjs';
import { RUNNER_VARIABLE } from './processes.mjs';
import { forgetToken, isTokenRefused, signIn } from './sign-in.mjs';

/**
 * The options of a CLI: the options that all CLIs have, and the CLI's own options.
 * @typedef {import('./args.mjs').Options & Record<string, any>} ProgramOptions
 *
 * What a CLI adds to the kit.
 * @typedef {object} Program
 * @property {string} name of the command
 * @property {string} version
 * @property {string} help the text of `--help`
 * @property {string} entry path of the main module, which a runner starts for each further session
 * @property {string} devVars path of the `.dev.vars` that may have the token
 * @property {string} homeVariable the environment variable with the folder of the state
 * @property {(argv: string[], env: Record<string, string | undefined>) => ProgramOptions} readArgs
 * @property {(options: ProgramOptions) => Promise<ProgramOptions | null>} [prepare] completes the options, and may ask at
 *   the terminal; returns null when there is nothing to serve, and
 *   may then set `process.exitCode`; not called in sessions that a runner starts
 * @property {(options: ProgramOptions, session: Record<string, any>) => Omit<import('./session.mjs').Settings, 'mode'>} settings
 *   returns the settings with which a session starts
 * @property {(dependencies: import('./session.mjs').AgentDependencies) => import('./session.mjs').Agent} createAgent
 * @property {(root: string, options: ProgramOptions) => string} [tagOf] returns the tag under
 *   which the hub finds the session again; `--tag` overrides it; without `tagOf` the tag is the directory
 * @property {(options: ProgramOptions & {root: string}) => object | Promise<object>} [describe] more session metadata
 * @property {(options: ProgramOptions) => object | Promise<object>} [describeMachine] more machine metadata;
 *   called again at the interval of the keep-alive
 * @property {(options: import('./app.mjs').ServingOptions) => Record<string, (params: any) => unknown>} [machineMethods] more RPC methods
 *   of the machine
 * @property {(options: ProgramOptions) => string} defaultAgent the agent of a spawn request that names none
 * @property {(agent: string, options: ProgramOptions) => string[] | Promise<string[]>} agentArgs returns the
 *   arguments at the end of the command line of a spawned session's process; throws or rejects for an agent that cannot be started
 * @property {ReadonlySet<string>} [protectedNames] the names of visible files that hold an agent's permissions, commands or hooks, in
 *   lower case. An approval for the session covers no changes of these files
 * @property {boolean} [runsFolderCode] whether the program's agents run code of their folder at the start of a session, such as hooks and MCP
 *   servers. The machine then starts sessions only in folders that the user trusts. `prepare` ensures this for the program's own session
 * @property {boolean} [canFork] whether the program's agents start with the history of another session (`options.fork`)
 * @property {(values: Record<string, string | boolean>) => string[]} [optionArgs] returns the arguments for the agent's options, by id;
 *   missing if the program's agents have no options
 */

/** @param {Program} program */
export function runProgram(program) {
  // Nobody may read the output any more, such as a machine that was killed. The session is still ended at the hub.
  for (const output of [process.stdout, process.stderr]) output.on('error', () => {});
  main(program).then(
    () => process.exit(),
    (error) => {
      process.stderr.write(`${program.name}: ${printable(error.message)}\n`);
      const exit = () => process.exit(exitCodeOf(error));
      notifyRunner({ type: 'failed', error: error.message }, exit);
    },
  );
}

/** @param {Error} error */
function exitCodeOf(error) {
  const otherCode = process.env[REFUSED_EXIT_CODE_VARIABLE];
  if (error instanceof AccessRefusedError || isTokenRefused(error)) return otherCode ?? REFUSED_EXIT_CODE;
  return error instanceof UsageError ? (otherCode ?? USAGE_EXIT_CODE) : 1;
}

/** Sends a message to the process that opened an IPC channel: the runner, or a process manager, which ignores the message. */
function notifyRunner(message, onSent) {
  if (process.connected) process.send(message, onSent);
  else onSent?.();
}

/**
 * Whether a runner started this process. A process manager may also open an IPC channel. The variable is deleted, so that the agent's
 * programs do not inherit it.
 */
function takeStartedByRunner() {
  const isStarted = process.connected && process.env[RUNNER_VARIABLE] !== undefined;
  delete process.env[RUNNER_VARIABLE];
  return isStarted;
}

/**
 * Returns the access to the hub. A runner sends it over the IPC channel.
 * @returns {Promise<import('./sign-in.mjs').Access>}
 */
async function receiveAccess(options, { program, startedByRunner, log }) {
  const { env, stdin: input, stderr: output } = process;
  if (!startedByRunner) return signIn(options, { env, devVars: program.devVars, log, input, output });
  const [{ token, namespace }] = await once(process, 'message');
  return { token, namespace, isPaired: false };
}

/** @param {Program} program */
async function main(program) {
  let options = program.readArgs(process.argv.slice(2), process.env);
  if (options.help) {
    process.stdout.write(program.help);
    return;
  }
  if (options.version) {
    process.stdout.write(`${program.version}\n`);
    return;
  }
  onNpmEnd(() => process.kill(process.pid, 'SIGTERM'));
  removeNpmVariables(process.env);
  const startedByRunner = takeStartedByRunner();
  if (!startedByRunner && program.prepare) options = await program.prepare(options);
  if (options === null) return;
  const log = makeLog(options);
  let app = null;
  let isStopping = false;
  const starting = new AbortController();
  const stop = () => (app ? app.stop() : starting.abort(new Error('The start was interrupted.')));
  // Before the start is complete, only a session that a runner started is shut down gracefully, which deletes the session while it
  // is empty. A process that was started at the terminal exits at once: the next start continues its session.
  const canStopGracefully = () => app || startedByRunner;
  // Registered before the start: without this handler, a signal skips the exit handlers, and the agent keeps running.
  const onSignal = (signal) => {
    if (isStopping || !canStopGracefully()) process.exit(128 + constants.signals[signal]);
    isStopping = true;
    log.info(`${signal}: stopping`);
    stop();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  process.on('disconnect', () => (canStopGracefully() ? stop() : process.exit(1)));

  /** Serves until the end. @param {import('./sign-in.mjs').Access} access */
  const serve = async ({ token, namespace }) => {
    app = await startApp({
      ...options,
      program,
      token,
      namespace,
      log,
      startedByRunner,
      signal: starting.signal,
      onOpened: (sessionId) => notifyRunner({ type: 'opened', sessionId }),
      onEnding: () => notifyRunner({ type: 'ending' }),
      echo: (text) => process.stdout.write(text),
    });
    notifyRunner({ type: 'session', sessionId: app.session.id });
    process.stdout.write(`session ${app.session.id}\n`);
    if (app.machine) process.stdout.write(`machine ${app.machine.id}\n`);
    log.info(`serving ${app.session.ownMetadata.path} through ${options.hub}; Ctrl-C ends the session`);
    if (options.local) readCommands(app, log);
    const error = await app.ended;
    if (error) throw error;
  };

  for (;;) {
    const access = await receiveAccess(options, { program, startedByRunner, log });
    // A code works once.
    options = { ...options, code: undefined };
    try {
      return await serve(access);
    } catch (error) {
      // Without a terminal, the program ends: a service must not ask again for an access that a person has ended.
      if (!access.isPaired || !isTokenRefused(error) || !process.stdin.isTTY) throw error;
      log.warn('The hub no longer accepts this computer: it was removed from the devices of the hub.');
      forgetToken(options, access.token);
      app = null;
    }
  }
}

/** Runs the commands that the user types while the terminal is in control. */
function readCommands(app, log) {
  log.info('The terminal is in control: type commands, or /remote to give control to the web.');
  const input = createInterface({ input: process.stdin }).on('line', (line) => line.trim() !== '' && app.session.typeLine(line.trim()));
  app.ended.then(() => input.close());
}
