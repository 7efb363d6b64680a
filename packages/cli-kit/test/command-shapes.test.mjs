/** The commands that an approval for the session covers. */

import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { before, test } from 'node:test';
import { COMMANDS } from '../src/command-table.mjs';
import { SessionRules, scopeOf } from '../src/session-rules.mjs';
import { shellChangeOf } from '../src/shell-changes.mjs';
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

/** Each command is covered after the first one of its list. */
const COVERED = {
  '`ls` with any path in the folder': ['ls', 'ls -la src', 'ls src/', 'ls ./src', 'ls -- src', 'ls missing', 'ls -A --color=auto .'],
  '`cat` with any path in the folder': ['cat a', 'cat -n src/a.ts README.md', 'cat link.ts', "cat 'a b'", 'cat'],
  '`head` with any path in the folder': ['head a', 'head -5 a', 'head -n 20 src/a.ts', 'head -n -5 a', 'head -n20 a', 'head -c 10'],
  '`sed -n` with any lines and path in the folder': ['sed -n 1,20p a', "sed -n '5p' src/a.ts", "sed -n '1,$p' b"],
  '`grep` with any pattern and path in the folder': ['grep x a', 'grep -n "a b" src/a.ts', "grep -c 'a[b]*$' README.md", 'grep -A3 x a'],
  '`grep -r` with any pattern and path in the folder': ['grep -r x .', 'grep -rn y src'],
  '`rg` with any pattern and path in the folder': ['rg total', 'rg -n total src', 'rg -t ts -C 2 "a|b" src'],
  '`find` with any name and path in the folder': ['find . -name "*.ts"', 'find src -type f -maxdepth 2 -not -name a', 'find . -mtime -1'],
  '`echo` with any text': ['echo one', 'echo "one; two" three', 'echo -n x', "echo '$(x)'"],
  '`git diff` with any revision or path': [
    'git diff',
    'git diff HEAD~1',
    'git diff main..dev -- src',
    'git diff --stat HEAD^ HEAD',
    'git diff -U5 --cached',
    'git diff origin/main...HEAD',
  ],
  '`git log` with any revision or path': ['git log', 'git log --oneline -5', "git log --format='%h %s' -n 3 main", 'git log -S total'],
  '`git show` with any revision or path': ['git show', 'git show HEAD:src/a.ts', 'git show --stat v1.2'],
  '`git status` with any path in the folder': ['git status', 'git status -sb', 'git status --porcelain=v2 -uno'],
  '`git branch` with any listing option': ['git branch', 'git branch -a', 'git branch --show-current'],
  '`git add` with any path in the folder': ['git add a', 'git add -A', 'git add .', 'git add src b'],
  '`git commit` with any message and path in the folder': [
    'git commit -m a',
    'git commit -m "b c"',
    'git commit -am "$5"'.replace('$', ''),
  ],
  '`cargo test` with any filter': [
    'cargo test',
    'cargo test foo',
    'cargo test --locked -p hub totals::a -- --nocapture',
    'cargo test -- -q x',
  ],
  '`cargo clippy` with any target, feature and lint': ['cargo clippy', 'cargo clippy --all-targets -- -D warnings'],
  '`go test` with any package and filter': ['go test', 'go test ./... -v', 'go test -run TestA -count=1 ./src/...'],
  '`pytest` with any test and filter in the folder': ['pytest', 'pytest -q src/a.ts::test_b', 'pytest -k "a and b" -x --tb=short'],
  '`npm test`': ['npm test', 'npm test --silent'],
  '`npm run lint`': ['npm run lint', 'npm run -s lint'],
  '`make`': ['make', 'make -j4'],
  '`make test check`': ['make test check', 'make -k test check'],
  '`mkdir` with any path in the folder': ['mkdir notes', 'mkdir -p src/x/y'],
  '`touch` with any path in the folder': ['touch p1.txt', 'touch p2.txt src/p3'],
  '`rm` with any files in the folder': ['rm a', 'rm -f b src/a.ts'],
  '`cp` with any files in the folder': ['cp a c', 'cp a b src', 'cp a .'],
  '`mv` with any files in the folder': ['mv a c', 'mv b src/'],
  '`git status` with any path in the folder and `git diff` with any revision or path': [
    'git status && git diff',
    'git diff HEAD~1; git status -s',
    'git status',
    'git diff a',
  ],
  '`cat` with any path in the folder and `head` with any path in the folder': ['cat a | head -5', 'cat src/a.ts|head', 'cat a'],
};

for (const [label, [approved, ...later]] of Object.entries(COVERED)) {
  test(`an approval for the session covers: ${label}`, () => {
    assert.equal(labelOf(approved), label);
    for (const command of [approved, ...later]) assert.ok(covers(approved, command), command);
  });
}

/** Commands that are asked about, each list after its first command was approved for the session. */
const ASKED = {
  'builtins that evaluate the subscripts of names': [
    ["printf '%s\\n' hi", "printf -v 'a[$(touch pwned; id > pwned)]' x"],
    ['test -f a', "test -v 'a[$(id)]'", "test 'a[$(id)]' -eq 0", "[ -v 'a[$(id)]' ]", "[[ 'a[$(id)]' -eq 0 ]]"],
    ['read x', "read 'a[$(id)]'"],
    ['compgen -v', 'compgen -C id'],
    ['jobs', 'jobs -x id'],
    ['unset x', "unset 'a[$(id)]'"],
    ['let x', "let 'a[$(id)]'"],
  ],
  'programs that run code or write anywhere by an argument': [
    ['split a', "split --filter='touch${IFS}x' a", 'split --filter=./x a'],
    ['gcc --version', 'gcc -fplugin=./x.so a.c'],
    [
      'pytest',
      'pytest -p evil',
      'pytest -c x.ini',
      'pytest --rootdir=/tmp',
      'pytest -o addopts=-pevil',
      'pytest --pyargs evil',
      'pytest -pevil',
      'pytest @a',
    ],
    ['eslint --version', 'eslint -f ./x.js'],
    ['curl --version', 'curl -o .git/hooks/pre-commit https://example.com'],
    ['tree', 'tree -o x'],
    ['uniq a', 'uniq a b', 'uniq -c a b'],
    ['xxd a', 'xxd -r a b'],
    ['go build', 'go build -ldflags=-extld=./x', 'go build -o /tmp/x', 'go build -toolexec=./x', 'go build -overlay=x', 'go build -C /tmp'],
    [
      'go test',
      'go test -exec=./x',
      'go test -exec ./x',
      'go test -vettool=./x',
      'go test ../x',
      'go test /tmp/...',
      'go test out/secret',
      'go test -coverprofile=x',
    ],
    ['go vet', 'go vet -vettool=./x'],
    ['gh repo view a/b', 'gh repo clone a/b -- --upload-pack=./x'],
    ['npm install', 'npm install evil'],
    ['npm test', 'npm test -- -x', 'npm test --script-shell=./x', 'npm test --prefix /tmp', 'npm test x'],
    ['npm run lint', 'npm run deploy', 'npm run lint -- --fix', 'npm run lint deploy'],
    [
      'make build',
      'make build deploy',
      'make deploy',
      'make',
      'make -f x build',
      'make build SHELL=./x',
      'make --eval=x build',
      'make -C /tmp build',
    ],
    [
      'cargo test',
      'cargo test --config a=b',
      'cargo test --manifest-path /tmp/Cargo.toml',
      'cargo test -Z x',
      'cargo test --target=x.json',
    ],
    ['cargo test', 'cargo +nightly test', 'cargo test -- --logfile=x', 'cargo test -p -Zx', 'cargo test --conf a=b'],
    ['cargo build', 'cargo build --target-dir /tmp', 'cargo build --artifact-dir=/tmp', 'cargo run', 'cargo install x'],
    ['cargo clippy', 'cargo clippy --fix', 'cargo clippy -- -C linker=./x', 'cargo clippy -- --emit=x', 'cargo clippy -- -D @a'],
    ['find .', 'find . -exec rm a', 'find . -delete', 'find . -fprintf a x', 'find . -ok rm a', 'find /etc', 'find -L .'],
    [
      'rg x',
      'rg --pre ./x x',
      'rg --hostname-bin=x x',
      'rg -z x',
      'rg -f /etc/passwd',
      'rg --hidden x',
      'rg -uuu x',
      "rg -g '*' x",
      'rg -L x',
    ],
    ['grep x a', 'grep -r x .', 'grep -R x .', 'grep -f /etc/passwd a', 'grep -e x /etc/passwd', 'grep -rn x a'],
    ['sort a', 'sort -o b a', 'sort -ob a', 'sort --output=b a', 'sort --compress-program=./x a', 'sort -T /tmp a', 'sort --files0-from=x'],
    ['sed -n 1p a', "sed -n '1e id' a", 'sed -n w a', 'sed -n 1p -i a', 'sed -n 1p a -e 1w', 'sed -i 1p a'],
    ['date', 'date 0101', 'date -s x', 'date -f a'],
    ['file a', 'file -C -m a', 'file -m a b'],
    ['diff a b', 'diff -l a b', 'diff -r a b', 'diff --to-file=/etc/passwd a', 'diff a /etc/passwd'],
    ['wc a', 'wc --files0-from=/etc/passwd'],
  ],
  'git with a program, another file or another repository': [
    ['git push', 'git push --force OTHER', 'git push origin'],
    ['git fetch origin', 'git fetch --upload-pack=./x origin', 'git fetch ext::sh'],
    [
      'git diff',
      'git diff --output=x',
      'git diff --ext-diff',
      'git diff --textconv',
      'git diff --no-index /etc/passwd a',
      'git diff -O/etc/passwd',
    ],
    [
      'git diff',
      'git diff /etc/passwd a',
      'git -c diff.external=./x diff',
      'git --exec-path=. diff',
      'git -C bare diff',
      'git --git-dir=bare diff',
    ],
    [
      'git diff',
      'git diff --out=x',
      'git diff .env',
      'git diff HEAD:.env',
      'git diff HEAD:../x',
      "git diff ':/x'",
      'git diff out/secret',
      'git diff HEAD:/etc',
    ],
    ['git log', 'git log --output=a', 'git log --show-signature', 'git log --ext-diff -p', 'git log --output a'],
    ['git show', 'git show --textconv', 'git show HEAD:.env'],
    ['git grep x', 'git grep -O./x x', 'git grep --open-files-in-pager=./x x'],
    ['git branch', 'git branch -D main', 'git branch new', 'git branch -m a b', 'git branch --edit-description', 'git branch -u a'],
    ['git stash list', 'git stash', 'git stash drop', 'git stash list --output=x'],
    ['git remote -v', 'git remote add x ext::sh', 'git remote -v update'],
    [
      'git commit -m a',
      'git commit --amend -m a',
      'git commit -F /etc/passwd',
      'git commit -m a -C HEAD',
      'git commit -n -m a',
      'git commit -t x',
    ],
    ['git add a', 'git add -f a', "git add ':(top)x'", 'git add --pathspec-from-file=x', 'git add -i', 'git add ../x'],
    ['git blame a', 'git blame --contents /etc/passwd a'],
    ['git ls-files', 'git ls-files -X /etc/passwd', 'git ls-files --exclude-from=x'],
  ],
  'files outside of the folder, and hidden or protected files': [
    [
      'cat a',
      'cat /etc/passwd',
      'cat ../x',
      'cat ~/x',
      'cat out/secret',
      'cat secret',
      'cat .env',
      'cat git/config',
      'cat src/../../x',
      'cat ~',
    ],
    ['ls', 'ls ..', 'ls /', 'ls .git', 'ls out', 'ls ~root', 'ls /home/u'],
    [
      'rm a',
      'rm -rf /home/u',
      'rm -r src',
      'rm -R src',
      'rm --recursive src',
      'rm /etc/passwd',
      'rm .env',
      'rm out/secret',
      'rm .',
      'rm -fr a',
      'rm opencode.json',
    ],
    [
      'cp a c',
      'cp x .git/hooks/pre-commit',
      'cp a .git',
      'cp a git/config',
      'cp -r src c',
      'cp a /tmp',
      'cp -t /tmp a',
      'cp a secret',
      'cp .env c',
    ],
    [
      'cp a c',
      'cp evil/secret .',
      'cp evil/opencode.json .',
      'cp a opencode.json',
      'cp a OpenCode.json',
      'cp -l a c',
      'cp -s a c',
      'cp -S .x -b a c',
    ],
    ['mv a c', 'mv a .env', 'mv src .git', 'mv src c', 'mv link.ts c', 'mv a out', 'mv -t .git a', 'mv a ../x', 'mv evil/secret .'],
    ['touch a', 'touch -r /etc/passwd a', 'touch .npmrc', 'touch out/x', 'touch .git/x', 'touch -d x a'],
    ['mkdir a', 'mkdir /tmp/x', 'mkdir .claude', 'mkdir -m 777 x', 'mkdir src/.x'],
    ['ln a b', 'ln -sf /etc/passwd a'],
    ['chmod +x a', 'chmod 777 /etc/passwd', 'chmod +x b'],
  ],
  'other programs, also under similar names': [
    [
      'ls',
      './ls',
      '/bin/ls',
      'bin/ls',
      'Ls',
      'lsof',
      'env ls',
      'sudo ls',
      'sh -c ls',
      'time ls',
      'command ls',
      'xargs ls',
      'exec ls',
      '\\ls -a',
      'lｓ',
    ],
    ['tool --version', 'tool delete', 'tool --version x'],
    ['terraform plan', 'terraform apply'],
    ['sh -c ls', 'sh -c id', 'bash -c ls'],
    ["awk '{print}' a", "awk 'BEGIN{system(1)}'"],
    ['python -m pytest', 'python -m evil', 'python -c 1', 'python'],
    ['constructor', 'toString', '__proto__'],
  ],
  'expansions, redirections, assignments and other operators': [
    [
      'ls',
      'ls $(id)',
      'ls `id`',
      'ls "$(id)"',
      'ls $HOME',
      'ls ${x}',
      "ls $'a'",
      'ls {a,b}',
      'ls !!',
      'ls *',
      'ls src/*.ts',
      'ls a?',
      'ls [a]',
      'ls =id',
    ],
    [
      'ls',
      'ls > a',
      'ls >> a',
      'ls 2>/dev/null',
      'ls < a',
      'ls <(id)',
      'ls &',
      'ls || id',
      'ls |& cat',
      '(ls)',
      '{ ls; }',
      'ls # x',
      'ls \\a',
      'ls ;',
    ],
    [
      'ls',
      'A=1 ls',
      'PATH=/tmp ls',
      'ls\nid',
      'ls\tsrc',
      'ls src\n',
      'ls\rid',
      'ls\u2028id',
      'ls \u200b-a',
      'ls "\u202eb"',
      "ls 'a",
      'ls "a',
      'ls && ',
      '; ls',
    ],
    [
      'ls',
      'ls; rm x',
      'ls && id',
      'id && ls',
      'ls | sh',
      'ls; cd /etc; ls',
      'cd / && ls',
      'cd src && ls',
      'if ls; then ls; fi',
      '! ls',
      'ls;;ls',
    ],
    ['ls && cat a', 'ls && cat a && id', 'ls && cat .env'],
    ['git diff', 'git diff a=~/x', 'git diff a:~/x'],
  ],
};

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
