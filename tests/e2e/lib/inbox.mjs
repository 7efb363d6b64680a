/** The inbox of the web console in tests: sessions whose agents ask, and the items on a page. */

import { liveSession } from '../../../scripts/product/clients/cli.mjs';

export const minutesAgo = (count) => Date.now() - count * 60_000;

/** A pending request to run a command. */
export const request = (command, createdAt = 1) => ({ tool: 'Bash', arguments: { command }, createdAt });

/** Creates a session whose CLI asks for permission, and completes the answered requests. `answered` has their ids and decisions. */
export async function startAsking(t, hub, namespace, name, requests, metadata = {}) {
  const { session, cli } = await liveSession(t, hub, {
    namespace,
    tag: `/code/${name}`,
    metadata: { path: `/code/${name}`, host: 'laptop', name, flavor: 'gamma', ...metadata },
  });
  const answered = [];
  let agentState = { requests: {}, completedRequests: {} };
  let version = 1;
  const update = async (next) => {
    agentState = next;
    await cli.emitWithAck('update-state', { sid: session.id, expectedVersion: version, agentState });
    version += 1;
  };
  await cli.serve(`${session.id}:permission`, async ({ id, approved }) => {
    answered.push([id, approved]);
    const { [id]: decided, ...others } = agentState.requests;
    const completed = { ...decided, status: approved ? 'approved' : 'denied', completedAt: Date.now() };
    await update({ requests: others, completedRequests: { [id]: completed } });
    return { success: true };
  });
  const setRequests = (next) => update({ requests: next, completedRequests: {} });
  if (requests) await setRequests(requests);
  return { session, cli, answered, setRequests };
}

/** The inbox on a page. */
export class InboxPage {
  /** @param {import('playwright-core').Page} page */
  constructor(page) {
    this.page = page;
    this.section = page.getByRole('region', { name: /^Waiting for you/ });
    this.items = page.locator('.inbox-item');
  }

  item(text) {
    return this.page.locator('.inbox-item', { hasText: text });
  }

  /** Returns the texts of all items, without their times. */
  async texts() {
    const texts = await this.items.locator('.inbox-text').allInnerTexts();
    return texts.map((text) => text.split('\n').join(' · '));
  }

  /** Advances the page's clock by the time for which an item stays after its answer. Needs `page.clock.install()`. */
  skipDeparture() {
    return this.page.clock.runFor(4_000);
  }

  /** Waits until the card of an item accepts keys: 600 ms after it was shown. Needs a page with a clock. */
  async waitForKeys(text) {
    await this.item(text).getByRole('button', { name: 'Deny' }).waitFor();
    await this.page.clock.runFor(600);
    await this.item(text).locator('[aria-keyshortcuts="d"]').waitFor();
  }

  /** Opens an item, and presses a button of its card. */
  async answer(text, button) {
    await this.item(text).locator('.inbox-row').click();
    await this.item(text).getByRole('button', { name: button }).click();
  }
}
