/** Calls from the web to a CLI: with the real git and ripgrep behind them, and everything that can go wrong. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAgent } from './lib/agent.mjs';
import { deferred, withTimeout } from './lib/await.mjs';
import { connectCli, liveSession } from './lib/cli.mjs';
import { Repository } from './lib/git.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const hub = await startHub();
const hastyHub = await startHub({ vars: { RPC_TIMEOUT_MS: '1500' } });
after(() => Promise.all([hub.stop(), hastyHub.stop()]));

/** Every route that calls a CLI, with a good query and the method it stands for. */
const ROUTES = {
  'git-status': ['', 'gitStatus'],
  'git-diff-numstat': ['', 'gitDiffNumstat'],
  'git-diff-file': ['?path=a.txt', 'gitDiffFile'],
  file: ['?path=a.txt', 'readFile'],
  files: ['?query=a', 'runRipgrep'],
  directory: ['', 'listDirectory'],
  'slash-commands': ['', 'listSlashCommands'],
  skills: ['', 'listSkills'],
};

describe('the directory of an agent that serves a git repository', () => {
  const suite = new Lifetime();
  let repository;
  let read;
  let sessionId;

  after(() => suite.end());

  before(async () => {
    repository = new Repository(suite);
    repository.write('README.md', '# Hello\n\nold line\n');
    repository.write('src/main.rs', 'fn main() {}\n');
    repository.write('src/ünïcode näme.txt', 'grüße\n');
    repository.write('staged.txt', 'one\ntwo\n');
    repository.write('bytes.bin', Buffer.from([0, 255, 128, 10, 13]));
    repository.write('.agents/commands/deploy.md', '# Deploy\n\n```sh\necho deployed\n```\n');
    repository.write('.agents/skills/review/SKILL.md', '---\nname: review\ndescription: Reviews a change\n---\n');
    repository.commit('everything');
    repository.write('README.md', '# Hello\n\nnew line\nanother\n');
    repository.write('staged.txt', 'one\n');
    repository.git('add', 'staged.txt');
    repository.write('new.txt', 'not tracked\n');
    ({ sessionId } = await startAgent(suite, hub, { dir: repository.folder, namespace: 'git', args: ['--no-machine'] }));
    read = async (what, query = {}) => {
      const answer = await hub.web('git').get(`/api/sessions/${sessionId}/${what}?${new URLSearchParams(query)}`);
      return { ...answer.body, status: answer.status };
    };
  });

  test('has a status: the branch and the changed files', async () => {
    const { status, success, branch, files } = await read('git-status');
    assert.deepEqual([status, success, branch], [200, true, 'main']);
    const states = Object.fromEntries(files.map((file) => [file.path, file.status]));
    assert.deepEqual(states, { 'README.md': 'modified', 'staged.txt': 'modified', 'new.txt': 'untracked' });
  });

  test('has statistics of what changed, staged or not', async () => {
    const unstaged = await read('git-diff-numstat');
    assert.deepEqual(unstaged.files, [{ path: 'README.md', added: 2, removed: 1 }]);
    assert.deepEqual((await read('git-diff-numstat', { staged: 'false' })).files, unstaged.files);
    const staged = await read('git-diff-numstat', { staged: 'true' });
    assert.deepEqual([staged.success, staged.files], [true, [{ path: 'staged.txt', added: 0, removed: 1 }]]);
  });

  test('has diffs, staged or not', async () => {
    const unstaged = await read('git-diff-file', { path: 'README.md' });
    assert.match(unstaged.diff, /^-old line\n\+new line\n\+another$/m);
    assert.equal(unstaged.diff, repository.git('diff', '--', 'README.md'));
    const staged = await read('git-diff-file', { path: 'staged.txt', staged: 'true' });
    assert.equal(staged.diff, repository.git('diff', '--cached', '--', 'staged.txt'));
    assert.equal((await read('git-diff-file', { path: 'staged.txt' })).diff, '');
  });

  test('gives its files as base64 of their bytes', async () => {
    const text = await read('file', { path: 'src/ünïcode näme.txt' });
    assert.deepEqual([text.success, Buffer.from(text.content, 'base64').toString()], [true, 'grüße\n']);
    const bytes = await read('file', { path: 'bytes.bin' });
    assert.deepEqual([...Buffer.from(bytes.content, 'base64')], [0, 255, 128, 10, 13]);
    const missing = await read('file', { path: 'missing.txt' });
    assert.deepEqual([missing.status, missing.success, typeof missing.error], [200, false, 'string']);
  });

  test('is searched for file names with ripgrep', async () => {
    const paths = async (query) => {
      const { success, files } = await read('files', query);
      assert.equal(success, true);
      return files.map(({ filePath }) => filePath).sort();
    };
    const { files } = await read('files', { query: 'MAIN' });
    const fullPath = `${repository.folder}/src/main.rs`;
    assert.deepEqual(files, [{ fileName: 'main.rs', filePath: 'src/main.rs', fullPath, fileType: 'file' }]);
    assert.deepEqual(await paths({ query: '*.txt' }), ['new.txt', 'src/ünïcode näme.txt', 'staged.txt']);
    assert.deepEqual(await paths({ query: 'näme' }), ['src/ünïcode näme.txt']);
    assert.deepEqual(await paths({ query: 'nothing like this' }), []);
    assert.deepEqual(await paths({}), ['README.md', 'bytes.bin', 'new.txt', 'src/main.rs', 'src/ünïcode näme.txt', 'staged.txt']);
    assert.equal((await paths({ limit: '2' })).length, 2);
    for (const limit of ['0', '501', 'many']) {
      const refused = await read('files', { query: 'a', limit });
      assert.deepEqual([refused.status, refused.code], [400, 'invalid_field'], limit);
      assert.match(refused.error, /`limit`/);
    }
  });

  test('is listed folder by folder', async () => {
    const root = await read('directory');
    assert.equal(root.success, true);
    const entry = (name) => root.entries.find((one) => one.name === name);
    assert.equal(entry('src').type, 'directory');
    assert.deepEqual(entry('bytes.bin'), { name: 'bytes.bin', type: 'file', size: 5 });
    const src = await read('directory', { path: 'src' });
    assert.deepEqual(src.entries.map(({ name }) => name), ['main.rs', 'ünïcode näme.txt']);
    assert.deepEqual((await read('directory', { path: '' })).entries, root.entries);
    assert.equal((await read('directory', { path: 'nowhere' })).success, false);
  });

  test('brings its own slash commands and skills', async () => {
    const { success, commands } = await read('slash-commands');
    assert.equal(success, true);
    assert.ok(commands.includes('deploy') && commands.includes('help'), String(commands));
    assert.deepEqual((await read('skills')).skills, [{ name: 'review', description: 'Reviews a change' }]);
  });

  test('is not left, whatever the path', async () => {
    for (const what of ['file', 'directory', 'git-diff-file']) {
      for (const path of ['../secret', 'src/../../secret', '..', 'src/..', '/etc/passwd', 'a\0b', '..\\secret']) {
        const refused = await read(what, { path });
        assert.deepEqual([refused.status, refused.code], [400, 'invalid_path'], `${what} ${path}`);
        assert.match(refused.error, /`path`/);
      }
    }
    for (const what of ['file', 'git-diff-file']) {
      assert.deepEqual((await read(what)).code, 'invalid_path', `${what} without a path`);
      assert.deepEqual((await read(what, { path: '' })).code, 'invalid_path', `${what} with an empty path`);
    }
    const doubled = await hub.web('git').get(`/api/sessions/${sessionId}/file?path=a&path=b`);
    assert.equal(doubled.status, 400);
    assert.equal((await read('git-diff-numstat', { staged: 'perhaps' })).status, 400);
  });
});

describe('a call', () => {
  test('carries the parameters of its route, with the session’s directory', async (t) => {
    const { session, cli } = await liveSession(t, hub, {
      namespace: 'params',
      tag: 'params',
      metadata: { path: '/code/params', flavor: 'gamma' },
    });
    const heard = {};
    for (const [, method] of Object.values(ROUTES)) {
      await cli.serve(`${session.id}:${method}`, (params) => {
        heard[method] = params;
        return { success: true, stdout: '' };
      });
    }
    const web = hub.web('params');
    for (const [what, [query]] of Object.entries(ROUTES)) {
      assert.equal((await web.get(`/api/sessions/${session.id}/${what}${query}`)).status, 200, what);
    }
    assert.deepEqual(heard, {
      gitStatus: { cwd: '/code/params' },
      gitDiffNumstat: { cwd: '/code/params', staged: false },
      gitDiffFile: { cwd: '/code/params', filePath: 'a.txt', staged: false },
      readFile: { path: 'a.txt' },
      runRipgrep: { cwd: '/code/params', args: ['--files', '--iglob', '*a*'] },
      listDirectory: { path: '' },
      listSlashCommands: { agent: 'gamma' },
      listSkills: {},
    });
    await web.get(`/api/sessions/${session.id}/files`);
    assert.deepEqual(heard.runRipgrep.args, ['--files'], 'no pattern for an empty query');
    await web.get(`/api/sessions/${session.id}/files?query=*.rs`);
    assert.deepEqual(heard.runRipgrep.args.slice(0, 2), ['--files', '--iglob']);
  });

  test('answers what the CLI answered, also a failure and fields that the hub does not know', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'asis', tag: 'as is' });
    const web = hub.web('asis');
    for (const result of [
      { success: false, error: 'Not a git repository' },
      { success: true, branch: 'b', files: [], zeta: 1, alpha: { deep: [null] }, big: JSON.rawJSON('9007199254740993') },
    ]) {
      await cli.serve('gitStatus', () => result);
      const answer = await web.get(`/api/sessions/${session.id}/git-status`);
      assert.deepEqual([answer.status, answer.text], [200, JSON.stringify(result)]);
    }
  });

  test('without a handler says so, as a result', async (t) => {
    const web = hub.web('nobody');
    const idle = await web.openSession({ tag: 'without a CLI' });
    const { session } = await liveSession(t, hub, { namespace: 'nobody', tag: 'a CLI that serves nothing' });
    for (const { id } of [idle, session]) {
      for (const [what, [query, method]] of Object.entries(ROUTES)) {
        const { status, body } = await web.get(`/api/sessions/${id}/${what}${query}`);
        assert.deepEqual([status, body], [200, { success: false, error: `No handler registered for ${method}` }], what);
      }
    }
  });

  test('has no handler any more after rpc-unregister, or when its socket is gone', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'leaving', tag: 'leaving' });
    const success = async () => (await hub.web('leaving').get(`/api/sessions/${session.id}/skills`)).body.success;
    await cli.serve('listSkills', () => ({ success: true }));
    assert.equal(await success(), true);
    await cli.emitWithAck('rpc-unregister', { method: 'listSkills' });
    assert.equal(await success(), false);

    const second = await connectCli(t, hub, { namespace: 'leaving', auth: { sessionId: session.id } });
    await second.serve(`${session.id}:listSkills`, () => ({ success: true }));
    assert.equal(await success(), true);
    await second.serve(`${session.id}:gitStatus`, () => {
      second.terminate();
      return new Promise(() => {});
    });
    const { body } = await hub.web('leaving').get(`/api/sessions/${session.id}/git-status`);
    assert.equal(body.success, false, 'the hub knows now that the socket is gone');
    assert.equal(await success(), false);
  });

  test('that gets no answer times out, and a late answer disturbs nobody', async (t) => {
    const { session, cli } = await liveSession(t, hastyHub, { tag: 'slow' });
    const web = hastyHub.web();
    const late = deferred();
    await cli.serve('listSkills', () => late.promise);
    const started = Date.now();
    const { status, body } = await web.get(`/api/sessions/${session.id}/skills`);
    assert.deepEqual([status, body], [200, { success: false, error: 'RPC timed out: listSkills' }]);
    assert.ok(Date.now() - started >= 1_400, 'not before its time');
    late.resolve({ success: true, skills: ['late'] });
    await cli.serve('listSkills', () => ({ success: true, skills: ['in time'] }));
    assert.deepEqual((await web.get(`/api/sessions/${session.id}/skills`)).body.skills, ['in time']);
  });

  for (const [how, leave] of [
    ['closes', (cli) => cli.close()],
    ['breaks', (cli) => cli.terminate()],
  ]) {
    for (const way of ['connect', 'header']) {
      test(`fails at once when its socket ${how} (token by ${way})`, async (t) => {
        const { session, cli } = await liveSession(t, hub, { namespace: 'cut', tag: `${how} ${way}`, way });
        await cli.serve('listSkills', () => {
          leave(cli);
          return new Promise(() => {});
        });
        // Long before the 30 s of the time-out.
        const { status, body } = await withTimeout(hub.web('cut').get(`/api/sessions/${session.id}/skills`), 'the call to fail');
        assert.deepEqual([status, body.success], [200, false]);
        assert.doesNotMatch(body.error, /timed out/);
      });
    }
  }

  test('goes to the socket that registered last, and to no other when that one is gone', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'last', tag: 'last' });
    const second = await connectCli(t, hub, { namespace: 'last', auth: { sessionId: session.id } });
    const answer = async () => (await hub.web('last').get(`/api/sessions/${session.id}/skills`)).body;
    await cli.serve('listSkills', () => ({ success: true, from: 'first' }));
    await second.serve(`${session.id}:listSkills`, () => ({ success: true, from: 'second' }));
    assert.equal((await answer()).from, 'second');
    await cli.serve('listSkills', () => ({ success: true, from: 'first again' }));
    assert.equal((await answer()).from, 'first again');
    await second.emitWithAck('rpc-unregister', { method: `${session.id}:listSkills` });
    assert.equal((await answer()).from, 'first again', 'the loser can’t take it back');
    await cli.emitWithAck('rpc-unregister', { method: 'listSkills' });
    assert.deepEqual(await answer(), { success: false, error: 'No handler registered for listSkills' });
  });

  test('can’t be taken over under a session or machine that the socket did not name', async (t) => {
    const mine = await liveSession(t, hub, { namespace: 'scopes', tag: 'mine' });
    const other = await liveSession(t, hub, { namespace: 'scopes', tag: 'other' });
    const foreign = await hub.web('elsewhere').openSession({ tag: 'foreign' });
    await mine.cli.serve('listSkills', () => ({ success: true, from: 'mine' }));
    const scopeless = await connectCli(t, hub, { namespace: 'scopes' });
    for (const [cli, method] of [
      [other.cli, `${mine.session.id}:listSkills`],
      [other.cli, `${foreign.id}:listSkills`],
      [scopeless, `${mine.session.id}:listSkills`],
      [scopeless, 'listSkills'],
    ]) {
      const ack = await cli.emitWithAck('rpc-register', { method });
      assert.equal(ack.ok, false, method);
      assert.equal((await cli.nextError()).code, 'access-denied', method);
    }
    // Without an acknowledgement, too, the socket hears of it.
    other.cli.socket.emit('rpc-register', { method: `${mine.session.id}:listSkills` });
    assert.equal((await other.cli.nextError()).code, 'access-denied');
    assert.equal((await hub.web('scopes').get(`/api/sessions/${mine.session.id}/skills`)).body.from, 'mine');
    assert.equal((await hub.web('scopes').get(`/api/sessions/${other.session.id}/skills`)).body.success, false);
  });

  test('brings results of a megabyte and more', async (t) => {
    for (const way of ['connect', 'header']) {
      const { session, cli } = await liveSession(t, hub, { namespace: 'large', tag: `large ${way}`, way });
      for (const megabytes of [1, 10]) {
        const content = `${'x'.repeat(megabytes * 1024 * 1024 - 8)}"\\\n€`;
        await cli.serve('readFile', () => ({ success: true, content }));
        const { status, body } = await hub.web('large').get(`/api/sessions/${session.id}/file?path=large.txt`);
        assert.deepEqual([status, body.success, body.content === content], [200, true, true], `${megabytes} MB`);
      }
    }
  });

  test('that runs among many gets its own answer', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'many', tag: 'many' });
    const waiting = [];
    const full = deferred();
    await cli.serve('readFile', ({ path }) => {
      const { promise, resolve } = deferred();
      waiting.push(() => resolve({ success: true, content: path }));
      if (waiting.length === 50) full.resolve();
      return promise;
    });
    const paths = Array.from({ length: 50 }, (_, n) => `file-${n}`);
    const calls = Promise.all(paths.map((path) => hub.web('many').get(`/api/sessions/${session.id}/file?path=${path}`)));
    await withTimeout(full.promise, 'all calls to arrive');
    waiting.reverse().forEach((answer) => answer());
    assert.deepEqual((await calls).map(({ body }) => body.content), paths);
  });

  test('that the CLI answers with something else than a JSON object is a failure', async (t) => {
    const { session, cli } = await liveSession(t, hub, { namespace: 'odd', tag: 'odd' });
    for (const odd of [[], 'text', null]) {
      await cli.serve('listSkills', () => odd);
      const { status, body } = await hub.web('odd').get(`/api/sessions/${session.id}/skills`);
      assert.deepEqual([status, body.success, typeof body.error], [200, false, 'string']);
    }
  });
});
