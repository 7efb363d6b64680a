/** Set-up for tests of the whole CLI with a scripted agent. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { TrustedFolders } from 'session-gateway-cli-kit/trust';
import { setUpApp } from '../../../packages/cli-kit/test/support/app.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { program } from '../../src/program.mjs';

export const SCRIPTED_AGENT = fileURLToPath(new URL('scripted-agent.mjs', import.meta.url));

/** Writes a program that is the scripted agent. @param {string} bin the folder */
export function writeScriptedAgent(bin, name) {
  writeFileSync(path.join(bin, name), `#!/bin/sh\nexec '${process.execPath}' '${SCRIPTED_AGENT}' "$@"\n`, { mode: 0o755 });
}

/** Puts the scripted agent on the PATH as a program. Must be called after `setUp`, which restores the environment after the test. */
export function putScriptedAgent(t, name) {
  const bin = tempDir(t);
  writeScriptedAgent(bin, name);
  process.env.PATH = `${bin}${path.delimiter}${process.env.PATH}`;
}

/** The agent of a session, with the fields of this CLI. */
export const agentOf = ({ agent }) => /** @type {import('../../src/agent.mjs').AcpAgent} */ (agent);

/** The options of a permission request, with the permanent approval first. */
export const OPTIONS = [
  { optionId: 'for-ever', kind: 'allow_always', name: 'Always' },
  { optionId: 'yes', kind: 'allow_once', name: 'Once' },
  { optionId: 'no', kind: 'reject_once', name: 'No' },
];

/** The steps of a tool call that needs permission. */
export const askToRun = (id, command, more = {}) => {
  const toolCall = { toolCallId: id, title: command, kind: 'execute', status: 'pending', rawInput: { command } };
  return [
    { update: { sessionUpdate: 'tool_call', ...toolCall } },
    { ask: { toolCall, options: OPTIONS, ...more } },
    {
      update: {
        sessionUpdate: 'tool_call_update',
        toolCallId: id,
        status: 'completed',
        content: [{ type: 'content', content: { type: 'text', text: `ran ${command}` } }],
      },
    },
  ];
};

/**
 * Starts an in-memory hub. `start` starts the CLI with the scripted agent.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {object} [script] of the agent
 */
export async function setUp(t, script = {}) {
  const scriptHome = tempDir(t);
  const environment = { SCRIPT: JSON.stringify(script), SCRIPT_HOME: scriptHome };
  const before = { ...process.env };
  Object.assign(process.env, environment);
  t.after(() => {
    for (const name of Object.keys(environment)) delete process.env[name];
    Object.assign(process.env, before);
  });
  const command = [process.execPath, SCRIPTED_AGENT];
  const fixture = await setUpApp(t, program, { command, flavor: 'alpha' });
  const { hub } = fixture;
  new TrustedFolders(fixture.home).add(fixture.dir);
  const file = path.join(scriptHome, 'calls.jsonl');
  /** Returns the calls that the agent received: all calls, or the calls of one method. */
  const calls = (method) => {
    const all = existsSync(file)
      ? readFileSync(file, 'utf8')
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line))
      : [];
    return method === undefined ? all : all.filter((call) => call.method === method).map(({ params }) => params);
  };
  /** Sends a prompt with steps. */
  const prompt = (sid, steps) => hub.postMessage(sid, JSON.stringify(steps));
  /** Releases the step `{until: name}` of a prompt. */
  const release = (name) => writeFileSync(path.join(scriptHome, `released-${name}`), '');
  const untilRequest = (sid) => hub.waitUntil(() => hub.pendingRequest(sid), 'a permission request');
  return { ...fixture, scriptHome, calls, prompt, release, untilRequest, setScript: (next) => (process.env.SCRIPT = JSON.stringify(next)) };
}
