/** Kinds of changes beyond edited lines: conflicts, renames, modes, links, names, settings of the user, and several repositories. */

import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { gitMethods } from '../src/git-methods.mjs';
import { repository, tempDir } from './support/repository.mjs';
import { pluck } from './support/pluck.mjs';

test('a conflict is one change, whose diff has the markers or what the side that kept the file changed', async (t) => {
  const { dir, git, commit } = repository(t);
  commit({ both: 'base\n', 'deleted by them': 'base\n', 'deleted by us': 'base\n' });
  git('switch', '--quiet', '-c', 'other');
  git('rm', '--quiet', 'deleted by them');
  commit({ both: 'theirs\n', 'deleted by us': 'theirs\n', 'added by both': 'theirs\n' });
  git('switch', '--quiet', 'main');
  git('rm', '--quiet', 'deleted by us');
  commit({ both: 'ours\n', 'deleted by them': 'ours\n', 'added by both': 'ours\n' });
  assert.throws(() => git('merge', 'other'));

  const { gitStatus, gitDiffFile, gitDiffNumstat } = gitMethods(dir);
  assert.deepEqual(
    (await gitStatus()).files.map((file) => [file.path, file.status, file.index + file.worktree]),
    [
      ['added by both', 'conflicted', 'AA'],
      ['both', 'conflicted', 'UU'],
      ['deleted by them', 'conflicted', 'UD'],
      ['deleted by us', 'conflicted', 'DU'],
    ],
  );
  for (const staged of [false, true]) {
    for (const name of ['both', 'added by both'])
      assert.match(
        (await gitDiffFile({ filePath: name, staged })).diff,
        /^diff --git [^]*\n\+<<<<<<< HEAD\n ours\n\+=======\n\+theirs\n\+>>>>>>> other\n$/,
        name,
      );
    assert.match((await gitDiffFile({ filePath: 'deleted by them', staged })).diff, /^diff --git [^]*\n-base\n\+ours\n$/);
    assert.match((await gitDiffFile({ filePath: 'deleted by us', staged })).diff, /^diff --git [^]*\n-base\n\+theirs\n$/);
  }
  const counts = (await gitDiffNumstat()).files;
  assert.deepEqual(
    counts.find((file) => file.path === 'both'),
    { path: 'both', added: 4, removed: 0 },
  );
  assert.equal(counts.length, 4);
});

test('the diff of a renamed file has only its changed lines, staged or not', async (t) => {
  const { dir, git, write, commit } = repository(t);
  const lines = Array.from({ length: 300 }, (_, index) => `line ${index}\n`).join('');
  commit({ 'src/old.txt': lines, 'src/other.txt': lines.replaceAll('line', 'row') });
  git('mv', 'src/old.txt', 'src/new.txt');
  write('src/new.txt', lines.replace('line 7\n', 'changed\n'));
  git('add', 'src/new.txt');
  for (const directory of [dir, path.join(dir, 'src')]) {
    const name = path.relative(directory, path.join(dir, 'src', 'new.txt'));
    const { diff } = await gitMethods(directory).gitDiffFile({ filePath: name, staged: true });
    assert.match(diff, /^rename from .*old\.txt$/m);
    assert.deepEqual(diff.match(/^[+-][^+-].*$/gm), ['-line 7', '+changed']);
  }
  git('reset', '--quiet');
  git('add', '--intent-to-add', 'src/new.txt');
  assert.deepEqual((await gitMethods(dir).gitDiffFile({ filePath: 'src/new.txt' })).diff.match(/^[+-][^+-].*$/gm), ['-line 7', '+changed']);
});

/** Files whose diff depends on the algorithm, and on the heuristic for indented lines. */
const OF_ALGORITHMS = { 'unique.txt': 'x\nb\nc\n', 'indented.txt': '  c\n}\n  c\na\n' };

test('settings and variables of the user do not change any answer', async (t) => {
  const { dir, git, write, commit } = repository(t);
  const sub = repository(t);
  sub.commit({ 'a.txt': 'a\n' });
  git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', sub.dir, 'sub');
  const lines = Array.from({ length: 40 }, (_, index) => (index === 6 ? '\n' : `line ${index}\n`)).join('');
  const moved = { m1: lines.replaceAll('line', 'word'), m2: lines.replaceAll('line', 'term') };
  commit({ 'a.txt': lines, 'wörd.txt': lines.replaceAll('line', 'row'), 'b.log': 'log\n', ...moved, ...OF_ALGORITHMS });
  const inSub = (...args) => git('-C', 'sub', '-c', 'user.name=T', '-c', 'user.email=t@example.com', ...args);
  inSub('commit', '--quiet', '--allow-empty', '-m', 'next');
  write('sub/a.txt', 'changed\n');
  write('a.txt', lines.replace('line 7\n', 'changed \n').replace('line 20\n', 'changed\n'));
  write('b.log', 'changed\n');
  write('unique.txt', 'b\nb\nx\n');
  write('indented.txt', '  c\n}\n  c\n  c\n}\n  c\na\n');
  git('mv', 'wörd.txt', 'name.txt');
  // Two renames with changes are above a limit of 1.
  for (const [name, content] of Object.entries(moved)) {
    git('mv', name, `${name}.txt`);
    write(`${name}.txt`, `${content}end\n`);
    git('add', `${name}.txt`);
  }
  write('untracked.txt', 'new\n');
  const methods = gitMethods(dir);
  const shown = ['a.txt', 'b.log', 'sub', 'untracked.txt', 'none', ...Object.keys(OF_ALGORITHMS)];
  const answers = async () => [
    await methods.gitStatus(),
    await methods.gitDiffNumstat({ staged: true }),
    await methods.gitDiffNumstat(),
    ...(await Promise.all(shown.map((filePath) => methods.gitDiffFile({ filePath })))),
    await methods.gitDiffFile({ filePath: 'm1.txt', staged: true }),
    await methods.gitDiffFile({ filePath: 'name.txt', staged: true }),
  ];
  const expected = await answers();
  assert.ok(expected.every(({ success }) => success));
  assert.match(JSON.stringify(expected.at(-1)), /rename from wörd\.txt/);
  assert.match(JSON.stringify(expected.at(-2)), /rename from m1\\n/);
  assert.match(JSON.stringify(expected[5]), /-Subproject commit \w+\\n\+Subproject commit \w+-dirty/);

  const marker = path.join(tempDir(t), 'ran');
  const attributes = path.join(tempDir(t), 'attributes');
  writeFileSync(attributes, '*.log diff=log\n');
  const config = path.join(tempDir(t), 'config');
  writeFileSync(
    config,
    `[core]\n pager = touch ${marker}\n quotePath = true\n attributesFile = ${attributes}\n abbrev = 7
[color]\n ui = always\n diff = always\n status = always\n branch = always\n[column]\n ui = always\n[pager]\n diff = true\n status = true
[diff "log"]\n textconv = touch ${marker}; cat\n command = touch ${marker}
[diff]\n submodule = log\n noprefix = true\n mnemonicPrefix = true\n srcPrefix = x/\n dstPrefix = y/\n external = touch ${marker}\n renames = false
 renameLimit = 1\n algorithm = patience\n context = 0\n interHunkContext = 9\n wsErrorHighlight = all\n ignoreSubmodules = all\n relative = true
 orderFile = /nowhere\n suppressBlankEmpty = true\n colorMoved = zebra\n indentHeuristic = false\n dirstat = lines\n wordRegex = .
[status]\n renames = false\n showUntrackedFiles = no\n relativePaths = false\n short = true\n branch = false\n showStash = true\n submoduleSummary = true
 aheadBehind = false\n[log]\n showSignature = true\n[submodule]\n recurse = true\n`,
  );
  const variables = { GIT_CONFIG_GLOBAL: config, GIT_DIFF_OPTS: '-u0', GIT_GLOB_PATHSPECS: '1', GIT_EXTERNAL_DIFF: `touch ${marker}` };
  const before = { ...process.env };
  t.after(() =>
    Object.keys(variables).forEach((name) => (before[name] === undefined ? delete process.env[name] : (process.env[name] = before[name]))),
  );
  Object.assign(process.env, variables);
  assert.deepEqual(await answers(), expected);
  assert.equal(existsSync(marker), false);
});

test('a changed mode, a link without a target, and an empty file have a diff that says so', async (t) => {
  const { dir, git, write, commit } = repository(t);
  commit({ 'run.sh': 'true\n' });
  chmodSync(path.join(dir, 'run.sh'), 0o755);
  symlinkSync('nowhere', path.join(dir, 'link'));
  symlinkSync('/', path.join(dir, 'out'));
  write('empty', '');
  const { gitDiffFile } = gitMethods(dir);
  assert.equal((await gitDiffFile({ filePath: 'run.sh' })).diff, 'diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n');
  assert.match((await gitDiffFile({ filePath: 'empty' })).diff, /^new file mode 100644$/m);
  for (const [name, target] of [
    ['link', 'nowhere'],
    ['out', '/'],
  ]) {
    const { diff } = await gitDiffFile({ filePath: name });
    git('add', '--intent-to-add', name);
    const withoutOid = (text) => text.replace(/^index .*\n/m, '');
    assert.equal(diff, withoutOid((await gitDiffFile({ filePath: name })).diff));
    assert.match(diff, new RegExp(`^\\+${target}$`, 'm'));
  }
});

test('a file whose name is not UTF-8 has a diff, tracked or not', {
  skip: process.platform === 'darwin' && 'needs UTF-8 names',
}, async (t) => {
  const { dir, git, write, commit } = repository(t);
  const latin1 = (name) => Buffer.concat([Buffer.from(`${dir}/`), Buffer.from(name, 'latin1')]);
  writeFileSync(latin1('café[1].txt'), 'one\n');
  commit({ 'cafe[1].txt': 'one\n' });
  writeFileSync(latin1('café[1].txt'), 'two\n');
  writeFileSync(latin1('neu\u00fc'), 'fresh\n');
  write('cafe[1].txt', 'three\n');
  const { gitStatus, gitDiffFile } = gitMethods(dir);
  assert.deepEqual(pluck((await gitStatus()).files, 'path'), ['cafe[1].txt', 'caf\uFFFD[1].txt', 'neu\uFFFD']);
  assert.deepEqual((await gitDiffFile({ filePath: 'caf\uFFFD[1].txt' })).diff.match(/^[+-]\w+$/gm), ['-one', '+two']);
  assert.deepEqual((await gitDiffFile({ filePath: 'neu\uFFFD' })).diff.match(/^[+-]\w+$/gm), ['+fresh']);
  git('add', '.');
  assert.match((await gitDiffFile({ filePath: 'neu\uFFFD', staged: true })).diff, /^\+fresh$/m);
});

test('a folder with several repositories lists them, each with its changes', async (t) => {
  const dir = tempDir(t);
  const [one, two] = ['one', 'group/two'].map((name) => {
    mkdirSync(path.join(dir, name), { recursive: true });
    return repository(t, path.join(dir, name));
  });
  one.commit({ 'a.txt': 'a\n', 'sub/b.txt': 'b\n' });
  one.write('a.txt', 'changed\n');
  one.write('sub/new.txt', 'new\n');
  one.git('mv', 'sub/b.txt', 'sub/c.txt');
  two.write('only.txt', 'x\n');
  mkdirSync(path.join(dir, 'plain'));
  const { gitStatus, gitDiffFile, gitDiffNumstat } = gitMethods(dir);
  const entry = { status: 'repository', index: '?', worktree: '?', repository: true, branch: 'main' };
  const listed = await gitStatus({ cwd: dir });
  assert.deepEqual(listed, {
    success: true,
    files: [
      { path: 'group/two/', ...entry, count: 1 },
      { path: 'one/', ...entry, count: 3 },
    ],
  });
  assert.deepEqual((await gitStatus({ filePath: 'group' })).files, [{ path: 'group/two/', ...entry, count: 1 }]);
  assert.match((await gitStatus({ filePath: 'plain' })).error, /^Not a git repository/);
  const inside = await gitStatus({ filePath: 'one/' });
  assert.deepEqual(
    [inside.branch, ...inside.files.map((file) => `${file.status} ${file.oldPath ?? ''} ${file.path}`)],
    ['main', 'modified  one/a.txt', 'renamed one/sub/b.txt one/sub/c.txt', 'untracked  one/sub/new.txt'],
  );
  assert.deepEqual(pluck((await gitStatus({ filePath: 'one/sub' })).files, 'path'), ['one/sub/c.txt', 'one/sub/new.txt']);
  assert.match((await gitDiffFile({ filePath: 'one/a.txt' })).diff, /^\+changed$/m);
  assert.match((await gitDiffFile({ filePath: 'one/sub/new.txt' })).diff, /^\+new$/m);
  assert.deepEqual((await gitDiffNumstat()).files, [{ path: 'one/a.txt', added: 1, removed: 1 }]);
});

test('a repository inside of a repository is named as one, and its changes can be listed', async (t) => {
  const outer = repository(t);
  outer.commit({ 'a.txt': 'a\n' });
  mkdirSync(path.join(outer.dir, 'vendor', 'inner'), { recursive: true });
  const inner = repository(t, path.join(outer.dir, 'vendor', 'inner'));
  inner.commit({ 'b.txt': 'b\n' });
  inner.write('b.txt', 'changed\n');
  const { gitStatus, gitDiffFile } = gitMethods(outer.dir);
  assert.deepEqual((await gitStatus()).files, [
    { path: 'vendor/inner/', status: 'untracked', index: '?', worktree: '?', repository: true },
  ]);
  assert.deepEqual(pluck((await gitStatus({ filePath: 'vendor/inner/' })).files, 'path', 'status'), [['vendor/inner/b.txt', 'modified']]);
  assert.match((await gitDiffFile({ filePath: 'vendor/inner/b.txt' })).diff, /^\+changed$/m);
});
