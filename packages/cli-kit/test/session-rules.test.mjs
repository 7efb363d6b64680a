/** The calls that an approval for the session covers. */

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { SessionRules, scopeOf } from '../src/session-rules.mjs';
import { tempDir } from './support/repository.mjs';

const run = (command, more = {}) => ({ tool: 'Bash', args: { command, ...more }, kind: 'execute' });
const labelOf = (command) => scopeOf(run(command), '/code/shop')?.label ?? null;

/** Commands, each with the scope of an approval. */
const COVERED = {
  'git commit …': [
    'git commit -m "Fix the total"',
    "git commit --amend -m 'It''s $5; really'",
    '  git commit  -a ',
    'git commit -m "say \\"hi\\""',
    'git commit -m Füße',
  ],
  'git status …': ['git status', 'git status -s'],
  'git log …': ['git log --oneline -5 HEAD^ --format=%h', "git log --pretty=format:'%h %s'"],
  'git checkout …': ['git checkout -b feature/x', 'git checkout -- src/*.ts'],
  'git clone …': ['git clone --depth 1 https://example.com/a.git'],
  'gh pr list …': ['gh pr list', 'gh pr list --search "is:open draft:false"'],
  'npm test …': ['npm test', 'npm test -- --grep total'],
  'npm run lint …': ['npm run lint', 'npm run lint -- --fix'],
  'npm install …': ['npm install --save-dev zod'],
  'cargo test …': ['cargo test --locked totals', 'cargo test -- --nocapture'],
  'go test …': ['go test ./... -v'],
  'make test …': ['make test -j4', 'make test check'],
  make: ['make'],
  'pytest …': ['pytest -q tests/test_total.py', 'pytest tests/a.py'],
  'pytest tests …': ['pytest tests'],
  'tsc …': ['tsc --noEmit -p .'],
  'ls …': ['ls', 'ls -la src', 'ls docs/*.md'],
  'mkdir …': ['mkdir -p notes'],
  'touch …': ['touch notes/review.md', "touch 'a file.md'"],
  'echo …': ['echo hello world'],
  'find …': ['find . -name "*.mjs" -newer a'],
  'rg …': ['rg -n total src'],
  'curl …': ['curl -s https://example.com/x'],
};

/** Commands that need an approval each time. */
const NEVER = {
  'a second command': [
    'ls; rm x',
    'ls && touch dangerous',
    'touch dangerous && ls',
    'ls || rm x',
    'ls | sh',
    'ls |& sh',
    'ls & rm x',
    'ls &',
    '(ls)',
    '{ ls; }',
    'ls\nrm x',
    'ls\rrm x',
    'git status\n',
    'ls\u2028rm x',
  ],
  'an expansion': [
    'ls $(rm x)',
    'ls `rm x`',
    'ls "$(rm x)"',
    'ls "`rm x`"',
    'ls $HOME',
    'ls "$HOME"',
    'ls ${x}',
    "ls $'a'",
    'ls {a,b}',
    'ls !!',
    'git commit -m "!rm"',
  ],
  'a redirection': ['ls > a', 'ls >> a', 'ls 2>/dev/null', 'ls < a', 'cat <<EOF', 'cat <<< x', 'diff <(ls) a', 'ls &> a'],
  'a variable in front': ['GIT_SSH=./x git fetch origin', 'PATH=/tmp:$PATH ls', 'A=1 ls', 'A= ls'],
  'an unclosed or unknown quote': [
    'git commit -m "a',
    "ls 'a",
    'ls a\\ b',
    'g\\it commit',
    'ls \\',
    '"git" commit -m a',
    "g''it commit",
    "git 'commit' -m a",
    'ls "a\\nb"',
    '',
    '   ',
  ],
  'a character that people do not see': [
    'ls \u200b-a',
    'ls "\u202egnp.exe"',
    'ls\u00a0-a',
    'git\u00a0commit',
    'ls \t-a',
    'ls \u0007',
    'ls \ud800',
  ],
  'a program with letters that only look like others': ['gіt commit -m a', 'ｌｓ -a', 'Git commit -m a', 'GIT -c alias.x=!sh x'],
  'a pattern that may become an option': ['ls *', 'sort *', 'rm ?x', 'ls [a]*', 'ls -*', 'git add *', '[ -f a ]'],
  'a program that a path names': ['./ls', '/bin/ls', '/tmp/git commit', './gradlew test', '../git commit', '~/bin/git commit', 'bin/ls'],
  'a shell or an interpreter': [
    'sh',
    'sh -c ls',
    'bash -lc ls',
    '/bin/sh -c ls',
    'zsh x',
    'eval ls',
    'exec ls',
    'source a',
    '. a',
    'command ls',
    'builtin ls',
    'trap ls EXIT',
    'python -c "print(1)"',
    'python3 a.py',
    'python3.12 a.py',
    'node -e 1',
    'node20 a',
    'deno run a',
    'bun a.ts',
    'perl -e 1',
    'ruby a.rb',
    'php a.php',
    "awk '{print}' a",
    'sed -n 1,5p a',
    'vim a',
    'sqlite3 a.db .schema',
    'osascript a',
    'bash.exe -c ls',
    'powershell ls',
    'cmd /c dir',
  ],
  'a wrapper': [
    'env ls',
    'sudo ls',
    'doas ls',
    'su -c ls',
    'xargs rm',
    'time ls',
    'nohup ls',
    'nice ls',
    'timeout 5 ls',
    'watch ls',
    'parallel ls',
    'ssh host ls',
    'docker run x',
    'docker ps',
    'kubectl exec a ls',
    'npx tsc',
    'bunx a',
    'uvx ruff',
    'tar xf a.tar',
    'rsync a b',
    'tmux new',
    'export A=1',
    'cd /tmp',
    'alias ls=rm',
    'if true',
    'strace ls',
    'script -c ls a',
    'flock a ls',
    'fd -x rm',
    'less a',
    'man ls',
    'unzip2 -c sh',
    'caffeinate -i rm -rf a',
    'xvfb-run sh a',
    'dotenv -- rm a',
    'cross-env A=1 tsc',
    'retry 3 curl x',
    'concurrent "rm -rf a"',
    'foo /usr/bin/python3 x',
    'foo run x',
    'foo -e x',
    'foo --exec=x',
    'foo -c x',
    'foo --command x',
  ],
  'a program with another one in its arguments': [
    'find . -exec rm a',
    'find . -execdir rm a',
    'find . -ok rm a',
    'find . -delete',
    'find . -fprintf a x',
    'rg --pre ./x total',
    'rg --hostname-bin=x total',
    'sort --compress-program=x a',
    'sort --comp=x a',
    'sort -o a b',
  ],
  'git with a configuration or a program': [
    "git -c alias.x='!sh' x",
    'git -c core.pager=x log',
    'git --exec-path=/tmp status',
    'git -C /tmp commit -m a',
    'git --git-dir=/tmp/x status',
    'git -p log',
    'git',
    'git --version',
    'git config alias.x y',
    'git x',
    'git bisect run make',
    'git submodule foreach ls',
    'git filter-branch',
    'git rebase -x make main',
    'git rebase -ix make',
    'git rebase --exec make',
    'git rebase --ex=make',
    'git fetch --upload-pack=./x origin',
    'git fetch --upl=./x origin',
    'git push --receive-pack=x',
    'git push --exec=x',
    'git clone -c core.sshCommand=x a',
    'git clone -u x a',
    'git clone --config a=b c',
    "git clone 'ext::sh -c touch% a'",
    'git fetch ext::x',
    'git diff --ext-diff',
    'git grep -Ovim a',
    'git grep --open-files-in-pager=x a',
    'git log --output=a',
    'git difftool',
    'git init --template=x',
    'git log -*',
    'git merge -s x a',
  ],
  'a package manager that runs a program': [
    'npm exec tsc',
    'npm x tsc',
    'npm init vite',
    'npm create vite',
    'npm config set script-shell x',
    'npm pkg set scripts.a=b',
    'npm run',
    'npm run --silent x',
    'npm run-script x',
    'npm --prefix /tmp test',
    'npm test --script-shell=./x',
    'npm test --script-sh=x',
    'npm test --node-options=-r',
    'npm install -C /tmp',
    'pnpm dlx a',
    'pnpm exec a',
    'yarn dlx a',
    'yarn node a',
    'yarn exec a',
    'cargo run',
    'cargo test --config a=b',
    'cargo test --manifest-path /tmp/Cargo.toml',
    'go run a.go',
    'go generate',
    'go test -exec x',
    'go build -toolexec x',
    'make -f x',
    'make SHELL=x',
    'make test SHELL=x',
    'make test -f x',
    'make --eval=x test',
    'make -C /tmp test',
    'uv run a',
    'poetry run a',
    'bundle exec a',
    'mvn exec:java',
    'gh alias set a b',
    'gh extension exec a',
    'gh pr',
    'pip config set a b',
  ],
};

for (const [label, commands] of Object.entries(COVERED)) {
  test(`an approval for the session covers: ${label}`, () => {
    for (const command of commands) assert.equal(labelOf(command), label, command);
  });
}

for (const [what, commands] of Object.entries(NEVER)) {
  test(`an approval for the session never covers ${what}`, () => {
    for (const command of commands) assert.equal(labelOf(command), null, JSON.stringify(command));
  });
}

/** Returns whether the approval of the first call for the session covers the second call. */
function covers(approved, later, root = '/code/shop') {
  const rules = new SessionRules();
  const scope = scopeOf(approved, root);
  if (scope) rules.add(scope);
  return rules.find(scopeOf(later, root)) !== undefined;
}

test('a rule for a command covers the same program and subcommand with other arguments, and nothing else', () => {
  assert.ok(covers(run('git commit -m a'), run('git commit -m b --amend')));
  assert.ok(covers(run('ls'), run('ls -la src', { description: 'List the files' })));
  assert.ok(covers(run('npm run lint'), run('npm run lint -- --fix')));
  for (const [approved, later] of [
    ['git commit -m a', 'git push'],
    ['ls', 'lsof'],
    ['ls', 'rm a'],
    ['npm run lint', 'npm run deploy'],
    ['make', 'make deploy'],
    ['make', 'make -j4'],
    ['terraform plan', 'terraform apply'],
    ['tool --version', 'tool delete'],
    ['gh pr list', 'gh pr merge'],
    ['sh -c ls', 'sh -c ls'],
  ]) {
    assert.equal(covers(run(approved), run(later)), false, `${approved} / ${later}`);
  }
});

test('a rule for a command covers neither another tool, nor another directory, nor other variables', () => {
  assert.equal(covers(run('ls'), { ...run('ls'), tool: 'RemoteShell' }), false);
  assert.ok(covers(run('ls', { cwd: '/code/shop' }), run('ls -a', { cwd: '/code/shop' })));
  assert.equal(covers(run('ls', { cwd: '/code/shop' }), run('ls', { cwd: '/etc' })), false);
  assert.equal(covers(run('git status'), run('git status', { env: { GIT_SSH: './x' } })), false);
  assert.equal(covers(run('git status'), run('git status', { dangerouslyDisableSandbox: true })), false);
});

test('a command as a list of words is classified like its text', () => {
  assert.equal(labelOf(['git', 'commit', '-m', 'a; b']), 'git commit …');
  assert.ok(covers(run(['git', 'commit']), run(['git', 'commit', '-m', '$(x)'])));
  for (const command of [['bash', '-lc', 'ls'], ['sh'], [], ['git', 1], ['/bin/ls'], [''], ['constructor', 'x', '-c']])
    assert.equal(labelOf(command), null, command.join(' '));
  assert.equal(covers(run(['git', 'commit']), run('git commit')), false);
});

test('a call of a changing kind is not covered if its arguments do not show the change', () => {
  for (const kind of ['execute', 'edit', 'delete', 'move', 'switch_mode'])
    assert.equal(scopeOf({ tool: 'Tool', args: { title: 'a' }, kind }, '/code'), null, kind);
  for (const args of ['rm -rf a', ['a'], null, { command: { a: 1 } }, { command: 5 }, { questions: [] }, { plan: 'Delete it' }])
    assert.equal(scopeOf({ tool: 'Tool', args }, '/code'), null);
});

test('a rule for a tool covers all its calls, except commands and edits of other files', () => {
  const fetch = (args, kind = 'fetch') => ({ tool: 'WebFetch', args, kind });
  assert.equal(scopeOf(fetch({ url: 'https://example.com' }), '/code').label, 'WebFetch');
  assert.ok(covers(fetch({ url: 'https://example.com' }), fetch({ url: 'https://example.org' })));
  assert.equal(covers(fetch({ url: 'https://example.com' }), { ...fetch({}), tool: 'WebSearch' }), false);
  assert.equal(covers(fetch({ url: 'https://example.com' }), fetch({ command: 'ls' })), false);
  assert.equal(covers(fetch({ url: 'https://example.com' }), fetch({ file_path: '/etc/passwd', content: '' }, 'edit')), false);
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

test('an edit with arguments that do not belong to an edit is not covered', () => {
  const file = { file_path: '/code/a', content: '' };
  /** @type {Record<string, unknown>[]} */
  const refused = [
    { ...file, command: 'ls; rm a' },
    { ...file, target: '/etc/passwd' },
    { ...file, input: { a: 1 } },
    { ...file, changes: [file] },
    { changes: [file, { file_path: '/etc/x', content: '' }] },
    { changes: [file, 'x'] },
    { changes: [] },
    { changes: file },
    { file_path: '/code/a' },
    { content: '' },
  ];
  for (const args of refused) {
    assert.equal(scopeOf({ tool: 'Edit', args, kind: 'edit' }, '/code'), null, JSON.stringify(args));
    if (args.command === undefined && args.file_path !== '/code/a')
      assert.equal(scopeOf({ tool: 'Edit', args }, '/code'), null, JSON.stringify(args));
  }
});

test('a tool that has the arguments of an edit, but another kind, has its own rule', () => {
  const publish = { tool: 'publish', args: { file_path: '/code/a', content: 'x' }, kind: 'other' };
  assert.equal(scopeOf(publish, '/code').kind, 'tool');
  assert.equal(covers(edit('/code/a'), publish, '/code'), false);
});
