/** How the program of an agent is found. */

import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { tempDir } from '../../packages/cli-kit/test/support/repository.mjs';
import { fetchAdapter } from '../src/adapter.mjs';
import { AGENTS, environmentOf } from '../src/agents.mjs';
import { chooseAgent } from '../src/choose-agent.mjs';
import { askForNpx, resolveAgentChoice, listAgents, resolveLaunch } from '../src/launch.mjs';
import { readArgs } from '../src/program.mjs';

const HOME = '/nowhere';

/** A folder with programs, as an environment. */
function withPrograms(t, ...names) {
  const folder = tempDir(t);
  for (const name of names) {
    writeFileSync(path.join(folder, name), '#!/bin/sh\n');
    chmodSync(path.join(folder, name), 0o755);
  }
  writeFileSync(path.join(folder, 'gemini'), 'not executable');
  return { PATH: `/nowhere:${folder}` };
}

test('an agent is found on the PATH, with its arguments', (t) => {
  const env = withPrograms(t, 'copilot', 'codex-acp');
  const { argv, title } = resolveLaunch({ home: HOME, agent: 'copilot' }, env);
  assert.deepEqual([argv, title], [['copilot', '--acp'], 'Copilot CLI']);
  assert.equal(findProgram('gemini', env), null);
});

test('a machine lists the installed agents, and the agent of its command line', (t) => {
  const env = withPrograms(t, 'copilot', 'codex-acp');
  const codex = { id: 'codex', name: 'Codex', flavor: 'beta' };
  const copilot = { id: 'copilot', name: 'Copilot CLI', flavor: 'gamma' };
  assert.deepEqual(listAgents({ agent: 'codex', flavor: 'beta' }, env), [codex, copilot]);
  // Through npx.
  const qwen = { id: 'qwen', name: 'Qwen Code', flavor: 'mine' };
  assert.deepEqual(listAgents({ agent: 'qwen', flavor: 'mine' }, env), [qwen, codex, copilot]);
  const own = { id: 'my-agent', name: 'my-agent', flavor: 'my-agent' };
  assert.deepEqual(listAgents({ command: ['/opt/my-agent'], flavor: 'my-agent' }, env), [own, codex, copilot]);
});

test('the server of an agent has another random password in each process, unless the user has set one', () => {
  const { OPENCODE_SERVER_PASSWORD: first, ...others } = environmentOf(AGENTS.opencode, { PATH: '/bin' });
  assert.match(first, /^[\w-]{43}$/);
  assert.deepEqual(others, { ...AGENTS.opencode.env, PATH: '/bin' });
  assert.notEqual(environmentOf(AGENTS.opencode, {}).OPENCODE_SERVER_PASSWORD, first);
  // With an empty password, opencode has no password.
  assert.match(environmentOf(AGENTS.opencode, { OPENCODE_SERVER_PASSWORD: '' }).OPENCODE_SERVER_PASSWORD, /^[\w-]{43}$/);
  const own = { OPENCODE_SERVER_PASSWORD: 'mine', OPENCODE_PERMISSION: '{}' };
  assert.deepEqual(environmentOf(AGENTS.opencode, own), { ...AGENTS.opencode.env, ...own });
  assert.deepEqual(environmentOf(undefined, { PATH: '/bin' }), { PATH: '/bin' });
});

test('an agent that is not installed is refused with the command that installs it', (t) => {
  const env = withPrograms(t);
  assert.throws(() => resolveLaunch({ home: HOME, agent: 'claude' }, env), {
    message:
      'Claude Code is not installed: there is no program claude on the PATH. Install it with:' +
      ' npm install -g @anthropic-ai/claude-code@2.1.318',
  });
  assert.throws(
    () => resolveLaunch({ home: HOME, agent: 'toString' }, env),
    /^Error: There is no agent toString\. Choose one of claude, codex,/,
  );
  assert.throws(
    () => resolveLaunch({ home: HOME, command: ['my-agent', '--acp'] }, env),
    /^Error: There is no program my-agent on the PATH\./,
  );
});

test('the own program of an agent is enough: its adapter has a place in the folder of the state', async (t) => {
  const env = withPrograms(t, 'claude');
  const home = tempDir(t);
  const silent = { env, input: Object.assign(new PassThrough(), { isTTY: true }), output: new PassThrough() };
  assert.equal(await chooseAgent({ dir: '/code', home }, silent), 'claude');
  assert.equal(await askForNpx({ agent: 'claude' }, silent), false);
  assert.deepEqual(listAgents({ command: ['x'], flavor: 'x' }, env)[1], { id: 'claude', name: 'Claude Code', flavor: 'alpha' });
  const { argv, adapterFolder } = resolveLaunch({ agent: 'claude', home }, env);
  assert.equal(adapterFolder, path.join(home, 'adapters', '_agentclientprotocol_claude-agent-acp_0.101.0'));
  assert.deepEqual(argv, [path.join(adapterFolder, 'node_modules/.bin/claude-agent-acp')]);
  // The service may run without the user's PATH.
  mkdirSync(path.dirname(argv[0]), { recursive: true });
  writeFileSync(argv[0], '');
  assert.deepEqual(resolveLaunch({ agent: 'claude', home }, withPrograms(t)).argv, argv);
});

test('of two first starts at once, one fetches the adapter, and the other waits and uses it', { timeout: 60_000 }, async (t) => {
  const { PATH } = withPrograms(t, 'claude', 'npm');
  const folder = PATH.split(':').at(-1);
  const script = 'echo fetched >> ../../fetched; until [ -e ../../released ]; do sleep 0.01; done; mkdir -p node_modules/.bin';
  writeFileSync(path.join(folder, 'npm'), `#!/bin/sh\n${script}\n`);
  const home = tempDir(t);
  const env = { PATH: `${folder}:${process.env.PATH}` };
  const launch = resolveLaunch({ agent: 'claude', home }, env);
  const reports = [];
  const log = {
    debug: () => {},
    info: (text) => {
      reports.push(text);
      if (text.startsWith('Waiting')) writeFileSync(path.join(home, 'released'), '');
    },
  };
  await Promise.all([1, 2].map(() => fetchAdapter(launch, { env, log })));
  assert.equal(readFileSync(path.join(home, 'fetched'), 'utf8'), 'fetched\n');
  assert.deepEqual(
    reports.filter((text) => !text.startsWith('Fetching')).map((text) => text.replace(/\d+/, 'N').split(';')[0]),
    ['Claude Code is here', 'Waiting for process N, which fetches the adapter of Claude Code.'],
  );
});

test('with the consent of the user npx runs the exact version', (t) => {
  const { argv } = resolveLaunch({ home: HOME, agent: 'claude', npx: true }, withPrograms(t));
  const pkg = '--package=@agentclientprotocol/claude-agent-acp@0.101.0';
  const clean = ['env', '-u', 'npm_config_package', '-u', 'npm_config_yes', '-u', 'npm_config_ignore_scripts'];
  assert.deepEqual(argv, ['npx', '--yes', '--ignore-scripts=false', pkg, '--', ...clean, 'claude-agent-acp']);
  for (const entry of Object.values(AGENTS)) assert.match(entry.package, /@\d+\.\d+\.\d+$/);
});

test('npx is offered at a terminal only, and only for a missing agent', async (t) => {
  const env = withPrograms(t, 'codex-acp');
  const ask = async (choice, answer, isTTY = true) => {
    const input = Object.assign(new PassThrough(), { isTTY });
    const output = new PassThrough();
    input.end(`${answer}\n`);
    const npx = await askForNpx(choice, { env, input, output });
    return { npx, question: output.read()?.toString() ?? '' };
  };
  const asked = await ask({ agent: 'claude' }, 'y');
  assert.equal(asked.npx, true);
  assert.match(asked.question, /^Claude Code is not installed\. Download @agentclientprotocol\/claude-agent-acp@0\.101\.0 with npx/);
  assert.equal((await ask({ agent: 'claude' }, '')).npx, false);
  assert.deepEqual(await ask({ agent: 'claude' }, 'y', false), { npx: false, question: '' });
  assert.deepEqual(await ask({ agent: 'codex' }, 'y'), { npx: false, question: '' });
});

test('a spawn request names an agent or a flavor', (t) => {
  const env = withPrograms(t, 'qwen', 'opencode');
  const own = { home: HOME, agent: 'opencode', flavor: 'epsilon' };
  assert.deepEqual(resolveAgentChoice('epsilon', own, env), { agent: 'opencode', command: undefined });
  assert.deepEqual(resolveAgentChoice('qwen', own, env), { agent: 'qwen' });
  // Of the two agents with this flavor, the installed one.
  assert.deepEqual(resolveAgentChoice('delta', own, env), { agent: 'qwen' });
  assert.throws(() => resolveAgentChoice('alpha', own, env), /^Error: Claude Code is not installed/);
  assert.throws(() => resolveAgentChoice('zeta', own, env), /^Error: There is no agent zeta on this machine\./);
  const command = ['my-agent'];
  assert.deepEqual(resolveAgentChoice('alpha', { home: HOME, command, flavor: 'alpha' }, env), { agent: undefined, command });
});

test('a pasted link of the console is refused with the address of its hub', () => {
  const hub = (text) => readArgs(['--hub', text], {}).hub;
  assert.equal(hub('https://hub.example.com/'), 'https://hub.example.com');
  assert.equal(hub('https://example.com/hub/'), 'https://example.com/hub');
  assert.throws(() => hub('http://host:1/sessions/abc'), { message: /must not name a page of the console\. Use: --hub http:\/\/host:1$/ });
  assert.throws(() => hub('http://host/pair#abcd-efgh'), { message: /Use: --hub http:\/\/host --code ABCD-EFGH$/ });
  for (const [pasted, prefix] of [
    ['/?x=1', ''],
    ['/#token=secret:team', ''],
    ['/settings/status/', ''],
    ['/hub/sessions/abc/files?path=a', '/hub'],
    ['/hub/sign-in', '/hub'],
    ['/tools/hub/?account=team', '/tools/hub'],
  ]) {
    assert.throws(
      () => hub(`http://host${pasted}`),
      ({ message }) => message.endsWith(` Use: --hub http://host${prefix}`) && !message.includes('secret'),
      pasted,
    );
  }
  for (const text of ['host', 'localhost:8787', 'hub.example.com/sessions/abc']) {
    assert.throws(() => hub(text), { message: `The address of the hub must be a URL such as https://hub.example.com, not "${text}".` });
  }
  assert.throws(() => hub('ws://host'), { message: 'The address of the hub must start with http:// or https://, not ws://.' });
});

test('the command line names an agent or a command', () => {
  const read = (...argv) => readArgs(['--dir', '.', ...argv], {});
  assert.deepEqual([read('--agent', 'codex').flavor, read('--agent', 'codex', '--flavor', 'x').flavor], ['beta', 'x']);
  const { command, flavor } = read('--', 'my-agent', '--acp', '--dir', 'its own');
  assert.deepEqual([command, flavor], [['my-agent', '--acp', '--dir', 'its own'], 'my-agent']);
  assert.equal(read('--', '/opt/my agent').flavor, 'my-agent');
  assert.deepEqual([read().agent, read().flavor, read('--flavor', 'x').flavor], [undefined, undefined, 'x']);
  assert.equal(readArgs([], {}).dir, process.cwd());
  assert.throws(() => read('--'), /The command after -- is missing/);
  assert.throws(() => read('--agent', 'codex', '--', 'x'), /not both/);
});

/** A terminal that answers each question with the next line. */
function terminalWith(...answers) {
  const input = Object.assign(new PassThrough(), { isTTY: true });
  const output = new PassThrough();
  const shown = [];
  output.on('data', (chunk) => {
    shown.push(String(chunk));
    if (String(chunk).includes('Which one?') && answers.length > 0) input.write(`${answers.shift()}\n`);
  });
  return { input, output, shown };
}

test('without --agent, the only installed agent is used, and the user is not asked', async (t) => {
  const { input, output, shown } = terminalWith();
  const env = withPrograms(t, 'opencode');
  assert.equal(await chooseAgent({ dir: '/code', home: tempDir(t) }, { env, input, output }), 'opencode');
  assert.deepEqual(shown, []);
});

test('if several agents are installed, the terminal asks for an agent once for each directory', async (t) => {
  const env = withPrograms(t, 'opencode', 'codex-acp');
  const home = path.join(tempDir(t), 'state');
  const { input, output, shown } = terminalWith('7', '2');
  assert.equal(await chooseAgent({ dir: '/code', home }, { env, input, output }), 'opencode');
  assert.match(shown.join(''), /1 {2}Codex\n {2}2 {2}opencode\n/);
  const silent = { env, input: new PassThrough(), output: new PassThrough() };
  assert.equal(await chooseAgent({ dir: '/code', home }, silent), 'opencode');
  await assert.rejects(chooseAgent({ dir: '/other', home }, silent), /^Error: Several agents .* --agent codex\|opencode\.$/);
});

test('choosing an agent fails on a closed terminal, and on a computer without agents', async (t) => {
  const home = tempDir(t);
  const { input, output } = terminalWith();
  const asking = chooseAgent({ dir: '/code', home }, { env: withPrograms(t, 'opencode', 'codex-acp'), input, output });
  input.end();
  await assert.rejects(asking, /No agent was chosen/);
  const nothing = chooseAgent({ dir: '/code', home }, { env: withPrograms(t), input, output });
  await assert.rejects(nothing, /npm install -g @anthropic-ai\/claude-code@.* --npx --agent claude\|codex/);
});
