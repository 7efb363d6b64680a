/** Isolation of namespaces, authentication, and the errors of refused requests. */

import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { ROUTES } from '../../scripts/test/support/routes.mjs';
import { connectCli, liveSession } from '../../scripts/product/clients/cli.mjs';
import { SECRET, startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const hub = await startHub({ after }, { vars: { CORS_ORIGINS: 'https://console.example' } });
const strictHub = await startHub({ after }, { vars: { REQUIRE_NAMESPACE_TOKENS: 'true' } });
const largeQueriesHub = await startHub({ after }, { wrappers: ['large-queries.worker.js'] });

const SESSION_CALLS = ROUTES.filter(({ route }) => /\/sessions\/\{/.test(route));
const MACHINE_CALLS = ROUTES.filter(({ route }) => /\/machines\/\{/.test(route));

/** Returns a path of a route. The first parameter is `id`, and the other parameters are unknown ids. */
const fillPath = (route, id) => route.replace(/\{[^}]+\}/, encodeURIComponent(id)).replace(/\{[^}]+\}/g, 'nothing');

const tokenOf = (namespace) => createHmac('sha256', SECRET).update(`namespace:${namespace}`).digest('base64url');

function assertRefusal(answer, status, code) {
  assert.equal(answer.status, status, `${answer.request}: ${answer.text}`);
  assert.equal(typeof answer.body?.error, 'string', `${answer.request}: ${answer.text}`);
  assert.ok(answer.body.error.length > 10, 'an error text');
  assert.match(answer.body.code, /^[a-z]+(_[a-z]+)*$/);
  if (code !== undefined) assert.equal(answer.body.code, code);
  assert.match(answer.headers['content-type'], /^application\/json/);
  assert.equal(answer.headers['cache-control'], 'no-store');
}

test('the routes are parsed from the route table', () => {
  assert.ok(SESSION_CALLS.length >= 15 && MACHINE_CALLS.length >= 1, JSON.stringify(ROUTES));
});

describe('a second namespace', () => {
  const suite = new Lifetime();
  const owner = hub.web('own');
  let session;
  let machine;
  let cli;
  let strangers;

  before(async () => {
    ({ session, cli } = await liveSession(suite, hub, { namespace: 'own', tag: '/code/private' }));
    machine = await owner.registerMachine({ id: 'm-private' });
    await cli.emitWithAck('machine-alive', { machineId: machine.id, time: Date.now() });
    await cli.sendMessage(session.id, { secret: 'of the first namespace' });
    await cli.serve('gitStatus', () => assert.fail('a call of another namespace'));
    const { body } = await hub.web('other').post('/api/auth', { accessToken: hub.token('other') });
    strangers = { 'an access token': hub.web('other'), 'a JWT': hub.web('other', body.token) };
  });
  after(() => suite.end());

  test('gets 403 on every route of a session or machine, without any of its data', async () => {
    for (const [credential, stranger] of Object.entries(strangers)) {
      for (const [calls, id] of [
        [SESSION_CALLS, session.id],
        [MACHINE_CALLS, machine.id],
      ]) {
        for (const { method, route } of calls.filter((call) => credential === 'an access token' || call.route.startsWith('/api/'))) {
          const answer = await stranger.request(method, fillPath(route, id), method === 'GET' ? {} : { body: {} });
          assertRefusal(answer, 403, 'forbidden');
          assert.doesNotMatch(answer.text, /private|secret/, `${method} ${route}`);
        }
      }
    }
  });

  test('can have its own session with the same tag', async () => {
    const same = await strangers['an access token'].openSession({ tag: '/code/private' });
    assert.notEqual(same.id, session.id);
    assert.equal(same.namespace, 'other');
    await strangers['an access token'].delete(`/api/sessions/${same.id}`);
  });
});

describe('authentication', () => {
  test('is required on every route, with WWW-Authenticate', async () => {
    const { body } = await hub.web('own').post('/api/auth', { accessToken: hub.token('own') });
    const [head, claims, signature] = body.token.split('.');
    const unsigned = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url');
    const forged = Buffer.from(JSON.stringify({ uid: 1, ns: 'own', iat: 1, exp: 9_999_999_999 })).toString('base64url');
    const invalid = [null, '', 'wrong', 'wrong:own', `${unsigned}.${claims}.`, `${head}.${forged}.${signature}`, `${head}.${claims}.`];
    // Wrong tokens are limited for each address, so each request comes from another address.
    let count = 0;
    const fromNewAddress = () => ({ 'cf-connecting-ip': `198.18.${Math.floor((count += 1) / 256)}.${count % 256}` });
    for (const token of invalid) {
      // The token of an answer is in its body.
      for (const { method, route } of ROUTES.filter(({ route }) => route !== '/api/answers')) {
        const body = method === 'GET' ? {} : { body: {} };
        const answer = await hub.web('own', token).request(method, fillPath(route, 'any'), { headers: fromNewAddress(), ...body });
        assertRefusal(answer, 401);
        assert.equal(answer.headers['www-authenticate'], 'Bearer', `${method} ${route}`);
      }
      assertRefusal(await hub.web('own', token).get('/api/events?all=true'), 401);
      assertRefusal(await hub.web('own', token).upgrade('/api/events?all=true'), 401);
    }
    for (const { method, route } of ROUTES.filter((call) => call.route.startsWith('/cli/'))) {
      const answer = await hub.web('own', body.token).request(method, fillPath(route, 'any'), method === 'GET' ? {} : { body: {} });
      assertRefusal(answer, 401);
    }
    for (const authorization of [`Basic ${hub.token('own')}`, hub.token('own'), `bearer ${hub.token('own')}`]) {
      const { status } = await hub.web('own').get('/api/sessions', { headers: { authorization } });
      assert.equal(status, authorization.startsWith('bearer ') ? 200 : 401, authorization.split(' ')[0]);
    }
    const tokenInQuery = await hub.webWithoutToken().get(`/api/sessions?token=${encodeURIComponent(hub.token('own'))}`);
    assertRefusal(tokenInQuery, 401);
  });

  test('accepts a namespace token for that namespace only', async (t) => {
    const token = `${tokenOf('tenant')}:tenant`;
    for (const target of [hub, strictHub]) {
      const web = target.web('tenant', token);
      assert.equal((await web.openSession({ tag: 'tenant' })).namespace, 'tenant');
      assert.equal((await web.get('/api/sessions')).body.sessions.length, 1);
      assert.equal((await web.post('/api/auth', { accessToken: token })).body.namespace, 'tenant');
      assertRefusal(await target.web('own', `${tokenOf('tenant')}:own`).get('/api/sessions'), 401);
      assertRefusal(await target.web('own', tokenOf('tenant')).get('/api/sessions'), 401);
      const cli = await connectCli(t, target, { namespace: 'tenant', token });
      assert.equal(cli.socket.connected, true);
    }
    for (const shared of [SECRET, `${SECRET}:tenant`]) {
      assertRefusal(await strictHub.web('tenant', shared).get('/api/sessions'), 401);
      await assert.rejects(connectCli(t, strictHub, { token: shared }), /Invalid token/);
    }
  });

  test('has a rate limit per address, with Retry-After', async (t) => {
    const limited = await startHub(t);
    const tries = await Promise.all(Array.from({ length: 60 }, () => limited.web().post('/api/auth', { accessToken: 'guess' })));
    const refused = tries.filter(({ status }) => status === 429);
    assert.ok(refused.length > 0 && refused.length < 60, `${refused.length} of 60`);
    for (const answer of refused) {
      assertRefusal(answer, 429);
      assert.ok(Number(answer.headers['retry-after']) > 0);
    }
    assert.ok(tries.every(({ status }) => status === 401 || status === 429));
    assert.equal((await limited.web().get('/api/sessions')).status, 200, 'other routes are not limited');

    const checks = await Promise.all(Array.from({ length: 60 }, () => limited.webWithoutToken().get('/health?deep=1')));
    const answered = checks.filter(({ status }) => status === 200);
    assert.ok(answered.length > 0 && answered.length < 60, `${answered.length} of 60`);
    for (const answer of checks.filter(({ status }) => status !== 200)) assertRefusal(answer, 429);
    assert.equal((await limited.webWithoutToken().get('/health')).status, 200, 'a check without the database is not limited');
  });
});

describe('every response', () => {
  test('has no-store and nosniff; /health needs no token', async () => {
    const protectiveHeaders = ({ headers }) => [headers['cache-control'], headers['x-content-type-options']];
    const health = await hub.webWithoutToken().get('/health');
    const { status, body } = health;
    assert.deepEqual([status, body.status, body.protocolVersion, typeof body.version], [200, 'ok', 1, 'string']);
    assert.deepEqual(protectiveHeaders(health), ['no-store', 'nosniff']);
    for (const place of ['/api/sessions', '/api/machines', '/nothing', '/api/nothing']) {
      assert.deepEqual(protectiveHeaders(await hub.web('own').get(place)), ['no-store', 'nosniff'], place);
    }
    const made = await hub.web('own').post('/cli/sessions', { tag: 't', metadata: { path: '/', host: 'h' } });
    assert.deepEqual([made.status, ...protectiveHeaders(made)], [200, 'no-store', 'nosniff']);
  });

  test('has CORS headers for listed origins only', async () => {
    const [listed, foreign] = ['https://console.example', 'https://evil.example'];
    for (const [target, token, method, origin, status, allowed] of /** @type {any[]} */ ([
      [hub, null, 'OPTIONS', listed, 204, listed],
      [hub, null, 'OPTIONS', foreign, 204, undefined],
      [hub, undefined, 'GET', listed, 200, listed],
      [hub, undefined, 'GET', foreign, 200, undefined],
      [hub, 'wrong', 'GET', listed, 401, listed],
      [strictHub, undefined, 'GET', listed, 401, undefined],
    ])) {
      const answer = await target.web('own', token).request(method, '/api/sessions', { headers: { origin } });
      assert.deepEqual([answer.status, answer.headers['access-control-allow-origin']], [status, allowed], `${method} from ${origin}`);
      if (allowed) assert.match(answer.headers.vary, /origin/i);
    }
  });
});

describe('a namespace with large messages', () => {
  const suite = new Lifetime();
  after(() => suite.end());

  // The local runtime reads no socket while an object awaits one query after another.
  test('lets other namespaces run between the queries that store a message', async () => {
    const { session, cli } = await liveSession(suite, largeQueriesHub, { namespace: 'loud', tag: '/code' });
    for (const text of ['x'.repeat(20_000_000), 'the next query']) await cli.sendMessage(session.id, { text });
    const { body: queries } = await largeQueriesHub.web('loud').get('/e2e/large-queries');
    assert.ok(queries.length >= 6, `20 MB are stored with several large queries: ${JSON.stringify(queries)}`);
    assert.ok(
      queries.every(({ hasYielded }) => hasYielded),
      JSON.stringify(queries),
    );
  });
});
