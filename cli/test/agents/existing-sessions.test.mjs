/**
 * The sessions of each real agent from npm that were started outside of the hub: they are listed, imported, and continued in the agent's
 * own program. `npm run test:agents` runs these tests. The variable AGENTS selects agents.
 */

import assert from 'node:assert/strict';
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { AcpSession } from '../../src/acp-session.mjs';
import { AGENTS } from '../../src/agents.mjs';
import { resolveLaunch } from '../../src/launch.mjs';
import { program as cli } from '../../src/program.mjs';
import { hasPseudoTerminal, runCli } from '../support/cli-process.mjs';
import { changesOfRecord, readRecord } from './records.mjs';
import { KEY } from './environments.mjs';
import { setUpAgent } from './setup.mjs';
import { runInTerminal } from './terminal.mjs';

const TURN_MS = 90_000;

const TYPED = 'This was typed.';

/**
 * How each agent's own program runs one prompt without a screen: its arguments, from those that continue the session. `program`: the
 * program in the agent's package, if it is not on the PATH; `settings`: a file that the program needs in its home directory.
 * @type {Record<string, {args: (args: string[]) => string[], program?: string, settings?: {file: string, content: object}}>}
 */
const PROGRAMS = {
  claude: { args: (args) => [...args, '-p', TYPED], program: '../@anthropic-ai/claude-agent-sdk-linux-x64/claude' },
  codex: { args: (args) => ['exec', '--skip-git-repo-check', 'resume', args.at(-1), TYPED] },
  copilot: { args: (args) => [...args, '-p', TYPED] },
  gemini: {
    args: (args) => [...args, '-p', TYPED],
    // With GOOGLE_GEMINI_BASE_URL and without this setting, the program signs in to a gateway.
    settings: { file: '.gemini/settings.json', content: { security: { auth: { selectedType: 'gemini-api-key' } } } },
  },
  opencode: { args: (args) => ['run', ...args, TYPED] },
  qwen: { args: (args) => [...args, '-p', TYPED] },
};

/** The settings of Codex without which its program asks whether to trust the directory and to use a newer model. */
const codexScreenSettings = (dir) => `[projects.${JSON.stringify(dir)}]
trust_level = "trusted"
[notice.model_migrations]
"gpt-5.5" = "gpt-6-sol"
`;

/**
 * The agents whose program is also run on a screen, with a function that answers the questions of the program's first start.
 * @type {Record<string, (folders: {home: string, dir: string}) => void>}
 */
const SCREENS = {
  claude: ({ home, dir }) => {
    const file = path.join(home, '.claude.json');
    const settings = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
    const projects = { ...settings.projects, [dir]: { ...settings.projects?.[dir], hasTrustDialogAccepted: true } };
    const answers = { theme: 'dark', hasCompletedOnboarding: true, customApiKeyResponses: { approved: [KEY], rejected: [] } };
    writeFileSync(file, JSON.stringify({ ...settings, ...answers, projects }));
  },
  codex: ({ home, dir }) => appendFileSync(path.join(home, 'codex', 'config.toml'), codexScreenSettings(dir)),
};

const chosen = process.env.AGENTS?.split(',') ?? Object.keys(AGENTS);

for (const name of chosen) {
  test(`the existing sessions of ${AGENTS[name].title} are imported and continued`, { timeout: 15 * 60_000 }, (t) => runScenario(t, name));
}

const quote = (word) => `'${word.replaceAll("'", `'\\''`)}'`;

async function runScenario(t, name) {
  const { bin, model, hub, dir, wrapperFolder, agentEnv, env, start, callUntilStarted } = await setUpAgent(t, name);
  const agentId = await startOutside(name, { dir, env: { ...process.env, ...agentEnv }, model });
  const { ids } = await start();
  const list = async () => {
    for (;;) {
      const answer = await hub.call(ids.machine, 'listAgentSessions', { agent: name });
      if (answer.success || !/Try again/.test(answer.error)) return answer;
    }
  };
  const importSession = () => callUntilStarted(ids.machine, 'importAgentSession', { agent: name, id: agentId, directory: dir });
  const readOwnRecord = () => readRecord(name, agentEnv.HOME, agentId);
  // Gemini CLI may first say that it waits for the next minute.
  const textsOf = (sid) =>
    hub.sessions
      .get(sid)
      .messages.flatMap(({ content }) => textOf(content))
      .filter((text) => !/ resumes this session in \d+ s: /.test(text));
  let sid = '';

  await t.test('the session is listed, or the agent says that it lists none', async () => {
    const { success, sessions, error } = await list();
    if (name === 'gemini') return assert.match(error, /^Gemini CLI does not list its sessions\. /);
    assert.equal(success, true, error);
    const found = sessions.find(({ id }) => id === agentId);
    assert.equal(found?.directory, dir, JSON.stringify(sessions));
    assert.equal(found.sessionId, undefined);
  });

  await t.test('the import stores the messages in order, a second import adds none, and the agent’s record gets no message', async () => {
    const record = readOwnRecord();
    const { success, sessionId, error } = await importSession();
    assert.equal(success, true, error);
    sid = sessionId;
    const { metadata } = hub.sessions.get(sid);
    await hub.waitUntil(() => textsOf(sid).includes('Answer two.'), 'the history', TURN_MS);
    // Gemini CLI replays the name of a tool, but not the command.
    const command = name === 'gemini' ? '> Shell' : '> touch one.txt';
    const imported = ['cli: Question one.', 'Answer one.', command, 'cli: Question two.', 'Answer two.'];
    assert.deepEqual(textsOf(sid), imported);
    assert.deepEqual(await importSession(), { success: true, sessionId: sid });
    process.kill(metadata.hostPid, 'SIGTERM');
    await hub.waitUntil(() => !hub.sessions.get(sid).active, 'the end of the session', TURN_MS);
    assert.deepEqual(await importSession(), { success: true, sessionId: sid });
    assert.deepEqual(textsOf(sid), imported);
    assert.deepEqual(changesOfRecord(name, record, readOwnRecord()), []);
    if (name !== 'gemini') assert.equal((await list()).sessions.find(({ id }) => id === agentId).sessionId, sid);
  });

  await t.test('the imported session continues with its context', async () => {
    model.answer('Question three.', [{ say: 'Answer three.' }]);
    const before = model.requests.length;
    hub.postMessage(sid, 'Question three.');
    await hub.waitUntil(() => textsOf(sid).includes('Answer three.'), 'the answer', TURN_MS);
    assert.ok(
      model.requests.slice(before).some((body) => body.includes('Question one.')),
      'The agent has forgotten the conversation.',
    );
  });

  const screenSkipReason = (!SCREENS[name] && 'not on a screen') || (!hasPseudoTerminal && 'there is no pseudo-terminal');
  const { program } = PROGRAMS[name];
  const { command, args: continueArgs } = AGENTS[name].terminal;
  const realProgram = program === undefined ? findProgram(command, { PATH: bin }) : path.join(bin, program);
  const setProgram = (script) => writeFileSync(path.join(wrapperFolder, command), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const screenEnv = Object.fromEntries(Object.entries({ ...process.env, ...env, TERM: 'xterm-256color' }).filter(([, value]) => value));

  await t.test('attach runs the program on a screen with the history of the session', { skip: screenSkipReason }, async (test) => {
    setProgram(`exec ${quote(realProgram)} "$@"`);
    SCREENS[name]({ home: agentEnv.HOME, dir });
    const history = textsOf(sid);
    const session = hub.sessions.get(sid);
    await runInTerminal(test, [process.execPath, cli.entry, 'attach', sid, '--hub', hub.url].map(quote).join(' '), {
      env: screenEnv,
      texts: ['Question one.', 'Answer three.'],
      onShown: () => assert.equal(session.mode, 'local'),
    });
    await hub.waitUntil(() => session.mode === 'remote', 'the web to be in control', TURN_MS);
    assert.deepEqual(textsOf(sid), history);
  });

  await t.test('what is said in the program of the agent comes back to the hub once', async () => {
    const { args, settings } = PROGRAMS[name];
    if (settings) writeFileSync(path.join(agentEnv.HOME, settings.file), JSON.stringify(settings.content));
    assert.ok(existsSync(realProgram), realProgram);
    const isAcp =
      AGENTS[name].command === command
        ? `case "$*" in ${quote(AGENTS[name].args.join(' '))}*) exec ${quote(realProgram)} "$@";; esac\n`
        : '';
    setProgram(`${isAcp}exec ${[realProgram, ...args(continueArgs(agentId))].map(quote).join(' ')} < /dev/null`);
    model.answer(TYPED, [{ say: 'Answer in the program.' }]);
    const { exit, collected, child } = runCli(t, ['attach', sid, '--hub', hub.url], env);
    let out = '';
    child.stdout.on('data', (text) => (out += text));
    const [code] = await exit;
    assert.equal(code, 0, out + collected.err);
    await hub.waitUntil(() => hub.sessions.get(sid).mode === 'remote', 'the web to be in control', TURN_MS);
    model.answer('Question four.', [{ say: 'Answer four.' }]);
    hub.postMessage(sid, 'Question four.');
    await hub.waitUntil(() => textsOf(sid).includes('Answer four.'), 'the answer', TURN_MS);
    const at = textsOf(sid).indexOf('Answer three.');
    assert.deepEqual(textsOf(sid).slice(at + 1), [`cli: ${TYPED}`, 'Answer in the program.', 'web: Question four.', 'Answer four.']);
    assert.ok(model.requests.at(-1).includes(TYPED));
  });

  await t.test('the command that the console shows runs the program with the history', { skip: screenSkipReason }, async (test) => {
    const { metadata } = hub.sessions.get(sid);
    assert.equal(metadata.terminalCommand, `cd ${dir} && ${[command, ...continueArgs(agentId)].join(' ')}`);
    // Codex refuses a session that another process uses.
    process.kill(metadata.hostPid, 'SIGTERM');
    await hub.waitUntil(() => !hub.sessions.get(sid).active, 'the end of the session', TURN_MS);
    setProgram(`exec ${quote(realProgram)} "$@"`);
    await runInTerminal(test, metadata.terminalCommand, { env: screenEnv, texts: [TYPED, 'Answer four.'] });
  });
}

/** Starts a session with the agent, as a person does in the agent's own program. Returns the agent's id. */
async function startOutside(name, { dir, env, model }) {
  model.answer('Question one.', [{ say: 'Answer one.' }, { run: 'touch one.txt' }]);
  model.answer('Question two.', [{ say: 'Answer two.' }]);
  const known = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined));
  const session = await AcpSession.open({
    launch: resolveLaunch({ agent: name, home: '/nowhere' }, known),
    cwd: dir,
    uploads: dir,
    env: known,
    signal: new AbortController().signal,
    log: { debug() {} },
    onUpdate: () => {},
    onPermission: async ({ options }) => ({
      outcome: { outcome: 'selected', optionId: options.find(({ kind }) => kind === 'allow_once').optionId },
    }),
    onElicitation: async () => ({ action: 'decline' }),
  });
  await session.config.setMode(AGENTS[name].modes.default);
  for (const text of ['Question one.', 'Question two.']) await session.prompt([{ type: 'text', text }]);
  await session.close();
  return session.id;
}

/** The text of a message, or the command of a call; none for other messages. */
function textOf({ role, content, meta }) {
  // opencode quotes a prompt that is an argument.
  if (role === 'user') return [`${meta.sentFrom}: ${content.text.replace(/^"(.*)"$/, '$1')}`];
  const [part] = content.data?.message?.content ?? [];
  if (part?.type === 'text') return [part.text];
  return part?.type === 'tool_use' ? [`> ${part.input.command ?? part.input.title}`] : [];
}
