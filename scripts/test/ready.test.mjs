// Waiting for a hub: transient problems are retried, and permanent problems are errors at once.

import assert from 'node:assert/strict';
import test from 'node:test';
import { UserError } from '../lib/errors.mjs';
import { HubRefusedError, waitUntilReady } from '../product/hub/ready.mjs';
import { startServer } from './support/fake-server.mjs';

const OK = { status: 200, body: { status: 'ok' } };
const unavailable = (error) => ({ status: 503, body: { error, code: 'hub_unavailable' } });

/**
 * Starts a server with a given handler.
 * @param {import('node:test').TestContext} t
 * @param {(path: string, token: string | undefined) => {status: number, body: unknown}} handler
 * @returns {Promise<{address: string, requestedPaths: string[]}>}
 */
async function startHub(t, handler) {
  const requestedPaths = [];
  const { url } = await startServer(t, (request, response) => {
    requestedPaths.push(request.url);
    const { status, body } = handler(request.url, request.headers.authorization?.replace('Bearer ', ''));
    response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
  });
  return { address: url, requestedPaths };
}

const wait = (address, options = {}) =>
  waitUntilReady(address, {
    tokens: ['shared', 'own'],
    timeoutMs: 60_000,
    assertRunning: () => {},
    settingFileOf: () => '.dev.vars',
    ...options,
  });

test('waiting returns the token that the hub accepts', async (t) => {
  for (const valid of ['shared', 'own']) {
    const { address } = await startHub(t, (path, token) => (path === '/health' || token === valid ? OK : { status: 401, body: {} }));
    assert.equal(await wait(address), valid);
  }
});

test('an invalid configuration is an error at once, which names the file to change', async (t) => {
  const sentence = 'NAMESPACE_ROUTING must be `token`, `host` or `single:<namespace>`, but is `nonsense`.';
  const { address, requestedPaths } = await startHub(t, () => unavailable(sentence));
  const settingFileOf = (variable) => (variable === 'NAMESPACE_ROUTING' ? 'wrangler.toml' : 'elsewhere');
  await assert.rejects(wait(address, { settingFileOf }), (error) => {
    assert.ok(error instanceof HubRefusedError);
    assert.ok(error.message.includes(sentence), error.message);
    assert.match(error.hint, /NAMESPACE_ROUTING is set in wrangler\.toml: .* npm run dev/);
    return true;
  });
  assert.deepEqual(requestedPaths, ['/health']);
});

test('a database without a schema is an error at once', async (t) => {
  const sentence = 'The database has no schema yet. Run `npm run wrangler -- d1 migrations apply DB --local`.';
  const { address } = await startHub(t, (path) => (path === '/health' ? OK : unavailable(sentence)));
  await assert.rejects(wait(address), (error) => error instanceof HubRefusedError && error.message.includes(sentence));
});

test('a refused token is an error at once', async (t) => {
  const { address } = await startHub(t, (path) => (path === '/health' ? OK : { status: 401, body: {} }));
  await assert.rejects(wait(address), (error) => error instanceof HubRefusedError && /access token of \.dev\.vars/.test(error.message));
});

test('transient errors are retried: the runtime restarts, the database is unreachable', async (t) => {
  const restarting = { status: 503, body: 'Your worker restarted mid-request.' };
  const unreachable = unavailable('The database is unreachable. Try again in a few seconds.');
  const answers = [restarting, { status: 500, body: 'no' }, OK, unreachable, OK, OK];
  const { address } = await startHub(t, () => answers.shift());
  assert.equal(await wait(address), 'shared');
  assert.deepEqual(answers, []);
});

test('the timeout error has the last response', async (t) => {
  const { address } = await startHub(t, () => ({ status: 500, body: 'a broken runtime' }));
  await assert.rejects(wait(address, { timeoutMs: 0 }), (error) => {
    assert.ok(error instanceof UserError && !(error instanceof HubRefusedError));
    assert.match(error.message, /status 500, a broken runtime/);
    return true;
  });
  await assert.rejects(wait('http://127.0.0.1:9', { timeoutMs: 0 }), /ECONNREFUSED|bad port/);
});

test('waiting ends when `assertRunning` throws', async () => {
  const assertRunning = () => {
    throw new UserError('it ended');
  };
  await assert.rejects(wait('http://127.0.0.1:9', { assertRunning }), /it ended/);
});
