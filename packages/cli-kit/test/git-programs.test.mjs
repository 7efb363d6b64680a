/** The programs that a repository can name: git runs none of them for the kit. */

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { gitMethods } from '../src/git-methods.mjs';
import { describeWorktree, listBranches, listWorktrees, openWorktree, removeWorktree } from '../src/worktree.mjs';
import { repository, tempDir } from './support/repository.mjs';
import { pluck } from './support/pluck.mjs';

const LACKS_OBJECT = 'This partial clone lacks an object. To fetch all objects, run on its computer: git fetch --no-filter --refetch';

test('no program runs that the configuration, the attributes or the hooks of a repository or of its submodule name', async (t) => {
  const created = repository(t);
  const { dir, git, write } = created;
  const marker = path.join(tempDir(t), 'ran');
  const ran = () => new Set(existsSync(marker) ? readFileSync(marker, 'utf8').trim().split('\n') : []);
  const program = (name) => `echo ${name} >> ${marker}; cat`;
  mkdirSync(path.join(dir, 'sub'));
  const inner = repository(t, path.join(dir, 'sub'));
  inner.commit({ 'in.txt': 'old\n', '.gitattributes': '*.txt filter=inner\n' });
  created.commit({ 'a.txt': 'old\n', 'b.log': 'old\n', 'c.bin': 'missing\n' });
  git('branch', 'other');
  const [, blob] = /^\d+ (\w+)/.exec(git('ls-files', '--stage', 'c.bin'));
  for (const { dir: at, write: writeTo, git: gitIn } of [inner, created]) {
    for (const name of at === dir ? ['one', 'two=2'] : ['inner']) {
      gitIn('config', `filter.${name}.clean`, program(`filter.${name}.clean`));
      gitIn('config', `filter.${name}.smudge`, program(`filter.${name}.smudge`));
      gitIn('config', `filter.${name}.required`, 'true');
    }
    for (const key of ['core.fsmonitor', 'core.pager', 'core.sshCommand', 'core.editor', 'core.askPass', 'diff.external', 'gpg.program'])
      gitIn('config', key, program(key));
    for (const hook of ['post-checkout', 'post-index-change', 'reference-transaction', 'fsmonitor-watchman'])
      writeFileSync(path.join(at, '.git', 'hooks', hook), `#!/bin/sh\n${program(hook)}\n`, { mode: 0o755 });
    gitIn('config', 'log.showSignature', 'true');
    writeTo('untracked.txt', 'new\n');
  }
  git('config', 'filter.three.process', program('filter.three.process'));
  git('config', 'alias.status', `!${program('alias')}`);
  git('config', 'diff.log.textconv', program('diff.log.textconv'));
  git('config', 'diff.log.command', program('diff.log.command'));
  writeFileSync(path.join(dir, '.git', 'info', 'attributes'), '*.txt filter=one\n*.log diff=log filter=two=2\n*.bin filter=three\n');
  // A missing object of a partial clone would be fetched.
  for (const [key, value] of [
    ['core.repositoryFormatVersion', '1'],
    ['extensions.partialClone', 'origin'],
    ['remote.origin.promisor', 'true'],
    ['remote.origin.url', 'ssh://nowhere.invalid/x'],
  ])
    git('config', key, value);
  const object = path.join(dir, '.git', 'objects', blob.slice(0, 2), blob.slice(2));
  renameSync(object, `${object}.missing`);
  for (const name of ['a.txt', 'b.log', 'c.bin', 'sub/in.txt']) write(name, 'new\n');

  const { gitStatus, gitDiffNumstat, gitDiffFile } = gitMethods(dir);
  const place = { directory: dir, directories: [dir] };
  const status = await gitStatus();
  assert.deepEqual(pluck(status.files, 'path'), ['a.txt', 'b.log', 'c.bin', 'sub', 'untracked.txt']);
  await assert.rejects(gitDiffNumstat(), { message: LACKS_OBJECT });
  await gitDiffNumstat({ staged: true });
  for (const filePath of ['a.txt', 'b.log', 'sub', 'untracked.txt', 'sub/in.txt']) {
    for (const staged of [false, true]) await gitDiffFile({ filePath, staged });
  }
  assert.match((await gitDiffFile({ filePath: 'a.txt' })).diff, /^-old\n\+new$/m);
  assert.match((await gitDiffFile({ filePath: 'sub/in.txt' })).diff, /^-old\n\+new$/m);
  await assert.rejects(gitDiffFile({ filePath: 'c.bin' }), { message: LACKS_OBJECT });
  await listBranches(place);
  await assert.rejects(openWorktree({ ...place, name: 'lacks-object', branch: 'other' }), { message: LACKS_OBJECT });
  renameSync(`${object}.missing`, object);
  const opened = await openWorktree({ ...place, name: 'new' });
  assert.equal(readFileSync(path.join(opened, 'a.txt'), 'utf8'), 'old\n');
  assert.equal((await describeWorktree(opened)).branch, 'new');
  assert.equal((await listWorktrees(dir)).length, 1);
  await removeWorktree(dir, opened);
  assert.deepEqual([...ran()], []);

  // The programs do run without these precautions.
  assert.throws(() => git('diff'), 'filter.three.process speaks no protocol');
  assert.ok(
    ['filter.one.clean', 'filter.inner.clean', 'core.fsmonitor', 'diff.external'].every((name) => ran().has(name)),
    [...ran()].join(),
  );
});

test('a submodule that is a link to its own repository ends with the error of git', async (t) => {
  const { dir, git, commit } = repository(t);
  commit({ 'a.txt': 'old\n' });
  git('update-index', '--add', '--cacheinfo', `160000,${git('rev-parse', 'HEAD').trim()},loop`);
  symlinkSync('.', path.join(dir, 'loop'));
  await assert.rejects(gitMethods(dir).gitStatus(), /symbolic link/);
});

test('nothing is shown of a folder outside that a repository, a nested repository or a submodule names as its working tree', async (t) => {
  const outside = tempDir(t);
  for (const name of ['secret.txt', 'a.txt']) writeFileSync(path.join(outside, name), 'secret\n');
  const make = (dir) => {
    mkdirSync(dir, { recursive: true });
    const made = repository(t, dir);
    made.commit({ 'a.txt': 'old\n' });
    return made;
  };
  const folder = tempDir(t);
  const own = make(path.join(folder, 'own'));
  const nested = make(path.join(folder, 'several', 'nested'));
  make(path.join(folder, 'several', 'other')).write('a.txt', 'new\n');
  const parent = make(path.join(folder, 'parent'));
  const inner = make(path.join(parent.dir, 'inner'));
  parent.commit({ 'b.txt': 'old\n' });
  for (const { git } of [own, nested, inner]) git('config', 'core.worktree', outside);

  const read = async (dir, method, params) => {
    try {
      return await gitMethods(dir)[method](params);
    } catch (error) {
      return { error: error.message };
    }
  };
  const answers = [];
  for (const dir of [own.dir, path.join(folder, 'several'), parent.dir, folder]) {
    answers.push(await read(dir, 'gitStatus'), await read(dir, 'gitDiffNumstat'), await read(dir, 'gitDiffNumstat', { staged: true }));
    for (const filePath of ['a.txt', 'secret.txt', 'nested/a.txt', 'nested/secret.txt', 'inner/a.txt', 'several/nested/a.txt'])
      answers.push(await read(dir, 'gitDiffFile', { filePath }));
  }
  for (const answer of answers) assert.doesNotMatch(JSON.stringify(answer), /secret/, JSON.stringify(answer));
  const { files } = await gitMethods(path.join(folder, 'several')).gitDiffNumstat();
  assert.deepEqual(pluck(files, 'path'), ['other/a.txt']);
  const { files: listed } = await gitMethods(path.join(folder, 'several')).gitStatus();
  assert.deepEqual(
    listed.map(({ path: name, count }) => [name, count]),
    [
      ['nested/', undefined],
      ['other/', 1],
    ],
  );
});
