/** The session's todos and the command `/todo`. */

import { randomUUID } from 'node:crypto';

export class Todos {
  /** @param {{id: string, content: string, status: string, priority: string}[]} [items] the todos that the hub has stored */
  constructor(items) {
    this.items = Array.isArray(items) ? items.map((item) => ({ ...item })) : [];
  }

  /**
   * Runs `/todo`, `/todo add TEXT` or `/todo done N`.
   * @param {string} argumentText the text after `/todo`
   * @returns {{isChanged: boolean, text: string}} `isChanged`: whether the hub must store the todos again
   */
  runCommand(argumentText) {
    const [, verb = '', argument = ''] = /^(\S*)\s*([^]*)$/.exec(argumentText.trim()) ?? [];
    if (verb === '') return { isChanged: true, text: this.toString() };
    if (verb === 'add' && argument !== '') {
      this.items.push({ id: randomUUID(), content: argument, status: 'pending', priority: 'medium' });
      return { isChanged: true, text: this.toString() };
    }
    if (verb === 'done') {
      const item = /^\d+$/.test(argument) ? this.items[Number(argument) - 1] : undefined;
      if (!item) return { isChanged: false, text: `${argument ? `There is no todo ${argument}.` : 'Give the number of a todo.'}\n${this}` };
      item.status = 'completed';
      return { isChanged: true, text: this.toString() };
    }
    return { isChanged: false, text: 'Use /todo, /todo add TEXT or /todo done N.' };
  }

  toString() {
    if (this.items.length === 0) return 'There are no todos.';
    return this.items.map(({ status, content }, i) => `${i + 1}. [${status === 'completed' ? 'x' : ' '}] ${content}`).join('\n');
  }
}
