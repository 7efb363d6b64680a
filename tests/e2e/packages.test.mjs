/**
 * The npm packages, as a person with only Node and git uses the packages. The tarballs are installed into an empty folder, npx starts
 * the hub, and an agent reaches its first approval.
 */

import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, statSync } from 'node:fs';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { homedir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { writeScriptedAgent } from '../../cli/test/support/setup.mjs';
import { findProgram } from '../../packages/cli-kit/src/find-program.mjs';
import { TIMEOUT_MS, eventually, withTimeout } from '../../scripts/lib/await.mjs';
import { findUpToDateBuild } from '../../scripts/build/build.mjs';
import { hashOfNamespace } from '../../scripts/product/namespace/list.mjs';
import { AGENT_FILES, HUB_FILES, KIT_FOLDER, SHRINKWRAP } from '../../scripts/dev/package/files.mjs';
import { packAgent, packHub } from '../../scripts/dev/package/staging.mjs';
import { npm } from '../../scripts/lib/npm.mjs';
import { ROOT } from '../../scripts/lib/paths.mjs';
import { openFeed } from './lib/channels.mjs';
import { isReady, readConversation } from './lib/agent.mjs';
import { freePort } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { Lifetime } from './lib/lifetime.mjs';
import { unregisteredDependencies } from './lib/package-contents.mjs';
import { Computer } from './lib/packages.mjs';

/** Limits of the tarballs in bytes. */
const MAX_HUB_BYTES = 4_000_000;
const MAX_AGENT_BYTES = 300_000;

/** The size of the small disk. The data of a new hub need 1 MB. */
const DISK_BYTES = 6 * 1024 * 1024;

/** Whether a file is one of the listed files, or in a listed folder. */
const isListed = (file, listed) => listed.some((entry) => file === entry || file.startsWith(`${entry}/`));

const newSession = (tag) => ({ tag, metadata: { path: tag, host: 'laptop' } });

/** Returns why the packages cannot be installed here. With REQUIRE_PACKAGES, the tests are not skipped, but fail. */
async function skipReason() {
  if (process.platform === 'win32')
    return 'They send POSIX signals, and `Computer` creates symbolic links, which need a privilege on Windows.';
  if (process.env.REQUIRE_PACKAGES) return undefined;
  return npm(['view', 'wrangler', 'version']).then(
    () => undefined,
    () => 'npm cannot reach its registry.',
  );
}

describe('the npm packages', { skip: await skipReason() }, () => {
  const suite = new Lifetime();
  after(() => suite.end());
  let computer;
  let packedHub;
  let packedAgent;
  let port;
  let hub;

  before(async () => {
    assert.ok(findUpToDateBuild(true), 'The build is outdated. Run: npm run build');
    packedHub = await packHub();
    packedAgent = await packAgent();
    computer = new Computer(suite);
    const { status, stderr } = computer.install(packedHub.file, packedAgent.file);
    assert.equal(status, 0, stderr);
    port = await freePort();
  });

  test('the tarballs have the listed files only, and are small', () => {
    assert.deepEqual(
      packedHub.files.filter((file) => !isListed(file, [...HUB_FILES, 'package.json', SHRINKWRAP])),
      [],
    );
    assert.deepEqual(
      HUB_FILES.filter((entry) => !packedHub.files.some((file) => isListed(file, [entry]))),
      [],
    );
    assert.deepEqual(
      packedAgent.files.filter((file) => !isListed(file, [...AGENT_FILES, KIT_FOLDER, 'package.json', SHRINKWRAP, 'LICENSE'])),
      [],
    );
    assert.ok(packedHub.size < MAX_HUB_BYTES, `the hub has ${packedHub.size} bytes`);
    assert.ok(packedAgent.size < MAX_AGENT_BYTES, `the CLI has ${packedAgent.size} bytes`);
  });

  test('the hub depends only on packages of the registry, in their locked versions', () => {
    assert.deepEqual(unregisteredDependencies(packedHub.file), []);
  });

  test('the worker contains no path of the computer that built it', () => {
    for (const name of ['index_bg.wasm', 'index.js']) {
      const content = readFileSync(path.join(ROOT, 'build', name), 'latin1');
      const paths = [`${ROOT}/`, `${homedir()}/`, '.cargo', '/root/', '/home/', '/Users/'];
      assert.deepEqual(
        paths.filter((place) => content.includes(place)),
        [],
      );
    }
  });

  test('the hub starts with npx, without a toolchain, and serves its console', { tags: ['timing'] }, async () => {
    const foundCompilers = ['cargo', 'rustup', 'rustc', 'cc', 'gcc', 'clang'].filter((name) => findProgram(name, { PATH: computer.bin }));
    assert.deepEqual(foundCompilers, []);
    const started = Date.now();
    hub = await computer.startHub({ port });
    assert.ok(Date.now() - started < TIMEOUT_MS);
    await hub.lines.first((line) => line.includes(`Address        http://127.0.0.1:${port}`), 'the address');
    const link = await hub.lines.first((line) => line.includes(`http://127.0.0.1:${port}/pair#`), 'the sign-in link');
    const page = await hub.web.get(new URL(link.trim()).pathname, { headers: { 'sec-fetch-mode': 'navigate', accept: 'text/html' } });
    assert.match(page.text, /<div id="app">/);
    assert.deepEqual((await hub.web.get('/api/sessions')).body, { sessions: [] });
    assert.equal(statSync(computer.data).mode & 0o077, 0, 'only the user can read the data');
  });

  test('an agent that `npx session-gateway-agent` starts reaches its first approval', async (t) => {
    writeScriptedAgent(computer.bin, 'qwen');
    const env = { SCRIPT: '{}', SCRIPT_HOME: temporaryFolder(t) };
    const agent = computer.npx(['session-gateway-agent', '--trust', '--hub', `http://127.0.0.1:${port}`], env);
    const line = await agent.lines.first((text) => text.startsWith('session '), 'its session');
    const id = line.split(' ')[1];
    const feed = await openFeed(t, hub.web, 'socket', { sessionId: id });
    const toolCall = { toolCallId: 'call-1', title: 'ls', kind: 'execute', status: 'pending', rawInput: { command: 'ls' } };
    const options = [{ optionId: 'once', kind: 'allow_once', name: 'Once' }];
    const text = JSON.stringify([
      { update: { sessionUpdate: 'tool_call', ...toolCall } },
      { ask: { toolCall, options } },
      { say: 'Done.' },
    ]);
    await hub.web.post(`/api/sessions/${id}/messages`, { text });
    await feed.next(({ data }) => data?.agentState?.requests?.['call-1'], 'the permission request');
    assert.deepEqual((await hub.web.post(`/api/sessions/${id}/permissions/call-1/approve`, {})).body, { ok: true });
    await feed.next(isReady, 'the agent to be ready');
    assert.deepEqual(await readConversation(hub.web, id), ['> ls', 'Done.']);
    assert.equal((await hub.web.readSession(id)).metadata.path, computer.project, 'the current directory is served');
    await agent.end();
  });

  test('a second start in the same data folder, and a start on a taken port, fail and name the hub that is already running', async (t) => {
    const secondHub = computer.npx(['session-gateway-hub', '--port', String(await freePort())]);
    await secondHub.lines.first(
      (line) => line.startsWith(`A hub is already running in this folder: http://127.0.0.1:${port} `),
      'the error',
    );
    await secondHub.lines.first((line) => line.includes('choose another folder with --data'), 'the advice');
    assert.deepEqual(await withTimeout(secondHub.exited, 'its end'), [1, null]);
    const folder = temporaryFolder(t);
    const hubOnTakenPort = computer.npx(['session-gateway-hub', `--data=${folder}`, '--port', String(port)]);
    await hubOnTakenPort.lines.first((line) => line.startsWith(`Port ${port} is in use by a hub`), 'the error');
    await hubOnTakenPort.lines.first((line) => line.includes(`npx session-gateway-hub --data ${folder} --port ${port + 1}`), 'the advice');
    assert.deepEqual(await withTimeout(hubOnTakenPort.exited, 'its end'), [1, null]);
  });

  test('if two hubs are started at once in a new folder, one uses the folder, and the other reports this', async (t) => {
    const data = path.join(temporaryFolder(t), 'data');
    const ports = [await freePort(), await freePort()];
    const children = ports.map((own) => computer.npx(['session-gateway-hub', '--data', data, '--port', String(own)]));
    const outcomes = await Promise.all(
      children.map(async ({ lines }) => {
        // The first hub prints its title once it has the data folder.
        const isOutcome = (line) => line === 'Session gateway hub' || line.startsWith('A hub is already running in this folder');
        return (await lines.first(isOutcome, 'its outcome')) === 'Session gateway hub';
      }),
    );
    assert.deepEqual(outcomes.toSorted(), [false, true]);
    await children[outcomes.indexOf(true)].end();
  });

  test('the other commands read the data of the hub', async () => {
    const command = (...args) => computer.run('npx', 'session-gateway-hub', ...args);
    const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'));
    assert.equal(command('--version').stdout, `${version}\n`);
    const token = command('token', 'team').stdout.trim();
    await hub.web.request('POST', '/cli/sessions', { body: newSession('/code/team'), headers: { authorization: `Bearer ${token}` } });
    const [agentSession] = (await hub.web.get('/api/sessions')).body.sessions;
    const messages = await hub.web.readHistory(agentSession.id);
    const table = command('namespace', 'list').stdout.trim().split('\n');
    assert.deepEqual(
      table.map((line) => line.split(/ +/)),
      [
        ['NAMESPACE', 'HASH', 'SESSIONS', 'MESSAGES', 'MACHINES'],
        ['default', hashOfNamespace('default'), '1', String(messages.length), '1'],
        ['team', hashOfNamespace('team'), '1', '0', '0'],
      ],
    );
    const status = command('status', '--hub', `http://127.0.0.1:${port}`, '--json');
    assert.equal(JSON.parse(status.stdout).hash, hashOfNamespace('default'), status.stderr);
    const unknown = command('tokne');
    assert.equal(unknown.status, 2);
    assert.match(unknown.stderr, /There is no command tokne\. Did you mean token\?/);
    for (const name of ['deploy', 'doctor', 'namespace', 'smoke', 'status', 'token', 'upgrade']) {
      const { stdout, stderr } = command(name, '--help');
      assert.match(stdout, new RegExp(`^Usage: npx session-gateway-hub ${name}`), stderr);
    }
  });

  test('doctor finds the hub, and says what to do about a problem', async (t) => {
    const doctor = (...args) => computer.run('npx', 'session-gateway-hub', 'doctor', ...args);
    const healthy = doctor('--port', String(port));
    assert.equal(healthy.status, 0, healthy.stdout);
    const subjects = healthy.stdout.trim().split('\n');
    assert.deepEqual(
      subjects.map((line) => line.split(/ +/).slice(0, 2).join(' ')),
      ['node', 'runtime', 'port', 'data', 'hub', 'agents', 'git'].map((subject) => `ok ${subject}`),
    );
    assert.match(healthy.stdout, /Found: Qwen Code\./);
    const otherProgram = net.createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1');
    t.after(() => otherProgram.close());
    await once(otherProgram, 'listening');
    const usedPort = /** @type {import('node:net').AddressInfo} */ (otherProgram.address()).port;
    const failed = await new Promise((resolve) => {
      const child = computer.npx(['session-gateway-hub', 'doctor', '--port', String(usedPort)]);
      const problem = child.lines.first((line) => line.startsWith('problem'), 'the problem');
      child.exited.then(async ([code]) => resolve({ code, problem: await problem }));
    });
    assert.equal(failed.code, 1);
    assert.match(
      failed.problem,
      new RegExp(`Another program listens on port ${usedPort}\\. Stop it, or .*npx session-gateway-hub --port N`),
    );
  });

  test('no session is lost when the hub and its runtime are killed', async () => {
    await hub.web.post('/cli/sessions', newSession('/code/killed'));
    const [hubPid, wranglerPid] = computer.processes();
    process.kill(wranglerPid, 'SIGKILL');
    process.kill(hubPid, 'SIGKILL');
    await withTimeout(hub.exited, 'its end');
    hub = await computer.startHub({ port });
    const tags = (await hub.web.get('/api/sessions')).body.sessions.map(({ metadata }) => metadata.path);
    assert.ok(tags.includes('/code/killed'), tags.join());
  });

  test('when npx is stopped, the hub’s process ends too', async () => {
    const [hubPid] = computer.processes();
    await hub.end();
    await eventually(() => spawnSync('/bin/kill', ['-0', String(hubPid)]).status !== 0, 'the end of its process');
  });

  test('on a full disk, a start fails with an error of one sentence, and a running hub keeps running', async (t) => {
    if (process.platform !== 'linux' || process.getuid() !== 0) return t.skip('only root on Linux can mount a small disk');
    // Unlike the clean-up steps of a test, the steps of a lifetime run in reverse order: the folder is removed after the disk.
    const lifetime = new Lifetime();
    t.after(() => lifetime.end());
    const disk = temporaryFolder(lifetime);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES}`, 'tmpfs', disk]);
    lifetime.after(() => execFileSync('umount', ['--lazy', disk]));
    const data = path.join(disk, 'data');
    cpSync(computer.data, data, { recursive: true });
    const filler = path.join(disk, 'filler');
    const fill = () => spawnSync('dd', ['if=/dev/zero', `of=${filler}`, 'bs=4k']);

    fill();
    const args = ['session-gateway-hub', '--data', data, '--port', String(port)];
    const refused = computer.npx(args);
    assert.deepEqual(await withTimeout(refused.exited, 'its end'), [1, null]);
    const sentence = `The disk with ${data} is full: free some space and try again.`;
    await refused.lines.waitForEnd('its output');
    assert.deepEqual(
      refused.lines.all.filter((line) => line !== '' && line !== 'Session gateway hub'),
      [sentence],
    );

    rmSync(filler);
    const running = await computer.startHub({ port, data });
    fill();
    const rejected = running.web.post('/cli/sessions', newSession('/code/full'), { timeoutMs: 60_000 }).catch((error) => error);
    await running.lines.first((line) => line.startsWith(`The disk with ${data} is full`), 'the sentence');
    rmSync(filler);
    await rejected;
    const open = async () =>
      (await running.web.post('/cli/sessions', newSession('/code/free')).catch(() => ({ status: 0 }))).status === 200;
    await eventually(open, 'a session', 60_000);
    assert.deepEqual(
      running.lines.all.filter((line) => line.includes('SQLITE_FULL')),
      [],
    );
    await running.end();
  });
});
