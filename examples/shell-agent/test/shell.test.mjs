import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCommand } from '../src/shell.mjs';
import { deferred, turn } from './support/wait.mjs';
import { tempDir } from './support/repository.mjs';

/** Runs a command and collects its pieces. */
async function collect(options) {
  const pieces = [];
  const result = await startCommand({
    onOutput: async (piece) => {
      pieces.push(piece);
    },
    ...options,
  }).done;
  return { ...result, pieces, all: pieces.join('') + result.rest };
}

test('output of both kinds arrives in order, with the exit code', async (t) => {
  const cwd = tempDir(t);
  const { code, all } = await collect({ command: 'echo one; sleep 0.1; echo two >&2; sleep 0.1; pwd; exit 3', cwd });
  assert.equal(code, 3);
  assert.equal(all, `one\ntwo\n${cwd}\n`);
});

test('arguments reach the script as they are', async (t) => {
  const { all } = await collect({ command: 'printf "%s|" "$@"', args: ['a b', '$HOME', ';'], cwd: tempDir(t) });
  assert.equal(all, 'a b|$HOME|;|');
});

test('much output comes in pieces of at most 32 KB that never break a character', async (t) => {
  const { pieces, all } = await collect({
    command: `i=0; while [ $i -lt 3000 ]; do printf '%s' 'x🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂'; i=$((i+1)); done`,
    cwd: tempDir(t),
  });
  assert.ok(pieces.length >= 1);
  assert.ok(pieces.every((piece) => piece.length <= 32 * 1024 && piece.isWellFormed?.() !== false));
  assert.equal(all, 'x🙂🙂🙂🙂🙂🙂🙂🙂🙂🙂'.repeat(3000));
});

test('a receiver that is slow stops the command instead of filling memory', async (t) => {
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
  while (pieces === 0) await turn();
  for (let i = 0; i < 200; i += 1) await turn();
  assert.equal(pieces, 1);
  command.kill();
  gate.resolve();
  assert.equal((await command.done).signal, 'SIGTERM');
});

test('killing reaches what the shell started', async (t) => {
  const started = deferred();
  const command = startCommand({
    command: 'sh -c "echo up; exec sleep 600"; echo not reached',
    cwd: tempDir(t),
    flushMs: 1,
    onOutput: async () => started.resolve(),
  });
  await started.promise;
  command.kill();
  const { code, rest } = await command.done;
  assert.notEqual(code, 0);
  assert.equal(rest, '');
});

test('what a command leaves in the background does not keep it open for ever', async (t) => {
  const { code, all } = await collect({ command: 'sleep 600 & echo done', cwd: tempDir(t) });
  assert.deepEqual([code, all], [0, 'done\n']);
});

test('output above the limit is left out, and that is said', async (t) => {
  const { all, code } = await collect({
    command: 'head -c 500000 /dev/zero | tr "\\0" x',
    cwd: tempDir(t),
    maxOutput: 100_000,
  });
  assert.equal(code, 0);
  assert.match(all, /\[the rest of the output is left out\]\n$/);
  assert.ok(all.length < 200_000);
});

test('a receiver that fails ends the command', async (t) => {
  const command = startCommand({ command: 'yes', cwd: tempDir(t), onOutput: () => Promise.reject(new Error('gone')) });
  await assert.rejects(command.done, /gone/);
});
