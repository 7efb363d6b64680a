/** Set-up for tests of the program as a process. */

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { FakeHub, TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { runAtTerminal, runCli, startCli, WITHOUT_DEV_VARS } from './cli-process.mjs';
import { writeScriptedAgent } from './setup.mjs';

export const SCRIPT = {
  title: 'Say hello',
  initialize: { agentCapabilities: { sessionCapabilities: { resume: {} } } },
  newSession: {
    configOptions: [
      {
        id: 'effort',
        name: 'Effort',
        category: 'thought_level',
        type: 'select',
        currentValue: 'low',
        options: [{ value: 'high', name: 'High' }],
      },
      { id: 'fast', name: 'Fast mode', category: 'model_config', type: 'boolean', currentValue: false },
    ],
  },
};

/** Starts an in-memory hub, and creates a directory to serve, and a PATH on which some programs are the scripted agent. */
export const setUpProcess = (t, ...programs) => setUpIn(t, programs, ['--trust']);

/** Like {@link setUpProcess}, with a directory that the user does not trust yet. */
export const setUpUntrusted = (t, ...programs) => setUpIn(t, programs, []);

/** @param {string[]} trust the option that trusts the directory, if it is trusted */
async function setUpIn(t, programs, trust) {
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  const [dir, bin, scriptHome] = ['served', 'bin', 'script'].map((name) => path.join(base, name));
  for (const folder of [dir, bin, scriptHome]) mkdirSync(folder);
  for (const name of programs) writeScriptedAgent(bin, name);
  const env = {
    PATH: `${bin}:/usr/bin:/bin`,
    HOME: base,
    CLI_API_TOKEN: TOKEN,
    BARE_SECRET: TOKEN.split(':')[0],
    SESSION_GATEWAY_HOME: path.join(base, 'home'),
    SCRIPT: JSON.stringify(SCRIPT),
    SCRIPT_HOME: scriptHome,
  };
  const common = ['--dir', dir, '--hub', hub.url, ...trust];
  const withCommon = (args) => (['import', 'attach'].includes(args[0]) ? [args[0], ...common, ...args.slice(1)] : [...common, ...args]);
  const run = (...args) => runCli(t, withCommon(args), env);
  const runAsTerminal = (...args) => runAtTerminal(t, [process.execPath, WITHOUT_DEV_VARS, ...withCommon(args)], env);
  const setScript = (script) => (env.SCRIPT = JSON.stringify(script));
  const start = (...args) => startCli(t, hub, [...common, ...args], env);
  const startWithIpc = (...args) => startCli(t, hub, [...common, ...args], env, ['pipe', 'pipe', 'pipe', 'ipc']);
  const { CLI_API_TOKEN, BARE_SECRET, ...withoutToken } = env;
  /** Starts the CLI without a token, and not at a terminal. */
  const startUnpaired = (...args) => startCli(t, hub, [...common, ...args], withoutToken, 'pipe', WITHOUT_DEV_VARS);
  /** Runs the CLI with other variables instead of the token, and not at a terminal. */
  const runUnpaired = (variables, ...args) => runCli(t, withCommon(args), { ...withoutToken, ...variables }, 'pipe', WITHOUT_DEV_VARS);
  const startAtTerminal = (...args) => runAtTerminal(t, [process.execPath, WITHOUT_DEV_VARS, ...common, ...args], withoutToken);
  return { hub, dir, bin, scriptHome, setScript, run, runAsTerminal, start, startWithIpc, startUnpaired, runUnpaired, startAtTerminal };
}

export const say = (hub, sid, text) => hub.postMessage(sid, JSON.stringify([{ say: text }]));
