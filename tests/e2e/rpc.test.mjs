/** RPC calls from web clients to a CLI, with real git and ripgrep. tests/it/rpc.rs has all cases of calls. */

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { startAgent } from './lib/agent.mjs';
import { withTimeout } from '../../scripts/lib/await.mjs';
import { liveSession } from '../../scripts/lib/clients/cli.mjs';
import { Repository } from './lib/git.mjs';
import { startHub } from './lib/hub.mjs';
import { Lifetime } from './lib/lifetime.mjs';

const hub = await startHub();
after(() => hub.stop());

describe('the git repository of an agent', () => {
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
    read = async (route, query = {}) => {
      const answer = await hub.web('git').get(`/api/sessions/${sessionId}/${route}?${new URLSearchParams(query)}`);
      return { ...answer.body, status: answer.status };
    };
  });

  test('has a status with the branch and the changed files', async () => {
    const { status, success, branch, files } = await read('git-status');
    assert.deepEqual([status, success, branch], [200, true, 'main']);
    const states = Object.fromEntries(files.map((file) => [file.path, file.status]));
    assert.deepEqual(states, { 'README.md': 'modified', 'staged.txt': 'modified', 'new.txt': 'untracked' });
  });

  test('has line counts of staged and unstaged changes', async () => {
    const unstaged = await read('git-diff-numstat');
    assert.deepEqual(unstaged.files, [{ path: 'README.md', added: 2, removed: 1 }]);
    assert.deepEqual((await read('git-diff-numstat', { staged: 'false' })).files, unstaged.files);
    const staged = await read('git-diff-numstat', { staged: 'true' });
    assert.deepEqual([staged.success, staged.files], [true, [{ path: 'staged.txt', added: 0, removed: 1 }]]);
  });

  test('has diffs of staged and unstaged changes', async () => {
    const unstaged = await read('git-diff-file', { path: 'README.md' });
    assert.match(unstaged.diff, /^-old line\n\+new line\n\+another$/m);
    assert.equal(unstaged.diff, repository.git('diff', '--', 'README.md'));
    const staged = await read('git-diff-file', { path: 'staged.txt', staged: 'true' });
    assert.equal(staged.diff, repository.git('diff', '--cached', '--', 'staged.txt'));
    assert.equal((await read('git-diff-file', { path: 'staged.txt' })).diff, '');
  });

  test('is read file by file, as base64', async () => {
    const text = await read('file', { path: 'src/ünïcode näme.txt' });
    assert.deepEqual([text.success, Buffer.from(text.content, 'base64').toString()], [true, 'grüße\n']);
    const bytes = await read('file', { path: 'bytes.bin' });
    assert.deepEqual([...Buffer.from(bytes.content, 'base64')], [0, 255, 128, 10, 13]);
    const missing = await read('file', { path: 'missing.txt' });
    assert.deepEqual([missing.status, missing.success, typeof missing.error], [200, false, 'string']);
  });

  test('is searched for file names with ripgrep', async () => {
    const searchPaths = async (query) => {
      const { success, files } = await read('files', query);
      assert.equal(success, true);
      return files.map(({ filePath }) => filePath).sort();
    };
    const { files } = await read('files', { query: 'MAIN' });
    const fullPath = `${repository.folder}/src/main.rs`;
    assert.deepEqual(files, [{ fileName: 'main.rs', filePath: 'src/main.rs', fullPath, fileType: 'file' }]);
    assert.deepEqual(await searchPaths({ query: '*.txt' }), ['new.txt', 'src/ünïcode näme.txt', 'staged.txt']);
    assert.deepEqual(await searchPaths({ query: 'näme' }), ['src/ünïcode näme.txt']);
    assert.deepEqual(await searchPaths({ query: 'nothing like this' }), []);
    assert.deepEqual(await searchPaths({}), ['README.md', 'bytes.bin', 'new.txt', 'src/main.rs', 'src/ünïcode näme.txt', 'staged.txt']);
    assert.equal((await searchPaths({ limit: '2' })).length, 2);
    for (const limit of ['0', '501', 'many']) {
      const refused = await read('files', { query: 'a', limit });
      assert.deepEqual([refused.status, refused.code], [400, 'invalid_field'], limit);
      assert.match(refused.error, /`limit`/);
    }
  });

  test('is listed folder by folder', async () => {
    const root = await read('directory');
    assert.equal(root.success, true);
    const findEntry = (name) => root.entries.find((candidate) => candidate.name === name);
    assert.equal(findEntry('src').type, 'directory');
    assert.deepEqual(findEntry('bytes.bin'), { name: 'bytes.bin', type: 'file', size: 5 });
    const src = await read('directory', { path: 'src' });
    assert.deepEqual(
      src.entries.map(({ name }) => name),
      ['main.rs', 'ünïcode näme.txt'],
    );
    assert.deepEqual((await read('directory', { path: '' })).entries, root.entries);
    assert.equal((await read('directory', { path: 'nowhere' })).success, false);
  });

  test('has slash commands and skills of its own', async () => {
    const { success, commands } = await read('slash-commands');
    assert.equal(success, true);
    assert.ok(commands.includes('deploy') && commands.includes('help'), String(commands));
    assert.deepEqual((await read('skills')).skills, [{ name: 'review', description: 'Reviews a change' }]);
  });

  test('rejects paths outside of its folder', async () => {
    for (const route of ['file', 'directory', 'git-diff-file']) {
      for (const path of ['../secret', 'src/../../secret', '..', 'src/..', '/etc/passwd', 'a\0b', '..\\secret']) {
        const refused = await read(route, { path });
        assert.deepEqual([refused.status, refused.code], [400, 'invalid_path'], `${route} ${path}`);
        assert.match(refused.error, /`path`/);
      }
    }
    for (const route of ['file', 'git-diff-file']) {
      assert.deepEqual((await read(route)).code, 'invalid_path', `${route} without a path`);
      assert.deepEqual((await read(route, { path: '' })).code, 'invalid_path', `${route} with an empty path`);
    }
    const repeated = await hub.web('git').get(`/api/sessions/${sessionId}/file?path=a&path=b`);
    assert.equal(repeated.status, 400);
    assert.equal((await read('git-diff-numstat', { staged: 'perhaps' })).status, 400);
  });
});

describe('a call', () => {
  test('returns the CLI’s result unchanged, including failures and unknown fields', async (t) => {
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

  for (const [how, disconnect] of Object.entries({ closes: (cli) => cli.close(), 'is terminated': (cli) => cli.terminate() })) {
    for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
      test(`fails at once when its socket ${how} (token by ${tokenIn})`, async (t) => {
        const { session, cli } = await liveSession(t, hub, { namespace: 'closing', tag: `${how} ${tokenIn}`, tokenIn });
        await cli.serve('listSkills', () => {
          disconnect(cli);
          return new Promise(() => {});
        });
        // Long before the timeout of 30 s.
        const { status, body } = await withTimeout(hub.web('closing').get(`/api/sessions/${session.id}/skills`), 'the call to fail');
        assert.deepEqual([status, body.success], [200, false]);
        assert.doesNotMatch(body.error, /timed out/);
      });
    }
  }

  test('returns results of several megabytes', async (t) => {
    for (const tokenIn of /** @type {const} */ (['connect', 'header'])) {
      const { session, cli } = await liveSession(t, hub, { namespace: 'large', tag: `large ${tokenIn}`, tokenIn });
      for (const megabytes of [1, 10]) {
        const content = `${'x'.repeat(megabytes * 1024 * 1024 - 8)}"\\\n€`;
        await cli.serve('readFile', () => ({ success: true, content }));
        const { status, body } = await hub.web('large').get(`/api/sessions/${session.id}/file?path=large.txt`);
        assert.deepEqual([status, body.success, body.content === content], [200, true, true], `${megabytes} MB`);
      }
    }
  });
});
