/** The walk through of the README, taken as it stands: every command in it is run, and answers what it says. */

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { startAgent } from './lib/agent.mjs';
import { eventually, within } from './lib/await.mjs';
import { start } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, SECRET, startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

/** Where the README's hub is. */
const ADDRESS = 'http://127.0.0.1:8787';

/**
 * The fenced blocks of a section, in order: a block of commands, and the answers up to the next one.
 * @param {string} from heading that the section begins with
 * @param {string} to heading that it ends before
 * @returns {{commands: string, answers: string[]}[]}
 */
function steps(from, to) {
  const text = readFileSync(path.join(ROOT, 'README.md'), 'utf8');
  const section = text.slice(text.indexOf(`\n${from}\n`), text.indexOf(`\n${to}\n`));
  const found = [];
  for (const [, language, body] of section.matchAll(/^```(\w*)\n([^]*?)^```$/gm)) {
    if (language === 'sh') found.push({ commands: body, answers: [] });
    else found.at(-1).answers.push(body);
  }
  return found;
}

/** What is another text with each run, as the README has it. */
const CHANGES = [
  [/…/, '[^]*?'],
  [/\/home\/ada(?:\/\.session-gateway)?/, '[^"\']*?'],
  [/[0-9a-f]{8}-[0-9a-f-]*/, '[0-9a-f-]+'],
  [/[0-9a-f]{8}(?=-notes\.txt)/, '[0-9a-f]{8}'],
  [/\d{13,}/, '\\d+'],
  [/"laptop"/, '"[^"]+"'],
];

/** An answer of the README as a pattern: without white space, and with room for what changes. @param {string} answer */
function pattern(answer) {
  const any = new RegExp(CHANGES.map(([{ source }]) => `(${source})`).join('|'), 'g');
  const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  let whole = '';
  let at = 0;
  const text = answer.replace(/\s+/g, '');
  for (const match of text.matchAll(any)) {
    const which = match.slice(1).findIndex((group) => group !== undefined);
    whole += escaped(text.slice(at, match.index)) + CHANGES[which][1];
    at = match.index + match[0].length;
  }
  return new RegExp(whole + escaped(text.slice(at)));
}

const assertSays = (output, answer, what) =>
  assert.match(output.replace(/\s+/g, ''), pattern(answer), `${what} does not answer what the README says:\n${output}`);

/** A shell that keeps its variables from block to block, as a terminal does. */
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

  /** Types a block, and answers what it printed until all of it was done. */
  async type(commands) {
    this.#output = '';
    const mark = '=== done ===';
    const done = new Promise((resolve) => {
      this.#changed = () => this.#output.includes(mark) && resolve();
    });
    this.#shell.stdin.write(`${commands}\necho '${mark}'\n`);
    await within(done, `the end of ${commands}`);
    return this.#output.replace(mark, '');
  }
}

test('the walk through of the README does what it says', async (t) => {
  const home = temporaryFolder(t);
  const project = temporaryFolder(t);
  writeFileSync(path.join(project, '.dev.vars'), `CLI_API_TOKEN=${SECRET}\n`);

  const [, repository] = steps('## Quick start', '## A walk through');
  const prepare = repository.commands.replace(/^npm run agent.*\n/m, '');
  assert.notEqual(prepare, repository.commands);
  execFileSync('bash', ['-euc', prepare], { env: { ...process.env, HOME: home }, stdio: 'ignore' });
  const agent = await startAgent(t, hub, { dir: path.join(home, 'demo') });
  const web = hub.web();

  /** The agent has done what it can: it waits for a message, or for permission. */
  const settled = async () => {
    const { session } = (await web.get(`/api/sessions/${agent.sessionId}`)).body;
    if (Object.keys(session.agentState?.requests ?? {}).length > 0 || session.seq === 0) return true;
    const [{ content }] = (await web.get(`/api/sessions/${agent.sessionId}/messages?limit=1`)).body.messages;
    return content.content?.data?.type === 'ready';
  };

  const terminal = new Terminal(t, { cwd: project, home });
  const walk = steps('## A walk through', '## What is where');
  assert.ok(walk.length >= 15, `${walk.length} blocks were found`);
  const heard = [];
  let events;
  for (const { commands, answers } of walk) {
    const here = commands.replaceAll(ADDRESS, hub.url);
    if (commands.includes('/events')) {
      // The fourth terminal.
      const authorization = `Authorization: Bearer ${SECRET}`;
      const query = `sessionId=${agent.sessionId}`;
      events = start(t, 'the fourth terminal', 'curl', ['-sS', '-N', '-H', authorization, `${hub.url}/api/events?${query}`]);
      await events.lines.first((line) => line.includes('connection-changed'), 'the greeting');
      heard.push(answers[0]);
      continue;
    }
    const output = await terminal.type(here);
    await eventually(settled, 'the agent to wait');
    const [answer, ...inFourthTerminal] = answers;
    if (answer !== undefined) assertSays(output, answer, commands);
    else assert.equal(output.trim(), '', commands);
    heard.push(...inFourthTerminal);
  }
  assert.ok(heard.length >= 2);
  for (const answer of heard) assertSays(events.lines.all.join('\n'), answer, 'the fourth terminal');
});
