/**
 * Records the wire logs in `cli/test/transcripts` again: runs the real agents from npm with a scripted model, and compares what each agent
 * sends with the stored log. `node cli/test/agents/record.mjs --help`
 */

import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from 'session-gateway-cli-kit/find-program';
import { installAgent } from '../../../scripts/build/agents.mjs';
import { parseCommandLine } from '../../../scripts/lib/command-line.mjs';
import { main, UsageError } from '../../../scripts/lib/errors.mjs';
import { tempDir } from '../../../packages/cli-kit/test/support/repository.mjs';
import { AcpSession } from '../../src/acp-session.mjs';
import { AGENTS } from '../../src/agents.mjs';
import { environmentFor, KEY } from './environments.mjs';
import { startModel } from './model/server.mjs';
import { shapesOf } from './shapes.mjs';

const NAMES = Object.keys(AGENTS);
const TRANSCRIPTS = fileURLToPath(new URL('../transcripts/', import.meta.url));
const WIRE_LOG = fileURLToPath(new URL('wire-log.mjs', import.meta.url));

const PROMPT = 'This is prompt 1.';
const MINUTE_MS = 60_000;
const CANCEL_MS = 30_000;

/** Agents send the title and the usage some time after the reply. */
const LATE_MS = 1000;

/** How long a command runs before it is canceled. */
const RUNNING_MS = 1500;

/** Limits on what is kept of the long lists and texts that agents send. */
const MAX_ITEMS = 3;
const MAX_TEXT = 120;

/** The permission modes in which the agents ask for edits. */
const MODES = { codex: 'read-only' };

const FILES = { 'README.md': '# demo\nline two\n', 'notes.txt': 'The word is zebra.\n' };

/** What the provider of Claude Code's model says about the limits of a plan, which only a user who has signed in has. */
const PLAN = {
  headers: () => {
    const windows = [
      ['5h', 0.42, 5],
      ['7d', 0.17, 7 * 24],
    ];
    const prefix = 'anthropic-ratelimit-unified';
    const fields = windows.flatMap(([name, used, hours]) => [
      [`${prefix}-${name}-status`, 'allowed'],
      [`${prefix}-${name}-utilization`, `${used}`],
      [`${prefix}-${name}-reset`, `${Math.floor(Date.now() / 1000) + Number(hours) * 3600}`],
    ]);
    return Object.fromEntries([...fields, [`${prefix}-status`, 'allowed'], [`${prefix}-representative-claim`, 'five_hour']]);
  },
  env: { ANTHROPIC_API_KEY: undefined, CLAUDE_CODE_OAUTH_TOKEN: KEY },
};

/** The prompt of the sub-agent. */
const HELPER = 'Helper prompt A.';

/**
 * What happens in each log. `agents`: the agents that have a log, by default all; `steps`: of the scripted model, with the path of a file
 * in the directory, none to set each mode of the agent instead; `helper`: the steps of the sub-agent; `decide`: the answer to each request;
 * `cancelsRunning`: whether the turn is canceled while a command runs; `hasPlan`: whether the user has a plan with limits; `before`: the
 * steps of an earlier turn, whose session is then loaded in a new process. Calls in parallel may have another order in each log.
 * @typedef {(file: (name: string) => string) => import('./model/script.mjs').Step[]} Steps
 * @typedef {{agents?: string[], steps?: Steps, helper?: Steps, before?: object[],
 *   decide?: 'allow_once' | 'allow_always' | 'reject_once' | 'cancel', cancelsRunning?: boolean, hasPlan?: boolean}} Scenario
 */

/** @type {Record<string, Scenario>} */
const SCENARIOS = {
  turn: {
    steps: (file) => [
      { think: 'I should look around first' },
      { say: 'Hello there, I will run a command.' },
      { run: 'echo one && echo two', isInSandbox: true },
      { say: 'Now a file.' },
      { write: [file('new.txt'), 'hello file'] },
      { say: 'And a plan.' },
      {
        todos: [
          ['first', 'completed'],
          ['second', 'in_progress'],
          ['third', 'pending'],
        ],
      },
      { say: 'All done.' },
    ],
  },
  edit: { steps: (file) => [{ read: file('README.md') }, { edit: [file('README.md'), 'line two', 'line 2'] }, { say: 'Edited.' }] },
  reject: { steps: () => [{ run: 'touch no.txt' }, { say: 'It was refused.' }], decide: 'reject_once' },
  cancelperm: { steps: () => [{ run: 'touch x.txt' }, { say: 'never' }], decide: 'cancel' },
  cancelrun: { steps: () => [{ run: 'sleep 30', isInSandbox: true }, { say: 'never' }], cancelsRunning: true },
  'load-2-load': {
    before: [{ think: 'hm' }, { say: 'First answer.' }, { run: 'echo kept', isInSandbox: true }, { say: 'Second answer.' }],
    steps: () => [{ say: 'I am back.' }],
  },
  parallel: { steps: () => [{ parallel: [{ run: 'touch p1.txt' }, { run: 'touch p2.txt' }] }, { say: 'ok' }] },
  plan: {
    agents: ['claude', 'codex', 'opencode'],
    steps: () => [
      {
        todos: [
          ['first', 'pending'],
          ['second', 'pending'],
        ],
      },
      {
        todos: [
          ['first', 'completed'],
          ['second', 'pending'],
        ],
      },
      { say: 'planned' },
    ],
  },
  ask: { agents: ['claude', 'qwen'], steps: () => [{ ask: ['Which colour?', ['red', 'blue']] }, { say: 'thanks' }] },
  subagent: {
    agents: ['claude', 'codex', 'qwen'],
    steps: () => [
      { say: 'I start a helper.' },
      { task: HELPER },
      // The sub-agent of Codex ends while this command runs.
      { run: 'sleep 3; true' },
      { say: 'The helper is done.' },
    ],
    helper: (file) => [{ say: 'I look.' }, { read: file('notes.txt') }, { run: 'touch made.txt' }, { say: 'The word is zebra.' }],
  },
  limits: { agents: ['claude'], steps: () => [{ say: 'Hello.' }], hasPlan: true },
  modes: { agents: ['copilot', 'gemini'] },
  execperm: {
    agents: ['codex', 'gemini'],
    steps: () => [{ run: 'touch esc.txt' }, { run: 'touch esc.txt' }, { say: 'after' }],
    decide: 'allow_always',
  },
};

const USAGE = `Usage: node cli/test/agents/record.mjs [options]

Runs real agents from npm with a scripted model, and compares the messages that each agent sends with its log in
cli/test/transcripts: the kinds of messages, the names of fields, the order.

  --agent NAME     one agent; repeatable: ${NAMES.join(', ')}
  --scenario NAME  one scenario; repeatable: ${Object.keys(SCENARIOS).join(', ')}
  --output FOLDER  writes the new logs to a folder
  --write          replaces the logs that differ (the tests of the logs may then need other expectations)
  --help           this text`;

await main(async () => {
  const options = parseCommandLine(process.argv.slice(2), USAGE, {
    agent: { type: 'string', multiple: true, default: NAMES },
    scenario: { type: 'string', multiple: true, default: Object.keys(SCENARIOS) },
    output: { type: 'string' },
    write: { type: 'boolean', default: false },
  });
  for (const [option, known] of Object.entries({ agent: NAMES, scenario: Object.keys(SCENARIOS) })) {
    const unknown = options[option].find((name) => !known.includes(name));
    if (unknown !== undefined) throw new UsageError(`--${option} must be one of ${known.join(', ')}, not ${unknown}.`, USAGE);
  }
  if (options.output) mkdirSync(options.output, { recursive: true });
  for (const agent of options.agent) {
    for (const scenario of options.scenario) {
      if (!(SCENARIOS[scenario].agents ?? NAMES).includes(agent)) continue;
      const name = `${agent}-${scenario}`;
      const log = await withCleanUp((t) => record(t, agent, SCENARIOS[scenario]));
      if (options.output) writeFileSync(path.join(options.output, `${name}.jsonl`), log);
      const stored = path.join(TRANSCRIPTS, `${name}.jsonl`);
      const differences = compare(existsSync(stored) ? readFileSync(stored, 'utf8') : '', log);
      console.log([`${name}: ${differences.length === 0 ? 'as stored' : 'differs'}`, ...differences].join('\n  '));
      if (options.write && differences.length > 0) writeFileSync(stored, log);
    }
  }
  return 0;
});

/** Calls a function with a substitute for the context of a test. @param {(t: {after: (step: () => unknown) => void}) => Promise<string>} run */
async function withCleanUp(run) {
  const steps = [];
  try {
    return await run({ after: (step) => steps.unshift(step) });
  } finally {
    for (const step of steps) await step();
  }
}

/**
 * Records a scenario.
 * @param {{after: (step: () => unknown) => void}} t
 * @param {string} agent
 * @param {Scenario} scenario
 * @returns {Promise<string>} the log without paths of this computer
 */
async function record(t, agent, scenario) {
  const { steps, helper, before, decide = 'allow_once', cancelsRunning, hasPlan = false } = scenario;
  const bin = await installAgent(agent);
  const base = tempDir(t);
  const [dir, home, uploads] = ['served', 'home', 'uploads'].map((folder) => path.join(base, folder));
  for (const folder of [dir, home, uploads]) mkdirSync(folder);
  for (const [name, text] of Object.entries(FILES)) writeFileSync(path.join(dir, name), text);
  const model = await startModel(hasPlan ? { headers: PLAN.headers() } : {});
  t.after(() => model.stop());
  const env = { ...environmentFor(agent, { url: model.url, home, bin }), ...(hasPlan ? PLAN.env : {}) };
  const logFile = path.join(base, 'wire.jsonl');
  const file = (name) => path.join(dir, name);
  if (helper) model.answer(HELPER, helper(file));
  const entry = AGENTS[agent];
  const program = findProgram(entry.command, env);
  /** Opens a session, and runs a turn, or sets each mode. */
  const run = async (text, answer, sessionId) => {
    if (answer) model.answer(text, answer);
    rmSync(logFile, { force: true });
    const running = new AbortController();
    let cancel = () => {};
    const session = await AcpSession.open({
      launch: { name: agent, title: entry.title, argv: [process.execPath, WIRE_LOG, logFile, program, ...entry.args], entry },
      cwd: dir,
      uploads,
      env: { ...process.env, ...env },
      sessionId,
      mustLoad: sessionId !== undefined,
      signal: new AbortController().signal,
      log: { debug: () => {} },
      onUpdate: ({ sessionUpdate, kind }) => sessionUpdate.startsWith('tool_call') && kind === 'execute' && running.abort(),
      onPermission: async ({ options }) => {
        if (decide === 'cancel') {
          cancel();
          return { outcome: { outcome: 'cancelled' } };
        }
        running.abort();
        return { outcome: { outcome: 'selected', optionId: options.find(({ kind }) => kind === decide).optionId } };
      },
      onElicitation: async ({ requestedSchema: { properties } }) => ({
        action: 'accept',
        content: Object.fromEntries(Object.entries(properties).flatMap(([key, { oneOf }]) => (oneOf ? [[key, oneOf[0].const]] : []))),
      }),
    });
    t.after(() => session.end());
    await session.config.setMode(entry.modes[MODES[agent] ?? 'default']);
    if (!answer) {
      for (const { id } of session.config.modes) await session.config.setMode(id);
      await delay(LATE_MS);
      await session.close();
      return session.id;
    }
    const reply = session.prompt([{ type: 'text', text }]);
    cancel = () => session.cancel(reply, CANCEL_MS);
    if (cancelsRunning) {
      if (!running.signal.aborted) await once(running.signal, 'abort');
      await delay(RUNNING_MS);
      cancel();
    }
    await reply;
    await delay(LATE_MS);
    await session.close();
    return session.id;
  };
  if (before) {
    const sessionId = await run('remember me', before);
    const minute = await entry.findStartMinute?.(env, sessionId);
    if (minute) await delay(Math.max(0, minute + MINUTE_MS - Date.now()));
    await run(PROMPT, steps(file), sessionId);
  } else {
    await run(PROMPT, steps?.(file));
  }
  return clean(readFileSync(logFile, 'utf8'), [
    [dir, '/home/ada/project'],
    [home, '/home/ada'],
    [base, '/home/ada'],
    [path.resolve(bin, '../..'), '/opt/agent'],
    [new URL(model.url).host, '127.0.0.1:1234'],
  ]);
}

/** Removes the end of the session, paths, and most of the long lists that agents send. */
function clean(log, replacements) {
  const lines = replacements.reduce((text, [from, to]) => text.replaceAll(from, to), log).split('\n');
  const end = lines.findIndex((line) => line.includes('"method":"session/close"'));
  const shorten = (key, value) => {
    if (
      /^(availableCommands|availableModels|availableSkills|availableSkillDetails|options)$/.test(key) &&
      value.length > MAX_ITEMS &&
      !value[0].kind
    )
      return value.slice(0, MAX_ITEMS);
    return key === 'description' || key === 'body' ? value?.slice(0, MAX_TEXT) : value;
  };
  const kept = lines.slice(0, end < 0 ? undefined : end).filter((line) => line !== '');
  return kept.map((line) => `${JSON.stringify(JSON.parse(line, shorten))}\n`).join('');
}

/** Lists the shapes of one log that the other log lacks; for the same shapes, whether their order differs. */
function compare(stored, recorded) {
  const [storedShapes, newShapes] = [stored, recorded].map(shapesOf);
  const listMissing = (shapes, others, sign) =>
    [...new Set(others)].filter((shape) => !shapes.includes(shape)).map((shape) => `${sign} ${shape}`);
  const changes = [...listMissing(newShapes, storedShapes, '-'), ...listMissing(storedShapes, newShapes, '+')];
  const isSameOrder = storedShapes.join() === newShapes.join();
  return changes.length > 0 || isSameOrder ? changes : ['in another order', ...newShapes.map((shape) => `= ${shape}`)];
}
