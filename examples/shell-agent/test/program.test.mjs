import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pluck } from '../../../packages/cli-kit/test/support/pluck.mjs';
import { repository } from '../../../packages/cli-kit/test/support/repository.mjs';
import { Catalog } from '../src/catalog.mjs';
import { readArgs } from '../src/program.mjs';
import { Todos } from '../src/todos.mjs';

test('invalid command lines are refused with the reason', () => {
  /** @type {[string[], RegExp][]} */
  const refusals = [
    [[], /--dir PATH is missing/],
    [['--dir', '.', '--nonsense'], /--nonsense/],
    [['--dir', '.', '--hub', 'nowhere'], /must be a URL such as/],
    [['--dir', '.', '--hub', 'ftp://x'], /http/],
    [['--dir', '.', '--flavor', 'a b'], /--flavor must be .*not "a b"/],
  ];
  for (const [argv, reason] of refusals) {
    assert.throws(() => readArgs(argv, {}), reason);
  }
  const npm = { npm_lifecycle_event: 'agent', INIT_CWD: '/home/me' };
  assert.equal(readArgs(['--dir', 'project'], npm).dir, '/home/me/project');
  const swallowed = { ...npm, npm_config_dir: 'true' };
  assert.throws(() => readArgs(['project'], swallowed), /npm did not pass --dir .*npm run agent -- --dir …/);
  assert.equal(readArgs(['--dir', '.'], { HUB_URL: 'https://hub.example/' }).hub, 'https://hub.example');
  assert.equal(readArgs(['--dir', '.'], { HUB_URL: '' }).hub, 'http://127.0.0.1:8787');
});

test('commands and skills are read from the directory', async (t) => {
  const { dir, write } = repository(t);
  write('.agents/commands/check.md', '# Check\n\nRuns the checks.\n\n```sh\necho "checking $1"\n```\n');
  write('.agents/commands/not a name.md', 'x');
  write('.agents/skills/review/SKILL.md', '---\nname: "review-code"\ndescription: Reads a change.\n---\nBody');
  write('.agents/skills/bare/SKILL.md', 'no front matter');
  const catalog = new Catalog(dir);
  assert.deepEqual(await catalog.commands(), ['help', 'todo', 'check']);
  assert.equal(await catalog.script('check'), 'echo "checking $1"');
  assert.equal(await catalog.script('../check'), null);
  assert.deepEqual(await catalog.skills(), [
    { name: 'bare', description: '' },
    { name: 'review-code', description: 'Reads a change.' },
  ]);
});

test('todos are added, completed and listed', () => {
  const todos = new Todos();
  assert.equal(todos.runCommand('').text, 'There are no todos.');
  todos.runCommand('add write the tests');
  assert.equal(todos.runCommand('add run them').text, '1. [ ] write the tests\n2. [ ] run them');
  assert.equal(todos.runCommand('done 1').text, '1. [x] write the tests\n2. [ ] run them');
  assert.deepEqual(pluck(todos.items, 'status', 'priority'), [
    ['completed', 'medium'],
    ['pending', 'medium'],
  ]);
  assert.equal(todos.runCommand('done 9').isChanged, false);
  assert.equal(todos.runCommand('fly').isChanged, false);
});
