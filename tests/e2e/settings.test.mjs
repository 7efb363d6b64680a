/** Settings of a deployment: one that is not understood is told at once, by name, and nothing is guessed. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { namespaceToken } from '../../scripts/lib/dev-vars.mjs';
import { HubRefusedError, waitUntilReady } from '../../scripts/lib/ready.mjs';
import { liveSession } from './lib/cli.mjs';
import { SECRET, startHub } from './lib/hub.mjs';

const TOKENS = [SECRET, namespaceToken(SECRET, 'default')];

/** What `npm run dev` does with a hub that it has started: finds the token that opens it, or says why none does. */
const ready = ({ url }) => waitUntilReady(url, { tokens: TOKENS, timeoutMs: 60_000, check: () => {}, fileOf: () => '.dev.vars' });

const WRONG = {
  CLI_API_TOKEN: [' ', 'x'.repeat(960)],
  JWT_SECRET: ['too short'],
  NAMESPACE_ROUTING: ['hosts'],
  CORS_ORIGINS: ['console.example'],
  REQUIRE_NAMESPACE_TOKENS: ['yes'],
  RPC_TIMEOUT_MS: ['30s', 0.5],
  VAPID_SUBJECT: ['ops@example.org'],
  VAPID_PRIVATE_KEY: ['x'],
  PUSH_MAX_SUBSCRIPTIONS: [0, 'many'],
  PUSH_ALLOW_INSECURE: ['yes'],
  VOCABULARY: ['none'],
};

for (const [name, values] of Object.entries(WRONG)) {
  for (const value of values) {
    test(`${name} cannot be ${JSON.stringify(value).slice(0, 20)}, and every request is told so, as is \`npm run dev\``, async (t) => {
      const hub = await startHub({ vars: { [name]: value }, schema: false });
      t.after(() => hub.stop());
      for (const path of ['/health', '/api/sessions']) {
        const { status, body } = await hub.web().get(path);
        assert.deepEqual([status, body.code], [503, 'not_configured']);
        assert.ok(body.error.includes(name), body.error);
      }
      await assert.rejects(ready(hub), (error) => error instanceof HubRefusedError && error.message.includes(name));
    });
  }
}

test('a hub without its rate limit does not serve as if it had one', async (t) => {
  const hub = await startHub({ rateLimit: false, schema: false });
  t.after(() => hub.stop());
  for (const path of ['/health', '/api/sessions']) {
    const { status, body } = await hub.web().get(path);
    assert.deepEqual([status, body.code], [503, 'not_configured']);
    assert.match(body.error, /AUTH_RATE_LIMIT.*wrangler\.toml/);
  }
});

test('numbers and truth values may stand in wrangler.toml as such', async (t) => {
  const hub = await startHub({ vars: { RPC_TIMEOUT_MS: 1500, REQUIRE_NAMESPACE_TOKENS: true } });
  t.after(() => hub.stop());
  assert.equal((await hub.web(undefined, null).get('/health')).status, 200);
  assert.equal((await hub.web().get('/api/sessions')).status, 401, 'the shared secret opens nothing');
  assert.equal(await ready(hub), TOKENS[1], '`npm run dev` finds the token that does');
});

test('`npm run dev` does not wait for a hub whose database has no schema, and says what to run', async (t) => {
  const hub = await startHub({ schema: false });
  t.after(() => hub.stop());
  await assert.rejects(ready(hub), (error) => error instanceof HubRefusedError && /no schema yet.*migrations apply/.test(error.message));
  await hub.migrate();
  assert.equal(await ready(hub), TOKENS[0]);
});

test('an alarm that rings under broken settings rings again, and costs the namespace nothing', async (t) => {
  // A call that is open for a second is an alarm in a second.
  const vars = { RPC_TIMEOUT_MS: 1000 };
  const hub = await startHub({ vars });
  t.after(() => hub.stop());
  const { session, cli } = await liveSession(t, hub, { namespace: 'kept', tag: 'kept' });
  await cli.serve('listSkills', () => ({ success: true, skills: [] }));
  assert.equal((await hub.web('kept').get(`/api/sessions/${session.id}/skills`)).status, 200);
  await hub.restart({ ...vars, VOCABULARY: 'none' });
  for (const ring of ['first', 'second']) {
    await hub.stderr.next((text) => text.includes('VOCABULARY'), `the ${ring} alarm`);
    assert.ok(hub.storageTables().flat().includes('notes'), `the notebook is there after the ${ring} alarm`);
  }
  await hub.restart(vars);
  const kept = await hub.web('kept').get(`/api/sessions/${session.id}`);
  assert.equal(kept.body.session.active, true, 'its clock goes on');
});
