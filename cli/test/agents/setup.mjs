/** Set-up for tests with real agents: an agent from npm, a scripted model, an in-memory hub, and the folders of a person. */

import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { installAgent } from '../../../scripts/build/agents.mjs';
import { FakeHub, TOKEN } from '../../../packages/cli-kit/test/support/fake-hub.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { startCli } from '../support/cli-process.mjs';
import { environmentFor } from './environments.mjs';
import { startModel } from './model/server.mjs';

/** A busy computer may need longer for a start than the machine waits. */
const MAX_ATTEMPTS = 4;

/**
 * @param {import('node:test').TestContext} t
 * @param {string} name of the agent
 */
export async function setUpAgent(t, name) {
  const bin = await installAgent(name);
  const model = await startModel();
  t.after(() => model.stop());
  const hub = await FakeHub.start();
  t.after(() => hub.stop());
  const base = tempDir(t);
  const [dir, home, wrapperFolder] = ['served', 'home', 'bin'].map((folder) => path.join(base, folder));
  for (const folder of [dir, home, wrapperFolder]) mkdirSync(folder);
  const agentEnv = environmentFor(name, { url: model.url, home, bin });
  const env = {
    ...agentEnv,
    PATH: `${wrapperFolder}${path.delimiter}${agentEnv.PATH}`,
    CLI_API_TOKEN: TOKEN,
    SESSION_GATEWAY_HOME: path.join(base, 'state'),
  };
  const start = () => startCli(t, hub, ['--agent', name, '--dir', dir, '--hub', hub.url, '--trust'], env);
  /** Calls a method of the machine that starts a session. Repeats the call if the session did not start in time, as a person does. */
  const callUntilStarted = async (machineId, method, params) => {
    for (let attempt = 1; ; attempt += 1) {
      const answer = await hub.call(machineId, method, params);
      if (answer.success || attempt === MAX_ATTEMPTS || !/did not start within/.test(answer.error)) return answer;
    }
  };
  return { bin, model, hub, base, dir, wrapperFolder, agentEnv, env, start, callUntilStarted };
}
