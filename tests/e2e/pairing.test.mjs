/** A CLI without a token pairs with the real hub: it shows a code, and a person approves it. */

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, describe, test } from 'node:test';
import { pluck } from '../../packages/cli-kit/test/support/pluck.mjs';
import { withTimeout } from '../../scripts/lib/await.mjs';
import { openFeed } from './lib/channels.mjs';
import { isReady, readConversation } from './lib/agent.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { start } from './lib/children.mjs';
import { ROOT, startHub } from './lib/hub.mjs';
import { startUnpaired } from './lib/unpaired.mjs';

const hub = await startHub({ after });

/**
 * Returns a web client of the namespace, and functions that start a CLI, approve or deny the pairing request of a CLI, and list the
 * devices.
 */
function setUp(t, namespace) {
  const options = { dir: temporaryFolder(t), home: temporaryFolder(t) };
  const web = hub.web(namespace);
  const startCli = () => startUnpaired(t, hub, options);
  const decide = async (cli, decision) => {
    const code = await cli.code();
    const { request } = (await web.get(`/api/devices/requests/${code}`)).body;
    assert.equal(request.kind, 'cli');
    assert.equal((await web.post(`/api/devices/requests/${code}`, { decision })).status, 200);
  };
  const listDevices = async () => (await web.get('/api/devices')).body.devices;
  return { web, startCli, decide, listDevices };
}

/** Runs `npm run devices`, and returns its lines. */
async function runDevices(t, namespace, ...args) {
  const script = path.join(ROOT, 'scripts', 'product', 'devices.mjs');
  const env = { CLI_API_TOKEN: hub.token(namespace), HUB_URL: hub.url };
  const { lines, exited } = start(t, 'npm run devices', process.execPath, [script, ...args], { env });
  const [code] = await exited;
  assert.equal(code, 0, lines.all.join('\n'));
  return lines.all;
}

describe('pairing', { concurrency: true }, () => {
  test('a CLI pairs and runs a command; after it was killed, it starts again without pairing', async (t) => {
    const { web, startCli, decide, listDevices } = setUp(t, 'pair');
    const first = startCli();
    await decide(first, 'approve');
    const sessionId = await first.sessionId();
    const feed = await openFeed(t, web, 'socket', { sessionId });
    const run = async (text) => {
      await web.post(`/api/sessions/${sessionId}/messages`, { text });
      await feed.next(isReady, `the end of ${text}`);
    };
    await run('echo one');
    await first.kill();

    const second = startCli();
    assert.equal(await second.sessionId(), sessionId);
    await run('echo two');
    const outputs = (await readConversation(web, sessionId)).filter((line) => line.startsWith('= '));
    assert.deepEqual(outputs, ['= one', '= two']);
    const shown = second.lines.all.filter((line) => line.includes('To connect this computer'));
    assert.deepEqual(shown, []);
    const devices = await listDevices();
    assert.deepEqual(pluck(devices, 'kind', 'isCurrent'), [['cli', false]]);
  });

  test('a CLI that is revoked ends and says why', async (t) => {
    const { web, startCli, decide, listDevices } = setUp(t, 'revoke');
    const cli = startCli();
    await decide(cli, 'approve');
    await cli.sessionId();
    const [{ id }] = await listDevices();
    assert.equal((await web.request('DELETE', `/api/devices/${id}`)).status, 200);
    const [code] = await withTimeout(cli.exited, 'the CLI to end');
    assert.equal(code, 77);
    assert.match(cli.lines.all.at(-1), /This device was removed from the hub\. To connect it again, start this program at a terminal\.$/);
    assert.deepEqual(await listDevices(), []);
  });

  test('a CLI whose request is denied ends and says so', async (t) => {
    const { startCli, decide, listDevices } = setUp(t, 'deny');
    const cli = startCli();
    await decide(cli, 'deny');
    const [code] = await cli.exited;
    assert.equal(code, 77);
    assert.match(cli.lines.all.at(-1), /The request was denied in the console\./);
    assert.deepEqual(await listDevices(), []);
  });

  test('npm run devices prints a code that adds a device, and lists, renames and revokes it', async (t) => {
    const devices = (...args) => runDevices(t, 'command', ...args);
    assert.match((await devices()).join(), /There are no devices/);
    const added = (await devices('add', '--name', 'Pocket', '--kind', 'phone')).join('\n');
    const [, code] = /\/pair#(\S+)/.exec(added);
    const redeemed = await hub.webWithoutToken().post('/api/devices', { code, name: 'Browser', kind: 'browser' });
    assert.deepEqual([redeemed.status, redeemed.body.namespace], [200, 'command']);
    const { id } = redeemed.body.device;
    const [titles, row, ...others] = await devices('list');
    assert.match(titles, /^ID +KIND +LAST SEEN \(UTC\) +ADDED \(UTC\) +NAME$/);
    assert.match(row, new RegExp(`^${id.slice(0, 8)}  phone .* Pocket$`));
    assert.deepEqual(others, []);
    assert.deepEqual(await devices('rename', id.slice(0, 8), 'My', 'pocket'), ['Renamed Pocket to My pocket.']);
    assert.deepEqual(await devices('revoke', id), ['Revoked My pocket: it is signed out.']);
    assert.match((await devices()).join(), /There are no devices/);
  });
});
