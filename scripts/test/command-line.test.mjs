// The command lines of the scripts: help, and invalid options, which fail before any work starts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { parseCommandLine } from '../lib/command-line.mjs';
import { UsageError } from '../lib/errors.mjs';
import { inProject, ROOT } from '../lib/paths.mjs';
import { COMMANDS as PACKAGE_COMMANDS } from '../product/usage.mjs';

/** The scripts of package.json that parse their options with `parseCommandLine`, except token, which takes an argument. */
const COMMANDS = 'audit bench build console-speed cost dev format fuzz kills load reconnect setup simulate smoke test test:agents'.split(
  ' ',
);

const { scripts } = JSON.parse(readFileSync(inProject('package.json'), 'utf8'));

/** Refuses the npm packages, as in a clone in which they are not installed. */
const HOOK =
  'export const resolve = (name, context, next) => next(/^(node:|file:|[./])/.test(name) ? name : `${name} is missing`, context)';
const WITHOUT_PACKAGES = `data:text/javascript,import{register}from'node:module';register(${JSON.stringify(`data:text/javascript,${HOOK}`)})`;

const call = (command, ...args) => {
  const nodeArgs = ['--import', WITHOUT_PACKAGES, ...scripts[command].split(' ').slice(1), ...args];
  return spawnSync(process.execPath, nodeArgs, { cwd: ROOT, encoding: 'utf8' });
};

for (const command of COMMANDS) {
  test(`${command} prints its usage for --help, and rejects invalid options with an error and its usage, without npm packages`, () => {
    const usage = command === 'test' ? 'Usage: npm test' : `Usage: npm run ${command}`;
    for (const option of ['--help', '-h']) {
      const help = call(command, option);
      assert.deepEqual([help.status, help.stderr], [0, '']);
      assert.ok(help.stdout.startsWith(usage), help.stdout);
      assert.match(help.stdout, /--help/);
    }
    for (const invalid of ['--nonsense', 'stray']) {
      const refused = call(command, invalid);
      assert.deepEqual([refused.status, refused.stdout], [2, '']);
      assert.ok(refused.stderr.includes(invalid) && refused.stderr.includes(usage), refused.stderr);
    }
  });
}

/** Runs `npm run token`. @param {string[]} args @param {string} [secret] in the variable CLI_API_TOKEN */
const token = (args, secret = 'a-secret-of-tests') => {
  const env = { ...process.env, CLI_API_TOKEN: secret };
  return spawnSync(process.execPath, [inProject('scripts', 'product', 'token.mjs'), ...args], { cwd: ROOT, encoding: 'utf8', env });
};

test('token prints its usage for --help, and a token only for a valid namespace', () => {
  for (const option of ['--help', '-h']) assert.match(token([option]).stdout, /^Usage: npm run token -- NAMESPACE/);
  for (const invalid of [['--nope'], ['-x'], ['team-a', '--nope'], [], [''], ['team-a', 'team-b'], ['team a']]) {
    const refused = token(invalid);
    assert.deepEqual([refused.status, refused.stdout], [2, ''], invalid.join(' '));
    assert.match(refused.stderr, /npm run token -- /);
  }
  for (const valid of [['team-a'], ['--', '-odd']]) {
    const { stdout, stderr } = token(valid);
    assert.match(stdout, /^[\w-]{43}:(team-a|-odd)\n$/);
    assert.equal(stderr, '', 'it says `From .dev.vars` only without CLI_API_TOKEN');
  }
});

test('the secret is not sent to another computer without encryption, and that of the local hub not to another hub', () => {
  const { status, stderr } = token(['team', '--hub', 'http://hub.example']);
  assert.deepEqual([status, /must be an https address/.test(stderr)], [2, true], stderr);
  const other = token(['team', '--hub', 'https://hub.example'], '');
  assert.deepEqual([other.status, /Set CLI_API_TOKEN to the secret of https:\/\/hub\.example/.test(other.stderr)], [2, true], other.stderr);
});

test('an option that npm did not pass to the script is an error', () => {
  // `npm run dev --port 9000`
  const env = { ...process.env, npm_config_port: '9000' };
  const refused = spawnSync(process.execPath, [inProject('scripts', 'dev', 'dev.mjs'), '9000'], { cwd: ROOT, encoding: 'utf8', env });
  assert.deepEqual([refused.status, refused.stdout], [2, '']);
  assert.match(refused.stderr, /npm did not pass --port to the script\.\nPut two dashes .*\nUsage: npm run dev -- \[options\]/);
});

test('a setting of npm with the name of an option neither hides the help nor refuses the option itself', () => {
  // With `yes=false` in .npmrc, npm sets the variable to an empty text.
  for (const [value, ...args] of [
    ['true', '--help'],
    ['true', '--yes', 'stray'],
    ['', 'stray'],
  ]) {
    const env = { ...process.env, npm_config_yes: value };
    const { stdout, stderr } = spawnSync(process.execPath, [inProject('scripts', 'product', 'upgrade.mjs'), ...args], {
      env,
      encoding: 'utf8',
    });
    assert.match(
      args.includes('stray') ? stderr : stdout,
      args.includes('stray') ? /Unexpected argument 'stray'/ : /^Usage: npm run upgrade/,
    );
  }
});

test('a missing or invalid value is refused', () => {
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
    ['kills', '--kills', '0'],
    ['kills', '--kills', 'many'],
    ['kills', '--seed', ''],
    ['deploy', '--dry-run', '--env', 'Production'],
    ['deploy', '--dry-run', '--account', 'my-account'],
    ['deploy', '--dry-run', '--name', 'my hub'],
    ['deploy', '--dry-run', '--domain', 'hub'],
    ['deploy', '--dry-run', '--address', 'https://hub.example.com/path'],
    ['deploy', '--dry-run', '--databases', '0'],
    ['deploy', '--dry-run', '--location', 'eu'],
    ['deploy', '--dry-run', '--jurisdiction', 'weur'],
    ['deploy', '--dry-run', '--location', 'weur', '--jurisdiction', 'eu'],
  ]) {
    const refused = call(command, ...args);
    assert.deepEqual([refused.status, refused.stdout], [2, ''], args.join(' '));
    assert.match(refused.stderr, /^\n?.*\.\nUsage: npm /, args.join(' '));
  }
});

test('a data folder that is missing, or is a file, is refused before a command of the npm package starts', () => {
  const file = inProject('package.json');
  /** @type {[string[], string][]} */
  const cases = [
    [['--data'], '--data needs a folder.'],
    [['--data='], '--data needs a folder.'],
    [['--data', '--port', '1'], '--data needs a folder.'],
    [['doctor', '--data', file], `--data: ${file} is not a directory.`],
    [[`--data=${file}/inside`], `--data: ${file}/inside: ENOTDIR`],
  ];
  for (const [args, problem] of cases) {
    const { status, stdout, stderr } = spawnSync(process.execPath, [inProject('scripts', 'product', 'cli.mjs'), ...args], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    assert.deepEqual([status, stdout], [2, '']);
    assert.ok(stderr.startsWith(`\n${problem}`) && stderr.includes('Usage: npx session-gateway-hub [--data DIR]'), stderr);
  }
});

test('an unknown test file is refused, and test files with similar names are suggested', () => {
  /** @type {[string, RegExp][]} */
  const names = [
    ['tests/e2e/pusch.test.mjs', /^Did you mean tests\/e2e\/(console\/)?push\.test\.mjs or /],
    ['nonsense', /^Test files are in .*tests\/e2e.*\. Example: /],
  ];
  for (const [name, hint] of names) {
    const refused = call('test', '--file', name);
    assert.deepEqual([refused.status, refused.stdout], [2, '']);
    const [, message, ...rest] = refused.stderr.split('\n');
    assert.equal(message, `--file: there is no test file ${name}.`);
    assert.match(rest.join('\n'), hint);
  }
});

test('options are parsed, with their defaults', () => {
  /** @satisfies {import('node:util').ParseArgsOptionsConfig} */
  const known = { port: { type: 'string', default: '1' }, only: { type: 'string', multiple: true, default: [] } };
  assert.deepEqual({ ...parseCommandLine([], 'usage', known) }, { port: '1', only: [] });
  const given = parseCommandLine(['--port=2', '--only', 'a', '--only', 'b'], 'usage', known);
  assert.deepEqual({ ...given }, { port: '2', only: ['a', 'b'] });
  const unknown = [
    ['--ports', "Unknown option '--ports'. Did you mean --port?"],
    ['--xyz', "Unknown option '--xyz'."],
  ];
  for (const [option, message] of unknown) {
    assert.throws(
      () => parseCommandLine([option, '2'], 'usage', known),
      (error) => {
        assert.ok(error instanceof UsageError);
        assert.deepEqual([error.message, error.hint], [message, 'usage']);
        return true;
      },
    );
  }
});

test('each command of the package refuses an old Node with a sentence', () => {
  const oldNode = 'data:text/javascript,Object.defineProperty(process, "versions", { value: { node: "18.20.8" } })';
  const entry = inProject('scripts', 'product', 'cli.mjs');
  for (const args of [[], ...Object.keys(PACKAGE_COMMANDS).map((name) => [name])]) {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', oldNode, entry, ...args], { encoding: 'utf8' });
    const sentence = 'Node 20 or newer is needed, but this is Node 18.20.8.\nInstall a newer version, for example from https://nodejs.org.';
    assert.deepEqual([status, stdout, stderr.trim()], [1, '', sentence], args.join());
  }
});
