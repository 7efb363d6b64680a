/** Runs the commands of the README's quick start and of docs/TUTORIAL.md, and compares their output with the pages. */

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { startAgent } from './lib/agent.mjs';
import { eventually, withTimeout } from '../../scripts/lib/await.mjs';
import { start } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, SECRET, startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

/** The hub's address in both pages. */
const ADDRESS = 'http://127.0.0.1:8787';

/**
 * The fenced blocks of a page in order: each block of commands with the output blocks that follow it.
 * @param {string} page path of the page
 * @param {string} [heading] only blocks of this section
 * @returns {{commands: string, outputs: string[]}[]}
 */
function readSteps(page, heading) {
  const text = readFileSync(path.join(ROOT, page), 'utf8');
  const section = heading === undefined ? text : text.split(`\n${heading}\n`)[1].split('\n## ')[0];
  const steps = [];
  for (const [, language, body] of section.matchAll(/^```(\w*)\n([^]*?)^```$/gm)) {
    if (language === 'sh') steps.push({ commands: body, outputs: [] });
    else steps.at(-1).outputs.push(body);
  }
  return steps;
}

/** Patterns of texts that differ in each run: the pattern in the page, and the pattern that the output must match. */
/** @type {[RegExp, string][]} */
const VARIABLE_TEXTS = [
  [/…/, '[^]*?'],
  [/\/home\/ada(?:\/\.session-gateway)?/, '[^"\']*?'],
  [/[0-9a-f]{8}-[0-9a-f-]*/, '[0-9a-f-]+'],
  [/[0-9a-f]{8}(?=-notes\.txt)/, '[0-9a-f]{8}'],
  [/\d{13,}/, '\\d+'],
  [/"laptop"/, '"[^"]+"'],
];

/** Returns a pattern for an output of a page, without white space. @param {string} expected */
function toPattern(expected) {
  const variableText = new RegExp(VARIABLE_TEXTS.map(([text]) => `(${text.source})`).join('|'), 'g');
  const escapePattern = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  let source = '';
  let end = 0;
  const text = expected.replace(/\s+/g, '');
  for (const match of text.matchAll(variableText)) {
    const which = match.slice(1).findIndex((group) => group !== undefined);
    source += escapePattern(text.slice(end, match.index)) + VARIABLE_TEXTS[which][1];
    end = match.index + match[0].length;
  }
  return new RegExp(source + escapePattern(text.slice(end)));
}

const assertShows = (output, expected, what) =>
  assert.match(output.replace(/\s+/g, ''), toPattern(expected), `${what}: the output differs from the page:\n${output}`);

/** A shell whose variables last from block to block. */
class Terminal {
  #shell;
  #output = '';
  #changed = () => {};

  constructor(t, { cwd, home }) {
    this.#shell = spawn('bash', { cwd, env: { ...process.env, HOME: home }, stdio: ['pipe', 'pipe', 'pipe'] });
    t.after(() => this.#shell.kill('SIGKILL'));
    for (const stream of [this.#shell.stdout, this.#shell.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.#output += text;
        this.#changed();
      });
    }
  }

  /** Runs a block and returns its output. */
  async run(commands) {
    this.#output = '';
    const endMarker = '=== done ===';
    const done = new Promise((resolve) => {
      this.#changed = () => this.#output.includes(endMarker) && resolve();
    });
    this.#shell.stdin.write(`${commands}\necho '${endMarker}'\n`);
    await withTimeout(done, `the end of ${commands}`);
    return this.#output.replace(endMarker, '');
  }
}

test('the commands of the quick start and the tutorial print what the pages show', async (t) => {
  const home = temporaryFolder(t);
  const project = temporaryFolder(t);
  writeFileSync(path.join(project, '.dev.vars'), `CLI_API_TOKEN=${SECRET}\n`);

  const { commands } = readSteps('README.md', '## Quick start').find((step) => step.commands.startsWith('git init'));
  const preparation = commands.replace(/^npm run agent.*\n/m, '');
  assert.notEqual(preparation, commands);
  execFileSync('bash', ['-euc', preparation], { env: { ...process.env, HOME: home }, stdio: 'ignore' });
  const agent = await startAgent(t, hub, { dir: path.join(home, 'demo') });
  const web = hub.web();

  /** Whether the agent waits for a message or a permission. */
  const isWaiting = async () => {
    const { session } = (await web.get(`/api/sessions/${agent.sessionId}`)).body;
    if (Object.keys(session.agentState?.requests ?? {}).length > 0 || session.seq === 0) return true;
    const [{ content }] = (await web.get(`/api/sessions/${agent.sessionId}/messages?limit=1`)).body.messages;
    return content.content?.data?.type === 'ready';
  };

  const terminal = new Terminal(t, { cwd: project, home });
  const tutorial = readSteps('docs/TUTORIAL.md');
  assert.ok(tutorial.length >= 15, `${tutorial.length} blocks were found`);
  const expectedEvents = [];
  let events;
  for (const { commands, outputs } of tutorial) {
    const localCommands = commands.replaceAll(ADDRESS, hub.url);
    if (commands.includes('/events')) {
      const authorization = `Authorization: Bearer ${SECRET}`;
      const query = `sessionId=${agent.sessionId}`;
      events = start(t, 'the fourth terminal', 'curl', ['-sS', '-N', '-H', authorization, `${hub.url}/api/events?${query}`]);
      await events.lines.first((line) => line.includes('connection-changed'), 'the first event');
      expectedEvents.push(outputs[0]);
      continue;
    }
    const output = await terminal.run(localCommands);
    await eventually(isWaiting, 'the agent to wait');
    const [expected, ...eventOutputs] = outputs;
    if (expected !== undefined) assertShows(output, expected, commands);
    else assert.equal(output.trim(), '', commands);
    expectedEvents.push(...eventOutputs);
  }
  assert.ok(expectedEvents.length >= 2);
  for (const expected of expectedEvents) assertShows(events.lines.all.join('\n'), expected, 'the fourth terminal');
});
