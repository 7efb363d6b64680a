import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ShellState } from '../src/shell-state.mjs';
import { startCommand } from '../src/shell.mjs';
import { deferred, nextTurn } from '../../../packages/cli-kit/test/support/wait.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';

/** Runs a command and collects its pieces. */
async function collect(options) {
  const pieces = [];
  const result = await startCommand({
    onOutput: async (piece) => {
      pieces.push(piece);
    },
    ...options,
  }).done;
  return { ...result, pieces, all: pieces.join('') + result.lastPiece };
}

test('standard output and standard error arrive in order, with the exit code', async (t) => {
  const cwd = tempDir(t);
  const { code, all } = await collect({ command: 'echo one; echo two >&2; pwd; exit 3', cwd });
  assert.equal(code, 3);
  assert.equal(all, `one\ntwo\n${cwd}\n`);
});

test('arguments reach the script unchanged', async (t) => {
  const { all } = await collect({ command: 'printf "%s|" "$@"', args: ['a b', '$HOME', ';'], cwd: tempDir(t) });
  assert.equal(all, 'a b|$HOME|;|');
});

test('output arrives in pieces of at most 32 K characters, without split surrogate pairs', async (t) => {
  const { pieces, all } = await collect({
    command: `i=0; while [ $i -lt 3000 ]; do printf '%s' 'x🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂'; i=$((i+1)); done`,
    cwd: tempDir(t),
  });
  assert.ok(pieces.length >= 1);
  assert.ok(pieces.every((piece) => piece.length <= 32 * 1024 && piece.isWellFormed?.() !== false));
  assert.equal(all, 'x🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂'.repeat(3000));
});

test('a slow receiver pauses the command', async (t) => {
  const gate = deferred();
  let pieces = 0;
  const command = startCommand({
    command: 'yes',
    cwd: tempDir(t),
    onOutput: () => {
      pieces += 1;
      return gate.promise;
    },
  });
  while (pieces === 0) await nextTurn();
  for (let i = 0; i < 200; i += 1) await nextTurn();
  assert.equal(pieces, 1);
  command.kill();
  gate.resolve();
  assert.equal((await command.done).signal, 'SIGTERM');
});

test('kill reaches processes that the shell started', async (t) => {
  const started = deferred();
  const command = startCommand({
    command: 'sh -c "echo up; exec sleep 600"; echo not reached',
    cwd: tempDir(t),
    flushDelayMs: 1,
    onOutput: async () => started.resolve(),
  });
  await started.promise;
  command.kill();
  const { code, lastPiece } = await command.done;
  assert.notEqual(code, 0);
  assert.equal(lastPiece, '');
});

test('a background process does not prevent a command from ending', async (t) => {
  const { code, all } = await collect({ command: 'sleep 600 & echo done', cwd: tempDir(t) });
  assert.deepEqual([code, all], [0, 'done\n']);
});

test('output above the limit is discarded, with a note', async (t) => {
  const { all, code } = await collect({ command: 'head -c 500000 /dev/zero | tr "\\0" x', cwd: tempDir(t), maxOutputChars: 100_000 });
  assert.equal(code, 0);
  assert.match(all, /\[output limit reached; the rest is discarded\]\n$/);
  assert.ok(all.length < 200_000);
});

test('a receiver that fails ends the command', async (t) => {
  const command = startCommand({ command: 'yes', cwd: tempDir(t), onOutput: () => Promise.reject(new Error('disconnected')) });
  await assert.rejects(command.done, /disconnected/);
});

/** A shell state, and a function that runs a command with this state, as the agent does. */
function createShell(t, base = { PATH: process.env.PATH, GIVEN: 'by the process' }) {
  const folder = tempDir(t);
  const root = path.join(folder, 'root');
  mkdirSync(path.join(root, 'sub'), { recursive: true });
  const file = path.join(folder, 'state');
  const saved = [];
  const open = () => new ShellState({ root, file, base, saved: saved.at(-1), save: (state) => saved.push(state) });
  const run = async (state, command, args) => {
    const notice = state.begin();
    const { cwd, environment: env } = state;
    const { all, code } = await collect({ command, args, cwd, env, stateFile: file });
    return { notice, change: state.end(), all, code };
  };
  return { root, folder, file, saved, open, run };
}

test('a command continues with the directory and variables of the previous one, also after a restart', async (t) => {
  const { root, open, run, saved } = createShell(t);
  const first = open();
  assert.equal((await run(first, 'cd sub && export COLOR="light blue" && unset GIVEN')).change, `Now in ${root}/sub.`);
  const again = await run(first, 'pwd; echo "$COLOR, ${GIVEN-unset}, $1"; exit 4', ['one']);
  assert.deepEqual([again.all, again.code, again.change], [`${root}/sub\nlight blue, unset, one\n`, 4, null]);
  assert.deepEqual(saved, [{ cwd: `${root}/sub`, env: { COLOR: 'light blue', GIVEN: null } }]);
  const restarted = open();
  assert.equal(String(restarted), `in ${root}/sub, with COLOR, GIVEN as set before`);
  assert.equal((await run(restarted, 'echo $COLOR; cd ..; export GIVEN="by the process"; unset COLOR')).all, 'light blue\n');
  assert.equal(String(restarted), `in ${root}`);
});

test('the state file is readable by this user only, and removed after the command', async (t) => {
  const { folder, file, open, run } = createShell(t);
  const { all } = await run(open(), `stat -c %a ${file}; set -C; export A=1; trap 'echo own trap' EXIT`);
  assert.equal(all, '600\nown trap\n');
  assert.deepEqual(readdirSync(folder), ['root']);
});

test('a command that is killed, or that replaces its shell with `exec`, does not change the shell state', async (t) => {
  const { root, open, run, saved } = createShell(t);
  const state = open();
  for (const command of ['cd sub; kill -9 $$', 'cd sub; exec true', 'cd sub; exit() { :; }; if; then']) {
    await run(state, command);
    assert.equal(state.cwd, root, command);
  }
  assert.deepEqual(saved, []);
});

test('if the working directory was deleted, the shell continues in the root; variables above the limit are not saved', async (t) => {
  const { root, open, run } = createShell(t);
  const state = open();
  await run(state, 'cd sub; export A=1');
  rmSync(path.join(root, 'sub'), { recursive: true });
  const back = await run(state, 'pwd');
  assert.deepEqual([back.notice, back.all], [`The directory ${root}/sub no longer exists. Continuing in ${root}.`, `${root}\n`]);
  const much = await run(state, 'export A=2 B="$(head -c 140000 /dev/zero | tr "\\0" x)"');
  assert.equal(much.change, null);
  const many = await run(state, 'export B="$(head -c 100000 /dev/zero | tr "\\0" x)" C="$(head -c 100000 /dev/zero | tr "\\0" x)"');
  assert.equal(many.change, 'The exported variables exceed 128 KB and are not saved.');
  assert.deepEqual(state.env, { A: '1' });
});

test('a shell is unmodified until a variable changes, or the shell leaves the directory of the session', async (t) => {
  const { open, run } = createShell(t);
  const state = open();
  await run(state, 'cd sub');
  assert.ok(state.isUnmodified);
  await run(state, 'PATH=.:$PATH');
  assert.ok(!state.isUnmodified);
  const other = open();
  await run(other, 'cd /');
  assert.ok(!other.isUnmodified);
});
