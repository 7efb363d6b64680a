/** Starts the example agent without an access token, so that the agent shows a code for pairing. */

import { fileURLToPath } from 'node:url';
import { start } from './children.mjs';

const ENTRY = fileURLToPath(new URL('./agent-without-dev-vars.mjs', import.meta.url));

/**
 * @param {{after: (step: () => unknown) => void}} t
 * @param {import('./hub.mjs').Hub} hub
 * @param {{dir: string, home: string, args?: string[]}} options `home`: the folder of the agent's state; `args`: more options
 */
export function startUnpaired(t, hub, { dir, home, args: more = [] }) {
  const args = [ENTRY, '--dir', dir, '--hub', hub.url, '--auto-approve', ...more];
  const env = { CLI_API_TOKEN: '', SHELL_AGENT_HOME: home };
  const { lines, exited, kill } = start(t, 'the agent', process.execPath, args, { env });
  const find = async (pattern, what) => {
    const line = await lines.first((text) => pattern.test(text), what);
    return pattern.exec(line)[1];
  };
  return {
    lines,
    exited,
    kill,
    /** Returns the code that the agent shows. */
    code: () => find(/compare the code (\S+)/, 'its code'),
    /** Returns the link that the agent shows. */
    link: () => find(/open (\S+) in a browser/, 'its link'),
    /** Returns the id of the agent's session, once the agent is connected. */
    sessionId: () => find(/^session (\S+)/, 'its session'),
  };
}
