/** The setup of the web console's tests: a hub that serves the console, a browser, and agents in real directories. */

import { after } from 'node:test';
import { startAgent } from './agent.mjs';
import { DESK, openPage, signInUrl, startBrowser } from './browser.mjs';
import { Repository } from './git.mjs';
import { startHub } from './hub.mjs';
import { Lifetime } from './lifetime.mjs';

/**
 * Starts a hub with the console, and a browser. The hub and the browser are stopped after the file's tests.
 * @param {{vars?: Record<string, unknown>, serviceWorkers?: 'allow' | 'block'}} [options] `vars`: the hub's variables.
 *   `serviceWorkers`: blocked by default, because the service worker fetches the whole console in each new context
 */
export async function startConsole({ vars, serviceWorkers = 'block' } = {}) {
  const suite = new Lifetime();
  after(() => suite.end());
  // The browser is started first: if the start fails, no hub has to be stopped.
  const browser = await startBrowser(suite);
  const hub = await startHub({ console: true, vars });
  suite.after(() => hub.stop());

  /** Opens an empty page in a new context. @see openPage */
  const open = (t, /** @type {import('playwright-core').BrowserContextOptions} */ options = DESK) =>
    openPage(t, browser, hub, { serviceWorkers, ...options });

  /** Opens a page that is signed in to a namespace. */
  const visit = async (
    t,
    namespace,
    /** @type {{path?: string} & import('playwright-core').BrowserContextOptions} */ { path = '/', ...options } = DESK,
  ) => {
    const opened = await open(t, options);
    await opened.page.goto(signInUrl(hub, namespace, path));
    await opened.page.waitForURL((url) => url.hash === '');
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

  return { hub, open, visit, startSession };
}

/** A session's conversation on a page. */
export class Chat {
  /** @param {import('playwright-core').Page} page */
  constructor(page) {
    this.page = page;
    this.composer = page.getByLabel('Message to the agent');
    this.log = page.getByRole('log', { name: 'Conversation' });
  }

  /** Types a message and sends it. */
  async send(text) {
    await this.composer.fill(text);
    await this.page.getByRole('button', { name: 'Send', exact: true }).click();
  }

  /** Returns the locator of a tool's pending request. */
  request(tool = 'Bash') {
    return this.page.getByRole('region', { name: `${tool} request` });
  }

  /** Waits for a pending request and answers it. */
  async answer(button) {
    await this.request().getByRole('button', { name: button, exact: true }).click();
    await this.request().waitFor({ state: 'detached' });
  }

  /** Waits for a text in the conversation. */
  waitForText(text) {
    return this.log.getByText(text).last().waitFor();
  }
}
