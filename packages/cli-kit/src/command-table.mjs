/**
 * The commands whose shape an approval for the session may cover: readers, runners of tests and builds, and writers. A command that this
 * table does not describe is covered only word by word. Add an option only if it can neither run a program nor name a file to write.
 *
 * - `words`: the program and its subcommands.
 * - `options`: `-[ab]` are the short options `-a` and `-b`, `-NUM` a number such as `-5`. `=KIND` marks a value, `[=KIND]` a value that the
 *   command may leave out. An option that ends in `!` belongs to the rule: the rule covers only commands with the same such options
 *   and values.
 * - `args`: the kinds of the other arguments. `*` marks a kind that may repeat, `!` an argument that belongs to the rule.
 * - `after`: the options and arguments after `--`.
 * - `covers`: what may differ, in words for people.
 * - `manual`: the manual from which the entry was read.
 *
 * Kinds: `text`, `pretty` (a format of git that checks no signature, because `gpg.program` would run), `number`, `name` (of a script,
 * target or lint), `lines` (such as `1,20p`), `format` (such as `+%F`), `path` (to read), `object` (a path, or a revision of git),
 * `package` (of Go: a folder or an import path), `testcase` (of pytest), `change` (a path to change), `source` and `target` (of a copied
 * file). The paths of all kinds are inside the session's directory and not hidden.
 *
 * @typedef {{options?: string, args?: string}} Arguments
 * @typedef {Arguments & {words: string, after?: Arguments, covers?: string, manual: string}} Entry
 */

const COREUTILS = 'GNU coreutils 9.1';
const GIT = 'git 2.47';
const PATHS = 'any path in the folder';
const OBJECTS = 'any revision or path';

const DIFF = `-[pswbRMCz] -NUM --stat[=text] --shortstat --numstat --name-only --name-status --summary --patch --no-patch --check --color[=text]
  --no-color --word-diff[=text] --diff-filter=text -U=number --unified=number --no-renames --no-ext-diff --no-textconv --minimal
  --histogram --patience --ignore-all-space --ignore-space-change --full-index --binary`;

const LOG = `${DIFF} -[igEFP] -n=number --max-count=number --skip=number --oneline --graph --all --branches --tags --remotes --decorate[=text]
  --no-decorate --since=text --until=text --after=text --before=text --author=text --committer=text --grep=text --format=pretty
  --pretty[=pretty] --abbrev-commit --date=text --follow --reverse --merges --no-merges --first-parent -S=text -G=text`;

const CARGO = `-[rqv] --release --quiet --verbose --lib --bins --bin=text --tests --test=text --examples --example=text --benches --bench=text
  --doc --all-targets -p=text --package=text --workspace --all --exclude=text -F=text --features=text --all-features
  --no-default-features --profile=text --locked --offline --frozen -j=number --jobs=number --color=text --message-format=text --keep-going`;

const GO =
  '-v -race -short -cover -json -failfast -run=text -skip=text -bench=text -count=number -timeout=text -parallel=number -tags=text';

const PYTEST = `-[qvxsl] --lf --ff --last-failed --failed-first --collect-only --no-header --verbose --quiet --exitfirst -k=text -m=text
  -r=text --tb=text --maxfail=number --durations=number --color=text`;

/** @type {Entry[]} */
export const COMMANDS = [
  // Readers
  { words: 'ls', options: '-[1AFRSadhilprt] --all --color[=text]', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'cat', options: '-[nbestv]', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'head', options: '-NUM -n=number -c=number -[qv]', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'tail', options: '-NUM -n=number -c=number -[qvf]', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'sed -n', args: 'lines path*', covers: 'any lines and path in the folder', manual: 'GNU sed 4.9' },
  { words: 'wc', options: '-[lwcm]', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'stat', options: '-c=text --format=text', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'file', options: '-[bi]', args: 'path*', covers: PATHS, manual: 'file 5.44' },
  { words: 'du', options: '-[hsackm] -d=number --max-depth=number', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'df', options: '-[hk]', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'pwd', manual: COREUTILS },
  { words: 'whoami', manual: COREUTILS },
  { words: 'which', options: '-[a]', args: 'text*', covers: 'any name', manual: 'debianutils 5.7' },
  { words: 'date', options: '-[u]', args: 'format', covers: 'any format', manual: COREUTILS },
  { words: 'echo', options: '-[neE]', args: 'text*', covers: 'any text', manual: 'POSIX.1-2024; bash 5.2; zsh 5.9' },
  { words: 'basename', options: '-[a] -s=text', args: 'text*', covers: 'any text', manual: COREUTILS },
  { words: 'dirname', args: 'text*', covers: 'any text', manual: COREUTILS },
  { words: 'realpath', args: 'path*', covers: PATHS, manual: COREUTILS },
  {
    words: 'grep',
    options: `-[niclwxFEvohHsqIP] -[r]! -[ABCm]=number --color[=text] --include=text! --exclude=text --exclude-dir=text`,
    args: 'text path*',
    covers: 'any pattern and path in the folder',
    manual: 'GNU grep 3.8',
  },
  // A glob also selects hidden files.
  {
    words: 'rg',
    options: '-[niclwxFPSsvoUNHI] -[ABCm]=number -t=text --type=text -T=text -g=text! --glob=text! --no-heading --heading --color=text',
    args: 'text path*',
    covers: 'any pattern and path in the folder',
    manual: 'ripgrep 13.0',
  },
  { words: 'rg --files', options: '-t=text --type=text', args: 'path*', covers: PATHS, manual: 'ripgrep 13.0' },
  {
    words: 'find',
    options: `-name=text -iname=text -path=text -ipath=text -type=text -maxdepth=number -mindepth=number -size=number -mtime=number
      -mmin=number -newer=path -not -a -o -print -print0 -empty -prune`,
    args: 'path*',
    covers: 'any name and path in the folder',
    manual: 'GNU findutils 4.9',
  },
  { words: 'diff', options: '-[uqwbBiay] -U=number', args: 'path path', covers: PATHS, manual: 'GNU diffutils 3.8' },
  { words: 'cmp', options: '-[sl]', args: 'path path', covers: PATHS, manual: 'GNU diffutils 3.8' },
  { words: 'sort', options: '-[bcdfghinrsuVMz] -k=text -t=text', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'uniq', options: '-[cdui] -f=number -s=number', args: 'path', covers: PATHS, manual: COREUTILS },
  { words: 'cut', options: '-[s] -d=text -f=text -c=text -b=text', args: 'path*', covers: PATHS, manual: COREUTILS },
  { words: 'tr', options: '-[cds]', args: 'text text', covers: 'any text', manual: COREUTILS },

  // Git. The programs in the configuration of a repository are the user's choice, such as a hook or an external program for differences.
  {
    words: 'git status',
    options: '-[sbvz] -uno -uall --short --branch --porcelain[=text] --ignored --long',
    args: 'object*',
    covers: PATHS,
    manual: GIT,
  },
  {
    words: 'git diff',
    options: `${DIFF} --cached --staged --merge-base --exit-code --quiet`,
    args: 'object*',
    covers: OBJECTS,
    manual: GIT,
  },
  { words: 'git log', options: LOG, args: 'object*', covers: OBJECTS, manual: GIT },
  { words: 'git show', options: LOG, args: 'object*', covers: OBJECTS, manual: GIT },
  { words: 'git blame', options: '-[wMCesl] -L=text', args: 'object*', covers: OBJECTS, manual: GIT },
  { words: 'git branch', options: '-[arv] --all --remotes --list --show-current --no-color', covers: 'any listing option', manual: GIT },
  {
    words: 'git rev-parse',
    options: '--short[=number] --abbrev-ref --verify --show-toplevel --show-prefix --git-dir --is-inside-work-tree',
    args: 'object*',
    covers: OBJECTS,
    manual: GIT,
  },
  {
    words: 'git ls-files',
    options: '-[cdmosz] --cached --deleted --modified --others --stage --exclude-standard',
    args: 'object*',
    covers: PATHS,
    manual: GIT,
  },
  { words: 'git shortlog', options: '-[sne] --all --no-merges --since=text', args: 'object*', covers: OBJECTS, manual: GIT },
  { words: 'git stash list', manual: GIT },
  { words: 'git remote -v', manual: GIT },
  { words: 'git add', options: '-[Auvn] --all --update --verbose --dry-run', args: 'object*', covers: PATHS, manual: GIT },
  {
    words: 'git commit',
    options: '-[asqv] -m=text --message=text --all --signoff --quiet --verbose --no-edit --amend! --allow-empty',
    args: 'object*',
    covers: 'any message and path in the folder',
    manual: GIT,
  },

  // Runners of tests and builds. They run the code of the project.
  {
    words: 'cargo test',
    options: `${CARGO} --no-run --no-fail-fast`,
    args: 'text',
    after: {
      options: '-[q] --quiet --nocapture --show-output --ignored --include-ignored --exact --list --test-threads=number --skip=text',
      args: 'text*',
    },
    covers: 'any filter',
    manual: 'cargo 1.95; libtest',
  },
  { words: 'cargo build', options: CARGO, covers: 'any target and feature', manual: 'cargo 1.95' },
  { words: 'cargo check', options: CARGO, covers: 'any target and feature', manual: 'cargo 1.95' },
  {
    words: 'cargo clippy',
    options: CARGO,
    after: { options: '-D=name -W=name -A=name' },
    covers: 'any target, feature and lint',
    manual: 'clippy 1.95',
  },
  { words: 'cargo fmt', options: '--all --check -p=text', after: { options: '--check' }, covers: 'any package', manual: 'rustfmt 1.8' },
  { words: 'go test', options: GO, args: 'package*', covers: 'any package and filter', manual: 'go 1.20' },
  { words: 'go vet', options: '-v -json -tags=text', args: 'package*', covers: 'any package', manual: 'go 1.20' },
  { words: 'go build', options: '-v -race -tags=text', args: 'package*', covers: 'any package', manual: 'go 1.20' },
  ...['pytest', 'python -m pytest', 'python3 -m pytest'].map((words) => ({
    words,
    options: PYTEST,
    args: 'testcase*',
    covers: 'any test and filter in the folder',
    manual: 'pytest 9.2',
  })),
  ...['npm', 'pnpm', 'yarn'].flatMap((program) => [
    { words: `${program} test`, options: '-[s] --silent', manual: 'npm 11; pnpm 9; yarn 1.22' },
    { words: `${program} run`, options: '-[s] --silent', args: 'name!', manual: 'npm 11; pnpm 9; yarn 1.22' },
  ]),
  { words: 'make', options: '-[ksBn] -j=number', args: 'name!*', manual: 'GNU make 4.3' },

  // Writers
  { words: 'mkdir', options: '-[pv]', args: 'change*', covers: PATHS, manual: COREUTILS },
  { words: 'touch', options: '-[acm]', args: 'change*', covers: PATHS, manual: COREUTILS },
  { words: 'cp', options: '-[fnpv]', args: 'source* target', covers: 'any files in the folder', manual: COREUTILS },
  { words: 'mv', options: '-[fnv]', args: 'source* target', covers: 'any files in the folder', manual: COREUTILS },
  { words: 'rm', options: '-[fv]', args: 'change*', covers: 'any files in the folder', manual: COREUTILS },
];
