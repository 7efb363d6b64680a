/**
 * The scope of a command: the program, and the subcommand if the program has subcommands. An approval for the session covers later
 * commands with the same scope. A command that may run another program or other code has no scope: shells, interpreters, and programs with
 * an argument that names a program.
 */

/** @typedef {import('./shell-command.mjs').Word} Word */

const toSet = (text) => new Set(text.trim().split(/\s+/));

/** Programs that run other programs or code, and words of the shell itself. A version at the end of a name is ignored: `python3.12`. */
const LAUNCHERS = toSet(`
  sh bash dash zsh fish ksh mksh csh tcsh ash busybox toybox pwsh powershell cmd command.com
  env sudo doas su runuser pkexec chroot unshare nsenter setpriv setarch systemd-run systemctl launchctl capsh firejail bwrap
  xargs parallel fd fdfind entr watch watchexec nodemon concurrently foreman overmind hyperfine
  time nohup nice ionice chrt taskset timeout stdbuf setsid script expect unbuffer strace ltrace dtrace gdb lldb valgrind perf flock
  eval exec source command builtin trap alias unalias export set unset shopt declare typeset local readonly enable hash coproc
  cd pushd popd if for while until case select function then do else fi done esac
  python pypy ipython node nodejs deno bun tsx ts-node perl raku ruby irb php lua luajit tclsh wish rscript r julia groovy scala
  kotlin kotlinc jshell java swift ghci runghc elixir iex erl escript guile racket sbcl clisp osascript
  emacs vim vi view nvim ed ex nano awk gawk mawk nawk sed dc m4 sqlite sqlite3 psql mysql mariadb mongosh redis-cli
  npx pnpx bunx uvx pipx tox nox nix nix-shell nix-env direnv asdf mise rtx volta nvm fnm pyenv rbenv conda mamba micromamba
  ssh scp sftp rsync mosh telnet nc ncat netcat socat tmux screen at batch crontab
  docker docker-compose podman podman-compose nerdctl kubectl oc lxc vagrant tar gtar bsdtar zip less more man wget op doppler
`);

/** Programs without subcommands, which run no other program, except with the arguments in `UNSAFE_ARGUMENTS`. */
const WITHOUT_SUBCOMMANDS = toSet(`
  ls cat head tail wc echo printf pwd mkdir touch cp mv rm rmdir ln chmod chown stat file du df date whoami id uname basename
  dirname realpath readlink cut tr uniq comm diff cmp paste fold nl tac rev seq sleep true false test which tree grep egrep fgrep
  rg find sort md5sum sha1sum sha256sum cksum od xxd hexdump jq
`);

/** Programs whose first argument is a subcommand. A command with an option before the subcommand has no scope. */
const WITH_SUBCOMMANDS = toSet(`
  git npm pnpm yarn cargo go make gmake gradle mvn pip pip3 uv poetry pdm gh glab aws gcloud az terraform dotnet composer bundle
  rake mix brew apt apt-get dnf yum rustup helm
`);

/** Programs with two levels of subcommands, such as `gh pr list`. */
const WITH_TWO_LEVELS = toSet('gh glab aws gcloud az');

/** Programs whose `run NAME` runs a script of the project. The name of the script belongs to the scope. */
const WITH_SCRIPTS = toSet('npm pnpm yarn');

/** Programs that take texts of several words as arguments. For any other program, an argument with a space may be a command. */
const WITH_TEXTS = toSet('git gh glab');

/** Subcommands of git whose arguments name no program to run, except the arguments in `UNSAFE_ARGUMENTS`. */
const GIT_SUBCOMMANDS = toSet(`
  add blame branch checkout cherry-pick clean clone commit describe diff fetch grep init log ls-files merge mv pull push rebase
  reflog remote reset restore rev-parse revert rm shortlog show stash status switch tag worktree
`);

/** Subcommands and other words that run a program or code, or that change which program runs later. */
const RUNNING_WORDS = toSet(`
  run exec execute x dlx shell eval script console repl attach foreach bisect alias extension config tool generate env do with each
`);

/** Further words that run a program or code, for the package managers of `WITH_SCRIPTS`. */
const RUNNING_SCRIPT_WORDS = toSet('create init innit explore edit node pkg plugin set-script run-script rum urn');

/**
 * Options of package managers that name a program, options for a program, a configuration, or another project. Also matches their
 * beginnings, because npm accepts shortened options.
 */
const PACKAGE_OPTION = /^(--(sc|nod|git|sh|ed|vi|pre|us|gl|co|c$)|-C)/;

/** Arguments with which a program runs another program, works in another project, or overwrites a file that an option names. */
const UNSAFE_ARGUMENTS = new Map([
  ['find', /^-(exec|ok|delete|fprint|fls)/],
  ['rg', /^--(pre|hostname-bin)/],
  ['sort', /^(--co|--o|--t|-[A-Za-z]*[oT])/],
  ['make', /^-(?!(j\d*|k|s|B|n)$)/],
  ['gmake', /^-(?!(j\d*|k|s|B|n)$)/],
  ['gradle', /^(-I|-b|-p|--(init|build-file|project-dir))/],
  ['mvn', /^(-f|--file|-s|--settings|-gs)/],
  ['cargo', /^(--manifest-path|-C|-Z)/],
  ['go', /^-C/],
  ['npm', PACKAGE_OPTION],
  ['pnpm', PACKAGE_OPTION],
  ['yarn', PACKAGE_OPTION],
  ['git rebase', /^-[A-Za-z]*x/],
  ['git grep', /^-[A-Za-z]*O/],
  ['git clone', /^-[A-Za-z]*[cu]/],
  ['git merge', /^-s/],
  ['git pull', /^-s/],
]);

/** Options of git that name a program, a configuration or a file to write. Git also accepts unambiguous beginnings of options. */
const GIT_OPTIONS = `--exec --upload-pack --receive-pack --ext-diff --textconv --open-files-in-pager --config --template
  --output --strategy`.split(/\s+/);

/** An address with which git runs a program, such as `ext::sh -c ...`. */
const GIT_TRANSPORT = /^[\w.+-]+::/;

const RUNNING_OPTION =
  /^--?([a-z]+-)*(exec|execute|cmd|command|eval|shell|rsh|askpass|editor|pager|viewer|wrapper|hooks?|plugins?|preload|require|import|loader|init-script|node-options|toolexec|vettool|config|userconfig|rcfile|prefix)(=|$)/;

/** Short options that are often followed by a command or code. */
const RUNNING_SHORT_OPTION = /^-[a-z]{0,3}[ce]$/;

const ASSIGNMENT = /^[A-Za-z_]\w*=/;

/** Excludes capital letters, because `Git` runs `git` where file names ignore case. */
const PROGRAM = /^[a-z0-9][a-z0-9_.+-]{0,63}$/;
const SUBCOMMAND = /^[A-Za-z][\w:.-]{0,63}$/;

/**
 * Returns the scope of a command.
 * @param {Word[]} command the words of the command, the program first
 * @returns {{words: string[], hasMore: boolean} | null} `words`: the program and its subcommands; `hasMore`: whether the scope also
 *   covers commands with more words; null for a command that may run another program
 */
export function commandScope([program, ...args]) {
  const name = program.text;
  // A program that is named by its path is a file that the agent may have written itself.
  if (!program.isLiteral || !PROGRAM.test(name) || isLauncher(name)) return null;
  if (WITHOUT_SUBCOMMANDS.has(name))
    return args.some(({ text }) => UNSAFE_ARGUMENTS.get(name)?.test(text)) ? null : { words: [name], hasMore: true };
  if (args.length === 0) return WITH_SUBCOMMANDS.has(name) && name !== 'make' ? null : { words: [name], hasMore: false };
  const subcommands = readSubcommands(name, args);
  if (!subcommands) return null;
  const otherArgs = args.slice(subcommands.length);
  if (name === 'git' ? !areSafeForGit(subcommands[0], otherArgs) : !areSafe(name, otherArgs)) return null;
  return { words: [name, ...subcommands], hasMore: true };
}

/** Whether a word is the name of a program that runs other programs, such as `/bin/sh` or `Python3.12.exe`. */
function isLauncher(word) {
  const name = word
    .toLowerCase()
    .replace(/^.*[/\\]/, '')
    .replace(/\.(exe|cmd|bat)$/, '');
  return LAUNCHERS.has(name) || LAUNCHERS.has(name.replace(/-?\d[\d.]*$/, ''));
}

/** Returns the subcommands at the start of the arguments. Returns null if a subcommand is missing or runs another program. */
function readSubcommands(name, args) {
  const [first, second] = args;
  const isWord = (word) => word?.isLiteral && SUBCOMMAND.test(word.text);
  // The first argument of an unknown program may be a subcommand, so an approval covers only this argument.
  if (!isWord(first)) return WITH_SUBCOMMANDS.has(name) ? null : [];
  if (WITH_SCRIPTS.has(name) && first.text === 'run') return isWord(second) ? ['run', second.text] : null;
  const words = WITH_TWO_LEVELS.has(name) ? [first, second] : [first];
  const mayRunPrograms = ({ text }) =>
    isLauncher(text) || RUNNING_WORDS.has(text.split(':')[0]) || (WITH_SCRIPTS.has(name) && RUNNING_SCRIPT_WORDS.has(text));
  return words.every((word) => isWord(word) && !mayRunPrograms(word)) ? words.map(({ text }) => text) : null;
}

function areSafeForGit(subcommand, args) {
  if (!GIT_SUBCOMMANDS.has(subcommand)) return false;
  const isDenied = ({ text }) => {
    const option = text.split('=', 1)[0];
    const namesProgram =
      option.length > 2 && option.startsWith('--') && GIT_OPTIONS.some((name) => name.startsWith(option) || option.startsWith(name));
    return namesProgram || GIT_TRANSPORT.test(text) || UNSAFE_ARGUMENTS.get(`git ${subcommand}`)?.test(text);
  };
  return !args.some(isDenied);
}

/** Whether a program with these arguments runs no other program. */
function areSafe(name, args) {
  const isDenied = ({ text }) => {
    const namesProgram = isLauncher(text) || WITHOUT_SUBCOMMANDS.has(text) || WITH_SUBCOMMANDS.has(text) || RUNNING_WORDS.has(text);
    const isOption = RUNNING_OPTION.test(text) || RUNNING_SHORT_OPTION.test(text) || ASSIGNMENT.test(text);
    const isText = text.includes(' ') && !WITH_TEXTS.has(name);
    return namesProgram || isOption || isText || UNSAFE_ARGUMENTS.get(name)?.test(text);
  };
  return !args.some(isDenied);
}
