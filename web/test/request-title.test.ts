// The sentences that say what a permission request would do.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { requestTitle } from '../src/content/request-title.ts';

test('a command, a plan and questions have the same title for every agent', () => {
  for (const tool of ['Bash', 'bash', 'run_shell_command', 'exec_command', 'Shell'])
    assert.equal(requestTitle(tool, { command: 'ls' }), 'Run a command');
  assert.equal(requestTitle('shell', { command: ['ls', '-l'] }), 'Run a command');
  assert.equal(requestTitle('ExitPlanMode', { plan: '# Plan' }), 'Approve this plan');
  assert.equal(requestTitle('SwitchMode', { plan: '# Plan' }), 'Approve this plan');
  assert.equal(requestTitle('AskUserQuestion', { questions: [{ question: 'Which?' }] }), 'Answer a question');
  assert.equal(requestTitle('question', { questions: [{ question: 'Which?' }, { question: 'How?' }] }), 'Answer 2 questions');
});

test('a change of files names the file, or the number of files, and the changed lines if they are known', () => {
  const edit = { file_path: '/code/shop/refund.ts', old_string: 'a', new_string: 'b' };
  assert.equal(requestTitle('Edit', edit, { added: 3, removed: 2 }), 'Change refund.ts (+3 -2)');
  assert.equal(requestTitle('Edit', edit), 'Change refund.ts');
  assert.equal(requestTitle('edit', { changes: [edit, { ...edit, file_path: 'b.ts' }] }), 'Change 2 files');
  assert.equal(requestTitle('edit', { file_path: 'a.ts', edits: [edit, edit] }), 'Change a.ts');
  assert.equal(requestTitle('create', { file_path: 'C:\\shop\\new.ts', content: 'x' }, { added: 1, removed: 0 }), 'Create new.ts (+1 -0)');
  assert.equal(requestTitle('NotebookEdit', { notebook_path: 'a.ipynb', new_source: 'x' }), 'Change a.ipynb');
});

test('a tool that may replace a file is not said to create the file', () => {
  assert.equal(requestTitle('Write', { file_path: 'new.ts', content: 'x' }), 'Write new.ts');
  assert.equal(requestTitle('write_file', { file_path: 'new.ts', content: '' }), 'Write new.ts');
});

test('a call to an MCP server is a sentence with the name of the server', () => {
  const titles = {
    mcp__github__create_issue: 'Create an issue on GitHub',
    mcp__github__create_pull_request: 'Create a pull request on GitHub',
    mcp__github__list_issues: 'List issues on GitHub',
    mcp__github__search_code: 'Search code on GitHub',
    'mcp__github-mcp-server__merge_pull_request': 'Merge a pull request on GitHub',
    mcp__gitlab__updateIssue: 'Update an issue on GitLab',
    mcp__slack__send_message: 'Send a message on Slack',
    mcp__claude_ai_Google_Drive__read_file: 'Read file on Google Drive',
    mcp__shop__add_user: 'Add a user on shop',
    mcp__shop__deploy: 'Deploy on shop',
    mcp__shop__getURL: 'Get URL on shop',
    mcp__ops__bash: 'Bash on ops',
  };
  for (const [tool, title] of Object.entries(titles)) assert.equal(requestTitle(tool, { command: 'ls' }), title);
  for (const tool of ['mcp__github', 'mcp____', 'mcp__github__', 'mcp__github____']) assert.match(requestTitle(tool, {}), /^Use /);
});

test('fetches, searches and other tools of the agents say what they access', () => {
  assert.equal(requestTitle('WebFetch', { url: 'https://example.com/a?b', prompt: 'Read' }), 'Fetch example.com');
  assert.equal(requestTitle('WebFetch', { url: 'https://user:secret@exаmple.com:8443/' }), 'Fetch xn--exmple-4nf.com:8443');
  for (const url of ['no address', 'file:///etc/passwd', '', 7]) assert.equal(requestTitle('web_fetch', { url }), 'Fetch a page');
  assert.equal(requestTitle('google_web_search', { query: 'preact signals' }), 'Search the web for “preact signals”');
  assert.equal(requestTitle('Grep', { pattern: 'TODO' }), 'Search files for “TODO”');
  assert.equal(requestTitle('Read', { file_path: '/etc/hosts' }), 'Read hosts');
  assert.equal(requestTitle('list_directory', { path: '/code/shop/' }), 'List shop');
  assert.equal(requestTitle('Delete', { file_path: '/code/a.ts' }), 'Delete a.ts');
  assert.equal(requestTitle('Task', { description: 'Find the bug', prompt: 'x' }), 'Start a subagent: Find the bug');
  assert.equal(requestTitle('Skill', { skill: 'review' }), 'Use the skill review');
  assert.equal(requestTitle('TodoWrite', { todos: [] }), 'Update the to-do list');
});

test('an unknown tool, or a call that does more than one thing, is named by its tool', () => {
  assert.equal(requestTitle('deploy', { command: 'up' }), 'Use deploy');
  assert.equal(requestTitle('Bash', { input: 'ls' }), 'Use Bash');
  assert.equal(requestTitle('Bash', { command: 'ls', file_path: 'a', old_string: 'a', new_string: 'b' }), 'Use Bash');
  assert.equal(requestTitle('Ask', { questions: [{ question: 'Which?' }], command: 'ls' }), 'Use Ask');
  for (const input of [null, undefined, 'ls', 7, []]) assert.equal(requestTitle('Bash', input), 'Use Bash');
});

test('hostile names are escaped, on one line, and cut', () => {
  assert.equal(requestTitle('Sh\u202Eell', {}), 'Use Sh\\u202Eell');
  assert.equal(requestTitle('a\n\nb\u200B', {}), 'Use a b\\u200B');
  assert.equal(requestTitle('mcp__git\u202Ehub__create_\u0007issue', {}), 'Create \\u0007issue on git\\u202Ehub');
  assert.equal(requestTitle('Edit', { file_path: 'a/\u202Egnp.exe', old_string: 'a', new_string: '' }), 'Change \\u202Egnp.exe');
  for (const tool of [
    'x'.repeat(1e6),
    `mcp__${'s'.repeat(150)}__${'_a'.repeat(99)}`,
    '\u0000'.repeat(1e5),
    '😀'.repeat(1e5),
    '__'.repeat(1e5),
  ]) {
    const title = requestTitle(tool, { path: '/'.repeat(1e5), url: `https://${'a.'.repeat(1e5)}`, query: '\u202e'.repeat(1e5) });
    assert.ok(title.length <= 110, title);
    assert.ok(title.isWellFormed());
  }
});
