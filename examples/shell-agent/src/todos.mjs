/** The session's todos and the command `/todo`. */

import { randomUUID } from 'node:crypto';

export class Todos {
  /** @param {{id: string, content: string, status: string, priority: string}[]} [items] stored at the hub */
  constructor(items) {
    this.items = Array.isArray(items) ? items.map((item) => ({ ...item })) : [];
  }

  /**
   * Runs `/todo`, `/todo add TEXT` or `/todo done N`.
   * @param {string} words the text after `/todo`
   * @returns {{changed: boolean, text: string}}
   */
  command(words) {
    const [, verb = '', rest = ''] = /^(\S*)\s*([^]*)$/.exec(words.trim()) ?? [];
    if (verb === '') return { changed: true, text: this.toString() };
    if (verb === 'add' && rest !== '') {
      this.items.push({ id: randomUUID(), content: rest, status: 'pending', priority: 'medium' });
      return { changed: true, text: this.toString() };
    }
    if (verb === 'done') {
      const item = /^\d+$/.test(rest) ? this.items[Number(rest) - 1] : undefined;
      if (!item) return { changed: false, text: `${rest ? `There is no todo ${rest}.` : 'Give the number of a todo.'}\n${this}` };
      item.status = 'completed';
      return { changed: true, text: this.toString() };
    }
    return { changed: false, text: 'Use /todo, /todo add TEXT or /todo done N.' };
  }

  toString() {
    if (this.items.length === 0) return 'There are no todos.';
    return this.items.map(({ status, content }, i) => `${i + 1}. [${status === 'completed' ? 'x' : ' '}] ${content}`).join('\n');
  }
}
