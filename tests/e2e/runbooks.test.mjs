/**
 * The runbooks of docs/OPERATIONS.md: each command is typed in a shell, and prints what the page promises. npm is a mock that runs the
 * npm package; wrangler is real; the platform is a fake, which runs uploads and secrets on a real hub. The test of the first
 * day deploys the hub that all later tests use.
 */

import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { eventually } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { parseDevVars } from '../../packages/cli-kit/src/dev-vars.mjs';
import { hashOfNamespace } from '../../scripts/product/namespace/list.mjs';
import { Operator, readVars, runbooks } from './lib/runbooks.mjs';

const TEAM = 'team-a';
const BACKUP = 'npm run wrangler -- d1 export DB --remote --output ~/hub-backups/$(date +%F).sql';
const STATUS = "CLI_API_TOKEN='<the token of team-a>' npm run status -- --hub https://hub.example.com";
const SMOKE = "CLI_API_TOKEN='<the token of smoke>' npm run smoke -- --hub https://hub.example.com --quick";
const DELETE = "CLI_API_TOKEN='<the secret>' npm run namespace -- delete team-a --hub https://hub.example.com";
const REVOKE = "CLI_API_TOKEN='<the secret>' npm run -s token -- team-a --revoke --hub https://hub.example.com";
const REVOKE_WITH_NEW_SECRET = REVOKE.replace('<the secret>', '<the new secret>');
const DEEP_HEALTH = "curl -sS 'https://hub.example.com/health?deep=1'";

const operator = await Operator.start({ after });
const { hub } = operator;

/** Returns steps for commands that need no preparation and no further check. @param {...string} commands */
const plainSteps = (...commands) => Object.fromEntries(commands.map((command) => [command, {}]));

/** Opens a session of a namespace, with its CLI. */
const openSession = async (t, tag, namespace = TEAM) => liveSession(t, await operator.hubOf(namespace), { tag });

/** Sends a message as a web client. @returns the status and the error code of the answer */
async function send(sessionId, text = 'x'.repeat(900)) {
  const web = operator.web(await operator.tokenOf(TEAM));
  const { status, body } = await web.post(`/api/sessions/${sessionId}/messages`, { text });
  return [status, body.code];
}

/** How long the worker believes what it knows about a token. */
const TOKEN_CACHE_MS = 10_000;

/** Advances the clock until `test` returns true. The worker believes a token again if the check after 10 s is slow. */
const eventuallyAfterCheck = (test, what) =>
  eventually(async () => {
    await hub.advance(TEAM, TOKEN_CACHE_MS);
    return test();
  }, what);

const waitUntilEmpty = () => eventuallyAfterCheck(async () => (await readSessions())?.length === 0, 'the deletion of the namespace');

/** Reads the sessions of the tenant. */
async function readSessions() {
  const { body } = await operator.web(await operator.tokenOf(TEAM)).get('/api/sessions');
  return body.sessions;
}

const isRefused = async (token) => (await operator.web(token).get('/api/sessions')).status === 401;

const waitForRefusal = (token) => eventuallyAfterCheck(() => isRefused(token), 'the refusal of the token');

test('every runbook is followed by a test', () => {
  const source = readFileSync(new URL(import.meta.url), 'utf8');
  const followed = [...source.matchAll(/^ {2}await follow\(t, '([^']+)'/gm)].map(([, heading]) => heading);
  assert.deepEqual(followed.sort(), runbooks().sort());
});

const follow = (t, heading, steps) => operator.follow(t, heading, steps);

test('the first day: a hub with limits, metrics and a backup', async (t) => {
  const random = [];
  const deployments = [];
  await follow(t, 'The first day', {
    'npm run deploy': {
      before: () => deployments.length === 1 && operator.setVars(readVars('The first day')),
      after: (output) => deployments.push(output),
    },
    'openssl rand -hex 24': {
      after: (output) => {
        random.push(output.trim());
        operator.placeholders['the metrics token'] = output.trim();
      },
    },
    'npm run wrangler -- secret put METRICS_TOKEN': { input: () => random.at(-1) },
    "curl -sS -H 'Authorization: Bearer <the metrics token>' https://hub.example.com/metrics": { before: () => hub.web().get('/health') },
    'mkdir -p -m 700 ~/hub-backups': {},
    [BACKUP]: { before: () => operator.copyDatabase() },
    ...plainSteps(SMOKE, STATUS),
  });
  assert.equal(deployments.length, 2);
  assert.ok(deployments[0].includes(operator.secret));
  assert.ok(await isRefused(`${operator.secret}:${TEAM}`), 'the limits have an effect');
  const backup = path.join(operator.home, 'hub-backups', `${new Date().toISOString().slice(0, 10)}.sql`);
  assert.equal(statSync(backup).mode & 0o777, 0o600);
  assert.match(readFileSync(backup, 'utf8'), /CREATE TABLE sessions/);
});

test('before typing: the token and the hash of a namespace, and whether the hub and its database answer', async (t) => {
  await openSession(t, 'before');
  await follow(t, 'Before you type', {
    "CLI_API_TOKEN='<the secret>' npm run -s token -- team-a --hub https://hub.example.com": {
      after: async (output) => assert.equal(output.trim(), await operator.tokenOf(TEAM)),
    },
    'npm run namespace -- list --remote': {
      before: () => operator.copyDatabase(),
      after: (output) => assert.match(output, new RegExp(`team-a +${hashOfNamespace(TEAM)}`)),
    },
    [DEEP_HEALTH]: {},
  });
});

test('the database is down: the log says so, and waiting messages are stored afterwards', async (t) => {
  const { session, cli } = await openSession(t, 'down');
  /** @type {Promise<any> | undefined} */
  let message;
  await follow(t, 'The database is down', {
    [DEEP_HEALTH]: {
      before: async () => {
        await hub.stall('failing');
        message = cli.sendMessage(session.id, 'waits');
        const isStalled = () => hub.logLines().some(({ event }) => event === 'database-stalled');
        await hub.advanceUntil(eventually(isStalled, 'the line about the stall'), TEAM, 1_000);
      },
    },
    'npm run wrangler -- d1 execute DB --remote --command "SELECT 1"': {},
    'npm run wrangler -- tail --format json --search database-': {
      after: async (output) => {
        assert.match(output, /database-stalled/);
        assert.doesNotMatch(output, /"sign-in-refused/);
        await hub.endStall();
      },
    },
  });
  assert.equal((await message)?.ok, true);
  const hasRecovered = () => hub.logLines().some(({ event }) => event === 'database-recovered');
  await eventually(hasRecovered, 'the line about the recovery');
});

test('a quota is full: the status says so, and a larger quota accepts messages again', async (t) => {
  let id;
  await follow(t, 'A quota is full', {
    [STATUS]: {
      before: async () => {
        operator.setVars({ ...readVars('The first day'), NAMESPACE_MAX_BYTES: '100000' });
        await operator.deploy();
        ({ id } = (await openSession(t, 'full')).session);
        let answer = [200];
        for (let n = 0; n < 200 && answer[0] === 200; n += 1) answer = await send(id);
        assert.equal(answer[1], 'storage_full');
      },
    },
    'npm run deploy': {
      before: () => operator.setVars(readVars('The first day')),
      after: async () => {
        // The deployment has ended the connection of the CLI.
        await openSession(t, 'full');
        assert.deepEqual(await send(id), [200, undefined]);
      },
    },
    'npm run wrangler -- d1 info DB': { after: (output) => assert.match(output, /database_size/) },
    [largestTenantsCommand()]: { before: () => operator.copyDatabase(), after: (output) => assert.match(output, /team-a/) },
    [DELETE]: { input: () => TEAM, after: waitUntilEmpty },
  });
});

test('a token leaked: the token is revoked, with everything that was made with it', async (t) => {
  const random = [];
  const leaked = { token: await operator.tokenOf(TEAM), secret: '' };
  const addDevice = async () => {
    const { code } = (await operator.web(await operator.tokenOf(TEAM)).post('/api/devices/codes', {})).body;
    return (await hub.webWithoutToken().post('/api/devices', { code, name: 'lost phone', kind: 'browser' })).body;
  };
  let device;
  let version;
  await follow(t, 'A token leaked', {
    [REVOKE]: { after: () => waitForRefusal(leaked.token) },
    "CLI_API_TOKEN='<the token of team-a>' npm run devices -- --hub https://hub.example.com": {
      before: async () => {
        device = await addDevice();
        operator.placeholders['the id'] = device.device.id.slice(0, 8);
      },
      after: (output) => assert.match(output, new RegExp(`^${operator.placeholders['the id']} .*lost phone`, 'm')),
    },
    "CLI_API_TOKEN='<the token of team-a>' npm run devices -- revoke <the id> --hub https://hub.example.com": {
      after: () => waitForRefusal(device.token),
    },
    'openssl rand -hex 24': { after: (output) => random.push(output.trim()) },
    'npm run wrangler -- secret put CLI_API_TOKEN': {
      before: async () => {
        device = await addDevice();
        leaked.secret = operator.secret;
      },
      input: () => random[0],
      after: async () => assert.equal(operator.secret, random[0]),
    },
    'npm run wrangler -- secret put JWT_SECRET': { input: () => random[1] },
    'npm run wrangler -- secret list': { after: (output) => assert.match(output, /JWT_SECRET/) },
    'npm run wrangler -- secret delete CLI_API_TOKEN_PREVIOUS': {
      before: () => operator.worker.secrets.set('CLI_API_TOKEN_PREVIOUS', leaked.secret),
      after: async () => {
        const { status } = await operator.web(leaked.secret).get('/api/namespaces/generation');
        assert.equal(status, 401);
      },
    },
    'npm run namespace -- list --remote': { before: () => operator.copyDatabase() },
    [REVOKE_WITH_NEW_SECRET]: {
      before: async () => assert.equal(await isRefused(device.token), false, 'the device does not depend on the secret'),
      after: () => waitForRefusal(device.token),
    },
    'npm run wrangler -- deployments list': {
      before: () => (version = operator.worker.active),
      after: (output) => assert.ok(output.includes(version), output),
    },
  });
});

test('a tenant floods the hub: the tenant is found, slowed down and disconnected', async (t) => {
  const { session, cli } = await openSession(t, 'flood');
  await openSession(t, 'quiet', 'team-b');
  let token;
  await follow(t, 'A tenant floods the hub', {
    [floodCommand()]: {
      before: async () => {
        for (let n = 0; n < 20; n += 1) await cli.sendMessage(session.id, `flood ${n}`);
        operator.copyDatabase();
      },
      after: (output) => assert.match(output, /team-a/),
    },
    'npm run wrangler -- tail --format json --search <the hash>': {
      before: async () => {
        const web = operator.web(await operator.tokenOf(TEAM));
        await web.get('/api/sessions/none');
        await eventually(() => hub.logLines().some(({ namespace, status }) => namespace && status === 404), 'the line');
      },
      after: (output) => assert.ok(output.includes(hashOfNamespace(TEAM)), output),
    },
    'npm run deploy': {
      before: () => operator.setVars({ ...readVars('The first day'), NAMESPACE_MAX_MESSAGES_PER_MINUTE: '5' }),
      after: async () => {
        const isActive = async () => (await readSessions()).some(({ id, active }) => id === session.id && active);
        await eventually(isActive, 'the session to be active after the deployment');
        const answers = [];
        for (let n = 0; n < 7; n += 1) answers.push(await send(session.id, `slow ${n}`));
        assert.deepEqual([answers[0][0], answers.at(-1)[1]], [200, 'too_many_messages']);
        token = await operator.tokenOf(TEAM);
      },
    },
    [REVOKE]: { after: () => waitForRefusal(token) },
  });
});

test('a bad deployment: the earlier version gets the requests again', async (t) => {
  let good;
  await follow(t, 'A bad deployment', {
    'npm run wrangler -- deployments list': {
      before: async () => {
        operator.setVars(readVars('The first day'));
        await operator.deploy();
        good = operator.worker.active;
        operator.placeholders['the version'] = good;
        await operator.deploy();
        assert.notEqual(operator.worker.active, good);
      },
      after: (output) => {
        const [last, earlier] = [operator.worker.active, good].map((version) => output.lastIndexOf(version));
        assert.ok(earlier > 0 && last > earlier, output);
      },
    },
    'npm run wrangler -- rollback <the version>': { after: () => assert.equal(operator.worker.active, good) },
    [SMOKE]: {},
  });
});

test('a restore of one tenant: a hub on a copy of the database has what the backup has', async (t) => {
  const { session, cli } = await openSession(t, 'precious');
  await cli.sendMessage(session.id, 'to be restored');
  operator.copyDatabase();
  const terminal = operator.openTerminal(t);
  // Only a session that has ended can be deleted.
  await cli.emitWithAck('session-end', { sid: session.id, time: Date.now() });
  cli.socket.disconnect();
  const { code, output } = await terminal.run(BACKUP, { timeoutMs: 240_000 });
  assert.equal(code, 0, output);
  const deleted = await operator.web(await operator.tokenOf(TEAM)).delete(`/api/sessions/${session.id}`);
  assert.equal(deleted.status, 200, deleted.text);
  await follow(t, 'Restore one tenant', {
    ...plainSteps(
      'mkdir -m 700 ~/hub-restored',
      'export HUB_STATE_DIR=~/hub-restored',
      'npm run split-backup -- ~/hub-backups/2026-01-31.sql',
      'npm run wrangler -- d1 execute DB --local --file ~/hub-backups/2026-01-31-split.sql',
      'unset CLI_API_TOKEN',
    ),
    'npm run dev -- --port 8788': { runsUntil: 'The hub is running' },
    'HUB_STATE_DIR=~/hub-restored npm run namespace -- list': {
      after: async () => {
        const secret = parseDevVars(readFileSync(operator.copy.devVars, 'utf8')).CLI_API_TOKEN;
        const headers = { authorization: `Bearer ${secret}:${TEAM}` };
        const response = await fetch(`${operator.copy.url}/api/sessions/${session.id}/messages`, { headers });
        assert.match(await response.text(), /to be restored/);
      },
    },
    'npm run namespace -- export team-a --output ~/hub-backups/team-a.jsonl --hub http://127.0.0.1:8788': {},
    "CLI_API_TOKEN='<the secret>' npm run namespace -- export team-a --output ~/hub-backups/team-a-before.jsonl --hub https://hub.example.com":
      {},
    [DELETE]: { input: () => TEAM, after: waitUntilEmpty },
    "CLI_API_TOKEN='<the secret>' npm run namespace -- import ~/hub-backups/team-a.jsonl --hub https://hub.example.com": {
      after: async () => assert.ok((await readSessions()).some(({ id }) => id === session.id)),
    },
    [STATUS]: {},
    'rm -r ~/hub-restored ~/hub-backups/2026-01-31-split.sql': {
      endsBackground: true,
      after: () => assert.equal(existsSync(path.join(operator.home, 'hub-restored')), false),
    },
  });
});

/** Returns the command that lists the tenants with the most bytes. */
function largestTenantsCommand() {
  return 'npm run wrangler -- d1 execute DB --remote --command "SELECT namespace, sum(bytes) AS bytes FROM sessions JOIN messages ON session_id = coalesce(history, sessions.id) WHERE namespace NOT LIKE \'//%\' GROUP BY namespace ORDER BY bytes DESC LIMIT 10"';
}

/** Returns the command that lists the tenants that have written the most messages. */
function floodCommand() {
  return 'npm run wrangler -- d1 execute DB --remote --command "SELECT namespace, count(*) AS messages FROM sessions JOIN messages ON session_id = coalesce(history, sessions.id) WHERE sessions.active = 1 AND messages.created_at > unixepoch() * 1000 - 600000 GROUP BY namespace ORDER BY messages DESC LIMIT 5"';
}
