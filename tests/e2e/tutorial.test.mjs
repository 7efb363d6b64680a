/** Runs the commands of the README's quick start and of docs/TUTORIAL.md, and compares their output with the pages. */

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, test } from 'node:test';
import { startAgent } from './lib/agent.mjs';
import { eventually } from '../../scripts/lib/await.mjs';
import { start } from './lib/children.mjs';
import { temporaryFolder } from './lib/git.mjs';
import { ROOT, SECRET, startHub } from './lib/hub.mjs';
import { assertShows, Terminal, toPattern } from './lib/terminal.mjs';

const hub = await startHub({ after });

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

  const readSession = async () => (await web.get(`/api/sessions/${agent.sessionId}`)).body.session;
  const idsOfRequests = (session) => Object.keys(session.agentState?.requests ?? {});

  /** Whether the agent waits for a message or a permission, and the answered requests are gone. */
  const isWaiting = async (answered) => {
    const session = await readSession();
    const requests = idsOfRequests(session);
    if (requests.some((id) => answered.includes(id))) return false;
    if (requests.length > 0 || session.seq === 0) return true;
    const [{ content }] = (await web.get(`/api/sessions/${agent.sessionId}/messages?limit=1`)).body.messages;
    return content.content?.data?.type === 'ready';
  };

  const terminal = new Terminal(t, { cwd: project, env: { HOME: home } });
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
    const answered = commands.includes('/permissions/') ? idsOfRequests(await readSession()) : [];
    const { output } = await terminal.run(localCommands);
    await eventually(() => isWaiting(answered), 'the agent to wait');
    const [expected, ...eventOutputs] = outputs;
    if (expected !== undefined) assertShows(output, expected, commands);
    else assert.equal(output.trim(), '', commands);
    expectedEvents.push(...eventOutputs);
  }
  assert.ok(expectedEvents.length >= 2);
  const printedEvents = () => events.lines.all.join('\n');
  const arrived = (expected) => toPattern(expected).test(printedEvents().replace(/\s+/g, ''));
  await eventually(() => expectedEvents.every(arrived), 'the events').catch(() => {});
  for (const expected of expectedEvents) assertShows(printedEvents(), expected, 'the fourth terminal');
});
