/** Sessions of a test's CLI: the messages of its agent, and its requests for permission. */

import assert from 'node:assert/strict';
import { liveSession } from '../../../scripts/product/clients/cli.mjs';

/** An answer of the agent. */
export const outputRecord = (...content) => ({
  role: 'agent',
  content: { type: 'output', data: { type: 'assistant', message: { role: 'assistant', content } } },
});

/** A message that ends the work of an agent. */
export const READY = { role: 'agent', content: { type: 'event', data: { type: 'ready' } } };

/** Sends a text of an agent. */
export const say = (cli, sessionId, text) => cli.sendMessage(sessionId, { role: 'agent', content: { type: 'text', text } });

/**
 * Sends the texts with the numbers 1 to `count`, and waits for all acknowledgements. The messages of one socket keep their order.
 * @param {(text: string) => Promise<unknown>} say
 * @param {number} count
 * @param {(number: number) => string} textOf
 */
export const sayAll = (say, count, textOf) => Promise.all(Array.from({ length: count }, (_, index) => say(textOf(index + 1))));

/**
 * Creates a live session whose path is its tag. Its CLI accepts each answer to a request. `answered`: these answers. `setState` replaces
 * the agent state, and `setRequests` its requests. `say` sends a text of the agent, and `write` blocks of its answer.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {import('./hub.mjs').Hub} hub
 * @param {string} namespace
 * @param {{tag?: string, metadata?: object, requests?: object, messages?: object[]}} [session] `messages`: sent before the function returns
 */
export async function liveTalk(t, hub, namespace, { tag = '/code/talk', metadata, requests, messages = [] } = {}) {
  const { session, cli } = await liveSession(t, hub, { namespace, tag, metadata: { path: tag, host: 'h', ...metadata } });
  const answered = [];
  const setState = async (agentState) => {
    const { agentStateVersion: expectedVersion } = await hub.web(namespace).readSession(session.id);
    const { result } = await cli.emitWithAck('update-state', { sid: session.id, expectedVersion, agentState });
    assert.equal(result, 'success');
  };
  const setRequests = (next) => setState({ requests: next });
  if (requests) {
    await cli.serve(`${session.id}:permission`, (answer) => (answered.push(answer), { success: true }));
    await setRequests(requests);
  }
  await Promise.all(messages.map((message) => cli.sendMessage(session.id, message)));
  const write = (...blocks) => cli.sendMessage(session.id, outputRecord(...blocks));
  return { session, cli, path: `/sessions/${session.id}`, answered, setState, setRequests, say: say.bind(null, cli, session.id), write };
}
