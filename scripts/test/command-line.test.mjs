// The command line of every command: help is help, and a mistake is told before any work begins.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import test from 'node:test';
import { parseCommandLine } from '../lib/command-line.mjs';
import { UserError } from '../lib/errors.mjs';
import { inProject, ROOT } from '../lib/paths.mjs';

const COMMANDS = ['bench', 'build', 'dev', 'fuzz', 'kills', 'setup', 'simulate', 'test'];

const call = (command, ...args) =>
  spawnSync(process.execPath, [inProject('scripts', `${command}.mjs`), ...args], { cwd: ROOT, encoding: 'utf8' });

for (const command of COMMANDS) {
  test(`${command} prints its usage for --help, and for nothing else`, () => {
    const usage = command === 'test' ? 'Usage: npm test' : `Usage: npm run ${command}`;
    for (const option of ['--help', '-h']) {
      const help = call(command, option);
      assert.deepEqual([help.status, help.stderr], [0, '']);
      assert.ok(help.stdout.startsWith(usage), help.stdout);
      assert.match(help.stdout, /--help/);
    }
    for (const mistake of ['--nonsense', 'stray']) {
      const refused = call(command, mistake);
      assert.deepEqual([refused.status, refused.stdout], [1, '']);
      assert.ok(refused.stderr.includes(mistake) && refused.stderr.includes(usage), refused.stderr);
    }
  });
}

test('token prints its usage for --help, and a token for nothing but a namespace', () => {
  const token = (...args) => {
    const env = { ...process.env, CLI_API_TOKEN: 'a-secret-of-tests' };
    return spawnSync(process.execPath, [inProject('scripts', 'token.mjs'), ...args], { cwd: ROOT, encoding: 'utf8', env });
  };
  for (const option of ['--help', '-h']) assert.match(token(option).stdout, /^Usage: npm run token -- NAMESPACE/);
  for (const mistake of [['--nope'], ['-x'], ['team-a', '--nope'], [], [''], ['team-a', 'team-b'], ['team a']]) {
    const refused = token(...mistake);
    assert.deepEqual([refused.status, refused.stdout], [1, ''], mistake.join(' '));
    assert.match(refused.stderr, /npm run token -- /);
  }
  for (const good of [['team-a'], ['--', '-odd']]) assert.match(token(...good).stdout, /^\S+:(team-a|-odd)\n$/);
});

test('an option that npm took for its own is not passed over', () => {
  // `npm run dev --port 9000`
  const env = { ...process.env, npm_config_port: '9000' };
  const refused = spawnSync(process.execPath, [inProject('scripts', 'dev.mjs'), '9000'], { cwd: ROOT, encoding: 'utf8', env });
  assert.deepEqual([refused.status, refused.stdout], [1, '']);
  assert.match(refused.stderr, /npm took --port for an option of its own\.\nTwo dashes .*\nUsage: npm run dev -- \[options\]/);
});

test('an option without its value is refused, and so is a value that is none', () => {
  for (const [command, ...args] of [
    ['dev', '--port'],
    ['dev', '--port', '0'],
    ['dev', '--port=65536'],
    ['dev', '--port', '80a'],
    ['test', '--only', 'nothing'],
    ['bench', '--only', 'nothing'],
    ['simulate', '--seed', 'nothing'],
    ['simulate', '--seeds', '-1'],
    ['simulate', '--first', '9007199254740992'],
    ['bench', '--way', 'nothing'],
    ['kills', '--kills', '0'],
    ['kills', '--kills', 'many'],
    ['kills', '--seed', ''],
  ]) {
    const refused = call(command, ...args);
    assert.deepEqual([refused.status, refused.stdout], [1, ''], args.join(' '));
    assert.match(refused.stderr, /^\n?.*\.\nUsage: npm /, args.join(' '));
  }
});

test('options are read, with their defaults', () => {
  const known = { port: { type: 'string', default: '1' }, only: { type: 'string', multiple: true, default: [] } };
  assert.deepEqual({ ...parseCommandLine([], 'usage', known) }, { port: '1', only: [], help: false });
  const given = parseCommandLine(['--port=2', '--only', 'a', '--only', 'b'], 'usage', known);
  assert.deepEqual({ ...given }, { port: '2', only: ['a', 'b'], help: false });
  assert.throws(() => parseCommandLine(['--prot', '2'], 'usage', known), (error) => {
    assert.ok(error instanceof UserError);
    assert.deepEqual([error.message, error.hint], ["Unknown option '--prot'.", 'usage']);
    return true;
  });
});
