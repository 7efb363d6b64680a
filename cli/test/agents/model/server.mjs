/** A scripted model on the loopback interface. The model answers in the dialects of the agents. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import * as chatCompletions from './chat-completions.mjs';
import * as generateContent from './generate-content.mjs';
import * as messages from './messages.mjs';
import * as responses from './responses.mjs';
import { nextResponse } from './script.mjs';

const DIALECTS = [chatCompletions, generateContent, messages, responses];

/** Answers to requests that are not part of a conversation. @type {[RegExp, object][]} */
const OTHER = [
  [/\/count_tokens$/, { input_tokens: 1234 }],
  [/:countTokens$/, { totalTokens: 1234 }],
  [/\/models$/, { object: 'list', data: [{ id: 'scripted', object: 'model', created: 1, owned_by: 'tests' }], models: [] }],
];

/**
 * Starts the model. `answer` sets the steps for a prompt. No other prompt may contain the text of the prompt.
 * @param {{title?: string, headers?: Record<string, string>}} [options] `title`: the answer to requests for a title; `headers`: of the
 *   responses that are streamed
 * @returns {Promise<{url: string, answer: (prompt: string, steps: import('./script.mjs').Step[]) => void,
 *   hasSeenPicture: () => boolean, hasSeenText: (text: string) => boolean, requests: string[], stop: () => void}>}
 */
export async function startModel({ title = 'A title', headers = {} } = {}) {
  const scripts = new Map();
  let hasSeenPicture = false;
  /** The bodies of the requests with tools, oldest first. */
  const requests = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const url = new URL(request.url, 'http://model').pathname;
    const answer = (body, status = 200) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    const send = (body, event) => {
      if (response.destroyed) throw new Error('The agent has closed the connection.');
      if (!response.headersSent) response.writeHead(200, { ...headers, 'content-type': 'text/event-stream' });
      const data = typeof body === 'string' ? body : JSON.stringify(body);
      response.write(`${event ? `event: ${event}\n` : ''}data: ${data}\n\n`);
    };
    const dialect = DIALECTS.find(({ path }) => path.test(url));
    if (!dialect) {
      const [, body] = OTHER.find(([path]) => path.test(url)) ?? [];
      return answer(body ?? {}, body ? 200 : 404);
    }
    try {
      const body = JSON.parse(text);
      const { tools, history, hasPicture } = dialect.read(body);
      hasSeenPicture ||= hasPicture;
      if (tools.length > 0) requests.push(text);
      const nextStep = nextResponse(history, tools, { title, scripts });
      const [{ fail } = {}] = nextStep.texts;
      if (fail) return answer({ type: 'error', error: { type: 'invalid_request_error', message: fail.message } }, fail.status);
      await dialect.write(nextStep, body, { url, answer, send });
      response.end();
    } catch (error) {
      if (response.headersSent) response.destroy();
      else answer({ error: { message: error.message } }, 500);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (server.address()).port}`,
    answer: (prompt, steps) => scripts.set(prompt, steps),
    hasSeenPicture: () => hasSeenPicture,
    requests,
    hasSeenText: (text) => requests.some((body) => body.includes(text)),
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
