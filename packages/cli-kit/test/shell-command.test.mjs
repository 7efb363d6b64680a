/** The parser of command lines, compared with the shell itself. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { parseLine } from '../src/shell-command.mjs';

test('a line is split into commands and words', () => {
  assert.deepEqual(parseLine(`a 'b c'"d \\"e"f && g;h|i`), {
    commands: [['a', 'b cd "ef'], ['g'], ['h'], ['i']],
    operators: ['&&', ';', '|'],
  });
  assert.deepEqual(parseLine("a ''")?.commands, [['a', '']]);
  for (const line of ['', ' ', 'a ||b', 'a |& b', 'a & b', 'a;', '&& a', 'a *', '~', 'a =b', 'a b=~', "a 'b", 'a\tb', 'a #b'])
    assert.equal(parseLine(line), null, JSON.stringify(line));
});

/** Returns numbers from 0 to below `limit`, the same ones in each run. */
function randomNumbers(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const PIECES = [...'ab1 ~=:/.-^%@+,\'"\\$`!*?[]{}()<>|&;#', '  ', "'a b'", '"c d"', '\\"', '&&', '||', 'ü', '\t', '\n', '$(a)', '~/', '=a'];

test('the shell reads each accepted line as this parser does', (t) => {
  const next = randomNumbers(39);
  const lines = new Set();
  for (let count = 0; count < 60_000; count += 1)
    lines.add(`show ${Array.from({ length: 1 + next(6) }, () => PIECES[next(PIECES.length)]).join('')}`);
  const accepted = [...lines].flatMap((line) => {
    const parsed = parseLine(line);
    return parsed?.commands.length === 1 ? [{ line, words: parsed.commands[0].slice(1) }] : [];
  });
  assert.ok(accepted.length > 1000, `${accepted.length} accepted lines`);
  const script = `show() { for word do printf '%s\\0' "$word"; done; printf '\\n\\0'; }\n${accepted.map(({ line }) => line).join('\n')}\n`;
  const expected = accepted.map(({ words }) => [...words, '\n'].map((word) => `${word}\0`).join('')).join('');
  for (const shell of ['sh', 'bash', 'zsh']) {
    const { stdout, error } = spawnSync(shell, {
      input: script,
      encoding: 'utf8',
      env: { PATH: process.env.PATH, HOME: '/home/ada' },
      maxBuffer: 1e8,
    });
    if (error && 'code' in error && error.code === 'ENOENT') t.diagnostic(`${shell} is not installed`);
    else assert.ok(stdout === expected, `${shell}: ${firstDifference(stdout, expected)}`);
  }
});

function firstDifference(actual, expected) {
  const [a, b] = [actual.split('\n\0'), expected.split('\n\0')];
  const at = b.findIndex((words, index) => words !== a[index]);
  return JSON.stringify([a[at], b[at]]);
}
