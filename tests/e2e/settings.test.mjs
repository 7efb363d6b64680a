/** With an invalid setting, every request fails with an error that names the setting. The hub never falls back to a default. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { namespaceToken } from '../../scripts/lib/dev-vars.mjs';
import { HubRefusedError, waitUntilReady } from '../../scripts/product/hub/ready.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { CLOCK_WORKER, KV_TABLE, SECRET, VARIABLES_WORKER, startHub } from './lib/hub.mjs';

const NAMESPACE_TOKEN = namespaceToken(SECRET, 'default');

/** Waits until a hub accepts a token, like `npm run dev`, and returns the token. */
const waitForToken = ({ url }) =>
  waitUntilReady(url, { tokens: [SECRET, NAMESPACE_TOKEN], timeoutMs: 60_000, assertRunning: () => {}, settingFileOf: () => '.dev.vars' });

const INVALID = {
  CLI_API_TOKEN: [' ', 'x'.repeat(960)],
  CLI_API_TOKEN_PREVIOUS: ['x'.repeat(960)],
  JWT_SECRET: ['too short'],
  JWT_SECRET_PREVIOUS: ['x'.repeat(32)],
  NAMESPACE_ROUTING: ['hosts'],
  CORS_ORIGINS: ['console.example'],
  REQUIRE_NAMESPACE_TOKENS: ['yes'],
  RPC_TIMEOUT_MS: ['30s', 0.5],
  LOG_LEVEL: ['verbose'],
  LOG_SAMPLE_RATE: ['1%', 2],
  METRICS_TOKEN: ['short'],
  VAPID_SUBJECT: ['ops@example.org'],
  VAPID_PRIVATE_KEY: ['x'],
  PUSH_MAX_SUBSCRIPTIONS: [0, 'many'],
  PUSH_ALLOW_INSECURE: ['yes'],
  VOCABULARY: ['none', 'preset:omega', '{"flavors": {}}', { agents: { 'zeta-coder': 'omega' } }],
  NAMESPACE_MAX_BYTES: [0, '10 GB'],
  NAMESPACE_MAX_SESSIONS: [20_001],
  NAMESPACE_MAX_MESSAGES_PER_MINUTE: [1.5],
  MESSAGE_RETENTION_DAYS: ['-1'],
  ARCHIVED_SESSION_RETENTION_DAYS: ['30d'],
  FORBID_MODES: ['yolo bypassPermissions', ['yolo']],
  HUB_LOCATION: ['europe'],
  // The local runtime does not support jurisdictions, so a hub with a jurisdiction does not start.
  HUB_JURISDICTION: ['uk', 'eu'],
};

const NO_RATE_LIMIT = { AUTH_RATE_LIMIT: null };

test('with an invalid setting, every request and `npm run dev` fail', async (t) => {
  const hub = await startHub(t, { wrappers: VARIABLES_WORKER, schema: false });
  const cases = Object.entries(INVALID).flatMap(([name, values]) => values.map((value) => [name, { [name]: value }]));
  for (const [name, variables] of /** @type {[string, Record<string, unknown>][]} */ ([...cases, ['AUTH_RATE_LIMIT', NO_RATE_LIMIT]])) {
    await hub.setVariables(variables);
    for (const path of ['/health', '/api/sessions']) {
      const { status, body } = await hub.web().get(path);
      assert.deepEqual([status, body.code], [503, 'not_configured'], JSON.stringify(variables));
      assert.ok(body.error.includes(name), body.error);
    }
    await assert.rejects(waitForToken(hub), (error) => error instanceof HubRefusedError && error.message.includes(name));
  }
  await hub.setVariables({});
  assert.equal((await hub.web().get('/health')).status, 200);
});

test('settings in wrangler.toml may be numbers and booleans', async (t) => {
  const hub = await startHub(t, { vars: { RPC_TIMEOUT_MS: 1500, REQUIRE_NAMESPACE_TOKENS: true } });
  assert.equal((await hub.webWithoutToken().get('/health')).status, 200);
  assert.equal((await hub.web().get('/api/sessions')).status, 401, 'the shared secret is not accepted');
  assert.equal(await waitForToken(hub), NAMESPACE_TOKEN, '`npm run dev` finds the accepted token');
});

for (const toSetting of [JSON.stringify, (table) => table]) {
  const form = toSetting({}) === '{}' ? 'JSON text' : 'a table in wrangler.toml';
  test(`VOCABULARY may be ${form}`, async (t) => {
    const vocabulary = { agents: { 'zeta-coder': 'alpha' }, models: { swift: 'model_fast' }, methods: { configure: 'set-session-config' } };
    const hub = await startHub(t, { vars: { VOCABULARY: toSetting(vocabulary) } });
    const { session, cli } = await liveSession(t, hub, { tag: 'vocabulary', metadata: { flavor: 'zeta-coder' } });
    const received = [];
    await cli.serve('configure', ({ modelMode }) => {
      received.push(modelMode);
      return { applied: { modelMode } };
    });
    const { status, text } = await hub.web().post(`/api/sessions/${session.id}/model`, { model: 'model_fast' });
    assert.equal(status, 200, text);
    assert.deepEqual([received, (await hub.web().readSession(session.id)).modelMode], [['swift'], 'swift']);
  });
}

test('FORBID_MODES is enforced by the worker that reads it from wrangler.toml', async (t) => {
  const hub = await startHub(t, { vars: { FORBID_MODES: 'bypassPermissions,yolo' } });
  const { body: config } = await hub.web().get('/api/config');
  assert.equal(config.forbiddenModes, 'bypassPermissions,yolo');
  assert.equal(
    config.agents.some(({ modes }) => modes.some(({ neverAsks }) => neverAsks)),
    false,
  );
  const { session } = await liveSession(t, hub, { tag: 'forbidden' });
  const { status, body } = await hub.web().post(`/api/sessions/${session.id}/permission-mode`, { mode: 'bypassPermissions' });
  assert.deepEqual([status, body.code, body.field], [400, 'mode_forbidden', 'mode']);
});

test('during a rotation the previous secrets are accepted, by the worker and by the objects', async (t) => {
  const [oldKey, newKey] = ['a'.repeat(32), 'b'.repeat(32)];
  const hub = await startHub(t, { vars: { JWT_SECRET: oldKey } });
  const { body } = await hub.webWithoutToken().post('/api/auth', { accessToken: SECRET });
  const statusWithJwt = async () => (await fetch(`${hub.url}/api/sessions`, { headers: { authorization: `Bearer ${body.token}` } })).status;

  await hub.restart({ CLI_API_TOKEN: 'the new token', CLI_API_TOKEN_PREVIOUS: SECRET, JWT_SECRET: newKey, JWT_SECRET_PREVIOUS: oldKey });
  await liveSession(t, hub, { tag: 'rotation' });
  assert.equal((await hub.web().get('/api/sessions')).body.sessions.length, 1);
  assert.equal(await statusWithJwt(), 200);

  await hub.restart({ CLI_API_TOKEN: 'the new token', JWT_SECRET: newKey });
  assert.equal((await hub.web().get('/api/sessions')).status, 401);
  assert.equal(await statusWithJwt(), 401);
});

test('a hub with a location hint serves as any other', async (t) => {
  const hub = await startHub(t, { vars: { HUB_LOCATION: 'weur' } });
  assert.equal((await hub.web().get('/api/sessions')).status, 200);
});

test('`npm run dev` fails at once if the database has no schema, and says what to run', async (t) => {
  const hub = await startHub(t, { schema: false });
  await assert.rejects(
    waitForToken(hub),
    (error) => error instanceof HubRefusedError && /no schema yet.*migrations apply/.test(error.message),
  );
  await hub.migrate();
  assert.equal(await waitForToken(hub), SECRET);
});

test('an alarm that fires with invalid settings fires again later, and no data is lost', async (t) => {
  // The call below sets an alarm for its timeout, in one second.
  const vars = { RPC_TIMEOUT_MS: 1000 };
  const hub = await startHub(t, { vars, wrappers: CLOCK_WORKER });
  const { session, cli } = await liveSession(t, hub, { namespace: 'alarm', tag: 'alarm' });
  await cli.serve('listSkills', () => ({ success: true, skills: [] }));
  assert.equal((await hub.web('alarm').get(`/api/sessions/${session.id}/skills`)).status, 200);
  await hub.restart({ ...vars, VOCABULARY: 'none' });
  for (const count of ['first', 'second']) {
    await hub.advance('alarm', 10_000);
    const text = await hub.stderr.next((text) => text.includes('VOCABULARY'), `the ${count} alarm`);
    assert.match(text, /"level":"error","event":"alarm-delayed"/);
    assert.ok(hub.storageTables().flat().includes(KV_TABLE), `the object's storage is there after the ${count} alarm`);
  }
  await hub.restart(vars);
  const response = await hub.web('alarm').get(`/api/sessions/${session.id}`);
  assert.equal(response.body.session.active, true);
});
