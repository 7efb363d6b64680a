/** The commands that an approval for the session covers. */

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { before, test } from 'node:test';
import { COMMANDS } from '../src/command-table.mjs';
import { SessionRules, scopeOf } from '../src/session-rules.mjs';
import { shellChangeOf } from '../src/shell-changes.mjs';
import { ASKED, COVERED } from './support/commands.mjs';
import { tempDir } from './support/repository.mjs';

let root = '';

/** A session's directory with links, beside a directory outside of it. */
before((t) => {
  root = path.join(tempDir(t), 'shop');
  const outside = tempDir(t);
  for (const folder of ['src', '.git', 'bare/objects', 'evil']) mkdirSync(path.join(root, folder), { recursive: true });
  for (const file of ['a', 'b', 'README.md', 'src/a.ts', '.env', 'bare/HEAD', 'evil/secret', 'evil/opencode.json'])
    writeFileSync(path.join(root, file), '');
  writeFileSync(path.join(outside, 'secret'), '');
  symlinkSync(outside, path.join(root, 'out'));
  symlinkSync(path.join(outside, 'secret'), path.join(root, 'secret'));
  symlinkSync(path.join(root, '.git'), path.join(root, 'git'));
  symlinkSync('src/a.ts', path.join(root, 'link.ts'));
  symlinkSync(outside, path.join(root, '-f'));
});

const protectedNames = new Set(['opencode.json']);
/** @type {(shell?: import('../src/shell-changes.mjs').ShellChange) => import('../src/session-rules.mjs').RulePlace} */
const placeIn = (shell = 'nothing') => ({ root, protectedNames, shell });
const run = (command, more = {}) => ({ tool: 'Bash', args: { command, ...more }, kind: 'execute' });
const labelOf = (command, more) => scopeOf(run(command, more), placeIn())?.label ?? null;

/** Returns whether the approval of the first commands for the session covers the last one. */
function covers(...commands) {
  const calls = commands.map((command) => (typeof command === 'object' && 'tool' in command ? command : run(command)));
  const rules = new SessionRules();
  for (const call of calls.slice(0, -1)) rules.add(scopeOf(call, placeIn()));
  return rules.find(scopeOf(calls.at(-1), placeIn())) !== undefined;
}

for (const [label, [approved, ...later]] of Object.entries(COVERED)) {
  test(`an approval for the session covers: ${label}`, () => {
    assert.equal(labelOf(approved), label);
    for (const command of [approved, ...later]) assert.ok(covers(approved, command), command);
  });
}

for (const [what, lists] of Object.entries(ASKED)) {
  test(`an approval for the session never covers more: ${what}`, () => {
    for (const [approved, ...attacks] of lists) {
      for (const command of attacks) assert.equal(covers(approved, command), false, `${approved} / ${JSON.stringify(command)}`);
    }
  });
}

test('a command without a shape is covered word by word, and its label says so', () => {
  for (const command of [
    'npm install zod',
    './x.sh',
    'sleep 3 && ./x',
    'echo $HOME > a',
    'rm -rf build',
    "printf -v 'a[$(id)]' x",
    'cat .env',
  ]) {
    assert.equal(labelOf(command), `exactly \`${command}\``);
    assert.ok(covers(command, command), command);
    assert.ok(covers(command, run(command, { description: 'Again' })), command);
    assert.equal(covers(command, `${command} x`), false, command);
    assert.equal(covers(command, ` ${command}`), false, command);
  }
  assert.equal(labelOf(`x ${'y'.repeat(100)}`), `exactly \`x ${'y'.repeat(78)}…\``);
  assert.equal(labelOf('a\n  b'), 'exactly `a b`');
  for (const command of ['', '  ', 'x'.repeat(20_001), [], ['a', 1], { a: 1 }, 5]) assert.equal(labelOf(command), null);
});

test('commands that are covered only word by word do not cover a line of both', () => {
  assert.equal(covers('cd /etc', 'rm a', 'cd /etc && rm a'), false);
  assert.ok(covers('cd /etc && rm a', 'cd /etc && rm a'));
});

test('a line that first changes to the session’s directory is covered like its other commands', () => {
  assert.equal(labelOf(`cd ${root} && ls`), labelOf('ls'));
  assert.ok(covers('ls', `cd ${root} && ls -la src`));
  for (const line of [`cd ${root}; ls`, `cd ${root}/.git && ls`, `cd ${root} | ls`, `cd ${root} x && ls`, `ls && cd ${root}`])
    assert.equal(covers('ls', line), false, line);
});

test('a command of a tool that is no shell is covered word by word', () => {
  const query = (command) => ({ tool: 'mcp__redis__run', args: { command }, kind: 'other' });
  assert.equal(covers(query('echo a'), query('echo b')), false);
  assert.ok(covers(query('echo a'), query('echo a')));
});

test('a rule covers neither another tool, nor another directory, nor other variables', () => {
  const inFolder = (command, cwd) => run(command, { cwd });
  assert.equal(covers('ls', { ...run('ls'), tool: 'RemoteShell' }), false);
  assert.ok(covers(inFolder('ls', root), inFolder('ls -a', root)));
  assert.equal(labelOf('cat a.ts', { cwd: path.join(root, 'src') }), '`cat` with any path in the folder in src');
  for (const cwd of ['/etc', `${root}/out`, `${root}/.git`, `${root}/src`, root])
    assert.equal(covers('ls', inFolder('ls -a', cwd)), false, cwd);
  for (const cwd of ['/etc', `${root}/out`, `${root}/.git`]) assert.equal(covers(inFolder('ls', cwd), inFolder('ls -a', cwd)), false, cwd);
  // Below `src`, two levels up is outside of the folder, and `secret` is another file.
  assert.equal(covers(inFolder('cat a', `${root}/src`), inFolder('cat ../../x', `${root}/src`)), false);
  const withVariables = (command) => run(command, { env: { GIT_EXTERNAL_DIFF: './x' } });
  assert.equal(covers('git diff', withVariables('git diff')), false);
  assert.equal(covers(withVariables('git diff'), withVariables('git diff HEAD~1')), false);
  assert.ok(covers(withVariables('git diff'), withVariables('git diff')));
  assert.equal(covers('git status', run('git status', { dangerouslyDisableSandbox: true })), false);
});

test('a command as a list of words is covered like its text only if its words are plain', () => {
  assert.equal(labelOf(['git', 'diff', 'a']), '`git diff` with any revision or path');
  assert.ok(covers(run(['git', 'diff']), run(['git', 'diff', 'HEAD'])));
  assert.equal(covers(run(['git', 'diff']), run('git diff HEAD')), false);
  for (const word of ['a b', 'a\tb', 'a\n-x', 'a;id', '$(id)', '', '*', '~', "'a'", '\u200ba', '&&', '=id'])
    assert.equal(covers(run(['echo', 'a']), run(['echo', word])), false, JSON.stringify(word));
  assert.equal(labelOf(['bash', '-lc', 'ls']), 'exactly `bash -lc ls`');
  assert.equal(covers(run(['bash', '-lc', 'ls']), run(['bash', '-lc', 'id'])), false);
  assert.equal(covers(run(['sh', '-c', 'a b']), run(['sh', '-c', 'a', 'b'])), false);
});

test('git is covered word by word in a folder that git may take for a repository', () => {
  const cwd = path.join(root, 'bare');
  assert.equal(covers(run('git status', { cwd }), run('git status -s', { cwd })), false);
  const inSource = { cwd: path.join(root, 'src') };
  assert.ok(covers(run('git status', inSource), run('git status -s', inSource)));
});

test('after a change of the shell, a command is covered only word by word', () => {
  const rules = new SessionRules();
  rules.add(scopeOf(run('touch a'), placeIn()));
  /** @type {import('../src/shell-changes.mjs').ShellChange[]} */
  const changes = ['nothing', 'directory', 'variables'];
  const isCovered = (command, shell) => rules.find(scopeOf(run(command), placeIn(shell))) !== undefined;
  assert.deepEqual(
    changes.map((shell) => isCovered('touch b', shell)),
    [true, false, false],
  );
  assert.deepEqual(
    changes.map((shell) => isCovered(`cd ${root} && touch b`, shell)),
    [true, true, false],
  );
  rules.add(scopeOf(run('./x'), placeIn()));
  assert.deepEqual(
    changes.map((shell) => isCovered('./x', shell)),
    [true, false, false],
  );
  const inFolder = run('touch a', { cwd: root });
  rules.add(scopeOf(inFolder, placeIn('directory')));
  assert.ok(rules.find(scopeOf(run('touch c', { cwd: root }), placeIn('directory'))));
});

test('commands that change the shell are recognized', () => {
  const changes = (lines, kept) => lines.map((line) => shellChangeOf(line, '/code/shop', kept));
  const moves = [
    'cd .git',
    'ls; cd x',
    'pushd x',
    'popd',
    "'cd' x",
    'c\\d x',
    'x=$(cd y) && cd z',
    'if a; then cd b; fi',
    'cd /code/shop/x',
    'cd',
  ];
  for (const kept of /** @type {const} */ (['directory', 'variables']))
    for (const line of moves) assert.notEqual(shellChangeOf(line, '/code/shop', kept), 'nothing', line);
  // A search of this line would take an hour.
  assert.equal(shellChangeOf('do -'.repeat(150_000), '/code/shop', 'variables'), 'variables');
  const settings = [
    'export PATH=.',
    'alias ls=id',
    'A=1',
    'ls; source x',
    '. ./x',
    'ls() { id; }',
    'function ls',
    'eval x',
    'a\nset -x',
    'builtin eval x',
    '! export PATH=.',
    'if export A=1; then ls; fi',
    'case a in a) export A=1;; esac',
    'time -p export A=1',
    'for PATH in ./x; do ls; done',
    'read PATH < x',
    'printf -v PATH x',
    "test 'a[PATH=5]' -eq 0",
    'A[0]=x',
    'ls ( ) { id; }',
    `: $\{PATH:=x}`,
    '$(echo export) A=1',
    '{export,A=1}',
    'let PATH=5',
  ];
  for (const line of settings) assert.deepEqual(changes([line], 'variables'), ['variables'], line);
  assert.deepEqual(changes(['export A=1', 'source x'], 'directory'), ['nothing', 'nothing']);
  assert.deepEqual(
    changes([...moves, ...settings], 'nothing'),
    [...moves, ...settings].map(() => 'nothing'),
  );
  const harmless = [
    'ls',
    'cd /code/shop && npm test',
    'git add . && git commit -m "cd x"',
    'grep cd a',
    'ls source',
    './cd x',
    'npm run set',
    'npm test 2>&1 | tail',
    'for f in a b; do cat $f; done',
    'grep -rn x . 2>/dev/null',
  ];
  assert.deepEqual(
    changes(harmless, 'variables'),
    harmless.map(() => 'nothing'),
  );
});

/** Text that no entry of the table may accept in any place, because a shell or a program would run it or write by it. */
const INJECTIONS = [
  '$(id)',
  '`id`',
  '> x',
  '; id',
  '&& id',
  '| sh',
  '\nid',
  '/etc/passwd --output=x',
  '--exec=./x',
  '-o/tmp/x',
  "'a[$(id)]' > x",
];

test('no command of the table is covered with an injection after it', () => {
  for (const { words } of COMMANDS) {
    for (const injection of INJECTIONS) {
      const command = `${words} ${injection}`;
      assert.match(labelOf(command), /^exactly /, command);
    }
  }
});
