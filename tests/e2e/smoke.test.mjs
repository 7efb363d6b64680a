/** `npm run smoke` passes on a working hub, reports the faults of a broken hub, and leaves no sessions. */

import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { freePort, start } from './lib/children.mjs';
import { liveSession } from '../../scripts/product/clients/cli.mjs';
import { ROOT, startHub } from './lib/hub.mjs';
import { startPrefixProxy } from './lib/prefix-proxy.mjs';

const SCRIPT = path.join(ROOT, 'scripts', 'product', 'smoke.mjs');

const hub = await startHub({ after });

/** Runs the command. @returns {Promise<{code: number, stdout: string, stderr: string}>} */
function runSmoke(...args) {
  return new Promise((resolve) => {
    execFile(process.execPath, [SCRIPT, ...args], (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }));
  });
}

/** The ids of a namespace's sessions, with archived ones. */
async function sessionIds(target, namespace) {
  const { body } = await target.web(namespace).get('/api/sessions?archived=include');
  return body.sessions.map(({ id }) => id);
}

/** The results by check, and the details of failed checks. */
function summarizeChecks({ checks }) {
  const results = Object.fromEntries(checks.map(({ name, result }) => [name, result]));
  const reasons = Object.fromEntries(checks.filter(({ result }) => result === 'failed').map(({ name, detail }) => [name, detail]));
  return { results, reasons };
}

const ALL = [
  'health',
  'sign-in',
  'timing',
  'cli',
  'rpc',
  'messages',
  'history',
  'upload',
  'events',
  'sleep',
  'replay',
  'reconnect',
  'clean-up',
];

const QUICK = ALL.filter((name) => !['messages', 'history', 'upload', 'sleep', 'reconnect'].includes(name));

describe('npm run smoke', { concurrency: true }, () => {
  // deploy-variants.test.mjs runs all checks.
  test('passes on a working hub under a prefix, measures it, and leaves other sessions of the namespace unchanged', async (t) => {
    const web = hub.web('used');
    const other = await web.openSession({ tag: 'other' });
    const { url } = await startPrefixProxy(t, hub);
    const { code, stdout, stderr } = await runSmoke('--hub', url, '--token', hub.token('used'), '--quick', '--json');
    assert.equal(code, 0, stdout + stderr);
    const report = JSON.parse(stdout);
    assert.deepEqual(summarizeChecks(report).results, Object.fromEntries(QUICK.map((name) => [name, 'ok'])));
    const findCheck = (name) => report.checks.find((found) => found.name === name);
    assert.ok(findCheck('rpc').p50 <= findCheck('rpc').p99);
    assert.deepEqual(Object.keys(findCheck('timing').server), ['worker', 'object', 'd1', 'batches']);
    assert.deepEqual(report.regions, { worker: [], d1: [] }, 'the local runtime has no regions');
    assert.deepEqual(await sessionIds(hub, 'used'), [other.id]);
    assert.deepEqual(await web.readSession(other.id), other);
  });

  test('reports that a hub has no Server-Timing and no answers to calls', async (t) => {
    const degraded = await startHub(t, { wrappers: ['degraded.worker.js'], vars: { RPC_TIMEOUT_MS: 1000 } });
    const { code, stdout, stderr } = await runSmoke('--hub', degraded.url, '--token', degraded.token('degraded'));
    assert.equal(code, 1, stdout + stderr);
    assert.match(stdout, /^ {2}timing: .*older than this script: deploy the current version\.$/m);
    assert.match(stdout, /^ {2}rpc: The hub did not answer call 1 to the CLI: RPC timed out: listSlashCommands\.$/m);
    assert.match(stdout, /^ {2}sleep: needs timing$/m);
    assert.match(stdout, /^FAILED: 2 of 13 checks, in \d+ s\.$/m);
    assert.match(stdout, /^messages +ok +5000 /m, 'the other checks are made');
    assert.deepEqual(await sessionIds(degraded, 'degraded'), []);
  });

  test('says that the token is wrong', async () => {
    const { code, stdout } = await runSmoke('--hub', hub.url, '--token', 'wrong token', '--json');
    const { results, reasons } = summarizeChecks(JSON.parse(stdout));
    assert.equal(code, 1);
    assert.match(reasons['sign-in'], /does not accept the token.*CLI_API_TOKEN/);
    const skipped = ALL.filter((name) => results[name] === 'skipped');
    assert.deepEqual(skipped, ALL.slice(2, -1), 'nothing else is tried');
  });

  test('says that the hub cannot be reached', async () => {
    const { code, stdout } = await runSmoke('--hub', `http://127.0.0.1:${await freePort()}`, '--token', 'any');
    assert.equal(code, 1);
    assert.match(stdout, /^ {2}health: No answer to GET \/health: connect ECONNREFUSED/m);
    assert.match(stdout, /^FAILED: 1 of 13 checks/m);
  });

  test('removes its sessions when it is interrupted', async (t) => {
    const bystander = await liveSession(t, hub, { namespace: 'interrupted', tag: 'bystander' });
    const smoke = start(t, 'the smoke test', process.execPath, [SCRIPT, '--hub', hub.url, '--token', hub.token('interrupted')]);
    await smoke.lines.next((line) => line.includes('✓ rpc'), 'the check of calls', 60_000);
    assert.equal((await sessionIds(hub, 'interrupted')).length, 2);
    smoke.interrupt();
    assert.deepEqual(await smoke.exited, [130, null]);
    assert.deepEqual(await sessionIds(hub, 'interrupted'), [bystander.session.id]);
    assert.equal(bystander.cli.socket.connected, true);
  });

  test('removes its sessions when its output is closed', async (t) => {
    const smoke = spawn(process.execPath, [SCRIPT, '--hub', hub.url, '--token', hub.token('closed')]);
    t.after(() => smoke.kill());
    const exited = once(smoke, 'exit');
    let text = '';
    for await (const chunk of smoke.stderr) {
      text += chunk;
      if (text.includes('✓ rpc')) break;
    }
    assert.equal((await sessionIds(hub, 'closed')).length, 1);
    smoke.stdout.destroy();
    assert.deepEqual(await exited, [141, null]);
    assert.deepEqual(await sessionIds(hub, 'closed'), []);
  });

  test('refuses a command line without a hub or token', async () => {
    for (const [args, message] of /** @type {any[]} */ ([
      [['--hub', 'hub.example.com'], /must be a URL/],
      [['--hub', 'https://hub.example.com/settings'], /a page of the console/],
      [['--hub', 'https://hub.example.com'], /no access token/],
    ])) {
      const { code, stderr } = await runSmoke(...args);
      assert.equal(code, 2);
      assert.match(stderr, message);
    }
  });
});
