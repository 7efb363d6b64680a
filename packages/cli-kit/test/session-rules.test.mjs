/** The calls that an approval for the session covers: edits and other tools. The tests of commands are in command-shapes.test.mjs. */

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SessionRules, scopeOf as scopeIn } from '../src/session-rules.mjs';
import { tempDir } from './support/repository.mjs';

const scopeOf = (call, root) => scopeIn(call, { root, protectedNames: new Set(['opencode.json', 'mcp.json']), shell: 'nothing' });
const run = (command) => ({ tool: 'Bash', args: { command }, kind: 'execute' });

/** Returns whether the approval of the first call for the session covers the second call. */
function covers(approved, later, root) {
  const rules = new SessionRules();
  const scope = scopeOf(approved, root);
  if (scope) rules.add(scope);
  return rules.find(scopeOf(later, root)) !== undefined;
}

test('a call of a changing kind is not covered if its arguments do not show the change', () => {
  for (const kind of ['execute', 'edit', 'delete', 'move', 'switch_mode'])
    assert.equal(scopeOf({ tool: 'Tool', args: { title: 'a' }, kind }, '/code'), null, kind);
  for (const args of ['rm -rf a', ['a'], null, { command: { a: 1 } }, { command: 5 }, { questions: [] }, { plan: 'Delete it' }])
    assert.equal(scopeOf({ tool: 'Tool', args }, '/code'), null);
});

test('a rule for a tool covers all its calls, except commands and edits of other files', () => {
  const fetch = (args, kind = 'fetch') => ({ tool: 'WebFetch', args, kind });
  assert.equal(scopeOf(fetch({ url: 'https://example.com' }), '/code').label, 'WebFetch');
  assert.ok(covers(fetch({ url: 'https://example.com' }), fetch({ url: 'https://example.org' }), '/code'));
  assert.equal(covers(fetch({ url: 'https://example.com' }), { ...fetch({}), tool: 'WebSearch' }, '/code'), false);
  assert.equal(covers(fetch({ url: 'https://example.com' }), fetch({ command: 'ls' }), '/code'), false);
  assert.equal(covers(fetch({ url: 'https://example.com' }), fetch({ file_path: '/etc/passwd', content: '' }, 'edit'), '/code'), false);
});

test('a rule for a tool that a client names covers no commands', () => {
  const rules = new SessionRules();
  rules.addTool('Bash');
  assert.deepEqual(
    rules.published.map(({ kind, label }) => [kind, label]),
    [['tool', 'Bash, except commands']],
  );
  assert.equal(rules.find(scopeOf(run('ls'), '/code')), undefined);
  assert.ok(rules.find(scopeOf({ tool: 'Bash', args: { id: 1 }, kind: 'other' }, '/code')));
});

/** A directory with links, beside a directory outside of it. */
function setUpFolders(t) {
  const root = tempDir(t);
  const outside = tempDir(t);
  mkdirSync(path.join(root, 'src'));
  mkdirSync(path.join(root, '.git'));
  writeFileSync(path.join(root, 'src', 'a.mjs'), '');
  writeFileSync(path.join(outside, 'secret'), '');
  symlinkSync(outside, path.join(root, 'out'));
  symlinkSync(path.join(outside, 'secret'), path.join(root, 'secret'));
  symlinkSync(path.join(outside, 'missing'), path.join(root, 'dangling'));
  symlinkSync(path.join(root, '.git'), path.join(root, 'git'));
  symlinkSync('loop', path.join(root, 'loop'));
  symlinkSync(path.join(root, 'src'), path.join(outside, 'in'));
  return { root, outside };
}

const edit = (file, more = {}) => ({ tool: 'Edit', args: { file_path: file, old_string: 'a', new_string: 'b', ...more }, kind: 'edit' });

test('a rule for edits covers the files in the session’s directory, with any tool', (t) => {
  const { root, outside } = setUpFolders(t);
  const approved = edit(path.join(root, 'src/a.mjs'));
  assert.equal(scopeOf(approved, root).label, `edits in ${path.basename(root)}`);
  for (const later of [
    edit(path.join(root, 'src/b.mjs'), { replace_all: true }),
    { tool: 'Write', args: { file_path: path.join(root, 'new/folder/c.mjs'), content: '' }, kind: 'edit' },
    { tool: 'Edit', args: { file_path: path.join(root, 'a'), edits: [{ old_string: 'a', new_string: 'b' }] } },
    { tool: 'Edit', args: { changes: ['a', 'b'].map((name) => ({ file_path: path.join(root, name), content: '' })) }, kind: 'edit' },
    edit(path.join(outside, 'in/a.mjs')),
  ]) {
    assert.ok(covers(approved, later, root), JSON.stringify(later.args));
  }
});

test('a rule for edits covers no file outside of the directory, not even through a link, and no hidden file', (t) => {
  const { root, outside } = setUpFolders(t);
  const inside = path.join(root, 'src/a.mjs');
  for (const file of [
    path.join(outside, 'secret'),
    `${root}-other/a`,
    path.dirname(root),
    root,
    'src/a.mjs',
    '',
    `${root}/src/../../x`,
    `${root}/src/..`,
    `${inside}\0`,
    ...['out/x', 'out/secret', 'secret', 'dangling', 'dangling/x', 'loop', 'loop/x', 'src/a.mjs/x'].map((name) => path.join(root, name)),
    ...['.git/hooks/pre-commit', '.git', 'git/config', '.claude/settings.json', '.env', 'src/.npmrc', 'src/.hidden/a'].map((name) =>
      path.join(root, name),
    ),
  ]) {
    assert.equal(scopeOf(edit(file), root), null, file);
  }
});

test('a rule for edits covers no file by which an agent is configured, in any spelling', () => {
  for (const name of ['opencode.json', 'src/opencode.json', 'mcp.json', 'OpenCode.JSON'])
    assert.equal(scopeOf(edit(`/code/shop/${name}`), '/code/shop'), null, name);
  for (const name of ['\u200bopencode.json', 'opencode.j\u017fon']) assert.equal(scopeOf(edit(`/code/shop/${name}`), '/code/shop'), null);
  assert.ok(scopeOf(edit('/code/shop/package.json'), '/code/shop'));
});

test('a rule for edits does not make a folder a repository of git, whose configuration may name programs', () => {
  for (const name of ['HEAD', 'src/head']) assert.equal(scopeOf(edit(`/code/shop/${name}`), '/code/shop'), null, name);
});

test('a rule for edits covers no file of a session in a hidden folder, such as the settings of an agent', () => {
  assert.equal(scopeOf(edit('/home/ada/.claude/settings.json'), '/home/ada/.claude'), null);
  assert.ok(scopeOf(edit('/home/ada/.worktrees/a/b.ts'), '/home/ada/.worktrees/a'));
});

test('an edit with arguments that do not belong to an edit is not covered', () => {
  const file = { file_path: '/code/a', content: '' };
  /** @type {Record<string, unknown>[]} */
  const refused = [
    { ...file, target: '/etc/passwd' },
    { ...file, input: { a: 1 } },
    { ...file, changes: [file] },
    { changes: [file, { file_path: '/etc/x', content: '' }] },
    { changes: [file, 'x'] },
    { changes: [{ ...file, move_path: '/etc/x' }] },
    { changes: [] },
    { changes: file },
    { file_path: '/code/a' },
    { content: '' },
  ];
  for (const args of refused) {
    assert.equal(scopeOf({ tool: 'Edit', args, kind: 'edit' }, '/code'), null, JSON.stringify(args));
    if (args.file_path !== '/code/a') assert.equal(scopeOf({ tool: 'Edit', args }, '/code'), null, JSON.stringify(args));
  }
});

test('a tool that has the arguments of an edit, but another kind, has its own rule', () => {
  const publish = { tool: 'publish', args: { file_path: '/code/a', content: 'x' }, kind: 'other' };
  assert.equal(scopeOf(publish, '/code').kind, 'tool');
  assert.equal(covers(edit('/code/a'), publish, '/code'), false);
  const withCommand = { tool: 'Edit', args: { file_path: '/code/a', content: '', command: 'ls; rm a' }, kind: 'edit' };
  assert.equal(covers(edit('/code/a'), withCommand, '/code'), false);
});
