/** The queued messages of a session on a page. */

import { eventually } from '../../../scripts/lib/await.mjs';
import { waitForCount } from './browser.mjs';

export class Queue {
  constructor(page) {
    this.page = page;
    this.region = page.getByRole('region', { name: 'Queued messages' });
    this.rows = this.region.getByRole('listitem');
  }

  row(text) {
    return this.rows.filter({ hasText: text });
  }

  /** Waits until the queue has these messages in this order. */
  async waitForTexts(...texts) {
    await waitForCount(this.rows, texts.length);
    await eventually(
      async () => JSON.stringify(await this.rows.locator('.queued-summary .ellipsis').allInnerTexts()) === JSON.stringify(texts),
      `the queue ${texts}`,
    );
  }

  async open(text) {
    await this.row(text).locator('.queued-summary').click();
    return this.row(text);
  }
}
