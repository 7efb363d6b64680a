/** The list of sessions from memory and from D1. tests/it has all other cases: session_list, routes.rs, cli_sockets.rs. */

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertRefused } from './lib/assertions.mjs';
import { startHub } from './lib/hub.mjs';

const hub = await startHub();
after(() => hub.stop());

test('the list of sessions has the same pages from memory and after a hibernation', async () => {
  const web = hub.web('pages');
  const long = '\u0000é"'.repeat(300);
  for (let index = 0; index < 5; index++) {
    const metadata = { name: `${index}`, agentName: 'Zeta', summary: { text: long }, worktree: { branch: long, other: 1 }, flavor: 7 };
    await web.openSession({ tag: `page-${index}`, metadata });
  }
  const readPages = async () => {
    const pages = [];
    let cursor = '';
    do {
      const { body } = await web.get(`/api/sessions?limit=2&cursor=${cursor}`);
      pages.push(body.sessions);
      cursor = body.nextCursor;
    } while (cursor !== undefined);
    return pages;
  };
  const pages = await readPages();
  assert.deepEqual(
    pages.map((page) => page.map(({ metadata }) => metadata.name).join('')),
    ['43', '21', '0'],
  );
  const { summary, worktree, agentName, flavor } = pages[0][0].metadata;
  assert.ok(summary.text.length >= 150 && long.startsWith(summary.text), summary.text);
  assert.deepEqual([worktree, agentName, flavor], [{ branch: summary.text }, 'Zeta', null]);
  await hub.hibernate('pages');
  assert.deepEqual(await readPages(), pages);
  assertRefused(await web.get('/api/sessions?cursor=2'), 400, 'invalid_field', 'cursor');
});
