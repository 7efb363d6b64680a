/** The setup of the web console's tests: a hub that serves the console, a browser, and agents in real directories. */

import { after } from 'node:test';
import { eventually } from '../../../scripts/lib/await.mjs';
import { startAgent } from './agent.mjs';
import { DESK, openPage, startBrowser, signIn } from './browser.mjs';
import { Repository } from './git.mjs';
import { startHub } from './hub.mjs';
import { Lifetime } from './lifetime.mjs';
import { liveTalk } from './records.mjs';

/**
 * Starts a hub with the console, and a browser. The hub and the browser are stopped after the file's tests.
 * @param {{vars?: Record<string, unknown>, wrappers?: string[], serviceWorkers?: 'allow' | 'block', whole?: boolean}} [options] `vars`:
 *   the hub's variables. `wrappers`: see `startHub`. `serviceWorkers`: blocked by default, because the service worker fetches the whole console
 *   in each new context. `whole`: see `startBrowser`
 */
export async function startConsole({ vars, wrappers, serviceWorkers = 'block', whole } = {}) {
  const suite = new Lifetime();
  after(() => suite.end());
  // The browser is started first: if the start fails, no hub has to be stopped.
  const browser = await startBrowser(suite, { whole });
  const hub = await startHub(suite, { console: true, vars, wrappers });

  /** Opens an empty page in a new context. @see openPage */
  const open = (t, /** @type {import('playwright-core').BrowserContextOptions} */ options = DESK) =>
    openPage(t, browser, hub, { serviceWorkers, ...options });

  /** Opens a page that is signed in to a namespace. `hasClock`: the test can advance the page's clock, which also runs by itself. */
  const visit = async (
    t,
    namespace,
    /** @type {{path?: string, hasClock?: boolean} & import('playwright-core').BrowserContextOptions} */
    { path = '/', hasClock = false, ...options } = DESK,
  ) => {
    const opened = await open(t, options);
    if (hasClock) await opened.page.clock.install();
    await signIn(opened.page, hub, namespace, path);
    return opened;
  };

  /**
   * Creates a repository with one commit, starts an agent in it, and opens a page with its session.
   * @param {{after: (step: () => unknown) => void}} t
   * @param {string} namespace
   * @param {{args?: string[], home?: string, options?: object}} [how] the agent's arguments and the folder of its state, and the
   *   page's options
   */
  const startSession = async (t, namespace, { args = [], home, options = DESK } = {}) => {
    const repository = new Repository(t);
    repository.write('notes.txt', 'one\n');
    repository.write('src/main.rs', 'fn main() {\n    println!("hello");\n}\n');
    repository.commit('first');
    const agent = await startAgent(t, hub, { dir: repository.folder, home, namespace, args });
    const opened = await visit(t, namespace, { ...options, path: `/sessions/${agent.sessionId}` });
    return { repository, agent, ...opened, chat: new Chat(opened.page) };
  };

  /** Creates a live session, and opens it on a page. @see liveTalk */
  const openTalk = async (t, namespace, /** @type {Parameters<typeof liveTalk>[3]} */ session = {}, options = DESK) => {
    const talk = await liveTalk(t, hub, namespace, session);
    const opened = await visit(t, namespace, { ...options, path: talk.path });
    return { ...talk, ...opened, chat: new Chat(opened.page) };
  };

  return { hub, open, visit, startSession, openTalk };
}

/** Types a directory into the form for a new session. Without recent directories, its field is shown at once. */
export async function fillDirectory(page, directory) {
  const other = page.getByRole('radio', { name: 'Another directory …' });
  await page.getByRole('textbox', { name: 'Task' }).waitFor();
  if ((await other.count()) > 0) await other.check();
  await page.getByRole('textbox', { name: 'Directory' }).fill(directory);
}

/** Opens the section with the agent and the model in the form for a new session. */
export async function openMore(page) {
  await page.locator('details.more').waitFor();
  const closed = page.locator('details.more:not([open]) > summary');
  if ((await closed.count()) > 0) await closed.click();
}

/**
 * Waits until the browser's database has `count` records of a kind.
 * @param {import('playwright-core').Page} page
 * @param {string} kind
 * @param {number} count
 * @param {string} [namespace] counts only the records of this namespace
 */
export function waitForRecords(page, kind, count, namespace) {
  /** @param {[kind: string, namespace: string | undefined]} wanted */
  const countRecords = ([wantedKind, wantedNamespace]) =>
    new Promise((resolve, reject) => {
      const opening = indexedDB.open('console');
      opening.onerror = () => reject(opening.error);
      opening.onsuccess = () => {
        const request = opening.result.transaction('records').objectStore('records').getAllKeys();
        request.onsuccess = () => {
          opening.result.close();
          const keys = /** @type {string[][]} */ (request.result);
          resolve(keys.filter(([owner, other]) => other === wantedKind && [undefined, owner].includes(wantedNamespace)).length);
        };
      };
    });
  const description = `${count} records of “${kind}”${namespace === undefined ? '' : ` in “${namespace}”`}`;
  return eventually(
    async () => (await page.evaluate(countRecords, /** @type {[string, string | undefined]} */ ([kind, namespace]))) === count,
    description,
  );
}

/** A session's conversation on a page. */
export class Chat {
  /** @param {import('playwright-core').Page} page */
  constructor(page) {
    this.page = page;
    this.composer = page.getByLabel('Message to the agent');
    this.log = page.getByRole('log', { name: 'Conversation' });
  }

  /** Types a message and sends it. Waits until no dialog covers the composer: a covered field takes no text. */
  async send(text) {
    await this.page.waitForFunction(() => document.querySelector('dialog:modal') === null);
    await this.composer.fill(text);
    await this.page.getByRole('button', { name: 'Send', exact: true }).click();
  }

  /** Returns the locator of a tool's pending request. */
  request(tool = 'Bash') {
    return this.page.getByRole('region', { name: `${tool} request` });
  }

  /** Waits for a pending request and answers it. */
  async answer(button, tool = 'Bash') {
    await this.choose(this.request(tool), button);
    await this.request(tool).waitFor({ state: 'detached' });
  }

  /** Clicks an answer of a request: a button of its card, or of the sheet with all other answers. */
  async choose(card, button) {
    if (['Approve', 'Deny', 'Answer', 'Keep planning'].includes(button))
      return card.getByRole('button', { name: button, exact: true }).click();
    await card.getByRole('button', { name: 'More', exact: true }).click();
    await this.moreAnswers.getByRole('button', { name: button, exact: true }).click();
  }

  /** The sheet with all answers that are not buttons of the card. */
  get moreAnswers() {
    return this.page.getByRole('dialog', { name: 'More answers' });
  }

  /** Returns the answers in the sheet of a request. */
  async answersInSheet(card) {
    await card.getByRole('button', { name: 'More', exact: true }).click();
    await this.moreAnswers.waitFor();
    const texts = await this.moreAnswers.getByRole('button').allInnerTexts();
    await this.page.keyboard.press('Escape');
    await this.moreAnswers.waitFor({ state: 'detached' });
    return texts.slice(0, -1);
  }

  /** Denies a request with a reason. */
  async denyWithReason(card, reason) {
    await this.choose(card, 'Deny with a reason …');
    await this.page
      .getByRole('dialog')
      .getByLabel(/Reason for the agent/)
      .fill(reason);
    await this.page.getByRole('dialog').getByRole('button', { name: 'Deny' }).click();
    await this.page.getByRole('dialog').waitFor({ state: 'detached' });
  }

  /** Opens the composer, which is folded to a line while a decision is open. */
  async openComposer() {
    await this.page.getByRole('button', { name: /^(Write a message|Draft:)/ }).click();
    await this.composer.waitFor();
  }

  /** The texts of the user, in the order in which they are shown. */
  said() {
    return this.log.locator('.user-message-text').allInnerTexts();
  }

  /** Waits for a text in the conversation. */
  waitForText(text) {
    return this.log.getByText(text).last().waitFor();
  }
}
